// SPDX-License-Identifier: MIT
// The library as an addon for Node (addon/), with the interface of the WebAssembly (core.js).
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { programSeed } from './node-seed.js';
import { bytesOfKey, lengthOfKey } from './source.js';

const file = fileURLToPath(new URL('../addon/tamis.node', import.meta.url));

export const isBuilt = () => existsSync(file);

function loaded() {
  if (!isBuilt())
    throw new Error(`there is no ${file}: npm explore tamis -- npm run addon builds it`);
  try {
    return createRequire(import.meta.url)(file);
  } catch (error) {
    throw new Error(`the addon cannot be loaded (${error.message}): npm explore tamis -- npm run addon builds it for this system`,
      { cause: error });
  }
}

export function addonCore() {
  const addon = loaded();
  const core = {
    isNative: true,
    init: async () => {},
    initSync() {},
    source: null, // gives load() and info() bytes: (size) => Uint8Array
    sink: null, // gets the bytes of save()
    exports: {
      ...addon,
      load: (limit) => addon.load(limit, (size) => core.source(size)),
      info: () => addon.info((size) => core.source(size)),
      save: (filter) => addon.save(filter, (part) => core.sink(part)),
    },
    put(key) {
      if (typeof key === 'string')
        return key;
      const bytes = bytesOfKey(key);
      lengthOfKey(bytes); // throws if they are gone
      return bytes;
    },
    text: (string) => string,
    programSeed,
    figures: () => addon.figures(),
  };
  return core;
}
