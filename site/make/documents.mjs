// SPDX-License-Identifier: MIT
// The documents of the tree as pages.  What a document links to becomes a page, too: another document, a folder, a
// source file, or a picture, which is copied.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { basename, join, posix } from 'node:path';
import { escape, plainOf, upFrom } from './template.mjs';

const groups = [
  ['Getting started', ['README.md', 'docs/use/choosing.md', 'docs/reference/glossary.md', 'docs/reference/platforms.md', 'docs/reference/versions.md', 'CHANGELOG.md']],
  ['Kinds of filters', ['docs/internals/bloom.md', 'docs/internals/cuckoo.md', 'docs/internals/growth.md', 'docs/use/window.md', 'docs/use/counting.md']],
  ['Languages, servers and processes', ['docs/use/command.md', 'docs/use/python.md', 'docs/use/javascript.md', 'docs/use/redis.md', 'docs/use/nginx.md',
    'docs/use/shared.md', 'docs/use/many-machines.md']],
  ['Size, speed and operation', ['docs/reference/space.md', 'docs/reference/performance.md', 'docs/use/monitoring.md', 'docs/reference/format.md', 'docs/reference/packaging.md', 'SECURITY.md']],
  ['Correctness', ['docs/internals/correctness.md', 'docs/internals/concurrency.md', 'docs/internals/model.md', 'docs/internals/testing.md']],
  ['Contributing', ['CONTRIBUTING.md', 'docs/internals/adding-a-kind.md']],
];

/** The anchor of a heading, as GitHub and GitLab make it. */
export const anchorOf = (text) => text.trim().toLowerCase().replace(/[^\p{L}\p{N}_\- ]/gu, '').replaceAll(' ', '-');

/** Where the page of a file or folder of the tree lies on the site. */
function pathOf(tree, file) {
  if (file === 'README.md')
    return 'index.html';
  const full = join(tree, file);
  if (statSync(full).isDirectory())
    return existsSync(join(full, 'README.md')) ? `${file}/README.html` : `${file}/index.html`;
  if (/\.(svg|png)$/.test(file))
    return file;
  return file.endsWith('.md') ? file.replace(/\.md$/, '.html') : `${file}.html`;
}

const relative = (from, to) => posix.relative(posix.dirname(from), to) || basename(to);

