// SPDX-License-Identifier: MIT
// The page "Search": the index was made with the site, and is in assets/search-data.js.
import MiniSearch from 'minisearch';
import { indexOptions } from '../make/search.mjs';

const field = document.getElementById('q');
const { index: json, sections } = globalThis.tamisSearch;
const index = MiniSearch.loadJSON(json, indexOptions);
const most = 40;

/** The text around the first of the words that were found, with those words marked. */
function excerpt(text, terms) {
  const words = terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const pattern = new RegExp(`(${words.join('|')})`, 'gi');
  const first = Math.max(0, text.search(pattern));
  const begin = first < 90 ? 0 : text.lastIndexOf(' ', first - 60) + 1;
  const part = text.slice(begin, begin + 240);
  const pieces = part.split(pattern).map((piece, i) => {
    if (i % 2 === 0)
      return piece;
    const mark = document.createElement('mark');
    mark.textContent = piece;
    return mark;
  });
  return [begin ? '… ' : '', ...pieces, begin + 240 < text.length ? ' …' : ''];
}

function item({ id, terms }) {
  const [title, section, path, text] = sections[id];
  const link = document.createElement('a');
  link.href = path;
  link.textContent = section === title || !title ? section : `${title}: ${section}`;
  const words = document.createElement('p');
  words.append(...excerpt(text, terms));
  const made = document.createElement('li');
  made.append(link, words);
  return made;
}

function search() {
  const asked = field.value.trim();
  const results = asked ? index.search(asked, { prefix: (term) => term.length > 2, fuzzy: (term) => (term.length > 5 ? 0.15 : false), boost: { section: 3, title: 2 }, combineWith: 'AND' }) : [];
  document.getElementById('found').replaceChildren(...results.slice(0, most).map(item));
  document.getElementById('said').textContent = !asked ? `The search covers ${sections.length} sections of the documents, the manual pages and the references.` :
    results.length === 0 ? 'Nothing was found.' : results.length > most ? `${results.length} sections match. The list has the best ${most}.` : `${results.length} ${results.length === 1 ? 'section matches' : 'sections match'}.`;
}

document.getElementById('search').addEventListener('submit', (event) => event.preventDefault());
field.addEventListener('input', () => {
  history.replaceState(null, '', field.value ? `?q=${encodeURIComponent(field.value)}` : location.pathname);
  search();
});
field.value = new URLSearchParams(location.search).get('q') ?? '';
search();
