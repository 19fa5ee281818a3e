/* SPDX-License-Identifier: MIT
 *
 * tamis: approximate-membership filters (Bloom, cuckoo) that many threads share.
 *
 * A filter answers "have I seen this key?" in a few bits per key.  "No" is always true; "yes" is
 * wrong with a small probability that you choose.
 *
 * Usual use.  Any number of threads may call at the same time.
 *
 *     tamis_options options = TAMIS_OPTIONS_INIT;        always begin with this
 *     options.capacity = 1000000, options.fpp = 0.001;   keys expected; rate of a wrong "yes"
 *     tamis_create(&options, &filter)                    once, before the threads start
 *     tamis_add_unique(filter, key, len) == TAMIS_OK     "I am the first with this key"
 *     tamis_contains(filter, key, len)                   "it was probably added"
 *     tamis_remove(filter, key, len)                     TAMIS_CUCKOO; only what you have added
 *     tamis_advance(filter)                              options.window: a period has ended
 *     tamis_add_unique_for(filter, key, len, 0)          this key stays until the period ends
 *     tamis_save_file(filter, path), tamis_load_file(NULL, path, &filter)
 *     tamis_stats_text(filter, TAMIS_PROMETHEUS, "name", write, context)
 *     tamis_destroy(filter)                              when no thread uses it any more
 *
 * examples/quick has whole programs; tamis.hpp is for C++17.  The manual page of each call (for
 * example `man tamis_add`) also has the fine print of docs/manual/details/.
 *
 * The contract of a function has up to four fixed lines:
 *   Threads  which other calls may run at the same time on the same filter
 *   Blocks   whether the call can wait, and for what
 *   Order    what the call makes visible to other threads (C11 memory orders)
 *   Errors   every result that the call can return
 *
 * The library prints nothing, and itself never aborts or exits.  No call is async-signal-safe, or a
 * cancellation point.  Only TAMIS_EIO gives errno a meaning.  Linux, 64-bit little-endian.
 *
 * Functions of yours that the library calls (of an allocator, to hash, to write or to read) must
 * return normally: they must not throw C++ exceptions, call longjmp(), or end the thread.
 *
 * After fork() the child has a private copy of every filter that processes do not share.  The child
 * may use it if, at the fork, no other thread was in a call on the filter, except tamis_contains.
 */
#ifndef TAMIS_H
#define TAMIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAMIS_VERSION_MAJOR 0
#define TAMIS_VERSION_MINOR 9
#define TAMIS_VERSION_PATCH 0

/* Marks the public functions.  The library exports nothing else. */
#if defined(__GNUC__)
#define TAMIS_API __attribute__((visibility("default")))
#else
#define TAMIS_API
#endif

typedef struct tamis_filter tamis_filter;

/* ---- tamis_strerror: results, and the version ---- */

/* Results, as an int.  Failures are negative: nothing changed, unless the call says otherwise. */
enum {
  TAMIS_OK = 0,            /* done; from add_unique: the key was new, and this call added it */
  TAMIS_PRESENT = 1,       /* add_unique: the key was present, or seemed to be */
  TAMIS_ABSENT = 2,        /* remove: no such key; includes: it lacks some */
  TAMIS_EINVAL = -1,       /* an argument is outside its range */
  TAMIS_ENOMEM = -2,       /* memory was refused */
  TAMIS_EFULL = -3,        /* a limit is reached: capacity (without growth), max_bytes, or another
                             that the manual page of the call names */
  TAMIS_EUNSUPPORTED = -4, /* this kind, or this version, cannot do that */
  TAMIS_EIO = -5,          /* a file or a function of yours failed; errno says why */
  TAMIS_ECORRUPT = -6      /* the data that was read is not a complete saved filter */
};

/* An English phrase for a result, for example "out of memory": never NULL, static, no newline.
 *   Threads  any      Blocks  never */
TAMIS_API const char *tamis_strerror(int result);

/* The version of the library that is running: a static string "MAJOR.MINOR.PATCH".
 *   Threads  any      Blocks  never */
TAMIS_API const char *tamis_version(void);

/* ---- tamis_create: what to create, and what it takes ---- */

typedef enum tamis_kind {
  TAMIS_BLOOM = 1,  /* without a window, add, add_unique and contains take no lock; with a window,
                      only contains waits for none */
  TAMIS_CUCKOO = 2, /* also removes keys, and keeps its rate as it grows */
  TAMIS_COUNTING_BLOOM = 3 /* also removes keys, by counters of four bits; add and contains are
                              lock-free.  A cuckoo filter, which takes a fraction of its memory,
                              is nearly always better (docs/use/counting.md) */
} tamis_kind;

typedef enum tamis_layout {
  /* All bits of a key are in one 64-byte cache line, so a call makes one memory access.  At rates
   * below 1.1e-4 (of a filter or a layer), a key may have two to five lines, accessed at the same
   * time.  With 10^4 to 10^11 keys, this layout takes up to a fifth more bits than classic. */
  TAMIS_LAYOUT_BLOCKED = 0,
  /* A key has two bits in each of its words.  Fewest bits from 10^4 keys on, fpp up to 0.1. */
  TAMIS_LAYOUT_CLASSIC = 1,
  /* All bits of a key are in one 64-bit word, which a look-up reads and an add changes in one step.
   * So all calls with keys are wait-free until the filter grows.  This layout takes a fifth to a
   * quarter more bits than blocked at an fpp of 0.01, and more at lower rates. */
  TAMIS_LAYOUT_WORD = 2
} tamis_layout;

