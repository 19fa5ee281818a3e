#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// Measures the npm package, in WebAssembly and with the addon if that was built, next to two others of npm's: in one
// run, in interleaved rounds, of which the medians are printed.
//
//   node bench/npm_package.mjs [KEYS [ROUNDS]]
//
// Keys are texts, made before.  Needs, in js/: npm install --no-save bloom-filters@3.0.4 bloomfilter@0.0.18
import { isBuilt } from '../js/src/addon.js';
import { Filter } from '../js/src/node-wasm.js';
import { Reader } from '../js/src/node-reader.js';
import { createRequire } from 'node:module';
import { performance } from 'node:perf_hooks';

const require = createRequire(new URL('../js/package.json', import.meta.url));
const bloomFilters = require('bloom-filters'), bloomfilter = require('bloomfilter');
const n = Number(process.argv[2] ?? 100000), rounds = Number(process.argv[3] ?? 5), fpp = 0.01;
const keys = Array.from({ length: 2 * n }, (_, i) => `https://example.org/page/${(i * 2654435761) % 2 ** 32}`);

/** The bits and probes that bloomfilter wants from its user: the textbook's. */
const bits = Math.ceil((n * -Math.log(fpp)) / Math.LN2 ** 2);

/** A core of the package: a plain filter, one that says what is new, and one of the cuckoo kind. */
const subjectsOf = (name, Filter) => {
  const subject = (options, add) => () => {
    const f = new Filter({ capacity: n, fpp, growable: false, ...options });
    return { add: (key) => f[add](key), has: (key) => f.has(key), end: () => f.free() };
  };
  return {
    [name]: subject({}, 'addCopy'),
    [`${name}, unique`]: subject({}, 'addUnique'),
    [`${name}, cuckoo`]: subject({ kind: 'cuckoo' }, 'addUnique'),
  };
};
const subjects = {
  ...subjectsOf('tamis', Filter),
  ...(isBuilt() ? subjectsOf('tamis, addon', (await import('../js/src/native.js')).Filter) : {}),
  'tamis/reader': () => {
    const f = new Filter({ capacity: n, fpp, growable: false });
    let reader = null;
    return {
      add: (key) => f.addCopy(key),
      has: (key) => (reader ??= Reader.loadSync(f.save())).has(key),
      end: () => (f.free(), reader.free()),
    };
  },
  'bloom-filters': () => {
    const f = bloomFilters.BloomFilter.create(n, fpp);
    return { add: (key) => f.add(key), has: (key) => f.has(key), end() {} };
  },
  'bloomfilter': () => {
    const f = new bloomfilter.BloomFilter(bits, Math.round((bits / n) * Math.LN2));
    return { add: (key) => f.add(key), has: (key) => f.test(key), end() {} };
  },
  'Set': () => {
    const f = new Set();
    return { add: (key) => f.add(key), has: (key) => f.has(key), end() {} };
  },
};

/** The nanoseconds of a call, and how many answered yes. */
const timed = (call, first) => {
  let yes = 0;
  const begin = performance.now();
  for (let i = first; i < first + n; i++)
    yes += call(keys[i]) ? 1 : 0;
  return [((performance.now() - begin) * 1e6) / n, yes];
};
const median = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];

const times = Object.fromEntries(Object.keys(subjects).map((name) => [name, []]));
for (let round = 0; round <= rounds; round++) { // the first one warms up
  for (const [name, make] of Object.entries(subjects)) {
    const f = make(), [add] = timed(f.add, 0);
    f.has(keys[0]);
    const [hit, hits] = timed(f.has, 0), [miss, wrong] = timed(f.has, n);
    f.end();
    if (hits !== n)
      throw new Error(`${name}: ${n - hits} keys are missed`);
    times[name].push([add, hit, miss, wrong]);
  }
}
console.log(`${n} keys of about 33 characters, rate ${fpp}; ns a call, medians of ${rounds} rounds`);
console.log('| | add | hit | miss | wrong |\n|---|---|---|---|---|');
for (const [name, [, ...measured]] of Object.entries(times)) {
  const [add, hit, miss] = [0, 1, 2].map((i) => median(measured.map((row) => row[i])).toFixed(0));
  console.log(`| ${name} | ${add} | ${hit} | ${miss} | ${((100 * measured[0][3]) / n).toFixed(2)} % |`);
}
