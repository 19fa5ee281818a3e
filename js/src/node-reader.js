// SPDX-License-Identifier: MIT
// The reader in Node, which can be used as soon as it is imported.
import { nodeCore } from './node-core.js';
import { readerOf } from './reader-class.js';

export { CorruptError, FullError, InvalidError, MemoryError, TamisError, UnsupportedError } from './errors.js';
const core = nodeCore('reader.wasm');
export const { Reader, init, initSync } = readerOf(core);
