/* SPDX-License-Identifier: MIT
 *
 * Layer 2: where the segments of a large filter that grows have their memory.
 *
 * Segments that come one by one from an allocator lie on small pages, and a look-up in a filter larger
 * than the TLB covers misses it twice.  So they have places in slabs, blocks of somewhat more than a huge
 * page, which memory.c asks the system for as such.  (Not a power of two: the head and 64 segments, so
 * that nothing is left over.)
 *
 *             take                    retire             a grace period
 *    free place ───► segment in use ─────────► in backlog ────────────────► free place, of the same slab
 *
 *    slab: taken when no slab has a free place; given back with the last of its places
 *
 * What it may cost.  While a filter grows, at most one slab has free places: a new one is only taken when
 * there is none.  That is little, as only filters take slabs that have as much memory as MIN_SLABS_GROWN of
 * them.  A first generation that is planned to fill some takes them before, as long as a whole one is
 * within what was promised: all its segments together take exactly that.  Small filters, and small
 * segments, of which only small filters have many, are as they would be without slabs.
 *
 * While a filter shrinks, places fall free here and there, and none of them may be the last of its slab.
 * So places are taken in the oldest slab that has one: old slabs are kept full, by the segments that joins
 * make, and the others drain.  All segments of one depth join at about the same time, as keys spread
 * evenly; when they have, the newer half of the slabs is empty and gone, but for a few.  Until then the
 * filter takes as much as before these joins at most.  (The list of slabs with free places is in the
 * order of age, nearly: that of one that has just got its first free place is looked for from the oldest
 * on, but only so far.  Old ones are full again at once, so the search is short for those that matter.)
 *
 * When memory is short, a segment for which there is no slab has a block to itself, as in small filters.
 * A slab counts as memory of the filter, whatever is in it.  So at the limit of its bytes a filter goes
 * as far as it would without slabs, but for the places that are free in older slabs: which segments
 * take, and nothing else does.
 */
#include "cuckoo/table.h"

#include <string.h>

enum {
  SLAB_SLOTS = 64,
  MIN_SLABS_PLANNED = 4, /* slabs that a first generation must fill to take any */
  MIN_SLABS_GROWN = 32,  /* slabs that a filter must be worth to take more than that */
  MAX_LIST_STEPS = 32    /* to a slab's place in the list */
};

static size_t slab_bytes(size_t slot_bytes)
{
  return sizeof(struct slab) + SLAB_SLOTS * slot_bytes;
}

/* That many slabs are full then; the last segments have blocks to themselves. */
uint64_t tamis__slab_heads(const struct cuckoo_geometry *g)
{
  struct cuckoo_geometry largest = cuckoo_geometry_largest(g);
  bool slabs = g->shape.ages && g->segment_bytes == largest.segment_bytes &&
               cuckoo_roots(g) >= MIN_SLABS_PLANNED * SLAB_SLOTS;
  return slabs ? cuckoo_roots(g) / SLAB_SLOTS * sizeof(struct slab) : 0;
}

void tamis__slabs_init(struct cuckoo *c, const struct cuckoo_geometry *g, uint64_t planned)
{
  stripe_init(&c->slabs.lock);
  stripe_init(&c->slabs.making);
  c->slabs.planned = planned;
  c->slabs.planned_large = tamis__slab_heads(g) > 0;
  struct cuckoo_geometry largest = cuckoo_geometry_largest(g);
  c->slabs.slot_bytes = c->demand.growable ? largest.segment_bytes : 0;
  c->slabs.stripe_mask = largest.stripe_mask;
  c->slabs.large = MIN_SLABS_GROWN * slab_bytes(c->slabs.slot_bytes);
}

/* ---- the open ones; with the lock ---- */

static void open_slab(struct slabs *slabs, struct slab *slab)
{
  struct slab *before = NULL, *next = slabs->open;
  for (unsigned i = 0; i < MAX_LIST_STEPS && next && next->number < slab->number; i++) {
    before = next;
    next = next->next;
  }
  slab->before = before;
  slab->next = next;
  if (next)
    next->before = slab;
  if (before)
    before->next = slab;
  else
    slabs->open = slab;
}

