// SPDX-License-Identifier: MIT
// Makes elements of HTML and SVG.

/** An element of HTML with properties and children. */
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** An element of SVG with attributes and children. */
export function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes))
    made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Shows figures in a list: [[name, text], …]. */
export const showFigures = (list, rows) => list.replaceChildren(...rows.map(([name, text]) =>
  element('div', {}, element('dt', { textContent: name }), element('dd', { textContent: text }))));

export const at = (id) => document.getElementById(id);
