/* SPDX-License-Identifier: MIT
 *
 * tamis: approximate-membership filters that many threads share.
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
 *     tamis_save_file(filter, path), tamis_load_file(NULL, path, &filter)
 *     tamis_stats_text(filter, TAMIS_PROMETHEUS, "name", write, context)
 *     tamis_destroy(filter)                              when no thread uses it any more
 *
 * tamis_options_check says why options are refused; examples/quick has whole programs; tamis.hpp is
 * for C++17.
 *
 * The contract of a function has up to five fixed lines:
 *   Threads  which other calls may run at the same time on the same filter
 *   Blocks   whether the call can wait, and for what
 *   Order    what the call makes visible to other threads (C11 memory orders)
 *   Errors   every result that the call can return, and what it has changed then
 *   Source   where a formula comes from
 *
 * The library prints nothing, never aborts and never exits (docs/growth.md, "membarrier", has a
 * case in which liburcu does).  No call is async-signal-safe, or a cancellation point.  errno is
 * part of a contract only with TAMIS_EIO.  docs/space.md lists measured sizes and rates.
 *
 * The library supports Linux on 64-bit processors (docs/platforms.md).
 *
 * Functions of yours that the library calls (an allocator's, a hash function, those that write and
 * read) must return: they must not throw C++ exceptions, leave by longjmp(), or end the thread.
 * The library's frames are not unwound, so locks would stay locked.
 *
 * After fork() the child owns a private copy of every filter.  It may use the copy unless another
 * thread of the parent was inside a call that changes the filter, saves it, or counts copies in it,
 * at that time.
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
#define TAMIS_VERSION_MINOR 1
#define TAMIS_VERSION_PATCH 0

/* Marks the public functions.  The library exports nothing else. */
#if defined(__GNUC__)
#define TAMIS_API __attribute__((visibility("default")))
#else
#define TAMIS_API
#endif

typedef struct tamis_filter tamis_filter;

/* ---- tamis_strerror: results, and the version ---- */

/* Results.  Every call that can fail returns one of these as an int; failures are negative. */
enum {
  TAMIS_OK = 0,            /* done; from add_unique: the key was new, and this call added it */
  TAMIS_PRESENT = 1,       /* add_unique: the key was present, or seemed so; nothing changed */
  TAMIS_ABSENT = 2,        /* remove: there is no such key; nothing changed */
  TAMIS_EINVAL = -1,       /* an argument is outside its range; nothing changed */
  TAMIS_ENOMEM = -2,       /* memory was refused; nothing changed */
  TAMIS_EFULL = -3,        /* a limit that you set (capacity without growth, max_bytes) is reached;
                             nothing changed */
  TAMIS_EUNSUPPORTED = -4, /* this kind, or this version, cannot do that; nothing changed */
  TAMIS_EIO = -5,          /* a file or a function of yours failed; errno says why */
  TAMIS_ECORRUPT = -6      /* what was read is no saved filter, or not all of one */
};

/* An English phrase for a result, for example "out of memory": never NULL, static, no newline.
 *   Threads  any      Blocks  never */
TAMIS_API const char *tamis_strerror(int result);

/* The version of the library that is running, "MAJOR.MINOR.PATCH"; static.
 *   Threads  any      Blocks  never */
TAMIS_API const char *tamis_version(void);

/* ---- tamis_create: what to create, and what it takes ---- */

typedef enum tamis_kind {
  TAMIS_BLOOM = 1,  /* add, add_unique, contains; contains is lock-free, without a window add too,
                      and in the word layout add_unique */
  TAMIS_CUCKOO = 2, /* also remove, and growth at a bounded rate; contains is lock-free */
  TAMIS_COUNTING_BLOOM = 3 /* a Bloom filter with removes: a counter of four bits in place of each
                              bit; add and contains are lock-free.  A cuckoo filter takes a fraction
                              of its memory, and is nearly always the better choice
                              (docs/counting.md) */
} tamis_kind;

typedef enum tamis_layout {
  /* All bits of a key in one 64-byte cache line: one memory access per call.  Takes more bits than
   * classic, the more so the lower fpp is.  Below fpp 1e-8 the filter is built classic;
   * tamis_stats.layout says which it is. */
  TAMIS_LAYOUT_BLOCKED = 0,
  /* Bits anywhere: the fewest bits for a rate, one memory access per bit read. */
  TAMIS_LAYOUT_CLASSIC = 1,
  /* All bits of a key in one 64-bit word: a look-up reads one word, and an add changes one, in one
   * step.  So add_unique takes no lock either: all calls are wait-free, until the filter grows
   * beyond its capacity, by layers that are blocked.  Takes more bits than blocked, a quarter more
   * at fpp 0.01.  Rates at which it would take more than twice as many are refused: those below
   * about 1.7e-4; for fewer than 10^4 keys some higher ones, at most 0.0023. */
  TAMIS_LAYOUT_WORD = 2
} tamis_layout;

/* Where a filter's memory comes from.  Both functions are called by the thread that calls the
 * filter (tamis_get_stats too), possibly by several threads at once, and with locks of the filter
 * held, so they must not call the filter.  The thread cannot be cancelled meanwhile (deferred
 * cancellation, which is the default), even if they contain cancellation points.
 *   allocate  returns `size` bytes aligned to `alignment` (a power of two), or NULL; a block that
 *             is not aligned is released and counts as NULL.  The contents do not matter: what is
 *             used is cleared, in a large block perhaps as keys come (see cleared_from).
 *   release   takes back a block, with the size and the alignment that it was allocated with. */
typedef struct tamis_allocator {
  void *(*allocate)(void *context, size_t alignment, size_t size);
  void (*release)(void *context, void *block, size_t alignment, size_t size);
  void *context;
} tamis_allocator;

/* Hashes `len` bytes at `key`, which is never NULL, to 64 bits, keyed with `seed`.  Many threads
 * call it at once. */
typedef uint64_t (*tamis_hash_function)(void *context, const void *key, size_t len, uint64_t seed);

/* What to create.  Always start from TAMIS_OPTIONS_INIT, or from tamis_options_init(): it sets the
 * struct's size, by which later versions add fields without breaking programs built today.  (From
 * 1.0 on; until then a new minor version is a new soname.) */
