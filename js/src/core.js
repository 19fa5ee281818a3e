// SPDX-License-Identifier: MIT
// Starts the WebAssembly, and passes bytes and text to it and from it.
import { bytesOf } from './found.js';
import { randomSeed } from './seed.js';
import { bytesOfKey, lengthOfKey } from './source.js';

/** The text of a number, as C writes it for "%.*g". */
function formatted(number, digits) {
  const [mantissa, power] = number.toExponential(Math.max(digits, 1) - 1).split('e');
  const trimmed = (text) => (text.includes('.') ? text.replace(/\.?0+$/, '') : text);
  if (power < -4 || power >= digits)
    return `${trimmed(mantissa)}e${power[0]}${power.slice(1).padStart(2, '0')}`;
  return trimmed(Number(number).toFixed(Math.max(0, digits - 1 - power)));
}

const MOST_WEIGHT = 2 ** 26; // bytes, with each of which V8 collects anyway

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Stands for the functions of the WebAssembly until it is loaded. */
const notReady = new Proxy({}, {
  get() {
    throw new Error('the WebAssembly is not there yet: await init() first, or load(), which does that itself');
  },
});

const isModule = (value) => Object.prototype.toString.call(value) === '[object WebAssembly.Module]';

export class Core {
  isNative = false;
  exports = notReady;
  bytes = new Uint8Array(0); // all memory; another object when memory has grown
  buffer = 0; // where keys are put
  room = 0;
  place = this.bytes; // this buffer; another object when memory has grown
  source = null; // gives load() and info() bytes: (size) => Uint8Array
  sink = null; // gets the bytes of save()
  onReady = null; // gets the version
  #starting = null;
  #seed; // once a filter has asked for it

  /** `usual` is the place of the WebAssembly if init() gets none. */
  constructor(usual, crypto = globalThis.crypto) {
    this.usual = usual;
    this.crypto = crypto;
  }

  programSeed() {
    return (this.#seed ??= randomSeed(this.crypto));
  }

  /** Resolves when the WebAssembly is loaded.  The argument of the first call that succeeds counts. */
  init(from) {
    this.#starting ??= this.#start(from).catch((error) => {
      this.#starting = null;
      throw error;
    });
    return this.#starting;
  }

  async #start(from) {
    if (this.exports !== notReady)
      return;
    const given = await (from ?? this.usual());
    const module = isModule(given) ? given : await WebAssembly.compile(await bytesOf(given));
    this.#begin(await WebAssembly.instantiate(module, this.imports()));
  }

  /** Loads the WebAssembly at once, from a module or its bytes. */
  initSync(from) {
    if (this.exports === notReady)
      this.#begin(new WebAssembly.Instance(isModule(from) ? from : new WebAssembly.Module(from), this.imports()));
  }

  #begin({ exports }) {
    if (this.exports !== notReady) // both ways were taken
      return;
    this.exports = exports;
    this.makeRoom(4096);
    this.onReady?.(this.text(exports.version()));
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
          this.crypto.getRandomValues(this.memory().subarray(to >>> 0, (to >>> 0) + size));
          return 0;
        },
        clock_time_get: (_id, _precision, to) => {
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

  /** The buffer for keys.  It covers nothing else, so even if another thread makes a key longer, no other memory changes. */
  keyPlace() {
    if (this.place.length === 0)
      this.place = new Uint8Array(this.exports.memory.buffer, this.buffer, this.room);
    return this.place;
  }

  /** Makes the buffer this large.  (WebAssembly would take a larger number modulo 2^32.) */
  makeRoom(size) {
    const at = size < 2 ** 31 ? this.exports.buffer(size) >>> 0 : 0;
    this.buffer = at;
    this.room = at ? Math.max(size, this.room) : 0;
    this.place = new Uint8Array(0);
    return at !== 0;
  }

  /**
   * Puts a key into the buffer, and returns its length.  Most keys are short and ASCII; for these a loop is faster than
   * the runtime's encoder.
   */
  put(key) {
    if (typeof key === 'string') {
      const most = key.length * 3;
      if (most > this.room)
        this.makeRoomOrThrow(most);
      const place = this.keyPlace(), length = key.length;
      if (length <= 48) {
        let i = 0;
        for (; i < length; i++) {
          const code = key.charCodeAt(i);
          if (code >= 128)
            break;
          place[i] = code;
        }
        if (i === length)
          return length;
      }
      return encoder.encodeInto(key, place).written;
    }
    const bytes = bytesOfKey(key), length = lengthOfKey(bytes);
    if (length > this.room)
      this.makeRoomOrThrow(length);
    this.keyPlace().set(bytes);
    return length;
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

  /**
   * An object as large as a filter, so that the garbage collector knows the filter's size; otherwise forgotten filters
   * would fill all memory.  Its pages are never touched, so it takes only addresses.
   */
  weightOf(filter) {
    this.exports.stats(filter);
    const [bytes] = this.figures(3).slice(2);
    try {
      return new ArrayBuffer(Math.min(bytes, MOST_WEIGHT));
    } catch {
      return null;
    }
  }

  /** The first `count` of the figures that were read last. */
  figures(count) {
    const view = new DataView(this.memory().buffer, this.exports.figures() >>> 0);
    return Array.from({ length: count }, (_, i) => view.getFloat64(8 * i, true));
  }
}
