// SPDX-License-Identifier: MIT
// The page "Search": the index was made with the site, and is in assets/search-data.js.
import MiniSearch from 'minisearch';
import { indexOptions } from '../make/search.mjs';
import { at, element } from './elements.js';

const field = at('q');
const { index: json, sections } = globalThis.tamisSearch;
const index = MiniSearch.loadJSON(json, indexOptions);
const most = 40;

/** The text around the first of the words that were found, with those words marked. */
function excerpt(text, terms) {
  const words = terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const pattern = new RegExp(`(${words.join('|')})`, 'gi');
  const first = Math.max(0, text.search(pattern));
  const begin = first < 90 ? 0 : text.lastIndexOf(' ', first - 60) + 1;
  const pieces = text.slice(begin, begin + 240).split(pattern).map((piece, i) => (i % 2 ? element('mark', { textContent: piece }) : piece));
  return [begin ? '… ' : '', ...pieces, begin + 240 < text.length ? ' …' : ''];
}

function item({ id, terms }) {
  const [title, section, path, text] = sections[id];
  const textContent = section === title || !title ? section : `${title}: ${section}`;
  return element('li', {}, element('a', { href: path, textContent }), element('p', {}, ...excerpt(text, terms)));
}

function search() {
  const asked = field.value.trim();
  const results = asked ? index.search(asked, { prefix: (term) => term.length > 2, fuzzy: (term) => (term.length > 5 ? 0.15 : false), boost: { section: 3, title: 2 }, combineWith: 'AND' }) : [];
  at('found').replaceChildren(...results.slice(0, most).map(item));
  at('said').textContent = !asked ? `The search covers ${sections.length} sections of the documents, the manual pages and the references.` :
    results.length === 0 ? 'Nothing was found.' : results.length > most ? `${results.length} sections match. The list has the best ${most}.` : `${results.length} ${results.length === 1 ? 'section matches' : 'sections match'}.`;
}

at('search').addEventListener('submit', (event) => event.preventDefault());
field.addEventListener('input', () => {
  history.replaceState(null, '', field.value ? `?q=${encodeURIComponent(field.value)}` : location.pathname);
  search();
});
field.value = new URLSearchParams(location.search).get('q') ?? '';
search();
