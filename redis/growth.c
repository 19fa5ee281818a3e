/* SPDX-License-Identifier: MIT */
#include "growth.h"

/* Layer number i has room for as many items as all layers before it, and 6 / (pi i)^2 of the rate.  The
 * first layer of a filter with 1 / i^2 of the rate has just that part, so it takes about as many bytes:
 * a further layer takes up to BESIDE more, and ROW for each layer up to it. */
uint64_t growth_capacity(const tamis_options *options, uint64_t enough)
{
  enum { BESIDE = 176, ROW = 32 };
  const uint64_t most = UINT64_C(1) << 62;
  tamis_options layer = *options;
  uint64_t capacity = 0, used = 0, bytes;
  layer.max_bytes = 0;
  for (unsigned i = 1; capacity < enough && capacity < most; i++) {
    layer.capacity = capacity ? capacity : options->capacity;
    layer.fpp = options->fpp / i / i;
    if (tamis_bytes_for(&layer, &bytes) != TAMIS_OK ||
        __builtin_add_overflow(used, bytes + (i > 1 ? BESIDE + i * ROW : 0), &used) ||
        (options->max_bytes && used > options->max_bytes))
      break;
    capacity += layer.capacity;
  }
  return capacity;
}
