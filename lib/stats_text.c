/* SPDX-License-Identifier: MIT
 *
 * Layer 3: the figures of filters as text.
 *
 * The library first reads the figures of all filters, because a page for Prometheus lists metric
 * after metric, each with the samples of all filters.
 */
#include "base/cancel.h"
#include "base/memory.h"
#include "kinds.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the table of figures ---- */

enum type { GAUGE, COUNTER };
/* The C type and unit of a figure: unsigned if SMALL or SMALL_BITS, double if REAL, else uint64_t.
 * Prometheus gets seconds instead of nanoseconds, and bytes instead of bits. */
enum number { INTEGER, SMALL, REAL, NANOSECONDS, BITS, SMALL_BITS };
enum who { ALL, CUCKOO_ONLY, BLOOM_ONLY };

struct figure {
  const char *field;  /* the member of tamis_stats, and the key in JSON */
  const char *metric; /* the metric's name without "tamis_" */
  const char *help;
  enum type type;
  enum number number;
  enum who who; /* the kinds that have the figure */
  size_t at;    /* the offset of the member in tamis_stats, in bytes */
};

#define FIGURE(field, metric, type, number, who, help)                    \
  {                                                                       \
#field, metric, help, type, number, who, offsetof(tamis_stats, field) \
  }

/* clang-format off */
static const struct figure figures[] = {
  FIGURE(count, "keys", GAUGE, INTEGER, ALL,
         "Keys in the filter; cuckoo and counting Bloom filters count copies."),
  FIGURE(estimated_count, "estimated_keys", GAUGE, REAL, ALL,
         "Keys in the filter, with those that false positives hid; an estimate."),
  FIGURE(capacity, "capacity_keys", GAUGE, INTEGER, ALL,
         "Keys that the filter was created for."),
  FIGURE(bytes, "bytes", GAUGE, INTEGER, ALL,
         "Memory that the filter takes, with what waits to be released."),
  FIGURE(load, "load_ratio", GAUGE, REAL, ALL,
         "Estimated keys divided by the capacity."),
  FIGURE(fpp, "fpp_ratio", GAUGE, REAL, ALL,
         "False-positive rate that was asked for."),
  FIGURE(fpp_estimate, "fpp_estimate_ratio", GAUGE, REAL, ALL,
         "False-positive rate at present; an estimate."),
  FIGURE(growths, "growths_total", COUNTER, INTEGER, ALL,
         "Steps of growth: splits of segments, new generations, further layers."),
  FIGURE(refused_adds, "adds_refused_total", COUNTER, INTEGER, ALL,
         "Adds that were refused because a limit was reached or memory was short."),
  FIGURE(layers, "layers", GAUGE, SMALL, ALL,
         "Filters of which this one consists, each larger than the one before it."),
  FIGURE(parts, "parts", GAUGE, SMALL, ALL,
         "Periods of time of which keys are kept apart."),
  FIGURE(oldest_part_age, "oldest_part_age_periods", GAUGE, INTEGER, ALL,
         "Periods that have ended since the oldest part began to take keys."),
  FIGURE(period, "period", GAUGE, INTEGER, ALL,
         "Number of the period that runs."),
  FIGURE(united_count, "united_keys", GAUGE, INTEGER, BLOOM_ONLY,
         "Keys that unions and intersections have brought; an estimate."),
  FIGURE(bits, "array_bytes", GAUGE, BITS, BLOOM_ONLY,
         "Size of the bit array."),
  FIGURE(bits_set, "array_set_bytes", GAUGE, BITS, BLOOM_ONLY,
         "Part of the bit array that is set; in large filters an estimate."),
  FIGURE(bits_per_key, "hashes_per_key", GAUGE, SMALL, BLOOM_ONLY,
         "Bits of the array that each key sets, or counters that it raises."),
  FIGURE(joins, "joins_total", COUNTER, INTEGER, CUCKOO_ONLY,
         "Pairs of segments that were joined to one."),
  FIGURE(segments, "segments", GAUGE, INTEGER, CUCKOO_ONLY,
         "Parts of the table that split on their own."),
  FIGURE(generations, "generations", GAUGE, SMALL, CUCKOO_ONLY,
         "Tables that a look-up searches."),
  FIGURE(fingerprint_bits, "fingerprint_bytes", GAUGE, SMALL_BITS, CUCKOO_ONLY,
         "Size of a new fingerprint."),
  FIGURE(occupancy, "occupancy_ratio", GAUGE, REAL, CUCKOO_ONLY,
         "Part of the room for fingerprints that is in use."),
  FIGURE(evictions, "evictions_total", COUNTER, INTEGER, CUCKOO_ONLY,
         "How often entries were moved to make room for a key."),
  FIGURE(failed_searches, "failed_searches_total", COUNTER, INTEGER, CUCKOO_ONLY,
         "How often no move was found that makes room for a key."),
  FIGURE(lookup_retries, "lookup_retries_total", COUNTER, INTEGER, CUCKOO_ONLY,
         "How often a look-up began again because something had moved."),
  FIGURE(longest_growth_ns, "longest_growth_seconds", GAUGE, NANOSECONDS, CUCKOO_ONLY,
         "Longest time that a call took for one step of growth."),
};
/* clang-format on */

