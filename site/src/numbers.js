// SPDX-License-Identifier: MIT
// Numbers as people write them, and as they read them.

const units = { '': 1, k: 1e3, m: 1e6, g: 1e9, t: 1e12 };

/** A number of keys, such as "250 000", "10M", "1e9" or "10^9"; null if the text is none. */
export function parseCount(text) {
  const plain = text.trim().replace(/[\s,_']/g, '');
  const power = /^10(?:\^|\*\*)(\d{1,2})$/.exec(plain);
  const parts = /^(\d+(?:\.\d*)?(?:e\+?\d{1,2})?)([kmgt]?)$/i.exec(plain);
  const value = power ? 10 ** power[1] : parts ? Number(parts[1]) * units[parts[2].toLowerCase()] : NaN;
  return Number.isSafeInteger(value) && value >= 1 ? value : null;
}

/** A rate above 0 and below 1, such as "0.01", "1 %", "1 in 1000", "1/1000" or "1e-6"; null if the text is none. */
export function parseRate(text) {
  const plain = text.trim().replace(/\s+/g, ' ');
  const number = '(\\d*\\.?\\d+(?:e[-+]?\\d{1,3})?)';
  const of = new RegExp(`^${number} ?(?:in|of|/) ?${number}([kmgt]?)$`, 'i').exec(plain.replaceAll(',', ''));
  const one = new RegExp(`^${number} ?(%?)$`, 'i').exec(plain);
  const value = of ? Number(of[1]) / (Number(of[2]) * units[of[3].toLowerCase()]) : one ? Number(one[1]) / (one[2] ? 100 : 1) : NaN;
  return value > 0 && value < 1 ? value : null;
}

/** With so many significant digits, and without zeros at the end. */
export function significant(value, digits) {
  if (value === 0)
    return '0';
  if (value < 1e-3)
    return value.toExponential(digits - 1).replace(/\.?0*e/, 'e');
  const text = Number(value.toPrecision(digits));
  return text >= 1e6 ? text.toLocaleString('en') : String(text);
}

const sizes = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** "1.29 MB". */
export function shortBytes(bytes) {
  const step = bytes < 1000 ? 0 : Math.min(sizes.length - 1, Math.floor(Math.log10(bytes) / 3));
  return `${significant(bytes / 1000 ** step, 3)} ${sizes[step]}`;
}

export const whole = (value) => Math.round(value).toLocaleString('en');
export const plural = (n, what) => `${whole(n)} ${what}${n === 1 ? '' : 's'}`;
export const percent = (part) => `${significant(100 * part, 3)} %`;

/** A rate, and what that means: "0.01 (1 in 100)". */
export function rateText(rate) {
  const one = 1 / rate;
  return `${significant(rate, 2)} (1 in ${one < 100 ? significant(one, 2) : whole(Number(one.toPrecision(2)))})`;
}
