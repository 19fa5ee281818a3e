// SPDX-License-Identifier: MIT
// The reader of slices gives the answers that the library gives, of saved filters of every kind; and what is damaged
// is refused, or does no harm.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { generator, packageAddress } from './chromium.js';
import { NotAFilter, SavedFilter, sourceOfBytes } from '../src/format.js';

const tests = new URL('../../tests/', import.meta.url);
const { Filter } = await import(packageAddress);

/** What the reader says to keys. */
async function countsOf(bytes, keys) {
  const filter = await SavedFilter.open(sourceOfBytes(bytes));
  const hasher = new Filter({ capacity: 1, seed: filter.seed });
  const counts = [];
  for (const key of keys)
    counts.push((await filter.count(hasher.hash(key))).copies);
  hasher.free();
  return { filter, counts };
}

const vectors = JSON.parse(readFileSync(new URL('compat/vectors/vectors.json', tests), 'utf8'));
const known = vectors.keys.split(' ').map((key) => Buffer.from(key, 'hex'));
for (const [name, { counts }] of Object.entries(vectors.filters)) {
  test(`${name}: as in C`, async () => {
    const found = await countsOf(readFileSync(new URL(`compat/vectors/${name}.tamis`, tests)), known);
    assert.equal(found.counts.join(''), counts);
  });
}

/** Keys of which some are in the saved filters, and many are false positives of the small ones. */
const keys = Array.from({ length: 500 }, (_, i) => `key ${i}`);

/** The library's answers, or why it refuses the bytes. */
function libraryOf(bytes) {
  try {
    const filter = Filter.loadSync(bytes);
    const counts = keys.map((key) => filter.count(key));
    filter.free();
    return { counts };
  } catch (error) {
    return { refused: error };
  }
}

test('saved filters of all versions, and the corpus of the fuzzers', async () => {
  const folders = ['compat/saved/1/', 'fuzz/corpus/'];
  let compared = 0;
  for (const file of folders.flatMap((folder) => readdirSync(new URL(folder, tests)).map((name) => folder + name))) {
    const bytes = readFileSync(new URL(file, tests));
    const { counts, refused } = libraryOf(bytes);
    if (refused)
      continue;
    assert.deepEqual((await countsOf(bytes, keys)).counts, counts, file);
    compared++;
  }
  assert.ok(compared > 60, `${compared} files were compared`);
});

test('keys that were removed while the filter was saved', async () => {
  // As in tests/fuzz/hostile.h and tests/compat/keep.py: the hashes of the corpus, and which keys were removed.
  const hashOf = (key) => BigInt.asUintN(64, BigInt(key) * 0x9E3779B97F4A7C15n + 1n);
  for (const [name, first, end] of [['cuckoo-split', 0, 300], ['cuckoo-generations-2', 1450, 1500]]) {
    const [whole, less] = await Promise.all(['', '-removed'].map((part) => SavedFilter.open(sourceOfBytes(readFileSync(new URL(`fuzz/corpus/${name}${part}.tamis`, tests))))));
    let gone = 0;
    for (let key = first; key < end; key++) {
      const { copies: before } = await whole.count(hashOf(key)), { copies: after } = await less.count(hashOf(key));
      assert.ok(before >= 1, `${name}: key ${key} is in`);
      assert.ok(after <= before && (key >= first + 8 ? after >= 1 : true), `${name}: key ${key}: ${before}, ${after}`);
      gone += before - after;
    }
    assert.ok(gone >= 8, `${name}: ${gone} copies are gone`);
  }
});

test('filters that have grown', async () => {
  const all = [{ kind: 'cuckoo', capacity: 100, fpp: 0.03 }, { kind: 'cuckoo', capacity: 100, fpp: 2e-5 }, { kind: 'cuckoo', capacity: 3000, growable: false },
    { capacity: 100 }, { capacity: 100, layout: 'classic', fpp: 1e-7 }, { capacity: 5000, fpp: 1e-8, growable: false },
    { kind: 'cuckoo', capacity: 300, window: 3 }, { capacity: 300, window: 7 }];
  for (const options of all) {
    const made = new Filter({ ...options, seed: 5 });
    const count = options.kind === 'cuckoo' && options.growable !== false && !options.window ? 60000 : 2500;
    for (let i = 0; i < count; i++) {
      made.addCopy(`key ${i % 500 === 499 ? 7 : i}`);
      if (options.window && i % 800 === 0)
        made.advance();
    }
    const { filter, counts } = await countsOf(made.save(), keys);
    assert.deepEqual(counts, keys.map((key) => made.count(key)), JSON.stringify(options));
    if (count === 60000)
      assert.equal(filter.table.generations.length, 2, 'its second generation has begun');
    made.free();
  }
});

test('a look-up reads the words of its key', async () => {
  const made = new Filter({ capacity: 1e6, seed: 5 });
  made.add('a');
  const bytes = made.save();
  const read = [];
  const filter = await SavedFilter.open({ size: bytes.length, read: async (at, size) => (read.push(size), bytes.subarray(at, at + size)) });
  assert.equal((await filter.count(made.hash('a'))).copies, 1);
  const sum = read.reduce((total, size) => total + size, 0);
  assert.equal(sum, 512 + 64 + 16, 'the header, the trailer, and two words');
  assert.equal(filter.container.bytesRead, sum);
  made.free();
});

test('a cuckoo filter that processes share, or a copy of one, is called by its name', async () => {
  for (const [file, says] of [['saved/shared/1', /is a cuckoo filter that processes share, with a capacity of 100 keys/], ['saved/1', /is a copy of a cuckoo filter that processes share/]])
    await assert.rejects(SavedFilter.open(sourceOfBytes(readFileSync(new URL(`compat/${file}/counted.tamis`, tests)))), { constructor: NotAFilter, message: says });
});

test('damaged files are refused, or answered from', async () => {
  const random = generator(3);
  let refused = 0;
  for (const name of Object.keys(vectors.filters)) {
    const whole = readFileSync(new URL(`compat/vectors/${name}.tamis`, tests));
    for (let i = 0; i < 60; i++) {
      const bytes = new Uint8Array(whole);
      // The header has most numbers, so it is hit most.
      const at = Math.floor(random() * (i % 3 ? 512 : bytes.length));
      bytes[at] ^= 1 << Math.floor(random() * 8);
      const damaged = i % 7 ? bytes : bytes.subarray(0, Math.floor(random() * bytes.length));
      try {
        const filter = await SavedFilter.open(sourceOfBytes(damaged));
        await filter.count(0x123456789abcdefn);
      } catch (error) {
        assert.equal(error.constructor.name, 'NotAFilter', `${name}: ${error.stack}`);
        refused++;
      }
    }
  }
  assert.ok(refused > 100, `${refused} were refused`);
});
