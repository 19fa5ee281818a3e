/* SPDX-License-Identifier: MIT
 *
 * Layer 2: look-ups in a cuckoo filter.
 *
 *    hash ──► cuckoo_address() ──► directory ──► segment ──► lower bucket ┐ a word of lanes each;
 *             (geometry.h)                             └───► upper bucket ┘ the entry is in either
 *
 * A look-up takes these steps in each generation.  Most filters have one generation.
 *
 * [D] A look-up takes no lock.  It reads the version of a stripe, the buckets, and the version
 *     again.  A miss is repeated if meanwhile an entry left a bucket of the stripe, the segment was
 *     marked as having left, or (on the *general path*, search()) the directory changed.
 *
 *     Hit: takes effect when the look-up reads the word of the entry or, if the segment has left
 *     the directory by then, when the segment left.  The segment left during the look-up, because
 *     the look-up had found it in the directory.
 *
 *     Miss with one generation: let A be the key's lower bucket, and B the upper one.  The look-up
 *     reads the version of B's stripe, bucket A, bucket B, and that version again.  (The look-up
 *     cannot miss an entry that moves from A to B: the copy is in B before A is cleared, and A is
 *     read first.)  If the two versions are equal, no entry left B between the two reads.  The
 *     look-up found no match in B, so B had no match at the earlier read of A.  Nor had A a match
 *     at this read.  So the miss takes effect at the read of A.
 *
 *         One case remains: another call bumped the version before the look-up first read it, but
 *         took a match E out of B only after the read of A.
 *         - A move: the copy of E was in A before the bump, and the look-up finds the copy.
 *         - A fold: an entry equal to E stays in A or B, and the argument applies to that entry.
 *         - A remove: it has held the stripes of both buckets since the bump.  So only a plain add
 *           in a fixed filter ([O] in insert.c) can write a match to A or B after the look-up has
 *           read the bucket.  Without such an add, the miss takes effect when the remove clears the
 *           lane in B.  With such adds, the remove takes effect just before the first of them, and
 *           the miss between the remove and this add.  Earlier look-ups find E and take effect
 *           before the remove; later ones find the added entry.
 *
 *     Miss with several generations: the look-up searches the older generations first, and then the
 *     newest one, as described above.  After that, it reads the words and versions of the older
 *     pairs again.  If they are unchanged and the older segments have not left the directory, no
 *     matching entry was in an older pair at any time between the two reads: a writer would have
 *     added it after the first read of its word, and bumped the version before the entry left.  The
 *     look-up also checks that the newest generation's segment is still in the directory, and that
 *     the number of generations is the same.  So the miss takes effect as in the newest generation.
 *
 *     Segments that have left: the general path compares the word of the root and the entry of its
 *     array with their earlier values.  While these are the same, no thread can find the segments
 *     that replace a marked segment, so its contents are still valid.  (Another segment cannot
 *     appear at the same address while the look-up is a reader.)  If a root has no segment in an
 *     older generation, it never gets one (create_segment_locked()).  In the newest generation, the
 *     general path compares the word of such a root, too.
 *
 *     The *straight path* (lookup_fast.c) searches the first generation, and then reads the number
 *     of generations.  If this number is not 1, the general path looks the key up again.  If it is
 *     1, a miss is final, even if the segment has left the directory:
 *     - Without a segment, the miss takes effect when the look-up reads the root's word.
 *     - If the first version has no mark, neither has the second.  The miss takes effect as above.
 *     - If the first version has the mark, no writer changes the segment any more.  Then the miss
 *       takes effect at the read of A or, if the segment left the directory before, when it left.
 *
 * [A] No false negative.  A move copies the entry, bumps the version, and then clears the old lane.
 *     So look-ups find the entry (stripe.h).  Splits and joins publish only filled segments.
 */
#include "cuckoo/lookup.h"

#include "base/compiler.h"
#include "cuckoo/pair.h"

/* A key's bucket pair in an older generation, and the versions and words that a look-up has read
 * there.  The members after `pair` are unset if the pair has no segment. */
struct older_pair {
  struct bucket_pair pair;
  const struct stripe *lower_stripe, *upper_stripe;
  const word *lower_word, *upper_word;
  uint64_t lower_version, upper_version;
  uint64_t lower, upper;
};

