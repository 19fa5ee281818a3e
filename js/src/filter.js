// SPDX-License-Identifier: MIT
import { Core } from './core.js';
import { errorOf } from './errors.js';
import { load, loadSync } from './saved.js';
import { bytesIn, sourceOf } from './source.js';
import { kinds, layouts, statsOf } from './stats.js';

const core = await Core.create(new URL('../wasm/tamis.wasm', import.meta.url));
const wasm = core.exports;

const OK = 0, PRESENT = 1, ABSENT = 2;
const GROWABLE = 1, WINDOW_RENEWS = 2;

/** The version of the library. */
export const version = core.text(wasm.version());

/** A filter that is not reachable any more gives its memory back, some time later. */
const forgotten = new FinalizationRegistry((at) => wasm.destroy(at));

/** Throws the error of a result below 0. */
function succeed(result) {
  if (result < 0)
    throw errorOf(result, core.text(wasm.phrase(result)));
  return result;
}

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
  wasm.options(nameOf('kind', kind, kinds), nameOf('layout', layout, layouts), wholeNumber('capacity', capacity, most),
    fpp, Number(wholeNumber('window', window, 2n ** 32n - 1n)),
    (growable ? GROWABLE : 0) | (windowRenews ? WINDOW_RENEWS : 0),
    wholeNumber('maxBytes', maxBytes, most), wholeNumber('seed', seed, most));
}

/** Throws what is wrong with the options that were set, in a sentence that names the field. */
function refuseOptions(result) {
  throw errorOf(result, core.text(wasm.sentence()));
}

/** The bytes that a filter with these options takes, everything included. */
export function bytesFor(options) {
  setOptions(options);
  const result = wasm.bytes_for();
  if (result < 0) {
    wasm.check();
    refuseOptions(result);
  }
  return wasm.bytes();
}

/** The lowest rate, to 1 %, that so many bytes allow with these options, whose own rate is ignored. */
export function fppFor(options, bytes) {
  setOptions({ ...options, fpp: 0.01 });
  succeed(wasm.fpp_for(wholeNumber('bytes', bytes, 2n ** 64n - 1n)));
  return wasm.rate();
}

/** Why options would be refused: a sentence, or null if they would not. */
export function whyRefused(options) {
  setOptions(options);
  return wasm.check() === OK ? null : core.text(wasm.sentence());
}

export class Filter {
  #at; // where it lies in memory; 0: it has been freed

  constructor(options) {
    if (options instanceof Loaded) {
      this.#at = options.at;
    } else {
      setOptions(options);
      this.#at = wasm.create();
      if (!this.#at)
        refuseOptions(wasm.result());
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

  get #live() {
    if (!this.#at)
      throw new ReferenceError('the filter has been freed');
    return this.#at;
  }

  add(key) {
    const at = this.#live;
    return succeed(wasm.add_unique(at, core.put(key))) !== PRESENT;
  }

  addCopy(key) {
    const at = this.#live;
    succeed(wasm.add(at, core.put(key)));
  }

  has(key) {
    const at = this.#live;
    return wasm.has(at, core.put(key)) !== 0;
  }

  remove(key) {
    const at = this.#live;
    return succeed(wasm.remove(at, core.put(key))) !== ABSENT;
  }

  count(key) {
    const at = this.#live;
    return wasm.count(at, core.put(key));
  }

  hash(key) {
    const at = this.#live;
    return BigInt.asUintN(64, wasm.hash(at, core.put(key)));
  }

  advance() {
    succeed(wasm.advance(this.#live));
  }

  advanceTo(period) {
    succeed(wasm.advance_to(this.#live, wholeNumber('period', period, 2n ** 64n - 1n)));
  }

  merge(other) {
    if (!(other instanceof Filter))
      throw new TypeError('merge takes a Filter');
    succeed(wasm.merge(this.#live, other.#live));
    return this;
  }

  /** Calls `take` with one part after the other. */
  #saveTo(take) {
    core.sink = take;
    try {
      succeed(wasm.save(this.#live));
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

  stats() {
    succeed(wasm.stats(this.#live));
    return statsOf(core);
  }

  get seed() {
    succeed(wasm.stats(this.#live));
    return BigInt.asUintN(64, wasm.seed());
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
  Filter.prototype[Symbol.dispose] = Filter.prototype.free;

/** What the constructor gets for a filter that is there already. */
class Loaded {
  constructor(at) {
    this.at = at;
  }
}

/** The figures of a saved filter, from its beginning. */
export function info(data) {
  const bytes = bytesIn(data);
  if (!bytes)
    throw new TypeError('info takes a Uint8Array, another view, or an ArrayBuffer');
  core.source = sourceOf([bytes]);
  try {
    succeed(wasm.info());
  } finally {
    core.source = null;
  }
  return statsOf(core);
}
