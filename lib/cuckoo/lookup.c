/* SPDX-License-Identifier: MIT
 *
 * Layer 2: contains, the look-ups of a cuckoo filter.
 *
 *    hash ──► cuckoo_address() ──► directory ──► segment ──► lower bucket ┐ a word of lanes each;
 *             (geometry.h)                             └───► upper bucket ┘ the entry is in either
 *
 * in each generation, of which most filters have one.
 *
 * [D] A look-up takes no lock.  It reads the version of a stripe, then the buckets, then the
 *     version again.  It begins anew if an entry has meanwhile left a bucket of the stripe or the
 *     segment has been marked as leaving and, on the general path, if the directory has changed.
 *
 *     Hit: the entry was there when its word was read; or, if the segment had left the directory by
 *     then, when the segment left, which was after this call had read the word of the root.
 *
 *     Miss with one generation: of the key's two buckets, A is the lower one, which is read first,
 *     and B the upper one.  The look-up reads the version of B's stripe, bucket A, bucket B, and
 *     that version again.  (An entry that moves from A to B cannot be missed: its copy is in B
 *     before A is cleared, and A is read first.)  If the two versions are equal, no entry has left
 *     B in between.  So what is not in B at the end was not in B when A was read; it was not in A
 *     then; and the miss takes effect at the read of A.
 *
 *         One case remains: an entry was about to leave B, and the version was bumped before its
 *         first read.  If a move took the entry, its copy was in A by then, where the look-up sees
 *         it.  If a remove took it, the remove has held the stripes of both buckets since.  So
 *         nothing has come to A (not even from an add that holds one stripe, as that would be A's),
 *         and the miss takes effect when the remove clears the lane in B.  If a fold took it, an
 *         equal entry stays in a lane of A or B, and the argument applies to that one.
 *
 *     Miss with several generations: the older ones are searched first, and the newest one last, as
 *     if it were the only one.  The words and versions of each older one are the same after the
 *     newest one's search, and its segment has not left the directory by then.  So no entry that
 *     matches was in an older bucket pair at any time in between: it would have come after the
 *     first reading of its word, which has no match, and left before the second one, and leaving
 *     would have bumped the version.  The newest one's segment was in the directory when its
 *     version was first read, which is after the older ones' words were; and the number of
 *     generations is the same at the end.  So the miss takes effect where that of the newest
 *     generation does.
 *
 *     Whether a segment has left: on the straight path, its version shows no mark, and a segment is
 *     marked before any of its directory entries changes.  This would make look-ups wait for a
 *     writer between the mark and the change, so where there is a mark, the general path decides.
 *     It compares the word of the root, and the entry of its array: while they are the
 *     same, nobody can find the successors of a marked segment, so what it holds is true.  (A
 *     segment that has left the directory cannot come back under the same address, because its
 *     memory is not used again while the look-up is a reader.)  Where there was no segment, an
 *     older generation never gets one (create_segment_locked()), and for the newest one the general
 *     path compares, too.
 *
 * [A] No false negative.  Moves copy before they clear, and bump the version in between; stripe.h
 *     says why that is enough.  Splits and joins fill new segments before they publish them.
 */
#include "cuckoo/lookup.h"

#include "base/compiler.h"
#include "cuckoo/pair.h"

/* ---- older generations ---- */

/* Where a key's buckets are in an older generation. */
struct older_places {
  const struct stripe *lower_stripe, *upper_stripe; /* NULL: there is no segment */
  const word *lower, *upper;
  uint64_t entry;
};

FORCE_INLINE struct older_places older_places(const struct cuckoo_geometry *g,
                                              const struct bucket_pair *pair)
{
  struct lookup lookup = lookup_prepare(g, pair);
  struct older_places at = {.upper_stripe = lookup.stripe,
                            .lower = lookup.lower,
                            .upper = lookup.upper,
                            .entry = lookup.entry};
  at.lower_stripe = pair->segment ? stripe_of_bucket(g, pair->segment, pair->lower) : NULL;
  return at;
}

