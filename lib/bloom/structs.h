/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the data structures of a Bloom filter.
 */
#ifndef TAMIS_LIB_BLOOM_STRUCTS_H
#define TAMIS_LIB_BLOOM_STRUCTS_H

#include "base/core_counter.h"
#include "base/filter.h"
#include "base/saved.h"
#include "base/shared_file.h"
#include "base/stripe.h"
#include "base/word.h"

#include <stddef.h>

/* In a filter of bits, KEYS counts the adds that set a bit in the last gap of their key (gaps.h),
 * and UNITED the keys that unions and intersections brought, as unite.c estimates them.  In a
 * filter with counters, copies are counted in KEYS if the filter is growable, in bloom_long.copies
 * if it is fixed, and UNITED is the *rest*, which counting_read() explains. */
enum bloom_counter { KEYS, UNITED, REFUSED, BLOOM_COUNTERS };

/* How near a layer is to the number of keys that it may take.  The value only rises.  LAST means
 * that the layer is full, and that no layer can follow. */
enum bloom_fullness { OPEN, NEAR, FULL, LAST };

/* The most layers of a filter: more than any address space holds. */
enum { BLOOM_MOST_LAYERS = 64 };

struct bloom;
struct bloom_calls;

/* What a look-up in several layers reads of one layer.  Each layer but the first has a table: its
 * own row, followed by the rows of all layers before it, down to the first. */
struct bloom_row {
  WIDE const word *words;
  uint64_t section_words;
  WIDE const struct bloom_calls *calls;
  uint8_t sections;
  uint8_t probes;
  uint8_t layout, bits_per_probe; /* with `sections` and `probes`: the shape */
  unsigned alike;                 /* how many rows, from this one on, one call of `find` searches */
};

struct bloom_calls {
  struct filter_operations alone; /* the operations of a filter that has only one layer */
  bool (*live_contains)(const tamis_filter *f, uint64_t hash);
  /* `find` and `insert` work on layers, which never have counters.  Both take mixed hashes.  `find`
   * searches n rows; no row has more probes than the row before it. */
  bool (*find)(const struct bloom_row *rows, unsigned n, uint64_t mixed);
  /* Adds a key; a full layer takes a key only if `late` is set (layers.c).  If the result is
   * TAMIS_OK, the call has set a bit in its last gap: the caller must then count the key. */
  int (*insert)(struct bloom *b, uint64_t mixed, bool late);
};

/* The struct of a filter, which is also that of its first layer; or the struct of a later layer.
 *
 * A server may keep a million filters.  So a small filter with the usual options (a *short* one)
 * consists only of this struct, in a block with its words:
 *
 *    [words] struct bloom
 *    [words] struct bloom_medium                             with an allocator, a limit, or both
 *    [words] struct bloom_long [rows]                        any other small filter
 *    struct bloom_large, with its shards [stripes] [rows]    a large one, with words elsewhere
 *
 * The struct of a small filter contains its only stripe and its only shard of counters. */
struct bloom {
  struct tamis_filter head; /* head.more of a medium one: NULL or the allocator */
  WIDE word *words;
  uint64_t word_count;
  union {
    WIDE struct stripe *stripes; /* the first stripe, if the filter has counters */
    uint64_t section_words;      /* the words of a section, if the filter has no counters */
  };
  union {
    /* Of the first layer.  NULL while it is the only layer; then the newest layer; or the first
     * layer itself if it has become LAST ([C] in layers.c). */
    WIDE struct bloom *_Atomic newest;
    WIDE struct bloom *older; /* of a later layer: the layer before it */
  };
  double fpp;
  union {
    /* LOCK bloom.stripes (order 1): orders the unique adds and removes of a line of counters; held
     * for one such call.  In a small filter: the lock of its only stripe. */
    char own_stripe[STRIPE_LOCK_BYTES];
    uint32_t blocks_cleared_from; /* of a medium filter: the option cleared_from, in bytes */
  };
  uint16_t few_keys;         /* the capacity of a short or medium filter */
  uint16_t is_long : 1;      /* this is a struct bloom_long */
  uint16_t stripe_mask : 12; /* the number of stripes, minus 1 */
  uint16_t probes : 3;       /* `probes`, `sections`, `layout` and `bits_per_probe` are the shape */
  _Atomic uint16_t watch_mask; /* a shard checks after each watch_mask + 1 keys (capacity.h) */
  uint8_t counter_mask;        /* the number of shards, minus 1; 0: `counts` is the only shard */
  uint8_t number : 7;          /* the layer's number; the first layer has 1 */
  uint8_t one_stripe : 1;      /* the option `stripes` is 1 */
  uint8_t sections : 6;
  uint8_t is_medium : 1; /* this is a struct bloom_medium */
  uint8_t live : 1;      /* the words and counters are in a file that several processes share */
  uint8_t layout : 3;
  uint8_t bits_per_probe : 3;
  uint8_t limited : 1;            /* the filter is fixed: it refuses keys beyond its capacity */
  uint8_t bounded : 1;            /* in a short filter: max_bytes has no room for another layer */
  _Atomic unsigned char fullness; /* enum bloom_fullness; written at most three times */
  _Atomic unsigned char openers;  /* the number of threads that are creating another layer */
  _Atomic uint64_t counts[BLOOM_COUNTERS];
};

