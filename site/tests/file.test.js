// SPDX-License-Identifier: MIT
// The page "Open a saved filter": its answers are those of the library, and of a large file it reads slices only.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { command, isTooWide, missing, missingCommand, withChromium } from './chromium.js';

const folder = new URL('../../tests/compat/vectors/', import.meta.url).pathname;

/** Runs before the page: counts the bytes that are read of files, and refuses to read one as a whole. */
function countBytes() {
  globalThis.bytesRead = 0;
  globalThis.parts = new WeakSet();
  const { slice } = Blob.prototype;
  Blob.prototype.slice = function (...range) {
    const part = slice.apply(this, range);
    globalThis.parts.add(part);
    return part;
  };
  for (const name of ['arrayBuffer', 'stream', 'text', 'bytes']) {
    const read = Blob.prototype[name];
    Blob.prototype[name] = function () {
      if (!globalThis.parts.has(this))
        throw new Error('a file is read as a whole');
      globalThis.bytesRead += this.size;
      return read.call(this);
    };
  }
}

async function openFile(page, path) {
  await page.setInputFiles('#file', path);
  await page.waitForSelector('#opened:not([hidden])', { timeout: 120000 });
  assert.equal(await page.textContent('#name'), basename(path));
}

async function ask(page, text, form) {
  await page.fill('#asked', text);
  await page.selectOption('#form', form);
  await page.click('#ask button');
  await page.locator('#asking', { hasText: 'answer' }).waitFor();
  return page.$$eval('#answers tbody tr', (rows) => rows.map((row) => Number(row.dataset.copies)));
}

test('its answers', { skip: missing }, () => withChromium(async (newPage) => {
  const page = await newPage('file.html', { script: countBytes });
  const vectors = JSON.parse(readFileSync(join(folder, 'vectors.json'), 'utf8'));
  // Some of them, as the test of the reader asks all.
  const some = vectors.keys.split(' ').map((key, i) => [key, i]).filter(([key], i) => key && i % 6 === 1);
  const keys = some.map(([key]) => key);
  const countsIn = (known) => some.map(([, i]) => Number(known.counts[i]));
  for (const [name, known] of Object.entries(vectors.filters)) {
    await openFile(page, join(folder, `${name}.tamis`));
    assert.deepEqual(await ask(page, keys.join('\n'), 'hex'), countsIn(known), name);
  }
  const texts = keys.map((key) => Buffer.from(key, 'hex').toString('utf8'));
  const last = Object.values(vectors.filters).at(-1);
  assert.deepEqual(await ask(page, texts.join('\n'), 'text'), countsIn(last), 'as text');
}));

test('what is no filter', { skip: missing }, () => withChromium(async (newPage) => {
  const page = await newPage('file.html');
  const bytes = readFileSync(join(folder, '../saved/1/bloom-blocked.tamis')); // which is not packed
  const damaged = Buffer.from(bytes);
  damaged[100] ^= 1; // a figure, which nothing but the sum covers
  const counted = readFileSync(join(folder, '../saved/1/counted.tamis'));
  for (const [buffer, says] of [[counted, /cuckoo filter that processes share/], [Buffer.from('no filter'), /too short/], [Buffer.alloc(600), /not a saved filter/], [bytes.subarray(0, 4000), /damaged/], [damaged, /damaged/]]) {
    await page.setInputFiles('#file', { name: 'x.tamis', mimeType: 'application/octet-stream', buffer });
    await page.locator('#problem', { hasText: says }).waitFor();
    assert.equal(await page.isVisible('#opened'), false);
  }
  // Whoever reads all of it finds any damage.
  damaged[100] ^= 1, damaged[4200] ^= 1;
  await page.setInputFiles('#file', { name: 'x.tamis', mimeType: 'application/octet-stream', buffer: damaged });
  await page.waitForSelector('#opened:not([hidden])');
  await page.click('#check');
  await page.locator('#checked', { hasText: /refuses the file/ }).waitFor();
}));

test('of a large file, slices', { skip: missingCommand }, () => withChromium(async (newPage) => {
  const page = await newPage('file.html', { script: countBytes });
  const place = mkdtempSync(join(process.env.TAMIS_LARGE ?? tmpdir(), 'tamis-site-'));
  const keys = join(place, 'keys.txt');
  // A filter that grows is saved without its empty parts, so it needs keys to be large.
  writeFileSync(keys, Array.from({ length: process.env.TAMIS_LONG ? 50000 : 1000 }, (_, i) => `key ${i}\n`).join(''));
  // Of a filter that grows, the heads of all segments are read, too.
  const bits = process.env.TAMIS_LONG ? 1e9 * 8 : 48e6 * 8;
  const kinds = [['bloom', bits / 11.6, 0], ['cuckoo', bits / 20, 1 / 200], ['cuckoo --fixed', bits / 13.5, 0]];
  try {
    for (const [kind, capacity, part] of kinds) {
      const path = join(place, `${kind}.tamis`);
      const fpp = kind === 'cuckoo' ? '1e-6' : '0.01';
      execFileSync(command, ['build', '--seed=5', `--capacity=${Math.round(capacity)}`, `--fpp=${fpp}`, ...`--kind ${kind}`.split(' '), keys, '-o', path], { stdio: 'pipe' });
      const { size } = statSync(path);
      assert.ok(size > bits / 8 * 0.5, `${kind}: ${size} bytes`);
      await page.evaluate(() => {
        globalThis.bytesRead = 0;
      });
      await openFile(page, path);
      assert.match(await page.textContent('#figures'), kind === 'bloom' ? /Bloom filter/ : /Cuckoo filter/);
      const answers = await ask(page, 'key 0\nkey 999\nabsent 1\nabsent 2', 'text');
      assert.deepEqual(answers, [1, 1, 0, 0], kind);
      const read = await page.evaluate(() => globalThis.bytesRead);
      assert.ok(read > 1000 && read < 2.5e6 + part * size, `${kind}: ${read} of ${size} bytes were read`);
      rmSync(path);
    }
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}));

test('by the keyboard', { skip: missing }, () => withChromium(async (newPage) => {
  const page = await newPage('file.html', { viewport: { width: 360, height: 700 } });
  for (const kind of ['bloom', 'cuckoo', 'window']) {
    await page.focus(`[data-example=${kind}]`);
    await page.keyboard.press('Enter');
    await page.locator('#name', { hasText: kind === 'bloom' ? 'Bloom' : kind }).waitFor();
    await page.focus('#asked');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.locator('#asking', { hasText: '4 answers' }).waitFor();
    assert.equal(await isTooWide(page), false, kind);
    assert.match(await page.textContent('#answers'), /key 19999.*present, or a false positive/);
  }
}));
