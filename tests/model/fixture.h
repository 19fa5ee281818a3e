/* SPDX-License-Identifier: MIT
 *
 * What the shapes share: a filter, its keys, and calls beside those of the library.
 *
 * The cuckoo filters have four buckets of two lanes to a segment, 0 and 1 lower, 2 and 3 upper, or
 * two buckets, 0 and 1; each has a stripe of its own.  A shape searches for
 * hashes that fall where it wants them.
 */
#ifndef TAMIS_TESTS_MODEL_FIXTURE_H
#define TAMIS_TESTS_MODEL_FIXTURE_H

#include "model.h"

#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "tamis/tamis.h"
#include "validate.h"

#include <string.h>

enum { LOWER = 0, HOME = 1, UPPER = 2, OTHER = 3, ANY = 99, LANES = 2, MOST_KEYS = 32, SEED = 42 };

/* Each file has a table of shapes, which ends with one that has no name. */
extern const struct shape cuckoo_shapes[], snapshot_shapes[], bloom_shapes[], window_shapes[];

/* ---- a filter and its keys ---- */

extern struct fixture {
  tamis_filter *filter;
  struct cuckoo_geometry geometry;
  struct hash_keys keys;
  uint64_t last_hash;
  unsigned n;
  uint64_t in[MOST_KEYS]; /* keys that are in the filter and stay, unless a call names them */
  uint64_t w, x, y, z;    /* those that calls name */
} t;

extern const tamis_allocator from_the_world;

void expect(bool good, const char *what);

/* `left`: the rate that later generations may have. */
void make_cuckoo_of(unsigned width, double left, uint64_t roots, unsigned pair_bits,
                    unsigned depth_limit);

/* One segment of four buckets. */
void make_fixed_cuckoo(void);

/* The rest of the rate is such that the directories of later generations are small. */
void make_cuckoo(uint64_t roots, unsigned pair_bits, unsigned depth_limit);

struct cuckoo *cuckoo(void);

/* The filter gets its growth, as by the first call that makes it grow. */
void provide_growth(void);

struct bucket_pair pair_of(uint64_t hash);

/* A new key with this directory index and these buckets in the first generation. */
uint64_t key_at(unsigned index, unsigned lower, unsigned upper);

uint64_t key(void);

uint64_t put(uint64_t hash);

uint64_t put_to_stay(uint64_t hash);

void take(uint64_t hash);

bool contains(uint64_t hash);

tamis_stats figures(void);

/* The structure is valid, and the keys that stay are there. */
const char *whole(void);

/* ---- what was answered ---- */

int answer(unsigned thread, unsigned call);

/* Unique adds that have won, or were refused. */
unsigned winners(void);
unsigned refusals(void);

/* ---- how a shape is searched ---- */

/* clang-format off */
#define FULL {MODEL_FULL, 0, 0}
#define BOUND(preemptions) {MODEL_BOUND, preemptions, 0}
#define NEVER {MODEL_NEVER, 0, 0}
/* clang-format on */

/* ---- what files use of each other ---- */

/* x stands in UPPER and can move to HOME, where one lane is free; all other lanes are full. */
void set_up_move(void);

/* x has a copy that is counted, and can move to HOME. */
void set_up_counted_move(void);

/* A segment of one pair of buckets, full, both halves of it alike; y and z are of either half. */
void set_up_split(void);

/* Two siblings with an entry each, x of which stays; without y they join. */
void set_up_join(void);

void set_up_bloom(void);

/* z is in. */
void set_up_word_full_but_one(void);

/* For the saves of this filter. */
void describe_filter(void);

/* Calls of shapes; what is no answer is TAMIS_OK, or a failure. */
int move_to_and_fro(uint64_t times); /* x moves to HOME, and back, and so on */
int push(uint64_t unused), push_other(uint64_t unused), fold(uint64_t unused);
int save(uint64_t file), unite(uint64_t unused), open_generation(uint64_t unused);
int pass(uint64_t hash), refused(uint64_t hash);
int counted(uint64_t hash), open_layer(uint64_t unused);
int advance(uint64_t unused), jump(uint64_t unused), push_in_window(uint64_t unused);

#endif
