// SPDX-License-Identifier: MIT
/** The error that a call throws when the library refuses it.  `code` is the name of the result, as in C. */
export class TamisError extends Error {
  /** @param {string} message @param {string} code */
  constructor(message, code) {
    super(message);
    this.name = new.target.name;
    this.code = code;
  }
}

/** An option or an argument is outside its range, or filters do not fit together. */
export class InvalidError extends TamisError {}
/** Memory was refused. */
export class MemoryError extends TamisError {}
/** A limit is reached: the capacity of a filter that does not grow, or maxBytes. */
export class FullError extends TamisError {}
/** The kind of filter, or the version of the library, cannot do that. */
export class UnsupportedError extends TamisError {}
/** The data that was to be loaded is not a complete saved filter. */
export class CorruptError extends TamisError {}

const classes = {
  '-1': [InvalidError, 'EINVAL'],
  '-2': [MemoryError, 'ENOMEM'],
  '-3': [FullError, 'EFULL'],
  '-4': [UnsupportedError, 'EUNSUPPORTED'],
  '-5': [TamisError, 'EIO'],
  '-6': [CorruptError, 'ECORRUPT'],
};

/** The error for a result below 0. */
export function errorOf(result, message) {
  const [Class, code] = classes[result] ?? [TamisError, 'EINVAL'];
  const hint = Class === MemoryError ? '; free() gives a filter back at once, and one that is forgotten waits until the program does' : '';
  return new Class(message + hint, code);
}
