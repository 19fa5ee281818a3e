// SPDX-License-Identifier: MIT
// The package in WebAssembly, for every runtime: ready after init().
import { Core } from './core.js';
import { packageOf } from './filter.js';

export { CorruptError, FullError, InvalidError, MemoryError, TamisError, UnsupportedError } from './errors.js';
const core = new Core(() => new URL('../wasm/tamis.wasm', import.meta.url));
core.onReady = (text) => (version = text);
export let version;
export const { Filter, bytesFor, fppFor, info, init, initSync, isNative, whyRefused } = packageOf(core);