typedef struct tamis_options {
  /* sizeof (tamis_options) */
  size_t struct_size;
  /* Default TAMIS_BLOOM. */
  tamis_kind kind;
  /* Distinct keys expected, 1 to about 2^40; not rounded.  No default. */
  uint64_t capacity;
  /* False-positive probability with `capacity` keys in, 0 < fpp < 1; default 0.01.  Filters keep it
   * on average over seeds.  Single small ones differ from the average, so small Bloom filters are
   * planned larger: about one in a thousand, at most, exceeds 1.1 * fpp. */
  double fpp;
  /* true (the default): keep accepting keys past `capacity`.
   *   Cuckoo: by splitting one segment, a small part of the table, at a time.  The rate stays
   *   within fpp whatever the size, and removes give memory back.  Below fpp 1e-7 growth ends, at a
   *   million times the capacity or later, with TAMIS_EFULL.
   *   Bloom: by opening further layers, each with room for as many keys as all before it.  The
   *   rates of all layers together stay within fpp, whatever the size.  The first layer has 0.61 of
   *   it, for which it takes 1.0 to 2.3 bits per key more than a filter that does not grow.  Where
   *   64-bit hashes cannot give the rate of a further layer, growth ends with TAMIS_EFULL: at fpp
   *   1e-7 and above, not before 10^12 keys.
   *   Counting Bloom, in this version: at a rising rate (tamis_stats.fpp_estimate).
   * false: the rate and the size stay.
   *   Cuckoo: a key that finds no room gets TAMIS_EFULL: not before capacity (but with a
   *   probability below 1e-9, over seeds, whatever the capacity), and some time after.
   *   Removes make room again.  At most sizes this takes fewer bits than a filter that grows.
   *   Bloom: the key past capacity gets TAMIS_EFULL.  Keys that a false positive hides take no
   *   room, so a full filter may have met somewhat more than capacity distinct keys.
   *   Counting Bloom: the copy past capacity gets TAMIS_EFULL, exactly; copies of one key take a
   *   place each, and so do adds that are under way.  Removes make room again. */
  bool growable;
  /* The filter never takes more bytes than this.  A growable Bloom filter gets TAMIS_EFULL when its
   * last layer is full and the next one would exceed it.  What a cuckoo filter retires counts until
   * all look-ups, of any filter, that began before are over: at most about as much as the rest.  So
   * near the limit an add that got TAMIS_EFULL may succeed later.  0 (default): no limit. */
  uint64_t max_bytes;
  /* 0 (default): a fresh random seed from getrandom(2).  It keeps out those who prepare keys that
   * collide without having seen hashes, as far as XXH3 does: that is not a cryptographic function
   * (SECURITY.md). */
  uint64_t seed;
  /* Bloom: default TAMIS_LAYOUT_BLOCKED, the only one of a counting Bloom filter. */
  tamis_layout layout;
  /* Locks, at most 4096, rounded up to a power of two; 0 (default): chosen by the library.  Bloom:
   * those that unique adds spread over; the word layout has none.  Cuckoo: those of each segment,
   * which has at most 16 if the filter grows, 32 if not. */
  unsigned stripes;
  /* NULL (default): XXH3, keyed with the seed. */
  tamis_hash_function hash;
  /* Passed to `hash`. */
  void *hash_context;
  /* NULL (default): malloc and mmap.  Otherwise the struct is copied. */
  const tamis_allocator *allocator;
  /* 0 (default): keys stay.  G, at most 64: the filter is a sliding window.  A period ends when the
   * program calls tamis_advance().  A key is remembered for at least G periods after its last add,
   * and forgotten when G + 1 have ended since.  Bloom or cuckoo.
   *   Within the window all promises hold: no false negative, one winner of all unique adds of a
   *   key that is remembered by nobody, and the rate.  A key that has been forgotten can be won
   *   again, by one call.  `capacity` counts the distinct keys that are remembered at one time,
   *   whatever their periods.  Any period may have any part of them, and the same key may come in
   *   each.
   *   What differs from a filter without a window:
   *   - Adds take locks, as those of a cuckoo filter do.  Look-ups take none.
   *   - TAMIS_EFULL is not final: periods that end make room.
   *   - growable = true: when there is no room, a further layer of twice the size is opened.
   *     Layers that keys leave behind are searched until they are empty.  The rates of all layers
   *     together stay within fpp.  Growth ends with TAMIS_EFULL where no layer has a rate that is
   *     low enough: at fpp 0.001 and above, not before a million times the capacity.
   *   - growable = false: a key that finds no room gets TAMIS_EFULL: not before capacity distinct
   *     keys are remembered (but with a probability below 1e-9, over seeds), and some time after.
   *   - Bloom: the word layout is refused; either of the others gives the one layout of windows.
   *   - Cuckoo: each plain add is one copy more, and renews all copies of the key.  They are
   *     forgotten together.  A remove of a key that has been forgotten is one of a key that is not
   *     in.  Each key of several copies takes 32 to 96 bytes more, within max_bytes.  So does a
   *     new key that a false positive hides: without them it gets TAMIS_EFULL.
   *   - Rates are refused below 4e-9 to 1.1e-7, and of a filter that grows below 6e-8 to 1.8e-6;
   *     the larger the window, the higher.
   *   - A window cannot be mapped, and has no intersection and no similarity. */
  unsigned window;
  /* With a window: whether a unique add that returns TAMIS_PRESENT renews the key's time, as every
   * plain add does.  Default false. */
  bool window_renews;
  /* 0 (default): the contents of the allocator's blocks do not matter.  Otherwise, blocks of this
   * many bytes and more are zero when it returns them, as those of calloc() are.  Then the bits of
   * a Bloom filter, and of a layer that it opens, are not touched before keys come, nor are the
   * large blocks of a cuckoo filter and the layers of a window. */
  size_t cleared_from;
} tamis_options;

#define TAMIS_OPTIONS_INIT                                                                        \
  {                                                                                               \
    sizeof(tamis_options), TAMIS_BLOOM, 0, 0.01, true, 0, 0, TAMIS_LAYOUT_BLOCKED, 0, NULL, NULL, \
        NULL, 0, false, 0                                                                         \
  }

/* The same as *options = TAMIS_OPTIONS_INIT, for languages that have no macros.  NULL is fine.
 *
 * It writes the fields of version 0.1 and no byte more, whatever version the library has, and sets
 * struct_size to their size: so a program with an older struct has room for what it writes.  To use
 * a field that a later version has added, clear the whole struct first, and set struct_size to its
 * size afterwards.
 *   Threads  any      Blocks  never */
TAMIS_API void tamis_options_init(tamis_options *options);

