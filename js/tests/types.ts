// SPDX-License-Identifier: MIT
// What the types allow, and what they forbid: tests/installed.test.js compiles this file.
import { bytesFor, CorruptError, Filter, fppFor, info, init, initSync, isNative, type Options, whyRefused } from 'tamis';
import wasm from 'tamis/tamis.wasm';
import readerWasm from 'tamis/reader.wasm';
import { init as initReader, Reader } from 'tamis/reader';
import { Filter as Slim } from 'tamis/init';
import { Filter as Native } from 'tamis/native';
import { Filter as InWasm } from 'tamis/wasm';

const options: Options = { capacity: 1000n, fpp: 0.001, kind: 'cuckoo', window: 3 };
await init(wasm);
await initReader(readerWasm);
initSync(new WebAssembly.Module(new Uint8Array(8)));
const filter: Slim = new Filter(options);
const blob: Blob = new Blob([filter.save()]);
const also: Filter[] = [new Native(options), new InWasm(options)];
const isNew: boolean = filter.add('key') && filter.addUnique('key');
filter.addCopy(new Uint8Array(3), { periods: 2 });
const copies: number = filter.count('key');
const merged: Filter = filter.merge(new Filter({ capacity: 1 }));
const sets: boolean[] = [filter.union(merged).equals(filter.intersection(merged)), merged.isSubsetOf(filter), filter.growable];
filter.clear();
const loaded: Filter = await Filter.load(new Blob([]), { maxBytes: 1000 });
class Mine extends Filter {}
const mine: Mine = Mine.loadSync(filter.save());
const text: string = Mine.fromJSON(filter.toJSON(), { maxBytes: 1000 }).toJSON();
const reader: Reader = await Reader.load(filter.saveStream());
const rate: number = fppFor({ capacity: 10 }, 100);
const why: string | null = whyRefused(options);
const { kind, layout } = info(filter.save());
const code: 'ECORRUPT' | string = new CorruptError('').code;
const shared: Filter = Filter.shared('/dev/shm/seen', options);
const attached: Filter = Filter.attach(shared.handle());
attached.sync();
console.log(blob, also, mine, isNative, isNew, sets, text, copies, merged, loaded, reader, rate, why, kind, layout, code, bytesFor(options));

// @ts-expect-error: no such kind
new Filter({ capacity: 1, kind: 'quotient' });
// @ts-expect-error: the capacity is missing
new Filter({});
// @ts-expect-error: a number is no key
filter.add(5);
// @ts-expect-error: periods are an option
filter.add('key', 5);
// @ts-expect-error: a reader takes no keys
reader.add('key');
// @ts-expect-error: a handle is no number
Filter.attach(5);
