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

/* KEYS: adds that set bits in their last gap.  BITS: bits set; counted if the filter is limited.
 * UNITED: further keys, which a union or an intersection has brought, as unite.c estimates them.
 * REFUSED: adds that were refused.
 * With counters in the place of bits: KEYS are copies, if the filter is not limited; UNITED is the
 * rest (counting.h). */
enum bloom_counter { KEYS, UNITED, REFUSED, BITS, BLOOM_COUNTERS };

/* Whether a layer comes near to the number of keys that it may take.  It only goes up.  LAST: it is
 * full, and no other layer can follow. */
enum bloom_fullness { OPEN, NEAR, FULL, LAST };

/* More than any address space holds. */
enum { BLOOM_MOST_LAYERS = 64 };

struct bloom;
struct bloom_calls;

/* A layer, as a look-up in a filter that has several of them needs it.  Each further layer has a
 * table of such rows, of itself and of those before it, down to the first: a search that went from
 * layer to layer would find each of them at the end of the one before. */
struct bloom_row {
  WIDE const word *words;
  uint64_t section_words; /* of each section */
  WIDE const struct bloom_calls *calls;
  uint8_t sections;
  uint8_t probes;
  uint8_t layout, bits_per_probe;
  unsigned alike; /* so many rows from this one on are searched by one call */
};

/* What is made for each shape (operations.c). */
struct bloom_calls {
  struct filter_operations alone; /* for a filter of one layer */
  /* `contains` of a growable filter that other processes share. */
  bool (*live_contains)(const tamis_filter *f, uint64_t hash);
  /* For some of several layers, which those with counters never are.  Both take mixed hashes.
   * The first one searches n rows, of which none has fewer probes than one that comes later. */
  bool (*find)(const struct bloom_row *rows, unsigned n, uint64_t mixed);
  /* Adds a key, unless the layer is full and the call is not late: TAMIS_OK, if it has completed the
   * key, but has not counted it; TAMIS_PRESENT or TAMIS_EFULL. */
  int (*insert)(struct bloom *b, uint64_t mixed, bool late);
};

/* A filter, and each further layer of one: then the head only has what all layers need.
 *
 * A server may keep a filter for each of a million users.  So that a small one takes little, this
 * is all that there is of a filter with the usual options (*short*), in one block with its words:
 *
 *    [words] struct bloom, without its last counter
 *    [words] struct bloom_medium                             with an allocator, a limit, or both
 *    [words] struct bloom_long [rows]                        another small one
 *    struct bloom_large, with its shards [stripes] [rows]    a large one: its words are elsewhere
 *
 * A small one has a stripe, and one shard of counters, within the struct.  No thread owns that, so
 * all of them add to it atomically. */
struct bloom {
  struct tamis_filter head; /* `more`: NULL if it is short; an allocator or NULL, if medium */
  WIDE word *words;
  uint64_t word_count;
  union {
    WIDE struct stripe *stripes; /* the first one; only filters with counters have any */
    uint64_t section_words;      /* of the others */
  };
  union {
    /* In the first layer: the newest one, or NULL if that is the first; or the first one itself, if
     * it is the last one, too ([C] in layers.c). */
    WIDE struct bloom *_Atomic newest;
    WIDE struct bloom *older; /* in the others: the layer before */
  };
  double fpp;
  union {
    /* LOCK bloom.stripes (order 1): order the unique adds and removes of a line of counters; held for
     * one of them.
     * This one is that of a small filter: the lock of a stripe, without what follows it in struct
     * stripe, which nobody uses here. */
    char own_stripe[STRIPE_LOCK_BYTES];
    uint32_t blocks_cleared_from; /* medium, which no filter with counters is: of the options */
  };
  uint16_t few_keys;           /* short or medium: the capacity */
  uint16_t is_long : 1;        /* a struct bloom_long */
  uint16_t stripe_mask : 12;   /* number of stripes - 1 */
  uint16_t probes : 3;         /* these four: the shape */
  _Atomic uint16_t watch_mask; /* the period of looks at the counters (capacity.h), less 1 */
  uint8_t counter_mask;        /* number of shards - 1; 0: they are `counts` */
  uint8_t number : 7;          /* of the layer, from 1 on */
  uint8_t one_stripe : 1;      /* the user has asked for one */
  uint8_t sections : 6;
  uint8_t is_medium : 1; /* a struct bloom_medium */
  uint8_t live : 1;      /* its words and counters are in a file that other processes share */
  uint8_t layout : 3;
  uint8_t bits_per_probe : 3;
  uint8_t limited : 1;                     /* not growable: keys past the capacity are refused */
  uint8_t bounded : 1;                     /* short: max_bytes leaves no room for another layer */
  _Atomic unsigned char fullness;          /* enum bloom_fullness; written at most thrice */
  _Atomic unsigned char openers;           /* threads that create a further layer */
  _Atomic uint64_t counts[BLOOM_COUNTERS]; /* a short filter does not have the last */
};

