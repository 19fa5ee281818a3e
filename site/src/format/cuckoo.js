// SPDX-License-Identifier: MIT
// Cuckoo filters.
import { MASK, big, fold, high, need, padded, spread, u32, u64 } from './numbers.js';
import { COUNTS, Container, HEADER, UNIT, furtherCopies } from './container.js';

const GENERATION = 16, SEGMENT = 17, REMOVED = 18, PLACES = 20, LIMITS = 21; // types of blocks
const widths = [8, 9, 10, 12, 16, 21, 32];

class Generation {
  constructor(number, figures, firstRoots, ages) {
    const [width, pairBits, depthLimit, stripes, , shift, uneven] = figures;
    const unevenAt = uneven && uneven <= depthLimit ? uneven - 1 : depthLimit; // P; without one, no depth is above
    const hasUneven = unevenAt < depthLimit;
    need(widths.includes(width) && pairBits <= (ages ? 11 : 20) && stripes >= 1 && stripes <= 32, 'a generation');
    need(ages ? depthLimit >= 1 && depthLimit <= Math.min(width - 5 + hasUneven, number > 0 ? 9 : 14) : depthLimit === 0, 'a generation');
    need(firstRoots >= 1 && firstRoots < 2 ** 48 && shift < 48, 'the roots');
    const wide = hasUneven && unevenAt > 0 ? widths[widths.indexOf(width) + 1] : width;
    need(wide && (wide === width || number === 0), 'an uneven split');
    Object.assign(this, { number, width, wide, unevenAt, pairBits, depthLimit, stripes, shift, firstRoots, ages });
    this.roots = firstRoots * 2 ** shift;
    need(this.roots < 2 ** 53, 'the roots');
    this.buckets = 2 * 2 ** pairBits;
    this.rootBits = BigInt((firstRoots - 1).toString(2).length * (firstRoots > 1));
    this.needsSecond = Number(this.rootBits) + shift + pairBits + depthLimit + wide - (ages ? 1 : 0) > 64;
    this.segments = new Map(); // by the first of their indexes
  }

  widthAt(depth) {
    return depth > this.unevenAt ? this.wide : this.width;
  }

  lanesAt(depth) {
    return Math.floor(64 / this.widthAt(depth));
  }

  /** The root, the index, the buckets and the fingerprint of a key, which has 64 bits. */
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
    root = (root << BigInt(this.shift)) | take(this.shift);
    const pair = take(this.pairBits);
    const fingerprint = take(64);
    const mixture = ((fingerprint >> BigInt(65 - this.width)) * 0x9E3779B97F4A7C15n) & MASK;
    const upper = BigInt(this.buckets / 2) + (pair ^ (mixture >> BigInt(64 - this.pairBits)));
    let path = fingerprint;
    if (this.unevenAt < this.depthLimit) {
      const after = BigInt(64 - this.unevenAt);
      const keyClass = ((mixture >> 12n) & 0xffffffffn) < 0x6A09E667n ? 1n : 0n;
      path = (((fingerprint >> after << 1n) | keyClass) << (after - 1n)) | ((fingerprint & ((1n << after) - 1n)) >> 1n);
    }
    const index = Number((root << BigInt(this.depthLimit)) | (path >> BigInt(64 - this.depthLimit)));
    return { root, index, fingerprint, buckets: [Number(pair), Number(upper)] };
  }

  /** The segment that has the keys of an index. */
  segmentOf({ index }) {
    for (let depth = 0; depth <= this.depthLimit; depth++) {
      const size = 2 ** (this.depthLimit - depth);
      const segment = this.segments.get(Math.floor(index / size) * size);
      if (segment?.depth === depth)
        return segment;
    }
    return null;
  }

  lanesOf(word, depth) {
    const width = BigInt(this.widthAt(depth));
    return Array.from({ length: this.lanesAt(depth) }, (_, lane) => (word >> BigInt(lane) * width) & ((1n << width) - 1n));
  }

  /** The bits of the hash string that an entry knows if it may be this fingerprint's; -1 if it is not. */
  knows(entry, fingerprint, depth) {
    if (!this.ages)
      return entry === ((fingerprint >> BigInt(64 - this.width)) || 1n) ? 0 : -1;
    const age = Generation.ageOf(entry);
    const known = this.widthAt(depth) - 1 - age;
    const prefix = depth - (depth > this.unevenAt);
    if (entry >> BigInt(age + 1) !== ((fingerprint << BigInt(prefix)) & MASK) >> BigInt(64 - known))
      return -1;
    return this.shift + this.pairBits + prefix + known;
  }

  static ageOf(entry) {
    return (entry & -entry).toString(2).length - 1;
  }
}

export class Cuckoo {
  static async open(container, { geometry, growable }, progress) {
    const cuckoo = new Cuckoo();
    const first = new Generation(0, [0, 1, 2, 3, 4, 5, 6].map(geometry), geometry(7), growable);
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
        need(block.size === 56 && first === BigInt(this.generations.length) && this.generations.length < 24, 'a generation');
        const payload = await container.payload(block);
        generation = new Generation(this.generations.length, [0, 8, 16, 24, 32, 40, 48].map((offset) => u64(payload, offset)), generation.firstRoots, true);
        this.generations.push(generation);
      } else if (block.type === SEGMENT) {
        const depth = Number(first >> 32n);
        need((first & 0xffffffffn) === BigInt(generation.number) && depth <= generation.depthLimit && block.size === 8 * generation.buckets &&
          index < BigInt(generation.roots) << BigInt(generation.depthLimit) && used <= BigInt(generation.buckets * generation.lanesAt(depth)), 'a segment');
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
    [this.used, this.further] = await container.trailer(at);
    for (const mixed of removed)
      await this.remove(container, mixed);
  }

  async openArrays(container) {
    const [generation] = this.generations;
    [this.used, this.further, this.places] = await container.trailer(container.source.size - UNIT);
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
      let at = place + size + UNIT + padded(8 * Math.ceil(size / 2 ** 20), UNIT), block;
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
      return used / (generation.buckets * generation.lanesAt(0));
    }));
  }

  /** The entries that match a key: { knows, key, copies }. */
  async matches(container, mixed) {
    const all = [];
    for (const generation of this.generations) {
      const place = generation.placeOf(mixed);
      const segment = this.places ? await this.segmentAt(container, Number(place.root)) : generation.segmentOf(place);
      if (!segment)
        continue;
      const lanes = generation.lanesAt(segment.depth);
      const words = await Promise.all(place.buckets.map((bucket) => container.read(segment.at + 8 * bucket, 8).then((bytes) => big(bytes, 0))));
      for (const [i, bucket] of place.buckets.entries()) {
        for (const [lane, entry] of generation.lanesOf(words[i], segment.depth).entries()) {
          const knows = entry ? generation.knows(entry, place.fingerprint, segment.depth) : -1;
          if (knows < 0)
            continue;
          const number = bucket * lanes + lane;
          const key = `${generation.number} ${segment.index} ${number}`;
          const further = await furtherCopies(container, segment.counts, lanes, number);
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

  async count(container, mixed) {
    const matches = await this.matches(container, mixed);
    return { copies: matches.reduce((sum, { copies }) => sum + copies, 0) };
  }
}
