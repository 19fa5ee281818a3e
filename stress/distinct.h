/* SPDX-License-Identifier: MIT
 *
 * Question: which keys does a filter never mistake for each other?
 *
 * A filter gives wrong answers with a small probability, but not at random: which keys it confuses
 * follows from their hashes.  It confuses none of the keys that are chosen here, so its answers
 * about each of them must be exact, without any tolerance.
 *
 * Cuckoo filter.  All that a filter stores of a key is a piece of one hash string
 * (cuckoo/geometry.h):
 *
 *    root0 . k bits, m bits, fingerprint ...            k, m: of the generation
 *
 * Let L be a number of bits such that k + m + w - 1 >= L in every generation.  Root0 and the first
 * L bits after it are the *distinct prefix* of a key.  An entry of a key y never matches a key x
 * with another distinct prefix, in any generation and however often segments have split and joined:
 *
 *   - An entry matches only in its own generation, and there only in a segment of the same root.
 *     So root0 and the k bits of x and y are equal.
 *   - An entry in a segment of depth d that has aged by a steps holds d + w - 1 - a bits of the
 *     fingerprint, prefix included, where a <= d.  A split increases both d and a by one.  A join
 *     decreases both, or it decreases d alone and cuts the entry at w - 1 bits after the prefix.
 *     So an entry always holds w - 1 bits at least (cuckoo_known_bits), and it matches only if they
 *     are equal.
 *   - The buckets of x are p and M/2 + (p xor g), where p is the m bits and g follows from the
 *     w - 1 bits.  Those of y have the same g, so the keys have a bucket in common only if p is
 *     equal too.
 *
 * Together, the first k + m + w - 1 bits after root0 are equal.  These are L bits at least, so the
 * distinct prefixes are equal.  Removes, moves and duplicate counts affect matching entries only.
 * (A filter that does not grow stores w bits and replaces 0 by 1, so its entries also hold w - 1
 * bits.)
 *
 * The later generations are not known when keys are chosen.  L is taken from the first generation,
 * and is DISTINCT_BITS_MAX at most; distinct_holds() checks in the end that it was small enough for
 * all of them.
 *
 * Bloom filter.  A key is found exactly if all its bits are set in some layer.  So the answers about
 * a key are exact if in each layer one of its bits belongs to no other key that is ever added.
 *
 * Bloom filter that counts.  Other keys come and go, and what a call has done to a part of a key's
 * counters is then seen or not.  So no counter of a key may belong to another one.
 *
 * Window.  What a layer stores of a key are the leading digits of one fraction (window/geometry.h).
 * Keys that are further apart there than some units of the first layer's last digit are told from
 * each other by it, and by every layer that has at least half as many values.  distinct_holds()
 * checks that all have.
 */
#ifndef TAMIS_STRESS_DISTINCT_H
#define TAMIS_STRESS_DISTINCT_H

#include "bloom/bloom.h"
#include "cuckoo/cuckoo.h"
#include "window/table.h"

enum { DISTINCT_BITS_MAX = SMALL(16, 10) };

/* What a filter never confuses: any filter but a Bloom filter without counters and window. */
struct distinct {
  const struct distinct_form *form; /* of its kind */
  const tamis_filter *filter;
  struct cuckoo_geometry first; /* of a cuckoo filter: the first generation's */
  unsigned bits;                /* L */
};

struct distinct distinct_of(const tamis_filter *filter);

/* Whether the filter may confuse two keys, given by their hashes. */
bool distinct_confuses(const struct distinct *distinct, uint64_t a, uint64_t b);

/* Chooses n hashes that the filter does not confuse.  Where a few tries find them, they are close to
 * the first one: they share a bucket or a line with it, or their prefix differs in the last bit
 * only. */
void distinct_choose(const struct distinct *distinct, uint64_t seed, uint64_t *hashes, unsigned n);

/* Whether that holds for every generation or layer that the filter has by now. */
bool distinct_holds(const struct distinct *distinct);

/* Chooses n hashes each of which has a bit of its own in a Bloom filter with these options, and in
 * each layer that it opens for them.  False: n is too large for that. */
bool distinct_choose_bloom(const tamis_options *options, uint64_t seed, uint64_t *hashes,
                           unsigned n);

#endif
