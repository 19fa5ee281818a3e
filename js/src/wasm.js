// SPDX-License-Identifier: MIT
// The package in WebAssembly, ready when the import is done.  It is not for service workers, nor for workers that get
// messages at once.
import { init } from './index.js';

await init();
export * from './index.js';