_Static_assert(offsetof(struct bloom, own_stripe) % 8 == 0, "a stripe is aligned");
_Static_assert(offsetof(struct bloom, counts) == 96 && sizeof(struct bloom) == 120,
               "no byte is unused");

struct bloom_medium {
  struct bloom b;
  union {
    tamis_allocator allocator;
    uint64_t allocator_room[3];
  };
  uint64_t max_bytes : 48, most_keys : 16; /* see struct bloom_long */
};

/* While threads share the filter, only `copies` changes.  Before, `closes_at` may change, too. */
struct bloom_long {
  struct bloom b;
  WIDE const struct bloom_calls *calls;
  WIDE const struct bloom_row *rows; /* of a later layer: its row, then those of earlier layers */
  uint64_t capacity;
  uint64_t closes_at; /* if growable: the sum of KEYS and UNITED at which the next layer opens */
  uint64_t most_keys; /* if fixed: the sum of KEYS and UNITED at which the filter is full */
  uint64_t max_bytes; /* the option `max_bytes`; 0: no limit */
  union {
    struct saved_mapping mapping; /* the file with the words; `at` is NULL if no file is mapped */
    struct {
      WIDE const void *none;            /* mapping.at */
      WIDE struct bloom_shared *shared; /* NULL unless the filter is live */
    };
  };
  unsigned stripes_wanted; /* the option `stripes`; 0: the library chooses the number */
  uint32_t cleared_from;
  struct filter_more more;
  union {
    word copies;                    /* the number of copies in a fixed filter with counters */
    WIDE struct bloom_tally *tally; /* the counts of a live filter's layer */
  };
};

/* The counts of a live filter's layer, in the file (docs/reference/format.md). */
struct bloom_tally {
  _Atomic uint64_t state;     /* first layer only: see bloom_live_state() */
  _Atomic uint64_t unwatched; /* the complement of watch_mask in all processes; never loses a bit */
  _Atomic uint64_t boot;      /* first layer only: number of the boot at creation or last mend() */
  uint64_t unused[5];
  struct counter_shard shards[CORE_SHARDS];
};
_Static_assert(sizeof(struct bloom_tally) == (1 + CORE_SHARDS) * LINE_BYTES,
               "a shard is a cache line");

/* What each process keeps in its own memory about a live filter. */
struct bloom_shared {
  tamis_allocator allocator;
  struct filter_operations operations; /* in use while the process knows only one layer */
  struct shared_file file;
  struct refused_space refused; /* the last time that the system refused space for a layer */
  unsigned planned;             /* the number of layers, whether open or not */
  _Atomic unsigned known;       /* the number of layers that this process has seen open */
  struct bloom *layers[BLOOM_MOST_LAYERS];
  uint64_t ends[BLOOM_MOST_LAYERS]; /* the offset of each layer's end in the file, in bytes */
};

struct bloom_large {
  struct bloom_long l;
  unsigned char secret[HASH_SECRET_BYTES];
  _Alignas(LINE_BYTES) struct counter_shard shards[];
};

#endif
