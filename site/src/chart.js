// SPDX-License-Identifier: MIT
// The curve of bits per key over rate, as SVG.

import { shape } from './elements.js';

const from = -0.3, to = -9; // powers of ten of the rates
const perDecade = 12;

/** The rates of the curve, the highest first. */
export const rates = Array.from({ length: Math.round((from - to) * perDecade) + 1 }, (_, i) => 10 ** (from - i / perDecade));

const power = (n) => `1e${n}`;
const label = (n) => (n >= -3 ? String(Number((10 ** n).toFixed(3))) : power(n));

/**
 * Draws into an element, as wide as that.  `series` are { name, line, bits }, with bits per key at each of `rates`, or
 * null where there is no such filter; `mark` is the point that was planned, { rate, bits }.
 */
export function draw(place, series, mark, most) {
  const width = Math.max(280, place.clientWidth), height = Math.min(440, Math.max(300, width * 0.55));
  const left = 44, right = 12, top = 14, bottom = 48;
  const x = (rate) => left + (from - Math.log10(rate)) / (from - to) * (width - left - right);
  const y = (bits) => height - bottom - Math.min(bits, most * 1.2) / most * (height - top - bottom);
  const svg = shape('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-labelledby': 'curve-title' },
    shape('title', { id: 'curve-title' }, 'Bits per key of each filter at each false-positive rate. The table below has the numbers.'));
  const grid = shape('g', { class: 'grid' });
  for (let bits = 0; bits <= most; bits += most > 100 ? 40 : most > 40 ? 10 : 5) {
    grid.append(shape('line', { x1: left, x2: width - right, y1: y(bits), y2: y(bits) }),
      shape('text', { x: left - 6, y: y(bits) + 4, 'text-anchor': 'end' }, String(bits)));
  }
  const step = width < 520 ? 2 : 1;
  for (let n = -1; n >= to; n -= step) {
    grid.append(shape('line', { x1: x(10 ** n), x2: x(10 ** n), y1: top, y2: height - bottom }),
      shape('text', { x: x(10 ** n), y: height - bottom + 18, 'text-anchor': n === to ? 'end' : 'middle' }, label(n)));
  }
  grid.append(shape('text', { x: (left + width) / 2, y: height - 8, 'text-anchor': 'middle' }, 'false-positive rate'),
    shape('text', { x: 12, y: height / 2, 'text-anchor': 'middle', transform: `rotate(-90 12 ${height / 2})` }, 'bits per key'));
  svg.append(grid, shape('clipPath', { id: 'curve-clip' }, shape('rect', { x: left, y: top, width: width - left - right, height: height - top - bottom })));
  const lines = shape('g', { class: 'lines', 'clip-path': 'url(#curve-clip)' });
  for (const { line, bits } of series) {
    let path = '';
    bits.forEach((value, i) => {
      if (value !== null)
        path += `${i > 0 && bits[i - 1] !== null ? 'L' : 'M'}${x(rates[i]).toFixed(1)} ${y(value).toFixed(1)}`;
    });
    if (path)
      lines.append(shape('path', { d: path, class: `line ${line}` }));
  }
  svg.append(lines);
  if (mark && mark.rate >= 10 ** to && mark.rate <= 10 ** from) {
    svg.append(shape('line', { class: 'mark', x1: x(mark.rate), x2: x(mark.rate), y1: top, y2: height - bottom }));
    if (mark.bits <= most)
      svg.append(shape('circle', { class: 'mark', cx: x(mark.rate), cy: y(mark.bits), r: 5 }));
  }
  place.replaceChildren(svg);
}
