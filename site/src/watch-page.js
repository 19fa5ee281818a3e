// SPDX-License-Identifier: MIT
// The page "Watch a filter work".
import { at, element, shape, showFigures } from './elements.js';
import { Film, changesOf, ones, placesOf, sentencesOf } from './film.js';
import { percent, plural, significant } from './numbers.js';

const calm = matchMedia('(prefers-reduced-motion: reduce)');
let film = null;
let playing = false;
let timer = 0;
let busy = Promise.resolve(); // steps come one after the other

// ---- the pictures ----

function bloomPicture({ view, before, step }) {
  return view.layers.map(({ number, words, masks, keys }) => {
    const old = before?.layers.find((layer) => layer.number === number)?.words;
    const size = 8;
    const svg = shape('svg', { class: 'table-picture', viewBox: `0 0 ${64 * size + 34} ${words.length * size}`, role: 'img', 'aria-label': `Layer ${number}: ${words.reduce((sum, word) => sum + ones(word), 0)} of ${64 * words.length} bits are set` });
    const asked = new Map();
    for (const [word, mask] of masks)
      asked.set(word, (asked.get(word) ?? 0n) | mask);
    words.forEach((word, row) => {
      svg.append(shape('text', { x: 28, y: row * size + 7, class: 'number', 'text-anchor': 'end' }, String(row)));
      for (let bit = 0; bit < 64; bit++) {
        const isSet = (word >> BigInt(bit)) & 1n, isAsked = ((asked.get(row) ?? 0n) >> BigInt(bit)) & 1n;
        const isNew = isSet && step?.does === 'add' && !(((old?.[row] ?? 0n) >> BigInt(bit)) & 1n);
        const state = isNew ? 'new' : isAsked ? (isSet ? 'hit' : 'miss') : isSet ? 'used' : 'free';
        svg.append(shape('rect', { x: 34 + bit * size + 0.5, y: row * size + 0.5, width: size - 1, height: size - 1, class: `lane ${state}` }));
      }
    });
    return element('figure', {}, element('figcaption', { textContent: `Layer ${number}: ${plural(keys, 'key')}, ${words.length} words of 64 bits` }), svg);
  });
}

function tablePicture(shot, captionOf, classOf) {
  const changes = changesOf(shot);
  return shot.view.segments.map((segment, i) => {
    const { buckets, asked } = segment;
    const half = buckets.length / 2, lanes = buckets[0].length;
    const wide = 26, tall = 18, gap = 16;
    const height = 2 * lanes * tall + gap;
    const used = buckets.flat().filter(({ entry }) => entry).length;
    const svg = shape('svg', { class: 'table-picture', viewBox: `-1 -1 ${half * wide + 2} ${height + 2}`, role: 'img', 'aria-label': `${captionOf(segment, i)}: ${used} of ${buckets.length * lanes} lanes are in use` });
    buckets.forEach((entries, bucket) => {
      const x = (bucket % half) * wide, top = bucket < half ? 0 : lanes * tall + gap;
      entries.forEach((lane, number) => {
        const y = top + number * tall;
        const state = lane.entry ? changes.get(lane.key) ?? 'used' : 'free';
        svg.append(shape('rect', { x: x + 1, y: y + 1, width: wide - 2, height: tall - 2, class: `lane ${state} ${classOf(lane)}` }));
        if (lane.entry)
          svg.append(shape('text', { x: x + wide / 2, y: y + tall - 5, 'text-anchor': 'middle', class: `${state} ${classOf(lane)}` }, lane.key ?? '?'));
      });
      if (asked.includes(bucket))
        svg.append(shape('rect', { x, y: top, width: wide, height: lanes * tall, class: 'asked' }));
    });
    return element('figure', {}, element('figcaption', { textContent: captionOf(segment, i) }), svg);
  });
}

const cuckooCaption = ({ generation, depth, index, depthLimit, unevenAt, buckets }) => {
  const path = depth ? (index >> (depthLimit - depth)).toString(2).padStart(depth, '0') : '';
  const bits = path.slice(0, unevenAt) + path.slice(unevenAt + 1);
  const keys = [depth > unevenAt && `class ${path[unevenAt]}`, bits && `fingerprints that begin with ${bits}`].filter(Boolean);
  return `${generation ? `Generation ${generation + 1}, s` : 'S'}egment for ${keys.join(' and ') || 'all keys'}: ${buckets.length} buckets`;
};

const pictures = {
  bloom: bloomPicture,
  cuckoo: (shot) => tablePicture(shot, cuckooCaption, () => ''),
  window: (shot) => tablePicture(shot, ({ buckets }, i) => `${shot.view.segments.length > 1 ? `Layer ${i + 1}: ` : ''}${buckets.length} buckets`,
    ({ entry, period, forgotten }) => (!entry ? '' : forgotten ? 'forgotten' : `age${Math.min(4, shot.view.period - period)}`)),
};

const legends = {
  bloom: [['used', 'set'], ['new', 'set in this step'], ['hit', 'bit of the key, set before this step'], ['miss', 'bit of the key, not set']],
  cuckoo: [['used', 'lane in use, with the number of its key'], ['new', 'added in this step'], ['moved', 'moved by an eviction'], ['split', 'moved by a split'], ['asked', 'the two buckets of the key of this step']],
  window: [['age0', 'last added in this period'], ['age2', 'two periods ago'], ['age4', 'four periods ago: forgotten when this period ends'], ['forgotten', 'forgotten: the lane is free'], ['new', 'added in this step'], ['asked', 'the two buckets of the key of this step']],
};

