/* SPDX-License-Identifier: MIT
 *
 * Numbers in the bytes that the module reads and writes: little-endian, and a checksum.
 */
#ifndef TAMIS_REDIS_BYTES_H
#define TAMIS_REDIS_BYTES_H

#include "tamis/tamis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void put_number(unsigned char *to, uint64_t number, unsigned size)
{
  for (unsigned i = 0; i < size; i++)
    to[i] = (unsigned char) (number >> 8 * i);
}

static inline uint64_t get_number(const unsigned char *from, unsigned size)
{
  uint64_t number = 0;
  for (unsigned i = 0; i < size; i++)
    number |= (uint64_t) from[i] << 8 * i;
  return number;
}

static inline void put_u64(unsigned char *to, uint64_t number)
{
  put_number(to, number, 8);
}

static inline uint64_t get_u64(const unsigned char *from)
{
  return get_number(from, 8);
}

static inline double real_of(uint64_t bits)
{
  double real;
  memcpy(&real, &bits, sizeof real);
  return real;
}

static inline uint64_t sum_step(uint64_t sum, uint64_t word)
{
  sum = (sum ^ word) *
        UINT64_C(0x9e3779b97f4a7c15); /* odd, so each step is a bijection of the word */
  return sum ^ sum >> 29;
}

/* Finds damage.  It is no protection from those who make up data. */
static inline uint64_t sum_bytes(const void *data, size_t size, uint64_t seed)
{
  const unsigned char *bytes = data;
  unsigned char rest[8] = {0};
  uint64_t sum = sum_step(seed, size);
  size_t i = 0;
  for (; i + 8 <= size; i += 8)
    sum = sum_step(sum, get_u64(bytes + i));
  if (i < size) {
    memcpy(rest, bytes + i, size - i);
    sum = sum_step(sum, get_u64(rest));
  }
  return sum_step(sum, 0);
}

/* Reads so many bytes.  False: there are fewer. */
static inline bool bytes_read(tamis_read_function read, void *context, unsigned char *data,
                              uint64_t size)
{
  while (size) {
    int64_t part = read(context, data, (size_t) size);
    if (part <= 0 || (uint64_t) part > size)
      return false;
    data += part;
    size -= (uint64_t) part;
  }
  return true;
}

#endif /* TAMIS_REDIS_BYTES_H */
