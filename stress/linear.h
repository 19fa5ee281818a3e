/* SPDX-License-Identifier: MIT
 *
 * One life of a filter in stress-linear: how the filter is created, which keys the calls are on,
 * and in which proportions they are made.
 */
#ifndef TAMIS_STRESS_LINEAR_H
#define TAMIS_STRESS_LINEAR_H

#include "distinct.h"
#include "history.h"

enum {
  MAX_CLASSES = 64,
  MAX_BATCH = 16,
  MAX_HELD = 1 << 16,    /* bystanders of one thread */
  BLOOM_BYSTANDERS = 192 /* of all threads */
};

enum variant {
  TINY,
  OPENING,
  GROWN,
  FIXED,
  BLOOM,
  COUNTING,
  SHARED_CUCKOO,
  WINDOW,
  WINDOW_CUCKOO,
  VARIANTS
};

struct life {
  enum variant variant;
  uint64_t number, seed;
  unsigned threads;
  uint64_t rounds; /* still to go */
  uint64_t calls;  /* in a round, over all threads */
  tamis_filter *filter;
  struct distinct distinct;
  unsigned classes;
  uint64_t hashes[MAX_CLASSES];
  uint64_t copies[MAX_CLASSES]; /* with a window they have just been added */
  unsigned window;              /* periods; 0: there is none */
  bool renews;
  bool ends_are_rare;        /* of periods, so that more is remembered, and layers are opened */
  uint64_t peak;             /* bystanders of each thread from which on it removes ... */
  uint64_t trough;           /* ... and down to which it does so */
  uint64_t bystander_hashes; /* distinct hashes of bystanders; 0: any number */
  uint64_t bloom_bystanders[BLOOM_BYSTANDERS];
};

/* What changes from round to round. */
struct mix {
  unsigned calls[HISTORY_CALLS]; /* weights */
  unsigned class_percent;        /* calls on classes; the others are on bystanders */
  unsigned hot_percent;          /* of these, calls on the class `hot` */
  unsigned batch_percent;
  unsigned hot;
};

/* Creates the filter, and chooses the keys.  The variant, the number, the seed, the threads, the
 * calls and the number of classes are set before; the variant may change the last two.  Returns
 * what tamis_create does. */
int life_create(struct life *life);

/* The mix of a round. */
struct mix life_mix(const struct life *life, uint64_t random);

#endif
