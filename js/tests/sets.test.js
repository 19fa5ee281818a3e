// SPDX-License-Identifier: MIT
// What filters have as sets have it, and the seed by which filters of one program fit together.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import test from 'node:test';
import { Worker } from 'node:worker_threads';
import { fileURLToPath } from 'node:url';
import * as tamis from './package.js';

const { Filter, isNative } = tamis;

function made(keys = [], options = {}) {
  const f = new Filter({ capacity: 1000, fpp: 1e-6, ...options });
  for (const key of keys)
    f.add(key);
  return f;
}

const found = (f, keys) => [...keys].filter((key) => f.has(key)).join('');

test('filters that are given no seed have that of the program', () => {
  const a = made('ab'), b = made('bc');
  assert.equal(a.seed, b.seed);
  assert.equal(found(a.union(b), 'abcd'), 'abc');
  assert.equal(found(a.intersection(b), 'abcd'), 'b');
  assert.equal(found(a, 'abcd'), 'ab');
  const seeds = new Set([a.seed, ...Array.from({ length: 9 }, () => made([], { seed: 0 }).seed)]);
  assert.equal(seeds.size, 10);
});

const program = (body) => `import * as tamis from ${JSON.stringify(new URL('package.js', import.meta.url).href)};
const { Filter } = tamis, seed = () => String(new Filter({ capacity: 9 }).seed);
${body}`;

test('a worker, and a worker of that, has the seed of the program', async () => {
  const url = (code) => new URL(`data:text/javascript,${encodeURIComponent(code)}`);
  const inner = program("import { parentPort } from 'node:worker_threads'; parentPort.postMessage(seed());");
  const outer = program(`import { parentPort, Worker } from 'node:worker_threads';
new Worker(new URL(${JSON.stringify(url(inner).href)})).on('message', (got) => parentPort.postMessage([seed(), got]));`);
  const got = await new Promise((resolve, reject) => new Worker(url(outer)).on('message', resolve).on('error', reject));
  assert.deepEqual(got, [String(made().seed), String(made().seed)]);
});

test('a child process has another seed, and no environment has it', () => {
  const seed = String(made().seed), code = program('console.log(seed(), JSON.stringify(process.env));');
  const printed = execFileSync(process.execPath, ['--input-type=module', '-e', code], { encoding: 'utf8', cwd: fileURLToPath(new URL('.', import.meta.url)) });
  assert.match(printed, /^\d+ /);
  assert.ok(!printed.includes(seed) && !JSON.stringify(process.env).includes(seed));
});

test('as sets', () => {
  const sets = ['', 'a', 'b', 'c', 'ab', 'ac', 'bc', 'abc'];
  for (const options of [{}, { growable: false }, { layout: 'classic' }, { kind: 'counting_bloom', fpp: 1e-4 }])
    for (const x of sets)
      for (const y of sets) {
        const f = made(x, options), g = made(y, options), all = new Set(x + y);
        const isSubset = [...x].every((key) => y.includes(key)), isSuperset = [...y].every((key) => x.includes(key));
        assert.equal(f.isSubsetOf(g), isSubset);
        assert.equal(f.isSupersetOf(g), isSuperset);
        assert.equal(f.equals(g), x === y);
        assert.equal(found(f.union(g), 'abcd'), [...'abc'].filter((key) => all.has(key)).join(''));
        if (options.kind !== 'counting_bloom') {
          assert.ok(f.union(g).equals(made([...all], options)));
          assert.equal(found(f.intersection(g), 'abcd'), [...x].filter((key) => y.includes(key)).join(''));
        }
      }
  const f = made('ab');
  assert.ok(f.union(f).equals(f) && f.intersection(f).equals(f) && f.equals(f));
});

test('other kinds', () => {
  for (const options of [{ kind: 'cuckoo' }, { window: 3 }, { kind: 'cuckoo', window: 3 }]) {
    const f = made('ab', options), g = Filter.loadSync(f.save());
    assert.ok(f.equals(g));
    g.add('c');
    assert.ok(!f.equals(g) && found(f.union(g), 'abcd') === 'abc');
    for (const call of ['intersection', 'isSubsetOf', 'isSupersetOf'])
      assert.throws(() => f[call](g), { name: 'UnsupportedError' });
    f.clear();
    assert.equal(found(f, 'abc'), '');
    assert.ok(f.equals(made([], options)));
  }
});

