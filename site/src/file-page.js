// SPDX-License-Identifier: MIT
// The page "Open a saved filter".
import { Filter, info } from '../../js/src/wasm.js';
import { at, element, showFigures } from './elements.js';
import { bars, kindOf, map, picture } from './fill.js';
import { NotAFilter, SavedFilter, sourceOfBlob } from './format.js';
import { percent, plural, rateText, shortBytes, significant, whole } from './numbers.js';

const LIVE_HEAD = 2 ** 18; // bytes in which all counts of a filter that processes share lie
const mostChecked = 2 ** 31;

let opened = null; // { blob, filter, hasher }
let turn = 0; // of files: what belongs to an earlier one is dropped

// ---- opening ----

function fail(error) {
  const text = error instanceof NotAFilter || error.name?.endsWith('Error') ? error.message : String(error);
  at('problem').textContent = `${text[0].toUpperCase()}${text.slice(1).replace(/\.?$/, '.')}`;
  at('problem').hidden = false;
  at('status').textContent = '';
}

async function open(blob, name) {
  const mine = ++turn;
  opened?.hasher?.free();
  opened = null;
  at('problem').hidden = at('opened').hidden = true;
  at('answers').hidden = true;
  for (const id of ['asking', 'measured', 'checked'])
    at(id).textContent = '';
  at('status').textContent = `Opening ${name} …`;
  try {
    const filter = await SavedFilter.open(sourceOfBlob(blob), (offset) => {
      at('status').textContent = `Reading the structure of the file: ${significant(100 * offset / blob.size, 2)} %`;
    });
    // The library checks the sum of the header, and what it says.
    const head = new Uint8Array(await blob.slice(0, filter.isLive ? LIVE_HEAD : 512).arrayBuffer());
    const figures = info(head);
    let hasher = null;
    if (!filter.hasOwnHash) {
      hasher = new Filter({ capacity: 1, seed: filter.seed });
      if (hasher.hash('tamis probe') !== filter.probe)
        throw new NotAFilter('the file is damaged (its hashes do not match its seed)');
    }
    const fills = await fillsOf(filter);
    if (mine !== turn)
      return;
    opened = { blob, filter, hasher };
    at('status').textContent = '';
    show(name, figures, fills);
  } catch (error) {
    if (mine === turn)
      fail(error);
  }
}

// ---- what is in it ----

const kindNames = { bloom: 'Bloom filter', cuckoo: 'Cuckoo filter', counting_bloom: 'Counting Bloom filter' };

function show(name, figures, fills) {
  const { filter, blob } = opened;
  const { table } = filter;
  const kind = { 1: 'bloom', 2: 'cuckoo', 3: 'counting_bloom' }[filter.kind];
  at('name').textContent = name;
  showFigures(at('figures'), [
    ['Kind', filter.form === 'window' ? `${kindNames[kind]} with a window of ${plural(table.periods, 'period')}` :
      filter.form === 'bloom' ? `${kindNames[kind]}, ${table.layers[0].name}` : kindNames[kind]],
    ['Size', filter.isLive ? 'shared by processes' : filter.growable ? 'grows' : 'fixed'],
    ['Keys when saved', whole(figures.count)],
    ['Capacity', `${whole(filter.capacity)} keys`],
    ['False-positive rate when full', rateText(filter.fpp)],
    ['False-positive rate now', fills.rate === 0 ? '0' : fills.rate > 0 ? `about ${rateText(fills.rate)}` : figures.fppEstimate > 0 ? rateText(figures.fppEstimate) : '–'],
    ['File size', shortBytes(blob.size)],
    ['Bits per key', figures.count ? significant(8 * blob.size / figures.count, 4) : '–'],
  ]);
  at('fill-text').textContent = fills.text;
  at('fill').replaceChildren(...fills.pictures);
  showLayers(fills.table);
  at('asked').value ||= 'apple\npear';
  at('ask').hidden = !opened.hasher;
  at('asking').textContent = opened.hasher ? '' : 'The program that made this filter supplied a hash function. This page does not have the function, so it cannot look up keys.';
  at('measure').disabled = false;
  at('check').disabled = filter.isLive;
  showReads();
  at('opened').hidden = false;
}

