// SPDX-License-Identifier: MIT
// The package as npm installs it: how it is found, by import and by require(), and what its types and documents say.
import assert from 'node:assert/strict';
import { cpSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isBuilt } from '../src/addon.js';
import { folder, missing as skip, modules, node, run, source } from './installed.js';

test('publint', { skip }, () => run('publint/src/cli.js', '--strict', 'node_modules/tamis'));

const canRequireModules = process.allowedNodeEnvironmentFlags.has('--experimental-require-module');
for (const flags of [[], ...(canRequireModules ? [['--no-experimental-require-module']] : [])])
  test(`require() ${flags}`, { skip }, () => {
    writeFileSync(join(folder, 'use.cjs'), `
      const names = ['tamis', 'tamis/wasm'${isBuilt() ? ", 'tamis/native'" : ''}];
      const bytes = require('tamis').Filter.prototype.save.call(new (require('tamis').Filter)({ capacity: 9 }));
      for (const { Filter, CorruptError } of names.map((name) => require(name))) {
        if (!new Filter({ capacity: 9 }).add('x') || Filter.loadSync(bytes).has('x')) throw 'Filter';
        try { Filter.loadSync(bytes.subarray(1)); } catch (error) { if (!(error instanceof CorruptError)) throw error; }
      }
      if (require('tamis/reader').Reader.loadSync(bytes).has('x')) throw 'Reader';
      const { Filter, init } = require('tamis/init');
      init(require('node:fs').readFileSync('node_modules/tamis/wasm/tamis.wasm')).then(async () =>
        console.log(new Filter({ capacity: 9 }).add('x'), ${!flags.length && canRequireModules} && require('tamis').Filter !== (await import('tamis')).Filter));`);
    assert.equal(node(...flags, 'use.cjs'), 'true false\n');
  });

test('an addon that cannot be loaded', { skip: skip || (isBuilt() ? false : 'the addon has not been built') }, () => {
  const addon = join(folder, 'node_modules/tamis/addon/tamis.node');
  renameSync(addon, `${addon}.kept`);
  const said = (name) => node('--input-type=module', '-e', `import('${name}').then(({ isNative, Filter }) => {
    console.log(isNative, new Filter({ capacity: 9 }).add('x'));
    Filter.shared('x');
  }).catch(({ message }) => console.log(message));`);
  const none = said('tamis');
  writeFileSync(addon, 'for another system');
  const wrong = said('tamis'), native = said('tamis/native');
  renameSync(`${addon}.kept`, addon);
  assert.match(none, /^false true\nshared\(\) needs the addon.*there is no .*npm run addon builds it\n$/);
  assert.match(wrong, /^false true\nshared\(\) needs the addon.*cannot be loaded \(.+\): .*npm run addon builds it/);
  assert.match(native, /^the addon cannot be loaded \(.+\): .*npm run addon builds it/);
});

test('a bundler for Node', { skip }, () => {
  const text = "import { Filter } from 'tamis';\nconsole.log(new Filter({ capacity: 9 }).add('x'));\n";
  const bundle = (external) => modules('esbuild').buildSync({
    stdin: { contents: text, resolveDir: folder }, bundle: true, platform: 'node', format: 'esm', outfile: join(folder, 'out/bundle.js'), external });
  bundle(['tamis']);
  assert.equal(node('out/bundle.js'), 'true\n');
  bundle([]);
  assert.throws(() => node('out/bundle.js'), /tamis\.wasm cannot be read .*: if a bundler has left it out, tamis must be external/);
});

// ---- types ----

/** A compiler, how it finds modules, and whether it knows `using`. */
for (const [compiler, module, resolution, using] of [['typescript-5.0', 'node16', 'node16', false],
  ['typescript-5.0', 'es2022', 'node', false], ['typescript', 'es2022', 'bundler', true], ['typescript', 'nodenext', 'nodenext', true]])
  test(`${compiler}: moduleResolution ${resolution}`, { skip }, () => {
    cpSync(join(source, 'tests/types.ts'), join(folder, 'types.ts'));
    cpSync(join(source, 'examples/seen.mjs'), join(folder, 'seen.ts'));
    writeFileSync(join(folder, 'using.ts'), "import { Filter } from 'tamis';\nusing filter = new Filter({ capacity: 9 });\nfilter.add('x');\n");
    writeFileSync(join(folder, 'require.cts'), `import { Filter } from 'tamis';\nimport reader = require('tamis/reader');\n${['init', 'wasm', 'native', 'tamis.wasm', 'reader.wasm'].map((entry, i) => `import entry${i} = require('tamis/${entry}');\n`).join('')}new Filter({ capacity: 9 }).add('x');\nreader.Reader.loadSync(new Uint8Array(1)).has('x');\n`);
    const files = ['types.ts', 'seen.ts', ...(using ? ['using.ts'] : []), ...(resolution.startsWith('node') && module !== 'es2022' ? ['require.cts'] : [])];
    run(`${compiler}/bin/tsc`, '--strict', '--noEmit', '--target', 'es2022', '--module', module, '--moduleResolution', resolution,
      '--lib', `es2022,dom,dom.iterable${using ? ',esnext.disposable' : ''}`, ...files);
  });

// ---- documents ----

test('the programs of the README that are marked so run as they stand', { skip: skip || (isBuilt() ? false : 'the addon has not been built') }, () => {
  const text = readFileSync(join(source, 'README.md'), 'utf8');
  const programs = [...text.matchAll(/^<!-- run: js\/tests\/installed\.test\.js -->\n```js\n(.*?)^```$/gms)];
  assert.equal(programs.length, 3);
  for (const [, program] of programs) {
    writeFileSync(join(folder, 'program.mjs'), program);
    node('program.mjs');
  }
});
