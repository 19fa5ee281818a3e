/* SPDX-License-Identifier: MIT
 *
 * Layer 2: remove, which takes out one copy of a key.
 *
 * A remove holds the stripes of the key's bucket pairs in all generations.  Of all entries that
 * match the key, in any generation, the remove takes the one that knows the most bits of the hash
 * string.  The remove takes a counted copy of this entry or, if it has none, clears its lane.
 *
 * No other key loses its entry.  Let E be the entry that stands for the removed key x.  If the
 * remove takes another entry F, then F stands for another key y, and knows at least as many bits as
 * E.  Both E and F are prefixes of x's hash string, so E is a prefix of F, and of y's hash string.
 * So from now on E stands for y.  (A counted copy stands for a key like its entry.)
 */
#include "cuckoo/operations.h"

#include "base/compiler.h"
#include "cuckoo/growth.h"
#include "cuckoo/pair.h"
#include "cuckoo/segment.h"
#include "cuckoo/snapshot.h"
#include "table/put.h"

/* Whether the bucket's stripe has so few entries that the segment might join.  In a stripe with
 * many lanes, only multiples of 8 count as few, so that few removes check.  The callers of this
 * function and of the next one must hold the pair's stripes. */
FORCE_INLINE bool is_sparse(const struct bucket_pair *pair, const struct cuckoo_geometry *g,
                            uint64_t bucket)
{
  uint64_t used = stripe_used(stripe_of_bucket(g, pair->segment, bucket));
  uint64_t lanes = cuckoo_lanes(g) / (g->stripe_mask + UINT64_C(1));
  return used <= lanes * 3 / 8 && (used % 8 == 0 || lanes < 128);
}

/* Takes out a counted copy of the best match or, without such a copy, the match itself.  Copies the
 * pair to *sparse if its segment may have become small enough to join or be dropped. */
FORCE_INLINE int take_locked(struct cuckoo *c, const struct bucket_pair *pair,
                             const struct cuckoo_geometry *g, const struct best_match *best,
                             struct bucket_pair *sparse)
{
  int result = TAMIS_ABSENT;
  if (has_duplicates(pair->segment))
    result = tamis__segment_add_copies(c, pair->geometry, pair->segment,
                                       (struct lane){best->bucket, best->lane}, UINT64_MAX, true);
  if (result == TAMIS_OK) {
    cuckoo_count_change(pair->generation, DUPLICATES, -1);
    return TAMIS_OK;
  }
  clear_lane_locked(pair->generation, g, pair->segment, best->bucket, best->lane);
  if (g->shape.ages && is_sparse(pair, g, best->bucket)) /* segments of a fixed filter never join */
    *sparse = *pair;
  return TAMIS_OK;
}

/* Removes a key from the generation with the best match.  The caller must have locked all pairs of
 * the key, and allocated *notes for snapshots.  If snapshots need more notes, changes nothing and
 * returns RETRY. */
static int remove_locked(struct cuckoo *c, uint64_t hash, const struct locked_pairs *locked,
                         struct snapshot_note **notes, struct bucket_pair *sparse)
{
  const struct bucket_pair *pair = NULL;
  struct best_match best = {0};
  for (unsigned i = 0; i < locked->n; i++) {
    if (!locked->pair[i].segment)
      continue;
    struct best_match match = match_pair(&locked->pair[i]);
    if (match.matches && match.known_bits > best.known_bits) {
      best = match;
      pair = &locked->pair[i];
    }
  }
  if (pair && has_snapshots(c) &&
      !tamis__snapshot_note_remove(c, pair->generation, pair_index(pair), hash, notes))
    return RETRY;
  return pair ? take_locked(c, pair, pair->geometry, &best, sparse) : TAMIS_ABSENT;
}

