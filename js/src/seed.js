// SPDX-License-Identifier: MIT
// The seed of filters that are given none: a secret of the program, so that such filters can be united.

/** A random number of 64 bits that is not 0. */
export function randomSeed(crypto) {
  const [seed] = crypto.getRandomValues(new BigUint64Array(1));
  return seed || randomSeed(crypto);
}
