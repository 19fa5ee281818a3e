/* SPDX-License-Identifier: MIT
 *
 * What the shapes share: a filter, its keys, and the calls that must succeed.
 *
 * The cuckoo filters have four buckets of two lanes to a segment, 0 and 1 lower, 2 and 3 upper, or
 * two buckets, 0 and 1; each has a stripe of its own.  A shape searches for
 * hashes that fall where it wants them.
 */
#ifndef TAMIS_TESTS_MODEL_FIXTURE_H
#define TAMIS_TESTS_MODEL_FIXTURE_H

#include "shapes.h"

#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "tamis/tamis.h"

#include <string.h>

enum { LOWER = 0, HOME = 1, UPPER = 2, OTHER = 3, ANY = 99, LANES = 2, MOST_KEYS = 32, SEED = 42 };

/* ---- a filter and its keys ---- */

extern struct fixture {
  tamis_filter *filter;
  struct cuckoo_geometry geometry;
  struct hash_keys keys;
  uint64_t last_hash;
  unsigned n;
  uint64_t in[MOST_KEYS]; /* keys that are in the filter and stay */
  uint64_t x, y, z;       /* those that the shape is about */
  int result[MODEL_MAX_THREADS][2];
} t;

extern const tamis_allocator from_the_world;

void expect(bool good, const char *what);

/* `left`: the rate that later generations may have. */
void make_cuckoo_of(unsigned width, double fpp, double left, uint64_t roots, unsigned pair_bits,
                    unsigned depth_limit);

/* The rest of the rate is such that the directories of later generations are small. */
void make_cuckoo(uint64_t roots, unsigned pair_bits, unsigned depth_limit);

struct cuckoo *cuckoo(void);

struct cuckoo_address address_of(uint64_t hash);

struct bucket_pair pair_of(uint64_t hash);

/* A new key with this directory index and these buckets in the first generation. */
uint64_t key_at(unsigned index, unsigned lower, unsigned upper);

uint64_t key(void);

uint64_t put(uint64_t hash);

uint64_t put_to_stay(uint64_t hash);

void take(uint64_t hash);

unsigned matches_in(uint64_t hash, uint32_t bucket);

/* The number of lanes of the first generation that match a key. */
unsigned entries_of(uint64_t hash);

bool contains(uint64_t hash);

tamis_stats figures(void);

/* After each execution of a cuckoo shape: the structure is valid, and the keys that stay are
 * there. */
const char *whole(void);

const char *whole_with_count(uint64_t count);

void must_find(uint64_t hash);

void must_add(uint64_t hash);

void must_remove(uint64_t hash);

int add_unique(uint64_t hash);

/* ---- how a shape is searched ---- */

/* clang-format off */
#define FULL {MODEL_FULL, 0, 0}
#define BOUND(preemptions) {MODEL_BOUND, preemptions, 0}
#define NEVER {MODEL_NEVER, 0, 0}
/* clang-format on */

/* ---- what shapes of several files use ---- */

void set_up_move(void);

/* x moves to HOME, and back, and so on. */
void move_to_and_fro(unsigned times);

const char *check_moved(void);

/* A segment of one pair of buckets, full, both halves of it alike; y and z are of either half. */
void set_up_split(void);

const char *check_split(void);

/* Two siblings with an entry each, x of which stays; without y they join. */
void set_up_join(void);

const char *check_join(void);

const char *check_add_and_join(void);

/* x has a copy that is counted, and can move to HOME. */
void set_up_counted_move(void);

void make_bloom(void);

/* z is in. */
void make_word_full_but_one(void);

/* x is in the old generation, whose entries know more than those of the new one. */
void set_up_copy_goes_on(void);

/* The same, and the new one has no segment yet. */
void set_up_copy_goes_on_to_nothing(void);

/* A second copy of x is counted. */
void count_x(void);

void run_unique(unsigned thread);

unsigned winners(unsigned threads);

/* The newest generation is open, but has no segment yet for x. */
void set_up_make(void);

/* Two roots, each with a key of its own, and the first `fresh` of them without a segment. */
void set_up_roots(unsigned fresh);

/* Each thread adds a key and then looks up the other one's: one of them finds it. */
void run_store_buffer(unsigned thread);

const char *check_store_buffer(void);

/* Two threads add a key each, two look up both in opposite orders: they do not contradict each
 * other. */
void run_independent(unsigned thread);

const char *check_independent(void);

/* A thread that finds x must find y, which was added before x by the same thread. */
void run_message(unsigned thread);

/* For shapes whose calls judge everything themselves. */
const char *check_nothing(void);

#endif
