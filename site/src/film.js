// SPDX-License-Identifier: MIT
// What "Watch a filter work" shows: a small filter, step by step.  After each step the filter is saved, and what is shown is
// read from the saved bytes, as docs/reference/format.md describes them.
import { Filter } from '../../js/src/wasm.js';
import { SavedFilter, sourceOfBytes } from './format.js';
import { plural } from './numbers.js';
import { scenes } from './scenes.js';

/** All words of a table that lies there. */
async function wordsOf(saved, at, count) {
  const bytes = await saved.container.read(at, 8 * count);
  return [...new BigUint64Array(bytes.slice().buffer)];
}

// ---- what is in the saved bytes ----

async function viewOfBloom(saved, hashes, step) {
  const mixed = step?.key && saved.mixed(hashes.of(step.key));
  const layers = [];
  for (const layer of saved.table.layers) {
    const words = await wordsOf(saved, layer.at, layer.words);
    layers.push({ number: layer.number, keys: layer.keys, words, masks: mixed ? layer.masks(mixed) : [] });
  }
  return { layers };
}

/**
 * The lanes of tables of buckets: { place, entry, key } of each lane, where place is its bucket's and its own number;
 * and the places of each key.
 */
function tableOf(buckets, lanesOfBucket, matches) {
  const lanes = buckets.map((_, bucket) => lanesOfBucket(bucket));
  const keyAt = new Map();
  for (const [key, places] of matches) {
    for (const place of places) {
      if (!keyAt.has(place))
        keyAt.set(place, key);
    }
  }
  return lanes.map((entries, bucket) => entries.map((entry, lane) => ({ entry, key: keyAt.get(`${bucket} ${lane}`) ?? null })));
}

async function viewOfCuckoo(saved, hashes, step, keys) {
  const segments = [];
  for (const generation of saved.table.generations) {
    for (const segment of generation.segments.values()) {
      const words = await wordsOf(saved, segment.at, generation.buckets);
      const matches = keys.map((key) => {
        const place = generation.placeOf(saved.mixed(hashes.of(key)));
        const places = generation.segmentOf(place) !== segment ? [] : place.buckets.flatMap((bucket) =>
          generation.lanesOf(words[bucket], segment.depth).flatMap((entry, lane) => (entry && generation.knows(entry, place.fingerprint, segment.depth) >= 0 ? [`${bucket} ${lane}`] : [])));
        return [key, places];
      });
      const asked = step?.key ? generation.placeOf(saved.mixed(hashes.of(step.key))) : null;
      segments.push({
        name: `${generation.number} ${segment.index} ${segment.depth}`, generation: generation.number, depth: segment.depth, index: segment.index, depthLimit: generation.depthLimit, unevenAt: generation.unevenAt,
        buckets: tableOf(words, (bucket) => generation.lanesOf(words[bucket], segment.depth), matches),
        asked: asked && generation.segmentOf(asked) === segment ? asked.buckets : [],
      });
    }
  }
  return { segments };
}

async function viewOfWindow(saved, hashes, step, keys) {
  const { table } = saved;
  const segments = [];
  for (const layer of table.layers) {
    const words = await wordsOf(saved, layer.at, layer.words);
    const copied = await layer.copiedOf(saved.container, 0);
    const lanesOf = (bucket) => layer.lanesOf(bucket, words[layer.wordAt(bucket)]).map(([, entry]) => entry);
    const matches = keys.map((key) => {
      const { fingerprint, buckets } = layer.placeOf(saved.mixed(hashes.of(key)));
      return [key, buckets.flatMap((bucket) => lanesOf(bucket).flatMap((entry, lane) => (table.hasFingerprint(entry, fingerprint) ? [`${bucket} ${lane}`] : [])))];
    });
    const buckets = tableOf(Array.from({ length: 2 * layer.half }), lanesOf, matches);
    for (const lane of buckets.flat()) {
      if (lane.entry) {
        lane.period = table.periodOf(lane.entry, copied);
        lane.forgotten = !table.isRemembered(lane.period);
      }
    }
    segments.push({ name: String(layer.index), buckets, asked: step?.key ? layer.placeOf(saved.mixed(hashes.of(step.key))).buckets : [] });
  }
  return { segments, period: table.last, periods: table.periods };
}

const views = { bloom: viewOfBloom, cuckoo: viewOfCuckoo, window: viewOfWindow };

// ---- the steps ----

export class Film {
  constructor(name) {
    this.name = name;
    this.scene = scenes[name];
    this.length = this.scene.steps.length;
    this.begin();
  }

  begin() {
    this.filter?.free();
    this.filter = new Filter(this.scene.options);
    this.at = 0;
    this.keys = new Set(); // that were added, and not removed
    this.view = null;
    const known = new Map();
    this.hashes = {
      of: (key) => known.get(key) ?? (known.set(key, this.filter.hash(`key ${key}`)), known.get(key)),
    };
  }

  free() {
    this.filter.free();
  }

  /** Does a step to the filter, and returns what the filter says. */
  apply({ does, key }) {
    const text = `key ${key}`;
    switch (does) {
      case 'add': {
        const isNew = this.filter.add(text);
        if (isNew)
          this.keys.add(key);
        return isNew;
      }
      case 'remove':
        this.keys.delete(key);
        return this.filter.remove(text);
      case 'has':
        return this.filter.has(text);
      default:
        return this.filter.advance();
    }
  }

