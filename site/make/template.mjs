// SPDX-License-Identifier: MIT
// What all pages have: the head, the links at the top, and the foot.

export const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);

/** The text of HTML, with something in the place of each tag. */
export const plainOf = (html, between = '') => html.replace(/<[^>]*>/g, between).replace(/&(?:(lt|gt|amp|quot)|#(x?)([0-9a-f]+));/gi, (_all, name, isHex, code) =>
  (name ? { lt: '<', gt: '>', amp: '&', quot: '"' }[name] : String.fromCodePoint(parseInt(code, isHex ? 16 : 10))));

/** No page asks for anything that is not in its own folder. */
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'";

const places = [
  ['index.html', 'tamis'],
  ['planner.html', 'Choose a filter'],
  ['file.html', 'Open a saved filter'],
  ['watch.html', 'Watch a filter work'],
  ['docs/index.html', 'Documentation'],
  ['reference/index.html', 'Reference'],
  ['search.html', 'Search'],
];

/** "../" as often as the page lies below the folder of the site. */
export const upFrom = (path) => '../'.repeat(path.split('/').length - 1);

/** The place among the links at the top to which a page belongs. */
function placeOf(path) {
  if (places.some(([to]) => to === path))
    return path;
  return /^(reference|man)\//.test(path) ? 'reference/index.html' : 'docs/index.html';
}

/** A list of links to the headings of a page: [{ id, text, level }]. */
function contentsOf(headings) {
  const listed = headings.filter(({ level }) => level === 2 || level === 3);
  if (listed.length < 3)
    return '';
  const items = listed.map(({ id, text, level }) => `<li class="level${level}"><a href="#${escape(id)}">${escape(text)}</a></li>`);
  return `<nav class="contents" id="contents" aria-label="On this page"><div><p>On this page</p><ul>${items.join('')}</ul></div></nav>`;
}

/**
 * The text of a page.  `path` is where it lies below the folder of the site, `body` its own part as HTML, `headings`
 * what its table of contents lists, and `scripts` are names in assets/.
 */
export function pageOf({ path, title, body, headings = [], scripts = [], tool = false, version }) {
  const up = upFrom(path);
  const here = placeOf(path);
  const links = places.map(([to, name]) => {
    const current = to === here ? ` aria-current="${to === path ? 'page' : 'true'}"` : '';
    return `<li><a href="${up}${to}"${current}>${name}</a></li>`;
  });
  const contents = tool ? '' : contentsOf(headings);
  const plain = title.replace(/<[^>]*>/g, '');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${plain === 'tamis' ? 'tamis: approximate-membership filters' : `${plain} – tamis`}</title>
<link rel="stylesheet" href="${up}assets/style.css">
<link rel="icon" href="${up}assets/icon.svg" type="image/svg+xml">
${scripts.map((name) => `<script defer src="${up}assets/${name}.js"></script>\n`).join('')}</head>
<body>
<a class="skip" href="#main">Skip to content</a>
<header><nav aria-label="Site"><ul>${links.join('')}</ul></nav></header>
<div class="${tool ? 'tool' : contents ? 'text' : 'text wide'}">
<main id="main" tabindex="-1">
${contents && '<p class="to-contents"><a href="#contents">On this page</a></p>\n'}${tool ? '<noscript><p class="notice">This page needs JavaScript and WebAssembly. You can read the documentation without them.</p></noscript>\n<p class="notice" data-failed hidden>This page does not work in this browser: </p>\n' : ''}${body}
</main>
${contents}</div>
<footer><p>tamis ${version}, under the MIT licence. These pages load nothing from other sites.</p></footer>
</body>
</html>
`;
}
