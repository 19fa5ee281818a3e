// SPDX-License-Identifier: MIT
// What the types allow, and what they forbid: tests/types.test.js compiles this file.
import { bytesFor, CorruptError, Filter, fppFor, info, isNative, type Options, whyRefused } from '../src/index.js';
import { Reader } from '../src/reader.js';

const options: Options = { capacity: 1000n, fpp: 0.001, kind: 'cuckoo', window: 3 };
using filter = new Filter(options);
const isNew: boolean = filter.add('key');
filter.addCopy(new Uint8Array(3));
const copies: number = filter.count('key');
const merged: Filter = filter.merge(new Filter({ capacity: 1 }));
const loaded: Filter = await Filter.load(new Blob([]), { maxBytes: 1000 });
const reader: Reader = await Reader.load(filter.saveStream());
const rate: number = fppFor({ capacity: 10 }, 100);
const why: string | null = whyRefused(options);
const { kind, layout } = info(filter.save());
const code: 'ECORRUPT' | string = new CorruptError('').code;
const shared: Filter = Filter.shared('/dev/shm/seen', options);
const attached: Filter = Filter.attach(shared.handle());
attached.sync();
console.log(isNative, isNew, copies, merged, loaded, reader, rate, why, kind, layout, code, bytesFor(options));

// @ts-expect-error: no such kind
new Filter({ capacity: 1, kind: 'quotient' });
// @ts-expect-error: the capacity is missing
new Filter({});
// @ts-expect-error: a number is no key
filter.add(5);
// @ts-expect-error: a reader takes no keys
reader.add('key');
// @ts-expect-error: a handle is no number
Filter.attach(5);
