// SPDX-License-Identifier: MIT
// The package in Chromium: as it is, on a page, in workers and in a service worker; and through each bundler.
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Filter } from '../src/node-wasm.js';
import { folder, missing as notInstalled, modules, source } from './installed.js';

const chromium = process.env.TAMIS_CHROMIUM ?? '/usr/bin/chromium';
const skip = notInstalled || (existsSync(chromium) ? false : `there is no ${chromium}`);
// Chromium leaves folders behind, so it has one for them.
const temporary = mkdtempSync(join(tmpdir(), 'tamis-chromium-'));
const browser = skip ? null : await modules('playwright-core').chromium.launch({ executablePath: chromium, args: ['--no-sandbox'],
  env: { ...process.env, TMPDIR: temporary } });
after(async () => {
  await browser?.close();
  rmSync(temporary, { recursive: true, force: true });
});

const types = { js: 'text/javascript', json: 'application/json', wasm: 'application/wasm', html: 'text/html' };
const page = '<!doctype html><title>test</title><link rel="icon" href="data:,">';

/** Serves a folder on loopback.  As a server of one page does, it answers with this page for what it does not have. */
async function serve(root) {
  const server = createServer(async (request, response) => {
    const path = new URL(request.url, 'http://localhost').pathname;
    const body = await readFile(join(root, path)).catch(() => null);
    response.writeHead(200, {
      'content-type': body ? types[path.split('.').pop()] ?? 'application/octet-stream' : types.html,
      'content-security-policy': "default-src 'self' 'unsafe-inline' data: blob:; script-src 'self' 'unsafe-inline' blob: 'wasm-unsafe-eval'",
    });
    response.end(body ?? page);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** Calls `work` with an empty page of a server, and the server's address; nothing may be in the console. */
async function onPage({ origin, close }, work) {
  const context = await browser.newContext(), tab = await context.newPage(), said = [];
  tab.on('console', (message) => message.type() === 'debug' || said.push(message.text()));
  tab.on('pageerror', (error) => said.push(String(error)));
  try {
    await tab.goto(`${origin}/`);
    await work(tab, origin);
    assert.deepEqual(said, [], 'nothing is in the console');
  } finally {
    await context.close();
    await close();
  }
}

/** Runs on the page, or in the worker: what is wrong, one sentence for each. */
async function ask(origin) {
  const { Filter, info } = await import(`${origin}/js/src/wasm.js`);
  const { Reader } = await import(`${origin}/js/src/reader.js`);
  const vectors = await (await fetch(`${origin}/tests/compat/vectors/vectors.json`)).json();
  const keys = vectors.keys.split(' ').map((key) => Uint8Array.from(key.match(/../g) ?? [], (byte) => parseInt(byte, 16)));
  const hex = (bytes) => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
  const wrong = [];
  for (const [name, known] of Object.entries(vectors.filters)) {
    const response = await fetch(`${origin}/tests/compat/vectors/${name}.tamis`);
    const bytes = new Uint8Array(await response.clone().arrayBuffer());
    const filter = await Filter.load(response.body);
    const reader = await Reader.load(new Blob([bytes]));
    if (keys.map((key) => filter.count(key)).join('') !== known.counts)
      wrong.push(`${name}: counts`);
    if (keys.some((key, i) => reader.has(key) !== (known.counts[i] !== '0')))
      wrong.push(`${name}: the reader`);
    if (info(bytes).kind !== known.kind)
      wrong.push(`${name}: info`);
    if (keys.slice(-vectors.later).map((key) => Number(filter.addUnique(key))).join('') !== known.new)
      wrong.push(`${name}: adds`);
    if (hex(await crypto.subtle.digest('SHA-256', filter.save())) !== known.sha256)
      wrong.push(`${name}: save`);
    filter.free();
  }
  return { wrong, asked: Object.keys(vectors.filters).length };
}

test('on a page, and in a worker of it', { skip }, async () => onPage(await serve(join(source, '..')), async (tab, origin) => {
  const answers = await tab.evaluate(ask, origin);
  assert.deepEqual(answers.wrong, []);
  assert.ok(answers.asked >= 10);
  const inWorker = await tab.evaluate(([code, at]) => new Promise((resolve, reject) => {
    const text = `onmessage = async ({ data }) => postMessage(await (${code})(data));`;
    const worker = new Worker(URL.createObjectURL(new Blob([text], { type: 'text/javascript' })), { type: 'module' });
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = (error) => reject(new Error(error.message));
    worker.postMessage(at);
  }), [ask.toString(), origin]);
  assert.deepEqual(inWorker, answers);
  const said = await tab.evaluate((at) => import(`${at}/js/src/index.js?new`).then(({ init }) => init('/no/such.wasm')).catch(String), origin);
  assert.match(said, /^Error: .*no\/such\.wasm is no WebAssembly: give init\(\)/, 'a page in its place');
}));

test('in a service worker', { skip }, async () => {
  const root = join(folder, 'service'), list = new Filter({ capacity: 9, seed: 1 });
  list.add('apple');
  mkdirSync(root);
  cpSync(join(folder, 'node_modules/tamis'), join(root, 'tamis'), { recursive: true });
  cpSync(join(source, 'examples/browser/service-worker.js'), join(root, 'service-worker.js'));
  writeFileSync(join(root, 'list.tamis'), list.save());
  await onPage(await serve(root), async (tab) => {
    const answers = await tab.evaluate(async () => {
      const { installing } = await navigator.serviceWorker.register('service-worker.js', { type: 'module' });
      const answers = new Promise((resolve) => {
        const got = {};
        navigator.serviceWorker.onmessage = ({ data: { key, isKnown } }) => {
          got[key] = isKnown;
          if (Object.keys(got).length === 2)
            resolve(got);
        };
      });
      for (const key of ['apple', 'fig'])
        installing.postMessage(key);
      return answers;
    });
    assert.deepEqual(answers, { apple: true, fig: false });
  });
});

// ---- bundlers ----

const load = (name) => import(pathToFileURL(modules.resolve(name)).href);
const vite = (version) => import(pathToFileURL(modules.resolve(`vite-${version}/package.json`).replace('package.json', 'dist/node/index.js')).href);
const viteOptions = (root) => ({ root, base: './', logLevel: 'error', configFile: false, optimizeDeps: { exclude: ['tamis'] },
  server: { port: 0, host: '127.0.0.1', hmr: false } });

/** For each: what a worker imports and hands to init(), as docs/use/javascript.md says; and what builds OUT from IN, or serves IN. */
const bundlers = {
  esbuild: { wasm: 'tamis/tamis.wasm', build: (from, to) => modules('esbuild').build({
    entryPoints: [join(from, 'worker.js')], outdir: to, bundle: true, format: 'esm', loader: { '.wasm': 'file' }, publicPath: '/' }) },
  'esbuild, one script': { wasm: 'tamis/tamis.wasm', build: (from, to) => modules('esbuild').build({
    entryPoints: [join(from, 'worker.js')], outdir: to, bundle: true, format: 'iife', target: 'es2020', logOverride: { 'empty-import-meta': 'silent' },
    loader: { '.wasm': 'binary' } }) },
  'webpack 5': { build: (from, to) => new Promise((resolve, reject) => modules('webpack')({
    mode: 'production', context: from, entry: './worker.js', output: { path: to, filename: 'worker.js' },
  }, (error, stats) => (error || stats.hasErrors() || stats.hasWarnings() ? reject(error ?? new Error(stats.toString())) : resolve()))) },
  rollup: { init: "'/tamis.wasm'", async build(from, to) {
    const { rollup } = await load('rollup'), { nodeResolve } = await load('@rollup/plugin-node-resolve');
    const bundle = await rollup({ input: join(from, 'worker.js'), plugins: [nodeResolve({ browser: true })] });
    await bundle.write({ dir: to, format: 'es' });
    cpSync(join(folder, 'node_modules/tamis/wasm/tamis.wasm'), join(to, 'tamis.wasm'));
  } },
};
for (const version of [5, 6, 7]) {
  bundlers[`vite ${version}`] = { build: async (from, to) => (await vite(version)).build({ ...viteOptions(from),
    build: { outDir: to, rollupOptions: { input: join(from, 'worker.js'), output: { entryFileNames: '[name].js' }, preserveEntrySignatures: false } } }) };
  bundlers[`vite ${version}, its server`] = { async serve(from) {
    const server = await (await vite(version)).createServer(viteOptions(from));
    await server.listen();
    return { origin: `http://127.0.0.1:${server.httpServer.address().port}`, close: () => server.close() };
  } };
}

for (const [name, { wasm, init = wasm ? 'wasm' : '', build, serve: serveSource }] of Object.entries(bundlers))
  test(`a worker through ${name}`, { skip }, async () => {
    const from = join(folder, name.replaceAll(/\W/g, '-')), to = join(from, 'out');
    mkdirSync(to, { recursive: true });
    const text = readFileSync(join(source, 'examples/browser/worker.js'), 'utf8').replace('init()', `init(${init})`);
    writeFileSync(join(from, 'worker.js'), (wasm ? `import wasm from '${wasm}';\n` : '') + text);
    writeFileSync(join(from, 'index.html'), page);
    await build?.(from, to);
    await onPage(await (serveSource?.(from) ?? serve(to)), async (tab) => {
      const answers = await tab.evaluate(() => new Promise((resolve, reject) => {
        const worker = new Worker('/worker.js', { type: 'module' }), got = [];
        worker.onerror = (error) => reject(new Error(`worker: ${error.message}`));
        worker.onmessage = ({ data }) => got.push(data) === 3 && resolve(got);
        for (const key of ['apple', 'pear', 'apple']) // before the worker has begun
          worker.postMessage(key);
      }));
      assert.deepEqual(answers, [['apple', true], ['pear', true], ['apple', false]].map(([key, isNew]) => ({ key, isNew })));
    });
  });