/* Creates a filter.  The cost is that of planning it and of asking for address space: a large
 * filter's pages are touched on first use, not here, unless they come from an allocator of yours
 * (but see cleared_from), or it is a cuckoo filter that grows and takes less than 32 MiB.
 *   Threads  any
 *   Blocks   only in the allocator, and in getrandom(2) before the system's pool is ready
 *   Order    hand the pointer to other threads as you would any other (thread start, mutex, release
 *            store)
 *   Errors   TAMIS_OK.
 *            TAMIS_EINVAL: options or out is NULL, struct_size smaller than this struct or absurd,
 *            an unknown kind or layout, capacity 0, fpp not in (0, 1) or NaN, a size that no 64-bit
 *            address space holds, stripes over 4096, half an allocator, a window over 64,
 *            window_renews without a window.
 *            TAMIS_EUNSUPPORTED: an fpp below 4 * capacity * 2^-64, which 64-bit hashes cannot
 *            give, or below 9.4e-10 for a cuckoo filter (3e-8 if it grows), or at which the word
 *            layout takes more than twice the bits of the blocked one, or below 1e-5 for a counting
 *            Bloom filter, or another layout than blocked for it, or below the lowest of a window;
 *            a window on a kind that has none; the word layout with a window; options of a newer
 *            header that this library does not know; no seed given, and no getrandom(2).
 *            TAMIS_EFULL: the filter would need more than max_bytes.
 *            TAMIS_ENOMEM.
 *            On every error *out is NULL.  tamis_options_check says what is wrong. */
TAMIS_API int tamis_create(const tamis_options *options, tamis_filter **out);

/* Whether tamis_create would refuse these options, and why.  An English sentence goes to `why`, for
 * example "stripes is 5000; it must be from 0 to 4096": it names the field, its value, and the
 * values that are legal together with the other options.  It is cut to `size` bytes, with the 0 at
 * its end; NULL or a size of 0 are fine.  The sentence is empty with TAMIS_OK, and it may change in
 * any version.  Nothing is allocated.
 *   Threads  any
 *   Blocks   only in getrandom(2) before the system's pool is ready
 *   Errors   as tamis_create, without TAMIS_ENOMEM; of several reasons, one */
TAMIS_API int tamis_options_check(const tamis_options *options, char *why, size_t size);

/* Frees the filter.  NULL is fine.
 *   Threads  no other call on this filter may be running, or start later
 *   Blocks   only in the allocator */
TAMIS_API void tamis_destroy(tamis_filter *filter);

/* The bytes that a filter with these options takes, everything included.  (Beyond its capacity, a
 * filter that grows takes more.  A cuckoo filter that grows takes them at its capacity at the
 * latest, a large one as keys come; up to 4 in 10^5 small ones exceed them before, or refuse a key
 * with that max_bytes.  Counts of copies, above 0.05 also of false positives, come on top within
 * max_bytes.)  One that leaves room for growth costs a small Bloom filter up to 136 bytes.
 *   Threads  any      Blocks  never
 *   Errors   as tamis_create, without TAMIS_EFULL and TAMIS_ENOMEM; *bytes is written only with
 *            TAMIS_OK */
TAMIS_API int tamis_bytes_for(const tamis_options *options, uint64_t *bytes);

/* The lowest fpp that tamis_create can promise for these options with a max_bytes of `bytes`, to
 * 1 %.  (In the word layout, for less than 20,000 keys, some rates below 0.0025 are refused while
 * lower ones are not.  The answer may then be a rate above the refused ones.)
 *   Threads  any      Blocks  never
 *   Errors   as tamis_bytes_for (the fpp and max_bytes in options are ignored); TAMIS_EFULL: even
 *            an fpp of 0.99 needs more; *fpp is written only with TAMIS_OK */
TAMIS_API int tamis_fpp_for(const tamis_options *options, uint64_t bytes, double *fpp);

/* ---- tamis_add: the calls with one key ----
 *
 * Keys are byte strings; an empty one (len 0, key then may be NULL) is a legal key.  A call reads
 * all that it needs of the key before it returns.  Invalid arguments, below, are: f is NULL, or key
 * is NULL with len > 0.
 *
 * Each of the five calls exists for a 64-bit hash too, for callers that have one at hand.  Any
 * 64-bit value is a legal hash, sequential integers too: the filter mixes it with its seed.
 * tamis_add (f, key, len) and tamis_add_hash (f, tamis_hash (f, key, len)) are the same call.
 *
 * All of them are linearizable: each takes effect at one instant between its call and its return.
 * (A key that was never added may seem present while an add that makes it a false positive still
 * runs.) */

/* The hash of a key under the filter's seed and hash function; 0 for invalid arguments.  Filters
 * with the same seed and the same hash function agree on it.
 *   Threads  any      Blocks  never */
TAMIS_API uint64_t tamis_hash(const tamis_filter *f, const void *key, size_t len);

/* Adds a key.  Once it has returned, every contains of that key that starts later is true.  Adding
 * a key that is in changes nothing in a Bloom filter.  A cuckoo filter then holds one copy more,
 * which a remove takes out again.  (Copies beyond the third, at low rates beyond the second, are
 * only counted; where room is short, all but one.)  A counting Bloom filter holds copies, too.  One
 * of its counters that has reached 15, by copies of one key or of several that share it, is stuck:
 * it never changes again.  A key whose counters are all stuck stays, however often it is removed.
 *   Threads  any
 *   Blocks   Bloom: never (lock-free).  An add that has to open a layer blocks in the allocator;
 *            and while two other calls are there for that layer (one, if it is a union or, perhaps,
 *            with a max_bytes), it yields until one of them is done.
 *            Counting Bloom: never (lock-free; it repeats a step only when another call has changed
 *            the same word meanwhile).
 *            With a window: for the locks of the key's two buckets in each layer, held for one
 *            look-up and one insert, by tamis_advance for about 2 microseconds, and by a save for
 *            the time that it takes to copy a segment of the table; for the allocator, or another
 *            call that is in it, if a layer must be opened, or (cuckoo) a table of copies must
 *            grow.  Bloom: a key that was added before in the same period needs no lock.
 *            Cuckoo: for the locks of the key's two buckets (a unique add and a remove: in each
 *            generation, see tamis_stats), which it shares with writers of some other keys; they
 *            are held for one look-up and one insert or, while the segment is split or joined, for
 *            the time it takes to copy one (and to allocate memory for its counted copies).  An add
 *            that must make room, and a remove that gives memory back, also wait for another such
 *            call on the same part of the filter, which may be in the allocator, and for a lock
 *            that filters share, held for a few steps.  Waiting may yield or sleep.  The call never
 *            waits for readers to leave, but when more than 32 KiB and more than 1/32 of the memory
 *            wait for that, a split or a join sleeps for 50 microseconds up to four times
 *   Order    sequentially consistent: what the thread wrote before the add is visible to a thread
 *            whose contains is true because of it
 *   Errors   TAMIS_OK; TAMIS_EINVAL: invalid arguments.
 *            TAMIS_EFULL: a filter that may not grow is at its capacity, or max_bytes or the end of
 *            growth is reached; nothing changed.  Not before capacity distinct keys are in, unless
 *            max_bytes leaves no memory to count copies of keys in a cuckoo filter: then they take
 *            the room of others.  While several threads add to a Bloom filter, a few keys of each
 *            (at most 64) may get in past it.
 *            TAMIS_ENOMEM: it had to grow and could not; nothing changed, and the filter goes on
 *            working */
