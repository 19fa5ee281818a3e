/* SPDX-License-Identifier: MIT
 *
 * Layer 2: adds and removes of a Bloom filter with counters.
 *
 *   hash ──────► line of 8 words of 16 counters, 4 bits each:   word 3: 0 0 2 0 1 ...
 *                                                               word 6: 1 0 0 5 0 ...
 *                an add raises the key's counters               word 1: 0 1 0 0 1 ...
 *                from the first word to the last,  ▼
 *                a remove lowers them from the last to the first  ▲
 *
 * A key's counters lie where a blocked filter with 16 positions in a word would have its bits.  A
 * key is found if none of its counters is 0.  A counter that has reached 15 is *stuck*: no call
 * changes it any more.  So no counter wraps.
 *
 * An add of a key x puts one *unit* of x into each counter of x, and a remove takes one out.  One
 * compare-and-swap changes all counters of x in a word.  So a counter is always stuck, or equals
 * its units.
 *
 * An add begins with the first word of x (in the order of its probes), and a remove with the last.
 * So no word has more units of x than a word before it.  The last word has one unit of x in each
 * counter for each copy of x in the filter.  Both take effect when they change the last word.
 *
 * [A] No false negative.  If a look-up reads a counter of x as 0, then at that instant the
 *     counter's word has no unit of x.  So the last word has none either: x is absent.  Calls for
 *     other keys take no unit of x: a remove takes out only units that adds of the same key have
 *     put in.  This is why a caller must not remove a key that was not added.
 *
 *     Linearization: a look-up that misses takes effect when it reads a 0.  A look-up that finds
 *     the key takes effect when it reads the key's last word.  (If the filter has no copy at that
 *     instant, the key is a false positive.)  A look-up may read the words in any order.
 *
 * [D] Look-ups and plain adds take no lock.  An add repeats only if another call changed the word.
 *
 * Removes, unique adds and unions hold a stripe, which is selected by the key's *line*: all keys
 * that share a counter share its line.  So while a call holds the stripe, no other call lowers a
 * counter of the line.  Only plain adds may raise counters there.
 *
 * [C] All or nothing.  Under the stripe, a remove reads all counters of its key.  If a counter is
 *     0, the key is absent (see [A]), and the remove changes nothing.  Otherwise no counter falls
 *     before the remove lowers it, even if the key was never added.  So no counter falls below 0,
 *     and no remove stops half-way.
 *
 * [B] One winner.  A unique add that misses its key takes the stripe, and searches again.  So
 *     unique adds of a key take turns, and during each turn no counter of the key falls.  But plain
 *     adds take no stripe, and may come at any moment.  Let the *gap* be the last word in which a
 *     counter of the key is 0.  The unique add raises the words before the gap, and then decides:
 *
 *       L  reads the gap
 *       O  reads the words before the gap, minus its own units: is a counter of the key 0?
 *       C  replaces the gap by its raised value, if it still has the value that L read
 *
 *     1. If neither L nor O finds a 0, the key was present, or a false positive, when L read the
 *        gap.  The call takes its units out, last word first, and returns TAMIS_PRESENT.
 *     2. Otherwise C decides.  No word falls, so C succeeds only if no call has changed the gap
 *        since L.  Then no copy has been added (one exception follows).  So the call takes effect
 *        with C, and has won.  It then raises the words after the gap, in which it had found no 0.
 *     3. If C fails, the call begins again with L.
 *
 *     In case 2, all counters of the key in the gap may be stuck, because other keys have raised
 *     them.  Then an add of the key changes nothing there, and C succeeds even if copies were
 *     added.  So the call takes effect earlier, when O reads the 0: at that instant the filter had
 *     no copy, and from then on the key is found.
 *
 * A count returns the least of a key's counters.  When a counter is read, the key has at most that
 * many copies.  If no other key shares a counter with this key, the result is exact at some
 * instant: the number of copies changes in steps of one, is at most the result when the least
 * counter is read, and is at least the result when the last word, which shows it exactly, is read.
 *
 * A fixed filter counts its copies in one word.  An add takes a place there before it raises a
 * counter, and a remove gives the place back after it has lowered all.  A growable filter counts
 * its copies at the same moments, in its counters KEYS.
 */
