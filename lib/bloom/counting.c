/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what concerns all counters of a Bloom filter that counts; counting.h has its calls on
 * keys, and the essay on why they are correct.
 *
 * As long as no counter is stuck, the sum of all counters is the number of copies, times the
 * counters of a key, and the *rest*.  The rest are raises of keys that were only partly there when
 * their words were read, by a save or a union under fire.  They are nobody's, and stay.
 *
 * Union.  Each word of `into` gets the counters of the same word of `from`, from the first word of
 * a line to the last.  So of every key that is in `from` all the time, the union leaves a prefix,
 * as adds do.  To other calls it looks like plain adds.  It takes no stripe.
 *
 * A filter that is limited takes places for all copies of `from` before a counter changes, and
 * answers TAMIS_EFULL if there are not as many.  Copies that come to `from`, or leave it, while the
 * union runs are counted afterwards.
 */
#include "bloom/counting.h"

#include "bloom/bloom.h"

struct counting_keys tamis__counting_keys(const struct bloom *b)
{
  uint64_t copies =
      b->limited ? word_load(&const_bloom_long_of(b)->copies) : bloom_counted(b, KEYS);
  return (struct counting_keys){copies >> 63 ? 0
                                             : copies, /* keys that are stuck, removed too often */
                                bloom_counted(b, UNITED)};
}

struct counting_keys tamis__counting_keys_read(struct bloom_shape shape,
                                               struct counting_keys of_filter,
                                               const struct counting_census *read)
{
  uint64_t of_key = bloom_shape_bits_per_key(shape), rest = of_filter.rest;
  if (read->stuck) /* the sum says little */
    return of_filter;
  uint64_t copies = read->sum > rest ? (read->sum - rest) / of_key : 0;
  return (struct counting_keys){copies, read->sum - copies * of_key};
}

const char *tamis__counting_fault(const struct bloom *b)
{
  struct counting_census census = {0};
  for (uint64_t i = 0; i < b->word_count; i++)
    counting_census_add(&census, word_load(&b->words[i]));
  struct counting_keys keys = tamis__counting_keys(b);
  uint64_t counted = keys.copies * bloom_shape_bits_per_key(bloom_shape_of(b)) + keys.rest;
  return !census.stuck && census.sum != counted ? "counted copies are not the counters" : NULL;
}

/* ---- union ---- */

/* The sums of the lower four bits of each byte, 15 if they are more. */
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

static inline void unite_word(word *w, uint64_t counters)
{
  uint64_t old, now = word_load(w);
  if (!counters)
    return;
  do {
    old = now;
    HOOK(counting_union_word_read);
    now = word_replace(w, old, counters_united(old, counters));
  } while (now != old);
  HOOK(counting_word_united);
}

/* Corrects the number of copies, of which `counted` were counted before the union. */
static void count_united(struct bloom *into, uint64_t counted, const struct counting_keys *brought)
{
  if (!into->limited)
    bloom_count(into, KEYS, brought->copies);
  else if (brought->copies < counted)
    give_places(into, counted - brought->copies);
  else
    for (uint64_t old, now = word_load(&bloom_long_of(into)->copies);; now = old) {
      old = word_replace(&bloom_long_of(into)->copies, now, now + (brought->copies - counted));
      if (old == now)
        break;
    }
  bloom_count(into, UNITED, brought->rest);
}

int tamis__counting_merge(tamis_filter *into_filter, const tamis_filter *from_filter)
{
  struct bloom *into = bloom_of(into_filter);
  const struct bloom *from = const_bloom_of(from_filter);
  if (!bloom_fit_together(into, from))
    return TAMIS_EINVAL;
  struct counting_keys keys = tamis__counting_keys(from);
  if (into->limited && !take_places(into, keys.copies))
    return TAMIS_EFULL;
  struct counting_census census = {0};
  for (uint64_t i = 0; i < from->word_count; i++) {
    uint64_t counters = word_load(&from->words[i]);
    counting_census_add(&census, counters);
    unite_word(&into->words[i], counters);
  }
  struct counting_keys brought = tamis__counting_keys_read(bloom_shape_of(from), keys, &census);
  count_united(into, keys.copies, &brought);
  return TAMIS_OK;
}
