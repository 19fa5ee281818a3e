/* SPDX-License-Identifier: MIT
 *
 * Layer 2: remove, which takes one copy of a key out.
 *
 * A remove holds the stripes of the key's bucket pairs in all generations.  Of all entries that
 * match, it takes the one that knows most bits of the hash string, whatever its generation.  If
 * this is not the key's own entry E, it is the entry of another key y, and knows at least as many
 * bits as E.  Both match the removed key, so the bits of E are a prefix of y's hash string, too.
 * So E, which stays, stands for y from now on, and no key loses its entry.  The same holds for
 * counted copies, because each count belongs to an entry that matches.
 *
 * If the entry has counted copies, the remove takes one of these; otherwise it clears the lane.
 */
#include "cuckoo/operations.h"

#include "cuckoo/growth.h"
#include "cuckoo/pair.h"
#include "cuckoo/segment.h"
#include "cuckoo/snapshot.h"

/* The caller holds the stripes of the pair. */
static void clear_entry_locked(const struct bucket_pair *pair, const struct best_match *best)
{
  const struct cuckoo_geometry *g = pair->geometry;
  struct stripe *stripe = stripe_of_bucket(g, pair->segment, best->bucket);
  word *w = &segment_words(g, pair->segment)[best->bucket];
  version_bump(stripe);
  word_store(w, lane_put(&g->shape, word_load(w), best->lane, 0));
  stripe_use(stripe, -1);
  cuckoo_count_change(pair->generation, ENTRIES, -1);
  segment_has_room(g, pair->segment);
}

/* Whether to check if the segment can be joined: the stripe of the bucket has few entries, and
 * their number is a multiple of eight, so that not every remove makes the check. */
static bool is_sparse(const struct bucket_pair *pair, uint64_t bucket)
{
  const struct cuckoo_geometry *g = pair->geometry;
  uint64_t used = stripe_used(stripe_of_bucket(g, pair->segment, bucket));
  uint64_t lanes = cuckoo_lanes(g) / (g->stripe_mask + UINT64_C(1));
  return used <= lanes * 3 / 8 && (used % 8 == 0 || lanes < 128);
}

/* Sets *sparse to the pair if its segment may have become small enough to join or to drop.  The
 * caller holds the stripes of all pairs. */
static int remove_locked(struct cuckoo *c, uint64_t hash, const struct locked_pairs *locked,
                         struct bucket_pair *sparse)
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
  if (!pair)
    return TAMIS_ABSENT;
  int result = TAMIS_ABSENT;
  if (has_duplicates(pair->segment))
    result = tamis__segment_remove_copy(c, pair->geometry, pair->segment,
                                        (struct lane){best.bucket, best.lane});
  if (__builtin_expect(has_snapshots(c), 0))
    tamis__snapshot_note_remove(c, pair->generation, pair_index(pair), hash);
  if (result == TAMIS_OK) {
    cuckoo_count_change(pair->generation, DUPLICATES, -1);
    return TAMIS_OK;
  }
  clear_entry_locked(pair, &best);
  if (is_sparse(pair, best.bucket))
    *sparse = *pair;
  return TAMIS_OK;
}

int tamis__cuckoo_remove(tamis_filter *f, uint64_t hash)
{
  return tamis__cuckoo_remove_mixed(cuckoo_of(f), hash_mix(&f->keys, hash));
}

int tamis__cuckoo_remove_mixed(struct cuckoo *c, uint64_t mixed)
{
  struct locked_pairs locked;
  struct bucket_pair sparse = {.segment = NULL};
  if (__builtin_expect(has_snapshots(c), 0)) /* a later snapshot brings its own */
    tamis__snapshot_provide(c);
  reader_token token = cuckoo_enter(c);
  tamis__lock_pairs(c, mixed, &locked);
  int result = remove_locked(c, mixed, &locked, &sparse);
  tamis__unlock_pairs(&locked);
  bool shrink = sparse.segment && tamis__may_shrink(c, &sparse);
  cuckoo_leave(c, token);
  if (shrink)
    tamis__shrink(c, &sparse);
  else if (sparse.segment && cuckoo_has_growth(c)) /* retired memory may wait for such a call */
    (void) tamis__backlog_drain(&cuckoo_growth(c)->backlog);
  return result;
}
