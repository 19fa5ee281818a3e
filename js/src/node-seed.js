// SPDX-License-Identifier: MIT
// The seed in Node, where each worker gets a copy of what its parent has in its environment data; no child process does.
import { webcrypto } from 'node:crypto'; // a global one only from Node 20 on
import { getEnvironmentData, setEnvironmentData } from 'node:worker_threads';
import { randomSeed } from './seed.js';

const name = 'tamis.seed';

if (getEnvironmentData(name) === undefined)
  setEnvironmentData(name, randomSeed(webcrypto));

export const programSeed = () => getEnvironmentData(name);
