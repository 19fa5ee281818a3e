// SPDX-License-Identifier: MIT
// Saved filters as text in base64, which every runtime has by btoa() and atob().
import { CorruptError } from './errors.js';

const AT_ONCE = 2 ** 13; // arguments of a call

export function textOfBytes(bytes) {
  const parts = [];
  for (let at = 0; at < bytes.length; at += AT_ONCE)
    parts.push(String.fromCharCode(...bytes.subarray(at, at + AT_ONCE)));
  return globalThis.btoa(parts.join(''));
}

/** Text that is not base64 is not a filter.  (atob() would ignore spaces and missing ends.) */
export function bytesOfText(text) {
  if (typeof text !== 'string')
    throw new TypeError('fromJSON() takes the text that toJSON() has made');
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text))
    throw new CorruptError('the text is no base64, or not all of it', 'ECORRUPT');
  const characters = globalThis.atob(text), bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) // from() would make an array of all characters first
    bytes[i] = characters.charCodeAt(i);
  return bytes;
}
