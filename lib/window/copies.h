/* SPDX-License-Identifier: MIT
 *
 * Layer 2: how many copies of a key a window of the cuckoo kind has.
 *
 * An entry stands for one copy.  A *record* says how many more there are:
 *
 *    (layer, lower bucket, fingerprint)  ──►  further copies, stamp
 *
 * Each stripe has a hash table of records, of all entries whose lower bucket it covers.  A move
 * changes nothing of what names an entry, so its record stays where it is.  Whoever reads or
 * changes a record holds that stripe.  Whoever changes the stamp of an entry holds the stripes of
 * both buckets, and gives the record the same stamp.  So a sweep clears the records with the dead
 * stamp in the tables alone, and until it has come by, a record with the dead stamp counts as none:
 * [R] in remove.c.
 */
#ifndef TAMIS_LIB_WINDOW_COPIES_H
#define TAMIS_LIB_WINDOW_COPIES_H

#include "window/table.h"

/* What names an entry. */
struct window_name {
  uint64_t place; /* its layer and its lower bucket */
  uint64_t fingerprint;
};

struct window_record {
  uint64_t place;
  uint32_t fingerprint, stamp;
  uint64_t further; /* copies beyond the first; 0: the slot is empty */
};

/* The records of a stripe: open addressing, and a record that goes leaves no mark. */
struct window_copies {
  struct window_record *records; /* NULL: there are none */
  uint64_t used;                 /* records */
  unsigned bits;                 /* log2 of the slots */
  /* The sum of all further copies.  Relaxed: it is written under the stripe, and who reads it
   * without wants no more than a figure. */
  _Atomic uint64_t sum;
};

/* No key has more copies. */
static const uint64_t window_most_copies = UINT64_C(1) << 53;

static inline struct window_name window_name(const struct window_layer *layer, uint64_t lower,
                                             uint64_t fingerprint)
{
  return (struct window_name){(uint64_t) layer->number << 58 | lower, fingerprint};
}

static inline bool window_is_in(const struct window_layer *layer, const struct window_name *name)
{
  return name->place >> 58 == layer->number;
}

/* The records of the entries with this lower bucket. */
static inline struct window_copies *
window_copies_of(const struct window *w, const struct window_layer *layer, uint64_t lower)
{
  uint64_t block = window_word_of(layer->geometry.bucket_shift, lower) >> layer->block_shift;
  return &w->copies[block & w->stripes.mask];
}

static inline uint64_t window_copies_sum(const struct window_copies *c)
{
  return atomic_load_explicit(&c->sum, memory_order_relaxed);
}

/* ---- the caller holds the stripe ---- */

/* How many further copies of an entry there are. */
uint64_t tamis__window_further(const struct window_copies *c, const struct window_name *name,
                               unsigned dead);

/* Whether there is a record of an entry, or room for one. */
bool tamis__window_has_room(const struct window_copies *c, const struct window_name *name);

/* Says how many there are, and the stamp of the entry.  False: there is no room for a further
 * record, and nothing has changed. */
bool tamis__window_record(struct window_copies *c, const struct window_name *name, unsigned stamp,
                          uint64_t further);

/* Clears the records with the dead stamp. */
void tamis__window_forget_records(struct window_copies *c, unsigned dead);

/* Whether a smaller table, or none, would do.  The smallest one always stays. */
bool tamis__window_is_too_large(const struct window_copies *c);

/* ---- the caller holds no stripe ---- */

/* Gives the records of a stripe a table in which there is room for so many more, and that is not
 * much too large.
 *   Errors  TAMIS_EFULL: max_bytes is reached; TAMIS_ENOMEM */
int tamis__window_fit_records(struct window *w, struct window_copies *c, uint64_t more);

/* As tamis__window_further(), of an entry that is in use, in the running period. */
uint64_t tamis__window_read_further(const struct window *w, const struct window_layer *layer,
                                    uint64_t lower, uint64_t fingerprint);

/* The sum of all further copies. */
uint64_t tamis__window_all_further(const struct window *w);

/* Releases all records. */
void tamis__window_destroy_copies(struct window *w);

#endif
