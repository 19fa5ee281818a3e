// SPDX-License-Identifier: MIT
// Looks up passwords in a list that attackers know, in the browser, so that no password leaves the page.
import { Reader } from './tamis/src/reader.js';

export class Known {
  #reader = null;
  #tag = null;

  /** `maxBytes`: the memory that a list may take, whatever the server sends. */
  constructor(url, { maxBytes }) {
    this.url = url;
    this.maxBytes = maxBytes;
  }

  /**
   * Loads the server's list if it is not the list that the page has, and returns whether it did.  If the list does not
   * load (damaged, cut off, too large, no connection), this throws an error, and the page keeps the list that it has.
   */
  async refresh() {
    const response = await fetch(this.url, { cache: 'no-cache' }); // asks with If-None-Match; 304 brings no bytes
    const tag = response.headers.get('etag');
    if (!response.ok || (tag !== null && tag === this.#tag)) {
      await response.body?.cancel();
      if (!response.ok)
        throw new Error(`${this.url}: ${response.status}`);
      return false;
    }
    const reader = await Reader.load(response.body, { maxBytes: this.maxBytes });
    this.#reader?.free();
    this.#reader = reader;
    this.#tag = tag;
    return true;
  }

  get isLoaded() {
    return this.#reader !== null;
  }

  /** False: the password is not in the list.  True: it is in the list, or is a false positive. */
  has(password) {
    return this.#reader.has(password.normalize('NFC'));
  }
}