/** A document's HTML, its headings, its sections for the search, and what it links to. */
function convert({ tree, modules }, manuals, file, text) {
  const { Marked } = modules('marked');
  const path = pathOf(tree, file);
  const links = new Set(), headings = [], sections = [];
  const used = new Set([...text.matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id));
  const linkTo = (href) => {
    if (/^[a-z]+:/.test(href) || href.startsWith('#'))
      return href;
    const [target, anchor] = href.split('#');
    const wanted = posix.normalize(posix.join(posix.dirname(file), target)).replace(/\/$/, '');
    if (!existsSync(join(tree, wanted)))
      throw new Error(`${file}: a link to ${href}, which is not there`);
    links.add(wanted);
    return relative(path, pathOf(tree, wanted)) + (anchor ? `#${anchor}` : '');
  };
  const marked = new Marked({
    gfm: true,
    renderer: {
      heading({ tokens, depth }) {
        const inner = this.parser.parseInline(tokens);
        const shown = plainOf(inner);
        let id = anchorOf(shown);
        for (let n = 1, first = id; used.has(id); n++)
          id = `${first}-${n}`;
        used.add(id);
        headings.push({ id, text: shown, level: depth });
        sections.push({ title: '', section: shown, path: depth === 1 ? path : `${path}#${id}`, text: '' });
        const own = depth === 1 ? '' : ` <a class="own" href="#${escape(id)}" aria-label="Link to: ${escape(shown)}">#</a>`;
        return `<h${depth} id="${escape(id)}">${inner}${own}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        return `<a href="${escape(linkTo(href))}">${this.parser.parseInline(tokens)}</a>`;
      },
      image({ href, text: shown }) {
        return `<img src="${escape(linkTo(href))}" alt="${escape(shown)}" loading="lazy">`;
      },
      code({ text: code, lang }) {
        return `<pre tabindex="0"${lang ? ` data-language="${escape(lang)}"` : ''}><code>${escape(code)}</code></pre>\n`;
      },
      table(token) {
        const row = (cells, tag) => `<tr>${cells.map((cell) =>
          `<${tag}${cell.align === 'right' ? ' class="right"' : ''}>${this.parser.parseInline(cell.tokens)}</${tag}>`).join('')}</tr>`;
        const head = token.header.some((cell) => cell.text) ? `<thead>${row(token.header, 'th')}</thead>` : '';
        return `<div class="table" tabindex="0" role="region" aria-label="Table"><table>${head}<tbody>${token.rows.map((cells) => row(cells, 'td')).join('\n')}</tbody></table></div>\n`;
      },
      html({ text: html }) {
        return html.replace(/<!--.*?-->\s*/gs, '');
      },
      text(token) {
        const shown = token.tokens ? this.parser.parseInline(token.tokens) : token.escaped ? token.text : escape(token.text);
        return shown.replace(/\b(tamis[\w-]*)\(([135])\)/g, (all, name, section) =>
          manuals.has(`${name}.${section}`) ? `<a href="${upFrom(path)}${manuals.get(`${name}.${section}`)}">${all}</a>` : all);
      },
    },
  });
  let html = marked.parse(text);
  // A link within a link: the name of a manual page that is a link already.
  html = html.replace(/<a href="[^"]*">(<a href="[^"]*">[^<]*<\/a>)<\/a>/g, '$1');
  // The text of each section, for the search.
  const parts = html.split(/(?=<h[1-6] id=")/).filter((part) => part.startsWith('<h'));
  const title = headings.find(({ level }) => level === 1)?.text ?? file;
  parts.forEach((part, i) => Object.assign(sections[i], { title, text: plainOf(part.replace(/^<h.*?<\/h\d>/s, '').replace(/<\/(td|th|li|p|pre)>/g, ' ')).replace(/\s+/g, ' ').trim() }));
  return { path, title, html, headings, sections, links };
}

/** A source file as a page, with an anchor for each line. */
export function sourcePage(file, text) {
  const lines = text.replace(/\n$/, '').split('\n').map((line, i) => `<span id="L${i + 1}">${escape(line)}</span>`);
  return `<h1>${escape(file)}</h1>\n<pre class="source" tabindex="0"><code>${lines.join('\n')}</code></pre>`;
}

/** Links to the tools, which follow what the front page says first: what tamis is, and what a filter does. */
const tools = `<section class="tools" aria-label="Tools on this site">
<a href="planner.html"><strong>Choose a filter</strong> Enter the number of keys and a false-positive rate. The page recommends a filter, computes its size, and shows the code.</a>
<a href="file.html"><strong>Open a saved filter</strong> See what a saved filter contains and how full it is, and look up keys in it. The file stays on your computer.</a>
<a href="watch.html"><strong>Watch a filter work</strong> Go step by step through adds, evictions, splits and expiry, in a filter that is small enough to see.</a>
</section>
`;

export function documents(pages, manuals) {
  const { tree, put, copy } = pages;
  const begin = groups.flatMap(([, files]) => files);
  const more = ['docs', 'docs/use', 'docs/internals', 'docs/reference'].flatMap((folder) =>
    readdirSync(join(tree, folder)).filter((name) => name.endsWith('.md')).map((name) => `${folder}/${name}`))
    .filter((file) => !begin.includes(file));
  const waiting = [...begin, ...more, 'js/README.md'];
  const seen = new Set(waiting);
  const summaries = new Map();
  while (waiting.length) {
    const file = waiting.shift();
    const full = join(tree, file);
    const path = pathOf(tree, file);
    let links = [];
    if (statSync(full).isDirectory()) {
      if (existsSync(join(full, 'README.md'))) {
        links = [`${file}/README.md`];
      } else {
        links = readdirSync(full).filter((name) => statSync(join(full, name)).isFile()).map((name) => `${file}/${name}`);
        const items = links.map((link) => `<li><a href="${escape(relative(path, pathOf(tree, link)))}">${escape(basename(link))}</a></li>`);
        put({ path, title: `${file}/`, body: `<h1>${escape(file)}/</h1>\n<ul>${items.join('\n')}</ul>` });
      }
    } else if (file.endsWith('.md')) {
      const page = convert(pages, manuals, file, readFileSync(full, 'utf8'));
      links = page.links;
      summaries.set(file, page);
      const body = file === 'README.md' ? page.html.replace(/<\/h1>\n(<p>.*?<\/p>\n){2}/s, `$&${tools}`) : page.html;
      put({ path, title: page.title, body, headings: page.headings, sections: page.sections });
    } else if (path === file) {
      copy(full, file);
    } else {
      put({ path, title: file, body: sourcePage(file, readFileSync(full, 'utf8')) });
    }
    for (const link of links) {
      if (!seen.has(link)) {
        seen.add(link);
        waiting.push(link);
      }
    }
  }
  putIndex(pages, summaries, more);
}

/** All documents in their groups, each with its first sentence. */
function putIndex({ tree, put }, summaries, more) {
  const path = 'docs/index.html';
  const item = (file) => {
    const { title, sections } = summaries.get(file);
    const first = /^.*?[.:](?= |$)/.exec(sections[0].text)?.[0] ?? '';
    return `<li><a href="${relative(path, pathOf(tree, file))}">${escape(title)}</a> <span>${escape(first.replace(/:$/, '.'))}</span></li>`;
  };
  const all = more.length ? [...groups, ['More', more]] : groups;
  const lists = all.map(([name, files]) => `<section><h2>${name}</h2><ul>${files.map(item).join('\n')}</ul></section>`);
  put({ path, title: 'Documentation', body: `<h1>Documentation</h1>\n<div class="groups">${lists.join('\n')}</div>` });
}