const explanations = {
  bloom: `<h2>What you see</h2><p>Each key sets a few bits, all in one line of eight words. A look-up reads these bits: if one of them is not set, the key was never added. When a layer has reached its capacity, the next add opens another layer, and look-ups search both. Read more about <a href="docs/internals/bloom.html">Bloom filters</a>.</p>`,
  cuckoo: `<h2>What you see</h2><p>Each key has two buckets, one in the upper row and one in the lower row. An add stores a few bits of the key’s hash, the fingerprint, in a lane of one of these buckets. If both are full, an entry in them moves to its own other bucket: this is an eviction. When a segment is full, it splits into two. The split does not need the keys themselves. Read more about <a href="docs/internals/cuckoo.html">cuckoo filters</a> and <a href="docs/internals/growth.html">how they grow</a>.</p>`,
  window: `<h2>What you see</h2><p>Each entry has a stamp, which says in which period its key was last added. This filter remembers keys for four periods. When a period ends, entries with the oldest stamp no longer count, and their lanes are free. The filter copies nothing for this. Read more about <a href="docs/use/window.html">sliding windows</a>.</p>`,
};

// ---- a step ----

function figuresOf(name, { view, stats }) {
  const places = placesOf(view);
  const common = [['Keys', String(name === 'window' ? places.size : stats.count)], ['Bytes when saved', view.bytes.toLocaleString('en')]];
  if (name === 'bloom')
    return [...common, ['Layers', view.layers.length], ['Bits set', percent(stats.bitsSet / stats.bits)], ['False-positive rate now', significant(stats.fppEstimate, 2)]];
  if (name === 'cuckoo')
    return [...common, ['Segments', stats.segments], ['Evictions so far', stats.evictions], ['Lanes in use', percent(stats.occupancy)], ['False-positive rate now', significant(stats.fppEstimate, 2)]];
  return [...common, ['Period', view.period], ['Layers', view.segments.length]];
}

async function show(n) {
  const shot = await film.goTo(Math.max(0, Math.min(film.length, n)));
  at('happened').replaceChildren(...sentencesOf(film.name, shot).map((text) => element('p', { textContent: text })));
  showFigures(at('figures'), figuresOf(film.name, shot));
  at('stage').replaceChildren(...pictures[film.name](shot));
  at('stage').dataset.step = shot.n;
  at('position').value = shot.n;
  at('number').textContent = `${shot.n} of ${film.length}`;
  at('first').disabled = at('back').disabled = shot.n === 0;
  at('next').disabled = shot.n === film.length;
}

/** Goes to a step when those before are shown. */
function goTo(n) {
  busy = busy.then(() => show(n));
  return busy;
}

const step = (by) => goTo(film.at + by);

// ---- playing ----

function setPlaying(wanted) {
  playing = wanted;
  clearTimeout(timer);
  at('play').textContent = playing ? 'Pause' : 'Play';
  at('play').setAttribute('aria-pressed', String(playing));
  // What passes quickly is not read out.
  at('happened').setAttribute('aria-live', playing ? 'off' : 'polite');
  if (playing)
    tick();
}

async function tick() {
  await step(1);
  if (film.at >= film.length)
    setPlaying(false);
  if (playing)
    timer = setTimeout(tick, 1000 / (calm.matches ? 1 : Number(at('speed').value)));
}

async function togglePlaying() {
  if (!playing && film.at >= film.length)
    await goTo(0);
  setPlaying(!playing);
}

async function choose(name) {
  film?.free();
  film = new Film(name);
  at('position').max = film.length;
  at('legend').replaceChildren(...legends[name].map(([state, text]) => element('li', {}, shape('svg', { viewBox: '0 0 18 14', width: 18, height: 14, 'aria-hidden': 'true' }, shape('rect', { x: 1, y: 1, width: 16, height: 12, class: state === 'asked' ? 'asked' : `lane ${state}` })), ` ${text}`)));
  at('explained').innerHTML = explanations[name];
  return show(0);
}

at('controls').addEventListener('change', ({ target }) => {
  if (target.name === 'scene') {
    setPlaying(false);
    busy = busy.then(() => choose(target.value));
  }
});
at('controls').addEventListener('submit', (event) => event.preventDefault());
const pauseAnd = (work) => () => {
  setPlaying(false);
  work();
};
at('first').addEventListener('click', pauseAnd(() => goTo(0)));
at('back').addEventListener('click', pauseAnd(() => step(-1)));
at('next').addEventListener('click', pauseAnd(() => step(1)));
at('play').addEventListener('click', togglePlaying);
at('position').addEventListener('input', pauseAnd(() => goTo(Number(at('position').value))));
at('speed').addEventListener('input', () => {
  at('pace').textContent = at('speed').value;
});
at('stage').addEventListener('keydown', (event) => {
  const work = {
    ArrowRight: pauseAnd(() => step(1)), ArrowLeft: pauseAnd(() => step(-1)), Home: pauseAnd(() => goTo(0)),
    End: pauseAnd(() => goTo(film.length)), ' ': togglePlaying,
  }[event.key];
  if (work) {
    event.preventDefault();
    work();
  }
});
await choose(document.querySelector('[name=scene]:checked').value);
