/* SPDX-License-Identifier: MIT
 *
 * Layer 2: folds a segment: equal entries of a bucket pair become one with a count (segment.h).
 */
#include "cuckoo/pair.h"
#include "cuckoo/segment.h"

enum {
  /* A fold holds the stripes for this many buckets at a time: about as long as a split does. */
  FOLDED_AT_ONCE = SMALL(512, 4),
  /* A fold is due if copies have taken 1 / 32 of the lanes, plus 8 lanes, plus as many lanes as
   * false positives take. */
  MANY_COPIES_PART = 32,
  MANY_COPIES = 8
};

static uint32_t lanes_of_copies(const struct segment *segment)
{
  return atomic_load_explicit(&segment->copying, memory_order_relaxed) & ~(uint32_t) COUNTS_COPIES;
}

/* Counts a lane taken by a copy, to a limit below the flag COUNTS_COPIES.  Relaxed: an estimate. */
void tamis__note_copy_in_lane(struct segment *segment)
{
  if (lanes_of_copies(segment) < COUNTS_COPIES / 2)
    atomic_fetch_add_explicit(&segment->copying, 1, memory_order_relaxed);
}

bool tamis__should_fold(const struct cuckoo_geometry *g, const struct segment *segment)
{
  double lanes = (double) cuckoo_lanes(g);
  return lanes_of_copies(segment) >= lanes / MANY_COPIES_PART + lanes * g->rate + MANY_COPIES;
}

/* Folds a bucket: an entry that equals one in an earlier lane, or in its lower bucket, becomes a
 * counted copy of the first such entry.  The caller must hold all stripes of the segment. */
static int fold_bucket_locked(struct cuckoo *c, struct generation *generation,
                              struct segment *segment, uint64_t bucket)
{
  const struct cuckoo_geometry *g = segment_geometry(generation, segment);
  const word *words = segment_words(g, segment);
  int result = TAMIS_OK;
  for (unsigned lane = 0; lane < g->shape.lanes && result == TAMIS_OK; lane++) {
    uint64_t entry = lane_get(&g->shape, word_load(&words[bucket]), lane);
    if (!entry)
      continue;
    uint64_t other = other_bucket(g, segment, bucket, entry), first = bucket;
    if (other < bucket && lanes_equal(&g->shape, word_load(&words[other]), entry))
      first = other;
    unsigned at = lanes_first(&g->shape, lanes_equal(&g->shape, word_load(&words[first]), entry));
    if (first == bucket && at == lane)
      continue;
    result = tamis__segment_move_copies(c, g, segment, (struct lane){bucket, lane},
                                        (struct lane){first, at}, 1, false);
    if (result == TAMIS_OK) {
      clear_lane_locked(generation, g, segment, bucket, lane);
      cuckoo_count_change(generation, DUPLICATES, 1);
    }
  }
  return result;
}

/* From the beginning of a fold, the segment counts copies: otherwise, new copies would take the
 * lanes that the fold frees.  If a fold fails, the next add that finds no room folds again. */
int tamis__fold(struct cuckoo *c, struct generation *generation, struct segment *segment)
{
  const struct cuckoo_geometry *g = segment_geometry(generation, segment);
  uint32_t buckets = (uint32_t) cuckoo_buckets(g);
  int result = TAMIS_OK;
  bool counted = segment_counts_copies(segment);
  segment_start_counting(segment);
  HOOK(cuckoo_fold_begins);
  for (uint64_t bucket = 0; bucket < buckets && result == TAMIS_OK;) {
    segment_lock_all(g, segment);
    do
      result = fold_bucket_locked(c, generation, segment, bucket++);
    while (bucket % FOLDED_AT_ONCE && bucket < buckets && result == TAMIS_OK);
    segment_unlock_all(g, segment);
  }
  /* In this case, new segments of the filter count copies from now on. */
  if (result == TAMIS_OK && tamis__should_fold(g, segment))
    atomic_store_explicit(&c->counts_copies, true, memory_order_relaxed);
  if (result == TAMIS_OK) /* a complete fold leaves no copies in lanes */
    atomic_fetch_and_explicit(&segment->copying, COUNTS_COPIES, memory_order_relaxed);
  else if (!counted)
    atomic_fetch_and_explicit(&segment->copying, ~(uint32_t) COUNTS_COPIES, memory_order_relaxed);
  return result;
}
