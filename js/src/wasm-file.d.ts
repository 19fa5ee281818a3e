// SPDX-License-Identifier: MIT

/** The value that a bundler gives for the file, for init(): its address, its bytes or a WebAssembly.Module. */
declare const wasm: string | object;
export default wasm;