enum { FIGURES = sizeof figures / sizeof *figures };

static bool has_figure(const tamis_stats *stats, const struct figure *figure)
{
  return figure->who == ALL || (figure->who == CUCKOO_ONLY) == (stats->kind == TAMIS_CUCKOO);
}

static const char *layout_name(tamis_layout layout)
{
  return layout == TAMIS_LAYOUT_WORD      ? "word"
         : layout == TAMIS_LAYOUT_CLASSIC ? "classic"
                                          : "blocked";
}

/* ---- writing ---- */

struct text {
  tamis_write_function write;
  void *context;
  int result, error; /* `error` is the errno of a failed `write` */
  size_t used;
  char buffer[4096];
};

static void flush(struct text *t)
{
  if (t->result == TAMIS_OK && t->used && t->write(t->context, t->buffer, t->used) != 0) {
    t->result = TAMIS_EIO;
    t->error = errno;
  }
  t->used = 0;
}

static void put_bytes(struct text *t, const char *bytes, size_t n)
{
  for (size_t part; n > 0; bytes += part, n -= part) {
    if (t->used == sizeof t->buffer)
      flush(t);
    part = n < sizeof t->buffer - t->used ? n : sizeof t->buffer - t->used;
    memcpy(t->buffer + t->used, bytes, part);
    t->used += part;
  }
}

static void put(struct text *t, const char *words)
{
  put_bytes(t, words, strlen(words));
}

static int finish(const struct text *t)
{
  if (t->result == TAMIS_EIO)
    errno = t->error;
  return t->result;
}

static void put_integer(struct text *t, uint64_t value)
{
  char digits[24];
  (void) snprintf(digits, sizeof digits, "%" PRIu64, value);
  put(t, digits);
}

static void put_real(struct text *t, tamis_text_format format, double value)
{
  put(t, isfinite(value)        ? tamis__rate_text(value).text
         : format == TAMIS_JSON ? "null"
         : isnan(value)         ? "NaN"
         : value > 0            ? "+Inf"
                                : "-Inf");
}

static void put_number(struct text *t, tamis_text_format format, const struct figure *figure,
                       const tamis_stats *stats)
{
  const char *at = (const char *) stats + figure->at;
  enum number number = figure->number;
  bool small = number == SMALL || number == SMALL_BITS;
  if (number == REAL) {
    put_real(t, format, *(const double *) (const void *) at);
    return;
  }
  uint64_t value =
      small ? *(const unsigned *) (const void *) at : *(const uint64_t *) (const void *) at;
  if (format == TAMIS_PROMETHEUS && number == NANOSECONDS)
    put_real(t, format, (double) value / 1e9);
  else if (format == TAMIS_PROMETHEUS && (number == BITS || number == SMALL_BITS))
    put_real(t, format, (double) value / 8);
  else
    put_integer(t, value);
}

