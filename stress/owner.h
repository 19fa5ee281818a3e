/* SPDX-License-Identifier: MIT
 *
 * An owner: somebody who has keys of its own in a cuckoo filter that others use too, knows how many
 * copies of each are in, makes calls at random, single ones and batches, and judges every answer.
 *
 *    a key of which a copy is in     contains is true, add_unique says PRESENT, remove succeeds
 *    a key of which none is in       contains is false and add_unique wins, but for false positives,
 *                                    of which there may be no more than the filter's rate allows;
 *                                    it is never removed
 *
 * The number of keys that are in swings up and down, so that a filter that may grow does, and shrinks
 * again.  An add may be refused where the filter has a limit: then nothing may have changed.
 */
#ifndef TAMIS_STRESS_OWNER_H
#define TAMIS_STRESS_OWNER_H

#include "harness.h"
#include "tamis/tamis.h"

enum { OWNER_BATCH = 32, OWNER_MOST_COPIES = 6 };

/* Which calls an owner makes. */
enum owner_mix { SINGLE_CALLS, BATCH_CALLS, BOTH_KINDS };

struct owner {
  tamis_filter *filter;
  uint64_t base;          /* hashes are base + 0 .. base + keys - 1; of no other owner */
  const uint64_t *hashes; /* or these, if not NULL */
  uint64_t keys;          /* that it may have in */
  unsigned char *copies;  /* of each key: how many are in */
  enum owner_mix mix;
  bool limited; /* the filter may refuse an add */

  uint64_t seed;
  uint64_t in;    /* copies that are in, in all */
  uint64_t goal;  /* how many keys the owner is heading for */
  uint64_t wrong; /* answers */
  uint64_t asked; /* about keys that were not in */
  uint64_t false_positives, refused;

  /* For who watches: copies whose add or remove has begun, or has returned, so far.  Written by the
   * owner alone. */
  _Alignas(64) _Atomic uint64_t adds_begun;
  _Atomic uint64_t adds_done, removes_begun, removes_done;
};

/* Exits with a message if there is no memory. */
void owner_init(struct owner *owner, tamis_filter *filter, unsigned number, uint64_t keys,
                uint64_t seed);
void owner_free(struct owner *owner);

/* Makes about `calls` calls, counted for the worker. */
void owner_work(struct owner *owner, struct worker *worker, uint64_t calls);

/* Looks for every key that should be in; nobody else need be at rest. */
void owner_check(struct owner *owner);

/* Removes everything. */
void owner_leave(struct owner *owner, struct worker *worker);

/* All owners of one filter, at rest: wrong answers, too many false positives, a wrong count, and a
 * structure that is not whole, each with a message.  0: all is well. */
uint64_t owners_judge(const struct owner *owners, uint64_t n, double fpp);

#endif
