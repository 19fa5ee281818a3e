// SPDX-License-Identifier: MIT
// What the calls do, throw, and give back; in WebAssembly, or with the addon (package.js).
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { runInNewContext } from 'node:vm';
import { Reader } from '../src/node-reader.js';
import * as tamis from './package.js';

const { Filter } = tamis;
const keys = (n, prefix = 'key') => Array.from({ length: n }, (_, i) => `${prefix} ${i}`);
const kinds = [['bloom', 0], ['cuckoo', 0], ['counting_bloom', 0], ['bloom', 4], ['cuckoo', 4]];

for (const [kind, window] of kinds) {
  for (const growable of [true, false]) {
    test(`${kind}, window ${window}, growable ${growable}`, () => {
      const f = new Filter({ capacity: 2000, fpp: 1e-4, kind, window, growable, seed: 11 });
      assert.equal(keys(2000).filter((key) => f.add(key)).length, 2000);
      assert.ok(keys(2000).every((key) => f.has(key) && !f.addUnique(key)));
      assert.ok(keys(2000, 'other').filter((key) => f.has(key)).length < 20);
      const { count, kind: known, fpp } = f.stats();
      assert.deepEqual([count, known, fpp], [2000, kind, 1e-4]);
      const g = Filter.loadSync(f.save());
      assert.ok(keys(2000).every((key) => g.has(key)));
      assert.equal(g.seed, 11n);
      f.free();
      assert.ok(g.has('key 0'));
    });
  }
}

test('a filter grows', () => {
  for (const [kind, window] of kinds) {
    const f = new Filter({ capacity: 100, kind, window, fpp: 0.001 });
    keys(30000).forEach((key) => f.addCopy(key));
    assert.ok(keys(30000).every((key) => f.has(key)), `${kind} ${window}`);
    assert.ok(keys(30000).every((key) => Filter.prototype.has.call(f, new TextEncoder().encode(key))));
    if (kind === 'cuckoo' && !window) {
      assert.equal(keys(30000).filter((key) => f.remove(key)).length, 30000);
      assert.equal(f.stats().count, 0);
    }
    f.free();
  }
});

test('copies and removes', () => {
  const f = new Filter({ capacity: 1000, kind: 'cuckoo', fpp: 1e-6 });
  for (let i = 0; i < 300; i++)
    f.addCopy('often');
  assert.equal(f.count('often'), 300);
  assert.equal(f.remove('often'), true);
  assert.equal(f.count('often'), 299);
  assert.equal(f.remove('never'), false);
  assert.throws(() => new Filter({ capacity: 10 }).remove('x'), tamis.UnsupportedError);
});

test('who removes a key as often as it was added takes no other key away', () => {
  for (const [kind, window] of kinds) {
    const f = new Filter({ capacity: 1000, kind, window, fpp: 0.2, seed: 3 }), g = Filter.loadSync(f.save());
    keys(1000).forEach((key) => f.add(key));
    if (kind === 'bloom') {
      assert.deepEqual([g.add('x'), g.add('x'), g.addUnique('x'), g.stats().count], [true, false, false, 1], 'no copies');
      continue;
    }
    let hidden = 0;
    for (const key of keys(50_000, 'other')) {
      hidden += !f.add(key);
      assert.ok(f.remove(key));
    }
    assert.ok(hidden > 10, `${kind} ${window}: ${hidden} keys were taken for others`);
    assert.ok(keys(1000).every((key) => f.has(key)), kind);
    assert.deepEqual([g.add('x'), g.add('x'), g.addUnique('x'), g.count('x'), g.remove('x'), g.has('x')], [true, false, false, 2, true, true]);
  }
});

test('a window forgets', () => {
  const f = new Filter({ capacity: 1000, window: 2 });
  f.add('old');
  f.advance();
  f.add('new');
  assert.equal(f.add('old'), false, 'which does not renew it');
  f.advanceTo(2);
  assert.ok(f.has('old'));
  f.advance();
  assert.ok(!f.has('old') && f.has('new'));
  f.advanceTo(1); // has ended long ago
  assert.ok(f.has('new'));
  assert.throws(() => new Filter({ capacity: 10 }).advance(), tamis.UnsupportedError);
});

