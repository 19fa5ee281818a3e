// SPDX-License-Identifier: MIT
// The WebAssembly in Node, which reads it from a file and compiles it at once.
import { webcrypto } from 'node:crypto'; // a global one only from Node 20 on
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Core } from './core.js';
import { programSeed } from './node-seed.js';

/** A core that is ready. */
export function nodeCore(name) {
  const core = Object.assign(new Core(null, webcrypto), { programSeed });
  const file = fileURLToPath(new URL(`../wasm/${name}`, import.meta.url));
  try {
    core.initSync(readFileSync(file));
  } catch (error) {
    throw new Error(`${file} cannot be read (${error.message}): if a bundler has left it out, tamis must be external`, { cause: error });
  }
  return core;
}
