// SPDX-License-Identifier: MIT
// The parts of a saved filter that all kinds have.
import { big, need, padded, u32, u64 } from './numbers.js';

export const HEADER = 512, UNIT = 64; // bytes
export const COUNTS = 19; // the type of blocks that several kinds have
export const LAYERS = 1, WINDOW = 2, LIVE = 4, COUNTED = 8; // required features
const CHUNK = 2 ** 20;
const END = 'TAMISEND';

/** Reads from a source, notes what was read, and finds the parts of the file. */
export class Container {
  constructor(source) {
    this.source = source;
    this.reads = []; // [at, size], in order
    this.bytesRead = 0;
    this.parts = []; // { name, at, size }: what the file consists of, as far as it was followed
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
    return { at, end };
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
export async function furtherCopies(container, blocks, lanesOfWord, lane) {
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
