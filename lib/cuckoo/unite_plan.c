/* SPDX-License-Identifier: MIT
 *
 * Layer 2: plans a union before anything is changed.
 *
 * The rate.  An entry that knows S bits after root0, in any generation, makes an absent key seem
 * present with probability 2^-S / R, where R is the number of roots of the first generation.  So a
 * filter keeps its rate if the sum of these probabilities for its entries is at most the rate.
 *
 * The plan of a generation assumes that keys are added one by one, to segments that split ever
 * deeper, so that new entries know more bits.  The *share* of n keys is the rate that a plan allows
 * for the first n keys (share_of()).  Two filters of n keys each may together have twice the share
 * of n keys, which is more than the share of 2n keys.  So the union adds what its entries need
 * beyond their share to the *excess* of `into`.  The planned rates of all generations and the
 * excess together never exceed the promised rate:
 *
 *    Before it begins, the union sums up the rate of the entries of `from`.  The excess of these
 *    entries must fit into half of the rate that the plans of the generations leave.  If it does
 *    not, the union lowers the split limit of the newest generation, and so its planned rate.  If
 *    that is not enough, the union is refused.  At the end, the union corrects the excess for the
 *    entries it has added.
 *
 * Room.  Entries that know too few bits for newer generations need room in older ones.  A census
 * counts the entries for each number of known bits.  The union is refused before it begins if the
 * older generations have too little room at their split limits.  (So two filters with full first
 * generations have no union.)
 *
 * Copies.  If two filters are united into each other in turn, the copies multiply.  Before counts
 * overflow, after some seventy unions, unions are refused.
 */
#include "cuckoo/unite_plan.h"

#include "base/reals.h"
#include "cuckoo/generation.h"
#include "cuckoo/pair.h"
#include "table/image.h"

#include <math.h>

/* entries[i] is the number of entries that know i bits after root0.  (Root and pair have fewer than
 * 64 bits, a prefix has at most 14, and an entry at most 31.) */
enum { MAX_KNOWN_BITS = 128 };
struct census {
  uint64_t entries[MAX_KNOWN_BITS];
};

static void survey_segment(const struct cuckoo_geometry *g, const struct segment *segment,
                           struct census *census)
{
  uint64_t *entries = census->entries + cuckoo_known_bits(g, segment->depth, 0);
  for (uint32_t i = 0; i < cuckoo_buckets(g); i++) {
    uint64_t value = word_load(&segment_words(g, segment)[i]);
    for (uint64_t set = lanes_in_use(&g->shape, value); set; set &= set - 1)
      entries[-(int) bucket_age(&g->shape,
                                lane_get(&g->shape, value, lanes_first(&g->shape, set)))]++;
  }
}

/* Counts the entries of a generation.  This is an estimate: segments may split and join. */
static void survey_generation(const struct cuckoo *c, const struct generation *generation,
                              struct census *census)
{
  struct segment_cursor cursor = {0};
  const struct segment *segment;
  *census = (struct census){{0}};
  do {
    reader_token token = cuckoo_enter(c);
    segment = segment_next(generation, &cursor);
    if (segment)
      survey_segment(segment_geometry(generation, segment), segment, census);
    cuckoo_leave(c, token);
  } while (segment);
}

static bool has_all_roots(const struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  for (uint64_t root = 0; root < cuckoo_roots(g); root++)
    if (!directory_load(&generation->directory[root]))
      return false;
  return true;
}

/* The number of entries that a generation can take before the first segment is full, if all
 * segments have this depth.  (After the uneven split, one with the larger class is first.) */
static double room_at(const struct cuckoo_geometry *before, unsigned depth)
{
  const double larger_class = 2 - 0x1.6a09e667f3bcdp0; /* part of all keys: 2 - sqrt(2) */
  const struct cuckoo_geometry after = cuckoo_geometry_after(before);
  const bool uneven = depth > before->uneven_at;
  double keys = cuckoo_geometry_full_keys(uneven ? &after : before);
  double room = ldexp(keys * (double) cuckoo_roots(before), (int) depth);
  return uneven ? room / 2 / larger_class : room;
}

/* Returns for how many entries of geometry `source` generation j of `into` has room, besides its
 * own entries and those already planned for it. */
