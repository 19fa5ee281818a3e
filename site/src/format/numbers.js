// SPDX-License-Identifier: MIT
// Numbers in bytes, and the hashes of docs/reference/format.md.

export const MASK = (1n << 64n) - 1n;
export const MULTIPLIER = 0xD1342543DE82EF95n;

export class NotAFilter extends Error {}

export function need(condition, what) {
  if (!condition)
    throw new NotAFilter(`the file is damaged (${what})`);
}

export const padded = (size, unit) => Math.ceil(size / unit) * unit;

// ---- numbers in bytes ----

const viewOf = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
export const u32 = (bytes, at) => viewOf(bytes).getUint32(at, true);
export const big = (bytes, at) => viewOf(bytes).getBigUint64(at, true);
export const f64 = (bytes, at) => viewOf(bytes).getFloat64(at, true);

/** A u64 that is a count or an offset: such numbers stay below 2^53, but what is read may be anything. */
export function u64(bytes, at) {
  const value = big(bytes, at);
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : Infinity;
}

export function popcount(word) {
  let v = word | 0;
  v -= (v >>> 1) & 0x55555555;
  v = (v & 0x33333333) + ((v >>> 2) & 0x33333333);
  return Math.imul((v + (v >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}

// ---- hashes ----

export const high = (product) => product >> 64n;
export const spread = (x) => ((x ^ (x >> 32n)) * MULTIPLIER) & MASK;
export const rotl = (x, by) => ((x << (by % 64n)) | (x >> ((64n - by % 64n) % 64n))) & MASK;
export function fold(x, a, b) {
  const product = 0x3C79AC492BA7B653n * (x ^ a);
  return ((high(product) ^ (product & MASK)) + b) & MASK;
}

/** What mixes the hashes of a filter with its seed. */
export function mixingOf(seed) {
  const k0 = spread(fold(seed, 0x9E3779B97F4A7C15n, 0n)), k1 = spread(fold(seed, 0x3C6EF372FE94F82An, 0n));
  return (hash) => fold(hash, k0, k1);
}
