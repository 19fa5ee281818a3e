/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the bits of a key that a Bloom filter lacks.  operations.c explains which call wins.
 */
#ifndef TAMIS_BLOOM_GAPS_H
#define TAMIS_BLOOM_GAPS_H

#include "bloom/bloom.h"

#include "base/compiler.h"
#include "base/hook.h"
#include "bloom/capacity.h"

/* What all calls need of a key.  (An add also keeps the unmixed hash, for layers.c.) */
struct bloom_key {
  uint64_t hash;  /* the mixed hash */
  uint64_t first; /* the index of the key's first word in the first section */
};

FORCE_INLINE uint64_t section_words(const struct bloom *b, struct bloom_shape shape)
{
  return shape.sections == 1 ? b->word_count : b->section_words;
}

FORCE_INLINE struct bloom_key key_of_mixed(const struct bloom *b, uint64_t mixed,
                                           struct bloom_shape shape)
{
  return (struct bloom_key){mixed, bloom_first_word(section_words(b, shape), mixed)};
}

FORCE_INLINE struct bloom_key key_of(const struct bloom *b, uint64_t hash, struct bloom_shape shape)
{
  return key_of_mixed(b, hash_mix(&b->head.keys, hash), shape);
}

/* The most sections to prefetch: a look-up of an absent key rarely reads more. */
enum { SECTIONS_AHEAD = 4 };

FORCE_INLINE void prefetch_key(const struct bloom *b, struct bloom_key key,
                               struct bloom_shape shape, bool to_write)
{
  const word *words = b->words;
  prefetch_line(&words[key.first], to_write);
  for (unsigned i = 1; i < shape.sections && i < SECTIONS_AHEAD; i++) {
    words += section_words(b, shape);
    key.hash = hash_spread(key.hash);
    prefetch_line(&words[bloom_first_word(section_words(b, shape), key.hash)], to_write);
  }
}

/* The gaps of a key: for each probe, the bits that were 0 when the add read the word. */
struct gaps {
  struct bloom_probe at[BLOOM_MAX_SECTIONS * CLASSIC_PROBES]; /* `mask` has only the missing bits */
  uint64_t any;                                               /* not 0 if any bit is missing */
  unsigned last; /* the index in at[] of the gap that the add fills last */
};
_Static_assert(MAX_BLOCKED_SECTIONS *SECTION_PROBES <= BLOOM_MAX_SECTIONS * CLASSIC_PROBES,
               "no key has more probes than a classic one");

/* Finds the widest gap: the probe that lacks the most bits, or the last of several such probes.
 * any[i] is not 0 if a probe lacks more than i bits; last[i] is the last such probe.  To save time,
 * if there is one section, a probe that lacks three bits counts like one that lacks two. */
struct widest {
  uint64_t any[SECTION_BITS];
  unsigned last[SECTION_BITS];
};

FORCE_INLINE unsigned widths_of(struct bloom_shape shape)
{
  return shape.sections == 1 && shape.bits_per_probe > 2 ? 2 : shape.bits_per_probe;
}

/* __builtin_expect() makes clang use a branch, which goes the same way for most keys.  Without the
 * branch, the OR in the last gap would wait until all words have been read. */
FORCE_INLINE void widest_add(struct widest *w, unsigned probe, uint64_t missing,
                             struct bloom_shape shape)
{
  UNROLL
  for (unsigned i = 0; i < widths_of(shape); i++, missing &= missing - 1) {
    w->any[i] |= missing;
    w->last[i] = __builtin_expect(missing != 0, 1) ? probe : w->last[i];
  }
}

FORCE_INLINE unsigned widest_of(const struct widest *w, struct bloom_shape shape)
{
  unsigned last = w->last[0];
  UNROLL
  for (unsigned i = 1; i < widths_of(shape); i++)
    last = w->any[i] ? w->last[i] : last;
  return last;
}

FORCE_INLINE void find_gaps(const struct bloom *b, struct bloom_key key, struct bloom_shape shape,
                            struct gaps *gaps)
{
  const word *words = b->words; /* see lookup() in operations.c */
  const uint64_t of_section = section_words(b, shape);
  struct bloom_probes probes = bloom_probes_from(key.first, key.hash, shape);
  struct widest widest = {{0}, {0}};
#ifndef TAMIS_COMPACT /* a compact build has one loop for any number of sections */
  UNROLL
#endif
  for (unsigned section = 0; section < BLOOM_MAX_SECTIONS; section++) {
    UNROLL
    for (unsigned i = 0; i < shape.probes; i++) {
      struct bloom_probe probe = bloom_probes_next(&probes, shape);
      probe.mask &= ~word_load(&words[probe.word]);
      gaps->at[section * shape.probes + i] = probe;
      widest_add(&widest, section * shape.probes + i, probe.mask, shape);
    }
    if (section + 1 == shape.sections)
      break;
    bloom_probes_next_section(of_section, &probes, shape);
  }
  gaps->any = widest.any[0];
  gaps->last = widest_of(&widest, shape);
}

/* Returns the probe of the last gap.  If the number of probes is constant, a loop keeps at[] in
 * registers.  The loop compares by `<=`, because clang would turn `==` into an access to at[] in
 * memory. */
FORCE_INLINE struct bloom_probe last_gap(const struct gaps *gaps, struct bloom_shape shape)
{
  if (!__builtin_constant_p(shape.sections))
    return gaps->at[gaps->last];
  struct bloom_probe last = gaps->at[0];
  UNROLL
  for (unsigned i = 1; i < shape.sections * shape.probes; i++)
    last = __builtin_expect(i <= gaps->last, 1) ? gaps->at[i] : last;
  return last;
}

enum filled {
  WON,       /* this call has set a bit in its last gap */
  LOST,      /* the key is complete, but other calls have filled this call's last gap */
  LOOK_AGAIN /* other calls have filled the last gap, but not all: find the gaps again */
};

/* Fills all gaps but the last.  Does not write complete words, so cores go on sharing their cache
 * lines.  Returns false as soon as other calls have filled the last gap. */
FORCE_INLINE bool fill_other_gaps(word *words, const struct gaps *gaps, struct bloom_probe last,
                                  struct bloom_shape shape)
{
  UNROLL
  for (unsigned i = 0; i < shape.sections * shape.probes; i++) {
    const uint64_t missing = gaps->at[i].mask;
    if (!missing || i == gaps->last)
      continue;
    if (!(last.mask & ~word_load(&words[last.word])))
      return false;
    word_or(&words[gaps->at[i].word], missing);
    HOOK(bloom_word_set);
  }
  return true;
}

FORCE_INLINE enum filled fill_gaps(struct bloom *b, const struct gaps *gaps,
                                   struct bloom_shape shape)
{
  const struct bloom_probe last = last_gap(gaps, shape);
  if (!fill_other_gaps(b->words, gaps, last, shape))
    return LOOK_AGAIN;
  HOOK(bloom_last_gap_left);
  const uint64_t set = last.mask & ~word_or(&b->words[last.word], last.mask);
  HOOK(bloom_word_set);
  return set ? WON : LOST;
}

#endif
