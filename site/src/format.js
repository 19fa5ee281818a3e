// SPDX-License-Identifier: MIT
// Reads saved filters as docs/format.md describes them, by slices: what the look-up of a key needs, and no more.
//
// A source is { size, read(at, size) }, which resolves to exactly so many bytes.  The sum of the header is checked by
// the library (see file-page.js).  Sums of blocks and chunks are not, as whoever checks them must read all that they
// cover.  Everything else is: each number is within its range before anything depends on it.

const MASK = (1n << 64n) - 1n;
const MULTIPLIER = 0xD1342543DE82EF95n;
const CHUNK = 2 ** 20;
const UNIT = 64;
const HEADER = 512;
const SUMS = 1, GENERATION = 16, LAYER = 16, SEGMENT = 17, REMOVED = 18, COUNTS = 19, PLACES = 20, LIMITS = 21, WINDOW_LAYER = 32, COPIED = 33;
const LAYERS = 1, WINDOW = 2, LIVE = 4;
const END = 'TAMISEND';

export class NotAFilter extends Error {}

function need(condition, what) {
  if (!condition)
    throw new NotAFilter(`the file is damaged: ${what}`);
}

const padded = (size, unit) => Math.ceil(size / unit) * unit;

// ---- numbers in bytes ----

const viewOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const u32 = (bytes, at) => viewOf(bytes).getUint32(at, true);
const big = (bytes, at) => viewOf(bytes).getBigUint64(at, true);
const f64 = (bytes, at) => viewOf(bytes).getFloat64(at, true);

/** A u64 that is a count or an offset: such numbers stay below 2^53, but what is read may be anything. */
function u64(bytes, at) {
  const value = big(bytes, at);
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : Infinity;
}