test('what does not fit', () => {
  const f = made('a');
  for (const call of ['union', 'intersection', 'isSubsetOf', 'isSupersetOf']) {
    for (const [name, value] of Object.entries({ seed: 5, capacity: 999, layout: 'classic', kind: 'cuckoo' }))
      assert.throws(() => f[call](made('a', { [name]: value })), { name: 'InvalidError', message: new RegExp(`^${call} takes .*${name}`) });
    assert.throws(() => f[call](made('a', { growable: false })), { name: 'InvalidError', message: /growable/ });
    for (const other of [{}, null, 5, ['a']])
      assert.throws(() => f[call](other), TypeError);
  }
  assert.ok(!f.equals(made('a', { seed: 5 })) && !f.equals(made('a', { growable: false })));
  assert.throws(() => f.equals({}), TypeError);
  const grown = made(Array.from({ length: 5000 }, (_, i) => `key ${i}`));
  assert.throws(() => grown.intersection(f), { name: 'UnsupportedError', message: /have not grown/ });
  assert.ok(!grown.isSubsetOf(f) && grown.isSupersetOf(made(['key 1'])));
  grown.clear();
  assert.ok(grown.equals(made()) && grown.stats().layers === 1);
});

test('attributes', () => {
  const given = { capacity: 1000, fpp: 0.001, kind: 'cuckoo', growable: false, maxBytes: 1e6, window: 3, windowRenews: true };
  const f = new Filter(given), g = Filter.loadSync(f.save());
  for (const [name, value] of Object.entries({ ...given, layout: null }))
    assert.ok(f[name] === value && g[name] === value, name);
  assert.equal(new Filter({ capacity: 1000, window: 3 }).layout, null);
  const h = made([], { layout: 'word', fpp: 0.01 });
  assert.deepEqual([h.kind, h.layout, h.growable, h.maxBytes, h.window, h.windowRenews], ['bloom', 'word', true, 0, 0, false]);
});

test('clear', () => {
  const f = made('abc');
  f.clear();
  assert.ok(found(f, 'abc') === '' && f.add('a') && f.has('a') && f.seed === made().seed);
  f.free();
  assert.throws(() => f.clear(), ReferenceError);
  const w = made([], { window: 2 });
  w.advanceTo(77);
  w.clear();
  w.add('a');
  w.advanceTo(77);
  assert.ok(w.has('a'), 'the window is still in period 77');
  if (!isNative)
    return;
  const g = made('a'), handle = g.handle();
  for (const h of [g, Filter.attach(handle)])
    assert.throws(() => h.clear(), { name: 'UnsupportedError', message: /others|those that have/ });
  assert.ok(g.has('a'));
});

test('text', () => {
  const f = made('ab', { capacity: 10, seed: 0 }), words = f.stats().bits / 8;
  const document = JSON.stringify({ seen: f, at: 1 }), { seen } = JSON.parse(document);
  assert.ok(f.save().length <= words + 256 && seen.length <= (words + 256) * 4 / 3 + 4);
  class Own extends Filter {}
  const g = Own.fromJSON(seen, { maxBytes: 100000 });
  assert.ok(g instanceof Own && g.equals(f) && Filter.fromJSON(seen).toJSON() === seen);
  assert.throws(() => Filter.fromJSON(seen, { maxBytes: 10 }), { name: 'FullError' });
  const large = made([], { capacity: 1e6 });
  assert.ok(Filter.fromJSON(large.toJSON()).equals(large));
  for (const bad of ['', 'A', '====', seen.slice(0, -4), `${seen}AAAA`, `${seen}\n`, `${seen.slice(0, 50)} ${seen.slice(50)}`, 'é', 'x'.repeat(100)])
    assert.throws(() => Filter.fromJSON(bad), { name: 'CorruptError' });
  for (const bad of [undefined, null, 5, new Uint8Array(8)])
    assert.throws(() => Filter.fromJSON(bad), TypeError);
});
