// SPDX-License-Identifier: MIT
// The figures of tamis_stats, in the order of core_figures() in core/core.h.

export const kinds = { bloom: 1, cuckoo: 2, counting_bloom: 3 };
export const layouts = { blocked: 0, classic: 1, word: 2 };

const nameIn = (names, number) => Object.keys(names).find((name) => names[name] === number);

const figures = [
  'count', 'capacity', 'bytes', 'growths', 'load', 'fppEstimate', 'fpp', 'estimatedCount', 'bits', 'bitsSet',
  'bitsPerKey', 'kind', 'layout', 'segments', 'joins', 'generations', 'fingerprintBits', 'occupancy', 'evictions',
  'failedSearches', 'refusedAdds', 'longestGrowthNs', 'layers', 'parts', 'oldestPartAge', 'unitedCount',
];

/** The figures that were read last, as an object.  It does not have the seed, which is a secret. */
export function statsOf(core) {
  const numbers = core.figures(figures.length);
  const stats = Object.fromEntries(figures.map((name, i) => [name, numbers[i]]));
  stats.kind = nameIn(kinds, stats.kind);
  stats.layout = stats.kind === 'bloom' && stats.parts <= 1 ? nameIn(layouts, stats.layout) : null;
  return stats;
}
