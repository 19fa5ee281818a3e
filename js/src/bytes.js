// SPDX-License-Identifier: MIT
// How the WebAssembly is found.

/** The bytes of a file beside this module, in any runtime. */
export async function bytesOf(url) {
  if (url.protocol === 'file:' && globalThis.process?.versions?.node) {
    const { readFile } = await import('node:fs/promises');
    return readFile(url);
  }
  const response = await fetch(url);
  if (!response.ok)
    throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}