test('a window remembers for exactly its periods, however many end at once', () => {
  for (const window of [1, 2, 7, 64])
    for (const left of [0, 1, window]) {
      const f = new Filter({ capacity: 1000, window });
      f.add('a');
      f.advanceTo(window - left);
      f.advanceTo(window);
      assert.ok(f.has('a'), `${window}, the last ${left} by themselves`);
      f.advance();
      assert.ok(!f.has('a'));
    }
});

test('keys', () => {
  const f = new Filter({ capacity: 1000, fpp: 1e-9 });
  const text = 'schlüssel 🔑 '.repeat(3);
  for (const key of ['', text, 'a'.repeat(48), 'a'.repeat(49), 'ä'.repeat(30000), '\u0000'])
    assert.ok(f.add(key) && f.has(new TextEncoder().encode(key)) && f.has(key), key.slice(0, 10));
  const bytes = Uint8Array.from([0, 1, 2, 3, 4, 5, 6, 7]);
  f.add(bytes.subarray(2, 6));
  assert.ok(f.has(bytes.slice(2, 6)) && f.has(bytes.slice(2, 6).buffer) && f.has(new DataView(bytes.buffer, 2, 4)));
  assert.ok(f.has(new Uint16Array(bytes.buffer, 2, 2)) && !f.has(bytes));
  assert.ok(f.has(runInNewContext('Uint8Array.of(2, 3, 4, 5).buffer')));
  const gone = new Uint8Array(8);
  structuredClone(gone.buffer, { transfer: [gone.buffer] });
  for (const bad of [5, null, undefined, {}, [1], 5n, true, gone, gone.buffer, new SharedArrayBuffer(8), { [Symbol.toStringTag]: 'ArrayBuffer' }])
    assert.throws(() => f.has(bad), TypeError);
  assert.equal(f.hash(text), f.hash(new TextEncoder().encode(text)));
  assert.equal(typeof f.hash(''), 'bigint');
  // What an array says of its own length decides nothing, least of all where its bytes are put.
  for (const says of [0, 3, 2 ** 31, -1, NaN])
    for (const size of [6, 40_000]) {
      class Lying extends Uint8Array {
        get length() { return says; }
        get byteLength() { return says; }
        subarray() { return this; }
      }
      const lying = new Lying(size).fill(7), own = Object.defineProperty(new Uint8Array(size).fill(7), 'length', { value: says });
      for (const key of [lying, own])
        assert.equal(f.hash(key), f.hash(new Uint8Array(size).fill(7)));
      assert.throws(() => Filter.loadSync(lying), tamis.CorruptError);
      assert.throws(() => tamis.info(own), tamis.CorruptError);
    }
  assert.ok(f.has('') && f.has(text), 'no other filter is touched');
});

test('options that are refused', () => {
  const refused = [
    [{ capacity: 5, fpp: 2 }, tamis.InvalidError, 'fpp is 2; it must be above 0 and below 1', 'EINVAL'],
    [{ capacity: 5, fpp: 1e-30 }, tamis.UnsupportedError,
      'fpp is 1e-30; a Bloom filter for 5 keys needs at least 1.09e-18, and below 1', 'EUNSUPPORTED'],
    [{ capacity: 100, maxBytes: 3 }, tamis.FullError,
      /^max_bytes is 3; it must be at least \d+, which these options need$/, 'EFULL'],
    [{ capacity: 1e11 }, tamis.InvalidError, undefined, 'EINVAL'],
    [{ capacity: 2e9, growable: false }, tamis.MemoryError, undefined, 'ENOMEM'],
  ];
  for (const [options, Class, message, code] of refused) {
    assert.throws(() => { // more than 4 GiB do not exist, and then it is the address space
      new Filter(options);
      throw new tamis.MemoryError('there was room', 'ENOMEM');
    }, (error) => {
      assert.ok(error instanceof tamis.TamisError && error instanceof Error, String(error));
      if (message) {
        assert.ok(error instanceof Class);
        assert.deepEqual([error.code, error.name], [code, Class.name]);
        assert[message instanceof RegExp ? 'match' : 'equal'](error.message, message);
      }
      return true;
    });
  }
  for (const bad of [undefined, null, 5])
    assert.throws(() => new Filter(bad), TypeError);
  assert.throws(() => new Filter({}), /capacity is missing/);
  assert.throws(() => new Filter({ capacity: 10, colour: 1 }), /there is no option colour/);
  assert.throws(() => new Filter({ capacity: -1 }), RangeError);
  assert.throws(() => new Filter({ capacity: 1.5 }), RangeError);
  assert.throws(() => new Filter({ capacity: 2n ** 64n }), RangeError);
  assert.throws(() => new Filter({ capacity: 5, kind: 'quotient' }), /it must be one of bloom, cuckoo, counting_bloom/);
  assert.throws(() => new Filter({ capacity: 5, fpp: '0.1' }), TypeError);
  for (const name of ['growable', 'windowRenews'])
    for (const bad of ['false', 0, null, Symbol('s')])
      assert.throws(() => new Filter({ capacity: 5, [name]: bad }), new RegExp(`^TypeError: ${name} is .*; it must be true or false`));
});

