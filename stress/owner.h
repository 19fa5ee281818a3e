/* SPDX-License-Identifier: MIT
 *
 * An owner has keys of its own in a cuckoo filter that it shares with others.  It knows how many
 * copies of each key the filter holds, makes random calls, single ones and batches, and checks
 * every answer:
 *
 *    a key with a copy        contains is true, add_unique returns PRESENT, remove succeeds
 *    a key without a copy     contains is false and add_unique wins, except for false positives, of
 *                             which there may be no more than the filter's rate allows; the owner
 *                             never removes such a key
 *
 * The number of copies rises and falls, so that a growable filter grows and shrinks.  Where the
 * filter has a limit it may refuse an add, which then must have changed nothing.
 */
#ifndef TAMIS_STRESS_OWNER_H
#define TAMIS_STRESS_OWNER_H

#include "harness.h"
#include "tamis/tamis.h"

enum { OWNER_BATCH = 32, OWNER_MAX_COPIES = 6 };

/* Which calls an owner makes. */
enum owner_mix { SINGLE_CALLS, BATCH_CALLS, BOTH_KINDS };

struct owner {
  tamis_filter *filter;
  uint64_t base;          /* the hashes are base + 0 .. base + keys - 1; no other owner has these */
  const uint64_t *hashes; /* if not NULL, the hashes are these instead */
  uint64_t keys;          /* number of keys */
  unsigned char *copies;  /* of each key, in the filter */
  enum owner_mix mix;
  bool limited; /* the filter may refuse an add */

  uint64_t seed;
  uint64_t in;    /* copies of all keys in the filter */
  uint64_t goal;  /* the number of copies that the owner is heading for */
  uint64_t wrong; /* wrong answers */
  uint64_t asked; /* questions about keys without a copy */
  uint64_t false_positives, refused;

  /* The copies whose add or remove has begun, or has returned, so far.  Only the owner writes
   * these; other threads may read them. */
  _Alignas(64) _Atomic uint64_t adds_begun;
  _Atomic uint64_t adds_done, removes_begun, removes_done;
};

/* Prepares owner number `number` of the filter, which holds none of its keys yet.  Exits with a
 * message if there is no memory. */
void owner_init(struct owner *owner, tamis_filter *filter, unsigned number, uint64_t keys,
                uint64_t seed);
void owner_free(struct owner *owner);

/* The same for n owners of one filter, numbered from 0, whose seeds follow from `seed`. */
void owners_init(struct owner *owners, uint64_t n, tamis_filter *filter, uint64_t keys,
                 uint64_t seed);
void owners_free(struct owner *owners, uint64_t n);

/* Makes `calls` random calls, and counts them as the worker's. */
void owner_work(struct owner *owner, struct worker *worker, uint64_t calls);

/* Looks up every key.  Other threads may make calls meanwhile. */
void owner_check(struct owner *owner);

/* Removes every copy. */
void owner_remove_all(struct owner *owner, struct worker *worker);

/* The adds that were refused to n owners. */
uint64_t owners_refused(const struct owner *owners, uint64_t n);

/* Checks all n owners of a filter on which no thread makes calls.  Counts, and reports with a
 * message, wrong answers, too many false positives, a wrong count, and an invalid structure; 0:
 * there are none. */
uint64_t owners_verify(const struct owner *owners, uint64_t n, double fpp);

#endif
