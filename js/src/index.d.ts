// SPDX-License-Identifier: MIT
import type { Bytes, Disposed } from './types.js';

/** What a filter can hold: text, which counts as its bytes in UTF-8, or bytes. */
export type Key = string | ArrayBufferView | ArrayBuffer;

export type Kind = 'bloom' | 'cuckoo' | 'counting_bloom';
export type Layout = 'blocked' | 'classic' | 'word';

/** What to create.  The fields are those of tamis_options in C. */
export interface Options {
  /** Distinct keys expected, from 1 on. */
  capacity: number | bigint;
  /** False-positive probability with `capacity` keys in, above 0 and below 1; default 0.01. */
  fpp?: number;
  /** Default 'bloom'.  'cuckoo' and 'counting_bloom' have remove(). */
  kind?: Kind;
  /** Of a Bloom filter; default 'blocked'. */
  layout?: Layout;
  /** 0 (default): keys stay.  Otherwise the periods, at most 64, for which a key is remembered: see advance(). */
  window?: number;
  /** With a window: whether an add() of a key that is in renews the key's time; default false. */
  windowRenews?: boolean;
  /** Whether keys past `capacity` are taken, at the same rate; default true. */
  growable?: boolean;
  /** The bytes that the filter never exceeds; 0 (default): no limit. */
  maxBytes?: number | bigint;
  /**
   * A number of 64 bits that the hashes depend on.  Default: a random secret that all filters of this program have, so that
   * they can be united: in Node those of all workers that are started after the import of this package, in browsers those of one
   * thread.  0: a random one of its own, for filters that are sent away, as their bytes contain the seed.
   */
  seed?: number | bigint;
}

export interface SharedOptions extends Options {
  /** Permission bits of a file that shared() creates, such as 0o660; default 0o600, since whoever reads it learns the seed. */
  fileMode?: number;
  /** The number of the file's group; needs `fileMode`. */
  group?: number;
}

export interface AddOptions {
  /**
   * With a window: the key is remembered while so many more periods run, from 0 to `window`; default: for the whole window.
   * Of two ends the later one holds; but add() and addUnique() of a key that is in leave its end, unless they add a copy
   * or the filter has `windowRenews`.
   */
  periods?: number;
}

export interface LoadOptions {
  /** The bytes that the filter may take, from 1 on.  Set it for files that you do not trust. */
  maxBytes?: number;
}

/** Figures of a filter, which are those of tamis_stats in C. */
export interface Stats {
  count: number;
  capacity: number;
  bytes: number;
  growths: number;
  load: number;
  fppEstimate: number;
  fpp: number;
  estimatedCount: number;
  bits: number;
  bitsSet: number;
  bitsPerKey: number;
  kind: Kind;
  layout: Layout | null;
  segments: number;
  joins: number;
  generations: number;
  fingerprintBits: number;
  occupancy: number;
  evictions: number;
  failedSearches: number;
  refusedAdds: number;
  longestGrowthNs: number;
  layers: number;
  parts: number;
  oldestPartAge: number;
  unitedCount: number;
}

/** Bytes of a saved filter that come one part after the other. */
export type Source = Uint8Array | ArrayBufferView | ArrayBuffer | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/**
 * A filter: answers "have I seen this key?".  "No" is always true; "yes" is wrong with a small probability.
 *
 * In WebAssembly a filter belongs to one thread: a worker has its own copy of the library, and no call waits but load().
 *
 * With the addon, in Node, all workers may use one filter at the same time, by handle() and attach(), and all
 * processes that open one file by shared().  What C guarantees holds for all of them together: no false negative, and one
 * winner for each key.  A call blocks its thread until it is done.  add(), addCopy(), remove() and advance() may wait for
 * locks of other threads; those that read or write all of a filter, or a file, take a time that grows with it:
 * load(), loadSync(), save(), saveStream(), merge(), shared() and sync().  Call these in a worker where that matters.
 */
export interface Filter extends Disposed {}
export class Filter {
  /** Throws a TamisError that says which option is refused, and why; RangeError or TypeError for other values. */
  constructor(options: Options);

  /** Loads a saved filter, and checks every sum.  Throws CorruptError, UnsupportedError, FullError or MemoryError. */
  static load<F extends Filter>(this: new (options: any) => F, data: Source, options?: LoadOptions): Promise<F>;
  /** The same with bytes that are there. */
  static loadSync<F extends Filter>(this: new (options: any) => F, data: ArrayBufferView | ArrayBuffer, options?: LoadOptions): F;

  /** The filter of which toJSON(), or to_text() in Python, has made text.  Throws what load() throws. */
  static fromJSON<F extends Filter>(this: new (options: any) => F, text: string, options?: LoadOptions): F;

  /**
   * With the addon: opens the filter in a file that processes share, Node's and others with the library; if the file is
   * not there or empty, creates it with these options, of which a filter that grows needs `maxBytes`.  Without options:
   * what is in the file.  Only Bloom filters, and with `growable: false` windows of that kind and cuckoo filters, which
   * refuse a seventh copy of a key.  All that was added stays if a process is killed.  Blocks for the disk.  Throws
   * InvalidError: the file has other options; UnsupportedError: such a filter cannot be shared, or there is no addon;
   * CorruptError; FullError; MemoryError; TamisError 'EIO': the system has refused the file.
   */
  static shared(path: string, options?: SharedOptions): Filter;
  /**
   * With the addon: the filter of this process that has a handle, for a worker.  Each object is freed, or forgotten, by
   * itself, in any order; the memory is given back with the last one.  Throws ReferenceError: no object has that
   * filter any more; UnsupportedError.
   */
  static attach(handle: bigint): Filter;
  /**
   * With the addon: a number that stands for the filter in this process, to be sent to workers.  It keeps nothing alive:
   * keep this object until the worker has attached.  Throws UnsupportedError.
   */
  handle(): bigint;
  /**
   * With the addon: returns when all that was added to a shared filter survives a failure of power.  Blocks for the disk.
   * Throws UnsupportedError: the filter is not shared, or there is no addon; TamisError 'EIO'.
   */
  sync(): void;

