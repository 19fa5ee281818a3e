// SPDX-License-Identifier: MIT
// Saved filters that were made to do harm: test_hostile --record has written them, each with what the library says of
// it in C.  The WebAssembly says the same, as a whole and as the reader, and does not trap.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { Reader } from '../src/node-reader.js';
import { Filter, TamisError } from './package.js';

const recorded = process.env.TAMIS_HOSTILE;
const maxBytes = 2 ** 25; // RECORD_MOST in test_hostile.c
const codes = { 0: 'OK', '-1': 'EINVAL', '-2': 'ENOMEM', '-3': 'EFULL', '-4': 'EUNSUPPORTED', '-6': 'ECORRUPT' };

function* records() {
  const all = readFileSync(recorded);
  for (let at = 0, size; at < all.length; at += 8 + size) {
    size = all.readInt32LE(at);
    yield { said: codes[all.readInt32LE(at + 4)], bytes: all.subarray(at + 8, at + 8 + size) };
  }
}

/** What is said, and the answers of what is loaded. */
function verdict(Class, bytes) {
  let filter;
  try {
    filter = Class.loadSync(bytes, { maxBytes });
  } catch (error) {
    if (!(error instanceof TamisError))
      throw error;
    return [error.code, ''];
  }
  const answers = Array.from({ length: 64 }, (_, i) => Number(filter.has(`key ${i}`))).join('');
  filter.free();
  return ['OK', answers];
}

test('hostile files', { skip: recorded ? false : 'TAMIS_HOSTILE names no file' }, () => {
  let accepted = 0, tried = 0;
  for (const { said, bytes } of records()) {
    const [code, answers] = verdict(Filter, bytes);
    const [ofReader, others] = verdict(Reader, bytes);
    tried++;
    if (bytes[16] & 8) { // a counted table, which WebAssembly leaves out
      assert.notEqual(ofReader, 'OK', `record ${tried}: the reader`);
      continue;
    }
    assert.equal(code, said, `record ${tried}`);
    assert.equal(ofReader, said, `record ${tried}: the reader`);
    assert.equal(answers, others, `record ${tried}: the reader's answers`);
    accepted += said === 'OK';
  }
  assert.ok(tried > 500 && accepted > 50 && accepted < tried, `${accepted} of ${tried} were accepted`);
});