#ifndef TAMIS_LIB_BLOOM_COUNTING_H
#define TAMIS_LIB_BLOOM_COUNTING_H

#include "base/compiler.h"
#include "base/hook.h"
#include "bloom/bloom.h"
#include "bloom/capacity.h"
#include "bloom/gaps.h"

/* ---- a word of counters, as a value; `own` has the lowest bit of each counter of a key ---- */

/* Returns the bits of `own` whose counters are not stuck. */
FORCE_INLINE uint64_t counters_free(uint64_t counters, uint64_t own)
{
  uint64_t both = counters & counters >> 1;
  return own & ~(both & both >> 2);
}

FORCE_INLINE uint64_t counters_raised(uint64_t counters, uint64_t own)
{
  return counters + counters_free(counters, own);
}

FORCE_INLINE uint64_t counters_lowered(uint64_t counters, uint64_t own)
{
  return counters - counters_free(counters, own);
}

FORCE_INLINE uint64_t counters_missing(uint64_t counters, uint64_t own)
{
  uint64_t either = counters | counters >> 1;
  return own & ~(either | either >> 2);
}

FORCE_INLINE bool counters_have(uint64_t counters, uint64_t own)
{
  return !counters_missing(counters, own);
}

/* Adds the lower four bits of each byte of `a` to those of `b`.  A sum above 15 becomes 15. */
static inline uint64_t add_halves(uint64_t a, uint64_t b)
{
  const uint64_t halves = UINT64_C(0x0F0F0F0F0F0F0F0F);
  uint64_t sum = (a & halves) + (b & halves), over = sum >> 4 & UINT64_C(0x0101010101010101);
  return (sum | ((over << 4) - over)) & halves;
}

static inline uint64_t counters_united(uint64_t a, uint64_t b)
{
  return add_halves(a, b) | add_halves(a >> 4, b >> 4) << 4;
}

/* ---- the counters of a key ---- */

struct key_counters {
  word *words;
  unsigned n;                              /* the number of the key's words */
  struct bloom_probe at[BLOOM_MAX_PROBES]; /* `mask` has the lowest bit of each of its counters */
};

FORCE_INLINE struct key_counters counters_of_key(const struct bloom *b, struct bloom_key of,
                                                 struct bloom_shape shape)
{
  struct bloom_probes probes = bloom_probes_from(of.first, of.hash, shape);
  struct key_counters key;
  key.words = b->words;
  key.n = shape.probes;
  UNROLL
  for (unsigned i = 0; i < BLOOM_MAX_PROBES; i++)
    if (i < shape.probes)
      key.at[i] = bloom_probes_next(&probes, shape);
  return key;
}

FORCE_INLINE word *word_of(const struct key_counters *key, unsigned i)
{
  return &key->words[key->at[i].word];
}

/* Returns the stripe of the line that begins with the word `first`. */
FORCE_INLINE struct stripe *stripe_of_line(const struct bloom *b, uint64_t first)
{
  return bloom_stripe(b, first / LINE_WORDS);
}

/* Raises or lowers the counters `own`.  To lower them, the caller must hold the line's stripe. */
FORCE_INLINE void change_word(word *w, uint64_t own, bool raise)
{
  uint64_t old, now = word_load(w);
  do {
    old = now;
    assert(raise || counters_have(old, own));
    if (!counters_free(old, own))
      return;
    HOOK(counting_word_read);
    now = word_replace(w, old, raise ? counters_raised(old, own) : counters_lowered(old, own));
  } while (now != old);
}