  /**
   * Adds a key, and returns whether it was new.  A filter of a kind with remove() has one copy more after each call: remove a
   * key as often as it was added.  Throws FullError, MemoryError; InvalidError:
   * more periods than the window has; UnsupportedError: periods of a filter without one.
   */
  add(key: Key, options?: AddOptions): boolean;
  /**
   * Adds a key only if it is new, and returns whether it was.  For filters from which nothing is removed: a key that a false
   * positive hides is not stored, so that a remove() takes another key away.
   */
  addUnique(key: Key, options?: AddOptions): boolean;
  /** Adds a key as add() does, without the answer; with a window, the key's time begins anew. */
  addCopy(key: Key, options?: AddOptions): void;
  /** Whether the key was added; true also for other keys, with the filter's false-positive probability. */
  has(key: Key): boolean;
  /**
   * Removes one copy of a key, and returns false if there is none.  Remove a key as often as it was added: add() twice, then
   * remove() once, leaves it in.  UnsupportedError: a Bloom filter.
   */
  remove(key: Key): boolean;
  /** How many copies of a key are in; of a Bloom filter 1 or 0. */
  count(key: Key): number;
  /** The hash of a key under the filter's seed: 64 bits, as tamis_hash in C. */
  hash(key: Key): bigint;
  /** Ends a period of a filter with a window. */
  advance(): void;
  /** Ends periods until the one with this number, of 36 bits, runs.  Call it with your clock's before you add. */
  advanceTo(period: number | bigint): void;
  /** Adds all keys of another filter, of the same options and seed; returns this one. */
  merge(other: Filter): this;
  /** A new filter with the keys of both, which have the same options and seed. */
  union(other: Filter): Filter;
  /** A new filter with what both find: Bloom filters without a window that have not grown, with the same options and seed. */
  intersection(other: Filter): Filter;
  /** Whether another filter has all bits of this one, and so finds all its keys: Bloom filters without a window. */
  isSubsetOf(other: Filter): boolean;
  isSupersetOf(other: Filter): boolean;
  /**
   * Whether options, seed and bits are the same.  The bits of a cuckoo filter, and with a window, depend on the order of its adds,
   * too.
   */
  equals(other: Filter): boolean;
  /** Forgets all keys.  UnsupportedError: it is shared(), or has a handle(), so others have it, too. */
  clear(): void;
  /** The filter as bytes, which all programs with tamis load: up to 256 bytes more than its bits if it is small. */
  save(): Bytes;
  /** The same in parts of some MiB.  The filter may be changed meanwhile: the stream has it as it was at the call. */
  saveStream(): ReadableStream<Bytes>;
  stats(): Stats;
  /** The options of the filter, also of one that was loaded. */
  readonly kind: Kind;
  readonly layout: Layout | null;
  readonly capacity: number;
  readonly fpp: number;
  readonly growable: boolean;
  /** 0: no limit. */
  readonly maxBytes: number;
  readonly window: number;
  readonly windowRenews: boolean;
  /** The seed, of 64 bits.  It is a secret: whoever knows it can choose keys that collide. */
  readonly seed: bigint;
  /**
   * The bytes of save() as text, in base64, so that a filter may stand in what JSON.stringify() gets.  structuredClone() and
   * postMessage() throw: send save().
   */
  toJSON(): string;
  /**
   * Gives the memory back at once; no other call may follow.  A filter that is forgotten gives it back when the garbage
   * collector has found it, between two turns of the event loop: a loop that does not wait must call free().
   */
  free(): void;
}

/** The bytes that a filter with these options takes, everything included. */
export function bytesFor(options: Options): number;
/** The lowest rate, to 1 %, that so many bytes allow with these options, whose `fpp` is ignored. */
export function fppFor(options: Omit<Options, 'fpp'>, bytes: number | bigint): number;
/** Why options would be refused: an English sentence; null if they would not. */
export function whyRefused(options: Options): string | null;
/** The figures of a saved filter, as they were when its save began; needs only its first 512 bytes, in most files. */
export function info(data: ArrayBufferView | ArrayBuffer): Stats;
/** Whether the package has the addon here. */
export const isNative: boolean;
/** The version of the library; in browsers undefined before init(). */
export const version: string;

/**
 * Resolves when the WebAssembly is there, before which all calls but load() throw.  In Node, and of `tamis/wasm`, it is
 * there already.  `from`: a WebAssembly.Module, its bytes, a Response, or the address of tamis.wasm, a string or a URL; or a
 * promise of one.  Without it: where `wasm/tamis.wasm` of the package is, beside the folder of this module.
 */
export function init(from?: string | object): Promise<void>;
/** The same at once, from a WebAssembly.Module or its bytes. */
export function initSync(from: object): void;

export * from './errors.js';
