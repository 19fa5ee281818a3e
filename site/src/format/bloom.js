// SPDX-License-Identifier: MIT
// Bloom filters, with counters or without.
import { MASK, MULTIPLIER, big, high, need, padded, popcount, rotl, spread, u32, u64 } from './numbers.js';
import { HEADER, LAYERS, LIVE } from './container.js';

const LAYER = 16; // the type of a block
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
      h = spread(h);
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
  async count(container, mixed) {
    const masks = this.masks(mixed);
    const words = await Promise.all(masks.map(([word]) => container.read(this.at + 8 * word, 8)));
    let least = Infinity;
    masks.forEach(([, mask], i) => {
      const value = big(words[i], 0);
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
    const size = Math.min(this.lines, 4096 / 64);
    const count = Math.min(samples, Math.ceil(this.lines / size));
    const fills = [];
    let rates = 0, lines = 0;
    for (let i = 0; i < count; i++) {
      const line = count === 1 ? 0 : Math.floor(i * (this.lines - size) / (count - 1));
      const bytes = await container.read(this.at + 64 * line, 64 * size);
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

export class Bloom {
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

  /** Opens the next layer, whose block begins there. */
  async openLayer(container, at) {
    const number = this.layers.length + 1;
    const block = await container.head(at);
    need(block?.type === LAYER && block.size === 56, 'a layer is missing');
    const payload = await container.payload(block);
    const layer = new BloomLayer(number, [0, 8, 16, 24, 32].map((offset) => u64(payload, offset)));
    this.layers.push(layer);
    return { layer, block };
  }

  async openSealed(container, further) {
    const [first] = this.layers;
    const place = (layer, after) => {
      const { at, end } = container.array(after, 64 * layer.lines, `layer ${layer.number}`);
      layer.at = at;
      return end;
    };
    let at = place(first, HEADER);
    while (this.layers.length <= further) {
      const { layer, block } = await this.openLayer(container, at);
      need(block.meanings[0] === BigInt(layer.number), 'a layer is missing');
      layer.keys = Number(block.meanings[1]);
      at = place(layer, block.end);
    }
    [first.keys] = await container.trailer(at);
  }

  /** A file that processes share: it has its full size, and the tallies say how many of its layers are open. */
  async openLive(container, further) {
    let at = HEADER;
    while (this.layers.length <= further)
      at = (await this.openLayer(container, at)).block.end;
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

  async count(container, mixed) {
    for (const layer of this.layers) {
      const copies = await layer.count(container, mixed);
      if (copies)
        return { copies };
    }
    return { copies: 0 };
  }
}
