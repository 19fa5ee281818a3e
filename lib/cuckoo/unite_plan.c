/* SPDX-License-Identifier: MIT
 *
 * Layer 2: whether a union can be, before anything is changed.
 *
 * The rate.  Whatever its place, an entry that knows S bits after root0 makes an absent key seem
 * present with a probability of 2^-S / first roots.  So a filter keeps its rate if the sum over its
 * entries does.  A generation is planned for keys that come one by one: the more there are, the
 * more its segments have split, and the more bits a new entry knows.  The first n of them have at
 * most a certain rate, its *share* (share_of()).  Two filters of n keys each may have twice the
 * share of n keys, which is more than that of 2n.  What the entries of a union exceed their share
 * by is added to the *excess* of `into`.  The rates that generations are planned for, and the
 * excess, never exceed the promised rate:
 *
 *    Before it begins, the union sums up the rate of the entries of `from`.  The excess must fit
 *    into half of what the generations leave.  If it does not, the newest generation may have to do
 *    with fewer splits than planned, each of which would add to its rate.  If that does not
 *    suffice, the union is refused: two filters that have used up their rates have no union that
 *    keeps it.  In the end, the excess is corrected to that of the entries that have come.
 *
 * Room.  Entries that know too little for newer generations need room in the older ones: how many
 * there are is counted for each number of known bits.  The union
 * is refused before it begins if these have too little of it at their limit.  (A filter whose first
 * generation is full, and another one like it, have no union: their entries know what tells them
 * apart in the first generation, and not more.)
 *
 * Copies.  Adds bring them one by one, but two filters that are united with each other in turn have
 * more than all files and counts have room for after some eighty unions.  So those end far below.
 */
#include "cuckoo/unite_plan.h"

#include "base/reals.h"
#include "cuckoo/pair.h"
#include "table/image.h"

#include <math.h>

/* How many entries know so many bits after root0.  (An index has 64 at most but for the cell's, and
 * an entry 31.) */
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

/* The segments may split and join meanwhile: this is an estimate. */
static void survey_generation(const struct cuckoo *c, const struct generation *generation,
                              struct census *census)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  *census = (struct census){{0}};
  for (uint64_t index = 0; index < cuckoo_directory_size(g);) {
    reader_token token = cuckoo_enter(c);
    directory_value value = directory_at(generation, index);
    if (directory_segment(value))
      survey_segment(generation_geometry(generation, directory_depth(value)),
                     directory_segment(value), census);
    struct directory_range range = directory_range_of(g, index, directory_depth(value));
    index = range.first + range.count;
    cuckoo_leave(c, token);
  }
}

static uint64_t segments_of(const struct generation *generation)
{
  return atomic_load_explicit(&generation->segments, memory_order_relaxed); /* a figure */
}

static bool has_all_roots(const struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  for (uint64_t root = 0; root < cuckoo_roots(g); root++)
    if (!directory_load(&generation->directory[root]))
      return false;
  return true;
}

/* How many entries a generation of so many splits has room for.  Segments get different numbers of
 * keys, so some are full before others: as for the first segments (growing_roots() in geometry.c),
 * there is room for five deviations.  After the uneven split, those of the larger class are. */
static double room_at(const struct cuckoo_geometry *before, unsigned depth)
{
  const double larger_class = 2 - 0x1.6a09e667f3bcdp0; /* its share: 2 less the square root of 2 */
  const struct cuckoo_geometry after = cuckoo_geometry_after(before);
  const bool uneven = depth > before->uneven_at;
  const struct cuckoo_geometry *g = uneven ? &after : before;
  double lanes = (double) cuckoo_lanes(g), full = cuckoo_geometry_full_load(g) * lanes;
  double deviation = cuckoo_geometry_full_deviation(g) * lanes, half = full + 12.5;
  double mean = half - sqrt(half * half - full * full + 25 * deviation * deviation);
  double room = ldexp(fmax(mean, lanes / 4) * (double) cuckoo_roots(g), (int) depth);
  return uneven ? room / 2 / larger_class : room;
}

