// SPDX-License-Identifier: MIT
// The page "Which filter, what size?": it says what `tamis size` says, to the byte, for a process that may use one
// core; and its code is code.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { fileAddress, missing, withChromium } from './chromium.js';
import { parseCount, parseRate } from '../src/numbers.js';

const command = process.env.TAMIS_COMMAND;
const tree = new URL('../../', import.meta.url).pathname;
const inputs = 1000;

/** The same numbers in every run: the generator of Numerical Recipes. */
let state = 7;
const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
const choice = (...values) => values[Math.floor(random() * values.length)];

const layouts = { 'Bloom, blocked': 'blocked', 'Bloom, classic': 'classic', 'Bloom, word': 'word' };

/** What is filled in, and the row that is asked about. */
function anyNeed() {
  const window = random() < 0.3 ? 1 + Math.floor(random() * 64) : 0;
  const row = window ? choice('Bloom, with a window', 'Cuckoo, with a window') : choice(...Object.keys(layouts), 'Cuckoo', 'Counting Bloom');
  // The command makes no Bloom filter that does not grow.
  const canBeFixed = window || row === 'Cuckoo';
  return {
    row, window, growth: canBeFixed ? choice('fixed', 'some', 'unknown') : choice('some', 'unknown'),
    keys: String(Math.ceil(10 ** (random() * 11))), rate: (10 ** (-0.1 - 9 * random())).toPrecision(3),
  };
}

/** The arguments of `tamis size`, written independently of the page. */
function argumentsOf({ row, window, growth, keys, rate }) {
  const kind = row.startsWith('Bloom') ? 'bloom' : row.startsWith('Counting') ? 'counting' : 'cuckoo';
  return [`--capacity=${keys}`, `--fpp=${rate}`, `--kind=${kind}`, ...(layouts[row] ? [`--layout=${layouts[row]}`] : []),
    ...(window ? [`--window=${window}`] : []), ...(growth === 'fixed' && (window || kind === 'cuckoo') ? ['--fixed'] : [])];
}

/** What the command prints for each: one process for all, which starts the others. */
async function printed(all) {
  const script = all.map((need) => `"$0" size ${argumentsOf(need).join(' ')} 2>&1; echo "status $?"`).join('\n');
  const { stdout } = await promisify(execFile)('taskset', ['-c', '0', 'sh', '-c', script, command], { maxBuffer: 2 ** 26 });
  return stdout.split(/status \d+\n/).slice(0, -1);
}

/** Runs on the page: fills the form in, and reads the bytes of a row of the table; '' if there is no such filter. */
function bytesOnPage(all) {
  const { elements } = document.getElementById('need');
  return all.map(({ row, window, growth, keys, rate }) => {
    Object.assign(elements.keys, { value: keys });
    Object.assign(elements.rate, { value: rate });
    elements.growth.value = growth;
    elements.expires.checked = window > 0;
    elements.window.value = window || 12;
    elements.rate.dispatchEvent(new Event('input', { bubbles: true }));
    return document.querySelector(`#all input[value="${row}"]`).closest('tr').dataset.bytes;
  });
}

test('the page and the command say the same', { skip: missing || (command ? false : 'TAMIS_COMMAND names no program') }, () => withChromium(async (newPage) => {
  const page = await newPage();
  await page.goto(fileAddress('planner.html'));
  await page.waitForSelector('#answer[data-bytes]');
  const all = Array.from({ length: inputs }, anyNeed);
  const [shown, texts] = await Promise.all([page.evaluate(bytesOnPage, all), printed(all)]);
  let planned = 0;
  texts.forEach((text, i) => {
    const bytes = /^bytes +(\d+)/m.exec(text)?.[1] ?? '';
    assert.equal(shown[i], bytes, `${JSON.stringify(all[i])}: ${text}`);
    planned += bytes !== '';
  });
  assert.ok(planned > inputs / 2, `${planned} of ${inputs} were planned`);
}));

// ---- the advice, and the code ----

const needs = [
  { expect: 'Bloom, blocked, of a fixed size', growth: 'fixed' },
  { expect: 'Bloom, blocked, growing', growth: 'some' },
  { expect: 'Cuckoo, growing', growth: 'unknown' },
  { expect: 'Cuckoo, of a fixed size', growth: 'fixed', removes: true },
  { expect: 'Bloom, with a window, growing', growth: 'some', window: 6, renews: true },
  { expect: 'Cuckoo, with a window, of a fixed size', growth: 'fixed', window: 6, removes: true },
  { expect: 'Bloom, blocked, growing', growth: 'some', users: 'processes' },
  { expect: 'Bloom, with a window, of a fixed size', growth: 'unknown', window: 3, users: 'processes' },
  { expect: 'Bloom, word, growing (your choice)', growth: 'some', row: 'Bloom, word' },
  { expect: 'Counting Bloom, growing (your choice)', growth: 'some', row: 'Counting Bloom', removes: true },
];

/** Runs on the page: what it says to a need. */
function answerOnPage({ growth, removes = false, window = 0, renews = false, users = 'threads', row }) {
  const { elements } = document.getElementById('need');
  elements.keys.value = '20k';
  elements.rate.value = '1 in 1000';
  elements.growth.value = growth;
  elements.users.value = users;
  elements.removes.checked = removes;
  elements.expires.checked = window > 0;
  elements.window.value = window || 12;
  elements.renews.checked = renews;
  elements.rate.dispatchEvent(new Event('input', { bubbles: true }));
  if (row)
    document.querySelector(`#all input[value="${row}"]`).click();
  const texts = {};
  for (const tab of document.querySelectorAll('#tabs button')) {
    tab.click();
    texts[tab.textContent] = document.getElementById('code').textContent;
  }
  return { kind: document.getElementById('kind').textContent, bytes: Number(document.getElementById('answer').dataset.bytes), texts };
}

