// SPDX-License-Identifier: MIT
// The package with the addon, or an error if that was not built.
import { addonCore } from './addon.js';
import { packageOf } from './filter.js';

export { CorruptError, FullError, InvalidError, MemoryError, TamisError, UnsupportedError } from './errors.js';
export const { Filter, bytesFor, fppFor, info, isNative, version, whyRefused } = packageOf(addonCore());