/* Where a filter's memory comes from.  Several threads may call these functions at once, also while
 * the threads hold locks of the filter, so neither function may call the filter.
 *   allocate  returns `size` bytes aligned to `alignment` (a power of two), or NULL
 *   release   takes back a block, with the size and the alignment that it was allocated with */
typedef struct tamis_allocator {
  void *(*allocate)(void *context, size_t alignment, size_t size);
  void (*release)(void *context, void *block, size_t alignment, size_t size);
  void *context;
} tamis_allocator;

/* Hashes `len` bytes at `key` (never NULL), keyed with `seed`.  Many threads call it at once. */
typedef uint64_t (*tamis_hash_function)(void *context, const void *key, size_t len, uint64_t seed);

/* Who may open a new file.  `mode` has its permission bits, whatever the umask is, and must include
 * 0600.  `group` is the number of its group, or -1 for the group that the system gives it. */
typedef struct tamis_file_access {
  unsigned mode;
  int64_t group;
} tamis_file_access;

/* The options of a new filter.  Always start from TAMIS_OPTIONS_INIT or tamis_options_init(): they
 * set the struct's size, so later versions can add fields without breaking programs. */
typedef struct tamis_options {
  size_t struct_size; /* sizeof (tamis_options) */
  tamis_kind kind;    /* default TAMIS_BLOOM */
  /* Distinct keys (counting Bloom: copies) expected, at least 1; not rounded.  No default. */
  uint64_t capacity;
  /* False-positive probability with `capacity` keys, 0 < fpp < 1; default 0.01.  Filters keep fpp
   * on average over seeds.  Single small filters differ from the average, so small Bloom filters
   * are made larger: at most about one in a thousand of them exceeds 1.1 * fpp. */
  double fpp;
  /* true (the default): the filter keeps accepting keys past `capacity`, and keeps its rate (except
   * a counting Bloom filter).  false: the size (except counts of copies) stays, and an add that
   * finds no room returns TAMIS_EFULL. */
  bool growable;
  /* The most bytes that the filter may take; 0 (default): no limit.  A growable Bloom filter
   * returns TAMIS_EFULL when its last layer is full and the next layer would exceed max_bytes. */
  uint64_t max_bytes;
  /* 0 (default): a new random seed from getrandom(2).  An attacker who has not seen hashes cannot
   * prepare keys that collide.  XXH3 is not a cryptographic function (SECURITY.md). */
  uint64_t seed;
  /* Bloom: default TAMIS_LAYOUT_BLOCKED, the only layout of a counting Bloom filter. */
  tamis_layout layout;
  /* How many locks, at most 4096, rounded up to a power of two; 0 (default): the library chooses.
   * A Bloom filter that neither counts nor has a window needs none.  Cuckoo: the locks of each
   * segment, at most 16 if the filter grows, else 32 (shared, or with a window: all locks). */
  unsigned stripes;
  /* NULL (default): XXH3, keyed with the seed. */
  tamis_hash_function hash;
  void *hash_context; /* passed to `hash` */
  /* NULL (default): malloc and mmap.  Otherwise the struct is copied. */
  const tamis_allocator *allocator;
  /* 0 (default): the filter forgets no key.  G, from 1 to 64: the filter, Bloom or cuckoo, is a
   * sliding window, which remembers a key for G periods after its last add (tamis_advance). */
  unsigned window;
  /* With a window: whether a unique add that returns TAMIS_PRESENT renews the key's time, as every
   * plain add does.  Default false. */
  bool window_renews;
  /* 0 (default): blocks from the allocator may contain anything.  Otherwise, the allocator promises
   * that blocks of at least this many bytes are zero, as those of calloc() are. */
  size_t cleared_from;
  /* tamis_open_shared: who may open the file that the call creates.  NULL (default): only its owner
   * (mode 0600).  Only calls that open a shared filter read `access`. */
  const tamis_file_access *access;
} tamis_options;

#define TAMIS_OPTIONS_INIT                                                                        \
  {                                                                                               \
    sizeof(tamis_options), TAMIS_BLOOM, 0, 0.01, true, 0, 0, TAMIS_LAYOUT_BLOCKED, 0, NULL, NULL, \
        NULL, 0, false, 0, NULL                                                                   \
  }

/* Does *options = TAMIS_OPTIONS_INIT, for languages that have no macros.  `options` may be NULL.
 *   Threads  any      Blocks  never */
TAMIS_API void tamis_options_init(tamis_options *options);

