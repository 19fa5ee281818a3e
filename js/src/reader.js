// SPDX-License-Identifier: MIT
// The reader of saved filters, for every runtime.  load() waits for the WebAssembly; other calls need init() before.
import { Core } from './core.js';
import { readerOf } from './reader-class.js';

export { CorruptError, FullError, InvalidError, MemoryError, TamisError, UnsupportedError } from './errors.js';
const core = new Core(() => new URL('../wasm/reader.wasm', import.meta.url));
export const { Reader, init, initSync } = readerOf(core);
