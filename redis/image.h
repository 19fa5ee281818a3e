/* SPDX-License-Identifier: MIT
 *
 * The bytes of a key whose filter is whole: those of RDB files, payloads of DUMP, and chunks.
 *
 *    head of 128 bytes | the filter, as tamis_save writes it
 *
 *    head, all numbers little-endian:
 *       0  8 bytes  the magic TAMISKEY
 *       8  u64      1, the version
 *      16  u64      the kind of filter, as in tamis_kind
 *      24  u64      EXPANSION; 0: does not grow
 *      32  u64      BUCKETSIZE (cuckoo), else 0
 *      40  u64      MAXITERATIONS (cuckoo), else 0
 *      48  u64      the most bytes that the filter may take; 0: any number
 *      56  u64      how many removes have found their key
 *      64  u64      WINDOW; 0: none
 *      72  u64      RENEWS: 0 or 1
 *      80  u64      EVERY, in milliseconds
 *      88  u64      when the next period ends by itself, in milliseconds since 1970
 *      96  u64      form: 0: as above; 1: the head is followed by a filter of a foreign form
 *                   (foreign_data.h); 2: by such a filter, and then by one as tamis_save writes it
 *     104  16 bytes reserved: 0
 *     120  u64      sum of bytes 0 to 119
 *
 * The same filter gives the same bytes on every server.
 */
#ifndef TAMIS_REDIS_IMAGE_H
#define TAMIS_REDIS_IMAGE_H

#include "value.h"

/* Writes the bytes of a whole value, cut for a taker.  Results as tamis_save. */
int image_cut(const struct value *v, bool sparse, chunk_taker take, void *context);

/* Reads a value, and then the end of the data.  A limit other than 0 is for what is not trusted:
 * the filter takes no more bytes, now and later.  Results as tamis_load; *out is NULL after a
 * failure. */
int image_read(tamis_kind kind, uint64_t max_bytes, tamis_read_function read, void *context,
               struct value **out);

/* An independent value with the same answers.  A limit other than 0 takes the place of the filter's
 * own.  NULL: no memory, and *result says why. */
struct value *image_copy(const struct value *v, uint64_t max_bytes, int *result);

/* Replaces the filter by an equal one in other memory.  What fails changes nothing. */
void image_renew(struct value *v);

/* Replaces the filter by a copy without a limit.  See must_obey() in settings.h. */
int image_lift_limit(struct value *v);

#endif /* TAMIS_REDIS_IMAGE_H */
