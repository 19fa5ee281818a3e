// SPDX-License-Identifier: MIT
// All pages in Chromium, as files and from a server: on a phone and on a large screen, in the light and in the dark.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileAddress, filesOf, isTooWide, missing, serve, withChromium } from './chromium.js';

const tools = ['index.html', 'planner.html', 'file.html', 'watch.html', 'search.html', 'docs/use/choosing.html', 'docs/index.html',
  'docs/reference/performance.html', 'reference/index.html'].filter((path) => !missing && filesOf('.html').includes(path));

test('each page fits its window, and is silent', { skip: missing }, () => withChromium(async (newPage) => {
  const wrong = [];
  for (const [width, paths] of [[360, filesOf('.html')], [1400, tools]]) {
    const page = await newPage(null, { viewport: { width, height: 800 } });
    for (const path of paths) {
      await page.goto(fileAddress(path));
      if (await isTooWide(page))
        wrong.push(`${path} at ${width}`);
    }
  }
  assert.deepEqual(wrong, [], 'pages that are wider than the window');
}));

test('by the keyboard', { skip: missing }, () => withChromium(async (newPage) => {
  const page = await newPage();
  for (const path of tools) {
    await page.goto(fileAddress(path));
    await page.keyboard.press('Tab');
    assert.equal(await page.evaluate(() => document.activeElement.className), 'skip', `${path}: the first stop leads to the content`);
    await page.keyboard.press('Enter');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'main', path);
    // Whatever can be used can be reached, and has a name.
    const nameless = await page.evaluate(() => [...document.querySelectorAll('a, button, input, select, textarea, summary')]
      .filter((element) => element.checkVisibility() && !element.disabled)
      .filter((element) => !(element.getAttribute('aria-label') || element.getAttribute('aria-labelledby') || element.labels?.length || element.textContent.trim()))
      .map((element) => element.outerHTML));
    assert.deepEqual(nameless, [], path);
  }
}));

test('from a server', { skip: missing }, async () => {
  const server = await serve();
  try {
    await withChromium(async (newPage) => {
      const page = await newPage(null, { colorScheme: 'dark', own: server.origin });
      for (const path of tools) {
        await page.goto(`${server.origin}/${path}`);
        assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(253, 252, 250)', 'it is dark');
      }
      await page.goto(`${server.origin}/planner.html#keys=5&rate=0.5`);
      await page.locator('#bytes', { hasText: 'bytes' }).waitFor();
    });
  } finally {
    server.close();
  }
});
