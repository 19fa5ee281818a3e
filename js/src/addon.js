// SPDX-License-Identifier: MIT
// The library as an addon for Node (addon/), with the interface of the WebAssembly (core.js).
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { bytesOfKey } from './source.js';

const file = fileURLToPath(new URL('../addon/tamis.node', import.meta.url));

export const isBuilt = () => existsSync(file);

export function addonCore() {
  if (!isBuilt())
    throw new Error(`there is no ${file}: npm run addon, in the folder of the package, builds it`);
  const addon = createRequire(import.meta.url)(file);
  const core = {
    isNative: true,
    source: null, // gives load() and info() bytes: (size) => Uint8Array
    sink: null, // gets the bytes of save()
    exports: {
      ...addon,
      load: (limit) => addon.load(limit, (size) => core.source(size)),
      info: () => addon.info((size) => core.source(size)),
      save: (filter) => addon.save(filter, (part) => core.sink(part)),
    },
    put: (key) => (typeof key === 'string' ? key : bytesOfKey(key)),
    text: (string) => string,
    figures: () => addon.figures(),
  };
  return core;
}
