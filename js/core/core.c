/* SPDX-License-Identifier: MIT
 *
 * What JavaScript calls: the library's calls with arguments that WebAssembly can pass, that is, numbers.
 *
 * Keys, and bytes of any other kind, lie in a buffer that the caller gets from core_buffer().  What a call
 * finds out beside its result lies in variables, until the next call.
 *
 * With TAMIS_READER, only what asks a saved filter.
 */
#include <stdlib.h>
#include <string.h>
#include <tamis/tamis.h>

#define EXPORT(name) __attribute__((export_name(#name), used))
#define IMPORT(name) __attribute__((import_module("tamis"), import_name(#name)))

/* The bytes of a saved filter, as tamis_read_function and tamis_write_function, and what a text goes to. */
IMPORT(read) int core_read(void *data, size_t size);
IMPORT(write) int core_write(const void *data, size_t size);

/* ---- the buffer, and results ---- */

static struct {
  unsigned char *at;
  size_t size;
} buffer;

static int last_result;

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

EXPORT(result) int core_result(void)
{
  return last_result;
}

/* A phrase for a result. */
EXPORT(phrase) const char *core_phrase(int result)
{
  return tamis_strerror(result);
}

EXPORT(version) const char *core_version(void)
{
  return tamis_version();
}

/* ---- saved filters ---- */

static int64_t read_some(void *context, void *data, size_t size)
{
  (void) context;
  return core_read(data, size);
}

/* NULL: see core_result(). */
EXPORT(load) tamis_filter *core_load(uint64_t max_bytes)
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  tamis_filter *f;
  options.max_bytes = max_bytes;
  last_result = tamis_load(&options, read_some, NULL, &f);
  return f;
}

EXPORT(destroy) void core_destroy(tamis_filter *f)
{
  tamis_destroy(f);
}

/* ---- figures ---- */

static tamis_stats stats = TAMIS_STATS_INIT;

/* Of a saved one, of which only the beginning is read. */
EXPORT(info) int core_info(void)
{
  return tamis_saved_info(read_some, NULL, &stats);
}

#ifndef TAMIS_READER

/* Of a filter. */
EXPORT(stats) int core_stats(const tamis_filter *f)
{
  return tamis_get_stats(f, &stats);
}

/* As their names in src/stats.js. */
EXPORT(figures) const double *core_figures(void)
{
  static double figures[28];
  const double now[] = {(double) stats.count,
                        (double) stats.capacity,
                        (double) stats.bytes,
                        (double) stats.growths,
                        stats.load,
                        stats.fpp_estimate,
                        stats.fpp,
                        stats.estimated_count,
                        (double) stats.bits,
                        (double) stats.bits_set,
                        stats.bits_per_key,
                        stats.kind,
                        stats.layout,
                        (double) stats.segments,
                        (double) stats.joins,
                        stats.generations,
                        stats.fingerprint_bits,
                        stats.occupancy,
                        (double) stats.evictions,
                        (double) stats.failed_searches,
                        (double) stats.refused_adds,
                        (double) stats.longest_growth_ns,
                        stats.layers,
                        stats.parts,
                        (double) stats.oldest_part_age,
                        (double) stats.united_count};
  memcpy(figures, now, sizeof now);
  return figures;
}

EXPORT(seed) uint64_t core_seed(void)
{
  return stats.seed;
}

#endif

/* ---- the calls with one key, which lies in the buffer ---- */

EXPORT(has) int core_has(const tamis_filter *f, size_t len)
{
  return tamis_contains(f, buffer.at, len);
}

#ifndef TAMIS_READER

static char sentence[512];
static uint64_t last_bytes;
static double last_rate;

EXPORT(sentence) const char *core_sentence(void)
{
  return sentence;
}

EXPORT(bytes) double core_bytes(void)
{
  return (double) last_bytes;
}

EXPORT(rate) double core_rate(void)
{
  return last_rate;
}

/* ---- options, and what follows from them ---- */

static tamis_options options;

enum { GROWABLE = 1, WINDOW_RENEWS = 2 };

EXPORT(options)
void core_options(int kind, int layout, uint64_t capacity, double fpp, unsigned window,
                  unsigned flags, uint64_t max_bytes, uint64_t seed)
{
  options = (tamis_options) TAMIS_OPTIONS_INIT;
  options.kind = (tamis_kind) kind;
  options.layout = (tamis_layout) layout;
  options.capacity = capacity;
  options.fpp = fpp;
  options.window = window;
  options.growable = flags & GROWABLE;
  options.window_renews = flags & WINDOW_RENEWS;
  options.max_bytes = max_bytes;
  options.seed = seed;
}

/* NULL: see core_result() and core_sentence(). */
EXPORT(create) tamis_filter *core_create(void)
{
  tamis_filter *f;
  last_result = tamis_create(&options, &f);
  if (last_result != TAMIS_OK &&
      tamis_options_check(&options, sentence, sizeof sentence) == TAMIS_OK)
    strcpy(sentence, tamis_strerror(last_result));
  return f;
}

EXPORT(check) int core_check(void)
{
  return tamis_options_check(&options, sentence, sizeof sentence);
}

EXPORT(bytes_for) int core_bytes_for(void)
{
  return tamis_bytes_for(&options, &last_bytes);
}

EXPORT(fpp_for) int core_fpp_for(uint64_t bytes)
{
  return tamis_fpp_for(&options, bytes, &last_rate);
}

/* ---- calls that change a filter, or read all of it ---- */

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

EXPORT(remove) int core_remove(tamis_filter *f, size_t len)
{
  return tamis_remove(f, buffer.at, len);
}

EXPORT(hash) uint64_t core_hash(const tamis_filter *f, size_t len)
{
  return tamis_hash(f, buffer.at, len);
}

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

static int write_some(void *context, const void *data, size_t size)
{
  (void) context;
  return core_write(data, size);
}

EXPORT(save) int core_save(const tamis_filter *f)
{
  return tamis_save(f, write_some, NULL);
}

#endif
