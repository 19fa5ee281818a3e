/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what a Bloom filter consists of.
 *
 *    bloom.c        the kind: sizes, creation, figures, validation
 *    operations.c   look-up, add and unique add; the essay on why they are correct is there
 *    word_layout.h  what is different in the layout of one word, with an essay of its own
 *    capacity.h     what an add counts, and when it is refused
 *    unite.c        union, intersection and similarity of two filters
 *    save.c         saved, loaded and mapped filters
 *    geometry.*     layer 0: how many bits a promise needs, and which of them belong to a key
 */
#ifndef TAMIS_LIB_BLOOM_H
#define TAMIS_LIB_BLOOM_H

#include "base/counter.h"
#include "base/filter.h"
#include "base/saved.h"
#include "base/stripe.h"
#include "base/word.h"
#include "bloom/geometry.h"

extern const struct filter_kind tamis__bloom_kind;

/* KEYS: adds that set bits in their last gap.  BITS: bits set; counted if the filter is limited.
 * UNITED: further keys, which a union or an intersection has brought, as unite.c estimates them.
 * REFUSED: adds that were refused. */
enum bloom_counter { KEYS, BITS, UNITED, REFUSED };

/* Whether a filter that must not outgrow its capacity comes near to it.  It only goes up. */
enum bloom_fullness { OPEN, NEAR, FULL };

struct bloom {
  struct tamis_filter head;
  struct bloom_geometry geometry;
  word *words;
  struct stripes stripes; /* none in the word layout */
  struct counters counters;
  uint64_t bytes;
  bool limited;    /* not growable: keys past the capacity are refused */
  double max_bits; /* more bits than this mean that more than `capacity` distinct keys are in */
  _Alignas(64) _Atomic int fullness; /* on a line of its own, as it is written at most twice */
  /* These do not change: */
  unsigned stripes_wanted;      /* by the user; 0: chosen by the library */
  uint64_t max_bytes;           /* of the options */
  struct saved_mapping mapping; /* where the words are; at == NULL: in memory of their own */
};

static inline struct bloom *bloom_of(tamis_filter *f)
{
  return (struct bloom *) f;
}

static inline const struct bloom *const_bloom_of(const tamis_filter *f)
{
  return (const struct bloom *) f;
}

const struct filter_operations *tamis__bloom_operations(struct bloom_shape shape);

/* What a filter is made of. */
struct bloom_plan {
  struct bloom_geometry geometry;
  unsigned stripes_wanted;
  uint64_t max_bytes;
  bool limited;
  double max_bits; /* 0: computed */
};

/* The bytes that it takes beside its words. */
uint64_t tamis__bloom_bytes_beside(const struct bloom_plan *plan);

/* Creates a filter with words that are there already, and that are released with it unless a file is
 * mapped.  NULL: there is no memory, and the words are still the caller's.  */
struct bloom *tamis__bloom_create(const struct tamis_filter *head, const struct bloom_plan *plan,
                                  word *words, const struct saved_mapping *mapping);

/* Fills in what follows from out->bits_set. */
void tamis__bloom_estimate(const struct bloom_geometry *g, tamis_stats *out);

void tamis__bloom_figures(const struct saved_head *saved, tamis_stats *out);
uint64_t tamis__bloom_saved_beside(const struct saved_head *saved);
void tamis__bloom_describe(const tamis_filter *f, struct saved_head *out);
int tamis__bloom_save(const tamis_filter *f, struct saved_writer *w);
int tamis__bloom_load(struct saved_reader *r, const struct saved_head *saved,
                      const struct tamis_filter *head, tamis_filter **out);

/* near_capacity() of capacity.h, which this header cannot include. */
bool tamis__bloom_near_capacity(const struct bloom *b);

/* A filter without keys that looks like another one.  Returns TAMIS_OK or TAMIS_ENOMEM. */
int tamis__bloom_create_like(const struct bloom *model, struct bloom **out);

/* The members of struct filter_kind. */
int tamis__bloom_merge(tamis_filter *into, const tamis_filter *from);
int tamis__bloom_intersect(const tamis_filter *a, const tamis_filter *b, tamis_filter **out);
int tamis__bloom_similarity(const tamis_filter *a, const tamis_filter *b,
                            tamis_similarity_stats *out);

#endif
