// SPDX-License-Identifier: MIT
// The calls of the package, over a core: the library as WebAssembly (core.js), or as an addon (addon.js).
import { errorOf, UnsupportedError } from './errors.js';
import { load, loadSync } from './saved.js';
import { bytesIn, sourceOf } from './source.js';
import { kinds, layouts, statsOf } from './stats.js';

const OK = 0, PRESENT = 1, ABSENT = 2;
const GROWABLE = 1, WINDOW_RENEWS = 2;

/** A number of 64 bits, from a number or a BigInt. */
function wholeNumber(name, value, most) {
  if ((typeof value !== 'bigint' && !Number.isSafeInteger(value)) || value < 0 || value > most)
    throw new RangeError(`${name} is ${String(value)}; it must be a whole number from 0 to ${most}`);
  return BigInt.asUintN(64, BigInt(value));
}

function nameOf(name, value, names) {
  if (!Object.hasOwn(names, value))
    throw new RangeError(`${name} is ${String(value)}; it must be one of ${Object.keys(names).join(', ')}`);
  return names[value];
}

const known = new Set(['capacity', 'fpp', 'kind', 'layout', 'window', 'windowRenews', 'growable', 'maxBytes', 'seed']);

/** What the constructor gets for a filter that is there already. */
class Loaded {
  constructor(at) {
    this.at = at;
  }
}

