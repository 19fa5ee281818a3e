// SPDX-License-Identifier: MIT
// The references: of C from the manual and the header, of Python from the package's stubs and docstrings, and of
// JavaScript from its types.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { sourcePage } from './documents.mjs';
import { escape } from './template.mjs';

const identifier = (name) => name.replace(/[^\w.-]/g, '_');

/**
 * The text of a docstring or of a comment as HTML: paragraphs; code where an example begins with ">>>", or where
 * columns are aligned.
 */
function prose(text) {
  return text.trim().split(/\n\s*\n/).map((paragraph) => {
    const isCode = /^\s*>>>/.test(paragraph) || /\S {3,}\S/.test(paragraph) || /^ {2,}\S/m.test(paragraph.split('\n').slice(1).join('\n'));
    return isCode ? `<pre tabindex="0"><code>${escape(paragraph)}</code></pre>` : `<p>${escape(paragraph.replace(/\s*\n\s*/g, ' '))}</p>`;
  }).join('\n');
}

/** A page of entries: { name, signature, doc, members }, and what the search gets of them. */
function putEntries(put, { path, title, introduction, entries }) {
  const headings = [], sections = [{ title, section: title, path, text: introduction.replace(/<[^>]*>/g, '') }];
  const html = [];
  const entry = (level, { name, signature, doc = '', members = [] }, owner) => {
    const shown = owner ? `${owner}.${name}` : name;
    const id = identifier(shown);
    headings.push({ id, text: shown, level });
    sections.push({ title, section: shown, path: `${path}#${id}`, text: `${signature} ${doc}`.replace(/\s+/g, ' ') });
    html.push(`<section class="entry"><h${level} id="${id}">${escape(shown)} <a class="own" href="#${id}" aria-label="Link to: ${escape(shown)}">#</a></h${level}>`,
      `<pre class="signature" tabindex="0"><code>${escape(signature)}</code></pre>`, doc ? prose(doc) : '');
    members.forEach((member) => entry(level + 1, member, name));
    html.push('</section>');
  };
  entries.forEach((one) => entry(2, one));
  put({ path, title, body: `<h1>${title}</h1>\n${introduction}\n${html.join('\n')}`, headings, sections });
}

// ---- C and C++ ----

function putC({ tree, put }, { pages }) {
  const headers = ['include/tamis/tamis.h', 'include/tamis/tamis.hpp'];
  const [lines] = headers.map((file) => {
    const text = readFileSync(join(tree, file), 'utf8');
    put({ path: `${file}.html`, title: file, body: sourcePage(file, text) });
    return text.split('\n');
  });
  const lineOf = (name) => lines.findIndex((line) => new RegExp(`^TAMIS_API .*\\b${name}\\(|^(?:enum|typedef struct) ${name}\\b|^} ${name};|\\b${name}\\)?\\(.*;$|^#define ${name.toUpperCase()}`).test(line)) + 1;
  const rows = (section) => pages.filter((page) => page.section === section).map(({ path, title, names, phrase }) => {
    const calls = section !== 3 ? '' : `<td>${names.map((name) => {
      const line = lineOf(name);
      return line ? `<a href="../include/tamis/tamis.h.html#L${line}"><code>${name}</code></a>` : `<code>${name}</code>`;
    }).join(', ')}</td>`;
    return `<tr><td><a href="../${path}">${escape(title)}</a></td><td>${escape(phrase)}</td>${calls}</tr>`;
  }).join('\n');
  const table = (label, head, body) => `<div class="table" tabindex="0" role="region" aria-label="${label}"><table><thead><tr>${head.map((text) => `<th>${text}</th>`).join('')}</tr></thead><tbody>${body}</tbody></table></div>`;
  const body = `<h1>C and C++</h1>
<p>The header <a href="../include/tamis/tamis.h.html">tamis.h</a> for C and the header <a href="../include/tamis/tamis.hpp.html">tamis.hpp</a> for C++17 describe each call. The manual page of a call has more details.</p>
<h2 id="calls">The library</h2>
${table('Manual pages of the library', ['Page', 'Subject', 'Calls and types in the header'], rows(3))}
<h2 id="command">The command</h2>
${table('Manual pages of the command', ['Page', 'Subject'], rows(1))}
<h2 id="formats">File formats</h2>
${table('Manual pages of formats', ['Page', 'Subject'], rows(5))}`;
  put({ path: 'reference/c.html', title: 'C and C++', body, sections: [{ title: '', section: 'C and C++: the reference', path: 'reference/c.html', text: pages.flatMap(({ names, phrase }) => [...names, phrase]).join(' ') }] });
}

