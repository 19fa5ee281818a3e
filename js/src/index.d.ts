// SPDX-License-Identifier: MIT
import type { Bytes, Disposed } from './types.js';

/** A key of a filter: text, which stands for its bytes in UTF-8, or bytes. */
export type Key = string | ArrayBufferView | ArrayBuffer;

export type Kind = 'bloom' | 'cuckoo' | 'counting_bloom';
export type Layout = 'blocked' | 'classic' | 'word';

/** The options of a filter.  The fields are those of tamis_options in C. */
export interface Options {
  /** The number of distinct keys that are expected, at least 1. */
  capacity: number | bigint;
  /** False-positive probability with `capacity` keys in, above 0 and below 1; default 0.01. */
  fpp?: number;
  /** Default 'bloom'.  'cuckoo' and 'counting_bloom' have remove(). */
  kind?: Kind;
  /** The layout of a Bloom filter; default 'blocked'. */
  layout?: Layout;
  /** The number of periods, at most 64, for which a key is remembered (see advance()); 0 (default): for ever. */
  window?: number;
  /** With a window: whether an add() of a key that is in renews the key's time; default false. */
  windowRenews?: boolean;
  /** Whether the filter accepts keys past `capacity`, and keeps its rate (except a counting Bloom filter); default true. */
  growable?: boolean;
  /** The most bytes that the filter may take; 0 (default): no limit. */
  maxBytes?: number | bigint;
  /**
   * A number of 64 bits on which the hashes depend.  Default: a random secret that all filters of this program have, so that
   * they can be united.  In Node, workers that start after the import of this package have the same secret; in browsers, each
   * thread has another one.  0: a random seed for this filter alone.  Use 0 for filters whose bytes you give to others, because
   * the bytes contain the seed.
   */
  seed?: number | bigint;
}

/** The options of shared(); the default of `seed` is 0, a random seed for this filter alone. */
export interface SharedOptions extends Options {
  /** Permission bits of a file that shared() creates, such as 0o660; default 0o600, because whoever reads it learns the seed. */
  fileMode?: number;
  /** The number of the group of this file; needs `fileMode`. */
  group?: number;
}

export interface AddOptions {
  /**
   * With a window: the key is remembered for this number of further periods, from 0 to `window`; default: the whole window.
   * If the key has another end, the later end holds; but add() and addUnique() of a key that is in do not change its end,
   * unless they add a copy or the filter has `windowRenews`.
   */
  periods?: number;
}

export interface LoadOptions {
  /** The most bytes that the filter may take, at least 1.  Set it for files that you do not trust. */
  maxBytes?: number;
}

/** The figures of a filter.  Each is a field of tamis_stats in C. */
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
  /** Null for a window, and for other kinds. */
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

/** The bytes of a saved filter, as a whole or in parts. */
export type Source = Uint8Array | ArrayBufferView | ArrayBuffer | Blob | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

/**
 * A filter answers "have I seen this key?".  "No" is always true; "yes" is wrong with a small probability.
 *
 * In WebAssembly a filter belongs to one thread: a worker has its own copy of the library, and only load() waits.
 *
 * With the addon, in Node, all workers can use one filter at the same time, by handle() and attach().  So can all
 * processes that open one file by shared().  For all of them together, there is no false negative, and each key has at most
 * one winner.  A call blocks its thread until it is done.  Calls that change the filter may wait for locks of other threads.
 * Calls on whole filters, such as load(), save(), merge() and sync(), take longer for larger filters: make them in a worker
 * if the event loop must not wait.
 */
export interface Filter extends Disposed {}
export class Filter {
  /** Throws a TamisError that says which option is refused, and why; a RangeError or TypeError for wrong values. */
  constructor(options: Options);

  /** Loads a saved filter, and checks all of its bytes.  Throws CorruptError, UnsupportedError, FullError or MemoryError. */
  static load<F extends Filter>(this: new (options: any) => F, data: Source, options?: LoadOptions): Promise<F>;
  /** The same at once, from bytes in memory. */
  static loadSync<F extends Filter>(this: new (options: any) => F, data: ArrayBufferView | ArrayBuffer, options?: LoadOptions): F;

  /** Loads a filter from the text that toJSON(), or to_text() in Python, has made.  Throws what load() throws. */
  static fromJSON<F extends Filter>(this: new (options: any) => F, text: string, options?: LoadOptions): F;

  /**
   * With the addon: opens the filter in a file that processes share, those of Node and other programs with the library.
   * If the file does not exist or is empty, creates it with these options; a filter that grows needs `maxBytes`.  Without
   * options, the file must exist.  The filter is a Bloom filter or, with `growable: false`, a Bloom window or a cuckoo
   * filter, which refuses a seventh copy of a key.  A process that is killed loses no key whose add has returned.  Blocks for
   * the disk.  Throws InvalidError: the file has other options; UnsupportedError: such a filter cannot be shared, or there is
   * no addon; CorruptError; FullError; MemoryError; TamisError 'EIO': the system has refused the file.
   */
  static shared(path: string, options?: SharedOptions): Filter;
  /**
   * With the addon: returns the filter of this process that has this handle, for a worker.  Each object of the filter can be
   * freed or forgotten by itself, in any order; the memory is freed with the last one.  Throws ReferenceError: no object
   * has that filter any more; UnsupportedError.
   */
  static attach(handle: bigint): Filter;
  /**
   * With the addon: returns a number that stands for the filter in this process, to send it to workers.  The number does not
   * keep the filter alive, so keep this object until the worker has attached.  Throws UnsupportedError.
   */
  handle(): bigint;
  /**
   * With the addon: returns when all keys of a shared filter are on the disk, and survive a power failure.  Blocks for the disk.
   * Throws UnsupportedError: the filter is not shared, or there is no addon; TamisError 'EIO'.
   */
  sync(): void;

