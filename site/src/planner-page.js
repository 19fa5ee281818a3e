// SPDX-License-Identifier: MIT
// The page "Choose a filter".
import { bytesFor } from '../../js/src/wasm.js';
import { draw, rates } from './chart.js';
import { at, element } from './elements.js';
import { parseCount, parseRate, rateText, shortBytes, significant, whole } from './numbers.js';
import { others } from './others.js';
import { nameOf, optionsFor, plan, sizedAs } from './planner.js';
import { snippets } from './snippets.js';

const form = at('need');
const fields = form.elements;

let need = null; // the last one that was whole
let chosen = null; // the name of the row that the user prefers to what is advised
let language = 'C';

// ---- the form ----

/** Shows what is wrong with a field, and returns its value. */
function checked(name, value, sentence) {
  at(`${name}-wrong`).textContent = value === null ? sentence : '';
  fields[name].setAttribute('aria-invalid', String(value === null));
  return value;
}

/** What the form says; null if that is incomplete. */
function read() {
  const keys = checked('keys', parseCount(fields.keys.value), 'Enter a whole number of at least 1.');
  const rate = checked('rate', parseRate(fields.rate.value), 'Enter a rate above 0 and below 1.');
  const expires = fields.expires.checked;
  fields.window.disabled = fields.renews.disabled = !expires;
  const window = expires ? Number(fields.window.value) : 0;
  const length = Number(fields.keybytes.value);
  if (keys === null || rate === null || !Number.isInteger(window) || window < 0 || window > 64 || (expires && !window))
    return null;
  return {
    keys, rate, window, growth: fields.growth.value, users: fields.users.value, removes: fields.removes.checked,
    renews: expires && fields.renews.checked, length: length >= 1 ? length : 32,
  };
}

/** The address has what was asked, so that it can be kept and sent. */
function remember() {
  const asked = new URLSearchParams();
  for (const field of fields) {
    if (field.name && (field.type !== 'checkbox' || field.checked) && !field.disabled)
      asked.set(field.name, field.type === 'checkbox' ? '1' : field.value);
  }
  history.replaceState(null, '', `#${asked}`);
}

function recall() {
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    const field = fields[name];
    if (field?.type === 'checkbox')
      field.checked = value === '1';
    else if (field && 'value' in field && (field.tagName !== 'SELECT' || [...field.options].some((option) => option.value === value)))
      field.value = value;
  }
}

// ---- the answer ----

function showRow(row, reasons, isAdvised) {
  const answer = at('answer');
  answer.dataset.bytes = row?.bytes ?? '';
  at('kind').textContent = row ? `${row.name}, ${row.options.growable ? 'growing' : 'of fixed size'}${isAdvised ? '' : ' (your choice)'}` : 'No filter meets these needs';
  at('bytes').textContent = row ? `${shortBytes(row.bytes)} (${whole(row.bytes)} bytes)` : '–';
  at('bits').textContent = row ? significant(row.bitsPerKey, 4) : '–';
  at('reached').textContent = row ? rateText(row.rate) : '–';
  at('reasons').replaceChildren(...reasons.map((sentence) => element('li', { textContent: sentence })));
}

function showRows(rows, shown, best) {
  const body = at('all').tBodies[0];
  body.replaceChildren(...rows.map((row) => {
    const pick = element('input', { type: 'radio', name: 'row', value: row.name, checked: row === shown, disabled: Boolean(row.refused) });
    pick.addEventListener('change', () => {
      chosen = row.name;
      update();
      at('all').querySelector('input:checked')?.focus();
    });
    const notes = [row === best ? 'recommended' : null, row.refused, row.unfit].filter(Boolean).join('; ');
    const made = element('tr', {}, element('td', {}, element('label', { className: 'check' }, pick, ` ${row.name}`)),
      ...[row.bytes && shortBytes(row.bytes), row.bytes && significant(row.bitsPerKey, 4), row.bytes && significant(row.rate, 2)]
        .map((text) => element('td', { className: 'right', textContent: text ?? '–' })),
      element('td', { textContent: notes }));
    made.dataset.bytes = row.bytes ?? '';
    made.classList.toggle('shown', row === shown);
    return made;
  }));
}

function showOthers() {
  at('others').tBodies[0].replaceChildren(...others.map(({ name, bytes, formula, source: [text, href] }) => {
    const takes = bytes(need);
    return element('tr', {}, element('td', { textContent: name }),
      element('td', { className: 'right', textContent: takes === null ? '–' : shortBytes(takes) }),
      element('td', { className: 'right', textContent: takes === null ? '–' : significant(8 * takes / need.keys, 4) }),
      element('td', {}, `${formula} (`, element('a', { href, textContent: text }), ')'));
  }));
}

// ---- the code ----

let texts = [];

