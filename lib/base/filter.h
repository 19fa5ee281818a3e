/* SPDX-License-Identifier: MIT
 *
 * Layer 0: what all filters have in common.
 *
 * Each kind of filter has a folder beside this one, which defines a `struct filter_kind`; tamis.c
 * lists the kinds.  Each filter points to a table of operations, for the calls on keys.
 */
#ifndef TAMIS_LIB_FILTER_H
#define TAMIS_LIB_FILTER_H

#include "base/hash.h"
#include "base/refusal.h"
#include "tamis/tamis.h"

#include <stdatomic.h>

enum {
  /* A batch consists of groups of this number of keys, each hashed, then looked up or added. */
  FILTER_GROUP = SMALL(64, 8),
  /* In a batch, the memory of a key is prefetched this number of keys before it is read: enough to
   * keep a core's fetches busy, and few enough for the first-level cache. */
  FILTER_AHEAD = SMALL(64, 8)
};

struct wanted;

/* The calls on keys.  The caller must have checked their arguments.  Each hash is a result of
 * tamis_hash(), and the filter mixes the hash with its seed. */
struct filter_operations {
  WIDE const struct filter_kind *kind;
  WIDE bool (*contains)(const tamis_filter *f, uint64_t hash);
  /* Returns the number of hits.  If found is not NULL, found[i] says whether hash i is a hit. */
  WIDE size_t (*contains_many)(const tamis_filter *f, const uint64_t *hashes, size_t n,
                               bool *found);
  /* Fetches the memory that `contains` will read.  No result depends on the fetch. */
  WIDE void (*prefetch)(const tamis_filter *f, uint64_t hash);
  /* Looks a key up in n filters of any kinds.  Callers use this member of the first filter
   * (each.h).  If the member is NULL, base/each.c searches filter by filter. */
  WIDE size_t (*contains_each)(const tamis_filter *const *filters, size_t n, struct wanted *wanted,
                               bool *found);
  WIDE int (*add)(tamis_filter *f, uint64_t hash);
  WIDE int (*add_unique)(tamis_filter *f, uint64_t hash);
  /* The next two members add at most FILTER_GROUP hashes, in their order.  If both are NULL, keys.c
   * prefetches for all hashes, then calls `add` or `add_unique` for each hash. */
  WIDE void (*add_many)(tamis_filter *f, const uint64_t *hashes, size_t n, int *results);
  WIDE void (*add_unique_many)(tamis_filter *f, const uint64_t *hashes, size_t n, int *results);
  WIDE int (*remove)(tamis_filter *f, uint64_t hash); /* NULL if keys cannot be removed */
  /* The next two members count the copies of a key.  `count_many` gets at most FILTER_GROUP hashes.
   * If both are NULL, the count is 1 if `contains` returns true, otherwise 0. */
  WIDE uint64_t (*count)(const tamis_filter *f, uint64_t hash);
  WIDE void (*count_many)(const tamis_filter *f, const uint64_t *hashes, size_t n,
                          uint64_t *counts);
  WIDE bool read_only; /* the filter is mapped from a file (saved.h) */
};

struct saved_head;
struct saved_mapping;
struct saved_writer;
struct saved_reader;
struct shared_file;

enum filter_period {
  PERIOD_ENDS,    /* ends the running period */
  PERIODS_END,    /* ends periods until the period `number` is running */
  PERIOD_IS_NAMED /* gives the running period the number `number` */
};

/* The calls on whole filters.  tamis.c has checked what all kinds require of the options.
 * docs/internals/adding-a-kind.md lists the errors of a kind, and the figures that `stats` sets. */
