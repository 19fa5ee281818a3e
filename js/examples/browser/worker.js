// A worker that loses no message.  It listens from the first moment on, and each answer waits for the filter.
import { Filter, init } from 'tamis';

const seen = init().then(() => new Filter({ capacity: 1_000_000 }));

onmessage = async ({ data: key }) => postMessage({ key, isNew: (await seen).add(key) });
