// SPDX-License-Identifier: MIT
// The filters that are kept in tests/compat/vectors have the answers that other runtimes give: tests/compat/test_vectors.py.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Reader } from '../src/node-reader.js';
import { Filter, info } from './package.js';

const folder = new URL('../../tests/compat/vectors/', import.meta.url);
const vectors = JSON.parse(readFileSync(new URL('vectors.json', folder), 'utf8'));
const keys = vectors.keys.split(' ').map((key) => Buffer.from(key, 'hex'));

for (const [name, known] of Object.entries(vectors.filters)) {
  const bytes = readFileSync(new URL(`${name}.tamis`, folder));
  test(`${name}: as in C`, async () => {
    const filter = await Filter.load(new Blob([bytes]));
    assert.equal(keys.map((key) => filter.count(key)).join(''), known.counts);
    assert.equal(info(bytes).kind, known.kind);
    assert.equal(Buffer.compare(filter.save(), bytes), 0, 'it is saved to the same bytes');
    assert.equal(keys.slice(-vectors.later).map((key) => Number(filter.addUnique(key))).join(''), known.new);
    assert.equal(createHash('sha256').update(filter.save()).digest('hex'), known.sha256);
    filter.free();
  });
  test(`${name}: the reader`, () => {
    const reader = Reader.loadSync(bytes);
    assert.equal(keys.map((key) => Number(reader.has(key))).join(''), known.counts.replace(/[2-9]/g, '1'));
  });
  test(`${name}: text`, () => {
    const filter = Filter.loadSync(bytes);
    for (const key of keys)
      assert.equal(filter.has(key.toString('utf8')), filter.has(key));
  });
}
