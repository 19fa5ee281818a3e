// SPDX-License-Identifier: MIT

/** The error that a call throws when the library refuses it.  The message comes from the library. */
export class TamisError extends Error {
  /** The name of the result in C, without TAMIS_: for example 'EFULL'. */
  readonly code: 'EINVAL' | 'ENOMEM' | 'EFULL' | 'EUNSUPPORTED' | 'EIO' | 'ECORRUPT';
}
/** An option or an argument is outside its range, or two filters do not fit together. */
export class InvalidError extends TamisError {}
/** Memory was refused. */
export class MemoryError extends TamisError {}
/** A limit is reached, such as maxBytes, or the capacity of a filter that does not grow. */
export class FullError extends TamisError {}
/** The kind of filter, or the version of the library, cannot do that. */
export class UnsupportedError extends TamisError {}
/** The data that was to be loaded is not a complete saved filter. */
export class CorruptError extends TamisError {}