struct filter_kind {
  tamis_kind kind;
  const char *name; /* the enumerator as a string; messages show it without TAMIS_ */
  /* Computes how many bytes a filter takes.  Sets *bytes only if it returns TAMIS_OK. */
  int (*bytes_for)(const tamis_options *options, uint64_t *bytes);
  /* Computes the lowest fpp for `bytes` bytes, to within 1 %.  An error leaves *fpp unchanged. */
  int (*fpp_for)(const tamis_options *options, uint64_t bytes, double *fpp);
  /* Creates a filter.  `head` has what the filter's head will contain, except the operations.
   * Sets *out only if it returns TAMIS_OK.  If `out` is NULL, only checks the options. */
  int (*create)(const tamis_options *options, const struct tamis_filter *head,
                const struct refusal *why, tamis_filter **out);
  void (*destroy)(tamis_filter *f);
  void (*stats)(const tamis_filter *f, tamis_stats *out);
  /* Changes the periods of a window as `how` says.  NULL: the calls return TAMIS_EUNSUPPORTED. */
  int (*advance)(tamis_filter *f, enum filter_period how, uint64_t number);
  /* Adds at most FILTER_GROUP hashes, and remembers their keys during the running period and the
   * `periods` periods after it.  If `periods` exceeds options.window, returns TAMIS_EINVAL, even if
   * n is 0.  If this member is NULL, the calls return TAMIS_EUNSUPPORTED. */
  int (*add_for)(tamis_filter *f, const uint64_t *hashes, size_t n, unsigned periods, bool unique,
                 int *results);
  /* The features (SAVED_LAYERS and others in saved.h) of the files that this kind can read. */
  uint64_t features;
  /* saved.h describes the members from here to `load`.  If `save` and `load` are NULL, saves and
   * loads return TAMIS_EUNSUPPORTED without calling any of these members. */
  void (*describe)(const tamis_filter *f, struct saved_head *out);
  bool saves_estimates; /* saved.h says which figures */
  int (*read_info)(struct saved_reader *r, struct saved_head *saved);
  struct saved_mapping (*mapping)(const tamis_filter *f); /* the mapping of a read-only filter */
  int (*save)(const tamis_filter *f, struct saved_writer *w);
  int (*load)(struct saved_reader *r, const struct saved_head *saved,
              const struct tamis_filter *head, tamis_filter **out);
  /* The next three members are for filters shared by processes.  If they are NULL, the public calls
   * return TAMIS_EUNSUPPORTED.  `share_new` makes an empty filter in the empty `file`, and
   * completes `saved`, in which the options, the probe hash and the feature SAVED_LIVE are set.  If
   * `file` is NULL, `share_new` only checks the options, which `create` has already checked except
   * for max_bytes.  `share_open` opens a filter whose header is `saved`.  If `share_open` returns
   * TAMIS_OK, the filter owns `file`.  `sync` waits until all adds are on the disk. */
  int (*share_new)(struct saved_head *saved, const struct refusal *why, struct shared_file *file);
  int (*share_open)(struct saved_reader *r, const struct saved_head *saved,
                    const struct tamis_filter *head, struct shared_file *file, tamis_filter **out);
  int (*sync)(const tamis_filter *f);
  /* The next four members take two filters of the same kind, hash function and seed.  The kind
   * checks whether the filters fit together in all other respects.  `into` is not read-only, and is
   * not `from`.  If a member is NULL, the call returns TAMIS_EUNSUPPORTED. */
  int (*merge)(tamis_filter *into, const tamis_filter *from);
  /* Sets *out only if it returns TAMIS_OK. */
  int (*intersect)(const tamis_filter *a, const tamis_filter *b, tamis_filter **out);
  int (*includes)(const tamis_filter *f, const tamis_filter *other);
  int (*similarity)(const tamis_filter *a, const tamis_filter *b, tamis_similarity_stats *out);
};

struct filter_more {
  union {
    tamis_allocator allocator;  /* allocate == NULL: the system's allocator */
    uint64_t allocator_room[3]; /* gives the union the same size on all machines (WIDE) */
  };
  /* The members from here on are absent if the filter has neither hash function nor secret. */
  WIDE tamis_hash_function hash; /* NULL: XXH3 */
  WIDE void *hash_context;
  WIDE const unsigned char *secret; /* for long keys (hash.h); NULL: the filter has no secret */
};

/* The head of every filter.  After creation only `operations` changes, when a filter grows.  The
 * operations after a growth also work on the filter as it was before. */
struct tamis_filter {
  WIDE const struct filter_operations *_Atomic operations;
  struct hash_keys keys;
  /* The address of a struct filter_more, plus FILTER_OWN_HASH if the struct has a hash function,
   * plus FILTER_SECRET if it has a secret.  NULL: the system's allocator and XXH3. */
  WIDE const char *more;
};