  /**
   * Adds a key, and returns whether it was new.  In kinds with remove(), each call stores one more copy, so remove a key as
   * often as it was added.  Throws FullError; MemoryError; InvalidError: `periods` is above the window; UnsupportedError:
   * `periods` without a window.
   */
  add(key: Key, options?: AddOptions): boolean;
  /**
   * Adds a key only if it is new, and returns whether it was new.  Use this for filters from which nothing is removed: a false
   * positive is not stored, so a later remove() of it would take another key away.
   */
  addUnique(key: Key, options?: AddOptions): boolean;
  /** Adds a key as add() does, but returns nothing; with a window, restarts the key's time. */
  addCopy(key: Key, options?: AddOptions): void;
  /** Returns whether the key was added; also true for other keys, with the filter's false-positive probability. */
  has(key: Key): boolean;
  /**
   * Removes one copy of a key, and returns false if there is none.  Remove a key as often as it was added: add() twice, then
   * remove() once, leaves it in.  UnsupportedError: a Bloom filter.
   */
  remove(key: Key): boolean;
  /** Returns how many copies of a key are in: of a Bloom filter 1 or 0, of a counting Bloom filter at most 15. */
  count(key: Key): number;
  /** Returns the hash of a key under the filter's seed: 64 bits, as tamis_hash in C. */
  hash(key: Key): bigint;
  /** Ends a period of a filter with a window. */
  advance(): void;
  /** Ends periods until the period with this number, below 2^36, runs.  Before you add, call this with your clock's period. */
  advanceTo(period: number | bigint): void;
  /** Adds all keys of another filter, which has the same options and seed; returns this filter. */
  merge(other: Filter): this;
  /** Returns a new filter with the keys of both filters, which have the same options and seed. */
  union(other: Filter): Filter;
  /**
   * Returns a new filter with the keys that both filters find.  Both are Bloom filters without a window that have the same
   * options and seed, and have not grown.
   */
  intersection(other: Filter): Filter;
  /** Returns whether `other` has all bits of this filter, and so finds all its keys; not for cuckoo filters and windows. */
  isSubsetOf(other: Filter): boolean;
  isSupersetOf(other: Filter): boolean;
  /**
   * Returns whether options, seed and bits are the same.  The bits of a cuckoo filter, a window, or a Bloom filter that has
   * grown also depend on the order of adds.
   */
  equals(other: Filter): boolean;
  /**
   * Forgets all keys.  A loaded copy of a cuckoo filter that was shared becomes an ordinary one, which fits no shared one.
   * UnsupportedError: the filter is shared(), or has a handle(), so others may use it, too.
   */
  clear(): void;
  /** Returns the filter as bytes, which all programs with tamis can load: for a small filter, up to 256 more than its bits. */
  save(): Bytes;
  /** Returns the bytes of save() in parts of at most about 2 MiB.  The stream has the state of the filter at the call. */
  saveStream(): ReadableStream<Bytes>;
  stats(): Stats;
  /** The options of the filter, even if it was loaded. */
  readonly kind: Kind;
  readonly layout: Layout | null;
  readonly capacity: number;
  readonly fpp: number;
  readonly growable: boolean;
  /** 0: no limit. */
  readonly maxBytes: number;
  readonly window: number;
  readonly windowRenews: boolean;
  /** The seed, a number of 64 bits.  It is a secret: whoever knows it can choose keys that collide. */
  readonly seed: bigint;
  /**
   * Returns the bytes of save() as text in base64, so that JSON.stringify() can write filters.  structuredClone() and
   * postMessage() throw: send the bytes of save() instead.
   */
  toJSON(): string;
  /**
   * Frees the memory at once; no other call may follow.  Without this call, the garbage collector frees the memory of an
   * unused filter, but only between two turns of the event loop: a loop that does not wait must call free().
   */
  free(): void;
}

/** Returns the bytes that a filter with these options takes, everything included. */
export function bytesFor(options: Options): number;
/** Returns the lowest rate, to 1 %, that a filter of this number of bytes can have with these options. */
export function fppFor(options: Omit<Options, 'fpp'>, bytes: number | bigint): number;
/** Returns an English sentence that says why the options would be refused; null if they would not be refused. */
export function whyRefused(options: Options): string | null;
/** Returns the figures of a saved filter, as they were when its save began.  In most files, its first 512 bytes are enough. */
export function info(data: ArrayBufferView | ArrayBuffer): Stats;
/** Whether the package uses the addon. */
export const isNative: boolean;
/** The version of the library; in browsers undefined before init(). */
export const version: string;

/**
 * Resolves when the WebAssembly is loaded.  Before that, all calls that need it but load() throw.  In Node, and in `tamis/wasm`, it is
 * loaded by the import.  `from` is a WebAssembly.Module, its bytes, a Response, the address of tamis.wasm (a string or a URL),
 * or a promise of one of these.  Without `from`, the address is that of `wasm/tamis.wasm` in the package.
 */
export function init(from?: string | object): Promise<void>;
/** Loads the WebAssembly at once, from a WebAssembly.Module or its bytes. */
export function initSync(from: object): void;

export * from './errors.js';