/* Creates a filter.  On every error *out is NULL; tamis_options_check says which option is wrong.
 *   Threads  any      Blocks  only in the allocator, and in getrandom(2)
 *   Order    hand the pointer to other threads as you would any other (mutex, release store)
 *   Errors   TAMIS_OK; TAMIS_EINVAL: an option is outside its range; TAMIS_EUNSUPPORTED: the kind,
 *            layout or window cannot be combined, or cannot have this fpp; TAMIS_EFULL: the filter
 *            would need more than max_bytes; TAMIS_ENOMEM */
TAMIS_API int tamis_create(const tamis_options *options, tamis_filter **out);

/* Says whether tamis_create would refuse these options.  `why` gets a sentence with the reason, cut
 * to `size` bytes with the final 0, or an empty text with TAMIS_OK.  `why` may be NULL.
 *   Threads  any      Blocks  only in getrandom(2), as tamis_create
 *   Errors   as tamis_create, without TAMIS_ENOMEM; if there are several reasons, one of them */
TAMIS_API int tamis_options_check(const tamis_options *options, char *why, size_t size);

/* Gets the options of a filter, with its secret seed.  From them tamis_create (for a cuckoo filter
 * that is or was shared, tamis_open_shared) makes one that fits `f`, if max_bytes, which a load may
 * have lowered, is large enough.  `allocator` lives with `f`.
 *   Threads  any      Blocks  never
 *   Errors   TAMIS_OK; TAMIS_EINVAL: as tamis_get_stats */
TAMIS_API int tamis_get_options(const tamis_filter *f, tamis_options *out);

/* Frees the filter.  `filter` may be NULL.
 *   Threads  no other call on this filter may be running, or start later
 *   Blocks   only in the allocator */
TAMIS_API void tamis_destroy(tamis_filter *filter);

/* The bytes that a filter with these options takes, except counts of copies.
 *   Threads  any      Blocks  never
 *   Errors   as tamis_create, without TAMIS_EFULL and TAMIS_ENOMEM; only TAMIS_OK writes *bytes */
TAMIS_API int tamis_bytes_for(const tamis_options *options, uint64_t *bytes);

/* The lowest fpp, to 1 %, that tamis_create can promise for these options with a max_bytes of
 * `bytes`.  The fpp and the max_bytes in the options are ignored.
 *   Threads  any      Blocks  never
 *   Errors   as tamis_bytes_for; TAMIS_EFULL: even 0.99 needs more; only TAMIS_OK writes *fpp */
TAMIS_API int tamis_fpp_for(const tamis_options *options, uint64_t bytes, double *fpp);

/* ---- tamis_add: the calls with one key ----
 *
 * Keys are byte strings; the empty string (len 0, key may be NULL) is a legal key.  Below, "invalid
 * arguments" means that f is NULL, or that key is NULL with len > 0.
 *
 * Each of the five calls also exists for a 64-bit hash: tamis_add (f, key, len) does the same as
 * tamis_add_hash (f, tamis_hash (f, key, len)).  Any 64-bit value is a legal hash.
 *
 * All five calls are linearizable: each takes effect at one instant between call and return.  (But
 * an add may make another key a false positive before the add takes effect.) */

/* The hash of a key under the filter's seed and hash function; 0 for invalid arguments.
 *   Threads  any      Blocks  never */
TAMIS_API uint64_t tamis_hash(const tamis_filter *f, const void *key, size_t len);

/* Adds a key.  Look-ups that start after the add find the key until it is removed or forgotten.  If
 * the key is present, the call adds a copy (Bloom: changes nothing; Bloom window: renews it).
 *   Threads  any      Order  sequentially consistent
 *   Blocks   Bloom: only to open a layer.  Cuckoo, and with a window: for locks, and to make room
 *   Errors   TAMIS_OK; TAMIS_EINVAL; TAMIS_EFULL: a limit; TAMIS_ENOMEM; TAMIS_EIO: only if shared;
 *            TAMIS_EUNSUPPORTED: the filter is mapped */
TAMIS_API int tamis_add(tamis_filter *f, const void *key, size_t len);
TAMIS_API int tamis_add_hash(tamis_filter *f, uint64_t hash);

/* Adds a key and says whether the key was new.  Of all these calls with one key, however they
 * overlap, exactly one returns TAMIS_OK until the key is removed or forgotten; none does if the key
 * is a false positive, if a plain add or a union has added it, or if the calls fail.
 *   Threads  any      Blocks  as tamis_add (counting: for a lock), but only to add or renew a key
 *   Order    as tamis_add; TAMIS_PRESENT synchronizes with the adds that made the key present
 *   Errors   TAMIS_OK: new, added by this call; TAMIS_PRESENT; the failures of tamis_add */
TAMIS_API int tamis_add_unique(tamis_filter *f, const void *key, size_t len);
TAMIS_API int tamis_add_unique_hash(tamis_filter *f, uint64_t hash);

/* Says whether the key was added; also true for other keys, with the filter's false-positive
 * probability.  False for invalid arguments.
 *   Threads  any      Blocks  never for a writer.  A thread's first call on a growable cuckoo
 *            filter or a window may take a lock, for a few steps
 *   Order    sequentially consistent: a true synchronizes with the adds that made it true */
TAMIS_API bool tamis_contains(const tamis_filter *f, const void *key, size_t len);
TAMIS_API bool tamis_contains_hash(const tamis_filter *f, uint64_t hash);

