// SPDX-License-Identifier: MIT
// The same in Node, ready when it is imported.
import { nodeCore } from './node-core.js';
import { readerOf } from './reader-class.js';

export { CorruptError, FullError, InvalidError, MemoryError, TamisError, UnsupportedError } from './errors.js';
const core = nodeCore('reader.wasm');
export const { Reader, init, initSync } = readerOf(core);