static double room_left(const struct union_plan *plan, unsigned j,
                        const struct cuckoo_geometry *source)
{
  const struct generation *generation = cuckoo_generation(plan->into, j);
  const struct cuckoo_geometry *g = &generation->geometry;
  double entries = plan->before[j] + plan->taken[j];
  if (generation != plan->newest && !has_all_roots(generation))
    return 0;
  if (entries == 0 && cuckoo_same_geometry(g, source)) /* a copy of a generation always has room */
    return INFINITY;
  return fmax(room_at(g, generation_split_limit(generation)) - entries, 0);
}

/* The least depth at which a generation has room for `keys` keys. */
static unsigned depth_for(const struct generation *generation, double keys)
{
  unsigned depth = 0, limit = generation_split_limit(generation);
  while (depth < limit && room_at(&generation->geometry, depth) < keys)
    depth++;
  return depth;
}

/* The share of `keys` keys: the rate of a generation that has split only as deep as they need. */
static double share_of(const struct generation *generation, double keys)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  unsigned depth = depth_for(generation, keys);
  if (depth == 0)
    return generation_rate(generation, 0) * keys / room_at(g, 0);
  double fewer = room_at(g, depth - 1), part = (keys - fewer) / (room_at(g, depth) - fewer);
  double rate = generation_rate(generation, depth - 1);
  return rate + fmin(part, 1) * (generation_rate(generation, depth) - rate);
}

/* The union adds `more` entries to `keys` keys of a generation.  Returns by how much `rate`, their
 * false-positive rate, exceeds what the plan of the generation allows for so many new keys. */
static double excess_of(const struct generation *generation, double keys, double more, double rate)
{
  return fmax(rate - (share_of(generation, keys + more) - share_of(generation, keys)), 0);
}

/* The mean depth of a generation's segments, rounded up. */
static unsigned depth_now(const struct generation *generation)
{
  double segments = (double) atomic_load_explicit(&generation->segments, memory_order_relaxed);
  return (unsigned) ceil(
      real_log2(fmax(segments / (double) cuckoo_roots(&generation->geometry), 1)));
}

/* The depth that the newest generation of `into` will reach: its segments split as deep as those of
 * `from`, and as deep as the entries require. */
static unsigned deepest(const struct cuckoo *from, const struct union_plan *plan)
{
  const struct generation *newest = plan->newest;
  unsigned depth = depth_now(newest);
  unsigned needed = depth_for(newest, plan->before[newest->number] + plan->taken[newest->number]);
  for (unsigned i = 0; i < cuckoo_generations(from); i++) {
    const struct generation *source = cuckoo_generation(from, i);
    if (cuckoo_same_geometry(&newest->geometry, &source->geometry) && depth_now(source) > depth)
      depth = depth_now(source);
  }
  return depth > needed ? depth : needed;
}

/* Plans for the entries of generation i of `from`.  Returns false if there is no room for them. */
static bool plan_generation(struct union_plan *plan, const struct cuckoo *from, unsigned i)
{
  const unsigned n = plan->newest->number + 1U;
  const struct cuckoo_geometry *g = &cuckoo_generation(from, i)->geometry;
  struct survey taken[CUCKOO_MAX_GENERATIONS] = {{0, 0}};
  double room[CUCKOO_MAX_GENERATIONS], left = 0;
  struct census census;
  survey_generation(from, cuckoo_generation(from, i), &census);
  for (unsigned j = 0; j < n; j++)
    room[j] = room_left(plan, j, g);
  for (unsigned bits = 0; bits < MAX_KNOWN_BITS; bits++) {
    double rest = (double) census.entries[bits];
    for (unsigned j = n; j-- > 0 && rest > 0;)
      if (cuckoo_can_take(&cuckoo_generation(plan->into, j)->geometry, g, bits)) {
        double come = fmin(room[j] - taken[j].entries, rest);
        taken[j].entries += come;
        taken[j].rate += come * cuckoo_entry_rate(g, bits);
        rest -= come;
      }
    left += rest;
  }
  for (unsigned j = 0; j < n; j++) {
    plan->excess += excess_of(cuckoo_generation(plan->into, j), plan->before[j] + plan->taken[j],
                              taken[j].entries, taken[j].rate);
    plan->taken[j] += taken[j].entries;
  }
  if (left <= 0)
    return true;
  plan->rate += g->rate; /* the union will open a generation like this one */
  return i >= n;
}

/* Reserves a part of the promised rate for plan->excess, the false positives that the union's keys
 * add.  The caller must hold `opening`. */
