// SPDX-License-Identifier: MIT
// What a load takes of WebAssembly's memory: the filter, and little beside it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Core } from '../src/core.js';
import { Filter } from '../src/index.js';
import { loadSync } from '../src/saved.js';

const BESIDE = 3 * 2 ** 20; // parts of files, and the heap's own room

/** The memory that is taken of a new core after each of these loads. */
async function memoryOf(...files) {
  const core = await Core.whole();
  return files.map((bytes) => {
    const at = loadSync(core, bytes);
    const taken = core.exports.memory.buffer.byteLength;
    core.exports.destroy(at);
    return taken;
  });
}

for (const [name, options] of [['bloom', { growable: false }], ['classic', { layout: 'classic' }],
  ['cuckoo', { kind: 'cuckoo', growable: false }], ['counting', { kind: 'counting_bloom', fpp: 1e-3 }],
  ['window', { window: 2, growable: false }]])
  test(`${name}: a load takes the filter's memory once`, async () => {
    const f = new Filter({ capacity: 8e6, fpp: 1e-3, ...options });
    const { bytes } = f.stats();
    const [taken, again] = await memoryOf(f.save(), f.save());
    f.free();
    assert.ok(taken < bytes * 1.05 + BESIDE, `${taken} for ${bytes}`);
    assert.equal(again, taken, 'what was freed is used again');
  });