function showCode() {
  const [, text] = texts.find(([name]) => name === language) ?? ['', ''];
  at('code').querySelector('code').textContent = text;
  at('code').setAttribute('aria-labelledby', `tab-${language}`);
  for (const tab of at('tabs').children) {
    tab.setAttribute('aria-selected', String(tab.dataset.language === language));
    tab.tabIndex = tab.dataset.language === language ? 0 : -1;
  }
}

function makeTabs() {
  at('tabs').replaceChildren(...texts.map(([name]) => {
    const tab = element('button', { type: 'button', id: `tab-${name}`, textContent: name });
    tab.setAttribute('role', 'tab');
    tab.setAttribute('aria-controls', 'code');
    tab.dataset.language = name;
    tab.addEventListener('click', () => {
      language = name;
      showCode();
    });
    return tab;
  }));
}

at('tabs').addEventListener('keydown', (event) => {
  const names = texts.map(([name]) => name);
  const i = names.indexOf(language);
  const next = { ArrowRight: i + 1, ArrowLeft: i - 1 + names.length, Home: 0, End: names.length - 1 }[event.key];
  if (next === undefined)
    return;
  event.preventDefault();
  language = names[next % names.length];
  showCode();
  at(`tab-${language}`).focus();
});

at('copy').addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText(at('code').textContent);
    at('copied').textContent = 'Copied.';
  } catch {
    getSelection().selectAllChildren(at('code'));
    at('copied').textContent = 'The code is selected. Press Ctrl+C to copy it.';
  }
});

// ---- the curve ----

let curve = null; // { series, of: what it was computed for }
let waiting = 0;

/** The bits per key of options at each rate; null where they are refused. */
function bitsOf(options) {
  return rates.map((fpp) => {
    try {
      return 8 * bytesFor(sizedAs({ ...options, fpp })) / options.capacity;
    } catch {
      return null;
    }
  });
}

function computeCurve() {
  const of = JSON.stringify([need.keys, need.growth, need.window, need.users]);
  if (curve?.of !== of) {
    const series = optionsFor({ ...need, rate: 0.01 }).map((options) =>
      ({ name: nameOf(options), line: options.window ? options.kind : options.layout ?? options.kind, bits: bitsOf(options) }));
    for (const other of others.filter(({ line }) => line))
      series.push({ name: other.name, line: other.line, bits: rates.map((rate) => 8 * other.bytes({ ...need, rate }) / need.keys) });
    curve = { of, series };
    at('legend').replaceChildren(...series.map(({ name, line }) => element('li', { className: line, textContent: name })),
      element('li', { className: 'set', id: 'set' }));
    showNumbers();
  }
  at('set').textContent = `Exact set: ${significant(8 * others.at(-1).bytes(need) / need.keys, 3)} bits per key at every rate`;
}

function showNumbers() {
  const head = element('tr', {}, element('th', { textContent: 'False-positive rate' }), ...curve.series.map(({ name }) => element('th', { className: 'right', textContent: name })));
  const rows = rates.flatMap((rate, i) => (Math.abs(Math.log10(rate) - Math.round(Math.log10(rate))) > 1e-9 ? [] :
    [element('tr', {}, element('td', { textContent: significant(rate, 2) }),
      ...curve.series.map(({ bits }) => element('td', { className: 'right', textContent: bits[i] === null ? '–' : significant(bits[i], 4) })))]));
  at('numbers').replaceChildren(element('thead', {}, head), element('tbody', {}, ...rows));
}

function drawCurve(row) {
  // Up to what all but the counting filter take; that one leaves the picture.
  const shown = curve.series.filter(({ line }) => line !== 'counting_bloom').flatMap(({ bits }) => bits.filter((value) => value !== null));
  const most = Math.min(400, Math.ceil(Math.max(...shown, 20) / 10) * 10);
  draw(at('curve'), curve.series, row ? { rate: need.rate, bits: row.bitsPerKey } : null, most);
}

let shownRow = null;
function drawSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    computeCurve();
    drawCurve(shownRow);
  }, curve ? 120 : 0);
}

// ---- all of it ----

function update() {
  const asked = read();
  if (!asked)
    return;
  need = asked;
  const { rows, best, reasons } = plan(need);
  shownRow = rows.find((row) => row.name === chosen && !row.refused) ?? best;
  showRow(shownRow, shownRow === best ? reasons : [shownRow.unfit && `This filter does not do what you need: ${shownRow.unfit}.`].filter(Boolean), shownRow === best);
  showRows(rows, shownRow, best);
  showOthers();
  texts = shownRow ? snippets(need, shownRow) : [];
  at('code-title').parentElement.hidden = !shownRow;
  if (at('tabs').children.length !== texts.length)
    makeTabs();
  showCode();
  drawSoon();
}

form.addEventListener('input', () => {
  chosen = null;
  update();
});
form.addEventListener('change', remember);
form.addEventListener('submit', (event) => event.preventDefault());
addEventListener('resize', drawSoon);
addEventListener('hashchange', () => {
  recall();
  update();
});
recall();
update();
