// SPDX-License-Identifier: MIT
// The package with the addon, or an error that says why there is none.
import { addonCore } from './addon.js';
import { packageOf } from './filter.js';

export { CorruptError, FullError, InvalidError, MemoryError, TamisError, UnsupportedError } from './errors.js';
const core = addonCore();
export const { Filter, bytesFor, fppFor, info, init, initSync, isNative, version, whyRefused } = packageOf(core);
