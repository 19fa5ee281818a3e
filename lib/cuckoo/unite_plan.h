/* SPDX-License-Identifier: MIT
 *
 * Layer 2: whether a union can be, and what it costs of the rate.
 */
#ifndef TAMIS_LIB_CUCKOO_UNITE_PLAN_H
#define TAMIS_LIB_CUCKOO_UNITE_PLAN_H

#include "cuckoo/directory.h"

#include <math.h>

/* ---- geometries ---- */

static inline bool cuckoo_same_geometry(const struct cuckoo_geometry *g,
                                        const struct cuckoo_geometry *h)
{
  return g->shape.width == h->shape.width && g->shape.ages == h->shape.ages &&
         g->first_roots == h->first_roots && g->later == h->later &&
         g->root_shift == h->root_shift && g->pair_bits == h->pair_bits &&
         g->depth_limit == h->depth_limit && g->uneven_at == h->uneven_at;
}

/* The bits of the hash string after root0 that lead to a bucket. */
static inline unsigned cuckoo_place_bits(const struct cuckoo_geometry *g)
{
  return g->root_shift + g->pair_bits;
}

/* Those that every entry knows. */
static inline unsigned cuckoo_least_bits(const struct cuckoo_geometry *g)
{
  return cuckoo_place_bits(g) + 63 - g->fixed_shift;
}

/* The rate of an entry that knows so many bits. */
static inline double cuckoo_entry_rate(const struct cuckoo_geometry *g, unsigned bits)
{
  return ldexp(1, -(int) bits) / (double) g->first_roots;
}

/* Whether an entry of another generation that knows so many bits can be put into one.  A hash
 * string is known here as far as one word holds it. */
static inline bool cuckoo_can_take(const struct cuckoo_geometry *to,
                                   const struct cuckoo_geometry *from, unsigned bits)
{
  return cuckoo_same_geometry(to, from) || (bits < 64 ? bits : 64) >= cuckoo_least_bits(to);
}

/* ---- plans ---- */

/* What the entries of a generation are. */
struct survey {
  double entries, rate;
};

struct union_plan {
  double excess;           /* of the rate */
  double former, reserved; /* the excess of `into` without it and with it */
  double rate;             /* of generations that are to be opened */
  unsigned deepest;        /* segments of the newest generation, if they take entries */
  struct generation *newest;
  unsigned splits; /* of the newest generation, which the union has taken from its limit */
  double before[CUCKOO_MAX_GENERATIONS]; /* entries of the generations of `into` */
  double taken[CUCKOO_MAX_GENERATIONS];  /* entries that they are to take */
};

/* Whether the union can be.  Nothing is changed.
 *   TAMIS_EFULL         a filter that does not grow would hold more than its capacity, or there
 *                       would be too many copies
 *   TAMIS_EUNSUPPORTED  the union has no room for entries of `from` that know too little for other
 *                       places */
int tamis__union_plan(const struct cuckoo *into, const struct cuckoo *from,
                      struct union_plan *plan);

/* Reserves the excess that is planned, of a filter that has growth.
 *   TAMIS_EUNSUPPORTED  the union could not keep its rate; nothing is changed */
int tamis__union_reserve(struct cuckoo *into, struct union_plan *plan);

/* After the union: what was reserved becomes what it is.  `come`: the entries that have come to
 * each generation.  `failed`: the splits that the union has taken come back as far as these entries
 * leave the rate for them. */
void tamis__union_settle(struct cuckoo *c, const struct union_plan *plan, const struct survey *come,
                         bool failed);

#endif
