/* SPDX-License-Identifier: MIT
 *
 * Layer 2: where the segments of a large filter that grows have their memory.
 *
 * Segments that an allocator hands out one by one lie on small pages, and a look-up in a filter
 * that is larger than the TLB covers then misses it twice.  So such segments have slots in slabs.
 * A slab is a block of somewhat more than a huge page (a head and as many segments of one
 * generation as fill it), for which base/memory.c asks the system for huge pages.
 *
 *               allocate               retire                a grace period
 *    free slot ─────────► segment in use ─────► in the backlog ────────────► free slot of the same
 *    slab
 *
 *    slab: allocated when no slab has a free slot; released together with the last of its slots
 *
 * Memory while a filter grows: at most one slab has free slots, because another one is only
 * allocated when none has.  One slab is a small part of the filter, because only a filter that
 * takes as much memory as MIN_SLABS_GROWN slabs allocates any.  A first generation that is planned
 * to fill at least MIN_SLABS_PLANNED slabs allocates them earlier, as long as a whole slab fits
 * within the plan: all its segments together then take exactly what was promised.  Small filters
 * take no slabs; nor do generations with fewer segments than a slab has slots.
 *
 * Memory while a filter shrinks: slots become free in all slabs, and a slab goes only with its last
 * one.  So slots are taken from the oldest slab that has a free one.  The segments that joins
 * create fill the old slabs up, and the newer ones drain.  Keys spread evenly, so all segments of
 * one depth join at about the same time; when they have, the newer half of the slabs is gone but
 * for a few.  Until then the filter takes at most as much as before these joins.  The list of slabs
 * with free slots is nearly in the order of age: the position of a slab that has just got its first
 * free slot is searched from the oldest one on, but only MAX_LIST_STEPS far.  Old slabs fill up
 * again at once, so the search is short for those that matter.
 *
 * Memory at a limit: a segment for which no slab can be allocated gets a block of its own, as in a
 * small filter.  A slab counts as memory of the filter whatever is in it.  So a filter at its limit
 * holds as many segments as without slabs, less the free slots, which only segments can use.
 */
#include "cuckoo/slabs.h"

#include "cuckoo/directory.h"
#include "cuckoo/memory.h"

#include <string.h>

enum {
  SLAB_BYTES = SMALL(2 << 20, 2048), /* at least: a huge page */
  MIN_SLABS_PLANNED = 4,             /* a first generation that fills fewer slabs takes none */
  MIN_SLABS_GROWN =
      SMALL(32, 2), /* a filter that takes less memory than these allocates no further slabs */
  MAX_LIST_STEPS = SMALL(32, 2)
};

static unsigned slots_of(const struct cuckoo_geometry *g)
{
  return (unsigned) ((SLAB_BYTES + cuckoo_segment_bytes(g) - 1) / cuckoo_segment_bytes(g));
}

static uint64_t slab_bytes(const struct slabs *slabs)
{
  return sizeof(struct slab) + slabs->slots * slabs->slot_bytes;
}

/* The slabs that are full then.  The last segments have blocks of their own. */
uint64_t tamis__slab_heads(const struct cuckoo_geometry *g)
{
  struct cuckoo_geometry largest = cuckoo_geometry_largest(g);
  bool slabs = g->shape.ages && cuckoo_segment_bytes(g) == cuckoo_segment_bytes(&largest) &&
               cuckoo_roots(g) >= MIN_SLABS_PLANNED * (uint64_t) slots_of(g);
  return slabs ? cuckoo_roots(g) / slots_of(g) * sizeof(struct slab) : 0;
}

void tamis__slabs_init(struct slabs *slabs, const struct cuckoo_geometry *g)
{
  lock_init(&slabs->lock);
  lock_init(&slabs->allocating);
  slabs->slot_bytes = cuckoo_segment_bytes(g);
  slabs->slots = g->shape.ages ? slots_of(g) : 0;
  slabs->stripe_mask = g->stripe_mask;
  slabs->large = MIN_SLABS_GROWN * slab_bytes(slabs);
}

void tamis__slabs_plan(struct generation *first, uint64_t planned)
{
  struct slabs *slabs = generation_slabs(first);
  if (!slabs)
    return;
  slabs->planned = planned;
  slabs->planned_large = tamis__slab_heads(&first->geometry) > 0;
}

void tamis__slabs_destroy(struct slabs *slabs)
{
  if (!slabs)
    return;
  lock_destroy(&slabs->lock);
  lock_destroy(&slabs->allocating);
}

/* ---- the list of slabs with a free slot ---- */

/* The caller holds `lock`; so with the next two. */
static void open_slab_locked(struct slabs *slabs, struct slab *slab)
{
  struct slab *previous = NULL, *next = slabs->open;
  for (unsigned i = 0; i < MAX_LIST_STEPS && next && next->number < slab->number; i++) {
    previous = next;
    next = next->next;
  }
  slab->previous = previous;
  slab->next = next;
  if (next)
    next->previous = slab;
  if (previous)
    previous->next = slab;
  else
    slabs->open = slab;
}

static void close_slab_locked(struct slabs *slabs, const struct slab *slab)
{
  if (slab->previous)
    slab->previous->next = slab->next;
  else
    slabs->open = slab->next;
  if (slab->next)
    slab->next->previous = slab->previous;
}

/* A slot, its slab, and whether it is still as it was allocated.  NULL: there is none. */
static struct segment *take_slot_locked(struct slabs *slabs, struct slab **from, bool *fresh)
{
  struct slab *slab = *from = slabs->open;
  if (!slab)
    return NULL;
  struct retired *slot = slab->free;
  *fresh = !slot;
  if (slot)
    slab->free = slot->next;
  else
    slot = (struct retired *) ((char *) (slab + 1) + slab->touched++ * slabs->slot_bytes);
  if (++slab->used == slabs->slots)
    close_slab_locked(slabs, slab);
  return (struct segment *) slot;
}

