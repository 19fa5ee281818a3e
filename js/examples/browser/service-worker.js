// A service worker that knows a list: register('service-worker.js', { type: 'module' }).
import { Reader } from './tamis/src/reader.js';

const list = fetch('list.tamis').then(({ body }) => Reader.load(body, { maxBytes: 1e8 }));

onmessage = async ({ data: key, source }) => source.postMessage({ key, isKnown: (await list).has(key) });
