// SPDX-License-Identifier: MIT
// Gets the bytes of keys and of saved filters from all types of data.

/** The runtime's own getter of the length: a subclass, or the object itself, may have another one. */
const getter = (prototype, name) => Function.prototype.call.bind(Object.getOwnPropertyDescriptor(prototype, name).get);
const typedArray = Object.getPrototypeOf(Uint8Array.prototype);
const typeOf = getter(typedArray, Symbol.toStringTag); // undefined: no typed array
const gettersOf = (prototype) => ['buffer', 'byteOffset', 'byteLength'].map((name) => getter(prototype, name));
const ofTypedArray = gettersOf(typedArray), ofDataView = gettersOf(DataView.prototype);

/** Throws for what is no ArrayBuffer.  (That of another realm, such as a frame or a sandbox of tests, is no instance of this one's.) */
const sizeOf = getter(ArrayBuffer.prototype, 'byteLength');

const { get: byteLength } = Object.getOwnPropertyDescriptor(typedArray, 'byteLength');

/** Throws if the memory of a view was transferred, or made too small for the view: its length would then be 0. */
function viewOf(data) {
  try {
    const [buffer, offset, length] = (typeOf(data) ? ofTypedArray : ofDataView).map((get) => get(data));
    if (length === 0)
      new Uint8Array(data);
    return new Uint8Array(buffer, offset, length);
  } catch {
    throw new TypeError('these bytes are not here any more: their memory was transferred, or made smaller');
  }
}

/** The bytes of `data` as a Uint8Array of the runtime's own class; null if `data` has no bytes. */
export function bytesIn(data) {
  if (ArrayBuffer.isView(data))
    return viewOf(data);
  try {
    sizeOf(data);
  } catch {
    return null;
  }
  return new Uint8Array(data);
}

/** The same, but throws an error that says what `call` takes, instead of returning null. */
export function bytesGiven(call, data) {
  const bytes = bytesIn(data);
  if (!bytes)
    throw new TypeError(`${call} takes a Uint8Array, another view, or an ArrayBuffer`);
  return bytes;
}

/** The bytes of a key that is not a string, as a Uint8Array; use lengthOfKey() for its length. */
export function bytesOfKey(key) {
  const bytes = key instanceof Uint8Array ? key : bytesIn(key);
  if (!bytes)
    throw new TypeError('a key must be a string, a Uint8Array, another view, or an ArrayBuffer');
  return bytes;
}

/** (V8 compiles this form of the call to a load.) */
export function lengthOfKey(bytes) {
  return byteLength.call(bytes) || bytesIn(bytes).length;
}

/** A source for Core from parts, which are released as they are read. */
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
  /** Whether all bytes have been read. */
  source.ended = () => source(1).length === 0;
  return source;
}

/**
 * All parts of a stream or a Blob.  `checkHeader` gets the first `headerBytes` bytes as soon as they have come, and
 * `tooMany` is called when there are more than `most` bytes.  If one of them throws, no more bytes are read.
 */
export async function readParts(data, { headerBytes, checkHeader, most, tooMany }) {
  if (typeof data?.arrayBuffer === 'function' && 'body' in data)
    throw new TypeError('a filter is loaded from the body of a response: load(response.body), where response.ok is true');
  const stream = typeof data?.stream === 'function' ? data.stream() : data;
  if (typeof stream?.[Symbol.asyncIterator] !== 'function' && typeof stream?.getReader !== 'function')
    throw new TypeError('a filter is loaded from a Uint8Array, an ArrayBuffer, a Blob, or a stream of Uint8Arrays');
  const parts = [];
  let size = 0;
  for await (const part of iterate(stream)) {
    const bytes = bytesIn(part);
    if (!bytes)
      throw new TypeError('the parts of the stream must be Uint8Arrays');
    parts.push(bytes.slice()); // whoever gives the parts may use their memory again
    if (size < headerBytes && size + bytes.length >= headerBytes)
      checkHeader(firstOf(parts, headerBytes));
    size += bytes.length;
    if (size > most)
      tooMany();
  }
  return parts;
}

/** Returns the first `size` bytes of the parts, which have at least this many. */
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
