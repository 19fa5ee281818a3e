// SPDX-License-Identifier: MIT
// Pictures of how full the parts of a filter are.
import { shape } from './elements.js';
import { percent } from './numbers.js';

const mostCells = 512;

/** Fills that are many, as fewer means of neighbours: [{ fill, first, last }]. */
export function grouped(fills, most = mostCells) {
  const size = Math.ceil(fills.length / most);
  const groups = [];
  for (let first = 0; first < fills.length; first += size) {
    const part = fills.slice(first, first + size);
    groups.push({ fill: part.reduce((sum, fill) => sum + fill, 0) / part.length, first, last: first + part.length - 1 });
  }
  return groups;
}

/** A picture with a cell for each fill, from 0 to 1; `what` names a cell. */
export function picture(fills, what, title) {
  const cells = grouped(fills);
  const columns = cells.length > 256 ? 64 : cells.length > 32 ? 32 : 16;
  const rows = Math.ceil(cells.length / columns);
  const size = 10;
  const svg = shape('svg', { class: 'fills', viewBox: `0 0 ${columns * size} ${rows * size}`, role: 'img', 'aria-label': title });
  cells.forEach(({ fill, first, last }, i) => {
    const x = (i % columns) * size, y = Math.floor(i / columns) * size;
    const name = first === last ? `${what} ${first + 1}` : `${what}s ${first + 1} to ${last + 1}`;
    svg.append(shape('g', {}, shape('title', {}, `${name}: ${percent(fill)}`),
      shape('rect', { class: 'cell', x: x + 0.5, y: y + 0.5, width: size - 1, height: size - 1 }),
      shape('rect', { class: 'full', x: x + 0.5, y: y + 0.5 + (size - 1) * (1 - fill), width: size - 1, height: (size - 1) * fill })));
  });
  return svg;
}

/** Bars of how many of something there are: [[name, count], …]. */
export function bars(counts, title) {
  const most = Math.max(1, ...counts.map(([, count]) => count));
  const all = Math.max(1, counts.reduce((sum, [, count]) => sum + count, 0));
  const size = 10, height = 24;
  const svg = shape('svg', { class: 'fills bars', viewBox: `0 0 ${Math.max(16, counts.length) * size} ${height}`, role: 'img', 'aria-label': title });
  counts.forEach(([name, count], i) => {
    const tall = count / most * (height - 2);
    svg.append(shape('g', {}, shape('title', {}, `${name}: ${percent(count / all)}`),
      shape('rect', { class: 'cell', x: i * size + 0.5, y: 1, width: size - 1, height: height - 2 }),
      shape('rect', { class: 'full', x: i * size + 0.5, y: height - 1 - tall, width: size - 1, height: tall })));
  });
  return svg;
}

/** A bar of the parts of a file, and below it a mark for each slice that was read. */
export function map(parts, reads, size) {
  const width = 1000;
  const x = (offset) => offset / size * width;
  const svg = shape('svg', { class: 'map', viewBox: `0 0 ${width} 40`, preserveAspectRatio: 'none', role: 'img', 'aria-label': 'The parts of the file from the beginning to the end, with marks where this page has read' });
  svg.append(shape('rect', { class: 'cell', x: 0, y: 0, width, height: 22 }));
  // Neighbours of one name are one part here.
  const merged = [];
  for (const part of [...parts].sort((a, b) => a.at - b.at)) {
    const before = merged.at(-1);
    if (before && kindOf(before.name) === kindOf(part.name) && part.at - before.end < size / 500)
      before.end = part.at + part.size;
    else
      merged.push({ ...part, end: part.at + part.size });
  }
  for (const { name, at, end } of merged.slice(0, 2000))
    svg.append(shape('rect', { class: `part ${kindOf(name)}`, x: x(at), y: 0, width: Math.max(1.5, x(end) - x(at)), height: 22 }));
  const marks = new Set(reads.map(([at]) => Math.round(x(at) * 2) / 2));
  for (const mark of marks)
    svg.append(shape('rect', { class: 'read', x: mark, y: 26, width: 1.5, height: 14 }));
  return svg;
}

/** The class of a part's colour. */
export const kindOf = (name) => (/^(layer|segment)/.test(name) ? 'array' : name);
