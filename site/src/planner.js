// SPDX-License-Identifier: MIT
// Which filter fits, and what it takes.  The library's own planner computes all sizes and rates.
import { bytesFor, fppFor } from '../../js/src/wasm.js';

/**
 * What somebody needs:
 *   keys, rate    the distinct keys that are in at one time, and the rate of a wrong "yes"
 *   growth        'fixed': never more keys than that; 'some': now and then; 'unknown': nobody knows
 *   removes       whether keys are removed one by one
 *   window        0: keys stay; else the periods for which a key is remembered
 *   renews        with a window, whether a key that comes again is remembered for longer
 *   users         'one' thread, 'threads', 'processes' of one machine, or 'machines'
 */

const names = {
  blocked: 'Bloom, blocked',
  classic: 'Bloom, classic',
  word: 'Bloom, word',
  cuckoo: 'Cuckoo',
  counting_bloom: 'Counting Bloom',
};

/** The name of what these options make. */
export function nameOf({ kind, layout, window }) {
  if (window)
    return kind === 'bloom' ? 'Bloom, with a window' : 'Cuckoo, with a window';
  return names[kind === 'bloom' ? layout : kind];
}

/** The options of all filters that might be meant. */
export function optionsFor({ keys, rate, growth, window, renews, users }) {
  const common = { capacity: keys, fpp: rate, growable: growth !== 'fixed' };
  if (window) {
    const shared = users === 'processes';
    return ['bloom', 'cuckoo'].map((kind) => ({ ...common, kind, window, windowRenews: renews, growable: common.growable && !shared }));
  }
  return [
    ...['blocked', 'classic', 'word'].map((layout) => ({ ...common, kind: 'bloom', layout })),
    { ...common, kind: 'cuckoo' },
    { ...common, kind: 'counting_bloom' },
  ];
}

/** Why a filter does not do what is needed; null if it does. */
function whyUnfit({ removes, growth, users }, { kind }) {
  if (removes && kind === 'bloom')
    return 'it cannot remove keys';
  if (users === 'processes' && kind !== 'bloom')
    return 'processes cannot share it';
  if (users === 'machines' && kind === 'counting_bloom')
    return 'the module for Redis has no such filter';
  if (growth !== 'fixed' && kind === 'counting_bloom')
    return 'its rate rises when more keys come';
  return null;
}

/** What these options take: { bytes, bitsPerKey, rate }, or { refused: a sentence }. */
export function sizeOf(options) {
  try {
    const bytes = bytesFor(options);
    const rate = Math.min(options.fpp, fppFor(options, bytes));
    return { bytes, bitsPerKey: 8 * bytes / options.capacity, rate };
  } catch (error) {
    return { refused: error.message };
  }
}

/** The kind, and of a Bloom filter the layout, that docs/use/choosing.md advises. */
function advised({ removes, growth, window }) {
  const kind = removes || (growth === 'unknown' && !window) ? 'cuckoo' : 'bloom';
  return ({ options }) => options.kind === kind && (kind !== 'bloom' || window || options.layout === 'blocked');
}

/** All filters that might be meant, the one that is advised, and why. */
export function plan(need) {
  const rows = optionsFor(need).map((options) => ({ options, name: nameOf(options), unfit: whyUnfit(need, options), ...sizeOf(options) }));
  const usable = (row) => !row.refused && !row.unfit;
  const wanted = rows.find(advised(need));
  const best = usable(wanted) ? wanted : rows.find(usable) ?? (wanted.refused ? rows.find((row) => !row.refused) : wanted) ?? null;
  return { rows, best, reasons: best ? reasonsFor(need, best, rows) : [] };
}

function reasonsFor(need, best, rows) {
  const { removes, growth, window, users } = need;
  const { kind } = best.options;
  const reasons = [];
  if (window)
    reasons.push(`Keys are forgotten by periods: one that was added is remembered for ${window} whole period${window === 1 ? '' : 's'}, and for less than ${window + 1}. Your program ends the periods, for example by a timer.`);
  if (removes && users === 'processes')
    reasons.push('No filter that removes keys can be shared by processes. Let one process have the filter, or let Redis have it, by the module.');
  else if (removes)
    reasons.push('Keys are removed, so a cuckoo filter: it takes one copy out at a time. Never remove a key that you did not add.');
  else if (kind === 'cuckoo' && growth === 'unknown')
    reasons.push('Nobody knows how many keys will come, so a cuckoo filter: it grows in small steps, at the same rate. On the way it may take twice these bytes, and sometimes more.');
  else if (kind === 'bloom' && !window)
    reasons.push(growth === 'fixed' ? 'The number of keys is known and keys stay, so a Bloom filter. An add past the capacity is refused.' :
      'Keys stay, so a Bloom filter. Past the capacity it opens further layers, each for as many keys as all before it, and keeps the rate.');
  if (users === 'processes' && window && growth !== 'fixed')
    reasons.push('A window that processes share does not grow: choose the capacity for the busiest time.');
  if (users === 'processes' && !removes)
    reasons.push('Processes share one file, which is a little larger than the filter. A process that is killed loses no key whose add has returned.');
  if (users === 'machines')
    reasons.push('What many machines change together is in Redis or Valkey, by the module tamis-redis.so.');
  const word = rows.find(({ options }) => options.layout === 'word');
  if (users === 'threads' && best.options.layout === 'blocked' && word && !word.refused)
    reasons.push('Where many threads add, the word layout is faster, and takes more bytes: see the table.');
  const cuckoo = rows.find(({ options }) => options.kind === 'cuckoo');
  if (kind === 'bloom' && !window && growth === 'fixed' && users !== 'processes' && cuckoo?.bytes < best.bytes)
    reasons.push('At so low a rate, a cuckoo filter takes fewer bytes: see the table.');
  return reasons;
}