TAMIS_API int tamis_add(tamis_filter *f, const void *key, size_t len);
TAMIS_API int tamis_add_hash(tamis_filter *f, uint64_t hash);

/* Adds a key and says whether it was new.  Of all the calls with one key on a filter without it,
 * exactly one returns TAMIS_OK, however they overlap: never two, and none if a false positive hides
 * the key, if a plain add of it came before, or if the filter is full.
 *   Threads  any
 *   Blocks   never for a key that is in.  For a key that seems new, Bloom: as tamis_add, and in the
 *            word layout no more while it has one layer; otherwise for a lock shared with the
 *            unique adds (counting Bloom: and removes) of a few other keys, held for one look-up
 *            and one insert; waiting may yield or sleep.  Cuckoo: as tamis_add
 *   Order    as tamis_add; TAMIS_PRESENT synchronizes with the call that added the key
 *   Errors   TAMIS_OK: new, added by this call; TAMIS_PRESENT; the failures of tamis_add.
 *            Bloom: TAMIS_EFULL is final.  Once a key has got it from add_unique, no add_unique
 *            lets that key in, so the caller may go on to a next filter without a second winner in
 *            this one.  (In the word layout of a filter that grows, a call that runs while the
 *            filter becomes full for good may have set the bits of its key when it is refused.
 *            They stay, and make this key a false positive: one key of each thread, at most.)
 *            Cuckoo, counting Bloom, and all with a window: room may come back */
TAMIS_API int tamis_add_unique(tamis_filter *f, const void *key, size_t len);
TAMIS_API int tamis_add_unique_hash(tamis_filter *f, uint64_t hash);

/* Whether the key was added; true also for other keys, with the filter's false-positive
 * probability.  False for invalid arguments.
 *   Threads  any
 *   Blocks   never for a writer, and it takes no lock but the one named below.
 *            Bloom: a bounded number of steps.
 *            With a window: it retries only when another call has made progress: a period has
 *            ended, a layer was opened or has left, or one of the entries that share a counter with
 *            the key's own, one of 256 as a rule, has been moved.
 *            Cuckoo: it retries only when another call has made progress: an entry has left a
 *            bucket that shares a lock with one of the key's own, the key's segment has been
 *            replaced, or (in a filter that has grown much) an entry has come to one of the key's
 *            own buckets, or a generation has been added.
 *            Only the first call of a thread on a cuckoo filter that grows takes a lock, for a few
 *            steps, to register the thread as a reader (every call, while there is no memory for
 *            that)
 *   Order    sequentially consistent: a true synchronizes with the adds that made it true */
TAMIS_API bool tamis_contains(const tamis_filter *f, const void *key, size_t len);
TAMIS_API bool tamis_contains_hash(const tamis_filter *f, uint64_t hash);

/* How many copies of a key are in: how often it was added, less how often it was removed.  0 for
 * invalid arguments.
 *   Bloom    1 if tamis_contains is true, else 0.
 *   Counting Bloom  up to 14, an upper bound: too high by what other keys have added to all of the
 *            key's counters, which is not 0 for as many keys as the rate says.  15: 15 or more.
 *   Cuckoo   never too low.  With the filter's false-positive probability it is too high, by the
 *            copies of other keys that the filter cannot tell from this one.  Each add of the key
 *            makes it one more, and each remove one less.
 *   Threads  any
 *   Blocks   for a key that is not in: as tamis_contains.  For one that is in, Bloom: never;
 *            cuckoo: for the locks of the key's two buckets in each generation or layer, as a
 *            remove.  They are held for a few steps only.  (A mapped filter has no locks)
 *   Order    sequentially consistent: synchronizes with the adds and removes that it counts */
TAMIS_API uint64_t tamis_count(const tamis_filter *f, const void *key, size_t len);
TAMIS_API uint64_t tamis_count_hash(const tamis_filter *f, uint64_t hash);

/* Removes one copy of a key that was added before.  Never remove a key that was not added, or more
 * often than it was added: with the filter's false-positive probability that takes another key
 * away.  With a window, a tamis_advance that runs meanwhile may forget the key before the remove
 * takes it: docs/window.md ("Copies and removes") says how a program keeps the two apart.
 *   Threads  any
 *   Blocks   as tamis_add; counting Bloom: for the lock that its unique adds take
 *   Order    sequentially consistent
 *   Errors   TAMIS_OK; TAMIS_ABSENT: no such key is in, or it has been forgotten;
 *            TAMIS_EUNSUPPORTED on a Bloom filter that does not count, whatever the key;
 *            TAMIS_EINVAL: invalid arguments.  (A remove needs no memory.  If giving memory back would
 *            itself need memory that is not there, it is left for later.) */
TAMIS_API int tamis_remove(tamis_filter *f, const void *key, size_t len);
TAMIS_API int tamis_remove_hash(tamis_filter *f, uint64_t hash);

/* ---- tamis_advance: the end of a period of a window ---- */

/* Ends a period of a filter with a window (tamis_options.window).  At one instant, for all threads,
 * the keys are forgotten whose last add was in the oldest period that was remembered.  A call that
 * adds a key while this one runs adds it in any one of the periods in which it runs: it may be the
 * one that ends.  But whoever has found the key absent since then knows that it is added later.
 *
 * The call then clears what has been forgotten.  It reads all of the table, which takes about 7
 * nanoseconds for 64 bits of it.  Other calls go on meanwhile.  It allocates nothing; but of the
 * cuckoo kind, smaller tables for what is left of the copies, without which it goes on.
 *   Threads  any
 *   Blocks   for another tamis_advance, and for each lock of the filter in turn.  Nobody waits for
 *            it but for one lock at a time, which it holds for about 2 microseconds (cuckoo: and
 *            for each key with several copies that shares the lock, some nanoseconds more)
 *   Order    sequentially consistent
 *   Errors   TAMIS_OK; TAMIS_EINVAL: f is NULL; TAMIS_EUNSUPPORTED: the filter has no window */
TAMIS_API int tamis_advance(tamis_filter *f);

/* ---- tamis_add_many: the calls with many keys ---- */