/* Reads a pair, which must have a segment.  Returns true if an entry of the pair matches. */
FORCE_INLINE bool observe(struct older_pair *older)
{
  const struct cuckoo_geometry *g = older->pair.geometry;
  const word *words = segment_words(g, older->pair.segment);
  older->lower_word = &words[older->pair.lower];
  older->upper_word = &words[older->pair.upper];
  older->lower_stripe = stripe_of_bucket(g, older->pair.segment, older->pair.lower);
  older->upper_stripe = stripe_of_bucket(g, older->pair.segment, older->pair.upper);
  older->lower_version = version_before(&older->lower_stripe->version);
  older->upper_version = version_before(&older->upper_stripe->version);
  older->lower = word_load(older->lower_word);
  HOOK(cuckoo_older_lower_read);
  older->upper = word_load(older->upper_word);
  return match_either(g, older->lower, older->upper, older->pair.entry);
}

/* Whether the words and versions are unchanged since observe().  They nearly always are, so there
 * is no branch between the comparisons.  (version_before() reads the lower stripe's version: its
 * memory order lets the caller see the mark of a segment that has left.) */
FORCE_INLINE bool observation_holds(const struct older_pair *older)
{
  uint64_t changed = word_load(older->lower_word) ^ older->lower;
  HOOK(cuckoo_older_lower_read_again);
  changed |= word_load(older->upper_word) ^ older->upper;
  changed |= version_before(&older->lower_stripe->version) ^ older->lower_version;
  changed |= version_after(&older->upper_stripe->version) ^ older->upper_version;
  return changed == 0;
}

/* Searches all generations.  A hit is final.  A miss is final if *sure is true.  The newest
 * generation may be large, so its memory is prefetched first and read last. */
static bool search_generations(const struct cuckoo *c, unsigned n, uint64_t hash, bool *sure)
{
  struct older_pair older[CUCKOO_MAX_GENERATIONS];
  struct generation *newest = cuckoo_generation(c, n - 1);
  struct bucket_pair pair = pair_find(newest, hash);
  struct lookup lookup = lookup_prepare(pair.geometry, &pair);
  lookup_prefetch(&lookup);
  for (unsigned i = 0; i + 1 < n; i++) {
    older[i].pair = pair_find(cuckoo_generation(c, i), hash);
    HOOK(cuckoo_older_pair_found);
    if (older[i].pair.segment && observe(&older[i]))
      return true;
  }
  struct lookup_result result = lookup_finish(&lookup, pair.geometry);
  if (result.hit)
    return true;
  *sure = !result.moved && pair_is_current(&pair);
  for (unsigned i = 0; i + 1 < n; i++)
    *sure &=
        pair_is_current(&older[i].pair) && (!older[i].pair.segment || observation_holds(&older[i]));
  return false;
}

/* Searches until the answer is final.  The caller must be a reader (cuckoo_enter()). */
static bool search(const struct cuckoo *c, uint64_t hash)
{
  bool sure;
  do {
    unsigned n = cuckoo_generations(c);
    if (search_generations(c, n, hash, &sure))
      return true;
    sure = sure && cuckoo_generations(c) == n;
    if (!sure)
      cuckoo_note(c, LOOKUP_RETRIES);
  } while (!sure);
  return false;
}

bool tamis__contains_mixed_any(const struct cuckoo *c, uint64_t hash)
{
  reader_token token = cuckoo_enter(c);
  bool found = search(c, hash);
  cuckoo_leave(c, token);
  return found;
}

NEVER_INLINE bool tamis__contains_again(const struct cuckoo *c, uint64_t hash)
{
  cuckoo_note(c, LOOKUP_RETRIES);
  return tamis__contains_mixed_any(c, hash);
}

bool tamis__cuckoo_contains_any(const tamis_filter *f, uint64_t hash)
{
  return tamis__contains_mixed_any(const_cuckoo_of(f), hash_mix(&f->keys, hash));
}

void tamis__cuckoo_prefetch(const tamis_filter *f, uint64_t hash)
{
  uint64_t mixed[FILTER_GROUP];
  tamis__mix_and_prefetch(const_cuckoo_of(f), &hash, 1, mixed, false);
}

size_t tamis__cuckoo_contains_many_any(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                       bool *found)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  size_t hits = 0;
  for (size_t start = 0, length; start < n; start += length) {
    uint64_t mixed[FILTER_GROUP];
    length = n - start < FILTER_GROUP ? n - start : FILTER_GROUP;
    tamis__mix_and_prefetch(c, hashes + start, length, mixed, false);
    for (size_t i = 0; i < length; i++) {
      bool in = tamis__contains_mixed_any(c, mixed[i]);
      hits += in;
      if (found)
        found[start + i] = in;
    }
  }
  return hits;
}
