// SPDX-License-Identifier: MIT
// The package as it is, without a bundler, in Chromium: on a page, and in a worker of it.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const modules = createRequire(new URL(process.env.TAMIS_NODE_MODULES ?? '../', import.meta.url));
const chromium = process.env.TAMIS_CHROMIUM ?? '/usr/bin/chromium';
let playwright;
try {
  playwright = modules('playwright-core');
} catch {
  playwright = null;
}
const missing = !playwright ? 'playwright-core is not installed: npm ci' : !existsSync(chromium) && `there is no ${chromium}`;

const types = { js: 'text/javascript', json: 'application/json', wasm: 'application/wasm', html: 'text/html' };
const tree = new URL('../../', import.meta.url);

/** Serves the tree on loopback; a folder's page is empty. */
async function serve() {
  const server = createServer(async (request, response) => {
    const path = new URL(request.url, 'http://localhost').pathname;
    const empty = path.endsWith('/') ? '<!doctype html><title>test</title><link rel="icon" href="data:,">' : null;
    try {
      const body = empty ?? (await readFile(new URL(`.${path}`, tree)));
      response.writeHead(200, {
        'content-type': empty ? types.html : types[path.split('.').pop()] ?? 'application/octet-stream',
        'content-security-policy': "default-src 'self' 'unsafe-inline' data: blob:; script-src 'self' 'unsafe-inline' blob: 'wasm-unsafe-eval'",
      });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

/** Runs on the page, or in the worker: what is wrong, one sentence for each. */
async function ask(origin) {
  const { Filter, info } = await import(`${origin}/js/src/index.js`);
  const { Reader } = await import(`${origin}/js/src/reader.js`);
  const vectors = await (await fetch(`${origin}/tests/vectors/vectors.json`)).json();
  const keys = vectors.keys.map((key) => Uint8Array.from(key.match(/../g) ?? [], (byte) => parseInt(byte, 16)));
  const hex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
  const wrong = [];
  for (const [name, known] of Object.entries(vectors.filters)) {
    const response = await fetch(`${origin}/tests/vectors/${name}.tamis`);
    const bytes = new Uint8Array(await response.clone().arrayBuffer());
    const filter = await Filter.load(response.body);
    const reader = await Reader.load(new Blob([bytes]));
    if (keys.map((key) => filter.count(key)).join('') !== known.counts)
      wrong.push(`${name}: counts`);
    if (keys.some((key, i) => reader.has(key) !== (known.counts[i] !== '0')))
      wrong.push(`${name}: the reader`);
    if (info(bytes).kind !== known.kind)
      wrong.push(`${name}: info`);
    if (keys.slice(-vectors.later).map((key) => Number(filter.add(key))).join('') !== known.new)
      wrong.push(`${name}: adds`);
    if (hex(await crypto.subtle.digest('SHA-256', filter.save())) !== known.sha256)
      wrong.push(`${name}: save`);
    filter.free();
  }
  return { wrong, asked: Object.keys(vectors.filters).length };
}

test('in Chromium', { skip: missing || false }, async () => {
  const server = await serve();
  const origin = `http://127.0.0.1:${server.address().port}`;
  const browser = await playwright.chromium.launch({ executablePath: chromium, args: ['--no-sandbox'] });
  try {
    const page = await browser.newPage();
    const said = [];
    page.on('console', (message) => said.push(message.text()));
    page.on('pageerror', (error) => said.push(String(error)));
    await page.goto(`${origin}/`);
    const onPage = await page.evaluate(ask, origin);
    assert.deepEqual(onPage.wrong, []);
    assert.ok(onPage.asked >= 10);
    const inWorker = await page.evaluate(([code, at]) => new Promise((resolve, reject) => {
      const text = `onmessage = async ({ data }) => postMessage(await (${code})(data));`;
      const worker = new Worker(URL.createObjectURL(new Blob([text], { type: 'text/javascript' })), { type: 'module' });
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (error) => reject(new Error(error.message));
      worker.postMessage(at);
    }), [ask.toString(), origin]);
    assert.deepEqual(inWorker, onPage);
    assert.deepEqual(said, [], 'nothing is in the console');
  } finally {
    await browser.close();
    server.close();
  }
});
