// SPDX-License-Identifier: MIT
// The package in Node: with the addon if that was built and can be loaded, in WebAssembly otherwise.
import { addonCore } from './addon.js';
import { packageOf } from './filter.js';
import { nodeCore } from './node-core.js';

export { CorruptError, FullError, InvalidError, MemoryError, TamisError, UnsupportedError } from './errors.js';

function bestCore() {
  try {
    return addonCore();
  } catch (error) {
    return Object.assign(nodeCore('tamis.wasm'), { whyNotNative: error.message });
  }
}

const core = bestCore();
export const { Filter, bytesFor, fppFor, info, init, initSync, isNative, version, whyRefused } = packageOf(core);
