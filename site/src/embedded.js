// SPDX-License-Identifier: MIT
// Takes the place of js/src/bytes.js on the pages: a page that was opened as a file may not fetch, so the
// WebAssembly comes in a script, as text.

/** The bytes of a file that assets/wasm.js has brought. */
export async function bytesOf(url) {
  const text = globalThis.tamisFiles[url.pathname.split('/').pop()];
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
