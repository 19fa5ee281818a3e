// SPDX-License-Identifier: MIT
// Each link of each page leads to a page that is there, and to a place that is in it; nothing comes from elsewhere.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join, posix } from 'node:path';
import { test } from 'node:test';
import { filesOf, missing, site } from './chromium.js';

const decoded = (text) => text.replace(/&(amp|lt|gt|quot|#\d+);/g, (_all, name) =>
  ({ amp: '&', lt: '<', gt: '>', quot: '"' })[name] ?? String.fromCodePoint(Number(name.slice(1))));

/** What is wrong with the links of a page; `idsOf` says which places another page has. */
function faultsOf(path, html, idsOf) {
  const wrong = [];
  for (const [, name, value] of html.matchAll(/<[a-z][^>]*?\s(href|src|action)="([^"]*)"/g)) {
    const target = decoded(value);
    if (/^https?:/.test(target) && name === 'href' && !html.includes(`<link rel="stylesheet" href="${value}"`))
      continue;
    if (/^[a-z]+:/i.test(target)) {
      wrong.push(`${path}: ${name} ${target}`);
      continue;
    }
    const [file, anchor] = target.split('#');
    const to = file ? posix.normalize(posix.join(posix.dirname(path), decodeURIComponent(file.split('?')[0]))) : path;
    if (to.startsWith('..') || !existsSync(join(site, to)) || statSync(join(site, to)).isDirectory())
      wrong.push(`${path}: ${target} is not there`);
    else if (anchor && to.endsWith('.html') && name === 'href' && !idsOf(to).has(decodeURIComponent(anchor)))
      wrong.push(`${path}: ${target} has no such place`);
  }
  return wrong;
}

const idsIn = (html) => [...html.matchAll(/\sid="([^"]*)"/g)].map(([, id]) => decoded(id));

test('links', { skip: missing }, () => {
  const pages = new Map(filesOf('.html').map((path) => [path, readFileSync(join(site, path), 'utf8')]));
  const ids = new Map([...pages].map(([path, html]) => [path, new Set(idsIn(html))]));
  const idsOf = (path) => ids.get(path);
  const broken = '<a href="no.html">x</a><a href="index.html#no-such-place">x</a><img src="https://example.org/x.png"><a href="index.html#main">x</a>';
  assert.equal(faultsOf('broken.html', broken, idsOf).length, 3, 'a page with three faults has three');
  assert.deepEqual([...pages].flatMap(([path, html]) => faultsOf(path, html, idsOf)), []);
  assert.ok(pages.size > 80, `${pages.size} pages`);
});

test('the front page says what tamis is, and then shows the tools', { skip: missing }, () => {
  assert.match(readFileSync(join(site, 'index.html'), 'utf8'), /<\/h1>\s*<p>(?:(?!<h2).)*have I seen this key.*?<\/p>\s*<section class="tools"/s);
});

test('each page has a name, one heading and places of one name', { skip: missing }, () => {
  const wrong = [];
  for (const path of filesOf('.html')) {
    const html = readFileSync(join(site, path), 'utf8');
    if (!/<html lang="en">/.test(html) || !/<title>[^<]+<\/title>/.test(html) || !/<main id="main"/.test(html))
      wrong.push(`${path}: language, title or main part`);
    if (html.match(/<h1[\s>]/g)?.length !== 1)
      wrong.push(`${path}: headings`);
    const ids = idsIn(html);
    if (new Set(ids).size !== ids.length)
      wrong.push(`${path}: two places have one name: ${ids.filter((id, i) => ids.indexOf(id) !== i)}`);
    if (/\sstyle="|<style|<script(?! defer src="(?:\.\.\/)*assets\/)|\son[a-z]+="/.test(html.replace(/<pre.*?<\/pre>/gs, '')))
      wrong.push(`${path}: a style or a script in the page`);
  }
  assert.deepEqual(wrong, []);
});

/** The contrast of two colours, by the formula of WCAG 2. */
function contrast(one, other) {
  const [a, b] = [one, other].map((colour) => {
    const [r, g, blue] = colour.match(/[0-9a-f]{2}/gi).map((part) => {
      const value = parseInt(part, 16) / 255;
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * blue;
  });
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}

test('colours', { skip: missing }, () => {
  const schemes = [...readFileSync(join(site, 'assets/style.css'), 'utf8').matchAll(/:root \{(.*?)\}/gs)]
    .map(([, body]) => Object.fromEntries([...body.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, value]) => [name, value])));
  assert.equal(schemes.length, 2, 'light and dark');
  for (const colours of schemes) {
    const pairs = ['text', 'soft', 'accent', 'bad'].flatMap((name) => ['ground', 'raised', 'accent-ground'].map((ground) => [name, ground]));
    for (const [name, ground] of pairs)
      assert.ok(contrast(colours[name], colours[ground]) >= 4.5, `${name} on ${ground}: ${contrast(colours[name], colours[ground]).toFixed(2)}`);
    for (const line of ['blocked', 'classic', 'word', 'cuckoo', 'counting_bloom', 'formula'])
      assert.ok(contrast(colours[line], colours.ground) >= 3, `the line of ${line}: ${contrast(colours[line], colours.ground).toFixed(2)}`);
  }
});
