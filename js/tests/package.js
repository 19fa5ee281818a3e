// SPDX-License-Identifier: MIT
// The package that is tested: TAMIS_CORE says which core it has, `native` (the addon) or, if not set, the WebAssembly.
const { Filter, TamisError, CorruptError, FullError, InvalidError, MemoryError, UnsupportedError, bytesFor, fppFor, info,
  isNative, version, whyRefused } = await import(`../src/${process.env.TAMIS_CORE ?? 'node-wasm'}.js`);

export {
  bytesFor, CorruptError, Filter, fppFor, FullError, info, InvalidError, isNative, MemoryError, TamisError, UnsupportedError,
  version, whyRefused,
};
