// SPDX-License-Identifier: MIT
export { Filter, bytesFor, fppFor, info, version, whyRefused } from './filter.js';
export { CorruptError, FullError, InvalidError, MemoryError, TamisError, UnsupportedError } from './errors.js';