/* How many copies of a key the filter has: the adds of the key minus its removes.  Bloom: 1 or 0.
 * Counting Bloom: 15 means that there are, or were, 15 or more.  Other keys can make the count too
 * high.  0 for invalid arguments.
 *   Threads  any      Blocks  Bloom: never.  Cuckoo: for locks, if the key is present
 *   Order    sequentially consistent: synchronizes with the adds and removes that it counts */
TAMIS_API uint64_t tamis_count(const tamis_filter *f, const void *key, size_t len);
TAMIS_API uint64_t tamis_count_hash(const tamis_filter *f, uint64_t hash);

/* Removes one copy of a key.  Never remove a key that was not added, or more often than it was
 * added: that may take another key away.
 *   Threads  any      Blocks  as tamis_add; counting Bloom: for a lock
 *   Order    sequentially consistent
 *   Errors   TAMIS_OK; TAMIS_ABSENT: the key is absent, or has been forgotten;
 *            TAMIS_EUNSUPPORTED: mapped, or Bloom without counters; TAMIS_EINVAL; TAMIS_EIO */
TAMIS_API int tamis_remove(tamis_filter *f, const void *key, size_t len);
TAMIS_API int tamis_remove_hash(tamis_filter *f, uint64_t hash);

/* ---- tamis_advance: the end of a period of a window ---- */

/* Ends a period of a window: at one instant, for all threads, the filter forgets the keys of the
 * oldest period.  A timer makes this call, and repeats it one period after the call has returned.
 *   Threads  any      Blocks  for another tamis_advance, and for each lock of the filter in turn
 *   Order    sequentially consistent
 *   Errors   TAMIS_OK; TAMIS_EINVAL: f is NULL; TAMIS_EUNSUPPORTED: the filter has no window;
 *            TAMIS_EIO: as tamis_add */
TAMIS_API int tamis_advance(tamis_filter *f);

/* Ends periods until the period with the number `period`, below 2^36, runs.  Does nothing if this
 * period runs or has ended.  If a thread passes a number c, such as the time divided by the length
 * of a period, and then adds a key, the key is remembered while all calls pass numbers up to c + G,
 * even if the calls come late or rarely.  A new filter is in period 0.
 *   Threads, Blocks, Order  as tamis_advance
 *   Errors   as tamis_advance; TAMIS_EINVAL also: 2^36 or more */
TAMIS_API int tamis_advance_to(tamis_filter *f, uint64_t period);

/* Gives the running period the number `period`, after a clock was wrong.  Each key keeps its age.
 *   Threads, Blocks, Order, Errors  as tamis_advance_to */
TAMIS_API int tamis_set_period(tamis_filter *f, uint64_t period);

/* ---- tamis_add_for: keys of a window that end by themselves ---- */

/* As tamis_add and tamis_add_unique, but the key is remembered for `periods` more periods, at most
 * options.window.  If the key has another end, the later end holds; but a unique add of a present
 * key does not change the key's end, unless options.window_renews is true.
 *   Threads, Blocks, Order  as tamis_add
 *   Errors   as these two calls; TAMIS_EINVAL also: more periods than options.window;
 *            TAMIS_EUNSUPPORTED: the filter has no window */
TAMIS_API int tamis_add_for(tamis_filter *f, const void *key, size_t len, unsigned periods);
TAMIS_API int tamis_add_for_hash(tamis_filter *f, uint64_t hash, unsigned periods);
TAMIS_API int tamis_add_unique_for(tamis_filter *f, const void *key, size_t len, unsigned periods);
TAMIS_API int tamis_add_unique_for_hash(tamis_filter *f, uint64_t hash, unsigned periods);

/* ---- tamis_add_many: the calls with many keys ----
 *
 * A batch makes the same call with n keys, faster if the filter is larger than the cache.  It acts
 * as n calls in the order of the keys (grown Bloom: any order).  If n is 0, arrays may be NULL. */

typedef struct tamis_key {
  const void *data;
  size_t len;
} tamis_key;

/* The number of keys found; found[i], if found is not NULL, says whether keys[i] is found.  If `f`
 * or `keys` is NULL, the number is 0, and found is not written.
 *   Threads, Blocks, Order: as tamis_contains */
TAMIS_API size_t tamis_contains_many(const tamis_filter *f, const tamis_key *keys, size_t n,
                                     bool *found);
TAMIS_API size_t tamis_contains_many_hash(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                          bool *found);

/* The number of the n filters that may hold a key; found[i], unless NULL, says whether filters[i]
 * may hold it.  Filters may have different kinds and seeds; for a hash, they must have the same
 * seed and hash function.  A filter that is NULL holds no key.  With several keys, found[k * n + i]
 * is for keys[k] and filters[i], and the result is the number of elements that are true.
 *   Threads, Blocks, Order: as tamis_contains, on each filter in turn */
TAMIS_API size_t tamis_contains_each(const tamis_filter *const *filters, size_t n, const void *key,
                                     size_t len, bool *found);
TAMIS_API size_t tamis_contains_each_hash(const tamis_filter *const *filters, size_t n,
                                          uint64_t hash, bool *found);
