// SPDX-License-Identifier: MIT
// The same, ready when the import is done: not for service workers, nor for workers that get messages at once.
import { init } from './index.js';

await init();
export * from './index.js';
