// SPDX-License-Identifier: MIT
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

/** Where npm has put the packages of package.json. */
const modules = createRequire(new URL(process.env.TAMIS_NODE_MODULES ?? '../', import.meta.url));
let tsc;
try {
  tsc = modules.resolve('typescript/bin/tsc');
} catch {
  tsc = null;
}

test('types', { skip: tsc ? false : 'typescript is not installed: npm ci' }, () => {
  const { stdout, status } = spawnSync(process.execPath, [tsc, '-p', fileURLToPath(new URL('../', import.meta.url))],
    { encoding: 'utf8' });
  assert.equal(stdout, '');
  assert.equal(status, 0);
});