/* ---- names ---- */

/* Returns the bytes of the UTF-8 sequence at `text`, or 0 if it is invalid. */
static size_t sequence_length(const char *text)
{
  const unsigned char *u = (const unsigned char *) text;
  size_t length = u[0] < 0x80 ? 1 : u[0] < 0xc2 ? 0 : u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
  bool outside = u[0] > 0xf4 || (u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f) ||
                 (u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f);
  for (size_t i = 1; i < length; i++)
    if ((u[i] & 0xc0) != 0x80) /* also true for the final NUL, so no byte after it is read */
      return 0;
  return outside ? 0 : length;
}

/* Writes a string in quotation marks.  Escapes quotation marks, backslashes, newlines and, in JSON,
 * all other control characters.  Replaces an invalid byte by U+FFFD. */
static void put_string(struct text *t, tamis_text_format format, const char *string)
{
  put(t, "\"");
  for (size_t length; *string; string += length ? length : 1) {
    char code[8];
    length = sequence_length(string);
    if (!length) {
      put(t, "\xef\xbf\xbd");
    } else if (*string == '\n') {
      put(t, "\\n");
    } else if (format == TAMIS_JSON && ((unsigned char) *string < ' ' || *string == 0x7f)) {
      (void) snprintf(code, sizeof code, "\\u%04x", (unsigned char) *string);
      put(t, code);
    } else {
      put(t, *string == '"' || *string == '\\' ? "\\" : "");
      put_bytes(t, string, length);
    }
  }
  put(t, "\"");
}

static void put_kind(struct text *t, tamis_kind kind)
{
  const char *name = tamis__find_kind(kind, false)->name + strlen("TAMIS_");
  put(t, "\"");
  for (; *name; name++) {
    char small = *name >= 'A' && *name <= 'Z' ? (char) (*name - 'A' + 'a') : *name;
    put_bytes(t, &small, 1);
  }
  put(t, "\"");
}

static void put_labels(struct text *t, tamis_text_format format, const tamis_stats *stats,
                       const char *name)
{
  const bool json = format == TAMIS_JSON;
  if (name) {
    put(t, json ? "\"name\": " : "name=");
    put_string(t, format, name);
    put(t, json ? ", " : ",");
  }
  put(t, json ? "\"kind\": " : "kind=");
  put_kind(t, stats->kind);
  if (stats->kind != TAMIS_CUCKOO) {
    put(t, json ? ", \"layout\": " : ",layout=");
    put_string(t, format, layout_name(stats->layout));
  }
}

/* ---- JSON ---- */

static void put_object(struct text *t, const tamis_stats *stats, const char *name)
{
  put(t, "{");
  put_labels(t, TAMIS_JSON, stats, name);
  for (const struct figure *f = figures; f < figures + FIGURES; f++)
    if (has_figure(stats, f)) {
      put(t, ", \"");
      put(t, f->field);
      put(t, "\": ");
      put_number(t, TAMIS_JSON, f, stats);
    }
  put(t, "}");
}

/* ---- Prometheus ---- */

static void put_head(struct text *t, const char *metric, const char *type, const char *help)
{
  put(t, "# HELP tamis_");
  put(t, metric);
  put(t, " ");
  put(t, help);
  put(t, "\n# TYPE tamis_");
  put(t, metric);
  put(t, type);
}

static void put_label(struct text *t, const char *name)
{
  if (!name)
    return;
  put(t, "{name=");
  put_string(t, TAMIS_PROMETHEUS, name);
  put(t, "}");
}

