/* SPDX-License-Identifier: MIT
 *
 * SipHash-1-3 by Jean-Philippe Aumasson and Daniel J. Bernstein: the hash function of filters that
 * valkey-bloom wrote.  It hashes the size of the data, as 8 bytes, and then the data.
 */
#ifndef TAMIS_REDIS_SIPHASH_H
#define TAMIS_REDIS_SIPHASH_H

#include "bytes.h"

enum { SIP_KEY_BYTES = 16 };

static inline uint64_t sip_rotate(uint64_t word, unsigned by)
{
  return word << by | word >> (64 - by);
}

static inline void sip_round(uint64_t v[4])
{
  v[0] += v[1];
  v[2] += v[3];
  v[1] = sip_rotate(v[1], 13) ^ v[0];
  v[3] = sip_rotate(v[3], 16) ^ v[2];
  v[0] = sip_rotate(v[0], 32);
  v[2] += v[1];
  v[0] += v[3];
  v[1] = sip_rotate(v[1], 17) ^ v[2];
  v[3] = sip_rotate(v[3], 21) ^ v[0];
  v[2] = sip_rotate(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t word)
{
  v[3] ^= word;
  sip_round(v);
  v[0] ^= word;
}

static inline uint64_t sip_13(const unsigned char key[SIP_KEY_BYTES], const void *data, size_t size)
{
  const unsigned char *bytes = data;
  const uint64_t k0 = get_u64(key), k1 = get_u64(key + 8);
  uint64_t v[4] = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
                   k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
  const uint64_t size_byte = (uint64_t) (size + 8) << 56;
  sip_word(v, size);
  for (; size >= 8; bytes += 8, size -= 8)
    sip_word(v, get_u64(bytes));
  sip_word(v, get_number(bytes, (unsigned) size) | size_byte);
  v[2] ^= 0xff;
  for (int i = 0; i < 3; i++)
    sip_round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif /* TAMIS_REDIS_SIPHASH_H */
