/* SPDX-License-Identifier: MIT
 *
 * An array of keys that is read without the GIL: the elements of a buffer (numpy, array, memoryview),
 * or of an Arrow array (pyarrow, polars).
 */
#ifndef TAMIS_PYTHON_COLUMN_H
#define TAMIS_PYTHON_COLUMN_H

#include "module.h"

enum column_form {
  COLUMN_INTEGERS, /* of `width` bytes */
  COLUMN_BYTES,    /* `width` bytes, without the zeros at their end: numpy's S */
  COLUMN_WHOLE,    /* `width` bytes: numpy's V, rows of uint8, Arrow's fixed-size binary */
  COLUMN_TEXT,     /* `width` code points of 4 bytes, without the zeros at their end: numpy's U */
  COLUMN_OFFSETS,  /* Arrow's text and binary: n + 1 offsets of `width` bytes into `values` */
  COLUMN_VIEWS,    /* Arrow's views: 16 bytes that have the key, or say where it is in `blocks` */
};

struct column {
  enum column_form form;
  bool is_signed;
  const char *first; /* the first element, or its offset or view */
  ptrdiff_t stride;  /* from one element to the next, in bytes */
  size_t n, width;
  const char *values;
  const void *const *blocks;
  size_t blocks_n;
  const unsigned char *present; /* a bit for each element, or NULL: all are there */
  size_t present_offset;        /* the first element's bit */
};

/* Some keys of a column. */
#define PIECE 256
/* Keys of which arrays are read between two looks for Ctrl-C. */
#define SIGNALS_EACH ((size_t) 1 << 18)
struct piece {
  tamis_key keys[PIECE];
  uint64_t numbers[PIECE];
  char *text; /* of COLUMN_TEXT */
};

enum column_source { COLUMN_NONE, COLUMN_READ, COLUMN_FAILED };

/* Reads the head of a buffer: COLUMN_NONE if its elements are none of these forms, COLUMN_FAILED with
 * an exception if it has no one dimension. */
enum column_source column_of_buffer(const Py_buffer *view, struct column *column);

/* Whether all elements are keys; else false with an exception. */
bool column_check(const struct column *column);

/* ---- without the GIL ---- */

/* How many keys at most a piece of the column has; and the bytes that `text` needs. */
size_t column_piece(const struct column *column);
size_t column_room(const struct column *column);
/* Keys `from` to `from + n` of the column, for n up to column_piece(). */
void column_keys(const struct column *column, size_t from, size_t n, struct piece *piece);

/* ---- Arrow ---- */

struct ArrowSchema;
struct ArrowArray;
struct ArrowArrayStream;

/* An array, or a stream of arrays, that an object has given out as capsules. */
struct arrow {
  PyObject *capsules; /* keeps what follows alive */
  struct ArrowSchema *schema;
  struct ArrowArray *array; /* NULL: a stream */
  struct ArrowArrayStream *stream;
};

/* COLUMN_NONE: the object gives out no Arrow array. */
enum column_source arrow_open(PyObject *object, struct arrow *arrow);
/* Calls use(context, column) for each array in turn, until one returns false. */
bool arrow_each(struct arrow *arrow, bool (*use)(void *, const struct column *), void *context);
void arrow_close(struct arrow *arrow);

#endif /* TAMIS_PYTHON_COLUMN_H */
