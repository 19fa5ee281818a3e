// SPDX-License-Identifier: MIT
// The package as npm installs it, in node_modules of a new folder, and the tools of package.json that try it there.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';

export const source = fileURLToPath(new URL('../', import.meta.url));
const tools = process.env.TAMIS_NODE_MODULES ?? source;
export const modules = createRequire(join(tools, 'package.json'));

/** Why what needs npm's packages cannot run; false if it can. */
export const missing = existsSync(join(tools, 'node_modules/webpack')) ? false : 'the packages of package.json are not installed: npm ci';

export const folder = mkdtempSync(join(tmpdir(), 'tamis-installed-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** Runs Node there; throws with what it has said. */
export function node(...args) {
  try {
    return execFileSync(process.execPath, args, { cwd: folder, encoding: 'utf8', stdio: 'pipe' });
  } catch (error) {
    throw new Error(`${args.join(' ')}: ${error.stdout}${error.stderr}`, { cause: error });
  }
}

/** The same for a program of node_modules. */
export const run = (program, ...args) => node(join(tools, 'node_modules', program), ...args);

if (!missing) {
  const packed = join(folder, 'packed'), installed = join(folder, 'node_modules/tamis');
  for (const part of ['src', 'wasm', 'package.json', 'README.md'])
    cpSync(join(source, part), join(packed, part), { recursive: true });
  execFileSync(join(source, 'commonjs'), [packed], { env: { ...process.env, TAMIS_NODE_MODULES: tools } });
  const name = execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--offline'], { cwd: packed, encoding: 'utf8' }).trim();
  mkdirSync(installed, { recursive: true });
  execFileSync('tar', ['xzf', join(packed, name), '-C', installed, '--strip-components=1']);
  if (existsSync(join(source, 'addon/tamis.node')))
    cpSync(join(source, 'addon/tamis.node'), join(installed, 'addon/tamis.node'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
}