/* How many more entries of a geometry a generation of `into` has room for, besides `taken` ones
 * that are planned for it. */
static double room_left(const struct cuckoo *into, unsigned n, unsigned j, double taken,
                        const struct cuckoo_geometry *source)
{
  const struct generation *generation = cuckoo_generation(into, j);
  const struct cuckoo_geometry *g = &generation->geometry;
  double entries = (double) cuckoo_count(generation, ENTRIES) + taken;
  if (j + 1 < n && !has_all_roots(generation))
    return 0;
  if (entries == 0 && cuckoo_same_geometry(g, source)) /* it becomes a copy */
    return INFINITY;
  return fmax(room_at(g, generation_split_limit(generation)) - entries, 0);
}

/* How often the segments of a generation have split that has room for so many keys. */
static unsigned depth_for(const struct generation *generation, double keys)
{
  unsigned depth = 0, limit = generation_split_limit(generation);
  while (depth < limit && room_at(&generation->geometry, depth) < keys)
    depth++;
  return depth;
}

/* The rate that a generation of so many keys may have, in which segments have split as they
 * came. */
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

/* By what more entries of that rate exceed their share. */
static double excess_of(const struct generation *generation, double keys, double more, double rate)
{
  return fmax(rate - (share_of(generation, keys + more) - share_of(generation, keys)), 0);
}

/* How deep the segments of a generation are, rounded up. */
static unsigned depth_now(const struct generation *generation)
{
  double segments = (double) segments_of(generation);
  return (unsigned) ceil(
      real_log2(fmax(segments / (double) cuckoo_roots(&generation->geometry), 1)));
}

/* How deep they are with more entries. */
static unsigned depth_with(const struct generation *generation, double more)
{
  double entries = (double) cuckoo_count(generation, ENTRIES) + more;
  unsigned now = depth_now(generation), depth = depth_for(generation, entries);
  return depth > now ? depth : now;
}

/* Plans for entries of one generation that go to generation j of `into`. */
static void take(const struct cuckoo *into, unsigned n, unsigned j, const struct generation *source,
                 struct survey taken, struct union_plan *plan)
{
  const struct generation *generation = cuckoo_generation(into, j);
  unsigned limit = generation_split_limit(generation);
  unsigned depth = depth_with(generation, plan->taken[j] + taken.entries);
  if (cuckoo_same_geometry(&generation->geometry, &source->geometry) && depth < depth_now(source))
    depth = depth_now(source) < limit ? depth_now(source) : limit;
  if (j + 1 == n && depth > plan->deepest)
    plan->deepest = depth;
  plan->excess +=
      excess_of(generation, plan->before[j] + plan->taken[j], taken.entries, taken.rate);
  plan->taken[j] += taken.entries;
}

/* Plans for the entries of one generation.  False: there is no place for them. */
static bool plan_generation(const struct cuckoo *into, unsigned n, const struct cuckoo *from,
                            unsigned i, struct union_plan *plan)
{
  const struct cuckoo_geometry *g = &cuckoo_generation(from, i)->geometry;
  struct survey taken[CUCKOO_MAX_GENERATIONS] = {{0, 0}};
  double room[CUCKOO_MAX_GENERATIONS], left = 0;
  struct census census;
  survey_generation(from, cuckoo_generation(from, i), &census);
  for (unsigned j = 0; j < n; j++)
    room[j] = room_left(into, n, j, plan->taken[j], g);
  for (unsigned bits = 0; bits < MAX_KNOWN_BITS; bits++) {
    double rest = (double) census.entries[bits];
    for (unsigned j = n; j-- > 0 && rest > 0;)
      if (cuckoo_can_take(&cuckoo_generation(into, j)->geometry, g, bits)) {
        double come = fmin(room[j] - taken[j].entries, rest);
        taken[j].entries += come;
        taken[j].rate += come * cuckoo_entry_rate(g, bits);
        rest -= come;
      }
    left += rest;
  }
  for (unsigned j = n; j-- > 0;)
    if (taken[j].entries > 0)
      take(into, n, j, cuckoo_generation(from, i), taken[j], plan);
  if (left <= 0)
    return true;
  plan->rate += g->rate; /* a generation like this one is opened */
  return i >= n;
}