static void close_slab(struct slabs *slabs, const struct slab *slab)
{
  if (slab->before)
    slab->before->next = slab->next;
  else
    slabs->open = slab->next;
  if (slab->next)
    slab->next->before = slab->before;
}

/* A place, and whether it is as the allocator gave it.  NULL: there is none. */
static struct segment *take_locked(struct slabs *slabs, struct slab **from, bool *clean)
{
  struct slab *slab = *from = slabs->open;
  if (!slab)
    return NULL;
  struct retired *place = slab->free;
  *clean = !place;
  if (place)
    slab->free = place->next;
  else
    place = (struct retired *) ((char *) (slab + 1) + slab->touched++ * slabs->slot_bytes);
  if (++slab->used == SLAB_SLOTS)
    close_slab(slabs, slab);
  return (struct segment *) place;
}

/* ---- places ---- */

/* A place in a slab that is open, or in `fresh`, which becomes one if no other is. */
static struct segment *take_slot(struct cuckoo *c, struct slab *fresh)
{
  struct slabs *slabs = &c->slabs;
  struct slab *slab;
  bool clean = true;
  stripe_lock(&slabs->lock);
  if (fresh && !slabs->open) {
    fresh->number = slabs->taken++;
    open_slab(slabs, fresh);
    fresh = NULL;
  }
  struct segment *segment = take_locked(slabs, &slab, &clean);
  stripe_unlock(&slabs->lock);
  tamis__cuckoo_release(c, fresh, slab_bytes(slabs->slot_bytes)); /* another thread was faster */
  if (!clean)
    memset((void *) segment, 0, slabs->slot_bytes);
  if (segment)
    segment->slab = slab;
  return segment;
}

static void release_slot(struct cuckoo *c, struct segment *segment)
{
  struct slabs *slabs = &c->slabs;
  struct slab *slab = segment->slab;
  stripe_lock(&slabs->lock);
  segment->retired.next = slab->free;
  slab->free = &segment->retired;
  if (slab->used == SLAB_SLOTS)
    open_slab(slabs, slab);
  bool empty = --slab->used == 0;
  if (empty)
    close_slab(slabs, slab);
  stripe_unlock(&slabs->lock);
  if (empty)
    tamis__cuckoo_release(c, slab, slab_bytes(slabs->slot_bytes));
}

static bool is_worth_a_slab(const struct cuckoo *c)
{
  uint64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed); /* a figure */
  if (bytes >= c->slabs.planned)
    return bytes >= c->slabs.large;
  return c->slabs.planned_large && bytes + slab_bytes(c->slabs.slot_bytes) <= c->slabs.planned;
}

/* A place, after waiting for who takes a slab just now: its bytes count before its places are there, so
 * whoever finds no bytes left must not be refused before.  If there is none, from a new slab. */
static struct segment *take_in_new_slab(struct cuckoo *c, bool may_take)
{
  int result;
  stripe_lock(&c->slabs.making);
  struct segment *segment = take_slot(c, NULL); /* somebody else was faster */
  if (!segment && may_take && is_worth_a_slab(c)) {
    struct slab *slab = tamis__cuckoo_allocate(c, slab_bytes(c->slabs.slot_bytes), &result);
    segment = slab ? take_slot(c, slab) : NULL;
  }
  stripe_unlock(&c->slabs.making);
  return segment;
}

struct segment *tamis__segment_memory_allocate(struct cuckoo *c, const struct cuckoo_geometry *g, int *result)
{
  bool fits = g->segment_bytes == c->slabs.slot_bytes && g->stripe_mask == c->slabs.stripe_mask;
  struct segment *segment = fits ? take_slot(c, NULL) : NULL;
  if (!segment && fits && is_worth_a_slab(c))
    segment = take_in_new_slab(c, true);
  if (!segment)
    segment = tamis__cuckoo_allocate(c, g->segment_bytes, result);
  /* In backlog, which has been asked, places may have waited; or some are on their way. */
  if (!segment && fits)
    segment = take_in_new_slab(c, false);
  if (segment)
    *result = TAMIS_OK;
  return segment;
}

void tamis__segment_memory_release(struct cuckoo *c, struct segment *segment, size_t size)
{
  if (segment->slab)
    release_slot(c, segment);
  else
    tamis__cuckoo_release(c, segment, size);
}
