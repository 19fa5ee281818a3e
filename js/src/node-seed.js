// SPDX-License-Identifier: MIT
// The seed in Node.  Each worker gets a copy of its parent's environment data, which has the seed; child processes do not.
import { webcrypto } from 'node:crypto'; // a global one only from Node 20 on
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads';
import { randomSeed } from './seed.js';

const name = 'tamis.seed';

if (getEnvironmentData(name) === undefined)
  setEnvironmentData(name, randomSeed(webcrypto));

export const programSeed = () => getEnvironmentData(name);