/* Makes the filter keep its promise with the planned excess.  The caller holds the opening
 * stripe. */
static int reserve_rate_locked(struct cuckoo *into, struct union_plan *plan)
{
  struct generation *newest = plan->newest;
  unsigned n = newest->number + 1U;
  unsigned limit = generation_split_limit(newest), lower = limit;
  double most = (cuckoo_rate_left(into, n) - plan->rate) / 2, full = generation_rate(newest, limit);
  if (plan->rate > 0 && most < 0)
    return TAMIS_EUNSUPPORTED;
  while (lower > plan->deepest && plan->excess - full + generation_rate(newest, lower) > most)
    lower--;
  if (plan->excess > 0 && plan->excess - full + generation_rate(newest, lower) > most)
    return TAMIS_EUNSUPPORTED;
  if (plan->excess > 0)
    plan->splits = limit - lower;
  atomic_store_explicit(&newest->split_limit, (uint8_t) (limit - plan->splits),
                        memory_order_relaxed);
  plan->former = cuckoo_excess(into);
  plan->reserved = plan->former + plan->excess;
  atomic_store_explicit(&cuckoo_growth(into)->excess, plan->reserved, memory_order_relaxed);
  return TAMIS_OK;
}

/* Copies that are counted, and entries. */
static uint64_t copies_in(const struct cuckoo *c)
{
  uint64_t copies = 0;
  for (unsigned i = 0; i < cuckoo_generations(c); i++)
    copies += cuckoo_count(cuckoo_generation(c, i), ENTRIES) +
              cuckoo_count(cuckoo_generation(c, i), DUPLICATES);
  return copies;
}

int tamis__union_plan(const struct cuckoo *into, const struct cuckoo *from, struct union_plan *plan)
{
  *plan = (struct union_plan){0};
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
    if (!plan_generation(into, n, from, i, plan))
      return TAMIS_EUNSUPPORTED;
  return TAMIS_OK;
}

int tamis__union_reserve(struct cuckoo *into, struct union_plan *plan)
{
  struct lock *opening = &cuckoo_growth(into)->opening;
  lock_take(opening);
  int result = reserve_rate_locked(into, plan);
  lock_release(opening);
  return result;
}

/* Other unions take splits, and give them back, one by one as well, so the order does not
 * matter.  The caller holds the opening stripe. */
static void give_splits_back_locked(struct cuckoo *c, const struct union_plan *plan)
{
  unsigned limit = generation_split_limit(plan->newest);
  double left = cuckoo_rate_left(c, cuckoo_generations(c));
  for (unsigned i = 0; i < plan->splits; i++) {
    left -= generation_rate(plan->newest, limit + 1) - generation_rate(plan->newest, limit);
    if (left < 0)
      break;
    limit++;
  }
  atomic_store_explicit(&plan->newest->split_limit, (uint8_t) limit, memory_order_relaxed);
}

void tamis__union_settle(struct cuckoo *c, const struct union_plan *plan, const struct survey *come,
                         bool failed)
{
  struct cuckoo_growth *growth = cuckoo_growth(c);
  lock_take(&growth->opening);
  double excess = cuckoo_excess(c);
  /* If no other union has changed it, what it was before is exact, and a difference is not. */
  excess = excess == plan->reserved ? plan->former : excess - plan->excess;
  for (unsigned j = 0; j < cuckoo_generations(c); j++)
    excess += excess_of(cuckoo_generation(c, j), plan->before[j], come[j].entries, come[j].rate);
  atomic_store_explicit(&growth->excess, fmax(excess, 0), memory_order_relaxed);
  if (failed)
    give_splits_back_locked(c, plan);
  lock_release(&growth->opening);
  fullness_count(&c->rooms); /* there may be rate for another generation */
}
