// SPDX-License-Identifier: MIT
// A worker that shares a filter with the test that has started it.  What it says goes to memory that both have.
import { parentPort, workerData } from 'node:worker_threads';
import { Filter } from '../../src/native.js';

const { task, handle, path, index, of, keys, wins, shared } = workerData;
const words = shared && new Int32Array(shared);

const tasks = {
  /** Adds all keys, beginning at one of its own, and counts for each how often it was the first. */
  win() {
    const f = path ? Filter.shared(path) : Filter.attach(handle);
    const counts = new Uint8Array(wins);
    Atomics.add(words, 0, 1); // all begin together
    Atomics.notify(words, 0);
    for (let here; (here = Atomics.load(words, 0)) < of;)
      Atomics.wait(words, 0, here);
    for (let i = 0; i < keys; i++) {
      const key = (i + Math.floor((keys * index) / of / 8)) % keys;
      if (f.addUnique(`key ${key}`))
        Atomics.add(counts, key, 1);
    }
    f.free();
  },
  /** Adds keys until it is terminated, and says of how many the add has returned. */
  addForever() {
    const f = Filter.attach(handle);
    for (let i = 0; ; i++) {
      f.addCopy(`${index} ${i}`);
      Atomics.store(words, index, i + 1);
    }
  },
  /** Makes a filter of its own, passes it on, and waits to be told, or terminated. */
  lend() {
    const f = new Filter({ capacity: 1000, seed: 1 });
    f.add('lent');
    parentPort.postMessage(f.handle());
    parentPort.once('message', () => {
      f.free();
      parentPort.postMessage('freed');
    });
  },
  /** Says whether it finds a key, each time it is asked. */
  ask() {
    const f = Filter.attach(handle);
    parentPort.postMessage('attached');
    parentPort.on('message', (key) => parentPort.postMessage(f.has(key)));
  },
};
tasks[task]();
