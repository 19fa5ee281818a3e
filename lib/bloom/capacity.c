/* SPDX-License-Identifier: MIT */
#include "bloom/capacity.h"

#include "base/hook.h"
#include "base/memo.h"

#include <math.h>
#include <string.h>

double bloom_geometry_most_bits(const struct bloom_geometry *g)
{
  double bits = bloom_geometry_usable_bits(g);
  double average = bloom_geometry_bits_set(g, (double) g->capacity);
  return fmin(bits, average + 4 * sqrt(average * (1 - average / bits)));
}

/* Integrates 1 - rate over the keys by Simpson's rule.  The variable of the integral is the square
 * root of the number of keys, because the rate is a smooth function of this root at 0. */
double bloom_geometry_counted(const struct bloom_geometry *g, double keys)
{
  enum { STEPS = 32 };
  double hidden = 0;
  for (unsigned i = 1; i <= STEPS; i++) {
    const double root = (double) i / STEPS, weight = i == STEPS ? 1 : i % 2 ? 4 : 2;
    hidden += weight * 2 * root * bloom_geometry_rate(g, keys * root * root);
  }
  return keys * (1 - hidden / (3 * STEPS));
}

uint64_t bloom_geometry_most_keys(const struct bloom_geometry *g)
{
  const double keys = bloom_geometry_keys(g, (uint64_t) bloom_geometry_most_bits(g));
  if (keys * (1 - g->fpp) >= (double) g->capacity) /* nearly all keys are counted */
    return (uint64_t) ceil(keys);
  /* How many of `capacity` keys are counted depends on the seed.  The standard deviation is about
   * 0.3 to 0.4 times sqrt(expected), measured at rates from 0.5 to 0.999.  There is room for 6. */
  const double expected = bloom_geometry_counted(g, (double) g->capacity);
  return (uint64_t) ceil(fmax(bloom_geometry_counted(g, keys), expected + 2.4 * sqrt(expected)));
}

/* Keeps plans in a memo: to plan a small filter takes twenty times as long as the rest of its
 * creation.  A plan is needed again for the next filter with the same options, or by each add that
 * tries to create a layer while there is no memory. */
int tamis__bloom_plan(tamis_layout layout, unsigned layer, uint64_t capacity, double fpp,
                      struct bloom_geometry *out)
{
  static struct memo memo;
  uint64_t question[MEMO_QUESTION] = {capacity, 0, layout, layer};
  memcpy(&question[1], &fpp, sizeof question[1]);
  if (tamis__memo_recall(&memo, question, out, sizeof *out))
    return TAMIS_OK;
  HOOK(bloom_layer_planned);
  int result = layer ? bloom_geometry_plan_layer(layout, layer, capacity, fpp, out)
                     : bloom_geometry_plan(layout, capacity, fpp, out);
  if (result != TAMIS_OK)
    return result;
  if (!layer && layout != BLOOM_LAYOUT_COUNTING)
    out->most_keys = bloom_geometry_most_keys(out);
  tamis__memo_keep(&memo, question, out, sizeof *out);
  return TAMIS_OK;
}
_Static_assert(sizeof(struct bloom_geometry) <= MEMO_ANSWER, "a memo holds a plan");

/* Returns `keys` minus the counted keys, or 0 if the difference may be chance. */
static double beyond_chance(double keys, uint64_t counted)
{
  const double missing = keys - (double) counted;
  return fabs(missing) > 0.01 * keys + 2 * sqrt(keys) ? missing : 0;
}

double tamis__bloom_miscounted(const struct bloom_geometry *g, uint64_t bits, uint64_t counted)
{
  const double keys = bloom_geometry_keys(g, bits);
  const double missing = isfinite(keys) ? beyond_chance(keys, counted) : 0;
  return missing > 0 ? fmax(0, beyond_chance(bloom_geometry_counted(g, keys), counted)) : missing;
}

uint64_t tamis__bloom_most_beside(const struct bloom_geometry *g, uint64_t bits, uint64_t counted)
{
  const double missing = tamis__bloom_miscounted(g, bits, counted);
  if (missing <= 0)
    return g->most_keys;
  const double most = fmax(1, (double) bloom_geometry_most_keys(g) - missing);
  return most < (double) g->most_keys ? (uint64_t) most : g->most_keys;
}

/* Sets, for all processes, how many keys a shard counts between checks: 1 if the layer is near its
 * capacity.  The number never grows, so a process with outdated counts delays no checks. */
static void set_live_period(struct bloom *b, uint64_t period, bool near)
{
  _Atomic uint64_t *unwatched = &bloom_tally_of(b)->unwatched;
  const uint64_t bits = near ? UINT64_MAX : ~(period - 1);
  if (bits & ~atomic_load_explicit(unwatched, memory_order_relaxed))
    atomic_fetch_or_explicit(unwatched, bits, memory_order_relaxed);
  learn_live(b);
}

/* Chooses how many keys a shard counts before the next check.  Until then, all shards together
 * count fewer keys than there is room for. */
int tamis__bloom_watch(struct bloom *b)
{
  uint64_t room = room_for_keys(b), shards = bloom_counters(b).mask + UINT64_C(1);
  unsigned period = LEAST_WATCH_PERIOD;
  unsigned char far = OPEN;
  const bool near = room <= period * shards;
  if (near)
    atomic_compare_exchange_strong_explicit(&b->fullness, &far, NEAR, memory_order_relaxed,
                                            memory_order_relaxed);
  while (period < MOST_WATCH_PERIOD && 4 * period * shards <= room)
    period *= 2;
  if (b->live)
    set_live_period(b, period, near);
  else if (atomic_load_explicit(&b->watch_mask, memory_order_relaxed) != period - 1)
    atomic_store_explicit(&b->watch_mask, (uint16_t) (period - 1), memory_order_relaxed);
  return TAMIS_OK;
}

uint64_t tamis__bloom_add_shared(const struct bloom *b, enum bloom_counter which, uint64_t amount)
{
  if (b->live)
    return core_counter_add(bloom_tally_of(b)->shards, which, amount);
  const struct counters counters = bloom_counters(b);
  return tamis__counter_add_shared(&counters, which, amount);
}

static NEVER_INLINE int count_unowned(struct bloom *b)
{
  return is_watched(b, tamis__bloom_add_shared(b, KEYS, 1)) ? tamis__bloom_watch(b) : TAMIS_OK;
}

int tamis__bloom_count_shared(struct bloom *b)
{
  return b->live ? count_live(b, bloom_tally_of(b)) : count_unowned(b);
}

void tamis__bloom_note_refusal(const struct bloom *b)
{
  const struct counters counters = bloom_counters(b);
  tamis__counter_note(&counters, REFUSED);
}
