// SPDX-License-Identifier: MIT
// What the objects of Filter and Reader have in common: each stands for memory that is not JavaScript's.

/** What a constructor gets for a filter that is there already. */
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

/** An object of the class on which load() was called, which is `usual` or extends that, for what lies at `at`. */
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

/** A property that cannot be cloned: structuredClone() and postMessage() would make an empty object in silence. */
export const memory = Symbol(sentence);

export function toJSON() {
  throw new TypeError(sentence);
}
