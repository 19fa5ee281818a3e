// SPDX-License-Identifier: MIT
// The package in WebAssembly, for every runtime.
import { Core } from './core.js';
import { packageOf } from './filter.js';

export { CorruptError, FullError, InvalidError, MemoryError, TamisError, UnsupportedError } from './errors.js';
export const { Filter, bytesFor, fppFor, info, isNative, version, whyRefused } = packageOf(await Core.whole());
