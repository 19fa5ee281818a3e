/* SPDX-License-Identifier: MIT
 *
 * Layer 2: plans a union: whether it is possible, and how much it adds to the rate.
 */
#ifndef TAMIS_LIB_CUCKOO_UNITE_PLAN_H
#define TAMIS_LIB_CUCKOO_UNITE_PLAN_H

#include "cuckoo/directory.h"

#include <math.h>

static inline bool cuckoo_same_geometry(const struct cuckoo_geometry *g,
                                        const struct cuckoo_geometry *h)
{
  return g->shape.width == h->shape.width && g->shape.ages == h->shape.ages &&
         g->first_roots == h->first_roots && g->later == h->later &&
         g->root_shift == h->root_shift && g->pair_bits == h->pair_bits &&
         g->depth_limit == h->depth_limit && g->uneven_at == h->uneven_at;
}

/* The false-positive rate that an entry adds if it knows `bits` bits after root0 (geometry.h). */
static inline double cuckoo_entry_rate(const struct cuckoo_geometry *g, unsigned bits)
{
  return ldexp(1, -(int) bits) / (double) g->first_roots;
}

/* Whether generation `to` can take an entry of generation `from` that knows `bits` bits after
 * root0.  (Between different geometries, unions use only 64 bits of the hash string.) */
static inline bool cuckoo_can_take(const struct cuckoo_geometry *to,
                                   const struct cuckoo_geometry *from, unsigned bits)
{
  return cuckoo_same_geometry(to, from) || (bits < 64 ? bits : 64) >= cuckoo_least_bits(to);
}

/* The number of entries in a set, and the sum of the false-positive rates that they add. */
struct survey {
  double entries, rate;
};

struct union_plan {
  struct cuckoo *into;
  double excess; /* the excess (unite_plan.c) that is reserved for the union */
  double former; /* the excess of `into` before the union reserves more */
  double rate;   /* the rate of the generations that the union will open */
  struct generation *newest;
  unsigned splits;                       /* how much the union lowers newest->split_limit */
  double before[CUCKOO_MAX_GENERATIONS]; /* the number of entries in each generation of `into` */
  double taken[CUCKOO_MAX_GENERATIONS];  /* how many entries each generation of `into` will get */
  struct survey come[CUCKOO_MAX_GENERATIONS]; /* the entries added to each so far */
};

/* Checks whether the union is possible, and reserves the excess that it adds.  Sets *plan.
 *   TAMIS_EFULL         a fixed filter would have more entries than its capacity, the number of
 *                       copies would be too large, or max_bytes has no room for the growth
 *   TAMIS_ENOMEM        memory for the growth was refused
 *   TAMIS_EUNSUPPORTED  no room for entries that only some generations take, or too high a rate */
int tamis__union_begin(struct cuckoo *into, const struct cuckoo *from, struct union_plan *plan);

/* After the union, replaces the reserved excess by the actual one.  If the union has `failed`,
 * restores the split limit if the rate allows this. */
void tamis__union_settle(const struct union_plan *plan, bool failed);

#endif
