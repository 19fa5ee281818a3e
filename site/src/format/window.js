// SPDX-License-Identifier: MIT
// Sliding windows.
import { MASK, MULTIPLIER, NotAFilter, big, high, need, padded, u64 } from './numbers.js';
import { COUNTS, Container, HEADER, LIVE, UNIT, furtherCopies } from './container.js';

const WINDOW_LAYER = 32, COPIED = 33; // types of blocks
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
            const period = window.periodOf(entry, copied);
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

export class Window {
  static async open(container, { geometry, kind, features }) {
    if (features & LIVE)
      throw new NotAFilter('this is a window that processes share, and its entries may move while this page reads them. Save the window with tamis_save_file, and open the saved file.');
    const window = new Window();
    window.periods = geometry(0);
    window.first = geometry(2);
    window.stamp = geometry(3);
    window.stamps = window.periods + 2;
    need(window.periods >= 1 && window.periods <= 64 && window.stamp >= 1 && window.stamp <= window.stamps, 'the window');
    window.stampBits = window.stamps.toString(2).length;
    window.stampMask = (1n << BigInt(window.stampBits)) - 1n;
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
  periodOf(entry, copied) {
    const stamp = Number(entry & this.stampMask);
    const now = 1 + (((this.stamp - 1 + copied - this.first) % this.stamps) + this.stamps) % this.stamps;
    return copied - (now - stamp + this.stamps) % this.stamps;
  }

  isRemembered(period) {
    return this.last <= period + this.periods;
  }

  /** Whether an entry in use is one of the fingerprint. */
  hasFingerprint(entry, fingerprint) {
    return entry !== 0n && entry >> BigInt(this.stampBits) === fingerprint;
  }

  async count(container, mixed) {
    for (const layer of this.layers) {
      const { segment, fingerprint, buckets } = layer.placeOf(mixed);
      const [copied, ...words] = await Promise.all([layer.copiedOf(container, segment),
        ...buckets.map((bucket) => container.read(layer.at + 8 * layer.wordAt(bucket), 8).then((bytes) => big(bytes, 0)))]);
      for (const [i, bucket] of buckets.entries()) {
        for (const [lane, entry] of layer.lanesOf(bucket, words[i])) {
          if (!this.hasFingerprint(entry, fingerprint))
            continue;
          const period = this.periodOf(entry, copied);
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
