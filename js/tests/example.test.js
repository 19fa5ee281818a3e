// SPDX-License-Identifier: MIT
// The example prints what its last lines say.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const path = fileURLToPath(new URL('../examples/seen.mjs', import.meta.url));

test('the example', () => {
  const said = readFileSync(path, 'utf8').match(/(?<=^\/\/ prints: ).*$/gm).join('\n');
  assert.equal(execFileSync(process.execPath, [path], { encoding: 'utf8' }), `${said}\n`);
});
