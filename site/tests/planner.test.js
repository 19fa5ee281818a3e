// SPDX-License-Identifier: MIT
// The page "Choose a filter": it says what `tamis size` says, to the byte, for a process that may use one
// core; and its code is code.
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { command, generator, missing, missingCommand, packageAddress, withChromium } from './chromium.js';
import { parseCount, parseRate } from '../src/numbers.js';

const tree = new URL('../../', import.meta.url).pathname;
const inputs = 1000;
const random = generator(7);
const choice = (...values) => values[Math.floor(random() * values.length)];

const layouts = { 'Blocked Bloom filter': 'blocked', 'Classic Bloom filter': 'classic', 'Word Bloom filter': 'word' };

/** What is filled in, and the row that is asked about. */
function anyNeed() {
  const window = random() < 0.3 ? 1 + Math.floor(random() * 64) : 0;
  const row = window ? choice('Bloom window', 'Cuckoo window') : choice(...Object.keys(layouts), 'Cuckoo filter', 'Counting Bloom filter');
  // The command makes no Bloom filter that does not grow.
  const canBeFixed = window || row === 'Cuckoo filter';
  return {
    row, window, growth: canBeFixed ? choice('fixed', 'some', 'unknown') : choice('some', 'unknown'), users: choice('threads', 'processes'),
    keys: String(Math.ceil(10 ** (random() * 11))), rate: (10 ** (-0.1 - 9 * random())).toPrecision(3),
  };
}

/** The arguments of `tamis size`, written independently of the page. */
function argumentsOf({ row, window, growth, users, keys, rate }) {
  const size = [`--capacity=${keys}`, `--fpp=${rate}`];
  if (users === 'processes' && row === 'Cuckoo filter')
    return [...size, '--window=4', '--fixed']; // docs/use/shared.md, "Removes and counts"
  const kind = row.startsWith('Counting') ? 'counting' : row.startsWith('Cuckoo') ? 'cuckoo' : 'bloom';
  return [...size, `--kind=${kind}`, ...(layouts[row] ? [`--layout=${layouts[row]}`] : []),
    ...(window ? [`--window=${window}`] : []), ...((growth === 'fixed' || users === 'processes') && (window || kind === 'cuckoo') ? ['--fixed'] : [])];
}

/** What the command prints for each: one process for all, which starts the others. */
async function printed(all) {
  const script = all.map((need) => `"$0" size ${argumentsOf(need).join(' ')} 2>&1; echo "status $?"`).join('\n');
  const { stdout } = await promisify(execFile)('taskset', ['-c', '0', 'sh', '-c', script, command], { maxBuffer: 2 ** 26 });
  return stdout.split(/status \d+\n/).slice(0, -1);
}

/** Calls `work` with the page, when it has an answer. */
const withPlanner = (work) => withChromium(async (newPage) => {
  const page = await newPage('planner.html');
  await page.waitForSelector('#answer[data-bytes]');
  await work(page);
});

/** Runs on the page: fills the form in, and reads the bytes of a row of the table; '' if there is no such filter. */
function bytesOnPage(all) {
  const { elements } = document.getElementById('need');
  return all.map(({ row, window, growth, users, keys, rate }) => {
    for (const [name, value] of Object.entries({ growth, users, keys, rate }))
      elements[name].value = value;
    elements.expires.checked = window > 0;
    elements.window.value = window || 12;
    elements.rate.dispatchEvent(new Event('input', { bubbles: true }));
    return document.querySelector(`#all input[value="${row}"]`).closest('tr').dataset.bytes;
  });
}

