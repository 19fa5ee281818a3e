/* SPDX-License-Identifier: MIT
 *
 * Layer 2: checks a cuckoo filter's structure, for tests.
 */
#include "cuckoo/operations.h"

#include "cuckoo/directory.h"
#include "cuckoo/segment.h"

/* Checks that only lanes with an entry have a count. */
static const char *validate_duplicates(const struct cuckoo_geometry *g,
                                       const struct segment *segment, uint64_t *duplicates)
{
  const struct table_counts *d = plane_counts(&segment->duplicates);
  if (!d)
    return NULL;
  if (d->buckets != cuckoo_buckets(g) || d->lanes != g->shape.lanes || !d->live ||
      !tamis__counts_validate(d))
    return "duplicate counts are not whole";
  for (uint32_t i = 0; i < cuckoo_buckets(g); i++)
    for (unsigned lane = 0; lane < g->shape.lanes; lane++) {
      uint64_t count = tamis__counts_get(d, i, lane);
      if (count && !lane_get(&g->shape, word_load(&segment_words(g, segment)[i]), lane))
        return "copies are counted of a lane without an entry";
      *duplicates += count;
    }
  return NULL;
}

static const char *validate_stripes(const struct cuckoo_geometry *g, const struct segment *segment,
                                    uint64_t *entries)
{
  uint32_t used[CUCKOO_FIXED_STRIPES];
  const uint64_t *words = (const uint64_t *) (const void *) segment_words(g, segment);
  if (!tamis__check_words(g, words, cuckoo_most_age(g, segment->depth), used))
    return "an entry is older than its segment is deep";
  for (uint32_t i = 0; i <= g->stripe_mask; i++) {
    struct stripe *stripe = &segment_stripes(segment)[i];
    if (stripe_held(stripe))
      return "a stripe is still locked";
    if (version_has_left(version_after(&stripe->version)))
      return "a segment is in the directory that has left";
    if (g->shape.ages && stripe_used(stripe) != used[i])
      return "stripes count other entries than there are";
    *entries += used[i];
  }
  return NULL;
}

/* Checks that the segment has the right indices, and that all of them lead to the segment. */
static const char *validate_directory(const struct generation *generation,
                                      const struct segment *segment,
                                      const struct segment_cursor *cursor)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  directory_value value = directory_at(generation, cursor->first);
  for (uint64_t i = 0; i < cursor->count; i++)
    if (directory_at(generation, cursor->first + i) != value)
      return "directory entries of one segment differ";
  uint64_t root = cuckoo_root_of_index(g, cursor->first);
  return segment->depth == directory_depth(value) &&
                 cuckoo_index(g, root, segment->prefix, segment->class) == cursor->first
             ? NULL
             : "a segment has the wrong directory entry";
}

/* Checks a generation, but not the counts of a `mapped` filter, which are only in the file. */
static const char *validate_generation(const struct generation *generation, bool mapped)
{
  uint64_t entries = 0, duplicates = 0, segments = 0, after = 0;
  struct segment_cursor cursor = {0};
  const struct segment *segment;
  while ((segment = segment_next(generation, &cursor))) {
    segments++;
    const struct cuckoo_geometry *g = segment_geometry(generation, segment);
    after += !g->later && segment->depth > g->uneven_at;
    const char *reason = validate_directory(generation, segment, &cursor);
    reason = reason ? reason : validate_stripes(g, segment, &entries);
    reason = reason ? reason : validate_duplicates(g, segment, &duplicates);
    if (reason)
      return reason;
  }
  const struct counters counters = generation_counters(generation);
  return entries != tamis__counter_sum(&counters, ENTRIES)
             ? "counted entries are not those in buckets"
         : duplicates != tamis__counter_sum(&counters, DUPLICATES) && !mapped
             ? "counted duplicates are not those that segments count"
         : segments != atomic_load_explicit(&generation->segments, memory_order_relaxed)
             ? "counted segments are not those in the directory"
         : after != cuckoo_after_segments(generation)
             ? "counted segments of the uneven split are not those in the directory"
             : NULL;
}

bool tamis__cuckoo_validate(const tamis_filter *f, const char **reason)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  *reason = NULL;
  for (unsigned i = 0; i < cuckoo_generations(c) && !*reason; i++)
    *reason = validate_generation(cuckoo_generation(c, i), cuckoo_mapped(c));
  return !*reason;
}
