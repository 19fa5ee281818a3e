// SPDX-License-Identifier: MIT
// The package in Node: with the addon if that was built, in WebAssembly otherwise.
import { addonCore, isBuilt } from './addon.js';
import { Core } from './core.js';
import { packageOf } from './filter.js';

export { CorruptError, FullError, InvalidError, MemoryError, TamisError, UnsupportedError } from './errors.js';
const core = isBuilt() ? addonCore() : await Core.whole();
export const { Filter, bytesFor, fppFor, info, isNative, version, whyRefused } = packageOf(core);
