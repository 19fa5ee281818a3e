// SPDX-License-Identifier: MIT
// The package in Node, in WebAssembly.
import { packageOf } from './filter.js';
import { nodeCore } from './node-core.js';

export { CorruptError, FullError, InvalidError, MemoryError, TamisError, UnsupportedError } from './errors.js';
const core = nodeCore('tamis.wasm');
export const { Filter, bytesFor, fppFor, info, init, initSync, isNative, version, whyRefused } = packageOf(core);
