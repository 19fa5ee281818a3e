/* SPDX-License-Identifier: MIT
 *
 * The bytes of filters that RedisBloom wrote, and those into which this module puts them.
 *
 * A dump of RedisBloom's SCANDUMP, all numbers little-endian and without gaps:
 *
 *    cursor 1: the head, as below
 *    then     the bytes of all layers, one after the other, in chunks that end with a layer.  The
 *             cursor of such a chunk is 1 more than the number of bytes up to its end
 *
 *    head, Bloom:   u64 items, u32 layers, u32 options, u32 growth (missing before version 2), then
 *                   for each layer u64 bytes, u64 bits, u64 items, f64 rate, f64 bits for each
 *                   entry, u32 hashes, u64 entries, u8 logarithm of bits.  A filter of valkey-bloom has
 *                   32 bytes of seed and f64 tightening ratio before the layers
 *    head, cuckoo:  u64 items, u64 buckets, u64 deleted, u64 tables, u16 bytes of a bucket,
 *                   u16 iterations, u16 expansion (and 8 bytes without a meaning in version 2.2)
 *
 * In an RDB file and in payloads of DUMP the same numbers come one by one, in another order.
 *
 * In an image (image.h) a foreign filter is
 *
 *    u64 bytes of the head | u64 bytes of layers that have arrived | the head | these bytes
 */
#ifndef TAMIS_REDIS_FOREIGN_DATA_H
#define TAMIS_REDIS_FOREIGN_DATA_H

#include "foreign.h"
#include "server_api.h"

/* The encodings of RDB that are known: 0 to FOREIGN_RDB_VERSION, which is the one that is written. */
enum { FOREIGN_RDB_VERSION = 4 };

/* The results of reading are as those of tamis_load; TAMIS_EFULL: more bytes than `limit`, if that
 * is not 0.  *out is NULL after a failure. */

/* The first chunk of a dump.  The layers have no memory yet. */
int foreign_read_head(tamis_kind kind, const void *data, size_t size, uint64_t limit,
                      struct foreign **out);

/* Whether this is the first chunk of the dump to which the filter belongs. */
bool foreign_is_head(const struct foreign *f, const void *data, size_t size);

/* Takes a further chunk of a dump: TAMIS_OK; TAMIS_PRESENT: it was there already;
 * TAMIS_EINVAL: another one comes next; TAMIS_ECORRUPT: it has other bytes than came before. */
int foreign_take_chunk(struct foreign *f, long long cursor, const void *data, size_t size);

int foreign_write(const struct foreign *f, tamis_write_function write, void *context);
int foreign_read(tamis_kind kind, uint64_t limit, tamis_read_function read, void *context,
                 struct foreign **out);

/* RDB.  `first` is the first number, which has been read already. */
void foreign_rdb_save(server_io *io, const struct foreign *f);
int foreign_rdb_load(server_io *io, int version, tamis_kind kind, uint64_t first, uint64_t limit,
                     struct foreign **out);

#endif /* TAMIS_REDIS_FOREIGN_DATA_H */
