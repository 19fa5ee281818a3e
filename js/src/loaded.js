// SPDX-License-Identifier: MIT
// The common part of Filter and Reader, whose objects stand for memory outside of JavaScript.

/** The argument of a constructor for a filter that exists already. */
export class Loaded {
  #at;

  constructor(at) {
    this.#at = at;
  }

  get isTaken() {
    return this.#at === null;
  }

  take() {
    const at = this.#at;
    this.#at = null;
    return at;
  }
}

/** An object for the filter at `at`, of the class on which load() was called: `usual` or a class derived from it. */
export function objectOf(Class, usual, at, destroy) {
  const loaded = new Loaded(at);
  try {
    const object = new (Class?.prototype instanceof usual ? Class : usual)(loaded);
    if (!loaded.isTaken)
      throw new TypeError(`the constructor of ${Class.name} must pass its first argument on to super(): load() gives it a filter`);
    return object;
  } finally {
    if (!loaded.isTaken)
      destroy(at);
  }
}

const sentence = 'a filter lies in memory that is not JavaScript\'s: send save(), and load() that';

/** A property that cannot be cloned: without it, structuredClone() and postMessage() would silently make an empty object. */
export const memory = Symbol(sentence);

export function toJSON() {
  throw new TypeError(sentence);
}
