// SPDX-License-Identifier: MIT
// The page "Watch a filter work": each picture shows what the library says of the same filter after the same steps.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isTooWide, missing, packageAddress, withChromium } from './chromium.js';
import { scenes } from '../src/scenes.js';

const { Filter } = await import(packageAddress);

/** What the library says after each step. */
function expected({ options, steps }) {
  const filter = new Filter(options);
  const all = steps.map(({ does, key }) => {
    const said = does === 'advance' ? filter.advance() : filter[does](`key ${key}`);
    const { bitsSet, count, segments, evictions, layers } = filter.stats();
    return { does, said, bitsSet, count, segments, evictions, layers, bytes: filter.save().length };
  });
  filter.free();
  return all;
}

/** Runs on the page: goes through all steps by the keyboard, and notes what it sees after each. */
async function watch(steps) {
  const stage = document.getElementById('stage');
  const shown = [];
  for (let n = 1; n <= steps; n++) {
    stage.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' }));
    while (stage.dataset.step !== String(n))
      await new Promise((resolve) => setTimeout(resolve));
    const figures = Object.fromEntries([...document.querySelectorAll('#figures div')].map((row) => [row.firstChild.textContent, row.lastChild.textContent]));
    const count = (selector) => stage.querySelectorAll(selector).length;
    shown.push({
      figures, tables: count('svg'), used: count('rect.lane:not(.free, .miss, .forgotten)'), numbered: [...stage.querySelectorAll('text:not(.number)')].filter((text) => text.textContent !== '?').length,
      fresh: count('rect.new'), moved: count('rect.moved'), split: count('rect.split'), forgotten: count('rect.forgotten'), asked: count('rect.asked'),
      said: document.getElementById('happened').textContent,
    });
  }
  return shown;
}

for (const [name, scene] of Object.entries(scenes)) {
  test(name, { skip: missing }, () => withChromium(async (newPage) => {
    const page = await newPage('watch.html', { reducedMotion: 'reduce' });
    await page.waitForSelector('#stage[data-step="0"]');
    await page.check(`[name=scene][value=${name}]`);
    await page.locator('#number', { hasText: `0 of ${scene.steps.length}` }).waitFor();
    const shown = await page.evaluate(watch, scene.steps.length);
    const says = expected(scene);
    const seen = { moved: 0, split: 0, forgotten: 0, hidden: 0 };
    shown.forEach((shot, i) => {
      const known = says[i], where = `${name}, step ${i + 1}: ${shot.said}`;
      assert.equal(Number(shot.figures['Bytes when saved'].replaceAll(',', '')), known.bytes, where);
      if (name === 'bloom') {
        assert.equal(shot.used, known.bitsSet, where);
        assert.equal(shot.tables, known.layers, where);
        // A look-up sets no bit; an add of a new key sets some.
        assert.equal(shot.fresh > 0, known.does === 'add' && known.said, where);
      } else {
        assert.equal(shot.asked === 2, known.does !== 'advance', where);
        assert.equal(shot.fresh, known.does === 'add' && known.said ? 1 : 0, where);
      }
      if (name === 'cuckoo') {
        assert.equal(shot.used, known.count, where);
        assert.equal(shot.numbered, known.count, `${where}: each entry is some key's`);
        assert.equal(shot.tables, known.segments, where);
        const before = says[i - 1] ?? { evictions: 0, segments: 1 };
        assert.equal(/Both of its buckets were full/.test(shot.said), known.evictions > before.evictions, where);
        assert.equal(/has split/.test(shot.said), known.segments > before.segments, where);
        if (known.evictions === before.evictions && known.segments === before.segments)
          assert.equal(shot.moved + shot.split, 0, where);
      }
      if (name === 'window') {
        assert.equal(shot.used, known.count, `${where}: what is remembered`);
        assert.equal(/its time starts again|seems to have it/.test(shot.said), known.does === 'add' && !known.said, where);
      }
      for (const what of ['moved', 'split', 'forgotten'])
        seen[what] += shot[what];
      seen.hidden += /false positive/.test(shot.said);
    });
    assert.ok(name !== 'bloom' || seen.hidden > 1, 'there are false positives to be seen');
    assert.ok(name !== 'cuckoo' || (seen.moved > 10 && seen.split > 50), 'there are evictions and splits to be seen');
    assert.ok(name !== 'window' || /forgets keys .*: keys? \d/.test(shown.map(({ said }) => said).join()), 'keys are forgotten');
    // A step back shows what was shown before.
    await page.focus('#stage');
    await page.keyboard.press('ArrowLeft');
    await page.waitForSelector(`#stage[data-step="${scene.steps.length - 1}"]`);
    assert.equal(await page.textContent('#happened'), shown.at(-2).said);
    assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector('#stage rect')).animationName), 'none');
  }));
}

/** Waits until at least so many steps were shown. */
const reach = (page, steps) => page.evaluate(async (n) => {
  while (Number(document.getElementById('stage').dataset.step) < n)
    await new Promise((resolve) => setTimeout(resolve, 5));
}, steps);

test('play, pause and speed', { skip: missing }, () => withChromium(async (newPage) => {
  const page = await newPage('watch.html', { viewport: { width: 360, height: 700 } });
  await page.waitForSelector('#stage[data-step="0"]');
  assert.equal(await page.evaluate(() => document.getAnimations().length), 0, 'nothing moves before somebody asks for it');
  await page.focus('#speed');
  await page.keyboard.press('End');
  assert.equal(await page.textContent('#pace'), '15');
  await page.focus('#stage');
  await page.keyboard.press(' ');
  await reach(page, 5);
  assert.equal(await page.textContent('#play'), 'Pause');
  await page.keyboard.press(' ');
  await page.locator('#play', { hasText: 'Play' }).waitFor();
  await page.keyboard.press('End');
  await page.waitForSelector(`#stage[data-step="${scenes.bloom.steps.length}"]`);
  assert.equal(await page.isDisabled('#next'), true);
  await page.click('#play'); // from the beginning
  await page.waitForSelector('#back:disabled', { state: 'detached' });
  await reach(page, 2);
  await page.click('#first');
  await page.waitForSelector('#stage[data-step="0"]');
  assert.equal(await page.textContent('#play'), 'Play');
  for (const scene of ['cuckoo', 'window']) {
    await page.check(`[name=scene][value=${scene}]`);
    await page.locator('#number', { hasText: `0 of ${scenes[scene].steps.length}` }).waitFor();
    await page.focus('#stage');
    await page.keyboard.press('End');
    await page.waitForSelector(`#stage[data-step="${scenes[scene].steps.length}"]`);
    assert.equal(await isTooWide(page), false, scene);
  }
}));
