// SPDX-License-Identifier: MIT
// The search finds what is asked for, offline, and leads there.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { missing, withChromium } from './chromium.js';

test('search', { skip: missing }, () => withChromium(async (newPage) => {
  const page = await newPage('search.html', { viewport: { width: 360, height: 700 } });
  const found = async (words) => {
    await page.fill('#q', words);
    await page.locator('#said', { hasText: /section|Nothing/ }).waitFor();
    return page.$$eval('#found a', (links) => links.map((link) => link.getAttribute('href')));
  };
  assert.ok((await found('eviction')).includes('docs/internals/cuckoo.html#eviction'));
  assert.ok((await found('periods window remembered')).some((path) => path.startsWith('docs/use/window.html')));
  assert.equal((await found('tamis_add_unique')).some((path) => path.startsWith('man/tamis_add.3.html') || path.startsWith('docs/')), true);
  assert.ok((await found('Filter.addCopy')).includes('reference/javascript.html#Filter.addCopy'));
  assert.deepEqual(await found('xyzzyq'), []);
  assert.equal(await page.textContent('#said'), 'Nothing was found.');
  await page.fill('#q', '');
  await page.locator('#said', { hasText: 'sections of the documents' }).waitFor();
  // The address keeps the words; a result is reached by the keyboard.
  await found('eviction');
  const address = page.url();
  assert.match(address, /\?q=eviction$/);
  await page.goto('about:blank');
  await page.goto(address);
  await page.waitForSelector('#found a');
  await page.focus('#q');
  await page.keyboard.press('Tab');
  const [first] = await page.$$eval('#found a', (links) => links.map((link) => link.href));
  await Promise.all([page.waitForURL(first), page.keyboard.press('Enter')]);
}));
