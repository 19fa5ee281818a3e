/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of the cuckoo filter, each replayed exactly: what the programs
 * test_cuckoo_schedule_*.c share.  Built with the hooks.
 *
 * The filters have one segment of eight buckets, 0 to 3 lower and 4 to 7 upper, of four lanes; hashes
 * are searched for that fall where a test wants them.
 */
#ifndef TAMIS_TESTS_CUCKOO_SCHEDULE_H
#define TAMIS_TESTS_CUCKOO_SCHEDULE_H

#include "unit.h"

#include "base/hook.h"
#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "schedule.h"

#include <pthread.h>

enum { LOWER = 1, HOME = 2, UPPER = 5, OTHER_UPPER = 6, LANES = 4, MAX_KEYS = 256 };

/* ---- a filter, its keys, and where they stand ---- */

struct tiny {
  tamis_filter *filter;
  struct cuckoo_geometry geometry; /* of the generation that a test is about */
  unsigned generation;
  uint64_t root; /* all hashes fall into this one, if it is not the first generation */
  struct hash_keys keys;
  uint64_t last_hash;
  unsigned n;
  uint64_t in[MAX_KEYS]; /* the hashes that are in */
};

struct tiny make_with(unsigned width, double fpp, unsigned roots, unsigned depth_limit);

struct tiny make_tiny(unsigned width);

struct cuckoo_address place_of(const struct tiny *t, uint64_t hash);

/* A hash that was not given out before, of a key that belongs in these buckets. */
uint64_t hash_at(struct tiny *t, uint32_t lower, uint32_t upper);

uint64_t hash_in_root(struct tiny *t, uint64_t root, uint32_t lower, uint32_t upper);

void note(struct tiny *t, uint64_t hash);

void add(struct tiny *t, uint64_t hash);

void add_at(struct tiny *t, uint32_t lower, uint32_t upper, unsigned n);

void forget(struct tiny *t, uint64_t hash);

void take(struct tiny *t, uint64_t hash);

bool stands_in_bucket(const struct tiny *t, uint64_t hash, uint32_t bucket);

uint64_t entries_of(const struct tiny *t, unsigned generation);

/* Every key that should be there is, counts are exact, and the structure is whole. */
void finish_tiny(struct tiny *t);

/* ---- calls in threads ---- */

struct call {
  tamis_filter *filter;
  uint64_t hash;
  int (*make)(tamis_filter *f, uint64_t hash);
  int result;
  pthread_t thread;
};

int contains(tamis_filter *f, uint64_t hash);

struct call call_of(const struct tiny *t, int (*make)(tamis_filter *, uint64_t), uint64_t hash);

void start(struct call *call);

int finish(struct call *call);

void start_and_stop(struct call *call, const char *place);

/* ---- splits, joins, generations ---- */

/* Adds keys of one pair until the segment splits. */
void split(struct tiny *t);

/* Removes what there is until two segments join. */
void join(struct tiny *t);

/* As in a large filter, whose segments are made when keys come. */
void lose_segment(const struct tiny *t, uint64_t index);

/* Adds keys of one pair until none of their segments can split any more. */
void open_generation(struct tiny *t);

/* A generation more, without any segment. */
void open_without_keys(const struct tiny *t);

/* A filter of two generations, the second of which the test is about.  Its buckets are many, so its
 * fingerprints must be wide for two buckets to have different ones in common. */
struct tiny make_tiny_with_two(unsigned width);

/* ---- a key that is about to be moved ---- */

/* The buckets LOWER and an upper one are full; the next key of that pair pushes `moved` from the upper
 * one to HOME. */
struct pushed {
  struct tiny t;
  uint64_t moved, next;
  uint32_t upper, other_upper;
};

struct pushed make_pushed_in(unsigned generation);

struct pushed make_pushed(void);

void push(struct pushed *p);

/* ---- one test, played twice ---- */

extern unsigned first_variant, second_variant; /* what a test's state points to */

/* clang-format off */
#define in_either_generation(test) \
  {#test, test, NULL, NULL, &first_variant}, {#test ", second generation", test, NULL, NULL, &second_variant}
#define in_either_bucket(test) \
  {#test ", lower", test, NULL, NULL, &first_variant}, {#test ", upper", test, NULL, NULL, &second_variant}
/* clang-format on */

#endif
