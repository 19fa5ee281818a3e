// SPDX-License-Identifier: MIT
// A process that shares a filter in a file with others: node child.js TASK PATH INDEX OF KEYS
import { writeSync } from 'node:fs';
import { Filter } from '../../src/native.js';

const [task, path, ...numbers] = process.argv.slice(2);
const [index, of, keys] = numbers.map(Number);
const f = Filter.shared(path);

const tasks = {
  /** Adds all keys when it is told to begin, and writes of which it was the first. */
  win() {
    writeSync(1, 'ready\n');
    process.stdin.once('data', () => {
      const won = [];
      for (let i = 0; i < keys; i++) {
        const key = (i + Math.floor((keys * index) / of / 8)) % keys;
        if (f.add(`key ${key}`))
          won.push(key);
      }
      process.stdout.write(`${won.join(' ')}\n`, () => process.exit());
    });
  },
  /** Adds keys, writes the number of each when its add has returned, and waits until it is killed. */
  addUntilKilled() {
    for (let i = 0; i < 50_000; i++) {
      f.addCopy(`${index} ${i}`);
      writeSync(1, `${i}\n`);
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  },
};
tasks[task]();
