// SPDX-License-Identifier: MIT
// Chromium for the tests of the site, and what all of its pages promise: no message in the console, and no request
// to anybody.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';

const modules = createRequire(join(process.env.TAMIS_NODE_MODULES ?? new URL('../../js/', import.meta.url).pathname, 'package.json'));
const chromium = process.env.TAMIS_CHROMIUM ?? '/usr/bin/chromium';
let playwright;
try {
  playwright = modules('playwright-core');
} catch {
  playwright = null;
}

/** The library that the pages are compared with, and the command, if there is one. */
export const packageAddress = process.env.TAMIS_PACKAGE ?? new URL('../../js/src/node-wasm.js', import.meta.url).href;
export const command = process.env.TAMIS_COMMAND;

/** The folder of the site. */
export const site = process.env.TAMIS_SITE ?? new URL('../../build/site', import.meta.url).pathname;

/** Why these tests cannot run; false if they can. */
export const missing = !playwright ? 'playwright-core is not installed: npm ci in js/' :
  !existsSync(chromium) ? `there is no ${chromium}` : !existsSync(join(site, 'index.html')) && `there is no site in ${site}: script/site`;
export const missingCommand = missing || (command ? false : 'TAMIS_COMMAND names no program');

/** The address of a page of the site, as a file. */
export const fileAddress = (path) => pathToFileURL(join(site, path)).href;

/** All files of the site below a folder, with an ending. */
export function filesOf(ending, folder = site) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? filesOf(ending, path) : path.endsWith(ending) ? [relative(site, path)] : [];
  }).sort();
}

const types = { html: 'text/html', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' };

/** Serves the site on loopback: { origin, close() }. */
export async function serve() {
  const server = createServer((request, response) => {
    const path = join(site, decodeURIComponent(new URL(request.url, 'http://localhost').pathname));
    if (!existsSync(path)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'content-type': types[path.split('.').pop()] ?? 'application/octet-stream' });
    response.end(readFileSync(path));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}

/** Whether a page is wider than its window. */
export const isTooWide = (page) => page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);

/** Numbers from 0 to 1, the same in every run: the generator of Numerical Recipes. */
export function generator(state) {
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
}

/**
 * Calls `work` with a function that opens a page of the site as a file, or an empty one: what it opens has no messages
 * and no requests but its own.  `script` runs before the page.
 */
export async function withChromium(work) {
  // Chromium leaves folders behind, so it has one for them.
  const folder = mkdtempSync(join(tmpdir(), 'tamis-chromium-'));
  const browser = await playwright.chromium.launch({ executablePath: chromium, args: ['--no-sandbox'],
    env: { ...process.env, TMPDIR: folder } });
  const said = [];
  try {
    await work(async (path, { script, own = 'file://', ...options } = {}) => {
      const page = await (await browser.newContext(options)).newPage();
      page.on('console', (message) => said.push(`${page.url()}: ${message.text()}`));
      page.on('pageerror', (error) => said.push(`${page.url()}: ${error}`));
      page.on('request', (request) => {
        if (!request.url().startsWith(own) && !request.url().startsWith('data:'))
          said.push(`${page.url()} asks for ${request.url()}`);
      });
      page.on('requestfailed', (request) => said.push(`${page.url()}: ${request.url()} failed`));
      if (script)
        await page.addInitScript(script);
      if (path)
        await page.goto(fileAddress(path));
      return page;
    });
    assert.deepEqual(said, [], 'no page says anything in the console, or asks anybody for anything');
  } finally {
    await browser.close();
    rmSync(folder, { recursive: true });
  }
}
