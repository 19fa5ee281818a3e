/* SPDX-License-Identifier: MIT
 *
 * Question: which keys can a filter never take for each other?
 *
 * A filter's answers are wrong with a small probability, but not at random: which keys it confuses
 * follows from their hashes.  Among keys chosen here it confuses none, so its answers about each must
 * be exact, with no tolerance.
 *
 * Cuckoo filter.  All that a filter knows of a key is a piece of one string (cuckoo_geometry.h):
 *
 *    root0 . k bits, m bits, fingerprint ...            k, m: of the generation
 *
 * Let L be a number of bits with k + m + w - 1 >= L in every generation, and call root0 with the first
 * L bits after it the key's *name*.  An entry made for y never matches a key x of another name, in any
 * generation and however often segments have split and joined:
 *
 *   - Entries match only within one generation, and in it only in a segment of the same root, that is,
 *     if root0 and the k bits are equal.
 *   - An entry of a segment of depth d that has aged by a steps says d + w - 1 - a bits of the
 *     fingerprint, prefix included, and a <= d: a split makes d and a larger by one, a join makes both
 *     smaller, or d only, and then it cuts the entry at w - 1 bits after the prefix.  So it says w - 1
 *     at least (cuckoo_known_bits), and matches only if these are equal.
 *   - With equal w - 1 bits the two buckets of x are p and M/2 + (p xor g) with the same g as those of
 *     y, so they have one in common only if p, the m bits, is equal too; then they are the same.
 *
 * Together: the first k + m + w - 1 bits after root0 are equal, L of them at least, and so the name.
 * Removes, moves, and counts of copies touch matching entries only.  (In a filter that does not grow
 * an entry has w bits and 0 is stored as 1: still the first w - 1 bits are what it says at least.)
 *
 * The generations to come are not known when keys are chosen: L is taken from the first one, at most
 * APART_BITS, and apart_holds() looks in the end whether it was true of all.
 *
 * Bloom filter.  A key is there exactly if all its bits are set.  So it is exact if one of its bits
 * belongs to no other key that is ever added: nobody else sets that.
 */
#ifndef TAMIS_STRESS_APART_H
#define TAMIS_STRESS_APART_H

#include "cuckoo/cuckoo.h"

enum { APART_BITS = 16 };

struct apart {
  struct hash_keys keys;
  struct cuckoo_geometry first; /* the first generation's */
  unsigned bits;                /* L */
};

struct apart apart_of(const tamis_filter *cuckoo);

/* The name of a key's hash. */
static inline uint64_t apart_name(const struct apart *apart, uint64_t hash)
{
  uint64_t spread = hash_spread(hash_mix(&apart->keys, hash));
  unsigned __int128 string = (unsigned __int128) spread * apart->first.first_roots;
  return (uint64_t) (string >> (64 - apart->bits));
}

/* n hashes with different names, near to each other in the filter: with a name that differs in its last
 * bit only, or in the same bucket, where that can be found soon. */
void apart_choose(const struct apart *apart, uint64_t seed, uint64_t *hashes, unsigned n);

/* Whether every generation that there is by now tells the names apart. */
bool apart_holds(const struct apart *apart, const tamis_filter *cuckoo);

/* n hashes each of which has a bit for itself in a Bloom filter with these options.  False: none were
 * found, there are too many. */
bool apart_choose_bloom(const tamis_options *options, uint64_t seed, uint64_t *hashes, unsigned n);

#endif