typedef struct tamis_key {
  const void *data;
  size_t len;
} tamis_key;

/* Batches: the same calls on n keys.  The memory of the next keys is fetched while the current one
 * is worked on, which is faster on a filter larger than the cache.  A batch is not atomic: each key
 * is a call of its own to other threads.  Keys are taken in order, so of two equal keys in a unique
 * batch the second is TAMIS_PRESENT.  n may be 0; the arrays may then be NULL.
 *
 *   contains_many   How many were found; found[i], if found is not NULL, says which.  A key that
 *                   is NULL with len > 0 is not found.  0 if f or the array is NULL.
 *   count_many      The sum of all counts; counts[i], if counts is not NULL, is what the single
 *                   call would return.  That of a key that is NULL with len > 0 is 0.  0 if f or
 *                   the array is NULL; counts is not written then.
 *   add_many, add_unique_many
 *                   results[i], if results is not NULL, is what the single call would return.
 *                   TAMIS_OK if no key failed (TAMIS_PRESENT is no failure), else the failure of
 *                   the first key that failed; keys after it are still tried.
 *                   TAMIS_EINVAL: f or the array is NULL, or any key is NULL with len > 0; then no
 *                   key was added, and results is not written.
 *   Threads, Blocks, Order: as the single calls */
TAMIS_API size_t tamis_contains_many(const tamis_filter *f, const tamis_key *keys, size_t n,
                                     bool *found);
TAMIS_API size_t tamis_contains_many_hash(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                          bool *found);
TAMIS_API uint64_t tamis_count_many(const tamis_filter *f, const tamis_key *keys, size_t n,
                                    uint64_t *counts);
TAMIS_API uint64_t tamis_count_many_hash(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                         uint64_t *counts);
TAMIS_API int tamis_add_many(tamis_filter *f, const tamis_key *keys, size_t n, int *results);
TAMIS_API int tamis_add_many_hash(tamis_filter *f, const uint64_t *hashes, size_t n, int *results);
TAMIS_API int tamis_add_unique_many(tamis_filter *f, const tamis_key *keys, size_t n, int *results);
TAMIS_API int tamis_add_unique_many_hash(tamis_filter *f, const uint64_t *hashes, size_t n,
                                         int *results);

/* ---- tamis_get_stats: figures to watch ---- */

/* Figures to watch.  Exact when no writer runs unless a field says otherwise, close to it while one
 * does. */
typedef struct tamis_stats {
  /* In: sizeof (tamis_stats).  Out: how much of it was filled. */
  size_t struct_size;
  /* Bloom: distinct keys, less those that a false positive hid; a key that several threads add at
   * the same time counts once (or twice, if a layer is opened at that time).  Counting Bloom: adds
   * less removes, which is exact as long as no counter is stuck.  With a window: keys that are
   * remembered, less those that a false positive hid; while a tamis_advance runs, also some just
   * forgotten.  Cuckoo: adds less removes, and copies that unions have brought; with a window,
   * copies that are remembered. */
  uint64_t count;
  /* As asked. */
  uint64_t capacity;
  /* All memory of the filter: bits or buckets, locks, counters, the struct itself, and what waits
   * to be released.  Of a mapped filter, without the file. */
  uint64_t bytes;
  /* Growth steps so far: splits of segments, and new generations; Bloom: layers after the first.
   * With a window, layers that were opened. */
  uint64_t growths;
  /* estimated_count / capacity. */
  double load;
  /* The false-positive rate at present.  Bloom: from the number of set bits.  Cuckoo: from how full
   * the segments are and how often they have split, to a factor of two, or of five after removes.
   * With a window: from how full the layers are. */
  double fpp_estimate;
  /* As asked, for `capacity` keys. */
  double fpp;
  /* Bloom: distinct keys, hidden ones too, from the number of set bits (or counters above 0).
   * Cuckoo, and with a window: count. */
  double estimated_count;
  /* Bloom: size of the bit arrays of all layers, how many of their bits are 1, and bits of each key
   * (k) in the newest one.  Counting Bloom: size of the array, how many of its bits are in counters
   * above 0, and counters of each key.  In a layer of more than 2^21 bits that is growable, mapped
   * or counting, bits_set and estimated_count follow from `count`, or where that is inexact from a
   * sample: of 2^21 bits, to 0.5 % or so, or of 2^25 if few are set.  With a window: the size of
   * the tables; the other two are 0. */
  uint64_t bits;
  uint64_t bits_set;
  unsigned bits_per_key;
  tamis_kind kind;
  /* Bloom: the layout in use. */
  tamis_layout layout;
  /* The seed in use.  It is a secret: whoever knows it can choose keys that collide. */
  uint64_t seed;
  /* Cuckoo: segments, the parts of the table that split on their own.  With a window 0, as the next
   * two. */
  uint64_t segments;
  /* Cuckoo: pairs of segments that were joined to one so far. */
  uint64_t joins;
  /* Cuckoo: generations, which are tables that take new keys one after the other, each several
   * times as large as those before it.  A look-up searches all of them. */
  unsigned generations;
  /* Cuckoo: bits of a new fingerprint in the newest generation. */
  unsigned fingerprint_bits;
  /* Cuckoo: the load factor, the part of the room for fingerprints that is in use. */
  double occupancy;
  /* The next five count from the creation of the filter, or from its load, and are 0 in the figures
   * of a saved one.
   * Cuckoo: how often entries were moved to make room for a key. */
  uint64_t evictions;
  /* Cuckoo: how often no move made room: the filter then grew, counted copies, or refused a key. */
  uint64_t failed_searches;
  /* Adds of keys that got TAMIS_EFULL or TAMIS_ENOMEM. */
  uint64_t refused_adds;
  /* Cuckoo: how often a look-up began again because entries or segments had moved under it. */
  uint64_t lookup_retries;
  /* Cuckoo: the longest time, in nanoseconds, that a call took for one step of growth (a split, a
   * new generation, a segment for new keys, or a count of the copies in one), without waiting for
   * other such steps. */
  uint64_t longest_growth_ns;
  /* Bloom: layers, which take new keys one after the other, each as many as all before it.  A
   * look-up searches all of them.  1 for a cuckoo filter. */
  unsigned layers;
  /* Periods whose keys are remembered apart: G + 1 with a window, else 1. */
  unsigned parts;
  /* How many periods have ended since the oldest of those began: at most G; 0 without a window. */
  uint64_t oldest_part_age;
  /* Bloom: how many of `count` a union or an intersection has brought: an estimate. */
  uint64_t united_count;
} tamis_stats;

