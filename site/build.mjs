// SPDX-License-Identifier: MIT
// Builds the site: a folder of static pages that any server, or the disk, can give to a browser.
//
//   node site/build.mjs --out FOLDER --wasm FOLDER [--manual FOLDER] [--python FOLDER]
//
// --wasm has tamis.wasm, which js/build makes; --manual has the manual pages, below man1, man3 and man5; and --python
// the package tamis, as Python imports it.  Without the last two, the site has no reference of C or Python.  TAMIS_NODE_MODULES names the folder above node_modules, if that is not js/.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { documents } from './make/documents.mjs';
import { manual } from './make/manual.mjs';
import { pageOf } from './make/template.mjs';
import { references } from './make/references.mjs';
import { searchData } from './make/search.mjs';

const here = dirname(fileURLToPath(import.meta.url));
const tree = dirname(here);
const { values: asked } = parseArgs({ options: { out: { type: 'string' }, wasm: { type: 'string' }, manual: { type: 'string' }, python: { type: 'string' } } });
if (!asked.out || !asked.wasm) {
  console.error('usage: node site/build.mjs --out FOLDER --wasm FOLDER [--manual FOLDER] [--python FOLDER]');
  process.exit(2);
}
const modulesFolder = process.env.TAMIS_NODE_MODULES ?? join(tree, 'js/');
const modules = createRequire(join(modulesFolder, 'package.json'));
const esbuild = modules('esbuild');

const tools = ['planner', 'file', 'watch', 'search']; // pages with a script
const out = asked.out;
rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, 'assets'), { recursive: true });
const write = (path, text) => {
  mkdirSync(dirname(join(out, path)), { recursive: true });
  writeFileSync(join(out, path), text);
};

// ---- scripts ----

/** The WebAssembly comes from assets/wasm.js. */
const embedded = {
  name: 'embedded',
  setup: (build) => build.onResolve({ filter: /\/js\/src\/wasm\.js$/ }, () => ({ path: join(here, 'src/embedded.js') })),
};

// A page from the disk may load no modules, so each script is a plain one.  `await` at its top needs a function
// around it.
await esbuild.build({
  entryPoints: tools.map((name) => join(here, `src/${name}-page.js`)),
  outdir: join(out, 'assets'),
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  nodePaths: [join(modulesFolder, 'node_modules')],
  define: { 'import.meta.url': 'document.baseURI' },
  plugins: [embedded],
  banner: { js: '(async () => {' },
  footer: {
    js: `})().catch((error) => {
  for (const place of document.querySelectorAll('[data-failed]')) {
    place.hidden = false;
    place.append(String(error));
  }
  throw error;
});`,
  },
});
const wasm = readFileSync(join(asked.wasm, 'tamis.wasm')).toString('base64');
write('assets/wasm.js', `globalThis.tamisFiles = { 'tamis.wasm': '${wasm}' };\n`);
for (const name of ['style.css', 'icon.svg'])
  cpSync(join(here, name), join(out, 'assets', name));

// ---- pages ----

const version = ['MAJOR', 'MINOR', 'PATCH'].map((part) => new RegExp(`VERSION_${part} (\\d+)`)
  .exec(readFileSync(join(tree, 'include/tamis/tamis.h'), 'utf8'))[1]).join('.');
const found = []; // what the search finds: { title, section, path, text }
const put = (page) => {
  write(page.path, pageOf({ version, ...page }));
  found.push(...(page.sections ?? []));
};

for (const name of tools) {
  const text = readFileSync(join(here, `pages/${name}.html`), 'utf8');
  const title = /<h1[^>]*>(.*?)<\/h1>/s.exec(text)[1];
  const scripts = name === 'search' ? ['search-data', 'search-page'] : ['wasm', `${name}-page`];
  put({ path: `${name}.html`, title, body: text, scripts, tool: true });
}
const pages = { tree, modules, put, copy: (from, to) => cpSync(from, join(out, to)) };
const manuals = asked.manual && manual(pages, asked.manual);
references(pages, { manuals, python: asked.python });
documents(pages, manuals?.pageOfName ?? new Map());
write('assets/search-data.js', searchData(modules, found));