/* ---- slots ---- */

/* Whether a new slab is clear as it is: from the system, which clears pages when they are touched,
 * or from an allocator that does so.  In one from another allocator each slot is cleared when it is
 * taken, as that would be too much for one call. */
static bool slabs_are_clear(const struct cuckoo *c, const struct slabs *slabs)
{
  return !filter_allocator(&c->head)->allocate || cuckoo_block_comes_cleared(c, slab_bytes(slabs));
}

/* Takes a slot of a slab in the list.  If the list is empty, `new` (unless NULL) becomes its first
 * slab; otherwise it is released, as another thread has been faster. */
static struct segment *take_slot(struct cuckoo *c, struct slabs *slabs, struct slab *new,
                                 uint64_t cleared)
{
  struct slab *slab;
  bool fresh = false;
  lock_take(&slabs->lock);
  if (new && !slabs->open) {
    new->of = slabs;
    new->number = slabs->allocated++;
    open_slab_locked(slabs, new);
    new = NULL;
  }
  struct segment *segment = take_slot_locked(slabs, &slab, &fresh);
  lock_release(&slabs->lock);
  tamis__cuckoo_release(c, new, slab_bytes(slabs));
  if (segment && !(fresh && slabs_are_clear(c, slabs)))
    memset((void *) segment, 0, (size_t) cleared);
  if (segment)
    segment->slab = slab;
  return segment;
}

static void release_slot(struct cuckoo *c, struct segment *segment)
{
  struct slab *slab = segment->slab;
  struct slabs *slabs = slab->of;
  lock_take(&slabs->lock);
  segment->retired.next = slab->free;
  slab->free = &segment->retired;
  if (slab->used == slabs->slots)
    open_slab_locked(slabs, slab);
  bool empty = --slab->used == 0;
  if (empty)
    close_slab_locked(slabs, slab);
  lock_release(&slabs->lock);
  if (empty)
    tamis__cuckoo_release(c, slab, slab_bytes(slabs));
}

/* (Of an older generation that has become small, a slab would be mostly free.) */
static bool may_allocate_slab(const struct cuckoo *c, const struct generation *generation)
{
  const struct slabs *slabs = generation_slabs(generation);
  uint64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed); /* a figure */
  uint64_t segments = atomic_load_explicit(&generation->segments, memory_order_relaxed); /* too */
  if (bytes >= slabs->planned)
    return bytes >= slabs->large && segments >= slabs->slots;
  return slabs->planned_large && bytes + slab_bytes(slabs) <= slabs->planned;
}

/* A slot, of a new slab if `may_allocate` and no other slab has one.  It waits for a thread that is
 * just allocating a slab: that slab's bytes are counted before its slots are in the list, so a
 * thread that finds no bytes left must not be refused before that. */
static struct segment *take_slot_in_turn(struct cuckoo *c, struct generation *generation,
                                         uint64_t cleared, bool may_allocate)
{
  int result;
  struct slabs *slabs = generation_slabs(generation);
  lock_take(&slabs->allocating);
  struct segment *segment = take_slot(c, slabs, NULL, cleared);
  if (!segment && may_allocate && may_allocate_slab(c, generation)) {
    uint64_t size = slab_bytes(slabs);
    uint64_t cleared_first = slabs_are_clear(c, slabs) ? size : sizeof(struct slab);
    struct slab *slab = tamis__cuckoo_allocate_cleared(c, size, cleared_first, &result);
    segment = slab ? take_slot(c, slabs, slab, cleared) : NULL;
  }
  lock_release(&slabs->allocating);
  return segment;
}

/* ---- segments ---- */

static struct segment *allocate_with_slabs(struct cuckoo *c, struct generation *generation,
                                           uint64_t cleared, int *result)
{
  struct slabs *slabs = generation_slabs(generation);
  struct segment *segment = take_slot(c, slabs, NULL, cleared);
  if (!segment && may_allocate_slab(c, generation))
    segment = take_slot_in_turn(c, generation, cleared, true);
  if (!segment)
    segment = tamis__cuckoo_allocate_cleared(c, slabs->slot_bytes, cleared, result);
  /* That has drained the backlog, which may have freed slots; and another thread may be adding a
   * slab. */
  if (!segment)
    segment = take_slot_in_turn(c, generation, cleared, false);
  return segment;
}

/* The home of a small filter.  It is clear, and only the first segment finds the generation without
 * any.  (Relaxed: the filter is not shared yet, or the growth stripe is held.) */
static struct segment *take_home(const struct cuckoo *c, const struct generation *generation)
{
  bool first = generation == &c->first &&
               atomic_load_explicit(&c->first.segments, memory_order_relaxed) == 0;
  return first ? cuckoo_home(c) : NULL;
}

struct segment *tamis__segment_memory_allocate(struct cuckoo *c, struct generation *generation,
                                               uint64_t cleared, int *result)
{
  struct segment *segment = take_home(c, generation);
  if (!segment && generation->has_slabs)
    segment = allocate_with_slabs(c, generation, cleared, result);
  else if (!segment)
    segment = tamis__cuckoo_allocate_cleared(c, cuckoo_segment_bytes(&generation->geometry),
                                             cleared, result);
  if (segment)
    *result = TAMIS_OK;
  return segment;
}

void tamis__segment_memory_release(struct cuckoo *c, struct segment *segment, uint64_t size)
{
  if (segment->slab)
    release_slot(c, segment);
  else if (segment != cuckoo_home(c))
    tamis__cuckoo_release(c, segment, size);
}