enum { BLOOM_SHORT_BYTES = sizeof(struct bloom) - sizeof(uint64_t) };
_Static_assert(offsetof(struct bloom, own_stripe) % 8 == 0, "a stripe is aligned");
_Static_assert(offsetof(struct bloom, counts) == 96 && sizeof(struct bloom) == 128,
               "no byte is unused");

/* A small filter with an allocator of the user's, with a limit of its keys or of its bytes, or with all
 * of these: a server may have a million of them, too. */
struct bloom_medium {
  struct bloom b;
  union {
    tamis_allocator allocator;  /* allocate == NULL: the system's */
    uint64_t allocator_room[3]; /* as in struct filter_more */
  };
  uint64_t max_bytes; /* of the options */
  double max_bits;    /* limited, and then only: as in struct bloom_long */
};

enum { BLOOM_MEDIUM_BYTES = offsetof(struct bloom_medium, max_bits) }; /* of a growable one */

/* None of it changes but `copies`, and of a first layer `closes_at`, before it is shared. */
struct bloom_long {
  struct bloom b;
  WIDE const struct bloom_calls *calls;
  WIDE const struct bloom_row *rows; /* of a further layer; as many as its number says */
  uint64_t capacity;
  uint64_t closes_at; /* growable: counted keys after which the next layer is opened */
  double max_bits;    /* limited: more bits mean that more than `capacity` distinct keys are in */
  uint64_t max_bytes; /* of the options */
  union {
    struct saved_mapping mapping; /* where the words are; at == NULL: not in a mapped file */
    struct {
      WIDE const void *none;            /* mapping.at */
      WIDE struct bloom_shared *shared; /* if the filter is live */
    };
  };
  unsigned stripes_wanted; /* by the user; 0: chosen by the library */
  uint32_t cleared_from;   /* blocks of so many bytes and more come cleared; 0: none do */
  struct filter_more more;
  union {
    word copies;                    /* that are in a limited filter with counters */
    WIDE struct bloom_tally *tally; /* of a live one */
  };
};

/* What is counted in a layer of a live filter, in the file: docs/reference/format.md has the bytes. */
enum { BLOOM_TALLY_SHARDS = 32 };
struct bloom_tally {
  _Atomic uint64_t state;     /* in that of the first layer: see bloom_live_state() */
  _Atomic uint64_t unwatched; /* the complement of a watch_mask; bits are only added */
  _Atomic uint64_t boot;      /* in that of the first layer: of the system that has counted */
  uint64_t unused[5];
  struct counter_shard shards[BLOOM_TALLY_SHARDS];
};
_Static_assert(sizeof(struct bloom_tally) == (1 + BLOOM_TALLY_SHARDS) * LINE_BYTES,
               "a shard is a cache line");

/* What a process knows of a live filter. */
struct bloom_shared {
  tamis_allocator allocator;
  struct filter_operations operations; /* while it knows a single layer */
  struct shared_file file;
  struct refused_space refused; /* for a layer */
  unsigned planned;             /* layers, with those that are not open yet */
  _Atomic unsigned known;       /* to be open: no layer is ever forgotten */
  struct bloom *layers[BLOOM_MOST_LAYERS];
  uint64_t ends[BLOOM_MOST_LAYERS]; /* where they end in the file */
};

struct bloom_large {
  struct bloom_long l;
  unsigned char secret[HASH_SECRET_BYTES];
  struct counter_shard shards[];
};

_Static_assert(offsetof(struct bloom_large, shards) % sizeof(struct counter_shard) == 0,
               "a shard is a cache line");

#endif