/* What they held. */
struct observation {
  uint64_t lower_version, upper_version;
  uint64_t lower, upper;
};

/* Returns whether the pair has an entry that matches.  There is a segment. */
FORCE_INLINE bool observe(const struct cuckoo_geometry *g, const struct older_places *at,
                          struct observation *seen)
{
  seen->lower_version = version_before(at->lower_stripe);
  seen->upper_version = version_before(at->upper_stripe);
  seen->lower = word_load(at->lower);
  HOOK(cuckoo_older_lower_read);
  seen->upper = word_load(at->upper);
  return match_either(g, seen->lower, seen->upper, at->entry);
}

/* Whether the buckets have held the same all the time since.  They nearly always have, so there is
 * no branch between the comparisons.  (A version is read again in the order in which it was first
 * read, because the caller may rely on it to show a mark.) */
FORCE_INLINE bool observation_holds(const struct older_places *at, const struct observation *seen)
{
  uint64_t changed = word_load(at->lower) ^ seen->lower;
  HOOK(cuckoo_older_lower_read_again);
  changed |= word_load(at->upper) ^ seen->upper;
  changed |= version_before(at->lower_stripe) ^ seen->lower_version;
  changed |= version_after(at->upper_stripe) ^ seen->upper_version;
  return changed == 0;
}

/* ---- any number of generations ---- */

/* The newest generation has the most keys and may be large, so its memory is fetched first and read
 * last.  A hit holds; a miss holds if *sure. */
static bool search_generations(const struct cuckoo *c, unsigned n, uint64_t hash, bool *sure)
{
  struct bucket_pair older[CUCKOO_MAX_GENERATIONS];
  struct older_places at[CUCKOO_MAX_GENERATIONS];
  struct observation seen[CUCKOO_MAX_GENERATIONS];
  struct generation *newest = cuckoo_generation(c, n - 1);
  struct bucket_pair pair = pair_find(newest, hash);
  struct lookup lookup = lookup_prepare(pair.geometry, &pair);
  lookup_prefetch(&lookup);
  for (unsigned i = 0; i + 1 < n; i++) {
    older[i] = pair_find(cuckoo_generation(c, i), hash);
    HOOK(cuckoo_older_pair_found);
    at[i] = older_places(older[i].geometry, &older[i]);
    if (older[i].segment && observe(older[i].geometry, &at[i], &seen[i]))
      return true;
  }
  struct lookup_result result = lookup_finish(&lookup, pair.geometry);
  if (result.hit)
    return true;
  *sure = !result.moved && pair_is_current(&pair);
  for (unsigned i = 0; i + 1 < n; i++)
    *sure &=
        pair_is_current(&older[i]) && (!older[i].segment || observation_holds(&at[i], &seen[i]));
  return false;
}

/* The caller is a reader. */
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

/* In a read section for the arrays of the directory: of a segment only the address is used. */
void tamis__cuckoo_prefetch(const tamis_filter *f, uint64_t hash)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  const uint64_t mixed = hash_mix(&f->keys, hash);
  reader_token token = cuckoo_enter(c);
  for (unsigned i = 0, n = cuckoo_generations(c); i < n; i++) {
    struct bucket_pair pair = pair_find(cuckoo_generation(c, i), mixed);
    pair_prefetch(&pair, pair.geometry);
  }
  cuckoo_leave(c, token);
}

/* Looks up key by key, each in a call of its own, after a group's memory has been fetched. */
size_t tamis__cuckoo_contains_many_any(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                       bool *found)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  size_t hits = 0;
  for (size_t start = 0, length; start < n; start += length) {
    uint64_t mixed[FILTER_GROUP];
    length = n - start < FILTER_GROUP ? n - start : FILTER_GROUP;
    tamis__mix_and_prefetch(c, hashes + start, length, mixed);
    for (size_t i = 0; i < length; i++) {
      bool in = tamis__contains_mixed_any(c, mixed[i]);
      hits += in;
      if (found)
        found[start + i] = in;
    }
  }
  return hits;
}
