// SPDX-License-Identifier: MIT
// init(): what it takes, and what is said before it, and of what is no WebAssembly.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Filter as FilterInNode, init as initInNode } from '../src/node-wasm.js';

const bytes = readFileSync(new URL('../wasm/tamis.wasm', import.meta.url)), ofReader = readFileSync(new URL('../wasm/reader.wasm', import.meta.url));
const saved = new FilterInNode({ capacity: 9 }).save();
let made = 0;
const fresh = (name = 'index') => import(`../src/${name}.js?${++made}`);
const works = ({ Filter, version }) => new Filter({ capacity: 9 }).add('x') && /^\d/.test(version);

test('what init() takes', async () => {
  const module = new WebAssembly.Module(bytes), { buffer, byteOffset, byteLength } = bytes;
  for (const from of [module, Promise.resolve(module), bytes, buffer.slice(byteOffset, byteOffset + byteLength), new Response(bytes),
    Promise.resolve(new Response(bytes)), `data:application/wasm;base64,${bytes.toString('base64')}`,
    new URL(`data:application/wasm;base64,${bytes.toString('base64')}`)]) {
    const tamis = await fresh();
    await Promise.all([tamis.init(from), tamis.init()]);
    assert.ok(works(tamis));
    const f = new tamis.Filter({ capacity: 9 });
    tamis.initSync(module);
    await tamis.init('of no use any more');
    assert.ok(f.add('x'), 'a second one changes nothing');
  }
  for (const from of [module, bytes]) {
    const tamis = await fresh();
    const later = tamis.init(Promise.resolve(from));
    tamis.initSync(from);
    const f = new tamis.Filter({ capacity: 9 });
    await later;
    assert.ok(works(tamis) && f.add('x') && f.has('x'));
  }
  await initInNode();
  const { init, Reader } = await fresh('reader');
  await init(ofReader);
  assert.equal(Reader.loadSync(saved).has('x'), false);
});

test('before init(), and after one that has failed', async () => {
  const tamis = await fresh(), { Reader } = await fresh('reader');
  for (const call of [() => new tamis.Filter({ capacity: 9 }), () => tamis.Filter.loadSync(saved), () => tamis.info(saved),
    () => tamis.bytesFor({ capacity: 9 }), () => Reader.loadSync(saved)])
    assert.throws(call, /^Error: the WebAssembly is not there yet: await init\(\) first/);
  assert.equal(tamis.version, undefined);
  const response = (text, status) => Object.defineProperty(new Response(text, { status }), 'url', { value: 'http://x/y.wasm' });
  for (const [from, said] of [[response('<!doctype html>', 200), /^Error: http:\/\/x\/y\.wasm is no WebAssembly: give init\(\)/],
    [response('', 404), /^Error: http:\/\/x\/y\.wasm answers 404: give init\(\)/], [5, /^TypeError: give init\(\)/],
    [new Uint8Array(4), /is no WebAssembly/], [bytes.subarray(0, 1000), WebAssembly.CompileError], [undefined, /cannot be fetched .*give init\(\)/]])
    await assert.rejects(tamis.init(from), said);
  await assert.rejects(tamis.Filter.load(saved), /cannot be fetched/, 'load() begins by itself');
  await tamis.init(bytes);
  assert.ok(works(tamis) && await tamis.Filter.load(saved));
});