test('a filter is full', () => {
  const f = new Filter({ capacity: 100, growable: false, kind: 'cuckoo' });
  assert.throws(() => keys(1000).forEach((key) => f.add(key)), tamis.FullError);
  const { count, refusedAdds } = f.stats();
  assert.ok(count >= 100 && refusedAdds === 1);
});

test('merging', () => {
  for (const [kind, window] of kinds) {
    const options = { capacity: 1000, kind, window, seed: 3 };
    const f = new Filter(options), g = new Filter(options);
    keys(300, 'f').forEach((key) => f.add(key));
    keys(300, 'g').forEach((key) => g.add(key));
    assert.equal(f.merge(g), f);
    assert.ok([...keys(300, 'f'), ...keys(300, 'g')].every((key) => f.has(key)));
    const others = { seed: 4, capacity: 1001, fpp: 0.0101, kind: kind === 'cuckoo' ? 'bloom' : 'cuckoo' };
    if (kind !== 'counting_bloom')
      others.window = window + 1;
    if (kind === 'bloom' && !window)
      others.layout = 'word';
    const before = f.save();
    for (const [name, value] of Object.entries(others))
      assert.throws(() => f.merge(new Filter({ ...options, [name]: value })), (error) => error instanceof tamis.InvalidError &&
        new RegExp(`^merge takes a filter with the same options and seed: its ${name} is another one$`).test(error.message), name);
    for (const other of [f, ...(kind === 'counting_bloom' ? [] : [new Filter({ ...options, growable: false })])])
      assert.throws(() => f.merge(other), { name: 'InvalidError', message: /growable, or both are the same/ });
    assert.deepEqual(f.save(), before);
    assert.throws(() => f.merge({}), TypeError);
  }
});

/** Chunks of all sizes. */
async function* inPieces(bytes) {
  for (let at = 0, size = 1; at < bytes.length; at += size, size = (size * 3) % 5000 + 1)
    yield bytes.subarray(at, at + size);
}

/** The same, all in one place. */
async function* inOnePlace(bytes) {
  const place = new Uint8Array(5000);
  for await (const piece of inPieces(bytes)) {
    place.set(piece);
    yield place.subarray(0, piece.length);
  }
}

test('loading', async () => {
  const f = new Filter({ capacity: 10000 });
  keys(10000).forEach((key) => f.add(key));
  const bytes = f.save();
  const sources = [bytes, bytes.buffer, new DataView(bytes.buffer), new Blob([bytes]), new Blob([bytes]).stream(),
    f.saveStream(), inPieces(bytes), inOnePlace(bytes), new Response(bytes).body,
    runInNewContext('(bytes) => new Uint8Array(bytes).buffer')(bytes)];
  for (const source of sources)
    assert.deepEqual((await Filter.load(source)).save(), bytes);
  assert.ok((await Reader.load(inPieces(bytes))).has('key 5'));
  for (const [data, Class] of [[bytes.subarray(0, bytes.length - 1), tamis.CorruptError],
    [Buffer.concat([bytes, Buffer.from('x')]), tamis.CorruptError], [new Uint8Array(), tamis.CorruptError]]) {
    await assert.rejects(Filter.load(data), Class);
    await assert.rejects(Filter.load(inPieces(data)), Class);
    assert.throws(() => Reader.loadSync(data), Class);
  }
  await assert.rejects(Filter.load(bytes, { maxBytes: 1000 }), tamis.FullError);
  await assert.rejects(Filter.load(inPieces(bytes), { maxBytes: 1000 }), tamis.FullError);
  await assert.rejects(Filter.load(bytes, { maxBytes: 0 }), RangeError);
  for (const bad of [5, 'text', null, [1]])
    await assert.rejects(Filter.load(bad), TypeError);
  await assert.rejects(Filter.load(new Response(bytes)), /^TypeError: .*load\(response\.body\)/);
  for (const [options, said] of [[null, /an object, such as/], [5, /an object, such as/], [{ maxbytes: 5 }, /no option maxbytes, only maxBytes/]])
    for (const Class of [Filter, Reader]) {
      await assert.rejects(Class.load(bytes, options), said);
      assert.throws(() => Class.loadSync(bytes, options), said);
    }
  assert.deepEqual(tamis.info(bytes.subarray(0, 512)).count, f.stats().count);
});

