// SPDX-License-Identifier: MIT
// The examples print what their last lines say.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { isBuilt } from '../src/addon.js';

for (const [name, skip] of [['seen', false], ['workers', isBuilt() ? false : 'the addon has not been built']])
  test(name, { skip }, () => {
    const path = fileURLToPath(new URL(`../examples/${name}.mjs`, import.meta.url));
    const said = readFileSync(path, 'utf8').match(/(?<=^\/\/ prints: ).*$/gm).join('\n');
    assert.equal(execFileSync(process.execPath, [path], { encoding: 'utf8' }), `${said}\n`);
  });
