/* SPDX-License-Identifier: MIT
 *
 * A saved filter, cut into its parts so that they can be changed, and put together again with right
 * sums: so changes reach what is behind the sums.  docs/reference/format.md describes the container.
 */
#ifndef TAMIS_TESTS_FUZZ_PARTS_H
#define TAMIS_TESTS_FUZZ_PARTS_H

#include "base/saved.h"

enum { PARTS = 256, PARTS_ROOM = 1 << 21 };

enum part_kind {
  PART_BLOCK,
  PART_ARRAY, /* with its sums */
  PART_REST   /* bytes that are none of these */
};

struct part {
  enum part_kind kind;
  uint32_t type, zero; /* those of a block */
  uint64_t meanings[SAVED_MEANINGS];
  uint64_t said; /* its size, as it says */
  uint64_t number, sum;
  unsigned char *data;
  size_t size;
};

struct parts {
  unsigned char header[SAVED_HEADER];
  struct part part[PARTS];
  unsigned n;
  bool has_trailer;
  unsigned char trailer[SAVED_UNIT];
  unsigned char room[PARTS_ROOM]; /* for the data of all parts */
  size_t used;
};

/* What parts_join() makes right again.  The rest stays as it was. */
enum {
  REPAIR_HEADER = 1,
  REPAIR_BLOCKS = 2,
  REPAIR_ARRAYS = 4,
  REPAIR_TRAILER = 8, /* all but the totals of the kind */
  REPAIR_COUNTS = 16, /* what the kind counts, and its totals */
  REPAIR_ALL = 31
};

/* False: the data is too short, or too much. */
bool parts_split(struct parts *p, const unsigned char *data, size_t size);

/* Returns how many bytes have been written; 0: there is not enough room. */
size_t parts_join(struct parts *p, unsigned repair, unsigned char *to, size_t room);

static inline size_t round_up(size_t x, size_t unit)
{
  return (x + unit - 1) / unit * unit;
}

/* Room for `size` bytes; NULL: there is none. */
unsigned char *parts_room(struct parts *p, size_t size);

/* Counts again what the kind counts (recount.c). */
void parts_recount(struct parts *p);

#endif