/** What a package exports that has such a core. */
export function packageOf(core) {
  const library = core.exports;

  /** The version of the library. */
  const version = core.text(library.version());

  /** A filter that is not reachable any more gives its memory back, some time later. */
  const forgotten = new FinalizationRegistry((at) => library.destroy(at));

  /** Throws the error of a result below 0. */
  function succeed(result) {
    if (result < 0)
      throw errorOf(result, core.text(library.phrase(result)));
    return result;
  }

  function needAddon(what) {
    if (!core.isNative)
      throw new UnsupportedError(`${what} needs the addon, which is for Node: npm run addon`, 'EUNSUPPORTED');
  }

  function setOptions(options) {
    if (typeof options !== 'object' || options === null)
      throw new TypeError('a filter is made from an object of options, such as { capacity: 1000000 }');
    for (const name of Object.keys(options))
      if (!known.has(name))
        throw new TypeError(`there is no option ${name}; there are ${[...known].join(', ')}`);
    const { capacity, fpp = 0.01, kind = 'bloom', layout = 'blocked', window = 0 } = options;
    const { windowRenews = false, growable = true, maxBytes = 0, seed = 0n } = options;
    const most = 2n ** 64n - 1n;
    if (capacity === undefined)
      throw new TypeError('capacity is missing: how many keys are expected');
    if (typeof fpp !== 'number')
      throw new TypeError(`fpp is ${String(fpp)}; it must be a number above 0 and below 1`);
    library.options(nameOf('kind', kind, kinds), nameOf('layout', layout, layouts), wholeNumber('capacity', capacity, most),
      fpp, Number(wholeNumber('window', window, 2n ** 32n - 1n)),
      (growable ? GROWABLE : 0) | (windowRenews ? WINDOW_RENEWS : 0),
      wholeNumber('maxBytes', maxBytes, most), wholeNumber('seed', seed, most));
  }

  /** Throws what is wrong with the options that were set, in a sentence that names the field. */
  function refuseOptions(result) {
    throw errorOf(result, core.text(library.sentence()));
  }

  /** The bytes that a filter with these options takes, everything included. */
  function bytesFor(options) {
    setOptions(options);
    const result = library.bytes_for();
    if (result < 0) {
      library.check();
      refuseOptions(result);
    }
    return library.bytes();
  }

  /** The lowest rate, to 1 %, that so many bytes allow with these options, whose own rate is ignored. */
  function fppFor(options, bytes) {
    setOptions({ ...options, fpp: 0.01 });
    succeed(library.fpp_for(wholeNumber('bytes', bytes, 2n ** 64n - 1n)));
    return library.rate();
  }

  /** Why options would be refused: a sentence, or null if they would not. */
  function whyRefused(options) {
    setOptions(options);
    return library.check() === OK ? null : core.text(library.sentence());
  }

  class Filter {
    #at; // where it lies in memory; 0: it has been freed

    constructor(options) {
      if (options instanceof Loaded) {
        this.#at = options.at;
      } else {
        setOptions(options);
        this.#at = library.create();
        if (!this.#at)
          refuseOptions(library.result());
      }
      forgotten.register(this, this.#at, this);
    }

    static async load(data, options) {
      return new Filter(new Loaded(await load(core, data, options)));
    }

    static loadSync(data, options) {
      const bytes = bytesIn(data);
      if (!bytes)
        throw new TypeError('loadSync takes a Uint8Array, another view, or an ArrayBuffer');
      return new Filter(new Loaded(loadSync(core, bytes, options)));
    }

    static shared(path, options) {
      needAddon('shared()');
      if (typeof path !== 'string' || path === '' || path.includes('\0'))
        throw new TypeError('a shared filter is in a file: its path must be a string that is not empty');
      if (options !== undefined)
        setOptions(options);
      const at = library.open_shared(path, options !== undefined);
      if (!at)
        refuseOptions(library.result());
      return new Filter(new Loaded(at));
    }

    static attach(handle) {
      needAddon('attach()');
      if (typeof handle !== 'bigint')
        throw new TypeError('a handle is a BigInt, as handle() returns it');
      const at = library.attach(BigInt.asUintN(64, handle));
      if (!at)
        throw new ReferenceError('this process has no filter with that handle, or has freed it');
      return new Filter(new Loaded(at));
    }

    get #live() {
      if (!this.#at)
        throw new ReferenceError('the filter has been freed');
      return this.#at;
    }

    add(key) {
      const at = this.#live;
      return succeed(library.add_unique(at, core.put(key))) !== PRESENT;
    }

    addCopy(key) {
      const at = this.#live;
      succeed(library.add(at, core.put(key)));
    }

    has(key) {
      const at = this.#live;
      return library.has(at, core.put(key)) !== 0;
    }

    remove(key) {
      const at = this.#live;
      return succeed(library.remove(at, core.put(key))) !== ABSENT;
    }

    count(key) {
      const at = this.#live;
      return library.count(at, core.put(key));
    }

    hash(key) {
      const at = this.#live;
      return BigInt.asUintN(64, library.hash(at, core.put(key)));
    }

    advance() {
      succeed(library.advance(this.#live));
    }

    advanceTo(period) {
      succeed(library.advance_to(this.#live, wholeNumber('period', period, 2n ** 64n - 1n)));
    }

    merge(other) {
      if (!(other instanceof Filter))
        throw new TypeError('merge takes a Filter');
      succeed(library.merge(this.#live, other.#live));
      return this;
    }

    /** Calls `take` with one part after the other. */
    #saveTo(take) {
      core.sink = take;
      try {
        succeed(library.save(this.#live));
      } finally {
        core.sink = null;
      }
    }

    save() {
      const parts = [];
      let size = 0;
      this.#saveTo((part) => {
        parts.push(part);
        size += part.length;
      });
      const all = new Uint8Array(size);
      for (let at = 0, part; (part = parts.shift()); at += part.length)
        all.set(part, at);
      return all;
    }

    saveStream() {
      const parts = [];
      this.#saveTo((part) => parts.push(part));
      return new ReadableStream({
        pull(controller) {
          if (parts.length)
            controller.enqueue(parts.shift());
          else
            controller.close();
        },
      });
    }

    handle() {
      needAddon('handle()');
      return library.handle(this.#live);
    }

    sync() {
      needAddon('sync()');
      succeed(library.sync(this.#live));
    }

    stats() {
      succeed(library.stats(this.#live));
      return statsOf(core);
    }

    get seed() {
      succeed(library.stats(this.#live));
      return BigInt.asUintN(64, library.seed());
    }

    free() {
      if (this.#at) {
        forgotten.unregister(this);
        library.destroy(this.#at);
        this.#at = 0;
      }
    }
  }

  if (Symbol.dispose)
    Filter.prototype[Symbol.dispose] = Filter.prototype.free;

  /** The figures of a saved filter, from its beginning. */
  function info(data) {
    const bytes = bytesIn(data);
    if (!bytes)
      throw new TypeError('info takes a Uint8Array, another view, or an ArrayBuffer');
    core.source = sourceOf([bytes]);
    try {
      succeed(library.info());
    } finally {
      core.source = null;
    }
    return statsOf(core);
  }

  return { Filter, bytesFor, fppFor, info, isNative: core.isNative, version, whyRefused };
}