static void put_metric(struct text *t, const struct figure *f, const tamis_stats *stats,
                       const char *const *names, size_t n)
{
  bool begun = false;
  for (size_t i = 0; i < n; i++) {
    if (!has_figure(&stats[i], f))
      continue;
    if (!begun)
      put_head(t, f->metric, f->type == COUNTER ? " counter\n" : " gauge\n", f->help);
    begun = true;
    put(t, "tamis_");
    put(t, f->metric);
    put_label(t, names ? names[i] : NULL);
    put(t, " ");
    put_number(t, TAMIS_PROMETHEUS, f, &stats[i]);
    put(t, "\n");
  }
}

static void put_page(struct text *t, const tamis_stats *stats, const char *const *names, size_t n)
{
  if (n)
    put_head(t, "info", " gauge\n", "Kind and layout of the filter; always 1.");
  for (size_t i = 0; i < n; i++) {
    put(t, "tamis_info{");
    put_labels(t, TAMIS_PROMETHEUS, &stats[i], names ? names[i] : NULL);
    put(t, "} 1\n");
  }
  for (const struct figure *f = figures; f < figures + FIGURES; f++)
    put_metric(t, f, stats, names, n);
}

/* ---- the calls ---- */

static bool good_format(tamis_text_format format)
{
  return format == TAMIS_JSON || format == TAMIS_PROMETHEUS;
}

int tamis_stats_text(const tamis_filter *f, tamis_text_format format, const char *name,
                     tamis_write_function write, void *context)
{
  struct text t = {.write = write, .context = context};
  tamis_stats stats;
  if (!f || !write || !good_format(format))
    return TAMIS_EINVAL;
  int cancellation = cancellation_disable();
  tamis__fill_stats(f, &stats);
  if (format == TAMIS_PROMETHEUS) {
    put_page(&t, &stats, &name, 1);
  } else {
    put_object(&t, &stats, name);
    put(&t, "\n");
  }
  flush(&t);
  cancellation_restore(cancellation);
  return finish(&t);
}

/* Checks the arguments.  Prometheus needs names to distinguish the samples of one metric. */
static bool good_list(const tamis_filter *const *filters, const char *const *names, size_t n,
                      tamis_text_format format)
{
  bool needs_names = format == TAMIS_PROMETHEUS && n > 1;
  if ((n && !filters) || (needs_names && !names))
    return false;
  for (size_t i = 0; i < n; i++)
    if (!filters[i] || (needs_names && !names[i]))
      return false;
  return true;
}

static int put_many(struct text *t, const tamis_filter *const *filters, const char *const *names,
                    size_t n, tamis_text_format format)
{
  const tamis_allocator *from = n ? filter_allocator(filters[0]) : NULL;
  tamis_stats *stats = NULL;
  if (n)
    stats = n <= SIZE_MAX / sizeof *stats ? tamis__memory_allocate(from, n * sizeof *stats) : NULL;
  if (n && !stats)
    return TAMIS_ENOMEM;
  for (size_t i = 0; i < n; i++)
    tamis__fill_stats(filters[i], &stats[i]);
  if (format == TAMIS_PROMETHEUS)
    put_page(t, stats, names, n);
  for (size_t i = 0; i < n && format == TAMIS_JSON; i++) {
    put(t, i ? ",\n" : "[");
    put_object(t, &stats[i], names ? names[i] : NULL);
  }
  if (format == TAMIS_JSON)
    put(t, n ? "]\n" : "[]\n");
  flush(t);
  tamis__memory_release(from, stats, n * sizeof *stats);
  return TAMIS_OK;
}

int tamis_stats_text_many(const tamis_filter *const *filters, const char *const *names, size_t n,
                          tamis_text_format format, tamis_write_function write, void *context)
{
  struct text t = {.write = write, .context = context};
  if (!write || !good_format(format) || !good_list(filters, names, n, format))
    return TAMIS_EINVAL;
  int result = UNCANCELLED(put_many(&t, filters, names, n, format));
  return result == TAMIS_OK ? finish(&t) : result;
}
