/* SPDX-License-Identifier: MIT
 *
 * Layer 0: what all filters have in common.
 *
 * A kind of filter is a folder beside this one.  It offers one `struct filter_kind`, which tamis.c
 * lists in its table of kinds, and each filter of the kind carries a table of operations for the
 * calls that are made once for every key.
 */
#ifndef TAMIS_LIB_FILTER_H
#define TAMIS_LIB_FILTER_H

#include "base/hash.h"
#include "base/refusal.h"
#include "base/small.h"
#include "tamis/tamis.h"

#include <stdatomic.h>

enum {
  /* The keys of a group.  Batches consist of groups; tamis.c hashes one before the filter works on
   * it. */
  FILTER_GROUP = SMALL(64, 8),
  /* How many keys of a batch have their memory fetched at any moment.  That is more than a core can
   * wait for at once, so the core is always waiting for as many as it can; and few enough that the
   * memory is still in the first-level cache when it is used.  docs/reference/performance.md has
   * the measurement. */
  FILTER_AHEAD = SMALL(64, 8)
};

struct wanted;

/* The calls on keys, with arguments that have been checked.  Hashes come from tamis_hash();
 * the filter mixes them with its seed. */
struct filter_operations {
  WIDE const struct filter_kind *kind;
  WIDE bool (*contains)(const tamis_filter *f, uint64_t hash);
  /* Returns how many hits there are; found[i], if found is not NULL, says which. */
  WIDE size_t (*contains_many)(const tamis_filter *f, const uint64_t *hashes, size_t n,
                               bool *found);
  /* Fetches the memory that `contains` will read.  No result depends on that. */
  WIDE void (*prefetch)(const tamis_filter *f, uint64_t hash);
  /* `contains` of a key in n filters of any kinds, of which this is the first: see each.h.  NULL:
   * lib/each.c does it. */
  WIDE size_t (*contains_each)(const tamis_filter *const *filters, size_t n, struct wanted *wanted,
                               bool *found);
  WIDE int (*add)(tamis_filter *f, uint64_t hash);
  WIDE int (*add_unique)(tamis_filter *f, uint64_t hash);
  /* Adds at most FILTER_GROUP hashes, in their order.  (count_many gets at most as many, too.)
   * Both NULL: keys.c prefetches all hashes, then makes the single calls; count_many likewise. */
  WIDE void (*add_many)(tamis_filter *f, const uint64_t *hashes, size_t n, int *results);
  WIDE void (*add_unique_many)(tamis_filter *f, const uint64_t *hashes, size_t n, int *results);
  WIDE int (*remove)(tamis_filter *f, uint64_t hash); /* NULL: not supported */
  /* How many copies of a key there are.  Both NULL: one, if `contains` is true. */
  WIDE uint64_t (*count)(const tamis_filter *f, uint64_t hash);
  WIDE void (*count_many)(const tamis_filter *f, const uint64_t *hashes, size_t n,
                          uint64_t *counts);
  WIDE bool read_only; /* the filter is mapped: saved.h */
};

struct saved_head;
struct saved_mapping;
struct saved_writer;
struct saved_reader;
struct shared_file;

enum filter_period {
  PERIOD_ENDS,    /* the running period ends */
  PERIODS_END,    /* periods end until the one with this number runs */
  PERIOD_IS_NAMED /* the running period gets this number */
};

/* The calls on whole filters.  The options have been checked as far as they mean the same to all
 * kinds; the kind checks the rest.  docs/internals/adding-a-kind.md has the results of refusals,
 * and the figures that `stats` sets. */
