// SPDX-License-Identifier: MIT
// Takes the place of js/src/wasm.js on the pages: a page that was opened as a file may not fetch, so the
// WebAssembly comes in a script, assets/wasm.js, as text.
import { init } from '../../js/src/index.js';

await init(Uint8Array.from(atob(globalThis.tamisFiles['tamis.wasm']), (character) => character.charCodeAt(0)));
export * from '../../js/src/index.js';
