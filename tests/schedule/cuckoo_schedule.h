/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of the cuckoo filter, each replayed exactly: what the programs
 * test_cuckoo_*.c share.  Built with the hooks.
 *
 * The filters have one segment of eight buckets, 0 to 3 lower and 4 to 7 upper, of four lanes; a
 * test searches for hashes that fall where it wants them.
 */
#ifndef TAMIS_TESTS_CUCKOO_SCHEDULE_H
#define TAMIS_TESTS_CUCKOO_SCHEDULE_H

#include "play.h"

#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"

enum { LOWER = 1, HOME = 2, UPPER = 5, OTHER_UPPER = 6, LANES = 4, MAX_KEYS = 32768 };

/* ---- a small filter and its keys ---- */

struct tiny {
  tamis_filter *filter;
  struct cuckoo_geometry geometry; /* of the generation that a test is about */
  unsigned generation;
  uint64_t root; /* of all hashes, if the generation is not the first one */
  struct hash_keys keys;
  uint64_t last_hash;
  unsigned n;
  uint64_t in[MAX_KEYS]; /* hashes of the keys that are in the filter */
};

/* `left`: the rate that later generations may have. */
struct tiny make_with(unsigned width, double left, unsigned roots, unsigned depth_limit);

struct tiny make_tiny(unsigned width);

struct cuckoo_address address_of(const struct tiny *t, uint64_t hash);

/* In the directory. */
uint64_t index_of(const struct tiny *t, uint64_t hash);

/* A new hash of a key of this bucket pair. */
uint64_t hash_at(struct tiny *t, uint32_t lower, uint32_t upper);

uint64_t hash_in_root(struct tiny *t, uint64_t root, uint32_t lower, uint32_t upper);

void expect_in(struct tiny *t, uint64_t hash);

void add(struct tiny *t, uint64_t hash);

void add_at(struct tiny *t, uint32_t lower, uint32_t upper, unsigned n);

void expect_out(struct tiny *t, uint64_t hash);

void take(struct tiny *t, uint64_t hash);

bool stands_in_bucket(const struct tiny *t, uint64_t hash, uint64_t bucket);

uint64_t entries_of(const struct tiny *t, unsigned generation);

/* Asserts that every key is there, that counts are exact, and that the structure is valid;
 * destroys the filter. */
void finish_tiny(struct tiny *t);

/* ---- calls in threads ---- */

struct call call_of(const struct tiny *t, int (*make)(tamis_filter *, uint64_t), uint64_t hash);

/* ---- splits, joins, generations ---- */

/* Adds keys of one pair until the segment splits. */
void split(struct tiny *t);

/* Adds keys of one pair until their segment can split no more, and a second generation is
 * opened. */
void open_generation(struct tiny *t);

/* Opens a generation like the first one, which has no segment. */
void open_without_keys(const struct tiny *t);

/* A filter of two generations, the second of which the test is about.  It has many buckets, so its
 * fingerprints must be wide for a pair to have keys with different ones. */
struct tiny make_tiny_with_two(unsigned width);

/* ---- what scripts are played on ----
 *
 * Numbers of verbs such as `x_at 26` and `fill 158` say where: a key with the buckets 2 (HOME) and
 * 6 (OTHER_UPPER), and eight keys with the buckets 1 (LOWER) and 5 (UPPER).  With a digit before
 * them, they are of the second root. */

/* The filter, and the keys that verbs have added beside x, y and z. */
extern struct tiny small;

/* What make_with() wants. */
struct small_form {
  unsigned width;
  double left;
  unsigned roots, depth_limit;
};

tamis_filter *make_small(const struct setup *setup);

/* Takes all keys, x, y and z as often as they are in: they were there, and nothing else is. */
void finish_small(tamis_filter *f, uint64_t n);

#define SMALL_FILTER(...)                              \
  .make = make_small, .of = &(const struct small_form) \
  {                                                    \
    __VA_ARGS__                                        \
  }

#endif
