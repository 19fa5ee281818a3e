// SPDX-License-Identifier: MIT
// Reads saved filters as docs/reference/format.md describes them, by slices: what the look-up of a key needs, and no more.
//
// A source is { size, read(at, size) }, which resolves to exactly so many bytes.  The sum of the header is checked by
// the library (see file-page.js).  Sums of blocks and chunks are not, as whoever checks them must read all that they
// cover.  Everything else is: each number is within its range before anything depends on it.

import { Bloom } from './format/bloom.js';
import { NotAFilter, big, f64, mixingOf, need, u32, u64 } from './format/numbers.js';
import { COUNTED, Container, HEADER, LIVE, WINDOW } from './format/container.js';
import { Cuckoo } from './format/cuckoo.js';
import { Window } from './format/window.js';

export { NotAFilter };

/** Why a counted table is not opened: the WebAssembly beside the page leaves these tables out. */
function notHere(capacity, features) {
  const what = features & LIVE ? 'a cuckoo filter that processes share' : 'a copy of a cuckoo filter that processes share';
  return `this is ${what}, with a capacity of ${capacity} keys. This page cannot open it. “tamis info” prints its figures, and “tamis query” looks up keys in it.`;
}

const MOST_UNPACKED = 2 ** 14;

/** The bytes of a packed file, and any other as it is. */
async function unpacked(source) {
  if (source.size < 8 || source.size > MOST_UNPACKED || (await source.read(0, 8))[6] !== 'p'.codePointAt(0))
    return source;
  const from = await source.read(8, source.size - 8), to = [];
  for (let at = 0; at < from.length;) {
    const zeros = from[at] >= 128, n = 1 + (zeros ? (from[at] & 127) * 256 + from[at + 1] : from[at]);
    need(to.length + n <= MOST_UNPACKED && at + (zeros ? 2 : 1 + n) <= from.length, 'a run of bytes');
    for (let i = 0; i < n; i++)
      to.push(zeros ? 0 : from[at + 1 + i]);
    at += zeros ? 2 : 1 + n;
  }
  const bytes = Uint8Array.from(to);
  return { ...source, size: bytes.length, read: async (at, size) => bytes.subarray(at, at + size) };
}

/** A saved filter: what its header says, its parts, and how keys are looked up in it. */
export class SavedFilter {
  /** `progress` is called with the offset that was reached, while heads of blocks are read. */
  static async open(source, progress) {
    source = await unpacked(source);
    const container = new Container(source);
    need(source.size >= HEADER, 'it is too short');
    const header = await container.read(0, HEADER);
    container.part('header', 0, HEADER);
    if (String.fromCharCode(...header.subarray(1, 6)) !== 'TAMIS' || header[0] !== 0x89)
      throw new NotAFilter('the file is not a saved filter');
    const features = u64(header, 16);
    if (u32(header, 8) === 1 && u32(header, 32) === 2 && (features === COUNTED || features === (COUNTED | LIVE)))
      throw new NotAFilter(notHere(u64(header, 64), features));
    if (u32(header, 8) !== 1 || features > 7)
      throw new NotAFilter('a later version of the library saved this filter');
    const filter = new SavedFilter();
    Object.assign(filter, {
      container, features, kind: u32(header, 32), hasOwnHash: u32(header, 36) !== 1, growable: u32(header, 44) === 1, seed: big(header, 48),
      probe: big(header, 56), capacity: u64(header, 64), fpp: f64(header, 72), isLive: Boolean(features & LIVE),
    });
    need(filter.kind >= 1 && filter.kind <= 3 && filter.seed > 0n && filter.capacity >= 1 && filter.fpp > 0 && filter.fpp < 1, 'its header');
    filter.mixed = mixingOf(filter.seed);
    const what = { geometry: (i) => u64(header, 256 + 8 * i), features, kind: filter.kind, growable: filter.growable };
    filter.form = features & WINDOW ? 'window' : filter.kind === 2 ? 'cuckoo' : 'bloom';
    const Form = { window: Window, cuckoo: Cuckoo, bloom: Bloom }[filter.form];
    filter.table = await Form.open(container, what, progress);
    return filter;
  }

  /** Looks a key up by its hash under the filter's seed: { copies, period }. */
  count(hash) {
    return this.table.count(this.container, this.mixed(hash));
  }
}

/** A source of bytes that are in memory. */
export const sourceOfBytes = (bytes) => ({ size: bytes.length, read: async (at, size) => bytes.subarray(at, at + size) });

/** A source of a Blob or a File, of which only what is asked for is read. */
export const sourceOfBlob = (blob) => ({
  size: blob.size,
  read: async (at, size) => {
    const bytes = new Uint8Array(await blob.slice(at, at + size).arrayBuffer());
    if (bytes.length !== size)
      throw new NotAFilter('the file became shorter while this page read it');
    return bytes;
  },
});