#define TAMIS_STATS_INIT                                                                           \
  {                                                                                                \
    sizeof(tamis_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 0, 0, \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                      \
  }

/* The same as *stats = TAMIS_STATS_INIT, as tamis_options_init is for options. */
TAMIS_API void tamis_stats_init(tamis_stats *stats);

/* Fills *out.  Start from TAMIS_STATS_INIT, or from tamis_stats_init().  It reads counters and at
 * most 2^25 bits of a layer, so the cost of a large filter does not depend on its size.  (Bloom:
 * the formula for the rate takes longer the lower fpp is.  Cuckoo: the call also releases memory
 * that has waited for readers.)
 *   Threads  any
 *   Blocks   Bloom: never.  Cuckoo: for a lock that filters share, held for a few steps
 *   Errors   TAMIS_OK; TAMIS_EINVAL: an argument is NULL, or struct_size is smaller than the
 *            struct of version 0.1; *out is not written then
 *   Source   estimated_count: Swamidass and Baldi, "Mathematical correction for fingerprint
 *            similarity measures to improve chemical retrieval", J. Chem. Inf. Model. 47 (2007) */
TAMIS_API int tamis_get_stats(const tamis_filter *f, tamis_stats *out);

/* Takes all of the `size` bytes at `data`, and returns 0.  Any other result ends the call with
 * TAMIS_EIO. */
typedef int (*tamis_write_function)(void *context, const void *data, size_t size);

typedef enum tamis_text_format {
  /* An object, and a newline.  Its members are "name", "kind" ("bloom", "cuckoo" or
   * "counting_bloom"), "layout" of a Bloom filter ("blocked", "classic" or "word"), and the fields
   * of tamis_stats that the kind has, by their names.  A number that JSON does not have is null. */
  TAMIS_JSON = 1,
  /* Prometheus' text format, version 0.0.4: metrics such as tamis_keys, tamis_bytes and
   * tamis_adds_refused_total, each with its HELP and TYPE lines, and tamis_info with the labels
   * "kind" and "layout".  All have the label "name". */
  TAMIS_PROMETHEUS = 2
} tamis_text_format;

/* Writes the figures of a filter as text, all but the seed, which is a secret.
 *
 * `name` is what the filter is called there.  Bytes of it that are not UTF-8 are written as U+FFFD,
 * and what needs an escape gets one.  NULL: there is no member or label "name".
 *
 * `write` is called with one part of the text after the other, at most 4 KiB each, by the calling
 * thread, and with no lock of the filter held; so it may call the filter.  The text is the same in
 * every locale.  Later versions may add members, metrics and labels.
 *   Threads  any
 *   Blocks   as tamis_get_stats, and in `write`
 *   Errors   TAMIS_OK; TAMIS_EINVAL: f or write is NULL, or an unknown format; nothing is written
 *            then.
 *            TAMIS_EIO: `write` failed, errno is as it has left it
 *   Source   https://prometheus.io/docs/instrumenting/exposition_formats/ */
TAMIS_API int tamis_stats_text(const tamis_filter *f, tamis_text_format format, const char *name,
                               tamis_write_function write, void *context);

/* The same for n filters.  JSON: an array of objects.  Prometheus: one page, in which the samples
 * of a metric follow one another and its HELP and TYPE lines stand once, as the format demands.
 * (Texts of tamis_stats_text that are put one after the other are no such page.)  `names` has a
 * name for each filter; in a page for Prometheus no two may be the same.  In JSON, `names` or any
 * name may be NULL.  n may be 0; the arrays may then be NULL.
 *   Errors   as tamis_stats_text, and TAMIS_EINVAL: an array or a filter is NULL, or for Prometheus
 *            a name of one of several filters.  TAMIS_ENOMEM: less than 300 bytes are needed for
 *            each filter, from the allocator of the first one */
TAMIS_API int tamis_stats_text_many(const tamis_filter *const *filters, const char *const *names,
                                    size_t n, tamis_text_format format, tamis_write_function write,
                                    void *context);

/* ---- tamis_save: saved filters ----
 *
 * A saved filter is a sequence of bytes, the same on every machine; docs/format.md describes it.
 * It holds the filter's seed, which is a secret (tamis_stats.seed), and tells whoever reads it
 * which keys are probably in: keep it where others cannot read it. */

/* Puts at most `size` bytes at `data`, and returns how many: 0 at the end of the data, and less
 * than 0 for an error, which ends the call with TAMIS_EIO.  Fewer than `size` bytes are fine. */
typedef int64_t (*tamis_read_function)(void *context, void *data, size_t size);

/* Saves a filter, while it is in use.  A key that no call touches between the beginning of the save
 * and its end is in the loaded filter exactly as it was, with its number of copies.  A key that is
 * touched meanwhile is saved as it was at some moment in between.  Nothing else is saved.  (With a
 * window, periods may end meanwhile: what has been forgotten at the end of the save is not in the
 * loaded filter, and the rest stays there for as long as here.)
 *
 * `write` is called with one part of the data after the other, about 1 MiB each, by the calling
 * thread, and with no lock of the filter held; so it may call the filter.
 *   Threads  any
 *   Blocks   in `write` and in the allocator.  Cuckoo: for the locks of one segment at a time, and
 *            writers wait for the time that it takes to copy one, as for a split.  With a window:
 *            for each lock of a segment in turn, and for tamis_advance.  While a segment is copied,
 *            adds that must make room in it wait, and so does tamis_advance
 *   Errors   TAMIS_OK; TAMIS_EINVAL: f or write is NULL; TAMIS_EIO: `write` failed, errno is as it
 *            has left it; TAMIS_ENOMEM: less than 4 MiB of memory are needed (with a window, 5),
 *            from the filter's allocator, beside what max_bytes counts.
 *            TAMIS_ECORRUPT: f was mapped without check_all, and its file is damaged: all of it is
 *            checked before anything is written */
TAMIS_API int tamis_save(const tamis_filter *f, tamis_write_function write, void *context);

/* The same to a file, which is replaced only when all of it is on the disk: whatever happens
 * meanwhile (the process is killed, power fails, the disk is full), the path leads to the old file
 * or to the new one, whole.  The new one is written beside the old one, synchronised, and renamed,
 * and its folder is synchronised.  Nobody but its owner can read it (mode 0600).  A process that is
 * killed may leave the unfinished file behind (its name goes on with ".tamis-"); the next save to
 * the path removes it, but on a network's file system, or if another user has left it.
 *
 * Of a symbolic link, the file that it leads to is replaced.  To a path that leads to anything but
 * a regular file, such as a pipe, the filter is written directly.
 *   Threads  any.  Of several saves to one path, each is whole, and the last one stays
 *   Blocks   as tamis_save, and for the disk
 *   Errors   as tamis_save, and TAMIS_EINVAL: path is NULL; TAMIS_EIO: errno says why.  Then the
 *            path leads to the old file, and the unfinished one is gone; only where the folder
 *            could not be synchronised after the renaming, the path leads to the new file */
TAMIS_API int tamis_save_file(const tamis_filter *f, const char *path);

/* How to load.  Always start from TAMIS_LOAD_OPTIONS_INIT, or from tamis_load_options_init(). */
typedef struct tamis_load_options {
  /* sizeof (tamis_load_options) */
  size_t struct_size;
  /* The load never takes more bytes than this for the filter, and neither does the filter later.  0
   * (default): no limit for the load, and later the limit that the filter was created with.  Set it
   * for files that you do not trust.  Other memory is only asked for as the data arrives: less than
   * three times what has come (of a cuckoo filter with a window, seven times), and 1.5 MiB.  But
   * the directories of a cuckoo filter that grows follow from figures that the file names, and not
   * from its length: they are asked for when all of the file has been read and is right.  From
   * malloc and mmap, such memory is only reserved until it is used. */
  uint64_t max_bytes;
  /* NULL (default): malloc and mmap.  Otherwise the struct is copied.  An allocator of yours is
   * asked for a filter's memory in growing parts as the data arrives, so while a part is copied
   * into the next one there is up to half as much again.  Where max_bytes leaves no room for that,
   * all of the memory is asked for at once. */
  const tamis_allocator *allocator;
  /* The hash function of the filter, if it was created with one; else NULL (default). */
  tamis_hash_function hash;
  /* Passed to `hash`. */
  void *hash_context;
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

/* The same as *options = TAMIS_LOAD_OPTIONS_INIT, as tamis_options_init is for options. */
TAMIS_API void tamis_load_options_init(tamis_load_options *options);

/* Loads a filter.  It has all that the saved filter had: keys with their copies, seed, rate,
 * capacity; and it goes on growing, shrinking and refusing keys where that filter would.
 *
 * Exactly the bytes of the filter are read, so several filters may follow one another.  The data
 * may come from anywhere: whatever it is, the call returns a filter that is whole, or an error.
 * Memory is asked for as data arrives, and not because the data says that more will come.  (Who
 * makes up data with right checksums can make up a filter, and knows its seed.)
 *   Threads  any
 *   Blocks   in `read` and in the allocator
 *   Order    as tamis_create
 *   Errors   TAMIS_OK.
 *            TAMIS_EINVAL: read or out is NULL, struct_size is smaller than this struct or absurd,
 *            half an allocator; `hash` is NULL although the filter was created with a hash function
 *            of its user's, or the other way round, or it is another function.
 *            TAMIS_EIO: `read` failed, errno is as it has left it.
 *            TAMIS_ECORRUPT: the data is no filter, or has been changed, or ends too early.
 *            TAMIS_EUNSUPPORTED: the data needs a later version of the library; options of a newer
 *            header that this library does not know.
 *            TAMIS_EFULL: the filter would need more than max_bytes.
 *            TAMIS_ENOMEM.
 *            `options` may be NULL, for the defaults.  On every error *out is NULL */
TAMIS_API int tamis_load(const tamis_load_options *options, tamis_read_function read, void *context,
                         tamis_filter **out);

/* The same from a file, which must hold one filter and nothing after it.
 *   Errors   as tamis_load, and TAMIS_EINVAL: path is NULL; TAMIS_EIO: errno says why;
 *            TAMIS_ECORRUPT: something follows the filter */
TAMIS_API int tamis_load_file(const tamis_load_options *options, const char *path,
                              tamis_filter **out);

/* Maps a file that holds a Bloom filter of either kind, or a cuckoo filter that does not grow.  The
 * call reads only the beginning and the end of the file, whatever its size, unless
 * options->check_all says otherwise.  Look-ups then read the file where the system keeps it in
 * memory, which all processes that map it share.
 *
 * Nothing can be added to or removed from a mapped filter: those calls return TAMIS_EUNSUPPORTED.
 * All other calls work.  The file must not be changed as long as it is mapped.  If it is made
 * shorter, look-ups end the process with SIGBUS.  To publish another filter, replace the file, as
 * tamis_save_file does: those who have mapped the old one keep it.  Where the file may have been
 * damaged, set check_all: without it, damaged bits lead to wrong answers, but to nothing worse.
 *   Threads, Blocks, Order  as tamis_load; a look-up may wait for the disk
 *   Errors   as tamis_load_file, and TAMIS_EUNSUPPORTED: a cuckoo filter that grows, or a window; a
 *            machine that is not little-endian */
TAMIS_API int tamis_map_file(const tamis_load_options *options, const char *path,
                             tamis_filter **out);

/* The figures of a saved filter, as they were when its save began, without building the filter.
 * `bytes` is what a loaded one will take on this machine; but of a cuckoo filter it is without
 * duplicate counts and, if the filter has several generations or more than some MiB, without some
 * locks and counters: then it will take more.  Only the beginning of the data is read, 512 bytes,
 * so nothing says that the rest is there.
 *   Threads  any      Blocks  in `read`
 *   Errors   TAMIS_OK; TAMIS_EINVAL: read or out is NULL, or struct_size as for tamis_get_stats;
 *            TAMIS_EIO, TAMIS_ECORRUPT, TAMIS_EUNSUPPORTED: as tamis_load; *out is not written
 *            then */
TAMIS_API int tamis_saved_info(tamis_read_function read, void *context, tamis_stats *out);

/* ---- tamis_merge: several filters ----
 *
 * Two filters fit together if they are of one kind, have the same seed, hash function and layout,
 * and were created with the same capacity, fpp and `growable`; cuckoo filters also if one of them
 * has grown more than the other.  Create them with the same options, and with a seed of your own.
 * Filters with a window fit together if the window is the same, too.
 * (What decides are their sizes.  Two Bloom filters of one size also fit where their options
 * differ, but `growable` must be the same.) */

/* Adds to `into` all keys that are in `from`.  Both may be in use: a key that is in `from` when the
 * call begins, and that nobody removes meanwhile, is in `into` when it ends.  What the union adds,
 * it adds key by key, and to other calls it looks like that.  Of the unique adds of a key in `into`
 * at most one wins, and none after the union has brought the key.
 *
 * Counting Bloom: the copies of both; the sum of two counters is stuck from 15 on.
 *
 * Bloom: the bits of both, layer by layer; `into` opens layers that only `from` has.  A union may
 * bring a growable filter more keys than a layer was made for, and then raises its rate above fpp
 * (tamis_stats.fpp_estimate); adds do not.  tamis_stats.count of `into` rises by the count of
 * `from`, less an estimate of the keys in the same layer of both; exactly, if `into` is empty.
 *
 * Cuckoo: `into` then has the copies of both.  A key that was in each of them once is in twice, and
 * two removes take it out.  The rate that was promised is kept, also when the filter goes on
 * growing, and so is max_bytes.  An entry of a cuckoo filter knows only the beginning of its key's
 * hash.  Therefore not all filters that fit together have a union: see docs/growth.md.
 *
 * With a window: a key comes with its age, the number of periods that have ended in `from` since
 * its last add, counted from the period that runs in `into`.  If both have it, the younger age
 * stays.  See docs/window.md.
 *   Threads  any
 *   Blocks   Bloom: as tamis_add.  Cuckoo, and with a window: as tamis_add on `into`, and on `from`
 *            for the locks of one segment at a time, whose writers wait for the time that it takes
 *            to copy it.  No lock of one filter is held while a call waits for one of the other, so
 *            unions in both directions may run at the same time
 *   Order    as tamis_add; a contains of `into` that is true because of the union also synchronizes
 *            with the add to `from`
 *   Errors   TAMIS_OK.
 *            TAMIS_EINVAL: an argument is NULL, both are the same filter, or the filters do not fit
 *            together; nothing changed.
 *            TAMIS_EUNSUPPORTED: `into` is mapped.  With a window: one of the filters has several
 *            layers, or their layers differ in size, or the layer of a growable one has no room for
 *            the keys of both.  Cuckoo: the rates of both together would exceed the fpp of `into`,
 *            or entries of `from` know too little for the places where `into` has room, as when the
 *            first generation of `into` is full.  Nothing changed.
 *            TAMIS_EFULL: a filter that does not grow would have more keys than its capacity;
 *            nothing changed, unless keys have been added to `into` while the union ran, and have
 *            taken the room.  Cuckoo: both together have 2^48 copies or more, as after some seventy
 *            unions of two filters with each other in turn; nothing changed.  Bloom, growable:
 *            max_bytes has no room for the layers of `from`; no keys were added.  Cuckoo, growable:
 *            max_bytes is reached, or `into` is saved at the same time, and has grown beyond its
 *            first generation; some keys may have been added.
 *            TAMIS_ENOMEM: memory was refused; (cuckoo) some keys may have been added.
 *            TAMIS_ECORRUPT (cuckoo): `from` was mapped without check_all, and its duplicate
 *            counts are damaged; some keys may have been added.
 *            With a window, TAMIS_EFULL also comes if `into` opens a layer while the union runs, or
 *            (cuckoo) max_bytes is reached; some keys may have been added, as with TAMIS_ENOMEM.
 *            Where some keys may have been added, `into` has all that it had, and some of the keys
 *            of `from`, or (Bloom) some bits of them; nothing says which, so removes of keys that
 *            came from `from` must not follow, and a second try would add copies again.  `from` is
 *            never changed */
TAMIS_API int tamis_merge(tamis_filter *into, const tamis_filter *from);

/* Creates a filter that finds exactly the keys that both find.  (Bloom filters of one layer that do
 * not count only: keys of filters that have grown are in layers of different sizes, whose bits
 * cannot be compared.)  So every key that is in both is found.  A key that is in neither is found
 * with less than the lower one of the two rates, and a key that is in one of them with the rate of
 * the other.  The rate is above that of a filter to which only the common keys were added.
 *
 * tamis_stats.count is the estimated number of common keys (tamis_similarity).  estimated_count is
 * higher, as bits of different keys coincide, and fpp_estimate is that of keys that are in neither.
 * The filter refuses further keys beyond its capacity if `a` does.
 *   Threads  any
 *   Blocks   only in the allocator, which is that of `a`
 *   Errors   TAMIS_OK; TAMIS_EINVAL: an argument is NULL, or the filters do not fit together;
 *            TAMIS_EUNSUPPORTED: another kind, or a filter of several layers; TAMIS_ENOMEM.  On
 *            every error *out is NULL
 *   Source   Broder and Mitzenmacher, "Network applications of Bloom filters: a survey", Internet
 *            Mathematics 1 (2004), 2.3 */
TAMIS_API int tamis_intersect(const tamis_filter *a, const tamis_filter *b, tamis_filter **out);

/* How much two filters have in common: estimates, from the numbers of set bits. */
typedef struct tamis_similarity_stats {
  /* In: sizeof (tamis_similarity_stats).  Out: how much of it was filled. */
  size_t struct_size;
  /* Distinct keys of each, of both together, and those that are in both. */
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

/* The same as *stats = TAMIS_SIMILARITY_STATS_INIT, as tamis_options_init is for options. */
TAMIS_API void tamis_similarity_stats_init(tamis_similarity_stats *stats);

/* Fills *out.  (Bloom filters of one layer that do not count only.)  It reads all bits of both
 * filters.  No estimate is negative, and `common` is at most the smaller one of the two filters.
 *
 * The estimates have no bias.  With m bits, of which a key has k, the standard deviation of
 * estimated_a is sqrt(m (e^x - x - 1)) / k, where x = k a / m, and so for b and united.  That of
 * `common`, for c common keys, is the root of m (e^u - e^x - e^y + 2 e^z - z - 1), divided by k,
 * where x, y, u and z are k / m times a, b, a + b - c and c.  In the blocked layout it is up to a
 * fifth larger, in the word layout up to a third, and more if nearly empty; docs/bloom.md has the
 * formulas.  With two filters at half of their capacity, an fpp of 0.01 and 10^6 keys each, it is
 * 0.03 % of their keys: so many common keys do not stand out.  (Where a filter holds far more keys
 * than its capacity, nearly all bits are set, and estimates say little.)
 *   Threads  any      Blocks  never
 *   Errors   TAMIS_OK; TAMIS_EINVAL: as tamis_intersect, or struct_size is smaller than this
 *            struct;
 *            TAMIS_EUNSUPPORTED: another kind, or a filter of several layers; *out is not written
 *            then
 *   Source   Swamidass and Baldi, "Mathematical correction for fingerprint similarity measures to
 *            improve chemical retrieval", J. Chem. Inf. Model. 47 (2007), for the estimates; Whang,
 *            Vander-Zanden and Taylor, "A linear-time probabilistic counting algorithm for database
 *            applications", ACM TODS 15 (1990), for the deviation of one */
TAMIS_API int tamis_similarity(const tamis_filter *a, const tamis_filter *b,
                               tamis_similarity_stats *out);

#ifdef __cplusplus
}
#endif

#endif /* TAMIS_H */
