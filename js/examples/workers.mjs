// Four workers get the same messages.  How is each message handled once?
import { Worker, isMainThread, workerData } from 'node:worker_threads';
import { Filter } from 'tamis/native';

const MESSAGES = 10_000;
if (isMainThread) {
  const seen = new Filter({ capacity: MESSAGES, fpp: 1e-9 });
  const handled = new Int32Array(new SharedArrayBuffer(4));
  const start = () => new Worker(new URL(import.meta.url), { workerData: { handle: seen.handle(), handled } });
  await Promise.all([1, 2, 3, 4].map(() => new Promise((resolve) => start().on('exit', resolve))));
  console.log(`${handled[0]} of ${4 * MESSAGES} handled`);
} else {
  const seen = Filter.attach(workerData.handle);
  for (let i = 0; i < MESSAGES; i++)
    if (seen.add(`message ${i}`)) // of all workers, one gets this
      Atomics.add(workerData.handled, 0, 1);
}
// prints: 10000 of 40000 handled
