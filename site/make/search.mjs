// SPDX-License-Identifier: MIT
// The index of the search, which is made once, with the site.

/** What both the build and the page must know. */
export const indexOptions = { fields: ['title', 'section', 'text'], idField: 'id' };

/** A script that brings the index, and the text of each section. */
export function searchData(modules, found) {
  const MiniSearch = modules('minisearch');
  const index = new MiniSearch(indexOptions);
  index.addAll(found.map((section, id) => ({ id, ...section })));
  const sections = found.map(({ title, section, path, text }) => [title, section, path, text]);
  return `globalThis.tamisSearch = ${JSON.stringify({ index: JSON.stringify(index), sections })};\n`;
}