function showLayers({ head, rows }) {
  const cell = (name, value, i) => (value instanceof Node ? element(name, {}, value) : element(name, { textContent: value, className: i ? 'right' : '' }));
  at('layers').replaceChildren(
    element('thead', {}, element('tr', {}, ...head.map((text, i) => cell('th', text, i)))),
    element('tbody', {}, ...rows.map((row) => element('tr', {}, ...row.map((text, i) => cell('td', text, i))))));
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

const meterOf = (fill) => element('span', {}, element('meter', { min: 0, max: 1, value: fill }), ` ${percent(fill)}`);
const captioned = (drawing, caption) => element('figure', {}, drawing, element('figcaption', { textContent: caption }));
const sampled = (fills, name) => captioned(picture(fills, 'sample', name), `${name}, in ${plural(fills.length, 'sample')} from the beginning to the end`);

async function fillsOfBloom({ layers }, container) {
  const pictures = [], rows = [];
  let sum = 0;
  for (const layer of layers) {
    const { fills, rate } = await layer.sample(container, 256);
    sum += rate;
    pictures.push(sampled(fills, `Layer ${layer.number}: fraction of the bits that are set`));
    rows.push([`${layer.number}`, layer.keys === undefined ? '–' : whole(layer.keys), shortBytes(64 * layer.lines), meterOf(mean(fills)), significant(rate, 2)]);
  }
  return {
    pictures, rate: Math.min(1, sum), table: { head: ['Layer', 'Keys', 'Bytes', 'Bits set', 'Estimated rate'], rows },
    text: 'A Bloom filter spreads its keys evenly, so all parts of a layer are about equally full. When a layer has reached its capacity, about half of its bits are set, or fewer.',
  };
}

async function fillsOfWindow(window, container) {
  const pictures = [], rows = [], all = new Map();
  for (const layer of window.layers) {
    const { fills, periods } = await layer.sample(container, window, 128);
    for (const [period, count] of periods)
      all.set(period, (all.get(period) ?? 0) + count * layer.words / (fills.length * Math.min(layer.words, 512)));
    pictures.push(sampled(fills, `Layer ${layer.number + 1}: fraction of the lanes in use`));
    rows.push([`${layer.number + 1}`, `${whole(layer.capacity)}`, whole(layer.segments), shortBytes(8 * layer.words), meterOf(mean(fills))]);
  }
  const first = Math.max(0, window.last - window.periods);
  const counts = Array.from({ length: window.last - first + 1 }, (_, i) => [`period ${first + i}`, all.get(first + i) ?? 0]);
  pictures.unshift(captioned(bars(counts, `Keys by the period of their last add, from period ${first} to ${window.last}`),
    `Keys by the period of their last add. Period ${first} is the oldest that the filter remembers. Period ${window.last} was running when the filter was saved.`));
  return {
    pictures, table: { head: ['Layer', 'Capacity', 'Segments', 'Bytes', 'Lanes in use'], rows },
    text: `When the filter was saved, it used ${plural(window.used, 'lane')}. It remembers the keys that were last added in period ${first} or later.`,
  };
}

async function fillsOfCuckoo(cuckoo, container) {
  const [{ ages }] = cuckoo.generations;
  const segments = cuckoo.generations.flatMap((generation) => [...generation.segments.values()]);
  const fills = ages ? segments.map(({ used, generation, depth }) => used / (generation.buckets * generation.lanesAt(depth))) : await cuckoo.sample(container, 512);
  const rows = cuckoo.generations.map((generation) => {
    const own = [...generation.segments.values()];
    const count = ages ? own.length : generation.roots;
    const used = ages ? own.reduce((sum, segment) => sum + segment.used, 0) : cuckoo.used;
    const lanes = generation.buckets * (ages ? own.reduce((sum, { depth }) => sum + generation.lanesAt(depth), 0) : count * generation.lanesAt(0));
    const widths = [...new Set(own.map(({ depth }) => generation.widthAt(depth)))].sort((a, b) => a - b);
    const lanesOfBucket = (widths.length ? widths : [generation.width]).map((width) => `${Math.floor(64 / width)} of ${width} bits`).join(', ');
    return [`${generation.number + 1}`, whole(count), whole(generation.buckets), lanesOfBucket, whole(used), lanes ? meterOf(used / lanes) : '–'];
  });
  return {
    pictures: fills.length ? [captioned(picture(fills, 'segment', 'Fraction of the lanes in use in each segment'),
      `Fraction of the lanes in use in ${plural(fills.length, 'segment')}, in the order of the file`)] : [],
    table: { head: ['Generation', 'Segments', 'Buckets per segment', 'Lanes per bucket', 'Lanes in use', 'Load factor'], rows },
    text: ages ? 'When a segment is full, it splits into two segments.' : 'A cuckoo filter that does not grow has segments of equal size, and keys fill them evenly.',
  };
}

/** Pictures of how full a filter is, a table, a sentence, and the rate that follows, if it is known. */
function fillsOf({ form, table, container }) {
  return { bloom: fillsOfBloom, window: fillsOfWindow, cuckoo: fillsOfCuckoo }[form](table, container);
}

function showReads() {
  const { filter: { container }, blob } = opened;
  const kinds = [...new Set(container.parts.map(({ name }) => kindOf(name)))];
  at('map').replaceChildren(map(container.parts, container.reads, blob.size));
  const names = { array: 'layers or segments', sums: 'checksums', places: 'offsets of segments', periods: 'periods of segments' };
  at('parts').replaceChildren(...kinds.map((kind) => element('li', { className: kind, textContent: names[kind] ?? kind })), element('li', { className: 'read', textContent: 'read' }));
  at('read').textContent = `So far, the page has read ${whole(container.bytesRead)} of ${whole(blob.size)} bytes, in ${plural(container.reads.length, 'slice')}.`;
  at('read').dataset.bytes = container.bytesRead;
}

// ---- asking ----

/** A key of the form that was chosen; a sentence if the line has none. */
function keyOf(line, form) {
  if (form === 'text')
    return { key: line };
  if (form === 'hex')
    return /^([0-9a-f]{2})*$/i.test(line) ? { key: Uint8Array.from(line.match(/../g) ?? [], (byte) => parseInt(byte, 16)) } : { wrong: 'The line is not an even number of hexadecimal digits.' };
  if (!/^-?\d+$/.test(line) || BigInt(line) >= 1n << 64n || BigInt(line) < -(1n << 63n))
    return { wrong: 'The line is not a 64-bit integer.' };
  const key = new Uint8Array(8);
  new DataView(key.buffer).setBigUint64(0, BigInt.asUintN(64, BigInt(line)), true);
  return { key };
}

async function answerTo(line, form) {
  const { filter, hasher } = opened;
  const { key, wrong } = keyOf(line.trim() && form !== 'text' ? line.trim() : line, form);
  if (wrong)
    return element('tr', {}, element('td', { textContent: line }), element('td', { textContent: wrong }), element('td'), element('td'));
  const before = filter.container.bytesRead;
  const { copies, period } = await filter.count(hasher.hash(key));
  const answer = copies ? `present, or a false positive${period === undefined ? '' : `; last added in period ${period}`}` : 'certainly absent';
  const row = element('tr', {}, element('td', { textContent: line === '' ? '(the empty key)' : line }), element('td', { textContent: answer }),
    element('td', { className: 'right', textContent: copies }), element('td', { className: 'right', textContent: whole(filter.container.bytesRead - before) }));
  row.dataset.copies = copies;
  return row;
}

at('ask').addEventListener('submit', async (event) => {
  event.preventDefault();
  const mine = turn;
  const form = at('form').value;
  const lines = at('asked').value.split(/\r?\n/).slice(0, 1000);
  while (lines.length > 1 && lines.at(-1) === '')
    lines.pop();
  try {
    const rows = [];
    for (const line of lines)
      rows.push(await answerTo(line, form));
    if (mine !== turn)
      return;
    at('answers').tBodies[0].replaceChildren(...rows);
    at('answers').hidden = false;
    at('asking').textContent = plural(rows.length, 'answer');
    showReads();
  } catch (error) {
    fail(error);
  }
});

at('measure').addEventListener('click', async () => {
  const mine = turn;
  const { filter } = opened;
  const asked = 2000, together = 50;
  let yes = 0;
  at('measure').disabled = true;
  try {
    for (let done = 0; done < asked && mine === turn; done += together) {
      // A random hash is that of some key, which is absent.
      const hashes = crypto.getRandomValues(new BigUint64Array(together));
      const counts = await Promise.all([...hashes].map((hash) => filter.count(hash)));
      yes += counts.filter(({ copies }) => copies).length;
      at('measured').textContent = `${whole(yes)} of ${whole(done + together)} absent keys were found: a rate of ${significant(yes / (done + together), 2)}`;
    }
  } catch (error) {
    fail(error);
  }
  if (mine === turn) {
    at('measure').disabled = false;
    showReads();
  }
});

at('check').addEventListener('click', async () => {
  const mine = turn;
  at('check').disabled = true;
  at('checked').textContent = 'Reading the file …';
  let says;
  try {
    (await Filter.load(opened.blob, { maxBytes: mostChecked })).free();
    says = 'All checksums and counts in the file are correct.';
  } catch (error) {
    says = `The library refuses the file: ${error.message}`;
  }
  if (mine === turn) {
    at('checked').textContent = says;
    at('check').disabled = false;
  }
});

// ---- files ----

at('file').addEventListener('change', () => {
  const [file] = at('file').files;
  at('file').value = ''; // so that the same file can be chosen again when it has changed
  if (file)
    open(file, file.name);
});
document.addEventListener('dragover', (event) => {
  event.preventDefault();
  at('choose').classList.add('over');
});
document.addEventListener('dragleave', () => at('choose').classList.remove('over'));
document.addEventListener('drop', (event) => {
  event.preventDefault();
  at('choose').classList.remove('over');
  const [file] = event.dataTransfer.files;
  if (file)
    open(file, file.name);
});
at('choose').addEventListener('submit', (event) => event.preventDefault());

/** A filter that is made here, with the keys "key 0" to "key 19999". */
function example(kind) {
  const options = { bloom: { capacity: 10000 }, cuckoo: { capacity: 1000, kind: 'cuckoo', fpp: 0.001 }, window: { capacity: 6000, window: 4, fpp: 0.001 } };
  const filter = new Filter(options[kind]);
  for (let i = 0; i < 20000; i++) {
    filter.addCopy(`key ${i}`);
    if (kind === 'window' && i % 2500 === 2499)
      filter.advance();
  }
  const bytes = filter.save();
  filter.free();
  return new Blob([bytes]);
}

for (const button of document.querySelectorAll('[data-example]')) {
  button.addEventListener('click', () => {
    at('asked').value = 'key 0\nkey 19999\nkey 20000\nanother';
    open(example(button.dataset.example), `${button.textContent.replace(/^a/, 'A')} with the keys “key 0” to “key 19999”`);
  });
}
