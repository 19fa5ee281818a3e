/* SPDX-License-Identifier: MIT
 *
 * Layer 2: makes room in a full bucket pair by moving entries (table/search.h).  A move copies the
 * entry, so that no plain add fills the new lane, moves its count, and clears the old lane.
 */

#include "cuckoo/segment.h"
#include "table/search.h"

/* Fewer buckets than a search in a fixed filter may visit: grace periods wait for the search. */
enum { MOST_BUCKETS_GROWABLE = 256 };

struct searched_segment {
  struct searched searched;
  const struct cuckoo_geometry *g;
  const word *words;
  /* The fingerprint bits that an entry never loses have the value `known` | (entry >> `shift`). */
  uint64_t known;
  unsigned shift;
};

FORCE_INLINE uint64_t load_bucket(const struct searched *t, uint64_t bucket)
{
  const struct searched_segment *s = (const struct searched_segment *) t;
  return word_load(&s->words[bucket]);
}

FORCE_INLINE uint64_t empty_lanes(const struct searched *t, uint64_t value)
{
  return lanes_empty(t->shape, value);
}

FORCE_INLINE uint64_t other(const struct searched *t, uint64_t bucket, uint64_t entry)
{
  const struct searched_segment *s = (const struct searched_segment *) t;
  uint64_t mixed = (s->known | entry >> (s->shift & 63)) * CUCKOO_OTHER_MULTIPLIER;
  return bucket ^ cuckoo_other_mask_of(s->g, mixed);
}

static bool plan_path(const struct cuckoo_geometry *g, const struct segment *segment,
                      uint64_t lower, uint64_t upper, struct cuckoo_path *path)
{
  static const struct search_kind segments = {load_bucket, empty_lanes, other};
  const struct searched_segment s = {
      .searched = {.shape = &g->shape,
                   .buckets = cuckoo_buckets(g),
                   .most_buckets = g->shape.ages ? MOST_BUCKETS_GROWABLE : SEARCH_MOST_BUCKETS,
                   .thorough = !g->shape.ages},
      .g = g,
      .words = segment_words(g, segment),
      .known = segment->prefix >> g->fixed_shift >> 1,
      .shift = 1U + cuckoo_most_age(g, segment->depth)};
  return search_plan(&segments, &s.searched, lower, upper, path);
}

bool tamis__path_exists(const struct cuckoo_geometry *g, const struct segment *segment,
                        uint64_t lower, uint64_t upper)
{
  struct cuckoo_path path;
  return plan_path(g, segment, lower, upper, &path);
}

/* Moves an entry, which look-ups meanwhile find in one of its buckets.  Returns TAMIS_ABSENT if the
 * move has become impossible.  If memory for the duplicate count is refused, undoes the move and
 * returns TAMIS_EFULL or TAMIS_ENOMEM.  The caller must hold both stripes. */
static int move_entry_locked(struct cuckoo *c, const struct cuckoo_geometry *g,
                             struct segment *segment, const struct cuckoo_move *move, bool inside)
{
  word *words = segment_words(g, segment);
  struct stripe *stripe_from = stripe_of_bucket(g, segment, move->from);
  uint64_t from = word_load(&words[move->from]), to = word_load(&words[move->to]);
  uint64_t room = lanes_empty(&g->shape, to);
  if (!move->entry) /* the lane was free when search_trace() read it */
    return TAMIS_ABSENT;
  if (lane_get(&g->shape, from, move->lane) != move->entry || !room || stripe_has_left(stripe_from))
    return TAMIS_ABSENT;
  struct lane old = {move->from, move->lane}, new = {move->to, lanes_first(&g->shape, room)};
  if (word_replace(&words[move->to], to, lane_put(&g->shape, to, new.lane, move->entry)) != to)
    return TAMIS_ABSENT; /* a plain add has changed the bucket move->to */
  HOOK(cuckoo_entry_copied);
  int result = TAMIS_OK;
  if (has_duplicates(segment))
    result = tamis__segment_move_copies(c, g, segment, old, new, 0, inside);
  if (result != TAMIS_OK) {
    word_and(&words[move->to], lane_put(&g->shape, UINT64_MAX, new.lane, 0));
    segment_has_room(g, segment);
    return result;
  }
  version_bump(stripe_from);
  word_and(&words[move->from], lane_put(&g->shape, UINT64_MAX, move->lane, 0));
  segment_use(g, stripe_of_bucket(g, segment, move->to), 1);
  segment_use(g, stripe_from, -1);
  fullness_reset(&segment->fullness);
  return TAMIS_OK;
}

int tamis__evict(struct cuckoo *c, const struct cuckoo_geometry *g, struct segment *segment,
                 uint64_t lower, uint64_t upper, bool inside)
{
  struct cuckoo_path path;
  if (fullness_has_no_path(&segment->fullness))
    return TAMIS_ABSENT;
  if (!plan_path(g, segment, lower, upper, &path)) {
    cuckoo_note(c, FAILED_SEARCHES);
    return TAMIS_ABSENT;
  }
  HOOK(cuckoo_path_planned);
  if (path.moves)
    cuckoo_note(c, EVICTIONS);
  int result = TAMIS_OK;
  for (unsigned i = 0; i < path.moves && result == TAMIS_OK; i++) {
    const struct cuckoo_move *move = &path.move[i];
    if (!segment_lock(g, segment, move->from, move->to))
      return TAMIS_OK;
    result = move_entry_locked(c, g, segment, move, inside);
    segment_unlock(g, segment, move->from, move->to);
  }
  if (result == TAMIS_OK)
    fullness_found_room(&segment->fullness);
  return result == TAMIS_ABSENT ? TAMIS_OK : result;
}
