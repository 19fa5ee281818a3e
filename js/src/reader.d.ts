// SPDX-License-Identifier: MIT
import type { Key, LoadOptions, Source } from './index.js';
import type { Disposed } from './types.js';

/** A saved filter that only looks up keys.  Its methods do what those of Filter do. */
export interface Reader extends Disposed {}
export class Reader {
  private constructor();
  static load(data: Source, options?: LoadOptions): Promise<Reader>;
  static loadSync(data: ArrayBufferView | ArrayBuffer, options?: LoadOptions): Reader;
  has(key: Key): boolean;
  toJSON(): never;
  free(): void;
}

/** The same as in `tamis`, but for reader.wasm. */
export { init, initSync } from './index.js';
export * from './errors.js';
