// SPDX-License-Identifier: MIT
// What others take for the same keys, by formulas that they publish.

const perKey = (rate) => -Math.log(rate) / Math.LN2 ** 2;

/** Slots of a Swiss table: one less than a power of two, of which at most 7/8 are in use. */
function slotsFor(keys) {
  let slots = 7;
  while (Math.floor(slots * 7 / 8) < keys)
    slots = 2 * slots + 1;
  return slots;
}

/**
 * Each has a name, its bytes, the formula in words, and its source.  `line` is the class of
 * its curve, if it has one.
 */
export const others = [
  {
    name: 'Classic Bloom filter, by formula',
    bytes: ({ keys, rate }) => keys * perKey(rate) / 8,
    formula: 'keys · −ln rate / (ln 2)² bits',
    source: ['Broder and Mitzenmacher, Network applications of Bloom filters, 2004', 'https://doi.org/10.1080/15427951.2004.10129096'],
    line: 'formula',
  },
  {
    name: 'libbloom',
    bytes: ({ keys, rate }) => (keys < 2 ** 31 ? Math.ceil(Math.floor(keys * perKey(rate)) / 8) : null),
    formula: 'the same, rounded down to whole bits and up to whole bytes; libbloom takes fewer than 2^31 keys',
    source: ['libbloom, bloom.c, bloom_init', 'https://github.com/jvirkki/libbloom/blob/master/bloom.c'],
  },
  {
    name: 'RedisBloom, not scaling',
    bytes: ({ keys, rate }) => Math.ceil(keys * perKey(rate) / 8),
    formula: 'capacity · −ln rate / (ln 2)² bits',
    source: ['Redis, BF.RESERVE', 'https://redis.io/docs/latest/commands/bf.reserve/'],
  },
  {
    name: 'RedisBloom, scaling',
    bytes: ({ keys, rate }) => Math.ceil(keys * perKey(rate / 2) / 8),
    formula: 'the same at half the rate, because the first of its filters has half the rate',
    source: ['RedisBloom, src/sb.c, SB_NewChain', 'https://github.com/RedisBloom/RedisBloom/blob/master/src/sb.c'],
    line: 'scaling',
  },
  {
    name: 'Exact hash set (absl::flat_hash_set of std::string_view)',
    bytes: ({ keys, length }) => slotsFor(keys) * (16 + 1) + keys * length,
    formula: 'slots · (16 + 1) + keys · length of a key; the number of slots is a power of two minus 1, and at most 7/8 of the slots are in use',
    source: ['Abseil, containers guide', 'https://abseil.io/docs/cpp/guides/container'],
  },
];
