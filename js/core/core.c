/* SPDX-License-Identifier: MIT */
#include "core.h"

#include <string.h>

static PER_THREAD int last_result;

EXPORT(result) int core_result(void)
{
  return last_result;
}

/* ---- saved filters ---- */

static int64_t read_some(void *context, void *data, size_t size)
{
  (void) context;
  return core_read(data, size);
}

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

static PER_THREAD tamis_stats stats = TAMIS_STATS_INIT;

EXPORT(info) int core_info(void)
{
  return tamis_saved_info(read_some, NULL, &stats);
}

#ifndef TAMIS_READER

EXPORT(stats) int core_stats(const tamis_filter *f)
{
  return tamis_get_stats(f, &stats);
}

EXPORT(figures) const double *core_figures(void)
{
  static PER_THREAD double figures[CORE_FIGURES];
  const double now[CORE_FIGURES] = {(double) stats.count,
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

/* ---- options, and what follows from them ---- */

static PER_THREAD tamis_options options;
static PER_THREAD char sentence[512];
static PER_THREAD uint64_t last_bytes;
static PER_THREAD double last_rate;

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
  options.growable = flags & CORE_GROWABLE;
  options.window_renews = flags & CORE_WINDOW_RENEWS;
  options.max_bytes = max_bytes;
  options.seed = seed;
}

/* Whatever the check of the options says now, there is a sentence. */
static void note_failure(int result, int checked)
{
  last_result = result;
  if (result != TAMIS_OK && checked == TAMIS_OK)
    strcpy(sentence, tamis_strerror(result));
}

EXPORT(check) int core_check(void)
{
  return tamis_options_check(&options, sentence, sizeof sentence);
}

EXPORT(create) tamis_filter *core_create(void)
{
  tamis_filter *f;
  int result = tamis_create(&options, &f);
  note_failure(result, result == TAMIS_OK ? TAMIS_OK : core_check());
  return f;
}

static void take_options_of(const tamis_filter *f)
{
  options.struct_size = sizeof options;
  (void) tamis_get_options(f, &options);
}

EXPORT(create_like) tamis_filter *core_create_like(const tamis_filter *f)
{
  take_options_of(f);
  tamis_filter *like = core_create();
  if (like && core_stats(f) == TAMIS_OK)
    (void) tamis_set_period(like, stats.period); /* a window goes on in the same period */
  return like;
}

EXPORT(settings) int core_settings(const tamis_filter *f)
{
  take_options_of(f);
  last_bytes = options.max_bytes;
  return (options.growable ? CORE_GROWABLE : 0) | (options.window_renews ? CORE_WINDOW_RENEWS : 0);
}

EXPORT(intersect) tamis_filter *core_intersect(const tamis_filter *a, const tamis_filter *b)
{
  tamis_filter *f;
  last_result = tamis_intersect(a, b, &f);
  return f;
}

EXPORT(includes) int core_includes(const tamis_filter *f, const tamis_filter *other)
{
  return tamis_includes(f, other);
}

#ifndef TAMIS_WITHOUT_SYSTEM
tamis_filter *core_open_shared(const char *path, bool with_options, unsigned mode, int64_t group)
{
  const tamis_file_access access = {mode, group};
  options.access = mode ? &access : NULL;
  const tamis_options *wanted = with_options ? &options : NULL;
  tamis_filter *f;
  int result = tamis_open_shared(wanted, path, &f);
  note_failure(result, result == TAMIS_OK
                           ? TAMIS_OK
                           : tamis_shared_check(wanted, path, sentence, sizeof sentence));
  options.access = NULL;
  return f;
}
#endif

EXPORT(bytes_for) int core_bytes_for(void)
{
  return tamis_bytes_for(&options, &last_bytes);
}

EXPORT(fpp_for) int core_fpp_for(uint64_t bytes)
{
  return tamis_fpp_for(&options, bytes, &last_rate);
}

/* ---- saving ---- */

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