TAMIS_API size_t tamis_contains_each_many(const tamis_filter *const *filters, size_t n,
                                          const tamis_key *keys, size_t n_keys, bool *found);

/* The sum of all counts; counts[i], if counts is not NULL, is the result of tamis_count for
 * keys[i].  If `f` or `keys` is NULL, the sum is 0, and counts is not written.
 *   Threads, Blocks, Order: as tamis_count */
TAMIS_API uint64_t tamis_count_many(const tamis_filter *f, const tamis_key *keys, size_t n,
                                    uint64_t *counts);
TAMIS_API uint64_t tamis_count_many_hash(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                         uint64_t *counts);

/* Add n keys.  results[i], if results is not NULL, is the result of the call with keys[i].
 *   Threads, Blocks, Order: as the single calls
 *   Errors   TAMIS_OK if no key failed (TAMIS_PRESENT is no failure), else the failure of the first
 *            key that failed; keys after it are still tried.  TAMIS_EINVAL: f or the array is NULL,
 *            or any key is NULL with len > 0; then no key was added, and results is not written */
TAMIS_API int tamis_add_many(tamis_filter *f, const tamis_key *keys, size_t n, int *results);
TAMIS_API int tamis_add_many_hash(tamis_filter *f, const uint64_t *hashes, size_t n, int *results);
TAMIS_API int tamis_add_unique_many(tamis_filter *f, const tamis_key *keys, size_t n, int *results);
TAMIS_API int tamis_add_unique_many_hash(tamis_filter *f, const uint64_t *hashes, size_t n,
                                         int *results);

/* Add n keys as tamis_add_for and tamis_add_unique_for do, all for the same number of periods.  If
 * these are too many, or the filter has no window, no key is added, and results is not written. */
TAMIS_API int tamis_add_for_many(tamis_filter *f, const tamis_key *keys, size_t n, unsigned periods,
                                 int *results);
TAMIS_API int tamis_add_for_many_hash(tamis_filter *f, const uint64_t *hashes, size_t n,
                                      unsigned periods, int *results);
TAMIS_API int tamis_add_unique_for_many(tamis_filter *f, const tamis_key *keys, size_t n,
                                        unsigned periods, int *results);
TAMIS_API int tamis_add_unique_for_many_hash(tamis_filter *f, const uint64_t *hashes, size_t n,
                                             unsigned periods, int *results);

/* ---- tamis_get_stats: figures to watch ---- */

/* Figures to watch.  While no writer runs, they are exact, unless a field says otherwise. */
typedef struct tamis_stats {
  /* In: sizeof (tamis_stats).  Out: the number of bytes that were filled. */
  size_t struct_size;
  /* Bloom: distinct keys that adds found to be new, and united_count.  Counting Bloom and cuckoo:
   * adds minus removes, plus copies from unions.  With a window: the keys (cuckoo: copies) that the
   * filter remembers. */
  uint64_t count;
  uint64_t capacity; /* as asked */
  /* All memory of the filter: bits or buckets, locks, counters, the struct itself, and memory that
   * waits to be released.  For a mapped filter, the file is not included. */
  uint64_t bytes;
  /* Growth steps so far: splits of segments, and new generations; Bloom: layers after the first.
   * With a window, layers that were opened. */
  uint64_t growths;
  /* estimated_count / capacity. */
  double load;
  /* The false-positive rate at present.  Bloom: from the number of set bits.  Cuckoo: from how full
   * the segments are and how often they have split; right to a factor of two, or of five after
   * removes.  With a window: from how full the layers are. */
  double fpp_estimate;
  /* As asked, for `capacity` keys. */
  double fpp;
  /* Bloom: an estimate of all distinct keys, from the number of set bits (or counters above 0).
   * Cuckoo, and with a window: count. */
  double estimated_count;
  /* Bloom: bits of all layers, how many of them are 1 (in a large filter an estimate), and bits of
   * each key (k) in the newest layer.  With a window: bits of the tables; the other two are 0. */
  uint64_t bits;
  uint64_t bits_set;
  unsigned bits_per_key;
  tamis_kind kind; /* as asked */
  /* Bloom: the layout in use. */
  tamis_layout layout;
  /* The seed in use, which is a secret: whoever knows the seed can choose keys that collide. */
  uint64_t seed;
  /* Cuckoo: segments, the parts of the table that split on their own.  With a window, this field
   * and the next two are 0. */
  uint64_t segments;
  /* Cuckoo: how often two segments were joined into one. */
  uint64_t joins;
  /* Cuckoo: generations, which are tables, each several times as large as those before it.  New
   * keys go to the newest generation, and a look-up searches all generations. */
  unsigned generations;
  /* Cuckoo, and windows: bits of a new fingerprint; in a cuckoo filter more after many splits. */
  unsigned fingerprint_bits;
  /* Cuckoo, and windows: the part of the room for fingerprints that is in use. */
  double occupancy;
  /* Cuckoo, and windows: how often entries were moved to make room for a key.  This field and the
   * next four count from the creation or the load, and are 0 in the figures of a saved filter. */
  uint64_t evictions;
  /* Cuckoo, and windows: how often a search for a move that makes room failed. */
  uint64_t failed_searches;
  /* Adds of keys that failed for lack of room, memory or disk space. */
  uint64_t refused_adds;
  /* Cuckoo, and windows: how often a look-up began again because of what other calls did. */
  uint64_t lookup_retries;
  /* Cuckoo: the longest time of a step of growth, in nanoseconds, without waits for other steps. */
  uint64_t longest_growth_ns;
  /* Bloom, and with a window: layers.  New keys go to the newest layer, and a look-up searches all
   * layers.  1 for a cuckoo filter without a window. */
  unsigned layers;
  /* The number of periods whose keys are remembered apart: G + 1 with a window, else 1. */
  unsigned parts;
  /* How many periods have ended since the oldest remembered period began, at most G.  A load takes
   * the number of the running period for the number of ended ones. */
  uint64_t oldest_part_age;
  /* Bloom: how many of the keys in `count` came from unions or an intersection: an estimate. */
  uint64_t united_count;
  /* The number of the period that runs; 0 without a window. */
  uint64_t period;
} tamis_stats;