function popcount(word) {
  let v = word | 0;
  v -= (v >>> 1) & 0x55555555;
  v = (v & 0x33333333) + ((v >>> 2) & 0x33333333);
  return Math.imul((v + (v >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

// ---- hashes ----

const high = (product) => product >> 64n;
const spread = (x) => ((x ^ (x >> 32n)) * MULTIPLIER) & MASK;
const rotl = (x, by) => ((x << (by % 64n)) | (x >> ((64n - by % 64n) % 64n))) & MASK;
function fold(x, a, b) {
  const product = 0x3C79AC492BA7B653n * (x ^ a);
  return ((high(product) ^ (product & MASK)) + b) & MASK;
}

/** What mixes the hashes of a filter with its seed. */
function mixingOf(seed) {
  const k0 = spread(fold(seed, 0x9E3779B97F4A7C15n, 0n)), k1 = spread(fold(seed, 0x3C6EF372FE94F82An, 0n));
  return (hash) => fold(hash, k0, k1);
}

// ---- the container ----

/** Reads from a source, notes what was read, and finds the parts of the file. */
class Container {
  constructor(source) {
    this.source = source;
    this.reads = []; // [at, size], in order
    this.bytesRead = 0;
    this.parts = []; // { name, at, size }: what the file consists of, as far as it was followed
    this.blocks = 0;
  }

  async read(at, size) {
    need(at + size <= this.source.size, 'it ends too early');
    this.reads.push([at, size]);
    this.bytesRead += size;
    return this.source.read(at, size);
  }

  part(name, at, size) {
    this.parts.push({ name, at, size });
  }

  /** The head of the block that begins there, or null where the trailer does. */
  async head(at) {
    const head = await this.read(at, UNIT);
    if (String.fromCharCode(...head.subarray(0, 8)) === END)
      return null;
    const block = {
      at, type: u32(head, 0), size: u64(head, 8), number: u64(head, 16),
      meanings: [24, 32, 40, 48].map((offset) => big(head, offset)),
    };
    need(u32(head, 4) === 0 && block.size <= CHUNK, 'the head of a block');
    block.end = at + UNIT + padded(block.size, UNIT);
    need(block.end + UNIT <= this.source.size, 'it ends too early');
    return block;
  }

  payload(block) {
    return this.read(block.at + UNIT, block.size);
  }

  /** Where an array of so many bytes lies that comes next, and where the parts after its sums begin. */
  array(after, size, name) {
    const at = padded(after, 4096);
    const chunks = Math.ceil(size / CHUNK);
    let end = at + size;
    for (let done = 0; done < chunks; done += CHUNK / 8)
      end += UNIT + padded(8 * Math.min(chunks - done, CHUNK / 8), UNIT);
    need(end + UNIT <= this.source.size, 'it ends too early');
    this.part(name, at, size);
    this.part('sums', at + size, end - at - size);
    return { at, size, end };
  }

  /** Where number i of a row of n numbers lies whose first block begins there. */
  static inRow(begin, i) {
    const full = CHUNK / 8;
    return begin + Math.floor(i / full) * (UNIT + CHUNK) + UNIT + 8 * (i % full);
  }

  static endOfRow(begin, n) {
    const full = CHUNK / 8, rest = n % full;
    return begin + Math.floor(n / full) * (UNIT + CHUNK) + (rest ? UNIT + padded(8 * rest, UNIT) : 0);
  }

  /** The totals in the trailer, which begins there. */
  async trailer(at) {
    const bytes = await this.read(at, UNIT);
    need(String.fromCharCode(...bytes.subarray(0, 8)) === END, 'its end is missing');
    need(u64(bytes, 8) === at + UNIT && at + UNIT === this.source.size, 'its length');
    this.part('trailer', at, UNIT);
    return [24, 32, 40].map((offset) => u64(bytes, offset));
  }
}

/** The numbers that the payload of a block of counts has. */
function numbersIn(payload) {
  const numbers = [];
  let value = 0, scale = 1;
  for (const byte of payload) {
    value += (byte & 0x7f) * scale;
    scale *= 128;
    if (byte < 0x80) {
      numbers.push(value);
      value = 0, scale = 1;
    }
    need(scale <= 2 ** 56, 'a number of copies');
  }
  need(scale === 1 && numbers.length % 2 === 0, 'numbers of copies');
  return numbers;
}

/** The further copies of a lane; `blocks` are those of the table's counts. */
async function furtherCopies(container, blocks, lanesOfWord, lane) {
  const first = Math.floor(lane / lanesOfWord / 4096) * 4096;
  const block = blocks.find(({ meanings }) => meanings[1] === BigInt(first));
  if (!block)
    return 0;
  let at = first * lanesOfWord - 1;
  const numbers = numbersIn(await container.payload(block));
  for (let i = 0; i < numbers.length; i += 2) {
    at += numbers[i] + 1;
    if (at === lane)
      return numbers[i + 1];
  }
  return 0;
}

// ---- Bloom filters ----

const layoutNames = ['blocked', 'classic', 'word', 'marked', 'counting'];
const steps = [2n, 3n, 4n, 2n];

class BloomLayer {
  constructor(number, geometry) {
    const [layout, probes, bits, lines, sections] = geometry;
    need(layout <= 4 && probes >= 1 && probes <= 5 && bits >= 1 && bits <= 7, 'the layout of a layer');
    need(lines >= 1 && lines < 2 ** 41 && sections >= 1 && sections <= 32, 'the size of a layer');
    Object.assign(this, { number, layout, probes, bits, lines, sections, words: 8 * lines });
    this.section = Math.floor(this.words / sections);
    if (sections > 1 && probes > 1)
      this.section -= this.section % 8;
    need(this.section > 0, 'the size of a layer');
    this.name = layoutNames[layout];
    this.isCounting = layout === 4;
  }

  /** The words of a key, and its bits in them: [number of the word, mask]. */
  masks(mixed) {
    const all = [];
    let h = mixed;
    for (let section = 0; section < this.sections; section++) {
      for (const [word, mask] of this.masksInSection(h))
        all.push([section * this.section + Number(word), mask]);
      h = ((h ^ (h >> 32n)) * MULTIPLIER) & MASK;
    }
    return all;
  }

  masksInSection(h) {
    let word = high(((h * MULTIPLIER) & MASK) * BigInt(this.section));
    if (this.layout <= 1 || this.isCounting) {
      const width = this.isCounting ? 4n : 1n;
      let pattern = 1n << 32n;
      if (this.bits > 1)
        pattern |= 1n << (((h >> 30n) % (32n / width)) * width);
      if (this.bits > 2)
        pattern |= 1n << (32n + (((h >> 35n) | 1n) % 32n));
      const all = [];
      for (let i = 0; i < this.probes; i++) {
        all.push([word, rotl(pattern, ((h >> BigInt(6 * i)) % (64n / width)) * width)]);
        if (i + 1 < this.probes)
          word ^= (h >> 62n) + steps[i];
      }
      return all;
    }
    let mask = 0n;
    for (let i = 0; i < this.bits; i++)
      mask = rotl(mask | 1n, (h >> BigInt(6 * i)) % 64n);
    if (this.layout === 3 && mask >> 63n)
      mask = (mask & ~(1n << 63n)) | (1n << high(h * 63n));
    return [[word, mask]];
  }

  /** How many copies of the key a layer has: 1 or 0, but of counters. */
  async count(container, mixed, trace) {
    const masks = this.masks(mixed);
    const words = await Promise.all(masks.map(([word]) => container.read(this.at + 8 * word, 8)));
    let least = Infinity;
    masks.forEach(([word, mask], i) => {
      const value = big(words[i], 0);
      trace?.push({ layer: this.number, word, mask, value });
      if (this.isCounting) {
        for (let shift = 0n; shift < 64n; shift += 4n) {
          if ((mask >> shift) & 1n)
            least = Math.min(least, Number((value >> shift) & 15n));
        }
      } else {
        least = Math.min(least, (value & mask) === mask ? 1 : 0);
      }
    });
    return least;
  }

  /** How full `samples` parts of the layer are: [part of the bits that are set], and what rate follows from that. */
  async sample(container, samples) {
    const size = Math.min(this.lines, Math.max(1, Math.ceil(4096 / 64)));
    const count = Math.min(samples, Math.ceil(this.lines / size));
    const fills = [];
    let rates = 0, lines = 0;
    for (let i = 0; i < count; i++) {
      const line = count === 1 ? 0 : Math.floor(i * (this.lines - size) / (count - 1));
      const bytes = await container.read(this.at + 64 * line, 64 * Math.min(size, this.lines - line));
      let set = 0;
      for (let at = 0; at < bytes.length; at += 64) {
        let ofLine = 0;
        for (let word = at; word < at + 64; word += 8) {
          const fill = this.fillOf(u32(bytes, word), u32(bytes, word + 4));
          set += fill;
          ofLine += fill ** (this.layout === 1 ? 2 : this.bits);
        }
        rates += (ofLine / 8) ** (this.layout === 1 ? 1 : this.probes);
        lines++;
      }
      fills.push(set / (bytes.length / 8));
    }
    return { fills, rate: (rates / lines) ** this.sections };
  }

  /** The part of a word's bits that are set or, of counters, of those that are not 0. */
  fillOf(low, top) {
    if (!this.isCounting)
      return (popcount(low) + popcount(top)) / 64;
    const some = (word) => popcount((word | (word >>> 1) | (word >>> 2) | (word >>> 3)) & 0x11111111);
    return (some(low) + some(top)) / 16;
  }
}

class Bloom {
  static async open(container, { geometry, features, kind }) {
    const further = geometry(6);
    need(further <= 63 && (further === 0) === !(features & LAYERS), 'the number of layers');
    const bloom = new Bloom();
    const first = new BloomLayer(1, [0, 1, 2, 3, 4].map(geometry));
    need(first.isCounting === (kind === 3), 'the layout');
    bloom.layers = [first];
    if (features & LIVE)
      await bloom.openLive(container, further);
    else
      await bloom.openSealed(container, further);
    return bloom;
  }

  async openSealed(container, further) {
    const [first] = this.layers;
    const place = (layer, after) => {
      const { at, end } = container.array(after, 64 * layer.lines, `layer ${layer.number}`);
      layer.at = at;
      return end;
    };
    let at = place(first, HEADER);
    for (let number = 2; number <= further + 1; number++) {
      const block = await container.head(at);
      need(block?.type === LAYER && block.size === 56 && block.meanings[0] === BigInt(number), 'a layer is missing');
      const payload = await container.payload(block);
      const layer = new BloomLayer(number, [0, 8, 16, 24, 32].map((offset) => u64(payload, offset)));
      Object.assign(layer, { keys: Number(block.meanings[1]), capacity: u64(payload, 40), rate: f64(payload, 48) });
      this.layers.push(layer);
      at = place(layer, block.end);
    }
    [first.keys, this.isFull] = await container.trailer(at);
  }

  /** A file that processes share: it has its full size, and the tallies say how many of its layers are open. */
  async openLive(container, further) {
    let at = HEADER;
    for (let number = 2; number <= further + 1; number++) {
      const block = await container.head(at);
      need(block?.type === LAYER && block.size === 56, 'a layer is missing');
      const payload = await container.payload(block);
      const layer = new BloomLayer(number, [0, 8, 16, 24, 32].map((offset) => u64(payload, offset)));
      Object.assign(layer, { capacity: u64(payload, 40), rate: f64(payload, 48) });
      this.layers.push(layer);
      at = block.end;
    }
    const tallies = padded(at, 4096), size = 33 * 64;
    const open = u64(await container.read(tallies, 8), 0) / 2;
    const used = open >= 1 && open < this.layers.length + 1 ? Math.floor(open) : 1;
    let array = padded(tallies + size * this.layers.length, 4096);
    for (const [i, layer] of this.layers.entries()) {
      layer.at = array;
      container.part(`layer ${layer.number}`, array, 64 * layer.lines);
      need(array + 64 * layer.lines <= container.source.size, 'it ends too early');
      if (i < used) {
        const tally = await container.read(tallies + size * i, size);
        let keys = 0n;
        for (let part = 64; part < size; part += 64)
          keys += big(tally, part);
        layer.keys = Number(keys & MASK);
      }
      array = padded(array + 64 * layer.lines, 4096);
    }
    this.layers.length = used;
  }

  async count(container, mixed, trace) {
    for (const layer of this.layers) {
      const copies = await layer.count(container, mixed, trace);
      if (copies)
        return { copies };
    }
    return { copies: 0 };
  }
}

// ---- sliding windows ----

const shapes = [[8, 8], [9, 7], [10, 6], [12, 5], [16, 4], [16, 2], [21, 3], [32, 2]];

class WindowLayer {
  constructor(number, [shape, segments, half, capacity, index], stampBits) {
    need(shape < shapes.length, 'the shape of a layer');
    const [width, lanes] = shapes[shape];
    need(segments >= 1 && half >= 1 && half <= 2 ** 28 && segments * half <= 2 ** 53 && index >= 1 && index < 64, 'the size of a layer');
    Object.assign(this, { number, width, lanes, segments, half, capacity, index });
    this.bucketsOfWord = Math.floor(Math.floor(64 / width) / lanes);
    need(half % this.bucketsOfWord === 0, 'the size of a layer');
    this.segmentWords = 2 * half / this.bucketsOfWord;
    this.words = segments * this.segmentWords;
    this.fingerprintBits = width - stampBits;
    need(this.fingerprintBits >= 6, 'the shape of a layer');
    this.counts = [];
  }

  /** The segment, the fingerprint and both buckets of a key. */
  placeOf(mixed) {
    let x = (mixed * MULTIPLIER) & MASK;
    const segment = this.segments > 1 ? high(x * BigInt(this.segments)) : 0n;
    if (this.segments > 1)
      x = (x * BigInt(this.segments)) & MASK;
    const half = BigInt(this.half);
    const i = high(x * half);
    const shift = BigInt(64 - this.fingerprintBits);
    const fingerprint = (((x * half) & MASK) >> shift) || 1n;
    const g = high((fingerprint << shift) * half);
    const base = Number(segment) * 2 * this.half;
    const other = Number((g - i + half) % half);
    return { segment: Number(segment), fingerprint, buckets: [base + Number(i), base + this.half + other] };
  }

  /** The lanes of a bucket in its word: [lane of the word, what is in it]. */
  lanesOf(bucket, word) {
    const first = (bucket % this.bucketsOfWord) * this.lanes;
    const mask = (1n << BigInt(this.width)) - 1n;
    return Array.from({ length: this.lanes }, (_, i) => [first + i, (word >> BigInt((first + i) * this.width)) & mask]);
  }

  wordAt(bucket) {
    return Math.floor(bucket / this.bucketsOfWord);
  }

  /** How full some parts of the table are, and how many entries there are of each period. */
  async sample(container, window, samples) {
    const size = Math.min(this.words, 512);
    const count = Math.min(samples, Math.ceil(this.words / size));
    const fills = [], periods = new Map();
    const stampMask = (1n << BigInt(window.stampBits)) - 1n;
    for (let i = 0; i < count; i++) {
      const first = count === 1 ? 0 : Math.floor(i * (this.words - size) / (count - 1));
      const bytes = await container.read(this.at + 8 * first, 8 * size);
      const copied = await this.copiedOf(container, Math.floor(first / this.segmentWords));
      let used = 0, lanes = 0;
      for (let word = 0; word < size; word++) {
        for (let part = 0; part < this.bucketsOfWord; part++) {
          for (const [, entry] of this.lanesOf(part, big(bytes, 8 * word))) {
            lanes++;
            if (!entry)
              continue;
            used++;
            const period = window.periodOf(Number(entry & stampMask), copied);
            periods.set(period, (periods.get(period) ?? 0) + 1);
          }
        }
      }
      fills.push(used / lanes);
    }
    return { fills, periods };
  }

  copiedOf(container, segment) {
    return container.read(Container.inRow(this.copied, segment), 8).then((bytes) => u64(bytes, 0));
  }
}

class Window {
  static async open(container, { geometry, kind, features }) {
    if (features & LIVE)
      throw new NotAFilter('this is a window that processes share, whose entries move: save it by tamis_save_file, and open that file');
    const window = new Window();
    window.periods = geometry(0);
    window.renews = geometry(1) === 1;
    window.first = geometry(2);
    window.stamp = geometry(3);
    window.stamps = window.periods + 2;
    need(window.periods >= 1 && window.periods <= 64 && window.stamp >= 1 && window.stamp <= window.stamps, 'the window');
    window.stampBits = window.stamps.toString(2).length;
    const most = geometry(4);
    need(most >= 1 && most <= 63, 'the number of layers');
    window.layers = [];
    let numbers = [6, 7, 8, 9, 10].map(geometry), after = HEADER;
    for (;;) {
      const layer = new WindowLayer(window.layers.length, numbers, window.stampBits);
      const array = container.array(after, padded(8 * layer.words, UNIT), `layer ${layer.number}`);
      layer.at = array.at;
      layer.copied = array.end;
      let at = Container.endOfRow(array.end, layer.segments);
      need(at + UNIT <= container.source.size, 'it ends too early');
      const row = await container.head(layer.copied);
      need(row?.type === COPIED, 'the periods of a layer');
      container.part('periods', layer.copied, at - layer.copied);
      window.layers.push(layer);
      let block;
      while ((block = await container.head(at))?.type === COUNTS) {
        need(kind === 2, 'counts');
        layer.counts.push(block);
        container.part('counts', at, block.end - at);
        at = block.end;
      }
      if (!block) {
        [window.used, window.last] = await container.trailer(at);
        return window;
      }
      need(block.type === WINDOW_LAYER && block.size === 40 && window.layers.length < most, 'a layer');
      const payload = await container.payload(block);
      numbers = [0, 8, 16, 24, 32].map((offset) => u64(payload, offset));
      after = block.end;
    }
  }

  /** The period of an entry in a segment that was copied in period `copied`. */
  periodOf(stamp, copied) {
    const now = 1 + (((this.stamp - 1 + copied - this.first) % this.stamps) + this.stamps) % this.stamps;
    return copied - (now - stamp + this.stamps) % this.stamps;
  }

  isRemembered(period) {
    return this.last <= period + this.periods;
  }

  async count(container, mixed, trace) {
    for (const layer of this.layers) {
      const { segment, fingerprint, buckets } = layer.placeOf(mixed);
      const [copied, ...words] = await Promise.all([layer.copiedOf(container, segment),
        ...buckets.map((bucket) => container.read(layer.at + 8 * layer.wordAt(bucket), 8).then((bytes) => big(bytes, 0)))]);
      for (const [i, bucket] of buckets.entries()) {
        trace?.push({ layer: layer.number, bucket, fingerprint });
        for (const [lane, entry] of layer.lanesOf(bucket, words[i])) {
          if (!entry || entry >> BigInt(this.stampBits) !== fingerprint)
            continue;
          const period = this.periodOf(Number(entry & ((1n << BigInt(this.stampBits)) - 1n)), copied);
          if (this.isRemembered(period)) {
            const lanesOfWord = Math.floor(64 / layer.width);
            const further = await furtherCopies(container, layer.counts, lanesOfWord, layer.wordAt(bucket) * lanesOfWord + lane);
            return { copies: 1 + further, period };
          }
        }
      }
    }
    return { copies: 0 };
  }
}

// ---- cuckoo filters ----

const widths = [8, 9, 10, 12, 16, 21, 32];
const cells = [0, 29, 58, 84, 107, 128];

class Generation {
  constructor(number, figures, firstRoots, ages) {
    const [width, pairBits, depthLimit, stripes, , shift] = figures;
    need(widths.includes(width) && pairBits <= (ages ? 11 : 20) && stripes >= 1 && stripes <= 32, 'a generation');
    need(ages ? depthLimit >= 1 && depthLimit <= 9 : depthLimit === 0, 'a generation');
    need(firstRoots >= 1 && firstRoots < 2 ** 48 && shift < 48, 'the roots');
    Object.assign(this, { number, width, pairBits, depthLimit, stripes, shift, firstRoots, ages, later: number > 0 });
    this.roots = (this.later ? 5 * firstRoots : firstRoots) * 2 ** shift;
    need(this.roots < 2 ** 53, 'the roots');
    this.buckets = 2 * 2 ** pairBits;
    this.lanes = Math.floor(64 / width);
    this.rootBits = BigInt((firstRoots - 1).toString(2).length * (firstRoots > 1));
    this.needsSecond = Number(this.rootBits) + (this.later ? 2 : 0) + shift + pairBits + depthLimit + width - (ages ? 1 : 0) > 64;
    this.segments = new Map(); // by the first of their indexes
  }

  /** The root, the pair and the fingerprint of a key, which has 64 bits. */
  placeOf(mixed) {
    const product = spread(mixed) * BigInt(this.firstRoots);
    let root = high(product), bits = product & MASK, length = 64n;
    if (this.needsSecond) {
      length = 128n - this.rootBits;
      bits = ((bits >> this.rootBits) << 64n) | spread(fold(mixed, 0x2545F4914F6CDD1Dn, 0n));
    }
    const take = (n) => {
      length -= BigInt(n);
      const value = length >= 0n ? bits >> length : bits << -length;
      bits = length > 0n ? bits & ((1n << length) - 1n) : 0n;
      return value;
    };
    let number = 0n;
    if (this.later) {
      const cell = Number(take(7));
      const ofFive = cells.findIndex((end, i) => cell < cells[i + 1]);
      root = root * 5n + BigInt(ofFive);
      number = BigInt(cell - cells[ofFive]);
    }
    root = (root << BigInt(this.shift)) | take(this.shift);
    const pair = take(this.pairBits);
    let fingerprint = take(this.depthLimit), known = this.depthLimit;
    if (this.later) {
      fingerprint = (fingerprint << 5n) | number;
      known += 5;
    }
    fingerprint = (fingerprint << BigInt(64 - known)) | take(64 - known);
    const g = ((fingerprint >> BigInt(65 - this.width)) * 0x9E3779B97F4A7C15n) & MASK;
    const upper = BigInt(this.buckets / 2) + (pair ^ (g >> BigInt(64 - this.pairBits)));
    return { root, fingerprint, buckets: [Number(pair), Number(upper)] };
  }

  /** The segment that has the keys of a root whose fingerprints begin so. */
  segmentOf({ root, fingerprint }) {
    const index = Number((root << BigInt(this.depthLimit)) | (this.depthLimit ? fingerprint >> BigInt(64 - this.depthLimit) : 0n));
    for (let depth = 0; depth <= this.depthLimit; depth++) {
      const size = 2 ** (this.depthLimit - depth);
      const segment = this.segments.get(Math.floor(index / size) * size);
      if (segment?.depth === depth)
        return segment;
    }
    return null;
  }

  lanesOf(word) {
    const mask = (1n << BigInt(this.width)) - 1n;
    return Array.from({ length: this.lanes }, (_, lane) => (word >> BigInt(lane * this.width)) & mask);
  }

  /** The bits of the hash string that an entry knows if it may be this fingerprint's; -1 if it is not. */
  knows(entry, fingerprint, depth) {
    if (!this.ages)
      return entry === ((fingerprint >> BigInt(64 - this.width)) || 1n) ? 0 : -1;
    const age = Generation.ageOf(entry);
    const known = this.width - 1 - age;
    if (entry >> BigInt(age + 1) !== ((fingerprint << BigInt(depth)) & MASK) >> BigInt(64 - known))
      return -1;
    return this.pairBits + depth + this.width - age + (this.later ? this.shift + 2 : 0);
  }

  static ageOf(entry) {
    return (entry & -entry).toString(2).length - 1;
  }
}

class Cuckoo {
  static async open(container, { geometry, growable }, progress) {
    const cuckoo = new Cuckoo();
    const first = new Generation(0, [0, 1, 2, 3, 4, 5].map(geometry), geometry(6), growable);
    cuckoo.generations = [first];
    cuckoo.removed = new Map(); // copies that were taken out while the filter was saved, by lane
    if (growable)
      await cuckoo.openBlocks(container, progress);
    else
      await cuckoo.openArrays(container);
    return cuckoo;
  }

  /**
   * Reads the heads of all blocks.  Those of segments come at equal distances, unless there are counts, so the next
   * ones are read together where they probably lie.
   */
  async openBlocks(container, progress) {
    let at = HEADER, generation = this.generations[0], segment = null, stride = 0;
    const removed = [];
    let ahead = new Map(), together = 4, expected = 0;
    const headAt = async (place) => {
      if (!ahead.has(place)) {
        // As long as they lie where they should, more and more are read at a time.
        together = place === expected ? Math.min(512, 2 * together) : 4;
        expected = place + together * stride;
        const places = Array.from({ length: together }, (_, i) => place + i * stride).filter((next) => next + UNIT <= container.source.size);
        const heads = await Promise.all(places.map((next) => container.head(next).catch(() => undefined)));
        ahead = new Map(places.map((next, i) => [next, heads[i]]));
        progress?.(place);
      }
      const head = ahead.get(place);
      need(head !== undefined, 'the head of a block');
      return head;
    };
    for (let number = 0; ; number++) {
      const block = stride ? await headAt(at) : await container.head(at);
      if (!block)
        break;
      need(block.number === number, 'the number of a block');
      const [first, index, , used] = block.meanings;
      stride = block.type === SEGMENT ? block.end - at : 0;
      if (block.type === GENERATION) {
        need(block.size === 48 && first === BigInt(this.generations.length) && this.generations.length < 24, 'a generation');
        const payload = await container.payload(block);
        generation = new Generation(this.generations.length, [0, 8, 16, 24, 32, 40].map((offset) => u64(payload, offset)), generation.firstRoots, true);
        this.generations.push(generation);
      } else if (block.type === SEGMENT) {
        const depth = Number(first >> 32n);
        need((first & 0xffffffffn) === BigInt(generation.number) && depth <= generation.depthLimit && block.size === 8 * generation.buckets &&
          index < BigInt(generation.roots) << BigInt(generation.depthLimit) && used <= BigInt(generation.buckets * generation.lanes), 'a segment');
        segment = { generation, depth, index: Number(index), at: at + UNIT, used: Number(used), counts: [] };
        generation.segments.set(segment.index, segment);
        container.part('segment', at, block.end - at);
      } else if (block.type === COUNTS) {
        need(segment && first === BigInt(segment.index), 'counts');
        segment.counts.push(block);
      } else if (block.type === REMOVED) {
        const payload = await container.payload(block);
        for (let i = 0; i + 8 <= payload.length; i += 8)
          removed.push(big(payload, i));
      } else {
        need(block.type === LIMITS, 'a block of no known type');
      }
      at = block.end;
    }
    [this.used, this.further, this.segmentCount] = await container.trailer(at);
    for (const mixed of removed)
      await this.remove(container, mixed);
  }

  async openArrays(container) {
    const [generation] = this.generations;
    const trailer = await container.trailer(container.source.size - UNIT);
    [this.used, this.further] = trailer;
    this.segmentCount = generation.roots;
    this.places = trailer[2];
    need(this.places % UNIT === 0 && Container.endOfRow(this.places, generation.roots) + UNIT === container.source.size, 'the places of its segments');
    const row = await container.head(this.places);
    need(row?.type === PLACES, 'the places of its segments');
    this.headSize = 64 + padded(16 * generation.stripes, 64);
    container.part('segments', padded(HEADER, 4096), this.places - padded(HEADER, 4096));
    container.part('places', this.places, container.source.size - UNIT - this.places);
  }

  /** The segment of a root of a filter that does not grow. */
  async segmentAt(container, root) {
    const [generation] = this.generations;
    let segment = generation.segments.get(root);
    if (!segment) {
      const place = u64(await container.read(Container.inRow(this.places, root), 8), 0);
      need(place % 4096 === 0 && place + this.headSize + 8 * generation.buckets <= this.places, 'the place of a segment');
      // Its counts stand behind the array and the block of its sums.
      const size = this.headSize + padded(8 * generation.buckets, 64);
      const counts = [];
      let at = place + size + UNIT + padded(8 * Math.ceil(size / CHUNK), UNIT), block;
      while (this.further && at < this.places && (block = await container.head(at).catch(() => null))?.type === COUNTS) {
        counts.push(block);
        at = block.end;
      }
      segment = { generation, depth: 0, index: root, at: place + this.headSize, counts };
      generation.segments.set(root, segment);
    }
    return segment;
  }

  /** How full some of the segments of a filter that does not grow are, by what their stripes have counted. */
  async sample(container, samples) {
    const [generation] = this.generations;
    const count = Math.min(samples, generation.roots);
    return Promise.all(Array.from({ length: count }, async (_, i) => {
      const segment = await this.segmentAt(container, Math.floor(i * generation.roots / count));
      const stripes = await container.read(segment.at - this.headSize + 64, 16 * generation.stripes);
      let used = 0;
      for (let at = 4; at < stripes.length; at += 16)
        used += u32(stripes, at);
      return used / (generation.buckets * generation.lanes);
    }));
  }

  /** The entries that match a key: { knows, lane, further }. */
  async matches(container, mixed, trace) {
    const all = [];
    for (const generation of this.generations) {
      const place = generation.placeOf(mixed);
      const segment = this.places ? await this.segmentAt(container, Number(place.root)) : generation.segmentOf(place);
      if (!segment)
        continue;
      const words = await Promise.all(place.buckets.map((bucket) => container.read(segment.at + 8 * bucket, 8).then((bytes) => big(bytes, 0))));
      for (const [i, bucket] of place.buckets.entries()) {
        trace?.push({ generation: generation.number, segment: segment.index, bucket, fingerprint: place.fingerprint });
        for (const [lane, entry] of generation.lanesOf(words[i]).entries()) {
          const knows = entry ? generation.knows(entry, place.fingerprint, segment.depth) : -1;
          if (knows < 0)
            continue;
          const number = bucket * generation.lanes + lane;
          const key = `${generation.number} ${segment.index} ${number}`;
          const further = await furtherCopies(container, segment.counts, generation.lanes, number);
          const copies = 1 + further - (this.removed.get(key) ?? 0);
          if (copies > 0)
            all.push({ knows, key, copies });
        }
      }
    }
    return all;
  }

  async remove(container, mixed) {
    const matches = await this.matches(container, mixed);
    need(matches.length, 'a key that was removed is absent');
    const best = matches.reduce((one, other) => (other.knows > one.knows ? other : one));
    this.removed.set(best.key, (this.removed.get(best.key) ?? 0) + 1);
  }

  async count(container, mixed, trace) {
    const matches = await this.matches(container, mixed, trace);
    return { copies: matches.reduce((sum, { copies }) => sum + copies, 0) };
  }
}

// ---- any filter ----

/** A saved filter: what its header says, its parts, and how keys are looked up in it. */
export class SavedFilter {
  /** `progress` is called with the offset that was reached, while heads of blocks are read. */
  static async open(source, progress) {
    const container = new Container(source);
    need(source.size >= HEADER, 'it is too short');
    const header = await container.read(0, HEADER);
    container.part('header', 0, HEADER);
    if (String.fromCharCode(...header.subarray(1, 6)) !== 'TAMIS' || header[0] !== 0x89)
      throw new NotAFilter('this is no saved filter');
    const features = u64(header, 16);
    if (u32(header, 8) !== 1 || features > 7)
      throw new NotAFilter('a later version of the library has written this filter');
    const filter = new SavedFilter();
    Object.assign(filter, {
      container, features, kind: u32(header, 32), hasOwnHash: u32(header, 36) !== 1, growable: u32(header, 44) === 1, seed: big(header, 48),
      probe: big(header, 56), capacity: u64(header, 64), fpp: f64(header, 72), maxBytes: u64(header, 80), isLive: Boolean(features & LIVE),
    });
    need(filter.kind >= 1 && filter.kind <= 3 && filter.seed > 0n && filter.capacity >= 1 && filter.fpp > 0 && filter.fpp < 1, 'its header');
    filter.mixed = mixingOf(filter.seed);
    const what = { geometry: (i) => u64(header, 256 + 8 * i), features, kind: filter.kind, growable: filter.growable };
    filter.form = features & WINDOW ? 'window' : filter.kind === 2 ? 'cuckoo' : 'bloom';
    const Form = { window: Window, cuckoo: Cuckoo, bloom: Bloom }[filter.form];
    filter.table = await Form.open(container, what, progress);
    return filter;
  }

  /**
   * Looks a key up by its hash under the filter's seed: { copies, period }.  Where it looked goes to `trace`, an
   * array.
   */
  count(hash, trace) {
    return this.table.count(this.container, this.mixed(hash), trace);
  }

  /** The 512 bytes of the header. */
  header() {
    return this.container.source.read(0, HEADER);
  }
}

export { Generation };

/** A source of bytes that are in memory. */
export const sourceOfBytes = (bytes) => ({ size: bytes.length, read: async (at, size) => bytes.subarray(at, at + size) });

/** A source of a Blob or a File, of which only what is asked for is read. */
export const sourceOfBlob = (blob) => ({
  size: blob.size,
  read: async (at, size) => {
    const bytes = new Uint8Array(await blob.slice(at, at + size).arrayBuffer());
    if (bytes.length !== size)
      throw new NotAFilter('the file has become shorter');
    return bytes;
  },
});
