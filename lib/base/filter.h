/* SPDX-License-Identifier: MIT
 *
 * Between layer 3 and layer 2: what every kind of filter has, and what it must be able to do.
 * A new kind is a file with a table of these, and its functions to create and to size a filter,
 * which tamis.c calls.
 */
#ifndef TAMIS_LIB_FILTER_H
#define TAMIS_LIB_FILTER_H

#include "base/hash.h"
#include "tamis/tamis.h"

_Static_assert(sizeof(size_t) == 8, "sizes are computed in 64 bits");

/* What is compiled anew for each shape or sort of filter, and is never to be a call with that in a
 * register.  (Where nothing is optimised it would only be one branch many times.) */
#ifdef __OPTIMIZE__
#define FORCE_INLINE static inline __attribute__((always_inline))
#else
#define FORCE_INLINE static inline
#endif

/* Keys of a batch whose memory is on its way at a time.  More than a core can wait for at once, so that it
 * always waits for as many; few enough that what has come is still in the first-level cache when its turn
 * comes.  Measured: docs/performance.md. */
enum { FILTER_AHEAD = 64 };

/* Arguments are checked already; hashes are mixed with the seed already. */
struct filter_operations {
  void (*destroy)(tamis_filter *f);
  bool (*contains)(const tamis_filter *f, uint64_t hash);
  /* contains for each of these hashes, which are not mixed yet; how many are found.  found: may be
   * NULL. */
  size_t (*contains_many)(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found);
  int (*add)(tamis_filter *f, uint64_t hash);
  int (*add_unique)(tamis_filter *f, uint64_t hash);
  /* add_unique on each in turn; their memory has been fetched. */
  void (*add_unique_many)(tamis_filter *f, const uint64_t *hashes, size_t n, int *results);
  int (*remove)(tamis_filter *f, uint64_t hash); /* NULL: cannot */
  /* Fetches what an add of each will read; what it fetches is not looked at. */
  void (*prefetch)(const tamis_filter *f, const uint64_t *hashes, size_t n);
  void (*stats)(const tamis_filter *f, tamis_stats *out);
};

/* The head of every filter; nothing in it changes after creation. */
struct tamis_filter {
  const struct filter_operations *operations;
  struct hash_keys keys;
  tamis_hash_function hash; /* NULL: XXH3 */
  void *hash_context;
  tamis_allocator allocator; /* allocate == NULL: the system's */
};

#endif