  async look(step) {
    const bytes = this.filter.save();
    const saved = await SavedFilter.open(sourceOfBytes(bytes));
    return { ...(await views[this.name](saved, this.hashes, step, [...this.keys])), bytes: bytes.length };
  }

  /** What there is after step n: { step, said, before, view, stats }; `before` is the view one step earlier. */
  async goTo(n) {
    if (n < this.at)
      this.begin();
    while (this.at < n - 1)
      this.view = null, this.apply(this.scene.steps[this.at++]);
    const before = n > 0 ? (this.at === n - 1 && this.view) || (await this.look(null)) : null;
    const step = n > 0 ? this.scene.steps[n - 1] : null;
    const earlier = this.filter.stats();
    const said = this.at < n ? this.apply(step) : this.said;
    this.at = n;
    this.said = said;
    this.view = await this.look(step);
    return { n, step, said, before, view: this.view, earlier, stats: this.filter.stats(), has: (key) => this.keys.has(key) };
  }
}

// ---- what has changed ----

/** Where each key lies: "segment bucket lane". */
export function placesOf(view) {
  const places = new Map();
  for (const { name, buckets } of view?.segments ?? [])
    buckets.forEach((lanes, bucket) => lanes.forEach(({ key }, lane) => key && !places.has(key) && places.set(key, { segment: name, bucket, lane })));
  return places;
}

/** What became of each key since the view before: 'new', 'moved' within its segment, or 'split' into another one. */
export function changesOf({ before, view }) {
  const was = placesOf(before), changes = new Map();
  for (const [key, place] of placesOf(view)) {
    const old = was.get(key);
    if (!old)
      changes.set(key, 'new');
    else if (old.segment !== place.segment)
      changes.set(key, 'split');
    else if (old.bucket !== place.bucket)
      changes.set(key, 'moved');
  }
  return changes;
}

const listed = (keys) => (keys.length > 8 ? `${keys.slice(0, 8).join(', ')} and ${keys.length - 8} more` : keys.join(', '));

/** What has happened in a step, in sentences. */
export function sentencesOf(name, shot) {
  const { step, said, before, view, earlier, stats } = shot;
  if (!step)
    return ['The filter is empty.'];
  const sentences = [];
  const changes = name === 'bloom' ? new Map() : changesOf(shot);
  if (step.does === 'add') {
    if (!said)
      sentences.push(shot.has(step.key) ? `Key ${step.key} is added again${name === 'window' ? ', and its time starts again' : ', but the filter has it already'}.` : `Key ${step.key} is new, but the filter seems to have it already: a false positive. The key is not stored.`);
    else
      sentences.push(`Key ${step.key} is added.`);
  } else if (step.does === 'remove') {
    sentences.push(`Key ${step.key} is removed, so its lane is empty.`);
  } else if (step.does === 'has') {
    const isIn = shot.has(step.key) && (name !== 'window' || said);
    sentences.push(`Is key ${step.key} in the filter? ${said ? (isIn ? 'Yes.' : 'The filter says yes, but the key is not in: a false positive.') : name === 'window' ? 'No: the filter has forgotten it.' : 'Certainly not.'}`);
  } else {
    sentences.push(`Period ${view.period - 1} has ended; period ${view.period} begins.`);
  }
  if (name === 'bloom' && step.does === 'add' && said) {
    const last = view.layers.at(-1);
    const old = before.layers.find(({ number }) => number === last.number);
    const bits = last.masks.reduce((sum, [, mask]) => sum + ones(mask), 0);
    const fresh = last.masks.reduce((sum, [word, mask]) => sum + ones(mask & ~(old?.words[word] ?? 0n)), 0);
    sentences.push(`Of the ${plural(bits, 'bit')} of the key, ${fresh} ${fresh === 1 ? 'was' : 'were'} not set before.`);
    if (view.layers.length > before.layers.length)
      sentences.push(`The last layer was full, so the filter opened layer ${last.number} first.`);
  }
  if (name === 'cuckoo') {
    const moved = [...changes].filter(([, what]) => what === 'moved').map(([key]) => key);
    if (stats.evictions > earlier.evictions)
      sentences.push(`Both of its buckets were full, so ${moved.length ? `the ${moved.length === 1 ? 'entry of key' : 'entries of keys'} ${listed(moved)}` : 'other entries'} moved to the other bucket.`);
    if (stats.segments > earlier.segments) {
      const { depth, unevenAt } = before.segments.find((old) => !view.segments.some((segment) => segment.name === old.name));
      sentences.push(`A segment was full, and has split into two. ${depth === unevenAt ? 'The class' : 'The next fingerprint bit'} of each entry says which part the entry goes to.`);
    }
  }
  if (name === 'window' && step.does === 'advance') {
    const gone = [...placesOf(before).keys()].filter((key) => {
      const lanes = view.segments.flatMap(({ buckets }) => buckets.flat());
      return !lanes.some((lane) => lane.key === key && !lane.forgotten);
    });
    const remembered = view.period - view.periods;
    sentences.push(remembered >= 0 ? `The filter forgets keys that were last added before period ${remembered}: ${gone.length ? `${gone.length === 1 ? 'key' : 'keys'} ${listed(gone)}` : 'now there are none'}.` : 'No key is old enough to be forgotten.');
  }
  return sentences;
}

export const ones = (word) => word.toString(2).replaceAll('0', '').length;