test('the page and the command say the same', { skip: missingCommand }, () => withPlanner(async (page) => {
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
  { expect: 'Blocked Bloom filter, of fixed size', growth: 'fixed' },
  { expect: 'Blocked Bloom filter, growing', growth: 'some' },
  { expect: 'Cuckoo filter, growing', growth: 'unknown' },
  { expect: 'Cuckoo filter, of fixed size', growth: 'fixed', removes: true },
  { expect: 'Bloom window, growing', growth: 'some', window: 6, renews: true },
  { expect: 'Cuckoo window, of fixed size', growth: 'fixed', window: 6, removes: true },
  { expect: 'Blocked Bloom filter, growing', growth: 'some', users: 'processes' },
  { expect: 'Bloom window, of fixed size', growth: 'unknown', window: 3, users: 'processes' },
  { expect: 'Cuckoo filter, of fixed size', growth: 'fixed', removes: true, users: 'processes' },
  { expect: 'Cuckoo filter, of fixed size', growth: 'some', removes: true, users: 'processes' },
  { expect: 'Classic Bloom filter, growing', growth: 'some', users: 'machines' },
  { expect: 'Word Bloom filter, growing (your choice)', growth: 'some', row: 'Word Bloom filter' },
  { expect: 'Counting Bloom filter, growing (your choice)', growth: 'some', row: 'Counting Bloom filter', removes: true },
];

/** Runs on the page: what it says to a need. */
function answerOnPage({ growth, removes = false, window = 0, renews = false, users = 'threads', keys = '20k', rate = '1 in 1000', row }) {
  const { elements } = document.getElementById('need');
  elements.keys.value = keys;
  elements.rate.value = rate;
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
  return {
    kind: document.getElementById('kind').textContent, bytes: Number(document.getElementById('answer').dataset.bytes), texts,
    reasons: [...document.querySelectorAll('#reasons li')].map((item) => item.textContent),
    notes: Object.fromEntries([...document.querySelectorAll('#all tbody tr')].map((line) => [line.cells[0].textContent.trim(), line.cells[4].textContent])),
  };
}

/** A program of C or C++ around the lines; the directives come first. */
function program(text, before) {
  const lines = text.split('\n');
  const include = lines.filter((line) => line.startsWith('#include'));
  return [...include, ...before, ...lines.filter((line) => !line.startsWith('#include')).map((line) => `  ${line}`), '  return 0;', '}', ''].join('\n');
}

test('advice and code', { skip: missingCommand }, () => withPlanner(async (page) => {
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
      // JavaScript makes the filter that was planned, and a shared one by the addon, if that was built.
      const shared = texts.JavaScript.includes('Filter.shared');
      const { Filter } = await import(shared ? packageAddress.replace('node-wasm.js', 'native.js') : packageAddress).catch((error) => shared ? {} : Promise.reject(error));
      if (Filter) {
        const text = texts.JavaScript.replace(/^import.*$/m, '').replace('/dev/shm/seen.tamis', join(folder, `${i}.tamis`));
        const made = new Function('Filter', 'key', 'console', `${text}\nreturn filter;`)(Filter, 'a key', { log() {} });
        for (let n = made.stats().count; n < 20000; n++)
          made.addCopy(`key ${n}`); // a filter that grows takes its memory when keys come
        const { fpp, capacity, bytes: taken } = made.stats();
        assert.deepEqual([capacity, fpp], [20000, 0.001]);
        assert.ok(Math.abs(taken / bytes - 1) < 0.05, `${kind}: ${taken} bytes, not ${bytes}`); // more cores, more locks
      }
      // The command computes what the page says, unless it cannot make that filter.
      const lines = texts.Command.split('\n').filter((line) => !line.startsWith('#'));
      const says = execFileSync('taskset', ['-c', '0', 'sh', '-ec', lines.join('\n').replaceAll(/^tamis /gm, '"$0" ').replace('seen.shared', `${i}.shared`), command], { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
      if (!texts.Command.startsWith('#'))
        assert.equal(Number(/^bytes +(\d+)/m.exec(says)[1]), bytes, texts.Command);
      assert.match(texts.Redis, need.row === 'Counting Bloom filter' ? /^#/ : /^(#.*\n)*(BF\.RESERVE seen 0\.001 20000|CF\.RESERVE seen 20000( EXPANSION 0)? ERROR 0\.001)( NONSCALING)?( WINDOW \d+ EVERY 60000( RENEWS)?)?\n/);
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

const none = 'No filter meets these needs';
const isBloom = (_need, kind) => /^(Blocked|Classic) Bloom/.test(kind);
const isCuckoo = (_need, kind) => kind.startsWith('Cuckoo');

/** What the page says of a need, and when, by docs/use/choosing.md, shared.md, window.md and redis.md; `kind` is its answer. */
const facts = [
  [/^The filter remembers a key for at least 1 whole period, and for less than 2\. /, ({ window }, kind) => kind !== none && window === 1],
  [/^The filter remembers a key for at least 12 whole periods, and for less than 13\. /, ({ window }, kind) => kind !== none && window === 12],
  [/The periods follow the server’s clock\.$/, ({ window, users }, kind) => kind !== none && window > 0 && users === 'machines'],
  [/Your program reads a clock before it adds a key, and ends the periods that have passed\.$/, ({ window, users }, kind) => kind !== none && window > 0 && users !== 'machines'],
  [/^Processes cannot share a window that removes keys\./, ({ window, users, removes }) => window > 0 && users === 'processes' && removes],
  [/^The planner would recommend “.*”, but the library refuses these options: fpp is 1e-09; a .* needs at least .*, and below 1\.$/, ({ growth, users, removes, window, rate }) => rate === '1e-9' && (window ? !removes || users !== 'processes' :
    removes ? growth !== 'fixed' || users === 'processes' : growth === 'unknown' && users !== 'processes')],
  [/^You remove keys, so use a cuckoo (filter|window)\. .* or more often than you added it\.$/, (need, kind) => need.removes && isCuckoo(need, kind)],
  [/^Remove a key only while the filter remembers it: /, ({ removes, window }, kind) => kind !== none && removes && window > 0],
  [/^In a cuckoo filter that processes share, a key has at most six copies\./, (need, kind) => need.users === 'processes' && isCuckoo(need, kind)],
  [/^A cuckoo filter grows in small steps/, (need, kind) => !need.removes && kind === 'Cuckoo filter, growing'],
  [/^Keys stay, and you know how many come, so use a Bloom filter\. /, (need, kind) => isBloom(need, kind) && need.growth === 'fixed'],
  [/^Keys stay, so use a Bloom filter\. Past its capacity it opens further layers, /, (need, kind) => isBloom(need, kind) && need.growth !== 'fixed'],
  [/^A window that processes share does not grow, /, ({ window, users, growth }, kind) => kind !== none && users === 'processes' && growth !== 'fixed' && window > 0],
  [/^A cuckoo filter that processes share does not grow, /, (need, kind) => need.users === 'processes' && need.growth !== 'fixed' && isCuckoo(need, kind)],
  [/grows only up to max_bytes, which you must set\.$/, (need, kind) => need.users === 'processes' && isBloom(need, kind) && need.growth !== 'fixed'],
  [/^The processes share the filter in one file\. /, ({ users }, kind) => users === 'processes' && kind !== none],
  [/ share the filter in Redis or Valkey, /, ({ users }, kind) => users === 'machines' && kind !== none],
  [/^The Bloom filters of this module have the classic layout\.$/, (need, kind) => need.users === 'machines' && isBloom(need, kind)],
  [/^If many threads add keys, the word layout is faster, /, ({ users, rate }, kind) => users === 'threads' && kind.startsWith('Blocked') && rate === '0.01'],
  [/^At this rate, a cuckoo filter takes less memory\.$/, (need, kind) => isBloom(need, kind) && need.growth === 'fixed' && need.rate === '1e-9' && need.users !== 'processes'],
];

/** Why a filter of the table does not do what is needed, by the same documents. */
function notFor({ growth, users, removes }, row) {
  if (removes && /^(Blocked|Classic|Word|Bloom)/.test(row))
    return 'it cannot remove keys';
  if (users === 'processes' && (row === 'Counting Bloom filter' || row === 'Cuckoo window'))
    return 'processes cannot share it';
  if (users === 'machines' && /^(Blocked|Word|Counting)/.test(row))
    return `the module for Redis has no such ${row.startsWith('Counting') ? 'filter' : 'layout'}`;
  if (growth !== 'fixed' && row === 'Counting Bloom filter')
    return 'its rate rises when more keys come';
  return growth !== 'fixed' && users === 'processes' && !removes && row === 'Cuckoo filter' ? 'it cannot grow if processes share it' : '';
}

const product = (...lists) => lists.reduce((all, list) => all.flatMap((one) => list.map((value) => [...one, value])), [[]]);

test('each sentence of the page is true', { skip: missing }, () => withPlanner(async (page) => {
  const all = product(['fixed', 'some', 'unknown'], ['one', 'threads', 'processes', 'machines'], [false, true], [0, 1, 12], [false, true], ['0.01', '1e-9'])
    .map(([growth, users, removes, window, renews, rate]) => ({ growth, users, removes, window, renews, rate, keys: '1M' }));
  const answers = await page.evaluate(`${JSON.stringify(all)}.map(${answerOnPage})`);
  const printed = new Set();
  all.forEach((need, i) => {
    const { kind, reasons, notes, texts } = answers[i], where = `${JSON.stringify(need)}: ${kind}`;
    for (const [says, when] of facts) {
      const found = reasons.filter((reason) => says.test(reason)).length;
      assert.equal(found, Number(when(need, kind)), `${where}: ${says}`);
      if (found)
        printed.add(says);
    }
    for (const reason of reasons)
      assert.ok(facts.some(([says]) => says.test(reason)), `${where}: ${reason}`);
    for (const [row, note] of Object.entries(notes))
      assert.equal(note.replace(/^recommended|^fpp is .* and below 1(; )?/, ''), notFor(need, row), `${where}: ${row}`);
    // The code shares, removes, expires and grows as the answer says.
    if (kind === none)
      return assert.deepEqual(texts, {});
    const says = { users: need.users === 'processes', removes: need.removes, window: need.window > 0, fixed: kind.endsWith('of fixed size') };
    const code = { users: /open_shared|tamis\.shared|Filter\.shared/, removes: /remove\(|discard\(/, window: /advance_?to/i, fixed: /growable\W*false/i };
    for (const language of ['C', 'C++', 'Python', 'JavaScript']) {
      for (const what of Object.keys(says))
        assert.equal(code[what].test(texts[language]), says[what], `${where}: ${what} in ${texts[language]}`);
    }
  });
  assert.deepEqual(facts.map(([says]) => says).filter((says) => !printed.has(says)), [], 'sentences that the page never says');
}));

test('the address keeps what was asked, and a bad number says so', { skip: missing }, () => withPlanner(async (page) => {
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
  await page.click('#copy');
  await page.locator('#copied', { hasText: /Copied|selected/ }).waitFor();
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
