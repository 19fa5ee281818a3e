// SPDX-License-Identifier: MIT
// Keys of a window that end by themselves; in WebAssembly, or with the addon (package.js).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as tamis from './package.js';

const { Filter } = tamis;
const calls = ['add', 'addUnique', 'addCopy'];

/** Whether the call adds a key also if that is in. */
const isCopy = (kind, call) => call === 'addCopy' || (kind === 'cuckoo' && call === 'add');

for (const kind of ['bloom', 'cuckoo']) {
  test(`${kind}: periods that are refused`, () => {
    const f = new Filter({ capacity: 100, kind, window: 5 }), without = new Filter({ capacity: 100, kind });
    for (const call of calls) {
      for (const periods of [6, 64, 2 ** 32 - 1])
        assert.throws(() => f[call]('a', { periods }), (error) => error instanceof tamis.InvalidError && error.code === 'EINVAL' &&
          error.message === `periods is ${periods}; it must be at most the filter's window`);
      for (const periods of [-1, 1.5, NaN, Infinity, 2 ** 32, '1', null, true, {}])
        assert.throws(() => f[call]('a', { periods }), RangeError);
      for (const bad of [5, null, 'periods', { period: 1 }, [1]])
        assert.throws(() => f[call]('a', bad), TypeError);
      for (const periods of [0, 1])
        assert.throws(() => without[call]('a', { periods }), tamis.UnsupportedError);
      without[call]('a', {});
    }
    assert.ok(!f.has('a') && f.stats().count === 0 && without.has('a'));
    const freed = new Filter({ capacity: 100, kind, window: 5 });
    assert.throws(() => freed.add('a', { get periods() { freed.free(); return 1; } }), ReferenceError);
  });

  test(`${kind}: random steps against a model`, () => {
    for (const [window, windowRenews] of [[1, false], [7, true], [64, false]]) {
      const f = new Filter({ capacity: 1000, fpp: 2e-6, kind, window, windowRenews, seed: 3 });
      const ends = new Map();
      let now = 0, state = window;
      const below = (n) => ((state = (Math.imul(state, 1664525) + 1013904223) >>> 0) >>> 8) % n;
      const has = (key) => (ends.get(key) ?? -1) >= now;
      for (let step = 0; step < 3000; step++) {
        const key = `key ${below(60)}`, call = calls[below(3)], periods = below(4) ? below(window + 1) : undefined;
        if (below(10) < 8) {
          const isNew = !has(key), said = f[call](key, { periods });
          assert.equal(said, call === 'addCopy' ? undefined : isNew, `step ${step}: ${call} of ${key}`);
          if (isNew || windowRenews || isCopy(kind, call))
            ends.set(key, Math.max(now + (periods ?? window), isNew ? 0 : ends.get(key)));
        } else {
          f.advanceTo(now += [0, 1, 1, 2, window, window + 1][below(6)]);
        }
        assert.equal(f.has(key), has(key), `step ${step}: ${key} in ${now}`);
      }
    }
  });
}
