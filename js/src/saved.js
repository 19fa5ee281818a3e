// SPDX-License-Identifier: MIT
// Loading, for both the whole package and the reader.
import { errorOf } from './errors.js';
import { bytesGiven, bytesIn, readParts, sourceOf } from './source.js';

const HEADER = 512; // bytes

/** Calls `work` with a source of bytes. */
export function withSource(core, source, work) {
  core.source = source;
  try {
    return work();
  } finally {
    core.source = null;
  }
}

function limitOf(options = {}) {
  if (typeof options !== 'object' || options === null)
    throw new TypeError('the options of a load are an object, such as { maxBytes: 100000000 }');
  for (const name of Object.keys(options))
    if (name !== 'maxBytes')
      throw new TypeError(`a load has no option ${name}, only maxBytes`);
  const { maxBytes } = options;
  if (maxBytes === undefined)
    return 0n;
  if (!Number.isSafeInteger(maxBytes) || maxBytes < 1)
    throw new RangeError(`maxBytes is ${maxBytes}; it must be a whole number from 1 on`);
  return BigInt(maxBytes);
}

function refuse(core, result) {
  throw errorOf(result, core.text(core.exports.phrase(result)));
}

const PACKED = 'p'.codePointAt(0); // at 6: a small filter without its zeros

/** Whether the bytes are the file of a shared filter, in which unused space follows the filter. */
const isLive = (header) => header.length > 16 && header[6] !== PACKED && (header[16] & 4) !== 0;

function loadFrom(core, source, limit, live) {
  const filter = withSource(core, source, () => core.exports.load(limit));
  if (!filter)
    refuse(core, core.exports.result());
  if (!live && !source.ended()) {
    core.exports.destroy(filter);
    refuse(core, -6);
  }
  return filter;
}

/** A file has fewer bytes than this for each byte of a filter's memory, plus a constant. */
const mostInFile = (limit) => 4 * Number(limit) + 2 ** 20;

/** Refuses data that does not begin as a saved filter, before all of the data has come. */
function checkHeader(core, header) {
  const result = withSource(core, sourceOf([header]), () => core.exports.info());
  if (result < 0 && !isLive(header)) // the figures of which stand behind the header
    refuse(core, result);
}

/** Loads a filter, and returns its address. */
export async function load(core, data, options) {
  const limit = limitOf(options);
  await core.init();
  const bytes = bytesIn(data);
  if (bytes)
    return loadFrom(core, sourceOf([bytes]), limit, isLive(bytes));
  let live = false;
  const parts = await readParts(data, {
    headerBytes: HEADER,
    checkHeader: (header) => {
      live = isLive(header);
      checkHeader(core, header);
    },
    most: limit ? mostInFile(limit) : Infinity,
    tooMany: () => refuse(core, -3),
  });
  return loadFrom(core, sourceOf(parts), limit, live);
}

export function loadSync(core, data, options) {
  const bytes = bytesGiven('loadSync()', data);
  return loadFrom(core, sourceOf([bytes]), limitOf(options), isLive(bytes));
}