static NEVER_INLINE int remove_from_any(struct cuckoo *c, uint64_t hash, struct bucket_pair *sparse)
{
  struct locked_pairs locked;
  struct snapshot_note *notes = NULL;
  int result;
  do {
    tamis__lock_pairs(c, hash, &locked);
    result = remove_locked(c, hash, &locked, &notes, sparse);
    tamis__unlock_pairs(&locked);
    if (result == RETRY)
      tamis__snapshot_bring_note(c, &notes);
  } while (result == RETRY);
  if (!notes)
    return result;
  enum reader_pause pause = tamis__reader_pause(true);
  tamis__snapshot_release_notes(c, notes);
  tamis__reader_resume(pause);
  if (sparse->segment) { /* the segment may have been released in the pause: find it again */
    sparse->own_value = directory_at(sparse->generation, pair_index(sparse));
    sparse->segment = directory_segment(sparse->own_value);
  }
  return result;
}

/* Removes a key from a filter with one generation, which needs one hash of the key.  Returns RETRY
 * if the filter has more generations, or if the segment is missing or has left the directory.
 * Makes no notes for snapshots: a key copied from the only generation is final (snapshot.c). */
FORCE_INLINE int remove_from_first(struct cuckoo *c, uint64_t hash, bool growable,
                                   struct bucket_pair *sparse)
{
  struct generation *first = cuckoo_generation(c, 0);
  HOOK(cuckoo_generations_read);
  const struct cuckoo_geometry at_first = cuckoo_first_geometry(&first->geometry, growable);
  const struct bucket_pair pair = pair_find_with(&at_first, first, hash);
  const struct cuckoo_geometry g =
      cuckoo_first_geometry(growable ? pair.geometry : &first->geometry, growable);
  if (!pair.segment || !pair_lock(&pair, &g))
    return RETRY;
  HOOK(cuckoo_pairs_locked);
  int result = RETRY;
  if (!growable || cuckoo_generations(c) == 1) {
    const struct best_match best = match_pair_with(&pair, &g, 0, !growable);
    result = best.matches ? take_locked(c, &pair, &g, &best, sparse) : TAMIS_ABSENT;
  }
  pair_unlock(&pair, &g);
  return result;
}

static NEVER_INLINE void shrink(struct cuckoo *c, const struct bucket_pair *sparse, bool may)
{
  if (may)
    tamis__shrink(c, sparse->generation, pair_index(sparse));
  else if (cuckoo_has_growth(c)) /* a filter without growth has no backlog */
    (void) tamis__backlog_drain(&cuckoo_growth(c)->backlog, false);
}

FORCE_INLINE int remove_mixed(struct cuckoo *c, uint64_t hash, bool straight, bool growable)
{
  struct bucket_pair sparse;
  sparse.segment = NULL; /* an initializer would clear the whole struct, in every call */
  reader_token token = growable ? reader_enter() : NULL;
  int result = straight ? remove_from_first(c, hash, growable, &sparse) : RETRY;
  if (result == RETRY)
    result = remove_from_any(c, hash, &sparse);
  if (!growable)
    return result;
  bool may_shrink = sparse.segment && tamis__may_shrink(c, &sparse);
  reader_leave(token);
  if (sparse.segment)
    shrink(c, &sparse, may_shrink);
  return result;
}

int tamis__cuckoo_remove_growable(tamis_filter *f, uint64_t hash)
{
  return remove_mixed(cuckoo_of(f), hash_mix(&f->keys, hash), true, true);
}

int tamis__cuckoo_remove_fixed(tamis_filter *f, uint64_t hash)
{
  return remove_mixed(cuckoo_of(f), hash_mix(&f->keys, hash), true, false);
}

int tamis__cuckoo_remove_any(tamis_filter *f, uint64_t hash)
{
  return tamis__cuckoo_remove_mixed(cuckoo_of(f), hash_mix(&f->keys, hash));
}

int tamis__cuckoo_remove_mixed(struct cuckoo *c, uint64_t mixed)
{
  return remove_mixed(c, mixed, false, c->growable);
}
