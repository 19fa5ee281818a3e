// SPDX-License-Identifier: MIT
// Which filter fits, and what it takes.  The library's own planner computes all sizes and rates.
import { bytesFor, fppFor } from '../../js/src/wasm.js';

/**
 * What somebody needs:
 *   keys, rate    the distinct keys that are in at one time, and the rate of false positives
 *   growth        'fixed': never more keys than that; 'some': sometimes more; 'unknown': nobody knows how many
 *   removes       whether keys are removed one by one
 *   window        0: keys stay; else the periods for which a key is remembered
 *   renews        with a window, whether an add of a remembered key restarts its time
 *   users         'one' thread, 'threads', 'processes' of one machine, or 'machines'
 */

const names = {
  blocked: 'Blocked Bloom filter',
  classic: 'Classic Bloom filter',
  word: 'Word Bloom filter',
  cuckoo: 'Cuckoo filter',
  counting_bloom: 'Counting Bloom filter',
};

/** The name of what these options make. */
export function nameOf({ kind, layout, window }) {
  if (window)
    return kind === 'bloom' ? 'Bloom window' : 'Cuckoo window';
  return names[kind === 'bloom' ? layout : kind];
}

/** The options of all filters that can be chosen; `shared` says that processes share the filter in a file. */
export function optionsFor({ keys, rate, growth, window, renews, users }) {
  const all = window ? ['bloom', 'cuckoo'].map((kind) => ({ kind, window, windowRenews: renews })) :
    [...['blocked', 'classic', 'word'].map((layout) => ({ kind: 'bloom', layout })), { kind: 'cuckoo' }, { kind: 'counting_bloom' }];
  return all.map((options) => {
    const shared = users === 'processes' && (options.kind === 'bloom' || (options.kind === 'cuckoo' && !window));
    const growable = growth !== 'fixed' && !(users === 'processes' && (window || options.kind === 'cuckoo'));
    return { ...options, capacity: keys, fpp: rate, growable, shared };
  });
}

/** Why a filter does not do what is needed; null if it does. */
function whyUnfit({ removes, growth, window, users }, { kind, layout, growable, shared }) {
  if (removes && kind === 'bloom')
    return 'it cannot remove keys';
  if (users === 'processes' && !shared)
    return 'processes cannot share it';
  if (users === 'machines' && (kind === 'counting_bloom' || (layout && layout !== 'classic')))
    return `the module for Redis has no such ${layout ? 'layout' : 'filter'}`;
  if (growth !== 'fixed' && kind === 'counting_bloom')
    return 'its rate rises when more keys come';
  if (growth !== 'fixed' && !growable && !window && !removes)
    return 'it cannot grow if processes share it';
  return null;
}

/** Options of the same size for bytesFor: a shared cuckoo filter takes as many bits as a window of four periods. */
export const sizedAs = ({ shared, ...options }) => (shared && options.kind === 'cuckoo' ? { ...options, kind: 'bloom', window: 4 } : options);

/** What these options take: { bytes, bitsPerKey, rate }, or { refused: a sentence }. */
export function sizeOf(options) {
  const sized = sizedAs(options);
  try {
    const bytes = bytesFor(sized);
    return { bytes, bitsPerKey: 8 * bytes / options.capacity, rate: Math.min(options.fpp, fppFor(sized, bytes)) };
  } catch (error) {
    return { refused: options.window ? error.message : error.message.replace('a window', 'a cuckoo filter that processes share') };
  }
}

/** The kind, and of a Bloom filter the layout, that docs/use/choosing.md advises. */
function advised({ removes, growth, window, users }) {
  const kind = removes || (growth === 'unknown' && !window && users !== 'processes') ? 'cuckoo' : 'bloom';
  const layout = users === 'machines' ? 'classic' : 'blocked';
  return ({ options }) => options.kind === kind && (kind !== 'bloom' || window || options.layout === layout);
}

/** All filters that can be chosen, the one that is advised (null if none does what is needed), and why. */
export function plan(need) {
  const rows = optionsFor(need).map((options) => ({ options, name: nameOf(options), unfit: whyUnfit(need, options), ...sizeOf(options) }));
  const wanted = rows.find(advised(need));
  const best = [wanted, ...rows].find((row) => !row.refused && !row.unfit) ?? null;
  const reasons = wanted === best ? [] : [wanted.unfit ? 'Processes cannot share a window that removes keys. Let the keys expire without removes, or keep the window in one process, or in Redis or Valkey.' :
    `The planner would recommend “${wanted.name}”, but the library refuses these options: ${wanted.refused}.`];
  return { rows, best, reasons: best ? [...reasons, ...reasonsFor(need, best, rows)] : reasons };
}

function reasonsFor({ removes, growth, window, users }, best, rows) {
  const { kind, layout, growable, shared } = best.options;
  const mayGrow = growth !== 'fixed';
  const bloom = kind === 'bloom' && !window;
  const rowOf = (wanted) => rows.find(({ options }) => options.layout === wanted || options.kind === wanted);
  return [
    [window, `The filter remembers a key for at least ${window} whole period${window === 1 ? '' : 's'}, and for less than ${window + 1}. ${users === 'machines' ? 'The periods follow the server’s clock.' : 'Your program reads a clock before it adds a key, and ends the periods that have passed.'}`],
    [removes && kind === 'cuckoo', `You remove keys, so use a cuckoo ${window ? 'window' : 'filter'}. Each add stores a copy of its key, and each remove takes one copy out. Never remove a key that you did not add, or more often than you added it.`],
    [removes && window, 'Remove a key only while the filter remembers it: removing a forgotten key can take another key away.'],
    [shared && kind === 'cuckoo', 'In a cuckoo filter that processes share, a key has at most six copies. A seventh add fails.'],
    [!removes && kind === 'cuckoo' && !window && growable, 'A cuckoo filter grows in small steps, and keeps its rate. While it grows, it takes up to twice this memory, and sometimes more.'],
    [bloom && !growable, 'Keys stay, and you know how many come, so use a Bloom filter. Once the capacity is reached, an add of a new key fails.'],
    [bloom && growable, 'Keys stay, so use a Bloom filter. Past its capacity it opens further layers, and keeps its rate. Each layer has room for as many keys as all earlier layers together.'],
    [mayGrow && !growable, `A ${window ? 'window' : 'cuckoo filter'} that processes share does not grow, so set the capacity to the most keys that are in at one time. When the filter is full, an add of a new key fails.`],
    [shared && growable, 'A filter that processes share grows only up to max_bytes, which you must set.'],
    [shared, 'The processes share the filter in one file. If a process is killed, no key whose add has returned is lost.'],
    [users === 'machines', 'Programs on several machines share the filter in Redis or Valkey, through the module tamis-redis.so.'],
    [users === 'machines' && bloom, 'The Bloom filters of this module have the classic layout.'],
    [users === 'threads' && layout === 'blocked' && !rowOf('word').refused, 'If many threads add keys, the word layout is faster, but takes more memory.'],
    [bloom && !mayGrow && rowOf('cuckoo').bytes < best.bytes, 'At this rate, a cuckoo filter takes less memory.'],
  ].flatMap(([holds, sentence]) => (holds ? [sentence] : []));
}