test('a subclass loads itself', async () => {
  const bytes = new Filter({ capacity: 100 }).save();
  for (const Class of [Filter, Reader]) {
    class Named extends Class {
      name = 'mine';
    }
    for (const f of [Named.loadSync(bytes), await Named.load(new Blob([bytes]))])
      assert.ok(f instanceof Named && f.name === 'mine' && !f.has('x'));
    class Deaf extends Class {
      constructor() {
        super(Class === Filter ? { capacity: 10 } : undefined);
      }
    }
    assert.throws(() => Deaf.loadSync(bytes), TypeError);
    assert.throws(() => new (class extends Class { constructor(...all) { super(...all); throw new RangeError('mine'); } })({ capacity: 5 }));
    const { loadSync } = Class;
    assert.ok(loadSync(bytes) instanceof Class, 'also where it has been taken from its class');
  }
});

test('a filter does not become an empty object', () => {
  const f = new Filter({ capacity: 100 }), reader = Reader.loadSync(f.save()), { port1, port2 } = new MessageChannel();
  for (const object of [f, reader]) {
    for (const call of [() => structuredClone(object), () => port1.postMessage([object])])
      assert.throws(call, { name: 'DataCloneError', message: /send save\(\)/ });
  }
  assert.throws(() => JSON.stringify({ reader }), /^TypeError: a filter lies in memory .*send save\(\)/);
  port1.close();
  port2.close();
});

test('what cannot be a filter is refused before all of it has come', async () => {
  let given = 0;
  async function* endless() {
    for (;; given++)
      yield new Uint8Array(1000);
  }
  await assert.rejects(Filter.load(endless()), tamis.CorruptError);
  assert.ok(given < 2);
  const bytes = new Filter({ capacity: 100 }).save();
  async function* longer() {
    yield bytes;
    yield* endless();
  }
  await assert.rejects(Filter.load(longer(), { maxBytes: 10000 }), tamis.FullError);
  assert.ok(given < 5000);
});

test('freeing', () => {
  const f = new Filter({ capacity: 100 });
  f.free();
  f.free();
  for (const call of [() => f.has('x'), () => f.add('x'), () => f.save(), () => f.stats()])
    assert.throws(call, ReferenceError);
  if (Symbol.dispose)
    new Filter({ capacity: 100 })[Symbol.dispose]();
});

test('memory comes back', () => {
  const sizes = [];
  for (let i = 0; i < 60; i++) { // 60 * 36 MB are more than 32 bits allow in half of the cases, if nothing does
    const f = new Filter({ capacity: 2.5e7, growable: i % 2 === 0, kind: i % 3 ? 'bloom' : 'cuckoo' });
    f.add('x');
    sizes.push(f.stats().bytes);
    f.free();
  }
  assert.ok(sizes.reduce((a, b) => a + b) > 1.5e9);
});

test('Symbol.dispose is optional', async () => {
  const url = new URL('../src/node-wasm.js', import.meta.url);
  const code = `const { iterator, asyncIterator, toStringTag } = Symbol;
    globalThis.Symbol = Object.assign((name) => name, { iterator, asyncIterator, toStringTag });
    const { Filter } = await import('${url}');
    console.log(new Filter({ capacity: 9 }).add('x'));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code]);
  assert.equal(stdout, 'true\n');
});
