// SPDX-License-Identifier: MIT
// The WebAssembly: how bytes and text go in and come out.
import { bytesOf } from './bytes.js';

import { bytesOfKey } from './source.js';

/** Node 18 has it in a module only. */
const crypto = globalThis.crypto ?? (await import('node:crypto')).webcrypto;

/** A number as "%.*g" of C writes it. */
function formatted(number, digits) {
  const [mantissa, power] = number.toExponential(Math.max(digits, 1) - 1).split('e');
  const trimmed = (text) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);
  if (power < -4 || power >= digits)
    return `${trimmed(mantissa)}e${power[0]}${power.slice(1).padStart(2, '0')}`;
  return trimmed(Number(number).toFixed(Math.max(0, digits - 1 - power)));
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export class Core {
  isNative = false;

  constructor() {
    this.bytes = new Uint8Array(0); // all memory; another object when memory has grown
    this.buffer = 0; // where keys are put
    this.room = 0;
    this.source = null; // gives load() and info() bytes: (size) => Uint8Array
    this.sink = null; // gets the bytes of save()
  }

  /** That of the whole package. */
  static whole() {
    return Core.create(new URL('../wasm/tamis.wasm', import.meta.url));
  }

  /** Ready to be called. */
  static async create(url) {
    const core = new Core();
    const { instance } = await WebAssembly.instantiate(await bytesOf(url), core.imports());
    core.exports = instance.exports;
    core.makeRoom(4096);
    return core;
  }

  imports() {
    return {
      tamis: {
        read: (to, size) => {
          const got = this.source(size);
          this.memory().set(got, to >>> 0);
          return got.length;
        },
        write: (from, size) => {
          this.sink(this.memory().slice(from >>> 0, (from >>> 0) + size));
          return 0;
        },
        format: (number, digits, to) => {
          const text = encoder.encode(formatted(number, digits));
          this.memory().set(text, to >>> 0);
          return text.length;
        },
        parse: (from, size) => Number(decoder.decode(this.memory().subarray(from >>> 0, (from >>> 0) + size))),
      },
      wasi_snapshot_preview1: {
        random_get: (to, size) => {
          crypto.getRandomValues(this.memory().subarray(to >>> 0, (to >>> 0) + size));
          return 0;
        },
        clock_time_get: (id, precision, to) => {
          const now = BigInt(Math.round(globalThis.performance.now() * 1e6));
          new DataView(this.memory().buffer).setBigUint64(to >>> 0, now, true);
          return 0;
        },
      },
    };
  }

  memory() {
    if (this.bytes.length === 0)
      this.bytes = new Uint8Array(this.exports.memory.buffer);
    return this.bytes;
  }

  /** Makes the buffer as large as that.  (WebAssembly would take a larger number modulo 2^32.) */
  makeRoom(size) {
    const at = size < 2 ** 31 ? this.exports.buffer(size) >>> 0 : 0;
    if (!at) {
      this.room = 0;
      return false;
    }
    this.buffer = at;
    this.room = Math.max(size, this.room);
    return true;
  }

  /**
   * Puts a key into the buffer, and returns its length.  Most keys are short and ASCII, for which a loop is faster
   * than what the runtime has for text.
   */
  put(key) {
    if (typeof key === 'string') {
      const most = key.length * 3;
      if (most > this.room)
        this.makeRoomOrThrow(most);
      const bytes = this.memory(), at = this.buffer, length = key.length;
      if (length <= 48) {
        let i = 0;
        for (; i < length; i++) {
          const code = key.charCodeAt(i);
          if (code >= 128)
            break;
          bytes[at + i] = code;
        }
        if (i === length)
          return length;
      }
      return encoder.encodeInto(key, bytes.subarray(at, at + most)).written;
    }
    const bytes = bytesOfKey(key);
    if (bytes.length > this.room)
      this.makeRoomOrThrow(bytes.length);
    this.memory().set(bytes, this.buffer);
    return bytes.length;
  }

  makeRoomOrThrow(size) {
    if (!this.makeRoom(size)) {
      this.makeRoom(4096);
      throw new RangeError(`a key of ${size} bytes: out of memory`);
    }
  }

  /** A string of C. */
  text(at) {
    const bytes = this.memory();
    at >>>= 0;
    return decoder.decode(bytes.subarray(at, bytes.indexOf(0, at)));
  }

  /** The figures that were read last, so many of them. */
  figures(count) {
    const view = new DataView(this.memory().buffer, this.exports.figures() >>> 0);
    return Array.from({ length: count }, (_, i) => view.getFloat64(8 * i, true));
  }
}