struct filter_kind {
  tamis_kind kind;
  const char *name; /* of the enumerator; texts show it without TAMIS_ */
  /* The bytes that a filter takes.  *bytes is written only with TAMIS_OK. */
  int (*bytes_for)(const tamis_options *options, uint64_t *bytes);
  /* The lowest rate that `bytes` bytes allow, to 1 %.  *fpp is written only with TAMIS_OK. */
  int (*fpp_for)(const tamis_options *options, uint64_t bytes, double *fpp);
  /* Creates a filter.  `head` has the contents of the filter's first member, except the operations.
   * *out is written only with TAMIS_OK.  If `out` is NULL, it only finds out whether the options
   * would be refused. */
  int (*create)(const tamis_options *options, const struct tamis_filter *head,
                const struct refusal *why, tamis_filter **out);
  void (*destroy)(tamis_filter *f);
  void (*stats)(const tamis_filter *f, tamis_stats *out);
  /* Ends or names periods of a window.  NULL: TAMIS_EUNSUPPORTED. */
  int (*advance)(tamis_filter *f, enum filter_period how, uint64_t number);
  /* Adds at most FILTER_GROUP hashes, and remembers their keys while `periods` more periods run.
   * TAMIS_EINVAL, also without hashes: the window has fewer.  NULL: TAMIS_EUNSUPPORTED. */
  int (*add_for)(tamis_filter *f, const uint64_t *hashes, size_t n, unsigned periods, bool unique,
                 int *results);
  /* Whether the filter's structure is valid.  If not, *reason says what is wrong.  For tests: it
   * reads all memory of the filter, and no other call may run. */
  bool (*validate)(const tamis_filter *f, const char **reason);
  /* Saved filters: the features of files that the kind knows. */
  uint64_t features;
  /* saved.h says what these do.  If `save` and `load` are NULL, the result is TAMIS_EUNSUPPORTED,
   * and the others are not called.  `figures`, `bytes_beside` and `own_options` may be NULL. */
  void (*describe)(const tamis_filter *f, struct saved_head *out);
  void (*figures)(const struct saved_head *saved, tamis_stats *out);
  uint64_t (*bytes_beside)(const struct saved_head *saved);
  void (*own_options)(struct saved_head *saved); /* NULL: the kind has none */
  int (*read_live_stats)(struct saved_reader *r, struct saved_head *saved); /* of a live filter */
  struct saved_mapping (*mapping)(const tamis_filter *f); /* of a read-only filter */
  int (*save)(const tamis_filter *f, struct saved_writer *w);
  int (*load)(struct saved_reader *r, const struct saved_head *saved,
              const struct tamis_filter *head, tamis_filter **out);
  /* Filters that processes share; NULL: TAMIS_EUNSUPPORTED.  `share_new` makes an empty filter of
   * an empty file, or, if `file` is NULL, only finds out whether the options would be refused.
   * (They have passed `create`, except max_bytes.)  `share_open` opens the filter after its header
   * has been read; with TAMIS_OK the filter has the file.  After `sync`, all adds are on the
   * disk. */
  int (*share_new)(const tamis_options *options, const struct tamis_filter *head,
                   const struct refusal *why, struct shared_file *file);
  int (*share_open)(struct saved_reader *r, const struct saved_head *saved,
                    const struct tamis_filter *head, struct shared_file *file, tamis_filter **out);
  int (*sync)(const tamis_filter *f);
  /* Two filters of the same kind, hash function and seed.  The kind checks whether they fit
   * together otherwise.  `into` is not read-only, and is not `from`.  NULL: TAMIS_EUNSUPPORTED. */
  int (*merge)(tamis_filter *into, const tamis_filter *from);
  /* *out is written only with TAMIS_OK. */
  int (*intersect)(const tamis_filter *a, const tamis_filter *b, tamis_filter **out);
  int (*includes)(const tamis_filter *f, const tamis_filter *other);
  int (*similarity)(const tamis_filter *a, const tamis_filter *b, tamis_similarity_stats *out);
};

/* What only few calls need. */
struct filter_more {
  union {
    tamis_allocator allocator;  /* allocate == NULL: the system's */
    uint64_t allocator_room[3]; /* as much as on other machines: see WIDE */
  };
  /* Memory for the members below may be missing if there is neither a hash function nor a secret:
   * filter_set_allocator(). */
  WIDE tamis_hash_function hash; /* NULL: XXH3 */
  WIDE void *hash_context;
  WIDE const unsigned char *secret; /* for long keys (hash.h); NULL: there is none */
};

/* The head of every filter.  Nothing in it changes after creation but the operations: a filter that
 * changes its form may get others, which work on all forms that it has had (bloom/layers.c,
 * cuckoo/generation.c). */
struct tamis_filter {
  WIDE const struct filter_operations *_Atomic operations;
  struct hash_keys keys;
  /* The address of a struct filter_more, plus FILTER_OWN_HASH if that has a hash function, plus
   * FILTER_SECRET if it has a secret: so calls need not look there.  NULL: allocator and hash
   * function are the usual ones, which saves a small filter the memory. */
  WIDE const char *more;
};

enum { FILTER_OWN_HASH = 1, FILTER_SECRET = 2, FILTER_BITS = 3 };

/* Called if f->more is not NULL. */
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

/* The same for an allocator alone, which is no whole struct filter_more. */
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

/* A copy of what f->more leads to, even if that is an allocator alone. */
static inline struct filter_more filter_more_of(const tamis_filter *f)
{
  struct filter_more more = {.allocator = *filter_allocator(f)};
  if (filter_has_own_hash(f)) {
    more.hash = filter_own_more(f)->hash;
    more.hash_context = filter_own_more(f)->hash_context;
  }
  return more;
}

/* Fills `f` from `head`, except the operations, and `more` and `secret`, which the filter
 * contains. */
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
 *   makes visible  that keys may also be where these operations look
 *   if weakened    acquire would keep that for calls that are ordered by other means.  But of two
 *                  threads that each add a key and then look up the other's key, both could miss:
 *                  one because it does not know yet where the other key went.  On x86-64 it is a
 *                  plain load in any case
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

/* Hashes by the user's function, or a key that is not short. */
__attribute__((unused)) NEVER_INLINE static uint64_t
filter_hash_otherwise(const tamis_filter *f, const void *key, size_t len)
{
  if (!filter_has_own_hash(f)) {
    const bool is_long = len > HASH_MEDIUM && filter_has_secret(f);
    return hash_bytes(&f->keys, is_long ? filter_own_more(f)->secret : NULL, key, len);
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

/* The hash of a certain key, by which hash functions are told apart. */
static inline uint64_t filter_probe(const tamis_filter *f)
{
  static const char key[] = "tamis probe";
  return filter_hash(f, key, sizeof key - 1);
}

static inline bool filter_validate(const tamis_filter *f, const char **reason)
{
  return operations_of(f)->kind->validate(f, reason);
}

#endif