/* Raises the counters in the words from `first` to before `end`, in this order. */
FORCE_INLINE void raise_words(const struct key_counters *key, unsigned first, unsigned end)
{
  UNROLL
  for (unsigned i = first; i < end; i++) {
    change_word(word_of(key, i), key->at[i].mask, true);
    HOOK(counting_word_raised);
  }
}

/* Lowers the counters in the words before `end`, from the last to the first. */
FORCE_INLINE void lower_words_locked(const struct key_counters *key, unsigned end)
{
  UNROLL
  while (end-- > 0) {
    change_word(word_of(key, end), key->at[end].mask, false);
    HOOK(counting_word_lowered);
  }
}

/* Returns true if the key's counters in the words before `end` are above 0.  If `raised` is set,
 * first subtracts the unit that the caller has added to each of these counters. */
FORCE_INLINE bool words_have(const struct key_counters *key, unsigned end, bool raised)
{
  uint64_t missing = 0;
  UNROLL
  for (unsigned i = 0; i < end; i++) {
    uint64_t counters = word_load(word_of(key, i));
    if (raised)
      counters = counters_lowered(counters, key->at[i].mask);
    missing |= counters_missing(counters, key->at[i].mask);
  }
  return !missing;
}

/* ---- the number of copies ---- */

/* Adds n, which may be negative, to *copies.  Returns false if the sum would exceed `most`.  A sum
 * below 0, after too many removes of keys with stuck counters, becomes 0. */
static inline bool take_places(word *copies, int64_t n, uint64_t most)
{
  const uint64_t size = (uint64_t) (n < 0 ? -n : n);
  uint64_t old, now = word_load(copies);
  do {
    old = now;
    if (n > 0 && (old >= most || most - old < size))
      return false;
    HOOK(counting_places_read);
    now = word_replace(copies, old, n >= 0 ? old + size : old < size ? 0 : old - size);
  } while (now != old);
  return true;
}

/* Counts n added copies or, if n is negative, -n removed copies.  Returns false if `bounded` is set
 * and a fixed filter has no room for them. */
FORCE_INLINE bool count_copies(struct bloom *b, int64_t n, bool bounded)
{
  if (b->limited)
    return take_places(&bloom_long_of(b)->copies, n,
                       bounded ? bloom_long_of(b)->capacity : UINT64_MAX);
  bloom_count(b, KEYS, (uint64_t) n);
  return true;
}

/* ---- add, unique add, remove and count ---- */

FORCE_INLINE int counting_add(struct bloom *b, struct bloom_key of, struct bloom_shape shape)
{
  if (!count_copies(b, 1, true)) {
    tamis__bloom_note_refusal(b);
    return TAMIS_EFULL;
  }
  const struct key_counters key = counters_of_key(b, of, shape);
  raise_words(&key, 0, key.n);
  return TAMIS_OK;
}

/* Returns the index of the last word in which a counter of the key is 0, or -1.  Callers of
 * functions whose names end with _locked must hold the stripe of the line. */
static inline int last_gap_locked(const struct key_counters *key)
{
  int gap = -1;
  for (unsigned i = 0; i < key->n; i++)
    if (!counters_have(word_load(word_of(key, i)), key->at[i].mask))
      gap = (int) i;
  return gap;
}

/* Raises the words before the gap, then the gap, then the other words: L, O and C in [B] above. */
FORCE_INLINE int add_by_gap_locked(const struct key_counters *key, unsigned gap)
{
  const uint64_t own = key->at[gap].mask;
  uint64_t now;
  raise_words(key, 0, gap);
  do {
    now = word_load(word_of(key, gap));
    HOOK(counting_gap_read);
    if (counters_have(now, own) && words_have(key, gap, true)) {
      lower_words_locked(key, gap);
      return TAMIS_PRESENT;
    }
    HOOK(counting_others_read);
  } while (word_replace(word_of(key, gap), now, counters_raised(now, own)) != now);
  HOOK(counting_won);
  raise_words(key, gap + 1, key->n);
  return TAMIS_OK;
}

