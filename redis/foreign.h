/* SPDX-License-Identifier: MIT
 *
 * Filters of a foreign form: those that RedisBloom or valkey-bloom wrote.  Their keys are not known, so
 * they stay as they are, and answer as they did there.
 *
 * A Bloom filter is a chain of layers.  An item sets `hashes` bits in one of them, at
 * (a + i * b) mod its number of bits, where a and b are two hashes of the item.  (valkey-bloom has the
 * first two at a and at b, and takes the sum of each further one mod a prime before.)  A cuckoo filter
 * is a chain of tables with the same hash: an item is one byte in one of two buckets of one table.
 *
 * Only the server's main thread uses them, beside a child that saves them.  Where a Bloom filter's
 * last layer is full, a filter of the library's own takes what comes (struct value).
 */
#ifndef TAMIS_REDIS_FOREIGN_H
#define TAMIS_REDIS_FOREIGN_H

#include "tamis/tamis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  /* Rates halve from layer to layer, and the smallest number above 0 is reached before that. */
  FOREIGN_MOST_LAYERS = 1100,
  FOREIGN_MOST_HASHES = 1100, /* what the smallest rate needs */
  FOREIGN_MOST_TABLES = 65535,
  FOREIGN_SEED_BYTES = 32
};

/* What counts of items say at most.  Counts stop there, so that all that is written can be read. */
#define FOREIGN_MOST_ITEMS ((uint64_t) INT64_MAX / 2)

/* The options in its data. */
enum {
  FOREIGN_NOROUND = 1,
  FOREIGN_ENTRIES_ARE_BITS = 2,
  FOREIGN_HASH_64 = 4,
  FOREIGN_NONSCALING = 8,
  FOREIGN_OPTIONS = 15,
  FOREIGN_VALKEY = 16 /* none of these: valkey-bloom wrote it */
};

struct foreign_layer {
  unsigned char *data;
  uint64_t bytes;
  uint64_t buckets; /* cuckoo; all that follows: Bloom */
  uint64_t entries; /* how many items it is for */
  uint64_t size;    /* how many it has */
  uint64_t bits;
  uint64_t log2_bits; /* 0: `bits` is no power of two */
  uint64_t hashes;
  double rate, bits_per_entry;
};

struct foreign {
  tamis_kind kind;
  uint64_t count;           /* items */
  uint64_t options, growth; /* Bloom */
  double tightening;        /* valkey-bloom: the rates of two layers, one by the other */
  unsigned char seed[FOREIGN_SEED_BYTES];                            /* valkey-bloom */
  uint64_t buckets, deleted, bucket_size, max_iterations, expansion; /* cuckoo */
  uint64_t bytes;                                                    /* of all layers */
  uint64_t arrived; /* of these, in order; the filter is whole when all have */
  /* Bloom: the largest limit of bytes that has refused an item.  It refuses all further ones, as a
   * filter that is full stays full. */
  uint64_t full_at;
  size_t layers, room;
  struct foreign_layer *layer;
};

/* A filter without layers.  NULL: no memory. */
struct foreign *foreign_create(tamis_kind kind);
void foreign_free(struct foreign *f);

/* Adds a layer, all zero, to fill in.  NULL: no memory, or too many layers. */
struct foreign_layer *foreign_open_layer(struct foreign *f);

/* Whether what others say of a filter is possible.  Computes how many bytes it has. */
bool foreign_is_possible(struct foreign *f);

/* Takes cleared memory for all layers.  False: no memory. */
bool foreign_allocate(struct foreign *f);

/* Lets `move` move all blocks of the filter but its struct; it returns NULL for one that stays. */
void foreign_move(struct foreign *f, void *(*move)(void *context, void *block), void *context);

bool foreign_is_whole(const struct foreign *f);
size_t foreign_memory(const struct foreign *f);
/* How many items its layers are for. */
uint64_t foreign_capacity(const struct foreign *f);

bool foreign_contains(const struct foreign *f, const void *item, size_t size);
/* As RedisBloom counts: an item whose two buckets are one is counted twice. */
uint64_t foreign_count(const struct foreign *f, const void *item, size_t size);

/* How far a cuckoo filter grows by further tables; 0: any number. */
struct foreign_limits {
  uint64_t bytes; /* of all tables */
  uint64_t tables;
};

/* TAMIS_OK, TAMIS_PRESENT (`unique`, or a Bloom filter), TAMIS_EFULL or TAMIS_ENOMEM. */
int foreign_add(struct foreign *f, const void *item, size_t size, bool unique,
                struct foreign_limits limits);

/* Cuckoo: TAMIS_OK or TAMIS_ABSENT. */
int foreign_remove(struct foreign *f, const void *item, size_t size);

#endif /* TAMIS_REDIS_FOREIGN_H */
