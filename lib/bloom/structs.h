/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what is in the memory of a Bloom filter.
 */
#ifndef TAMIS_LIB_BLOOM_STRUCTS_H
#define TAMIS_LIB_BLOOM_STRUCTS_H

#include "base/counter.h"
#include "base/filter.h"
#include "base/saved.h"
#include "base/shared_file.h"
#include "base/stripe.h"
#include "base/word.h"

#include <stddef.h>

/* KEYS: adds that set bits in their last gap.  UNITED: further keys, which a union or an
 * intersection has brought, as unite.c estimates them.  REFUSED: refused adds.  In a filter with
 * counters, KEYS are copies, if the filter is growable, and UNITED is the rest (counting.h). */
enum bloom_counter { KEYS, UNITED, REFUSED, BLOOM_COUNTERS };

/* How near a layer is to the number of keys that it may take.  The value only rises.  LAST: the
 * layer is full, and no layer can follow. */
enum bloom_fullness { OPEN, NEAR, FULL, LAST };

/* More layers than any address space holds. */
enum { BLOOM_MOST_LAYERS = 64 };

struct bloom;
struct bloom_calls;

/* What a look-up needs of one layer of several.  Each further layer has a table of rows: its own
 * row, and the rows of the layers before it, down to the first.  Without the table, a search would
 * follow a pointer from each layer to the one before. */
struct bloom_row {
  WIDE const word *words;
  uint64_t section_words; /* the words of one section */
  WIDE const struct bloom_calls *calls;
  uint8_t sections;
  uint8_t probes;
  uint8_t layout, bits_per_probe;
  unsigned alike; /* the number of rows, from this one on, that one call searches */
};

/* The functions of one shape (operations.c). */
struct bloom_calls {
  struct filter_operations alone; /* for a filter of one layer */
  /* `contains` of a live, growable filter. */
  bool (*live_contains)(const tamis_filter *f, uint64_t hash);
  /* For filters of several layers, which are never counting ones.  `find` and `insert` take mixed
   * hashes.  `find` searches n rows, whose numbers of probes fall or stay from row to row. */
  bool (*find)(const struct bloom_row *rows, unsigned n, uint64_t mixed);
  /* Adds a key, unless the layer is full and the call is not late.  TAMIS_OK: the call has
   * completed the key, but has not counted it; otherwise TAMIS_PRESENT or TAMIS_EFULL. */
  int (*insert)(struct bloom *b, uint64_t mixed, bool late);
};

/* A filter, or a further layer of one, whose head has only what all layers need.
 *
 * A server may keep a filter for each of a million users.  So a small filter with the usual options
 * (*short*) is only this struct, in a block with its words:
 *
 *    [words] struct bloom
 *    [words] struct bloom_medium                             with an allocator, a limit, or both
 *    [words] struct bloom_long [rows]                        another small one
 *    struct bloom_large, with its shards [stripes] [rows]    a large one: its words are elsewhere
 *
 * A small filter has its only stripe, and its only shard of counters, within the struct.  No thread
 * owns that shard, so all threads add to it atomically. */
struct bloom {
  struct tamis_filter head; /* `more`: NULL if it is short; an allocator or NULL, if medium */
  WIDE word *words;
  uint64_t word_count;
  union {
    WIDE struct stripe *stripes; /* the first stripe; only filters with counters have stripes */
    uint64_t section_words;      /* if the filter has no counters */
  };
  union {
    /* In the first layer: the newest layer, or NULL while the first is the only one; or the first
     * layer itself, if it has become the last one ([C] in layers.c). */
    WIDE struct bloom *_Atomic newest;
    WIDE struct bloom *older; /* in the other layers: the layer before */
  };
  double fpp;
  union {
    /* LOCK bloom.stripes (order 1): order the unique adds and removes of a line of counters; held for
     * one of them.
     * This one is the stripe of a small filter: only the lock of struct stripe, as nobody uses the
     * other members here. */
    char own_stripe[STRIPE_LOCK_BYTES];
    uint32_t blocks_cleared_from; /* medium, and so without counters: the option of this name */
  };
  uint16_t few_keys;           /* short or medium: the capacity */
  uint16_t is_long : 1;        /* a struct bloom_long */
  uint16_t stripe_mask : 12;   /* number of stripes - 1 */
  uint16_t probes : 3;         /* with sections, layout and bits_per_probe: the shape */
  _Atomic uint16_t watch_mask; /* the period of checks (capacity.h), minus 1 */
  uint8_t counter_mask;        /* number of shards - 1; 0: `counts` is the shard */
  uint8_t number : 7;          /* of this layer; the first has 1 */
  uint8_t one_stripe : 1;      /* the user has asked for one stripe */
  uint8_t sections : 6;
  uint8_t is_medium : 1; /* a struct bloom_medium */
  uint8_t live : 1;      /* its words and counters are in a file that other processes share */
  uint8_t layout : 3;
  uint8_t bits_per_probe : 3;
  uint8_t limited : 1;            /* fixed: keys past the capacity are refused */
  uint8_t bounded : 1;            /* short: max_bytes leaves no room for another layer */
  _Atomic unsigned char fullness; /* enum bloom_fullness; written at most thrice */
  _Atomic unsigned char openers;  /* threads that create a further layer */
  _Atomic uint64_t counts[BLOOM_COUNTERS];
};

