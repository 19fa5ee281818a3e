// SPDX-License-Identifier: MIT
import type { Key, LoadOptions, Source } from './index.js';

/** A saved filter that can only be asked.  What is said of Filter is true of a Reader, too. */
export class Reader {
  private constructor();
  static load(data: Source, options?: LoadOptions): Promise<Reader>;
  static loadSync(data: ArrayBufferView | ArrayBuffer, options?: LoadOptions): Reader;
  has(key: Key): boolean;
  free(): void;
  [Symbol.dispose](): void;
}

export * from './errors.js';
