/* SPDX-License-Identifier: MIT
 *
 * Layer 2: slabs, which hold the segments of a large growable filter.
 *
 * A slab is a block a little larger than a huge page: a head, and slots for as many segments of one
 * generation as fill a huge page.  base/memory.c asks the system for huge pages for slabs.  (With
 * segments on small pages, a look-up in a large filter has two TLB misses.)
 *
 *               allocate                   retire                  a grace period
 *    free slot ─────────► segment in use ─────────► in the backlog ───────────────► free slot
 *
 *    slab: allocated when no slab has a free slot; released together with the last of its slots
 *
 * While a filter grows, at most one slab has free slots.  A slab is a small part of the filter,
 * because only a filter at least as large as MIN_SLABS_GROWN slabs allocates slabs.  A first
 * generation that is planned to fill at least MIN_SLABS_PLANNED slabs allocates them from the
 * beginning, as far as the planned bytes allow.  So the filter takes exactly the promised bytes.
 *
 * While a filter shrinks, slots become free in all slabs, but a slab is released only when all its
 * slots are free.  So a new segment takes a slot of the oldest slab that has a free one.  As all
 * segments of one depth join at about the same time, nearly all of the newer half of the slabs are
 * then released.  The list of slabs with free slots is only nearly sorted by age: the search for a
 * slab's place in the list ends after MAX_LIST_STEPS steps.
 *
 * If a limit leaves no room for a slab, a segment gets a separate block, as in a small filter.  The
 * filter's bytes include all slots of its slabs.  So a filter at its limit has as many segments as
 * it would have without slabs, less the number of free slots.
 */
#include "cuckoo/memory.h"

#include "cuckoo/directory.h"

#include <string.h>

enum {
  SLAB_BYTES = SMALL(2 << 20, 2048), /* the least size of a slab: a huge page */
  MIN_SLABS_PLANNED = 4,             /* a plan that would fill fewer slabs has no slabs */
  MIN_SLABS_GROWN =
      SMALL(32, 2), /* the least size, in slabs, of a filter that has slabs beyond its plan */
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

/* Counts only full slabs, as the segments that fill no slab have separate blocks. */
uint64_t tamis__slab_heads(const struct cuckoo_geometry *g)
{
  uint64_t slabs = g->shape.ages ? cuckoo_roots(g) / slots_of(g) : 0;
  return slabs >= MIN_SLABS_PLANNED ? slabs * sizeof(struct slab) : 0;
}

void tamis__slabs_init(struct slabs *slabs, const struct cuckoo_geometry *g)
{
  lock_init(&slabs->lock);
  lock_init(&slabs->allocating);
  slabs->slot_bytes = cuckoo_segment_bytes(g);
  slabs->slots = slots_of(g);
  slabs->stripe_mask = g->stripe_mask;
  slabs->large = MIN_SLABS_GROWN * slab_bytes(slabs);
}

void tamis__slabs_destroy(struct slabs *slabs)
{
  if (!slabs)
    return;
  lock_destroy(&slabs->lock);
  lock_destroy(&slabs->allocating);
}

/* ---- the list of slabs with a free slot ---- */

/* The callers of this function and of the next one must hold slabs->lock. */
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

/* ---- slots ---- */

/* Whether the memory of new slabs comes zeroed.  If not, a call zeroes only the slot that it takes:
 * zeroing all slots would take too long for one call. */
static bool slabs_are_clear(const struct cuckoo *c, const struct slabs *slabs)
{
  return !filter_allocator(&c->head)->allocate || cuckoo_block_comes_cleared(c, slab_bytes(slabs));
}

/* Takes a slot of a slab in the list.  `new` may be NULL.  If the list is empty, `new` becomes its
 * first slab.  Otherwise another thread has freed a slot, and `new` is released. */
static struct segment *take_slot(struct cuckoo *c, struct slabs *slabs, struct slab *new)
{
  struct retired *slot = NULL;
  bool fresh = false; /* the slot was never used */
  lock_take(&slabs->lock);
  if (new && !slabs->open) {
    new->of = slabs;
    new->number = slabs->allocated++;
    open_slab_locked(slabs, new);
    new = NULL;
  }
  struct slab *slab = slabs->open;
  if (slab) {
    slot = slab->free;
    fresh = !slot;
    if (slot)
      slab->free = slot->next;
    else
      slot = (struct retired *) ((char *) (slab + 1) + slab->touched++ * slabs->slot_bytes);
    if (++slab->used == slabs->slots)
      close_slab_locked(slabs, slab);
  }
  lock_release(&slabs->lock);
  tamis__cuckoo_release(c, new, slab_bytes(slabs));
  if (!slot)
    return NULL;
  if (!fresh || !slabs_are_clear(c, slabs))
    memset((void *) slot, 0, (size_t) slabs->slot_bytes);
  struct segment *segment = (struct segment *) slot;
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

/* Whether the filter may allocate a slab.  (In a small generation, most slots would stay free.) */
static bool may_allocate_slab(const struct cuckoo *c, const struct generation *generation)
{
  const struct slabs *slabs = generation_slabs(generation);
  uint64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed); /* both are statistics */
  uint64_t segments = atomic_load_explicit(&generation->segments, memory_order_relaxed);
  if (bytes >= slabs->planned)
    return bytes >= slabs->large && segments >= slabs->slots;
  return bytes + slab_bytes(slabs) <= slabs->planned;
}

/* Takes a slot, perhaps of a new slab.  Only one thread at a time does so.  (The bytes of a new
 * slab are counted before its slots are in the list.  Meanwhile, another thread could find neither
 * a slot nor bytes for a slab, and would fail.) */
static struct segment *take_slot_in_turn(struct cuckoo *c, struct generation *generation)
{
  int result;
  struct slabs *slabs = generation_slabs(generation);
  lock_take(&slabs->allocating);
  struct segment *segment = take_slot(c, slabs, NULL);
  if (!segment && may_allocate_slab(c, generation)) {
    uint64_t size = slab_bytes(slabs);
    uint64_t cleared_first = slabs_are_clear(c, slabs) ? size : sizeof(struct slab);
    struct slab *slab = tamis__cuckoo_allocate_cleared(c, size, cleared_first, &result);
    segment = slab ? take_slot(c, slabs, slab) : NULL;
  }
  lock_release(&slabs->allocating);
  return segment;
}

/* ---- segments ---- */

static struct segment *allocate_with_slabs(struct cuckoo *c, struct generation *generation,
                                           int *result)
{
  struct segment *segment = take_slot_in_turn(c, generation);
  if (!segment)
    segment = tamis__cuckoo_allocate(c, generation_slabs(generation)->slot_bytes, result);
  /* Tries again: the failed call may have released slots, or another thread added a slab. */
  return segment ? segment : take_slot_in_turn(c, generation);
}

/* The filter's home, which is zeroed, if the first generation has no segment yet; otherwise NULL.
 * (The load is relaxed: the filter is not shared yet, or a growth stripe is held.) */
static struct segment *take_home(const struct cuckoo *c, const struct generation *generation)
{
  bool first = generation == &c->first &&
               atomic_load_explicit(&c->first.segments, memory_order_relaxed) == 0;
  return first ? cuckoo_home(c) : NULL;
}

struct segment *tamis__segment_memory_allocate(struct cuckoo *c, struct generation *generation,
                                               int *result)
{
  struct segment *segment = take_home(c, generation);
  if (!segment && generation->has_slabs)
    segment = allocate_with_slabs(c, generation, result);
  else if (!segment)
    segment = tamis__cuckoo_allocate(c, cuckoo_segment_bytes(&generation->geometry), result);
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
