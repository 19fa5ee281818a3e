/* SPDX-License-Identifier: MIT
 *
 * Layer 2: tamis_count(), which returns the number of copies of a key in a filter.
 *
 *    count(x) = the number of entries that match the key x, plus their duplicate counts
 *
 * An add or a remove of x changes count(x) by one.  Moves, splits, folds and new generations do not
 * change count(x).  An add of another key y changes count(x) only if y's entry matches x.  When
 * segments join, entries lose a known bit, so more entries may match x.  count(x) is never less
 * than the number of copies of x that were added and not removed: each of them has an entry or a
 * counted copy of its own ([E] in snapshot.c).
 *
 * [K] When a call takes effect.  The call first looks the key up.  If the look-up misses, the call
 *     takes no lock, and takes effect when the look-up does ([D] in lookup.c).
 *
 *     Otherwise tamis__lock_pairs() takes the stripes of the key's bucket pairs, generation by
 *     generation, then reads the number of generations again.  Every entry that matches the key is
 *     in one of these pairs.  Other calls change such an entry or its duplicate count only while
 *     they hold the stripe of its bucket.  So count(x) does not change while the stripes are held:
 *     the call takes effect then.  (For plain adds in fixed filters, see [O] in insert.c.)
 *
 *     If an older generation has no segment at the key's root, it never gets one.  The newest
 *     generation may get one after the call has read that there is none.  Then the call takes
 *     effect at that read, when it already holds the stripes of all older generations.
 *
 * The call also takes the lock of the duplicate counts, because buckets share blocks of counts.
 */
#include "cuckoo/lookup.h"
#include "cuckoo/pair.h"
#include "cuckoo/segment.h"
#include "cuckoo/snapshot.h"
#include "table/image.h"

/* Sets set[i] to the lanes of bucket both[i] that match the key.  Returns the number of lanes. */
static uint64_t count_matches(const struct bucket_pair *pair, const uint64_t both[2],
                              uint64_t set[2])
{
  const struct cuckoo_geometry *g = pair->geometry;
  const word *words = segment_words(g, pair->segment);
  for (unsigned i = 0; i < 2; i++)
    set[i] = bucket_match(&g->shape, word_load(&words[both[i]]), pair->entry);
  return lanes_count(set[0]) + lanes_count(set[1]);
}

static uint64_t count_in_pair_locked(const struct bucket_pair *pair)
{
  const struct lane_shape *s = &pair->geometry->shape;
  const uint64_t both[2] = {pair->lower, pair->upper};
  uint64_t sets[2], copies = count_matches(pair, both, sets);
  if (!has_duplicates(pair->segment))
    return copies;
  segment_lock_counts(pair->segment, s->ages);
  for (unsigned i = 0; i < 2; i++)
    for (uint64_t set = sets[i]; set; set &= set - 1)
      copies += segment_copies(pair->segment, (struct lane){both[i], lanes_first(s, set)});
  lock_release(&pair->segment->duplicates_lock);
  return copies;
}

/* ---- a mapped filter ----
 *
 * A mapped filter does not change.  In its file, blocks of duplicate counts follow each segment. */

int tamis__mapped_counts(struct saved_reader *r, const struct saved_mapping *file,
                         const struct cuckoo_geometry *g, const struct segment *segment)
{
  const char *end = (const char *) segment + cuckoo_segment_bytes(g);
  uint32_t type;
  *r = (struct saved_reader){.mapping = file->at, .mapping_size = file->size};
  int result = tamis__saved_jump(r, (uint64_t) (end - (const char *) file->at));
  struct saved_block sums;
  while (result == TAMIS_OK && (result = tamis__saved_peek(r, &type)) == TAMIS_OK &&
         type == SAVED_SUMS)
    result = tamis__saved_read_block(r, &sums);
  return result;
}

/* Returns the sum of the counts that a block has for a set of lanes of a bucket. */
static uint64_t count_in_block(const struct cuckoo_geometry *g, uint64_t bucket, uint64_t set,
                               struct lane_counts_reader counts)
{
  const unsigned lanes = g->shape.lanes;
  const uint64_t first = (uint64_t) bucket * lanes;
  uint64_t copies = 0;
  while (lane_counts_next(&counts) && counts.lane < first + lanes)
    if (counts.lane >= first && lane_get(&g->shape, set, (unsigned) (counts.lane - first)))
      copies += counts.count;
  return copies;
}

/* Counts a key's copies in a mapped filter.  If the file is damaged, the result may be wrong. */
static uint64_t count_mapped(const struct cuckoo *c, const struct bucket_pair *pair)
{
  const struct cuckoo_geometry *g = pair->geometry;
  const uint64_t both[2] = {pair->lower, pair->upper};
  uint64_t set[2], copies = count_matches(pair, both, set);
  if (!cuckoo_count(pair->generation, DUPLICATES))
    return copies;
  struct saved_reader r;
  struct image_table table = {
      .shape = &g->shape, .n = cuckoo_buckets(g), .table = pair_index(pair)};
  struct lane_counts_reader counts;
  int result = tamis__mapped_counts(&r, &cuckoo_mapped(c)->file, g, pair->segment);
  while (result == TAMIS_OK &&
         (result = tamis__image_read_counts(&r, &table, &counts)) == TAMIS_OK) {
    for (unsigned i = 0; i < 2; i++)
      if (set[i] && both[i] >= table.first && both[i] < table.end)
        copies += count_in_block(g, both[i], set[i], counts);
  }
  return copies;
}

static uint64_t count_all(const struct cuckoo *c, uint64_t mixed)
{
  struct locked_pairs locked;
  uint64_t copies = 0;
  tamis__lock_pairs(c, mixed, &locked);
  for (unsigned i = 0; i < locked.n; i++) {
    if (locked.pair[i].segment)
      copies += count_in_pair_locked(&locked.pair[i]);
    HOOK(cuckoo_pair_counted);
  }
  tamis__unlock_pairs(&locked);
  return copies;
}

static uint64_t count_mixed(const struct cuckoo *c, uint64_t mixed)
{
  if (!tamis__contains_mixed_any(c, mixed))
    return 0;
  if (cuckoo_mapped(c)) {
    struct bucket_pair pair = pair_find(cuckoo_generation(c, 0), mixed);
    return count_mapped(c, &pair);
  }
  reader_token token = cuckoo_enter(c);
  uint64_t copies = count_all(c, mixed);
  cuckoo_leave(c, token);
  return copies;
}

uint64_t tamis__cuckoo_count(const tamis_filter *f, uint64_t hash)
{
  return count_mixed(const_cuckoo_of(f), hash_mix(&f->keys, hash));
}

void tamis__cuckoo_count_many(const tamis_filter *f, const uint64_t *hashes, size_t n,
                              uint64_t *counts)
{
  uint64_t mixed[FILTER_GROUP];
  tamis__mix_and_prefetch(const_cuckoo_of(f), hashes, n, mixed, false);
  for (size_t i = 0; i < n; i++)
    counts[i] = count_mixed(const_cuckoo_of(f), mixed[i]);
}
