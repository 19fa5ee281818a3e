// SPDX-License-Identifier: MIT
// The addon: filters that workers and processes share.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { isBuilt } from '../src/addon.js';
import { Filter as FilterInWasm } from '../src/node-wasm.js';
import { Reader } from '../src/node-reader.js';

const skip = isBuilt() ? false : 'the addon has not been built';
const tamis = skip ? {} : await import('../src/native.js');
const { Filter } = tamis;
const command = process.env.TAMIS_COMMAND;
const folder = mkdtempSync(join(tmpdir(), 'tamis-'));
after(() => rmSync(folder, { recursive: true }));

const started = [];
function start(workerData) {
  started.push(new Worker(new URL('./addon/worker.js', import.meta.url), { workerData }));
  return started.at(-1);
}
afterEach(() => Promise.all(started.splice(0).map((worker) => worker.terminate()))); // or a test that fails never ends
const message = async (worker) => (await once(worker, 'message'))[0];
/** Waits for workers that end by themselves. */
const ended = (workers) => Promise.all(workers.map(async (worker) => assert.deepEqual(await once(worker, 'exit'), [0])));

test('the package takes the addon', { skip }, async () => {
  assert.ok(tamis.isNative && (await import('../src/node.js')).isNative);
  assert.equal((await import('../src/node.js')).version, tamis.version);
});

// ---- workers ----

const kinds = [
  ['bloom', { capacity: 100_000, growable: false, fpp: 1e-9 }], ['bloom that grows', { capacity: 1000, fpp: 1e-9 }],
  ['cuckoo', { kind: 'cuckoo', capacity: 1000, fpp: 1e-6 }],
  ['counting', { kind: 'counting_bloom', capacity: 100_000, fpp: 1e-5 }],
  ['window', { capacity: 100_000, window: 3, fpp: 1e-6 }],
];
for (const [name, options] of kinds) {
  test(`one winner among four workers: ${name}`, { skip }, async () => {
    const keys = 100_000, of = 4;
    const f = new Filter({ seed: 5, ...options });
    const wins = new SharedArrayBuffer(keys), shared = new SharedArrayBuffer(4);
    await ended(Array.from({ length: of }, (_, index) =>
      start({ task: 'win', handle: f.handle(), index, of, keys, wins, shared })));
    const counts = new Uint8Array(wins);
    assert.equal(counts.findIndex((n) => n > 1), -1, 'no key has two winners');
    const won = counts.reduce((a, b) => a + b);
    assert.ok(won <= keys && won > keys - 10, `${keys - won} keys have none, which false positives have hidden`);
    assert.equal(f.stats().count, won);
    for (let i = 0; i < keys; i += 7)
      assert.ok(f.has(`key ${i}`));
  });
}

