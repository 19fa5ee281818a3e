// SPDX-License-Identifier: MIT

/** What a bundler makes of the file, for init(): its address, its bytes or a WebAssembly.Module. */
declare const wasm: string | object;
export default wasm;