// ---- JavaScript ----

/** The comment before a declaration, without what frames it. */
const commentOf = (ts, node) => ts.getJSDocCommentsAndTags(node).map(({ comment }) => (typeof comment === 'string' ? comment : '')).join('\n');

function entriesOf(ts, file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.ES2022, true);
  const textOf = (node) => node.getText(source).replace(/^export (declare )?/, '');
  return source.statements.filter((node) => node.name && !(ts.isInterfaceDeclaration(node) && node.members.length === 0) && ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) || ts.isVariableStatement(node)).map((node) => {
    if (ts.isVariableStatement(node))
      return { name: node.declarationList.declarations[0].name.text, signature: textOf(node), doc: commentOf(ts, node) };
    const name = node.name.text;
    const isClass = ts.isClassDeclaration(node);
    const members = isClass ? node.members.filter((member) => !ts.getModifiers(member)?.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword)).map((member) => ({
      name: ts.isConstructorDeclaration(member) ? 'constructor' : member.name.getText(source), signature: textOf(member), doc: commentOf(ts, member),
    })) : [];
    const heritage = isClass && node.heritageClauses ? ` ${node.heritageClauses.map((clause) => clause.getText(source)).join(' ')}` : '';
    return { name, signature: isClass ? `class ${name}${heritage}` : textOf(node), doc: commentOf(ts, node), members };
  });
}

function putJavaScript({ tree, modules, put }) {
  const ts = modules('typescript');
  const entries = ['index', 'reader', 'errors'].flatMap((name) => {
    const file = join(tree, `js/src/${name}.d.ts`);
    return entriesOf(ts, file, readFileSync(file, 'utf8'));
  });
  putEntries(put, {
    path: 'reference/javascript.html', title: 'JavaScript', entries,
    introduction: '<p>This page lists what the npm package exports. <code>tamis/reader</code> exports <code>Reader</code>, and <code>tamis</code> exports the other names; both export the errors. The <a href="../docs/use/javascript.html">guide to the package</a> describes keys, memory, browsers and speed.</p>',
  });
}

// ---- Python ----

function putPython({ tree, put }, folder) {
  const json = execFileSync('python3', ['-B', join(tree, 'site/make/python_reference.py'), join(tree, 'python/src/tamis/_tamis.pyi')],
    { encoding: 'utf8', env: { ...process.env, PYTHONPATH: folder } });
  const { doc, entries } = JSON.parse(json);
  putEntries(put, {
    path: 'reference/python.html', title: 'Python', entries,
    introduction: `${prose(doc)}\n<p><code>help(tamis)</code> prints the same text. The <a href="../docs/use/python.html">guide to the package</a> describes keys, processes, Scrapy, consumers and speed.</p>`,
  });
}

export function references(pages, { manuals, python }) {
  const kinds = [];
  if (manuals) {
    putC(pages, manuals);
    kinds.push(['c.html', 'C and C++', 'the headers, and the manual pages of the library and the command']);
  }
  if (python) {
    putPython(pages, python);
    kinds.push(['python.html', 'Python', 'the classes and functions of the package <code>tamis</code>']);
  }
  putJavaScript(pages);
  kinds.push(['javascript.html', 'JavaScript', 'the classes and functions of the npm package <code>tamis</code>'], ['../docs/use/command.html', 'The command', 'how to use the command <code>tamis</code>, and what it guarantees'],
    ['../docs/use/redis.html', 'Redis and Valkey', 'the commands and settings of the module'], ['../docs/use/nginx.html', 'nginx', 'the directives and variables of the module'], ['../docs/reference/format.html', 'Saved filters', 'the file format, so that you can write a reader in any language']);
  const items = kinds.map(([href, name, what]) => `<li><a href="${href}">${name}</a> <span>${what}</span></li>`);
  pages.put({ path: 'reference/index.html', title: 'Reference', body: `<h1>Reference</h1>\n<div class="groups"><ul>${items.join('\n')}</ul></div>` });
}
