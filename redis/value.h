/* SPDX-License-Identifier: MIT
 *
 * The value of a key: a filter, or the chunks of one that is being restored.
 *
 * A filter that RedisBloom wrote is of a foreign form.  Once its last layer is full, a Bloom filter
 * of that form has a filter of the library's own on top.
 */
#ifndef TAMIS_REDIS_VALUE_H
#define TAMIS_REDIS_VALUE_H

#include "chunks.h"
#include "foreign.h"

/* What commands have said of a filter that the filter itself does not know. */
struct traits {
  uint64_t expansion;      /* as asked; 0: the filter does not grow */
  uint64_t bucket_size;    /* cuckoo: as asked; BF: 0 */
  uint64_t max_iterations; /* cuckoo: as asked; BF: 0 */
  uint64_t max_bytes;      /* the limit that it was created with; 0: none */
  uint64_t deleted;        /* cuckoo: how many removes have found their key */
  uint64_t window;         /* periods of a sliding window; 0: there is none */
  uint64_t renews;         /* whether an add of an item that is in renews it */
  uint64_t every;          /* milliseconds after which a period ends by itself; 0: it does not */
  uint64_t next;           /* when the next one does, in milliseconds since 1970 */
};

struct value {
  tamis_kind kind;
  tamis_filter *filter;    /* NULL while it is being restored, and where a foreign one has none */
  struct foreign *foreign; /* NULL: the filter is not of a foreign form */
  struct traits traits;
  uint64_t capacity; /* as asked */
  uint64_t count;    /* adds that changed the filter, less removes */
  /* Of a cuckoo filter with a limit, and of a foreign filter: adds until its bytes are looked at
   * again, and what was seen. */
  uint64_t unwatched;
  bool at_limit;
  /* While it is being restored: the chunks so far, and the id in their heads.  The id stays, so
   * that the last chunk may be sent again. */
  uint64_t id;
  struct chunks chunks;
};

/* Takes the filter over.  NULL: no memory; the filter is destroyed then. */
struct value *value_of_filter(tamis_kind kind, tamis_filter *filter, const struct traits *traits,
                              uint64_t capacity, uint64_t count);
struct value *value_to_restore(tamis_kind kind);
/* Takes both over; `own` may be NULL.  NULL: no memory; both are freed then. */
struct value *value_of_foreign(struct foreign *foreign, tamis_filter *own);
struct traits value_traits_of_foreign(const struct foreign *foreign);
/* By any thread. */
void value_free(void *value);

/* Makes a value that is being restored a whole one, from another that is whole, and frees that. */
void value_complete(struct value *v, struct value *whole);

/* All memory of the value.  Only the main thread asks. */
size_t value_memory(const struct value *v);

/* Whether the filter is complete, so that commands may use it. */
bool value_is_whole(const struct value *v);
/* Whether the value has an image (image.h): all but one whose chunks are still apart. */
bool value_has_image(const struct value *v);

/* How many items all layers are for. */
uint64_t value_capacity(const struct value *v);

/* Whether an item is in, and how many copies of one.  The filter is whole. */
bool value_contains(const struct value *v, const void *item, size_t size);
uint64_t value_count(const struct value *v, const void *item, size_t size);

#endif /* TAMIS_REDIS_VALUE_H */