static int reserve_rate_locked(struct union_plan *plan, const struct cuckoo *from)
{
  const struct cuckoo *into = plan->into;
  struct generation *newest = plan->newest;
  unsigned n = newest->number + 1U;
  unsigned limit = generation_split_limit(newest), lower = limit, least = deepest(from, plan);
  double most = (cuckoo_rate_left(into, n) - plan->rate) / 2, full = generation_rate(newest, limit);
  if (plan->rate > 0 && most < 0)
    return TAMIS_EUNSUPPORTED;
  while (lower > least && plan->excess - full + generation_rate(newest, lower) > most)
    lower--;
  if (plan->excess > 0 && plan->excess - full + generation_rate(newest, lower) > most)
    return TAMIS_EUNSUPPORTED;
  if (plan->excess > 0)
    plan->splits = limit - lower;
  atomic_store_explicit(&newest->split_limit, (uint8_t) (limit - plan->splits),
                        memory_order_relaxed);
  atomic_store_explicit(&cuckoo_growth(into)->united, true, memory_order_relaxed);
  plan->former = cuckoo_growth_figure(into, excess);
  atomic_store_explicit(&cuckoo_growth(into)->excess, plan->former + plan->excess,
                        memory_order_relaxed);
  return TAMIS_OK;
}

static uint64_t copies_in(const struct cuckoo *c)
{
  uint64_t copies = 0;
  for (unsigned i = 0; i < cuckoo_generations(c); i++)
    copies += cuckoo_count(cuckoo_generation(c, i), ENTRIES) +
              cuckoo_count(cuckoo_generation(c, i), DUPLICATES);
  return copies;
}

int tamis__union_begin(struct cuckoo *into, const struct cuckoo *from, struct union_plan *plan)
{
  *plan = (struct union_plan){.into = into};
  if (copies_in(into) + copies_in(from) >= saved_most_united)
    return TAMIS_EFULL;
  if (!into->growable) {
    uint64_t entries = cuckoo_count(cuckoo_generation(into, 0), ENTRIES);
    return entries + cuckoo_count(cuckoo_generation(from, 0), ENTRIES) > into->capacity
               ? TAMIS_EFULL
               : TAMIS_OK;
  }
  unsigned n = cuckoo_generations(into), of_from = cuckoo_generations(from);
  plan->newest = cuckoo_generation(into, n - 1);
  for (unsigned j = 0; j < n; j++)
    plan->before[j] = (double) cuckoo_count(cuckoo_generation(into, j), ENTRIES);
  for (unsigned i = 0; i < of_from; i++)
    if (!plan_generation(plan, from, i))
      return TAMIS_EUNSUPPORTED;
  struct growth_stripes held = growth_lock(into, &into->first, 0, 0);
  int result = tamis__growth_provide(into); /* for the excess and the lock `opening` */
  growth_unlock(held);
  if (result != TAMIS_OK)
    return result;
  lock_take(&cuckoo_growth(into)->opening);
  result = reserve_rate_locked(plan, from);
  lock_release(&cuckoo_growth(into)->opening);
  return result;
}

void tamis__union_settle(const struct union_plan *plan, bool failed)
{
  struct cuckoo *c = plan->into;
  struct cuckoo_growth *growth = cuckoo_growth(c);
  lock_take(&growth->opening);
  double excess = cuckoo_growth_figure(c, excess);
  /* Takes back the reservation.  (plan->former is exact, but a difference may be rounded.) */
  excess = excess == plan->former + plan->excess ? plan->former : excess - plan->excess;
  for (unsigned j = 0; j < cuckoo_generations(c); j++)
    excess += excess_of(cuckoo_generation(c, j), plan->before[j], plan->come[j].entries,
                        plan->come[j].rate);
  atomic_store_explicit(&growth->excess, fmax(excess, 0), memory_order_relaxed);
  unsigned limit = generation_split_limit(plan->newest), former = limit + plan->splits;
  double more = generation_rate(plan->newest, former) - generation_rate(plan->newest, limit);
  if (failed && more <= cuckoo_rate_left(c, cuckoo_generations(c)))
    atomic_store_explicit(&plan->newest->split_limit, (uint8_t) former, memory_order_relaxed);
  lock_release(&growth->opening);
  fullness_count(&c->rooms); /* full marks become invalid: a new generation may now be possible */
}