FORCE_INLINE int add_missing_locked(struct bloom *b, const struct key_counters *key)
{
  const int gap = last_gap_locked(key);
  if (gap < 0)
    return TAMIS_PRESENT;
  HOOK(bloom_key_missed_under_stripe);
  if (!count_copies(b, 1, true)) {
    tamis__bloom_note_refusal(b);
    return TAMIS_EFULL;
  }
  const int result = add_by_gap_locked(key, (unsigned) gap);
  if (result == TAMIS_PRESENT)
    count_copies(b, -1, false);
  return result;
}

FORCE_INLINE int counting_add_missing(struct bloom *b, struct bloom_key of,
                                      struct bloom_shape shape)
{
  const struct key_counters key = counters_of_key(b, of, shape);
  struct stripe *stripe = stripe_of_line(b, of.first);
  HOOK(bloom_key_missed);
  stripe_lock(stripe);
  const int result = add_missing_locked(b, &key);
  stripe_unlock(stripe);
  return result;
}

FORCE_INLINE int counting_remove(struct bloom *b, struct bloom_key of, struct bloom_shape shape)
{
  const struct key_counters key = counters_of_key(b, of, shape);
  struct stripe *stripe = stripe_of_line(b, of.first);
  stripe_lock(stripe);
  const bool in = words_have(&key, key.n, false);
  HOOK(counting_key_found_under_stripe);
  if (in)
    lower_words_locked(&key, key.n);
  stripe_unlock(stripe);
  if (in)
    count_copies(b, -1, false);
  return in ? TAMIS_OK : TAMIS_ABSENT;
}

/* Returns the least of a key's counters: an upper bound of the number of its copies. */
static inline uint64_t counting_copies(const struct bloom *b, struct bloom_key of,
                                       struct bloom_shape shape)
{
  struct bloom_probes probes = bloom_probes_from(of.first, of.hash, shape);
  uint64_t least = 15;
  for (unsigned i = 0; i < shape.probes; i++) {
    struct bloom_probe probe = bloom_probes_next(&probes, shape);
    uint64_t counters = word_load(&b->words[probe.word]);
    for (uint64_t own = probe.mask; own; own &= own - 1) {
      uint64_t counter = counters >> __builtin_ctzll(own) & 15;
      least = counter < least ? counter : least;
    }
  }
  return least;
}

/* ---- all counters of a filter ---- */

struct counting_census {
  uint64_t sum;
  bool stuck;
};

static inline void counting_census_add(struct counting_census *census, uint64_t counters)
{
  const uint64_t halves = UINT64_C(0x0F0F0F0F0F0F0F0F);
  uint64_t pairs = (counters & halves) + (counters >> 4 & halves);
  census->sum += pairs * UINT64_C(0x0101010101010101) >> 56;
  census->stuck |= (counters & counters >> 1 & counters >> 2 & counters >> 3 &
                    bloom_positions_set(UINT64_MAX, BLOOM_LAYOUT_COUNTING)) != 0;
}

/* Splits the sum of all counters into copies and a *rest*.  If no counter is stuck, the sum is the
 * number of copies times the number of counters of a key, plus the rest: units of adds and removes
 * that were half-way when a save or a union read the words, after it had read `counted`. */
static inline struct bloom_sums counting_read(struct bloom_shape shape, struct bloom_sums counted,
                                              const struct counting_census *read)
{
  uint64_t of_key = bloom_shape_bits_per_key(shape), rest = counted.united;
  if (read->stuck) /* the sum says nothing about copies if a counter is stuck */
    return counted;
  uint64_t copies = read->sum > rest ? (read->sum - rest) / of_key : 0;
  return (struct bloom_sums){copies, read->sum - copies * of_key};
}

#endif