enum { FILTER_OWN_HASH = 1, FILTER_SECRET = 2, FILTER_BITS = 3 };

static inline const struct filter_more *filter_own_more(const tamis_filter *f)
{
  return (const struct filter_more *) (f->more - ((uintptr_t) f->more & FILTER_BITS));
}

static inline const struct filter_more *filter_more(const tamis_filter *f)
{
  static const struct filter_more usual = {.hash = NULL};
  return f->more ? filter_own_more(f) : &usual;
}

static inline void filter_set_more(tamis_filter *f, const struct filter_more *more)
{
  f->more = (const char *) more + (more && more->hash ? FILTER_OWN_HASH : 0) +
            (more && more->secret ? FILTER_SECRET : 0);
}

/* A struct filter_more begins with an allocator.  Here f->more points to an allocator alone, so
 * only that member may be read. */
static inline void filter_set_allocator(tamis_filter *f, const tamis_allocator *allocator)
{
  f->more = (const char *) allocator;
}

static inline bool filter_has_own_hash(const tamis_filter *f)
{
  return (uintptr_t) f->more & FILTER_OWN_HASH;
}

static inline bool filter_has_secret(const tamis_filter *f)
{
  return (uintptr_t) f->more & FILTER_SECRET;
}

static inline const tamis_allocator *filter_allocator(const tamis_filter *f)
{
  return &filter_more(f)->allocator;
}

/* Returns the filter's allocator and hash function, but not its secret. */
static inline struct filter_more filter_more_of(const tamis_filter *f)
{
  struct filter_more more = {.allocator = *filter_allocator(f)};
  if (filter_has_own_hash(f)) {
    more.hash = filter_own_more(f)->hash;
    more.hash_context = filter_own_more(f)->hash_context;
  }
  return more;
}

/* Copies `head` to `f`, except the operations.  Sets `more` and `secret`, which are parts of f. */
static inline void filter_begin(tamis_filter *f, const tamis_filter *head, struct filter_more *more,
                                unsigned char secret[HASH_SECRET_BYTES])
{
  f->keys = head->keys;
  *more = *filter_more(head);
  hash_make_secret(head->keys.seed, secret);
  more->secret = secret;
  filter_set_more(f, more);
}

/* ORDER operations.load (seq_cst)
 *   pairs with     operations.swap
 *   makes visible  that keys might be where only the new operations look
 *   if weakened    with acquire, two threads could each add a key, then look up the other's key by
 *                  the old operations, and both miss.  On x86-64 both orders are plain loads
 *   checked by     mutants/operations_load_relaxed */
static inline const struct filter_operations *operations_of(const tamis_filter *f)
{
  return atomic_load_explicit(&f->operations, memory_order_seq_cst);
}

/* Relaxed: the filter is not shared yet. */
static inline void operations_begin(tamis_filter *f, const struct filter_operations *operations)
{
  atomic_store_explicit(&f->operations, operations, memory_order_relaxed);
}

/* Does what filter_hash() does, for a user's hash function, and for keys longer than HASH_SHORT. */
__attribute__((unused)) NEVER_INLINE static uint64_t
filter_hash_otherwise(const tamis_filter *f, const void *key, size_t len)
{
  if (!filter_has_own_hash(f)) {
    const bool is_long = len > HASH_MEDIUM && filter_has_secret(f);
    return hash_long(f->keys.seed, is_long ? filter_own_more(f)->secret : NULL, key, len);
  }
  const struct filter_more *more = filter_own_more(f);
  return more->hash(more->hash_context, key ? key : "", len, f->keys.seed);
}

static inline uint64_t filter_hash(const tamis_filter *f, const void *key, size_t len)
{
  if (__builtin_expect(filter_has_own_hash(f), 0) || len > HASH_SHORT)
    return filter_hash_otherwise(f, key, len);
  return hash_short(f->keys.seed, key, len);
}

/* Returns the hash of a fixed key.  Different hash functions or seeds give different results. */
static inline uint64_t filter_probe(const tamis_filter *f)
{
  static const char key[] = "tamis probe";
  return filter_hash(f, key, sizeof key - 1);
}

#endif
