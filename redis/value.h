/* SPDX-License-Identifier: MIT
 *
 * The value of a key: a filter, or the chunks of one that is being restored.
 *
 * A filter that RedisBloom or valkey-bloom wrote is of a foreign form.  Once its last layer is full, a
 * Bloom filter of that form has a filter of the library's own on top.
 */
#ifndef TAMIS_REDIS_VALUE_H
#define TAMIS_REDIS_VALUE_H

#include "chunks.h"
#include "foreign.h"
#include "memory.h"

/* What commands have said of a filter that the filter itself does not know. */
struct traits {
  uint64_t max_bytes;      /* the limit that it was created with; 0: none */
  uint32_t expansion;      /* as asked; 0: the filter does not grow */
  uint16_t max_iterations; /* cuckoo: as asked; BF: 0 */
  uint8_t bucket_size;     /* cuckoo: as asked; BF: 0 */
  uint8_t window : 7;      /* periods of a sliding window; 0: there is none */
  uint8_t renews : 1;      /* whether an add of an item that is in renews it */
  /* These are 0 in a Bloom filter without a window, which has no room for them. */
  uint64_t deleted; /* cuckoo: how many removes have found their key */
  uint64_t every;   /* milliseconds after which a period ends by itself; 0: it does not */
  uint64_t next;    /* when the next one does, in milliseconds since 1970 */
};

_Static_assert(sizeof(struct traits) == 40, "traits are compared as bytes");

/* A server may have one for each of a million users, most of them a Bloom filter that a command has
 * created.  That one is *short*: its block ends after `renews` in its traits. */
struct value {
  tamis_filter *filter; /* NULL while it is being restored, and where a foreign one has none */
  struct memory_account *account; /* of the filter's blocks; NULL without one */
  struct foreign *foreign;        /* NULL: the filter is not of a foreign form */
  uint64_t capacity;              /* as asked */
  uint64_t count;                 /* adds that changed the filter, less removes */
  /* Of a cuckoo filter with a limit, and of a foreign filter: adds until its bytes are looked at
   * again, and what was seen. */
  uint32_t unwatched;
  tamis_kind kind : 8;
  bool at_limit;
  bool is_short;
  struct traits traits;
  /* What follows is read by value_chunks() and value_id(). */
  struct chunks *chunks; /* while it is being restored: those so far; else NULL */
  /* That in the heads of the chunks so far; later that of the last one, so that it may be sent again. */
  uint64_t id;
};

enum { VALUE_SHORT_BYTES = offsetof(struct value, traits) + offsetof(struct traits, deleted) };

_Static_assert(sizeof(struct value) == 104 && VALUE_SHORT_BYTES == 64,
               "size classes of the server's allocator have these, or few more");

/* What a short value does not have. */
static inline struct chunks *value_chunks(const struct value *v)
{
  return v->is_short ? NULL : v->chunks;
}

static inline uint64_t value_id(const struct value *v)
{
  return v->is_short ? 0 : v->id;
}

/* All that is in a value, with zeros for what a short one does not have; and the traits alone. */
struct value value_contents(const struct value *v);
struct traits value_traits(const struct value *v);

/* Takes the filter over.  NULL: no memory; the filter is destroyed then. */
struct value *value_of_filter(tamis_kind kind, struct memory_filter made,
                              const struct traits *traits, uint64_t capacity, uint64_t count);
struct value *value_to_restore(tamis_kind kind);
/* Takes both over; `own` may be NULL.  NULL: no memory; both are freed then. */
struct value *value_of_foreign(struct foreign *foreign, struct value *own);
struct traits value_traits_of_foreign(const struct foreign *foreign);
/* By any thread. */
void value_free(void *value);

/* Gives a value what another one has, which is whole, and frees that one.  The value is being restored,
 * or has a filter of the same kind. */
void value_complete(struct value *v, struct value *whole);

/* All memory of the value.  Only the main thread asks. */
size_t value_memory(const struct value *v);

/* Whether the filter is complete, so that commands may use it. */
bool value_is_whole(const struct value *v);
/* Whether the value has an image (image.h): all but one whose chunks are still apart. */
bool value_has_image(const struct value *v);

/* The statistics of the library's own filter; all zero where there is none. */
tamis_stats value_stats(const struct value *v);

/* How many items the layers of one of the library's own filters are for: each further layer holds as
 * many as all before it. */
uint64_t value_capacity_of_layers(const tamis_stats *stats);
/* How many items all layers are for. */
uint64_t value_capacity(const struct value *v);
/* How many items are in.  A saved window has no other count of those that it has renewed. */
uint64_t value_items(const struct value *v);

/* Whether an item is in, and how many copies of one.  The filter is whole. */
bool value_contains(const struct value *v, const void *item, size_t size);
uint64_t value_count(const struct value *v, const void *item, size_t size);

#endif /* TAMIS_REDIS_VALUE_H */