test('a worker that is terminated in the midst of adds loses nothing, and leaks nothing', { skip }, async () => {
  for (const options of [{ capacity: 100 }, { capacity: 100, kind: 'cuckoo' }, { capacity: 1e5, window: 2, kind: 'cuckoo' }]) {
    const of = 6;
    const f = new Filter({ fpp: 1e-4, ...options }), handle = f.handle();
    const shared = new SharedArrayBuffer(4 * of), done = new Int32Array(shared);
    for (let index = 0; index < of; index += 2) {
      const pair = [index, index + 1].map((i) => start({ task: 'addForever', handle, index: i, shared }));
      while (Atomics.load(done, index) < 2000 || Atomics.load(done, index + 1) < 2000) { // some adds each
        assert.ok(pair.every((worker) => worker.threadId > 0), 'the workers run');
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
      await Promise.all(pair.map((worker) => worker.terminate()));
    }
    for (let index = 0; index < of; index++)
      for (let i = 0; i < done[index]; i++)
        assert.ok(f.has(`${index} ${i}`), `${index} ${i}`);
    for (let i = 0; i < 20000; i++) // grace periods still come to their end
      f.addCopy(`later ${i}`);
    f.free();
    assert.throws(() => Filter.attach(handle), ReferenceError, 'no worker has left a reference behind');
  }
});

test('filters are freed in any order', { skip }, async () => {
  const f = new Filter({ capacity: 1000, seed: 1 }), handle = f.handle();
  assert.equal(f.handle(), handle);
  f.add('x');
  const asking = start({ task: 'ask', handle });
  await message(asking);
  const second = Filter.attach(handle);
  f.free();
  assert.ok(second.has('x') && second.add('y'));
  second.free();
  asking.postMessage('y');
  assert.equal(await message(asking), true, 'the worker has it still');
  const third = Filter.attach(handle);
  await asking.terminate();
  assert.ok(third.has('y'));
  third.free();
  assert.throws(() => Filter.attach(handle), ReferenceError);
  for (const end of ['free', 'terminate']) {
    const lender = start({ task: 'lend' }), lent = await message(lender);
    const borrowed = Filter.attach(lent);
    if (end === 'free') {
      lender.postMessage('');
      assert.equal(await message(lender), 'freed');
    }
    await lender.terminate();
    assert.ok(borrowed.has('lent') && !borrowed.has('other'));
    borrowed.free();
    assert.throws(() => Filter.attach(lent), ReferenceError);
  }
});

test('only workers load the addon, one after the other', { skip }, () => {
  const worker = `import(${JSON.stringify(new URL('../src/native.js', import.meta.url))}).then(({ Filter }) => {
      const f = new Filter({ capacity: 100, kind: 'cuckoo', fpp: 1e-4 });
      const keys = Array.from({ length: 5000 }, (_, i) => 'key ' + i);
      for (const key of keys) f.addCopy(key);
      require('node:worker_threads').parentPort.postMessage(keys.filter((key) => f.has(key)).length);
      for (let i = 0; ; i++) f.addCopy('later ' + i);
    })`;
  const code = `const { Worker } = require('node:worker_threads');
    (async () => {
      for (let i = 0; i < 10; i++) {
        const worker = new Worker(${JSON.stringify(worker)}, { eval: true });
        console.log(await new Promise((resolve) => worker.once('message', resolve)));
        await worker.terminate();
      }
    })();`;
  assert.equal(execFileSync(process.execPath, ['-e', code], { encoding: 'utf8' }), '5000\n'.repeat(10));
});

test('a worker ends in the midst of a load and of a save', { skip }, async () => {
  const bytes = new Filter({ capacity: 1e7 }).save();
  const code = `
    const { parentPort, workerData } = require('node:worker_threads');
    import(workerData.url).then(({ Filter }) => {
      parentPort.postMessage('');
      for (;;) Filter.loadSync(workerData.bytes).save();
    });`;
  for (let i = 0; i < 3; i++) {
    const worker = new Worker(code, { eval: true, workerData: { url: new URL('../src/native.js', import.meta.url).href, bytes } });
    await message(worker);
    await worker.terminate();
  }
});

// ---- processes ----

test('keys of a cuckoo filter are removed by another object of the file', { skip }, () => {
  const path = join(folder, 'cuckoo');
  const f = Filter.shared(path, { kind: 'cuckoo', capacity: 1000, fpp: 1e-6, growable: false }), g = Filter.shared(path);
  assert.deepEqual([f.add('a'), g.add('a'), f.count('a'), f.remove('a'), g.remove('a'), f.remove('a')], [true, false, 2, true, true, false]);
  for (let copies = 0; copies < 6; copies++)
    f.addCopy('a');
  assert.throws(() => g.addCopy('a'), tamis.FullError);
  assert.deepEqual([g.count('a'), g.stats().kind, g.stats().count], [6, 'cuckoo', 6]);
  const copy = Filter.loadSync(f.save());
  assert.deepEqual([copy.count('a'), copy.remove('a'), copy.count('a'), f.count('a')], [6, true, 5, 6]);
  assert.throws(() => FilterInWasm.loadSync(f.save()), tamis.UnsupportedError);
});

test('the command reads the file and adds to it, and WebAssembly reads a copy', { skip: skip || (command ? false : 'TAMIS_COMMAND names no program') },
  async () => {
    const path = join(folder, 'command');
    const f = Filter.shared(path, { capacity: 1000, fpp: 1e-3, growable: false, layout: 'word', seed: 1 });
    for (let i = 0; i < 500; i++)
      f.add(`key ${i}`);
    const input = Array.from({ length: 1000 }, (_, i) => `key ${i}\n`).join('');
    const found = execFileSync(command, ['query', '--quiet', path], { input, encoding: 'utf8' });
    assert.equal(found, input.split('\n').filter((key) => key && f.has(key)).join('\n') + '\n');
    assert.ok(found.startsWith(input.slice(0, input.indexOf('key 500\n'))) && found.length < input.length * 0.6);
    execFileSync(command, ['build', '--quiet', `--shared=${path}`], { input: 'of the command\n' });
    assert.ok(f.has('of the command') && !f.add('of the command'));
    const figures = execFileSync(command, ['info', path], { encoding: 'utf8' });
    assert.match(figures, /^shared +by processes$/m);
    const inWasm = FilterInWasm.loadSync(f.save());
    assert.deepEqual([inWasm.has('key 499'), inWasm.stats().count, inWasm.hash('x')], [true, f.stats().count, f.hash('x')]);
  });

test('the file of a shared filter loads as a copy, with room for more behind it', { skip }, async () => {
  const path = join(folder, 'live');
  const f = Filter.shared(path, { capacity: 1000, fpp: 0.01, maxBytes: 1e6 });
  for (const keys of [0, 500, 5000]) {
    for (let i = 0; i < keys; i++)
      f.add(`key ${i}`);
    const bytes = readFileSync(path);
    for (const Class of [Filter, FilterInWasm, Reader])
      for (const copy of [Class.loadSync(bytes), await Class.load(new Blob([bytes]))])
        for (let i = 0; i < 10000; i++)
          assert.equal(copy.has(`key ${i}`), f.has(`key ${i}`));
  }
  const cut = readFileSync(path).subarray(0, 5000);
  for (const Class of [Filter, FilterInWasm, Reader])
    assert.throws(() => Class.loadSync(cut), { code: 'ECORRUPT' });
});

test('who may open a shared file', { skip }, () => {
  const path = join(folder, 'access'), options = { capacity: 1000, growable: false };
  Filter.shared(path, Object.create(options)).free();
  rmSync(path);
  Filter.shared(path, { ...options, fileMode: 0o660, group: process.getgid() }).free();
  assert.equal(statSync(path).mode & 0o7777, 0o660);
  assert.equal(statSync(path).gid, process.getgid());
  for (const wrong of [{ fileMode: 0o400 }, { fileMode: 0o1600 }, { fileMode: '0600' }, { group: 5 }, { fileMode: 0o600, group: -1 }])
    assert.throws(() => Filter.shared(path, { ...options, ...wrong }), /fileMode|group/);
});

// ---- arguments ----

test('shared files that are refused', { skip }, () => {
  const path = join(folder, 'refused'), good = { capacity: 1000, growable: false };
  writeFileSync(join(folder, 'text'), 'This is no filter. '.repeat(100));
  Filter.shared(path, good).free();
  for (const [at, options, Class, text] of [
    [join(folder, 'none'), undefined, tamis.TamisError, /No such file/],
    [join(folder, 'no', 'such'), good, tamis.TamisError, /No such file/],
    [folder, good, tamis.TamisError, /./],
    [join(folder, 'text'), good, tamis.CorruptError, /./],
    [path, { ...good, capacity: 2000 }, tamis.InvalidError, /capacity/],
    [join(folder, 'new'), { ...good, kind: 'counting_bloom' }, tamis.UnsupportedError, /./],
    [join(folder, 'new'), { kind: 'cuckoo', capacity: 1000 }, tamis.UnsupportedError, /fixed size/],
    [path, { ...good, kind: 'cuckoo' }, tamis.InvalidError, /^kind is/],
    [join(folder, 'new'), { capacity: 1000 }, tamis.InvalidError, /max_bytes/],
    [join(folder, 'new'), { capacity: 1000, fpp: 2 }, tamis.InvalidError, /^fpp is 2/],
  ])
    assert.throws(() => Filter.shared(at, options), (error) => {
      assert.ok(error instanceof Class, String(error));
      assert.match(error.message, text);
      return true;
    });
  assert.throws(() => Filter.shared(join(folder, 'new')), /No such file/, 'what was refused has left no file');
  for (const bad of [undefined, null, 5, '', 'a\0b', new Uint8Array(3)])
    assert.throws(() => Filter.shared(bad, good), TypeError);
  assert.throws(() => Filter.shared(path, 5), TypeError);
  assert.throws(() => new Filter(good).sync(), tamis.UnsupportedError);
});

test('handles that are none', { skip }, () => {
  const f = new Filter({ capacity: 1000 }), handle = f.handle();
  for (const bad of [undefined, null, 5, '5', {}, Number(handle)])
    assert.throws(() => Filter.attach(bad), TypeError);
  for (const bad of [0n, 1n, -1n, handle ^ 1n, 2n ** 64n - 1n, 2n ** 200n])
    assert.throws(() => Filter.attach(bad), ReferenceError);
  f.free();
  assert.throws(() => f.handle(), ReferenceError);
  assert.throws(() => Filter.attach(handle), ReferenceError);
});

test('WebAssembly says what needs the addon', () => {
  const f = new FilterInWasm({ capacity: 10 });
  for (const call of [() => FilterInWasm.shared('x'), () => FilterInWasm.attach(1n), () => f.handle(), () => f.sync()])
    assert.throws(call, { name: 'UnsupportedError', code: 'EUNSUPPORTED', message: /needs the addon/ });
});

test('keys around the length that the stack has room for', { skip }, () => {
  const f = new Filter({ capacity: 10 });
  for (const character of ['a', 'ä', '€', '🔑', '\ud800'])
    for (let bytes = 1000; bytes < 1050; bytes++)
      for (const before of ['', 'a', 'aa', 'aaa']) {
        const text = before + character.repeat(Math.ceil((bytes - before.length) / Buffer.byteLength(character)));
        assert.equal(f.hash(text), f.hash(Buffer.from(text)), `${character} ${before} ${bytes}`);
      }
});

test('a key whose bytes are gone is not the empty key', { skip }, () => {
  const f = new Filter({ capacity: 10 }), gone = new Uint8Array(8);
  const resizable = new ArrayBuffer(8, { maxByteLength: 8 }), cut = new Uint8Array(resizable, 4, 4);
  f.add('');
  structuredClone(gone.buffer, { transfer: [gone.buffer] });
  resizable.resize?.(4); // not in Node 18
  for (const key of resizable.resize ? [gone, cut] : [gone])
    assert.throws(() => f.has(key), /transferred/);
  assert.ok(f.has(new Uint8Array(0)));
});

test('filters that nobody has any more are freed before they take all memory', { skip }, async () => {
  const mapped = () => Number(readFileSync('/proc/self/statm', 'latin1').split(' ')[0]) * 4096; // pages of 4 KiB
  const before = mapped(), rounds = 300;
  let bytes, most = 0;
  for (let i = 0; i < rounds; i++) {
    ({ bytes } = new Filter({ capacity: 8_000_000 }).stats());
    await setImmediate(); // Node finalizes between two turns
    most = Math.max(most, mapped() - before);
  }
  assert.ok(most < rounds * bytes / 3, `${most} of ${rounds * bytes}`);
});

test('no arguments of the functions themselves do harm', { skip }, () => {
  const addon = createRequire(import.meta.url)('../addon/tamis.node');
  addon.options(1, 0, 1000n, 0.01, 0, 1, 0n, 7n);
  const live = addon.create(), freed = addon.create();
  addon.destroy(freed);
  const values = [undefined, null, 5, -1, NaN, 2 ** 60, 'text', '', 5n, -(2n ** 70n), {}, [], Symbol('s'), () => 5, live, freed,
    new Uint8Array(4), new Float64Array(4), new Uint8Array(structuredClone(new ArrayBuffer(8))), new ArrayBuffer(4),
    () => new Uint8Array(9e6), () => { throw new Error('mine'); }, () => addon.destroy(live)];
  const detached = new Uint8Array(8);
  structuredClone(detached.buffer, { transfer: [detached.buffer] });
  values.push(detached);
  let state = 1;
  const choice = () => values[(state = (Math.imul(state, 1664525) + 1013904223) >>> 0) % values.length];
  const names = Object.keys(addon).filter((name) => name !== 'destroy' && name !== 'open_shared');
  for (let i = 0; i < 20000; i++) {
    const name = names[i % names.length];
    try {
      addon[name](...Array.from({ length: i % 9 }, choice));
    } catch (error) {
      assert.ok(error instanceof Error, name);
    }
  }
  for (const bad of [undefined, 5, {}, ''])
    assert.equal(addon.open_shared(bad, false), null);
});
