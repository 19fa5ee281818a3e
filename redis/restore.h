/* SPDX-License-Identifier: MIT
 *
 * Restoring a filter chunk by chunk.
 */
#ifndef TAMIS_REDIS_RESTORE_H
#define TAMIS_REDIS_RESTORE_H

#include "value.h"

enum restore_result {
  RESTORE_GOES_ON,      /* the chunk was taken */
  RESTORE_DONE,         /* it was the last one, and the value is whole now */
  RESTORE_REPEATED,     /* the value has this chunk already */
  RESTORE_DAMAGED,      /* no chunk, or not as it was made; from here on, nothing has changed */
  RESTORE_OTHER_KIND,   /* of the other kind of filter */
  RESTORE_OTHER_DUMP,   /* it does not belong to the chunks that the value has */
  RESTORE_OUT_OF_ORDER, /* another one comes next */
  RESTORE_TOO_LARGE,    /* beyond the limit */
  RESTORE_NO_MEMORY,
  RESTORE_NO_FILTER /* the last one, but all together are no filter */
};

/* Adds a chunk to a value that is being restored.  `limit`: the most bytes of the filter; 0: any
 * number. */
enum restore_result restore_chunk(struct value *v, const void *data, size_t size, uint64_t limit);

/* The same for a dump that RedisBloom made (foreign_data.h).  Its first chunk makes a value; NULL: no
 * memory, or that is no first chunk, and *result says why. */
struct value *restore_begin_foreign(tamis_kind kind, const void *data, size_t size, uint64_t limit,
                                    enum restore_result *result);
enum restore_result restore_foreign_chunk(struct value *v, long long cursor, const void *data,
                                          size_t size);

/* Whether this was the last chunk of the dump that made the filter: a client whose reply was lost
 * sends that again. */
bool restore_had(const struct value *v, long long cursor, const void *data, size_t size);

#endif /* TAMIS_REDIS_RESTORE_H */
