// SPDX-License-Identifier: MIT
// Only what asks a saved filter, in a third of the bytes.
import { Core } from './core.js';
import { load, loadSync } from './saved.js';
import { bytesIn } from './source.js';

export { CorruptError, FullError, InvalidError, MemoryError, TamisError, UnsupportedError } from './errors.js';

const core = await Core.create(new URL('../wasm/reader.wasm', import.meta.url));
const wasm = core.exports;
const forgotten = new FinalizationRegistry((at) => wasm.destroy(at));
const made = Symbol('made');

export class Reader {
  #at;

  constructor(mark, at) {
    if (mark !== made)
      throw new TypeError('a Reader is made by Reader.load() or Reader.loadSync()');
    this.#at = at;
    forgotten.register(this, at, this);
  }

  static async load(data, options) {
    return new Reader(made, await load(core, data, options));
  }

  static loadSync(data, options) {
    const bytes = bytesIn(data);
    if (!bytes)
      throw new TypeError('loadSync takes a Uint8Array, another view, or an ArrayBuffer');
    return new Reader(made, loadSync(core, bytes, options));
  }

  has(key) {
    if (!this.#at)
      throw new ReferenceError('the filter has been freed');
    const at = this.#at;
    return wasm.has(at, core.put(key)) !== 0;
  }

  free() {
    if (this.#at) {
      forgotten.unregister(this);
      wasm.destroy(this.#at);
      this.#at = 0;
    }
  }
}

if (Symbol.dispose)
  Reader.prototype[Symbol.dispose] = Reader.prototype.free;
