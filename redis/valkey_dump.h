/* SPDX-License-Identifier: MIT
 *
 * The bytes of a filter that valkey-bloom writes into an AOF, as the argument of BF.LOAD; all numbers
 * little-endian and without gaps:
 *
 *    u8 1 (the version), u32 expansion (0: does not grow), f64 rate, f64 tightening ratio,
 *    u8 whether the seed is from chance, u64 layers, then for each layer
 *
 *    u64 bytes of the next five, u8 1 (another version), u64 bytes of bits, u32 hashes, 32 bytes of
 *    seed, the bits, i64 items, i64 capacity
 *
 * All layers have the seed of the first one, and layer i has the rate times ratio^(i - 1).
 */
#ifndef TAMIS_REDIS_VALKEY_DUMP_H
#define TAMIS_REDIS_VALKEY_DUMP_H

#include "foreign.h"

/* TAMIS_OK, TAMIS_ECORRUPT, TAMIS_EUNSUPPORTED (another version), TAMIS_ENOMEM; TAMIS_EFULL: more bytes
 * than `limit`, if that is not 0.  *out is NULL after a failure. */
int valkey_dump_read(const void *data, size_t size, uint64_t limit, struct foreign **out);

#endif /* TAMIS_REDIS_VALKEY_DUMP_H */