#define TAMIS_STATS_INIT                                                                           \
  {                                                                                                \
    sizeof(tamis_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 0, 0, \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                   \
  }

/* Does *stats = TAMIS_STATS_INIT, for languages without macros.  `stats` may be NULL. */
TAMIS_API void tamis_stats_init(tamis_stats *stats);

/* Fills *out.  Start from TAMIS_STATS_INIT, or from tamis_stats_init().  The cost for a large
 * filter does not depend on its size; but a cuckoo filter or a window may first release memory.
 *   Threads  any      Blocks  Bloom: never.  Cuckoo, and with a window: as tamis_remove
 *   Errors   TAMIS_OK; TAMIS_EINVAL: an argument is NULL, or struct_size is smaller than the struct
 *            of version 0.9; *out is not written then */
TAMIS_API int tamis_get_stats(const tamis_filter *f, tamis_stats *out);

/* Takes all `size` bytes at `data`, and returns 0.  Any other result ends the call: TAMIS_EIO. */
typedef int (*tamis_write_function)(void *context, const void *data, size_t size);

typedef enum tamis_text_format {
  /* An object, and a newline.  Its members are "name", "kind" ("bloom", "cuckoo" or
   * "counting_bloom"), "layout" of a Bloom filter ("blocked", "classic" or "word"), and the fields
   * of tamis_stats that the kind has, by their names.  NaN and infinity are null. */
  TAMIS_JSON = 1,
  /* Prometheus' text format, version 0.0.4: metrics such as tamis_keys, tamis_bytes and
   * tamis_adds_refused_total, each with its HELP and TYPE lines, and tamis_info with the labels
   * "kind" and (not cuckoo) "layout".  All metrics have the label "name" unless `name` is NULL. */
  TAMIS_PROMETHEUS = 2
} tamis_text_format;

/* Writes the figures of a filter as text, except the seed, which is a secret.  `name` is the name
 * of the filter in the text, or NULL.  `write` is called for one part of the text after the other,
 * and may call the filter.
 *   Threads  any      Blocks  as tamis_get_stats, and in `write`
 *   Errors   TAMIS_OK; TAMIS_EINVAL: f or write is NULL, or an unknown format; TAMIS_EIO: `write`
 *            failed, and errno has its error */
TAMIS_API int tamis_stats_text(const tamis_filter *f, tamis_text_format format, const char *name,
                               tamis_write_function write, void *context);

/* Writes the figures of n filters: an array of objects, or a page for Prometheus.  `names` has a
 * name for each filter.  n may be 0; the arrays may then be NULL.
 *   Errors   as tamis_stats_text; TAMIS_EINVAL also: an array or a filter is NULL, or for
 *            Prometheus a name of one of several filters; TAMIS_ENOMEM: less than 300 bytes are
 *            needed for each filter */
TAMIS_API int tamis_stats_text_many(const tamis_filter *const *filters, const char *const *names,
                                    size_t n, tamis_text_format format, tamis_write_function write,
                                    void *context);

/* ---- tamis_save: saved filters ----
 *
 * A saved filter is a sequence of bytes, the same on every machine; docs/reference/format.md
 * describes it.  A saved filter contains the filter's seed, which is a secret (tamis_stats.seed),
 * and everybody who can read it can test which keys are in.  So do not let others read it. */

/* Puts at most `size` bytes at `data`, and returns how many: 0 at the end of the data, and less
 * than 0 for an error, which ends the call with TAMIS_EIO.  Fewer than `size` bytes are fine. */
typedef int64_t (*tamis_read_function)(void *context, void *data, size_t size);

/* Saves a filter, while it is in use.  A key that no call touches during the save is saved exactly,
 * and any other key as it was at some moment of the save.  `write` is called for one part of the
 * data after the other, and may call the filter.
 *   Threads  any      Blocks  in `write` and in the allocator; cuckoo, and with a window: for locks
 *   Errors   TAMIS_OK; TAMIS_EINVAL: f or write is NULL; TAMIS_EIO: `write` failed; TAMIS_ENOMEM:
 *            some MiB are needed; TAMIS_ECORRUPT: the file that f was mapped from is damaged */
TAMIS_API int tamis_save(const tamis_filter *f, tamis_write_function write, void *context);

/* As tamis_save, to a file that is replaced only when the new file is completely on the disk.
 * Whatever happens meanwhile, the path leads to the complete old file or the complete new file.
 *   Threads  any.  Of several saves to one path, each is whole, and the last one stays
 *   Blocks   as tamis_save, and for the disk
 *   Errors   as tamis_save; TAMIS_EINVAL also: path is NULL; TAMIS_EIO: errno says why */
TAMIS_API int tamis_save_file(const tamis_filter *f, const char *path);

/* As tamis_save_file; `access` says who may open the file.  NULL: only its owner.
 *   Errors   as tamis_save_file; TAMIS_EINVAL also: `access` has a wrong mode or group */
TAMIS_API int tamis_save_file_as(const tamis_filter *f, const char *path,
                                 const tamis_file_access *access);

/* How to load.  Always start from TAMIS_LOAD_OPTIONS_INIT, or from tamis_load_options_init(). */
typedef struct tamis_load_options {
  size_t struct_size; /* sizeof (tamis_load_options) */
  /* The most bytes that the load, and the filter later, may take.  0 (default): no limit for the
   * load, and later the limit with which the filter was created.  Set max_bytes for files that you
   * do not trust. */
  uint64_t max_bytes;
  /* NULL (default): malloc and mmap.  Otherwise the struct is copied. */
  const tamis_allocator *allocator;
  /* The hash function with which the filter was created; NULL (default): XXH3. */
  tamis_hash_function hash;
  void *hash_context; /* passed to `hash` */
  /* tamis_map_file: read and check all of the file first.  Default false.  (tamis_load and
   * tamis_load_file always check everything.) */
  bool check_all;
  /* As in tamis_options, for what the filter allocates later. */
  size_t cleared_from;
} tamis_load_options;

#define TAMIS_LOAD_OPTIONS_INIT                               \
  {                                                           \
    sizeof(tamis_load_options), 0, NULL, NULL, NULL, false, 0 \
  }

/* Does *options = TAMIS_LOAD_OPTIONS_INIT, for languages without macros.  `options` may be NULL. */
TAMIS_API void tamis_load_options_init(tamis_load_options *options);

/* Loads a filter.  `options` may be NULL, for the defaults.  The call reads exactly the bytes of
 * the filter, and makes a valid filter from them, or returns an error and sets *out to NULL.
 *   Threads  any      Blocks  in `read` and in the allocator      Order  as tamis_create
 *   Errors   TAMIS_OK; TAMIS_EINVAL: also if `hash` is not the filter's; TAMIS_EIO: `read` failed;
 *            TAMIS_ECORRUPT; TAMIS_EUNSUPPORTED: data or options of a later version, or the file of
 *            a shared window or cuckoo filter; TAMIS_EFULL: max_bytes; TAMIS_ENOMEM */
TAMIS_API int tamis_load(const tamis_load_options *options, tamis_read_function read, void *context,
                         tamis_filter **out);

/* Loads a filter from a file, which must contain one filter and nothing after the filter.
 *   Errors   as tamis_load; TAMIS_EINVAL also: path is NULL; TAMIS_EIO: errno says why;
 *            TAMIS_ECORRUPT also: something follows the filter */
TAMIS_API int tamis_load_file(const tamis_load_options *options, const char *path,
                              tamis_filter **out);

/* Maps a file that holds a Bloom filter, counting or not, or a cuckoo filter that does not grow.
 * Nothing can be added to or removed from a mapped filter; all other calls work.  As long as the
 * file is mapped, nothing may change the file but calls on a shared filter that the file holds.
 *   Threads, Blocks, Order  as tamis_load; a look-up may wait for the disk
 *   Errors   as tamis_load_file; TAMIS_EUNSUPPORTED also: a window, or a cuckoo filter that grows,
 *            or that is or was shared */
TAMIS_API int tamis_map_file(const tamis_load_options *options, const char *path,
                             tamis_filter **out);

/* The figures of a saved filter, as they were when its save began, without building the filter.
 *   Threads  any      Blocks  in `read`
 *   Errors   TAMIS_OK; TAMIS_EINVAL: read or out is NULL, or struct_size as for tamis_get_stats;
 *            TAMIS_EIO, TAMIS_ECORRUPT, TAMIS_EUNSUPPORTED, TAMIS_ENOMEM: as tamis_load */
TAMIS_API int tamis_saved_info(tamis_read_function read, void *context, tamis_stats *out);

/* ---- tamis_open_shared: filters that processes share ----
 *
 * Any number of processes can change one filter in a file at once, by the usual calls: a Bloom
 * filter, or a Bloom window or a cuckoo filter that does not grow.  A process that is killed at any
 * moment loses no key whose add has returned, and makes nobody wait.  If a process opens a file
 * twice, the two filters behave like those of two processes.
 *
 * Anybody who can write the file can change all answers, and anybody who makes the file shorter
 * ends the processes that have it open with SIGBUS. */

/* Opens the filter in a file.  If the file does not exist or is empty, creates it with these
 * options; a growable filter needs max_bytes.  If `options` is NULL, the file must exist.  If
 * `path` is NULL, the filter is in memory without a name, and children forked later share it.
 *   Threads  any      Blocks  for the disk, and while another process fills or repairs the file
 *   Errors   as tamis_create; TAMIS_EINVAL also: the file has other options; TAMIS_EUNSUPPORTED
 *            also: cannot be shared; TAMIS_EIO: errno says why; TAMIS_ECORRUPT: no whole filter */
TAMIS_API int tamis_open_shared(const tamis_options *options, const char *path, tamis_filter **out);

/* As tamis_open_shared, with a descriptor that is open for reading and writing, for example of a
 * memfd, of a file without a name, or from another process.  The caller still has to close it. */
TAMIS_API int tamis_open_shared_fd(const tamis_options *options, int fd, tamis_filter **out);

/* Says whether tamis_open_shared would fail, and why, as tamis_options_check.  Leaves no file.
 *   Threads, Blocks, Errors: as tamis_open_shared */
TAMIS_API int tamis_shared_check(const tamis_options *options, const char *path, char *why,
                                 size_t size);

/* Returns when all keys that were added before the call are on the disk, safe from power failures.
 *   Threads  any      Blocks  for the disk
 *   Errors   TAMIS_OK; TAMIS_EINVAL: f is NULL; TAMIS_EUNSUPPORTED: the filter is not shared;
 *            TAMIS_EIO: errno says why; TAMIS_ENOMEM */
TAMIS_API int tamis_sync(tamis_filter *f);

/* ---- tamis_merge: several filters ----
 *
 * Two filters fit together if they are of one kind, have the same seed, hash function and layout,
 * were created with the same capacity, fpp, `growable` and window, and (cuckoo) either both or none
 * of them were ever shared.  Create them with the same options, in which you have set `seed`. */

/* Adds to `into` all keys that are in `from`.  Both filters may be in use.  After TAMIS_EFULL,
 * TAMIS_ENOMEM or TAMIS_ECORRUPT, some keys of `from` may be in `into`.
 *   Threads  any      Blocks  as tamis_add; counting: for locks; cuckoo, window: also of `from`
 *   Order    as tamis_add
 *   Errors   TAMIS_OK; TAMIS_EINVAL: do not fit; TAMIS_EUNSUPPORTED: `into` cannot take `from`;
 *            TAMIS_EFULL: a limit; TAMIS_ENOMEM; TAMIS_EIO; TAMIS_ECORRUPT: `from` is damaged */
TAMIS_API int tamis_merge(tamis_filter *into, const tamis_filter *from);

/* Creates a filter that finds exactly the keys that both filters find.  Only for Bloom filters of
 * one layer that do not count.  On every error *out is NULL.
 *   Threads  any      Blocks  only in the allocator, which is that of `a`
 *   Errors   TAMIS_OK; TAMIS_EINVAL: an argument is NULL, or the filters do not fit together;
 *            TAMIS_EUNSUPPORTED: another kind, or a filter of several layers; TAMIS_ENOMEM */
TAMIS_API int tamis_intersect(const tamis_filter *a, const tamis_filter *b, tamis_filter **out);

/* Whether `f` has all bits of `other` (or counters as high), so it finds every key of `other`.
 *   Threads  any      Blocks  never
 *   Errors   TAMIS_OK: it has; TAMIS_ABSENT: it lacks some; TAMIS_EINVAL: as tamis_intersect;
 *            TAMIS_EUNSUPPORTED: a cuckoo filter, or a window */
TAMIS_API int tamis_includes(const tamis_filter *f, const tamis_filter *other);

/* How many keys two filters have in common: estimates, from the numbers of set bits. */
typedef struct tamis_similarity_stats {
  size_t struct_size; /* as that of tamis_stats */
  /* Distinct keys in a, in b, in a or b, and in both. */
  double estimated_a;
  double estimated_b;
  double united;
  double common;
  /* common / united; 0 if both are empty. */
  double jaccard;
} tamis_similarity_stats;

#define TAMIS_SIMILARITY_STATS_INIT               \
  {                                               \
    sizeof(tamis_similarity_stats), 0, 0, 0, 0, 0 \
  }

/* Does *stats = TAMIS_SIMILARITY_STATS_INIT, for languages without macros.  Accepts NULL. */
TAMIS_API void tamis_similarity_stats_init(tamis_similarity_stats *stats);

/* Fills *out with estimates.  Only for Bloom filters of one layer that do not count.
 *   Threads  any      Blocks  never
 *   Errors   TAMIS_OK; TAMIS_EINVAL: as tamis_intersect, or struct_size is smaller than this
 *            struct; TAMIS_EUNSUPPORTED: another kind, or a filter of several layers; *out is not
 *            written then */
TAMIS_API int tamis_similarity(const tamis_filter *a, const tamis_filter *b,
                               tamis_similarity_stats *out);

#ifdef __cplusplus
}
#endif

#endif /* TAMIS_H */
