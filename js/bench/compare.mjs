#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// Measures the package, in WebAssembly and with the addon if that was built, next to two others of npm's: in one run, in interleaved rounds, of
// which the medians are printed.
//
//   node bench/compare.mjs [--keys N] [--rounds N] [--load-keys N]
//
// At the end, how long a filter for --load-keys keys takes to be loaded: by the addon, that is in C, and in WebAssembly.
// Keys are texts, made before.  bloom-filters and bloomfilter are dev dependencies: npm ci.
import { isBuilt } from '../src/addon.js';
import { Filter } from '../src/node-wasm.js';
import { Reader } from '../src/node-reader.js';
import bloomFilters from 'bloom-filters';
import * as bloomfilter from 'bloomfilter';
import { performance } from 'node:perf_hooks';

const number = (name, usual) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? usual : Number(process.argv[at + 1]);
};
const n = number('--keys', 100000), rounds = number('--rounds', 5), fpp = 0.01;
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
  ...(isBuilt() ? subjectsOf('tamis, addon', (await import('../src/native.js')).Filter) : {}),
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

const nanoseconds = (work, count) => {
  const begin = performance.now();
  work();
  return ((performance.now() - begin) * 1e6) / count;
};
const median = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];

const times = Object.fromEntries(Object.keys(subjects).map((name) => [name, { add: [], hit: [], miss: [], wrong: 0 }]));
for (let round = 0; round <= rounds; round++) {
  for (const [name, make] of Object.entries(subjects)) {
    const f = make(), t = times[name];
    let hits = 0, wrong = 0;
    const add = nanoseconds(() => { for (let i = 0; i < n; i++) f.add(keys[i]); }, n);
    f.has(keys[0]);
    const hit = nanoseconds(() => { for (let i = 0; i < n; i++) hits += f.has(keys[i]); }, n);
    const miss = nanoseconds(() => { for (let i = n; i < 2 * n; i++) wrong += f.has(keys[i]); }, n);
    f.end();
    if (hits !== n)
      throw new Error(`${name}: ${n - hits} keys are missed`);
    t.wrong = wrong / n;
    if (round) { // the first one warms up
      t.add.push(add);
      t.hit.push(hit);
      t.miss.push(miss);
    }
  }
}
console.log(`${n} keys of about 33 characters, rate ${fpp}; ns a call, medians of ${rounds} rounds`);
console.log('| | add | hit | miss | wrong |\n|---|---|---|---|---|');
for (const [name, t] of Object.entries(times))
  console.log(`| ${name} | ${['add', 'hit', 'miss'].map((what) => median(t[what]).toFixed(0)).join(' | ')} | ${(100 * t.wrong).toFixed(2)} % |`);

if (isBuilt()) {
  const { Filter: FilterInC } = await import('../src/native.js');
  const saved = new FilterInC({ capacity: number('--load-keys', 8.3e7), fpp, growable: false }).save();
  const loads = { addon: FilterInC, tamis: Filter, 'tamis/reader': Reader };
  const milliseconds = Object.fromEntries(Object.keys(loads).map((name) => [name, []]));
  for (let round = 0; round < rounds; round++)
    for (const [name, Class] of Object.entries(loads)) {
      const begin = performance.now(), f = Class.loadSync(saved);
      milliseconds[name].push(performance.now() - begin);
      f.free();
    }
  console.log(`\nTo load ${saved.length} bytes, ms:`, Object.entries(milliseconds)
    .map(([name, t]) => `${name} ${median(t).toFixed(0)}`).join(', '));
}
