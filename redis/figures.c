/* SPDX-License-Identifier: MIT */
#include "figures.h"

#include "memory.h"

#include <stdatomic.h>
#include <stdio.h>

/* All accesses are relaxed: figures, which order nothing. */
static _Atomic uint64_t bloom_filters, cuckoo_filters, foreign_filters;

/* Of the main thread. */
static uint64_t adds, refusals, largest, longest_ns;

static void count(_Atomic uint64_t *figure, uint64_t change)
{
  atomic_fetch_add_explicit(figure, change, memory_order_relaxed);
}

static unsigned long long figure_of(const _Atomic uint64_t *figure)
{
  return atomic_load_explicit(figure, memory_order_relaxed);
}

static void count_filter(const struct value *v, uint64_t change)
{
  count(v->kind == TAMIS_CUCKOO ? &cuckoo_filters : &bloom_filters, change);
  if (v->foreign)
    count(&foreign_filters, change);
}

void figures_begin(const struct value *v)
{
  count_filter(v, 1);
}

void figures_end(const struct value *v)
{
  count_filter(v, UINT64_MAX); /* -1 */
}

void figures_note_stats(const tamis_stats *stats, uint64_t bytes)
{
  largest = bytes > largest ? bytes : largest;
  longest_ns = stats->longest_growth_ns > longest_ns ? stats->longest_growth_ns : longest_ns;
}

/* To look at a Bloom filter takes a few instructions for each byte, up to a bound: so many adds come
 * before another filter is looked at. */
void figures_note_adds(const struct value *v, const int *results, int n)
{
  enum { ADDS = 1024, MOST_ADDS = 64 << 10 };
  static uint64_t next_look;
  for (int i = 0; i < n; i++) {
    adds += results[i] == TAMIS_OK;
    refusals += results[i] < 0;
  }
  if (adds < next_look)
    return;
  const uint64_t bytes = value_memory(v); /* which notes what it sees */
  next_look = adds + (bytes < ADDS ? ADDS : bytes < MOST_ADDS ? bytes : MOST_ADDS);
}

/* ---- INFO ---- */

static void show(server_info *info, const char *name, unsigned long long number)
{
  (void) server.InfoAddFieldULongLong(info, name, number);
}

static void tell(server_info *info, int for_crash_report)
{
  char text[96];
  (void) for_crash_report;
  if (server.InfoAddSection(info, "") != SERVER_OK)
    return;
  (void) snprintf(text, sizeof text, "%d.%d.%d", TAMIS_VERSION_MAJOR, TAMIS_VERSION_MINOR,
                  TAMIS_VERSION_PATCH);
  (void) server.InfoAddFieldCString(info, "version", text);
  (void) snprintf(text, sizeof text, "compiler %.60s, pointers of %zu bits", __VERSION__,
                  8 * sizeof(void *));
  (void) server.InfoAddFieldCString(info, "build", text);
  show(info, "bloom_filters", figure_of(&bloom_filters));
  show(info, "cuckoo_filters", figure_of(&cuckoo_filters));
  show(info, "foreign_filters", figure_of(&foreign_filters));
  show(info, "bytes", memory_in_use());
  show(info, "adds", adds);
  show(info, "refused_adds", refusals);
  show(info, "largest_filter_bytes", largest);
  show(info, "longest_growth_step_microseconds", longest_ns / 1000);
}

bool figures_register(server_ctx *ctx)
{
  const bool possible = server.RegisterInfoFunc && server.InfoAddSection &&
                        server.InfoAddFieldULongLong && server.InfoAddFieldCString;
  return !possible || server.RegisterInfoFunc(ctx, tell) == SERVER_OK;
}
