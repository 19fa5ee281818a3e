/* SPDX-License-Identifier: MIT */
#include "cuckoo/fold.h"

#include "cuckoo/segment.h"

enum {
  /* Buckets that are folded while all stripes are held, for about as long as in a split. */
  FOLDED_AT_ONCE = SMALL(512, 4),
  MANY_COPIES_PART = 32,   /* a segment has many copies if they take this part of its lanes, */
  MANY_COPIES = 8,         /* in a small segment, copies must also take so many lanes */
  WITHOUT_ROOM_PART = 128, /* one copy without room counts as this part of the lanes */
  MOST_COPIES = SMALL(1 << 15, 12)
};

/* ---- how many copies there are ---- */

static uint32_t lanes_of_copies(const struct segment *segment)
{
  return atomic_load_explicit(&segment->copying, memory_order_relaxed) & ~(uint32_t) COUNTS_COPIES;
}

/* Relaxed: `copying` is an estimate.  Threads that add at the same time may exceed MOST_COPIES. */
static void note_lanes_of_copies(struct segment *segment, uint64_t copies)
{
  if (copies && lanes_of_copies(segment) < MOST_COPIES)
    atomic_fetch_add_explicit(&segment->copying, (uint32_t) copies, memory_order_relaxed);
}

static void start_counting(struct segment *segment)
{
  atomic_fetch_or_explicit(&segment->copying, COUNTS_COPIES, memory_order_relaxed);
}

void tamis__note_copy_in_lane(struct segment *segment)
{
  note_lanes_of_copies(segment, 1);
}

bool tamis__should_fold(const struct cuckoo_geometry *g, const struct segment *segment)
{
  double lanes = (double) cuckoo_lanes(g);
  double many = lanes / MANY_COPIES_PART + lanes * g->rate + MANY_COPIES;
  return lanes_of_copies(segment) >= (many < MOST_COPIES ? many : MOST_COPIES);
}

/* Makes all new segments of the filter count copies, even in new generations. */
static void start_counting_everywhere(struct cuckoo *c)
{
  atomic_store_explicit(&c->counts_copies, true, memory_order_relaxed);
}

void tamis__note_copy_without_room(struct cuckoo *c, const struct cuckoo_geometry *g,
                                   struct segment *segment)
{
  note_lanes_of_copies(segment, cuckoo_lanes(g) / WITHOUT_ROOM_PART + 1);
  if (!tamis__should_fold(g, segment))
    return;
  start_counting(segment);
  start_counting_everywhere(c);
}

void tamis__prepare_copying(const struct cuckoo *c, struct segment *segment)
{
  if (filter_counts_copies(c))
    start_counting(segment);
}

void tamis__inherit_fold_state(const struct segment *from, struct segment *to, unsigned part)
{
  note_lanes_of_copies(to, lanes_of_copies(from) / part);
  if (segment_counts_copies(from))
    start_counting(to);
}

/* ---- fold ---- */

/* Makes an entry a counted copy of an equal entry.  The callers of this function and the next two
 * hold all stripes of the segment. */
static int fold_entry_locked(struct cuckoo *c, struct generation *generation,
                             struct segment *segment, struct lane from, struct lane to)
{
  const struct cuckoo_geometry *g = segment_geometry(generation, segment);
  int result = tamis__segment_move_copies(c, g, segment, from, to, 1, false);
  if (result != TAMIS_OK)
    return result;
  struct stripe *stripe = stripe_of_bucket(g, segment, from.bucket);
  word *w = &segment_words(g, segment)[from.bucket];
  version_bump(stripe);
  word_store(w, lane_put(&g->shape, word_load(w), from.lane, 0));
  stripe_use(stripe, -1);
  segment_has_room(g, segment);
  cuckoo_count_change(generation, ENTRIES, -1);
  cuckoo_count_change(generation, DUPLICATES, 1);
  return TAMIS_OK;
}

/* Folds the entries of `bucket`, from lane `first` on, that equal the entry in lane `kept`. */
static int fold_equal_locked(struct cuckoo *c, struct generation *generation,
                             struct segment *segment, uint64_t bucket, unsigned first,
                             struct lane kept, uint64_t entry)
{
  const struct cuckoo_geometry *g = segment_geometry(generation, segment);
  const struct lane_shape *s = &g->shape;
  uint64_t value = word_load(&segment_words(g, segment)[bucket]);
  int result = TAMIS_OK;
  for (unsigned lane = first; lane < s->lanes && result == TAMIS_OK; lane++)
    if (lane_get(s, value, lane) == entry)
      result = fold_entry_locked(c, generation, segment, (struct lane){bucket, lane}, kept);
  return result;
}

/* Folds the entries of a bucket.  Two equal entries of a pair are both in the lower bucket, both in
 * the upper bucket, or one in each.  So it is enough to compare each lower bucket with itself and
 * with the other buckets of its entries, and each upper bucket with itself. */
static int fold_bucket_locked(struct cuckoo *c, struct generation *generation,
                              struct segment *segment, uint64_t bucket)
{
  const struct cuckoo_geometry *g = segment_geometry(generation, segment);
  bool lower = bucket < cuckoo_buckets(g) / 2;
  int result = TAMIS_OK;
  for (unsigned lane = 0; lane < g->shape.lanes && result == TAMIS_OK; lane++) {
    uint64_t entry = lane_get(&g->shape, word_load(&segment_words(g, segment)[bucket]), lane);
    struct lane kept = {bucket, lane};
    if (!entry)
      continue;
    result = fold_equal_locked(c, generation, segment, bucket, lane + 1, kept, entry);
    if (lower && result == TAMIS_OK)
      result = fold_equal_locked(c, generation, segment, other_bucket(g, segment, bucket, entry), 0,
                                 kept, entry);
  }
  return result;
}

/* Records a fold.  The copies that it has counted do not count towards another fold. */
static void note_fold(struct cuckoo *c, const struct cuckoo_geometry *g, struct segment *segment)
{
  if (tamis__should_fold(g, segment))
    start_counting_everywhere(c);
  atomic_fetch_and_explicit(&segment->copying, COUNTS_COPIES, memory_order_relaxed);
}

/* The segment counts copies from the beginning of the fold, because new copies would otherwise take
 * the lanes that the fold frees.  After a failed fold, the next key without room tries again. */
int tamis__fold(struct cuckoo *c, struct generation *generation, struct segment *segment)
{
  const struct cuckoo_geometry *g = segment_geometry(generation, segment);
  uint32_t buckets = (uint32_t) cuckoo_buckets(g);
  int result = TAMIS_OK;
  bool counted = segment_counts_copies(segment);
  start_counting(segment);
  HOOK(cuckoo_fold_begins);
  for (uint64_t bucket = 0; bucket < buckets && result == TAMIS_OK;) {
    segment_lock_all(g, segment);
    do
      result = fold_bucket_locked(c, generation, segment, bucket++);
    while (bucket % FOLDED_AT_ONCE && bucket < buckets && result == TAMIS_OK);
    segment_unlock_all(g, segment);
  }
  if (result == TAMIS_OK)
    note_fold(c, g, segment);
  else if (!counted)
    atomic_fetch_and_explicit(&segment->copying, ~(uint32_t) COUNTS_COPIES, memory_order_relaxed);
  return result;
}