/** A program of C or C++ around the lines; the directives come first. */
function program(text, before) {
  const lines = text.split('\n');
  const include = lines.filter((line) => line.startsWith('#include'));
  return [...include, ...before, ...lines.filter((line) => !line.startsWith('#include')).map((line) => `  ${line}`), '  return 0;', '}', ''].join('\n');
}

test('advice and code', { skip: missing || (command ? false : 'TAMIS_COMMAND names no program') }, () => withChromium(async (newPage) => {
  const page = await newPage();
  await page.goto(fileAddress('planner.html'));
  const folder = mkdtempSync(join(tmpdir(), 'tamis-site-'));
  try {
    writeFileSync(join(folder, 'keys.txt'), 'a\nb\n');
    writeFileSync(join(folder, 'lines.txt'), 'a\nc\n');
    for (const [i, need] of needs.entries()) {
      const { kind, bytes, texts } = await page.evaluate(answerOnPage, need);
      assert.equal(kind, need.expect);
      writeFileSync(join(folder, `${i}.c`), program(texts.C, ['#include <stdio.h>', 'int use(const void *key, size_t len);', 'int use(const void *key, size_t len)', '{']));
      writeFileSync(join(folder, `${i}.cpp`), program(texts['C++'], ['#include <cstdio>', 'int use(std::string_view key);', 'int use(std::string_view key)', '{']));
      writeFileSync(join(folder, `${i}.py`), texts.Python);
      // JavaScript makes the filter that was planned.
      const { Filter } = await import(process.env.TAMIS_PACKAGE ?? new URL('../../js/src/node-wasm.js', import.meta.url).href);
      const made = new Function('Filter', 'key', 'console', `${texts.JavaScript.replace(/^import.*$/m, '')}\nreturn filter;`)(Filter, 'a key', { log() {} });
      const { fpp, capacity } = made.stats();
      assert.deepEqual([capacity, fpp], [20000, 0.001]);
      // The command computes what the page says, unless it cannot make that filter.
      const lines = texts.Command.split('\n').filter((line) => !line.startsWith('#'));
      const says = execFileSync('taskset', ['-c', '0', 'sh', '-ec', lines.join('\n').replaceAll(/^tamis /gm, '"$0" '), command], { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
      if (!texts.Command.startsWith('#'))
        assert.equal(Number(/^bytes +(\d+)/m.exec(says)[1]), bytes, texts.Command);
      assert.match(texts.Redis, need.row === 'Counting Bloom' ? /^#/ : /^(#.*\n)*(BF\.RESERVE seen 0\.001 20000|CF\.RESERVE seen 20000( EXPANSION 0)? ERROR 0\.001)( NONSCALING)?( WINDOW \d+ EVERY 60000( RENEWS)?)?\n/);
    }
    const sources = (ending) => needs.map((_, i) => join(folder, `${i}.${ending}`));
    const strict = ['-fsyntax-only', '-Wall', '-Wextra', '-Wno-unused-parameter', '-Werror', `-I${tree}include`];
    execFileSync(process.env.TAMIS_CC ?? 'cc', ['-std=c11', ...strict, ...sources('c')], { stdio: 'pipe' });
    if (process.env.TAMIS_CXX)
      execFileSync(process.env.TAMIS_CXX, ['-std=c++17', ...strict, ...sources('cpp')], { stdio: 'pipe' });
    execFileSync('python3', ['-c', 'import ast, sys\nfor name in sys.argv[1:]: ast.parse(open(name).read())', ...sources('py')], { stdio: 'pipe' });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}));

test('the address keeps what was asked, and a bad number says so', { skip: missing }, () => withChromium(async (newPage) => {
  const page = await newPage();
  await page.goto(fileAddress('planner.html'));
  await page.fill('#keys', 'many');
  assert.match(await page.textContent('#keys-wrong'), /whole number/);
  await page.fill('#keys', '5M');
  assert.equal(await page.textContent('#keys-wrong'), '');
  await page.selectOption('#growth', 'unknown');
  const address = page.url();
  const shown = await page.textContent('#bytes');
  await page.goto('about:blank');
  await page.goto(address);
  await page.waitForSelector('#answer[data-bytes]');
  assert.equal(await page.textContent('#bytes'), shown);
  await page.focus('#tabs [aria-selected=true]');
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.getAttribute('#tab-C\\+\\+', 'aria-selected'), 'true');
  await page.waitForSelector('#curve svg path.line');
}));

test('numbers as people write them', () => {
  const counts = { '250000': 250000, '10M': 1e7, '1.5k': 1500, '1e9': 1e9, '10^9': 1e9, '1,000,000': 1e6, '1 000': 1000, '2_000': 2000, '3G': 3e9 };
  for (const [text, value] of Object.entries(counts))
    assert.equal(parseCount(text), value, text);
  for (const text of ['', '0', '-1', '1.5', 'x', '1e20', '1M2'])
    assert.equal(parseCount(text), null, text);
  const rates = { '0.01': 0.01, '1 %': 0.01, '.5': 0.5, '1e-6': 1e-6, '1 in 1000': 0.001, '1/1M': 1e-6, '2 in 1,000': 0.002 };
  for (const [text, value] of Object.entries(rates))
    assert.equal(parseRate(text), value, text);
  for (const text of ['', '0', '1', '100 %', 'x', '-0.1', '3 in 2'])
    assert.equal(parseRate(text), null, text);
});
