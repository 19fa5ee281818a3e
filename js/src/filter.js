// SPDX-License-Identifier: MIT
// The calls of the package.  They use a core: the library as WebAssembly (core.js), or as an addon (addon.js).
import { errorOf, InvalidError, UnsupportedError } from './errors.js';
import { Loaded, memory, objectOf } from './loaded.js';
import { load, loadSync, withSource } from './saved.js';
import { bytesOfText, textOfBytes } from './text.js';
import { bytesGiven, sourceOf } from './source.js';
import { kinds, layouts, statsOf } from './stats.js';

const OK = 0, PRESENT = 1, ABSENT = 2, EINVAL = -1;
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

function truth(name, value) {
  if (typeof value !== 'boolean')
    throw new TypeError(`${name} is ${String(value)}; it must be true or false`);
  return value;
}

/** The file mode and group in the options of shared(), for C. */
function accessIn(options) {
  if (typeof options !== 'object' || options === null)
    return { mode: 0, group: -1 };
  const { fileMode, group } = options;
  if (fileMode === undefined && group !== undefined)
    throw new TypeError('group needs fileMode');
  if (fileMode !== undefined && (!Number.isInteger(fileMode) || fileMode < 0o600 || fileMode > 0o777 || (fileMode & 0o600) !== 0o600))
    throw new RangeError(`fileMode is ${String(fileMode)}; it must be permission bits from 0o600 to 0o777, with those of 0o600`);
  return { mode: fileMode ?? 0, group: group === undefined ? -1 : Number(wholeNumber('group', group, 2 ** 32 - 2)) };
}

const known = new Set(['capacity', 'fpp', 'kind', 'layout', 'window', 'windowRenews', 'growable', 'maxBytes', 'seed']);
const knownShared = new Set([...known, 'fileMode', 'group']);

