// SPDX-License-Identifier: MIT
// The page "Open a file".
import { Filter, info } from '../../js/src/wasm.js';
import { at, element } from './elements.js';
import { bars, kindOf, map, picture } from './fill.js';
import { NotAFilter, SavedFilter, sourceOfBlob } from './format.js';
import { rateText, shortBytes, significant, whole } from './numbers.js';

const LIVE_HEAD = 2 ** 18; // bytes in which all counts of a filter that processes share lie
const mostChecked = 2 ** 31;

let opened = null; // { blob, filter, hasher }
let turn = 0; // of files: what belongs to an earlier one is dropped

// ---- opening ----

function fail(error) {
  at('problem').textContent = error instanceof NotAFilter || error.name?.endsWith('Error') ? error.message : String(error);
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
      at('status').textContent = `Reading what is where: ${significant(100 * offset / blob.size, 2)} %`;
    });
    // The library checks the sum of the header, and what it says.
    const head = new Uint8Array(await blob.slice(0, filter.isLive ? LIVE_HEAD : 512).arrayBuffer());
    const figures = info(head);
    let hasher = null;
    if (!filter.hasOwnHash) {
      hasher = new Filter({ capacity: 1, seed: filter.seed });
      if (hasher.hash('tamis probe') !== filter.probe)
        throw new NotAFilter('the file is damaged: its hashes are not those of its seed');
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
  const rows = [
    ['Kind', filter.form === 'window' ? `${kindNames[kind]} with a window of ${table.periods} period${table.periods === 1 ? '' : 's'}` :
      filter.form === 'bloom' ? `${kindNames[kind]}, ${table.layers[0].name}` : kindNames[kind]],
    ['Size', filter.isLive ? 'shared by processes' : filter.growable ? 'grows' : 'fixed'],
    ['Keys when it was saved', whole(figures.count)],
    ['Made for', `${whole(filter.capacity)} keys`],
    ['Rate asked for', rateText(filter.fpp)],
    ['Rate as full as it is', fills.rate === 0 ? '0' : fills.rate > 0 ? `about ${rateText(fills.rate)}` : figures.fppEstimate > 0 ? rateText(figures.fppEstimate) : '–'],
    ['File', shortBytes(blob.size)],
    ['Bits per key', figures.count ? significant(8 * blob.size / figures.count, 4) : '–'],
  ];
  at('figures').replaceChildren(...rows.map(([term, text]) => element('div', {}, element('dt', { textContent: term }), element('dd', { textContent: text }))));
  at('fill-text').textContent = fills.text;
  at('fill').replaceChildren(...fills.pictures);
  showLayers(fills.table);
  at('asked').value ||= 'apple\npear';
  at('ask').hidden = !opened.hasher;
  at('asking').textContent = opened.hasher ? '' : 'This filter was made with a hash function of its user’s, which this page does not have. So no key can be looked up here.';
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

function meterOf(fill) {
  const meter = element('meter', { min: 0, max: 1, value: fill });
  return element('span', {}, meter, ` ${significant(100 * fill, 3)} %`);
}

const captioned = (drawing, caption) => element('figure', {}, drawing, element('figcaption', { textContent: caption }));
const plural = (n, what) => `${whole(n)} ${what}${n === 1 ? '' : 's'}`;

async function fillsOfBloom({ layers }, container) {
  const pictures = [], rows = [];
  let sum = 0;
  for (const layer of layers) {
    const { fills, rate } = await layer.sample(container, 256);
    sum += rate;
    const name = layers.length > 1 ? `Layer ${layer.number}: ` : '';
    pictures.push(captioned(picture(fills, 'place', `${name}the part of the bits that are set`), `${name}the part of the bits that are set, in ${plural(fills.length, 'place')} from the first to the last`));
    rows.push([`${layer.number}`, layer.keys === undefined ? '–' : whole(layer.keys), shortBytes(64 * layer.lines), meterOf(mean(fills)), significant(rate, 2)]);
  }
  const what = layers.length > 1 ? 'a layer' : 'it';
  return {
    pictures, rate: Math.min(1, sum), table: { head: ['Layer', 'Keys', 'Bytes', 'Bits set', 'Rate, about'], rows },
    text: `The keys of a Bloom filter are spread evenly, so all of ${what} is about equally full. It is full when as many keys are in as it was made for; then about half of the bits are set, or fewer.`,
  };
}

async function fillsOfWindow(window, container) {
  const pictures = [], rows = [], all = new Map();
  for (const layer of window.layers) {
    const { fills, periods } = await layer.sample(container, window, 128);
    for (const [period, count] of periods)
      all.set(period, (all.get(period) ?? 0) + count * layer.words / (fills.length * Math.min(layer.words, 512)));
    const name = window.layers.length > 1 ? `Layer ${layer.number + 1}: ` : '';
    pictures.push(captioned(picture(fills, 'place', `${name}the part of the lanes that are in use`), `${name}the part of the lanes in use, in ${plural(fills.length, 'place')} from the first to the last`));
    rows.push([`${layer.number + 1}`, `${whole(layer.capacity)}`, whole(layer.segments), shortBytes(8 * layer.words), meterOf(mean(fills))]);
  }
  const first = Math.max(0, window.last - window.periods);
  const counts = Array.from({ length: window.last - first + 1 }, (_, i) => [`period ${first + i}`, all.get(first + i) ?? 0]);
  pictures.unshift(captioned(bars(counts, `How many keys were last added in each of the periods ${first} to ${window.last}`),
    `How many keys were last added in which period: from period ${first}, the oldest that is remembered, to period ${window.last}, which ran when the filter was saved`));
  return {
    pictures, table: { head: ['Layer', 'Made for', 'Segments', 'Bytes', 'Lanes in use'], rows },
    text: `${plural(window.used, 'lane')} ${window.used === 1 ? 'was' : 'were'} in use when it was saved. A key that was last added in period ${first} or later is remembered.`,
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
    pictures: fills.length ? [captioned(picture(fills, 'segment', 'The part of the lanes of each segment that are in use'),
      `The part of the lanes in use of ${plural(fills.length, 'segment')}, in the order of the file`)] : [],
    table: { head: ['Generation', 'Segments', 'Buckets of a segment', 'Lanes of a bucket', 'Lanes in use', 'Load'], rows },
    text: ages ? 'A segment that is full splits into two, each of which is half as full.' : 'A filter that does not grow has segments of one size, which keys fill evenly.',
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
  const names = { array: 'layers or segments', sums: 'sums of chunks', places: 'places of segments', periods: 'periods of copies' };
  at('parts').replaceChildren(...kinds.map((kind) => element('li', { className: kind, textContent: names[kind] ?? kind })), element('li', { className: 'read', textContent: 'read' }));
  at('read').textContent = `Read so far: ${whole(container.bytesRead)} bytes in ${plural(container.reads.length, 'slice')}, of a file of ${whole(blob.size)} bytes.`;
  at('read').dataset.bytes = container.bytesRead;
}

// ---- asking ----

/** A key of the form that was chosen; a sentence if the line has none. */
function keyOf(line, form) {
  if (form === 'text')
    return { key: line };
  if (form === 'hex')
    return /^([0-9a-f]{2})*$/i.test(line) ? { key: Uint8Array.from(line.match(/../g) ?? [], (byte) => parseInt(byte, 16)) } : { wrong: 'not an even number of hexadecimal digits' };
  if (!/^-?\d+$/.test(line) || BigInt(line) >= 1n << 64n || BigInt(line) < -(1n << 63n))
    return { wrong: 'not an integer of 64 bits' };
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
  const answer = copies ? `in, or a false positive${period === undefined ? '' : `; last added in period ${period}`}` : 'not in, for certain';
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
    at('asking').textContent = `${rows.length} answer${rows.length === 1 ? '' : 's'}`;
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
      // A random hash is that of some key, which is not in.
      const hashes = crypto.getRandomValues(new BigUint64Array(together));
      const counts = await Promise.all([...hashes].map((hash) => filter.count(hash)));
      yes += counts.filter(({ copies }) => copies).length;
      at('measured').textContent = `${whole(yes)} of ${whole(done + together)} got a “yes”: ${significant(yes / (done + together), 2)}`;
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
  at('checked').textContent = 'reading …';
  let says;
  try {
    (await Filter.load(opened.blob, { maxBytes: mostChecked })).free();
    says = 'All sums are right, and all that can be counted is as the file says.';
  } catch (error) {
    says = `The library refuses it: ${error.message}`;
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
