// SPDX-License-Identifier: MIT
// A reader of saved filters, which only looks up keys, and takes half of the bytes of the whole package.
import { Loaded, memory, objectOf, toJSON } from './loaded.js';
import { load, loadSync } from './saved.js';

/** The exports of `tamis/reader` with such a core. */
export function readerOf(core) {
  const destroy = (at) => core.exports.destroy(at);
  const forgotten = new FinalizationRegistry(destroy);

  class Reader {
    #at;
    memory = memory;

    constructor(loaded) {
      if (!(loaded instanceof Loaded))
        throw new TypeError('a Reader is made by Reader.load() or Reader.loadSync()');
      this.#at = loaded.take();
      forgotten.register(this, this.#at, this);
    }

    static async load(data, options) {
      return objectOf(this, Reader, await load(core, data, options), destroy);
    }

    static loadSync(data, options) {
      return objectOf(this, Reader, loadSync(core, data, options), destroy);
    }

    has(key) {
      if (!this.#at)
        throw new ReferenceError('the filter has been freed');
      const at = this.#at;
      return core.exports.has(at, core.put(key)) !== 0;
    }

    free() {
      if (this.#at) {
        forgotten.unregister(this);
        destroy(this.#at);
        this.#at = 0;
      }
    }
  }

  Reader.prototype.toJSON = toJSON;
  if (Symbol.dispose)
    Reader.prototype[Symbol.dispose] = Reader.prototype.free;
  return { Reader, init: (from) => core.init(from), initSync: (from) => core.initSync(from) };
}
