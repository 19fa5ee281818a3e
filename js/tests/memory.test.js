// SPDX-License-Identifier: MIT
// What a load takes of WebAssembly's memory: the filter, and little beside it.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import { inflateRawSync } from 'node:zlib';
import { errorOf } from '../src/errors.js';
import { packageOf } from '../src/filter.js';
import { nodeCore } from '../src/node-core.js';
import { Filter } from '../src/node-wasm.js';
import { loadSync } from '../src/saved.js';

const BESIDE = 3 * 2 ** 20; // parts of files, and the heap's own room

/** The memory that is taken of a new core after each of these loads. */
function memoryOf(...files) {
  const core = nodeCore('tamis.wasm');
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
  test(`${name}: a load takes the filter's memory once`, () => {
    const f = new Filter({ capacity: 8e6, fpp: 1e-3, ...options });
    const { bytes } = f.stats();
    const [taken, again] = memoryOf(f.save(), f.save());
    f.free();
    assert.ok(taken < bytes * 1.05 + BESIDE, `${taken} for ${bytes}`);
    assert.equal(again, taken, 'what was freed is used again');
  });

test('a filter that is larger than all memory is refused, whatever limit the caller has set', () => {
  const f = new Filter({ capacity: 1000, seed: 1 });
  for (let i = 0; i < 1000; i++)
    f.add(`key ${i}`);
  // The beginning of a Bloom filter of 2^32 + 2^21 bytes and some, as tamis_save() writes it.
  const header = inflateRawSync(Buffer.from('6wxx9PUM5uViZAACJgYMwIiEQYAVSqvUXtkZsWLttQMzJh8H8atF1rk/rGqxZ8AJFOBmEACMHEgcNgb6AJjXmW' +
    'ECDQwsDEj+Zn9ndJxhGAHVb8v3vbF7Fw0A', 'base64'));
  const file = new Uint8Array(2 ** 23);
  file.set(header);
  for (const beside of [2 ** 21 + 2 ** 17, 2 ** 22, 2 ** 23])
    assert.throws(() => Filter.loadSync(file, { maxBytes: 2 ** 32 + beside }), { code: 'ENOMEM' });
  for (let i = 0; i < 1000; i++)
    assert.ok(f.has(`key ${i}`), 'other filters are as they were');
});

test('the garbage collector is told what a filter takes, and a program that free() helps', () => {
  // In a process in which nothing else waits to be collected.
  const code = `import { Filter } from '${new URL('../src/node-wasm.js', import.meta.url)}';
    const before = process.memoryUsage().arrayBuffers, f = new Filter({ capacity: 8e6 });
    console.log(process.memoryUsage().arrayBuffers - before > 0.9 * f.stats().bytes);`;
  assert.equal(execFileSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8' }), 'true\n');
  assert.match(errorOf(-2, 'out of memory').message, /^out of memory; free\(\) gives a filter back at once/);
});

test('a key for which no number of WebAssembly is large enough is refused', () => {
  const core = nodeCore('tamis.wasm');
  for (const size of [2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 1, 2 ** 53]) {
    assert.throws(() => core.makeRoomOrThrow(size), RangeError);
    assert.ok(core.room >= 4096 && core.room < 2 ** 31, `${size}: ${core.room}`);
  }
  assert.equal(core.put(new Uint8Array(100_000)), 100_000);
});

test('a union that is refused leaves nothing in memory', () => {
  const core = nodeCore('tamis.wasm'), own = packageOf(core);
  const f = new own.Filter({ capacity: 1e6 }), g = new own.Filter({ capacity: 1e6, growable: false });
  const sizes = Array.from({ length: 5 }, () => {
    assert.throws(() => f.union(g), { code: 'EINVAL' });
    return core.exports.memory.buffer.byteLength;
  });
  assert.equal(sizes[4], sizes[0]);
});

test('a filter that comes as text takes no more than a few times its text', () => {
  const code = `import { Filter } from '${new URL('../src/node-wasm.js', import.meta.url)}';
    const f = new Filter({ capacity: 1e7 });
    console.log(Filter.fromJSON(f.toJSON()).equals(f));`;
  const options = ['--max-old-space-size=64', '--input-type=module', '-e', code]; // megabytes
  assert.equal(execFileSync(process.execPath, options, { encoding: 'utf8' }), 'true\n');
});
