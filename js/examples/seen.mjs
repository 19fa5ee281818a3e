// Have I seen this?  Keys are text or bytes.
import { Filter } from 'tamis';

const seen = new Filter({ capacity: 1_000_000, fpp: 1e-6 });
for (const key of ['apple', 'pear', 'apple'])
  console.log(key, seen.add(key) ? 'is new' : 'was seen');
console.log(seen.has('apple'), seen.has('fig'));

const bytes = seen.save(); // C, Python, the command tamis and browsers read them
const loaded = await Filter.load(new Blob([bytes]));
console.log(loaded.has('pear'), loaded.stats().count);
// prints: apple is new
// prints: pear is new
// prints: apple was seen
// prints: true false
// prints: true 2
