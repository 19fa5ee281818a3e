// SPDX-License-Identifier: MIT
// Gets the bytes of the WebAssembly from the argument of init().
import { bytesIn } from './source.js';

const say = 'give init() the bytes, a WebAssembly.Module, a Response, or the address of tamis.wasm or reader.wasm';

async function responseTo(url) {
  try {
    return await fetch(url);
  } catch (error) {
    throw new Error(`${url} cannot be fetched (${error.message}): ${say}`, { cause: error });
  }
}

/** The bytes of a response, of the file at an address, or of the argument itself. */
export async function bytesOf(from) {
  const response = typeof from === 'string' || from instanceof URL ? await responseTo(from) : from;
  const isResponse = typeof response?.arrayBuffer === 'function';
  if (isResponse && !response.ok)
    throw new Error(`${response.url || from} answers ${response.status}: ${say}`);
  const bytes = bytesIn(isResponse ? await response.arrayBuffer() : response);
  if (!bytes)
    throw new TypeError(say);
  // A server of a single-page application answers with that page for files that it does not have.
  if (String(bytes.subarray(0, 4)) !== '0,97,115,109')
    throw new Error(`${isResponse ? response.url || from : 'what init() got'} is no WebAssembly: ${say}`);
  return bytes;
}
