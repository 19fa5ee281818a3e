/* SPDX-License-Identifier: MIT
 *
 * Austin Appleby's MurmurHash2 with 32 bits and MurmurHash64A: the hash functions of filters that
 * RedisBloom wrote.  Their seeds are known to everybody, so no filter of this library uses them.
 */
#ifndef TAMIS_REDIS_MURMUR_H
#define TAMIS_REDIS_MURMUR_H

#include "bytes.h"

static inline uint64_t murmur_64(const void *data, size_t size, uint64_t seed)
{
  const uint64_t factor = UINT64_C(0xc6a4a7935bd1e995);
  const unsigned char *bytes = data;
  uint64_t hash = seed ^ size * factor;
  for (; size >= 8; bytes += 8, size -= 8) {
    uint64_t word = get_u64(bytes) * factor;
    hash = (hash ^ (word ^ word >> 47) * factor) * factor;
  }
  if (size)
    hash = (hash ^ get_number(bytes, (unsigned) size)) * factor;
  hash = (hash ^ hash >> 47) * factor;
  return hash ^ hash >> 47;
}

static inline uint32_t murmur_32(const void *data, size_t size, uint32_t seed)
{
  const uint32_t factor = UINT32_C(0x5bd1e995);
  const unsigned char *bytes = data;
  uint32_t hash = seed ^ (uint32_t) size;
  for (; size >= 4; bytes += 4, size -= 4) {
    uint32_t word = (uint32_t) get_number(bytes, 4) * factor;
    hash = hash * factor ^ (word ^ word >> 24) * factor;
  }
  if (size)
    hash = (hash ^ (uint32_t) get_number(bytes, (unsigned) size)) * factor;
  hash = (hash ^ hash >> 13) * factor;
  return hash ^ hash >> 15;
}

#endif /* TAMIS_REDIS_MURMUR_H */