/** The exports of a package with such a core. */
export function packageOf(core) {
  /** Frees the memory of a filter some time after it has become unreachable. */
  const destroy = (at) => core.exports.destroy(at);
  const forgotten = new FinalizationRegistry(destroy);

  /** Throws the error of a result below 0. */
  function succeed(result) {
    if (result < 0)
      throw errorOf(result, core.text(core.exports.phrase(result)));
    return result;
  }

  function needAddon(what) {
    if (!core.isNative)
      throw new UnsupportedError(`${what} needs the addon, which is for Node: ${core.whyNotNative ?? 'see tamis/native'}`, 'EUNSUPPORTED');
  }

  /** `usualSeed` is the seed of a filter that is created without one; 0: a random seed for this filter alone. */
  function setOptions(options, usualSeed = 0n, names = known) {
    if (typeof options !== 'object' || options === null)
      throw new TypeError('a filter is made from an object of options, such as { capacity: 1000000 }');
    for (const name of Object.keys(options))
      if (!names.has(name))
        throw new TypeError(`there is no option ${name}; there are ${[...names].join(', ')}`);
    const { capacity, fpp = 0.01, kind = 'bloom', layout = 'blocked', window = 0 } = options;
    const { windowRenews = false, growable = true, maxBytes = 0, seed = usualSeed } = options;
    const most = 2n ** 64n - 1n;
    if (capacity === undefined)
      throw new TypeError('capacity is missing: how many keys are expected');
    if (typeof fpp !== 'number')
      throw new TypeError(`fpp is ${String(fpp)}; it must be a number above 0 and below 1`);
    core.exports.options(nameOf('kind', kind, kinds), nameOf('layout', layout, layouts), wholeNumber('capacity', capacity, most),
      fpp, Number(wholeNumber('window', window, 2n ** 32n - 1n)),
      (truth('growable', growable) ? GROWABLE : 0) | (truth('windowRenews', windowRenews) ? WINDOW_RENEWS : 0),
      wholeNumber('maxBytes', maxBytes, most), wholeNumber('seed', seed, most));
  }

  /** Throws an error whose message says what is wrong with the options that were set. */
  function refuseOptions(result) {
    throw errorOf(result, core.text(core.exports.sentence()));
  }

  /** The bytes that a filter with these options takes, everything included. */
  function bytesFor(options) {
    setOptions(options);
    const result = core.exports.bytes_for();
    if (result < 0) {
      core.exports.check();
      refuseOptions(result);
    }
    return core.exports.bytes();
  }

  /** The lowest rate, to 1 %, that a filter of this number of bytes can have with these options. */
  function fppFor(options, bytes) {
    setOptions({ ...options, fpp: 0.01 });
    succeed(core.exports.fpp_for(wholeNumber('bytes', bytes, 2n ** 64n - 1n)));
    return core.exports.rate();
  }

  /** A sentence that says why the options would be refused; null if they would not be refused. */
  function whyRefused(options) {
    setOptions(options);
    return core.exports.check() === OK ? null : core.text(core.exports.sentence());
  }

  /** The periods of an add; undefined: for the whole window. */
  function periodsOf(options = {}) {
    if (typeof options !== 'object' || options === null)
      throw new TypeError('the options of an add are an object, such as { periods: 5 }');
    for (const name of Object.keys(options))
      if (name !== 'periods')
        throw new TypeError(`an add has no option ${name}, only periods`);
    const { periods } = options;
    return periods === undefined ? undefined : Number(wholeNumber('periods', periods, 2n ** 32n - 1n));
  }

  /** Adds the key that core.put() has put into the buffer. */
  function addTo(at, put, periods, isUnique) {
    const { exports } = core;
    if (periods === undefined)
      return succeed(isUnique ? exports.add_unique(at, put) : exports.add(at, put));
    const result = isUnique ? exports.add_unique_for(at, put, periods) : exports.add_for(at, put, periods);
    if (result === EINVAL)
      throw new InvalidError(`periods is ${periods}; it must be at most the filter's window`, 'EINVAL');
    return succeed(result);
  }

  class Filter {
    #at; // where it lies in memory; 0: it has been freed
    #keepsCopies; // whether it is of a kind that removes keys; undefined: nobody has asked yet
    // biome-ignore lint/correctness/noUnusedPrivateClassMembers: the garbage collector sees it: weightOf() in core.js
    #weight;
    #isOwn = true; // false: other objects or processes may have the filter
    memory = memory;

    constructor(options) {
      if (options instanceof Loaded) {
        this.#at = options.take();
      } else {
        setOptions(options, core.programSeed());
        this.#at = core.exports.create();
        if (!this.#at)
          refuseOptions(core.exports.result());
      }
      this.#weight = core.weightOf?.(this.#at);
      forgotten.register(this, this.#at, this);
    }

    static async load(data, options) {
      return objectOf(this, Filter, await load(core, data, options), destroy);
    }

    static loadSync(data, options) {
      return objectOf(this, Filter, loadSync(core, data, options), destroy);
    }

    static fromJSON(text, options) {
      return objectOf(this, Filter, loadSync(core, bytesOfText(text), options), destroy);
    }

    static shared(path, options) {
      needAddon('shared()');
      if (typeof path !== 'string' || path === '' || path.includes('\0'))
        throw new TypeError('a shared filter is in a file: its path must be a string that is not empty');
      const { mode, group } = accessIn(options);
      if (options !== undefined)
        setOptions(options, 0n, knownShared);
      const at = core.exports.open_shared(path, options !== undefined, mode, group);
      if (!at)
        refuseOptions(core.exports.result());
      return Filter.#others(objectOf(this, Filter, at, destroy));
    }

    static #others(filter) {
      filter.#isOwn = false;
      return filter;
    }

    static attach(handle) {
      needAddon('attach()');
      if (typeof handle !== 'bigint')
        throw new TypeError('a handle is a BigInt, as handle() returns it');
      const at = core.exports.attach(BigInt.asUintN(64, handle));
      if (!at)
        throw new ReferenceError('this process has no filter with that handle, or has freed it');
      return Filter.#others(objectOf(this, Filter, at, destroy));
    }

    get #live() {
      if (!this.#at)
        throw new ReferenceError('the filter has been freed');
      return this.#at;
    }

    // Code of the caller may run here and free the filter, so this comes first.
    add(key, options) {
      const periods = periodsOf(options), at = this.#live, put = core.put(key);
      if (addTo(at, put, periods, true) !== PRESENT)
        return true;
      this.#keepsCopies ??= this.stats().kind !== 'bloom';
      if (this.#keepsCopies)
        addTo(at, put, periods, false);
      return false;
    }

    addUnique(key, options) {
      const periods = periodsOf(options), at = this.#live;
      return addTo(at, core.put(key), periods, true) !== PRESENT;
    }

    addCopy(key, options) {
      const periods = periodsOf(options), at = this.#live;
      addTo(at, core.put(key), periods, false);
    }

    has(key) {
      const at = this.#live;
      return core.exports.has(at, core.put(key)) !== 0;
    }

    remove(key) {
      const at = this.#live;
      return succeed(core.exports.remove(at, core.put(key))) !== ABSENT;
    }

    count(key) {
      const at = this.#live;
      return core.exports.count(at, core.put(key));
    }

    hash(key) {
      const at = this.#live;
      return BigInt.asUintN(64, core.exports.hash(at, core.put(key)));
    }

    advance() {
      succeed(core.exports.advance(this.#live));
    }

    advanceTo(period) {
      succeed(core.exports.advance_to(this.#live, wholeNumber('period', period, 2n ** 64n - 1n)));
    }

    /** The values that are equal in filters that fit together. */
    get #identity() {
      const { kind, layout, capacity, fpp, window } = this;
      return { kind, window, layout, capacity, fpp, seed: this.seed };
    }

    /** The name of the first of these values that differs in another filter; undefined: none differs. */
    #differsIn(call, other) {
      if (!(other instanceof Filter))
        throw new TypeError(`${call} takes a Filter`);
      const own = this.#identity, others = other.#identity;
      return Object.keys(own).find((name) => own[name] !== others[name]);
    }

    #mustFit(call, other) {
      const name = this.#differsIn(call, other);
      if (name)
        throw new InvalidError(`${call} takes a filter with the same options and seed: its ${name} is another one`, 'EINVAL');
    }

    merge(other) {
      this.#mustFit('merge', other);
      const result = core.exports.merge(this.#live, other.#live);
      if (result === EINVAL)
        throw new InvalidError('merge takes another filter with the same options: only one of these is growable, or both are the same', 'EINVAL');
      succeed(result);
      return this;
    }

    union(other) {
      this.#mustFit('union', other);
      const both = Filter.loadSync(this.save());
      try {
        return other === this ? both : both.merge(other);
      } catch (error) {
        both.free();
        throw error;
      }
    }

    intersection(other) {
      this.#mustFit('intersection', other);
      const at = core.exports.intersect(this.#live, other.#live);
      if (!at)
        throw errorOf(core.exports.result(), 'intersection takes Bloom filters that have not grown and have no window, both growable or neither');
      return objectOf(Filter, Filter, at, destroy);
    }

    /** Returns whether this filter has all bits of another one. */
    #includes(call, other) {
      this.#mustFit(call, other);
      const result = core.exports.includes(this.#live, other.#live);
      if (result < 0)
        throw errorOf(result, `${call} takes Bloom filters without a window, both growable or neither`);
      return result === OK;
    }

    isSupersetOf(other) {
      return this.#includes('isSupersetOf', other);
    }

    isSubsetOf(other) {
      this.#mustFit('isSubsetOf', other);
      return other.#includes('isSubsetOf', this);
    }

    equals(other) {
      if (this.#differsIn('equals', other) || this.growable !== other.growable || this.windowRenews !== other.windowRenews)
        return false;
      const { includes } = core.exports, a = this.#live, b = other.#live, result = includes(a, b);
      if (result >= 0)
        return result === OK && includes(b, a) === OK;
      const own = this.save(), others = other.save(); // a cuckoo filter or a window: are their tables the same?
      return own.length === others.length && own.every((byte, i) => byte === others[i]);
    }

    clear() {
      if (!this.#isOwn)
        throw new UnsupportedError('clear() would take keys from those that have this filter, too: it is shared, or has a handle', 'EUNSUPPORTED');
      const at = core.exports.create_like(this.#live);
      if (!at)
        refuseOptions(core.exports.result());
      this.free();
      this.#at = at;
      this.#weight = core.weightOf?.(at);
      forgotten.register(this, at, this);
    }

    /** Calls `take` with each part of the saved filter in turn. */
    #saveTo(take) {
      core.sink = take;
      try {
        succeed(core.exports.save(this.#live));
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

    toJSON() {
      return textOfBytes(this.save());
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
      this.#isOwn = false;
      return core.exports.handle(this.#live);
    }

    sync() {
      needAddon('sync()');
      succeed(core.exports.sync(this.#live));
    }

    stats() {
      succeed(core.exports.stats(this.#live));
      return statsOf(core);
    }

    get kind() {
      return this.stats().kind;
    }

    get layout() {
      return this.stats().layout;
    }

    get capacity() {
      return this.stats().capacity;
    }

    get fpp() {
      return this.stats().fpp;
    }

    get window() {
      return this.stats().parts - 1;
    }

    get windowRenews() {
      return (core.exports.settings(this.#live) & WINDOW_RENEWS) !== 0;
    }

    get growable() {
      return (core.exports.settings(this.#live) & GROWABLE) !== 0;
    }

    get maxBytes() {
      core.exports.settings(this.#live);
      return core.exports.bytes();
    }

    get seed() {
      succeed(core.exports.stats(this.#live));
      return BigInt.asUintN(64, core.exports.seed());
    }

    free() {
      if (this.#at) {
        forgotten.unregister(this);
        destroy(this.#at);
        this.#at = 0;
        this.#weight = null;
      }
    }
  }

  if (Symbol.dispose)
    Filter.prototype[Symbol.dispose] = Filter.prototype.free;

  /** The figures of a saved filter, from its first bytes. */
  function info(data) {
    const source = sourceOf([bytesGiven('info()', data)]);
    succeed(withSource(core, source, () => core.exports.info()));
    return statsOf(core);
  }

  return {
    Filter, bytesFor, fppFor, info, isNative: core.isNative, whyRefused,
    init: (from) => core.init(from),
    initSync: (from) => core.initSync(from),
    /** The version of the library. */
    get version() {
      return core.text(core.exports.version());
    },
  };
}
