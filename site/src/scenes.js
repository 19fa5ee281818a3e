// SPDX-License-Identifier: MIT
// What is done to the filters of "Watch a filter work".

const seed = 7n; // the same pictures each time

const adds = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => ({ does: 'add', key: String(from + i) }));
const each = (does, ...keys) => keys.map((key) => ({ does, key: String(key) }));

function windowSteps() {
  const steps = [];
  for (let period = 0; period < 10; period++) {
    steps.push(...adds(8 * period + 1, 8 * period + 8));
    // A key that comes again is remembered anew.
    if (period % 3 === 2)
      steps.push(...each('add', 8 * period - 14));
    steps.push({ does: 'advance' });
  }
  return [...steps, ...each('has', 80, 60, 20, 5)];
}

/** The scenes: the options of a filter, and what is done to it. */
export const scenes = {
  bloom: { options: { capacity: 60, fpp: 0.3, seed }, steps: [...adds(1, 80), ...each('has', 1, 30, 205, 206, 207, 208, 209, 210)] },
  cuckoo: { options: { kind: 'cuckoo', capacity: 20, fpp: 1e-6, seed }, steps: [...adds(1, 110), ...each('has', 5, 500), ...each('remove', 5, 17, 42, 60), ...each('has', 5), ...adds(111, 130)] },
  window: { options: { capacity: 30, fpp: 0.02, window: 4, windowRenews: true, seed }, steps: windowSteps() },
};
