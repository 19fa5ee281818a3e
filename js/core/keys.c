/* SPDX-License-Identifier: MIT
 *
 * The library's calls for WebAssembly that need no more than numbers.  Keys lie in a buffer, which JavaScript gets from
 * core_buffer().
 */
#include "core.h"

#include <stdlib.h>

EXPORT(phrase) const char *core_phrase(int result)
{
  return tamis_strerror(result);
}

EXPORT(version) const char *core_version(void)
{
  return tamis_version();
}

/* ---- the calls with one key ---- */

static struct {
  unsigned char *at;
  size_t size;
} buffer;

/* A buffer of at least so many bytes, whose contents are lost; NULL: there is no memory. */
EXPORT(buffer) void *core_buffer(size_t size)
{
  if (size <= buffer.size)
    return buffer.at;
  free(buffer.at);
  buffer.at = malloc(size);
  buffer.size = buffer.at ? size : 0;
  return buffer.at;
}

EXPORT(has) int core_has(const tamis_filter *f, size_t len)
{
  return tamis_contains(f, buffer.at, len);
}

#ifndef TAMIS_READER

EXPORT(count) double core_count(const tamis_filter *f, size_t len)
{
  return (double) tamis_count(f, buffer.at, len);
}

EXPORT(add) int core_add(tamis_filter *f, size_t len)
{
  return tamis_add(f, buffer.at, len);
}

EXPORT(add_unique) int core_add_unique(tamis_filter *f, size_t len)
{
  return tamis_add_unique(f, buffer.at, len);
}

EXPORT(add_for) int core_add_for(tamis_filter *f, size_t len, unsigned periods)
{
  return tamis_add_for(f, buffer.at, len, periods);
}

EXPORT(add_unique_for) int core_add_unique_for(tamis_filter *f, size_t len, unsigned periods)
{
  return tamis_add_unique_for(f, buffer.at, len, periods);
}

EXPORT(remove) int core_remove(tamis_filter *f, size_t len)
{
  return tamis_remove(f, buffer.at, len);
}

EXPORT(hash) uint64_t core_hash(const tamis_filter *f, size_t len)
{
  return tamis_hash(f, buffer.at, len);
}

/* ---- other calls that change a filter ---- */

EXPORT(advance) int core_advance(tamis_filter *f)
{
  return tamis_advance(f);
}

EXPORT(advance_to) int core_advance_to(tamis_filter *f, uint64_t period)
{
  return tamis_advance_to(f, period);
}

EXPORT(merge) int core_merge(tamis_filter *into, const tamis_filter *from)
{
  return tamis_merge(into, from);
}

#endif