_Static_assert(offsetof(struct bloom, own_stripe) % 8 == 0, "a stripe is aligned");
_Static_assert(offsetof(struct bloom, counts) == 96 && sizeof(struct bloom) == 120,
               "no byte is unused");

/* A small filter with an allocator of the user's, a limit of keys or a limit of bytes.  A server
 * may have a million of these, too. */
struct bloom_medium {
  struct bloom b;
  union {
    tamis_allocator allocator;  /* allocate == NULL: the system's */
    uint64_t allocator_room[3]; /* as in struct filter_more */
  };
  uint64_t max_bytes : 48, most_keys : 16; /* as in struct bloom_long */
};

/* Only `copies` changes, and `closes_at` of a first layer before other threads have the filter. */
struct bloom_long {
  struct bloom b;
  WIDE const struct bloom_calls *calls;
  WIDE const struct bloom_row *rows; /* of a further layer: one row for each layer up to it */
  uint64_t capacity;
  uint64_t closes_at; /* growable: with so many counted keys, the next layer is opened */
  uint64_t most_keys; /* fixed: with so many keys, counted or united, it takes no further one */
  uint64_t max_bytes; /* of the options */
  union {
    struct saved_mapping mapping; /* where the words are; at == NULL: not in a mapped file */
    struct {
      WIDE const void *none;            /* mapping.at */
      WIDE struct bloom_shared *shared; /* if the filter is live */
    };
  };
  unsigned stripes_wanted; /* by the user; 0: chosen by the library */
  uint32_t
      cleared_from; /* blocks from the allocator that have so many bytes are zero; 0: none are */
  struct filter_more more;
  union {
    word copies;                    /* the copies in a fixed filter with counters */
    WIDE struct bloom_tally *tally; /* of a layer of a live filter */
  };
};

/* The counts of a layer of a live filter, in the file: docs/reference/format.md has the bytes. */
enum { BLOOM_TALLY_SHARDS = 32 };
struct bloom_tally {
  _Atomic uint64_t state;     /* only in the first layer's tally: see bloom_live_state() */
  _Atomic uint64_t unwatched; /* the complement of a watch_mask; bits are only set */
  _Atomic uint64_t boot;      /* first layer only: the start of the system that has counted */
  uint64_t unused[5];
  struct counter_shard shards[BLOOM_TALLY_SHARDS];
};
_Static_assert(sizeof(struct bloom_tally) == (1 + BLOOM_TALLY_SHARDS) * LINE_BYTES,
               "a shard is a cache line");

/* What a process knows of a live filter. */
struct bloom_shared {
  tamis_allocator allocator;
  struct filter_operations operations; /* while the process knows a single layer */
  struct shared_file file;
  struct refused_space refused; /* the last refusal of space for a layer */
  unsigned planned;             /* the number of layers, open or not */
  _Atomic unsigned known;       /* the number of layers known to be open; it never falls */
  struct bloom *layers[BLOOM_MOST_LAYERS];
  uint64_t ends[BLOOM_MOST_LAYERS]; /* where each layer ends in the file */
};

struct bloom_large {
  struct bloom_long l;
  unsigned char secret[HASH_SECRET_BYTES];
  _Alignas(LINE_BYTES) struct counter_shard shards[];
};

#endif
