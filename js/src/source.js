// SPDX-License-Identifier: MIT
// The bytes of a saved filter, from wherever they come.

/** A source for Core from parts, which are let go as they are read. */
export function sourceOf(parts) {
  let at = 0;
  let next = 0;
  const source = (size) => {
    while (next < parts.length && at === parts[next].length) {
      parts[next++] = null;
      at = 0;
    }
    if (next === parts.length)
      return new Uint8Array(0);
    const got = parts[next].subarray(at, at + size);
    at += got.length;
    return got;
  };
  /** Whether all has been read. */
  source.ended = () => source(1).length === 0;
  return source;
}

/** Bytes, as one part; null if `data` is none. */
export function bytesIn(data) {
  if (data instanceof Uint8Array)
    return data;
  if (ArrayBuffer.isView(data))
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return data instanceof ArrayBuffer ? new Uint8Array(data) : null;
}

/** Whether the memory of a view was transferred, or made too small for it: its length is 0 then, as that of no bytes. */
function isGone(bytes) {
  try {
    return !new Uint8Array(bytes);
  } catch {
    return true;
  }
}

/** The bytes of a key that is no string. */
export function bytesOfKey(key) {
  const bytes = bytesIn(key);
  if (!bytes)
    throw new TypeError('a key must be a string, a Uint8Array, another view, or an ArrayBuffer');
  if (bytes.length === 0 && isGone(bytes))
    throw new TypeError('the bytes of this key are not here any more: their memory was transferred, or made smaller');
  return bytes;
}

/**
 * All parts of a stream or a Blob.  `checkHeader` gets the first `headerBytes` bytes as soon as they have come, and
 * `tooMany` is called when there are more than `most`; both may throw, and then no more are read.
 */
export async function readParts(data, { headerBytes, checkHeader, most, tooMany }) {
  const stream = typeof data?.stream === 'function' ? data.stream() : data;
  if (typeof stream?.[Symbol.asyncIterator] !== 'function' && typeof stream?.getReader !== 'function')
    throw new TypeError('a filter is loaded from a Uint8Array, an ArrayBuffer, a Blob, or a stream of Uint8Arrays');
  const parts = [];
  let size = 0;
  for await (const part of iterate(stream)) {
    const bytes = bytesIn(part);
    if (!bytes)
      throw new TypeError('the parts of the stream must be Uint8Arrays');
    parts.push(bytes);
    if (size < headerBytes && size + bytes.length >= headerBytes)
      checkHeader(firstOf(parts, headerBytes));
    size += bytes.length;
    if (size > most)
      tooMany();
  }
  return parts;
}

/** So many bytes, which are there. */
function firstOf(parts, size) {
  const first = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    first.set(part.subarray(0, size - at), at);
    at = Math.min(size, at + part.length);
  }
  return first;
}

/** Safari's streams cannot be iterated. */
async function* iterate(stream) {
  if (typeof stream[Symbol.asyncIterator] === 'function') {
    yield* stream;
    return;
  }
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done)
        return;
      yield value;
    }
  } finally {
    await reader.cancel();
  }
}
