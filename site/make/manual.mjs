// SPDX-License-Identifier: MIT
// The manual pages as pages of the site, by mandoc.
import { execFileSync } from 'node:child_process';
import { lstatSync, readFileSync, readdirSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { escape, plainOf } from './template.mjs';

/** What mandoc makes of a page: without its first and last line, and one level down in headings. */
function htmlOf(file, pageOfName) {
  const html = execFileSync('mandoc', ['-T', 'html', '-O', 'fragment,man=manual:%N.%S', file], { encoding: 'utf8' });
  return html
    .replace(/<table class="(head|foot)">.*?<\/table>/gs, '')
    .replace(/ style="[^"]*"/g, '')
    .replace(/<(\/?)h2\b/g, '<$1h3').replace(/<(\/?)h1\b/g, '<$1h2')
    .replace(/<table class="tbl"[^>]*>/g, '<div class="table" tabindex="0" role="region" aria-label="Table"><table>').replace(/<\/table>/g, '</table></div>')
    .replace(/<pre>/g, '<pre tabindex="0">')
    .replace(/<a class="Xr" href="manual:([^"]*)"[^>]*>(.*?)<\/a>/gs, (_all, name, text) => (pageOfName.has(name) ? `<a class="Xr" href="${basename(pageOfName.get(name))}">${text}</a>` : text));
}

const wordsOf = (html) => plainOf(html, ' ').replace(/\s+/g, ' ').trim();

/**
 * Puts a page for each manual page below the folder.  Returns where each name lies, as "tamis_add.3", and what is
 * said of each page: { path, section, names, phrase }.
 */
export function manual({ put }, folder) {
  const pageOfName = new Map(), files = [];
  for (const section of [1, 3, 5]) {
    for (const name of readdirSync(join(folder, `man${section}`)).sort()) {
      const file = join(folder, `man${section}`, name);
      pageOfName.set(name, `man/${basename(realpathSync(file))}.html`);
      if (!lstatSync(file).isSymbolicLink())
        files.push({ file, name, section });
    }
  }
  const pages = files.map(({ file, name, section }) => {
    const path = `man/${name}.html`;
    const title = name.replace(/\.(\d)$/, '($1)');
    const html = htmlOf(file, pageOfName);
    const headings = [...html.matchAll(/<h([23])[^>]* id="([^"]*)">(.*?)<\/h\d>/gs)].map(([, level, id, text]) => ({ level: Number(level), id, text: wordsOf(text) }));
    const sections = html.split(/(?=<h2)/).flatMap((part) => {
      const heading = /<h2[^>]* id="([^"]*)">(.*?)<\/h2>/s.exec(part);
      return heading ? [{ title, section: wordsOf(heading[2]), path: `${path}#${heading[1]}`, text: wordsOf(part.replace(heading[0], '')) }] : [];
    });
    const phrase = wordsOf(/<span class="Nd">(.*?)<\/span>/s.exec(html)?.[1] ?? '');
    put({ path, title, body: `<h1>${escape(title)}</h1>\n<div class="manual">${html}</div>`, headings, sections });
    const names = [...pageOfName].filter(([, to]) => to === path).map(([other]) => other.replace(/\.\d$/, ''));
    return { path, title, section, names, phrase, text: readFileSync(file, 'utf8') };
  });
  return { pageOfName, pages };
}
