/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the memory of a cuckoo filter, and blocks made ready for a split.
 *
 * The first access to a page of new memory takes as long as ten adds.  A split needs several new
 * pages, and would take twice as long for them.  So the blocks for its two segments are allocated
 * before, and adds that must evict an entry, of which there are many between two splits, touch a
 * page each:
 *
 *    tamis__ready_prepare()   allocates a block, or touches a page of one; one thread at a time
 *    tamis__ready_take()      takes one, whether it is completely touched or not
 *
 * The blocks count as memory of the filter.  They are not to be the reason for a refusal: they are
 * made ready only while max_bytes leaves room for several segments, and are released when memory is
 * refused.
 */
#include "cuckoo/memory.h"

#include "base/memory.h"

#include <string.h>

bool tamis__cuckoo_fits(const struct cuckoo *c, size_t size)
{
  uint64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed);
  return !c->max_bytes || (size <= c->max_bytes && bytes <= c->max_bytes - size);
}

/* Relaxed: the sum only limits itself, and no other data hangs on it. */
static bool count_bytes(struct cuckoo *c, size_t size)
{
  uint64_t limit = c->max_bytes ? c->max_bytes : UINT64_MAX;
  uint64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed);
  do {
    if (size > limit || bytes > limit - size)
      return false;
  } while (!atomic_compare_exchange_weak_explicit(&c->bytes, &bytes, bytes + size,
                                                  memory_order_relaxed, memory_order_relaxed));
  return true;
}

static void *try_allocate(struct cuckoo *c, size_t size, size_t cleared, int *result)
{
  *result = TAMIS_EFULL;
  if (!count_bytes(c, size))
    return NULL;
  if (cuckoo_block_comes_cleared(c, size))
    cleared = 0;
  void *block = tamis__memory_allocate_cleared(filter_allocator(&c->head), size, cleared);
  *result = block ? TAMIS_OK : TAMIS_ENOMEM;
  if (!block)
    atomic_fetch_sub_explicit(&c->bytes, size, memory_order_relaxed);
  return block;
}

/* Releases what has been kept for later.  Whether there was something. */
static bool release_kept(struct cuckoo *c)
{
  struct cuckoo_growth *growth = cuckoo_has_growth(c);
  bool released = growth && tamis__ready_release(c);
  return growth && (tamis__backlog_hurry(&growth->backlog) || released);
}

bool tamis__cuckoo_makes_room(struct cuckoo *c, size_t size)
{
  return tamis__cuckoo_fits(c, size) || (release_kept(c) && tamis__cuckoo_fits(c, size));
}

void *tamis__cuckoo_allocate_cleared(struct cuckoo *c, size_t size, size_t cleared, int *result)
{
  void *block = try_allocate(c, size, cleared, result);
  if (!block && release_kept(c))
    block = try_allocate(c, size, cleared, result);
  return block;
}

void *tamis__cuckoo_allocate(struct cuckoo *c, size_t size, int *result)
{
  return tamis__cuckoo_allocate_cleared(c, size, size, result);
}

void tamis__cuckoo_release(struct cuckoo *c, void *block, size_t size)
{
  if (!block)
    return;
  tamis__memory_release(filter_allocator(&c->head), block, size);
  atomic_fetch_sub_explicit(&c->bytes, size, memory_order_relaxed);
}

/* ---- blocks made ready for segments ---- */

void tamis__ready_init(struct ready *ready)
{
  stripe_init(&ready->lock);
}

static void set_complete(struct ready *ready, bool complete)
{
  atomic_store_explicit(&ready->complete, complete, memory_order_relaxed); /* a hint */
}

static void release_block(struct cuckoo *c, struct ready_block block)
{
  tamis__cuckoo_release(c, block.memory, block.size);
}

static bool is_touched(const struct ready_block *block, size_t size)
{
  return block->memory && block->size == size && block->touched == size;
}

/* Takes out a block that is not as it should be: perhaps there is none, or it is of another size.
 * False: there is nothing to do, or another thread does it. */
static bool begin_work(struct ready *ready, size_t size, struct ready_block *block)
{
  stripe_lock(&ready->lock);
  unsigned i = 0;
  while (i < READY_BLOCKS && is_touched(&ready->block[i], size))
    i++;
  bool work = i < READY_BLOCKS && !ready->busy;
  if (work) {
    *block = ready->block[i];
    ready->block[i].memory = NULL;
    ready->busy = true;
  }
  set_complete(ready, i == READY_BLOCKS);
  stripe_unlock(&ready->lock);
  return work;
}

/* Only the thread that has taken a block out adds one, so there is a place for it. */
static void end_work(struct ready *ready, struct ready_block block)
{
  stripe_lock(&ready->lock);
  unsigned i = 0;
  while (ready->block[i].memory)
    i++;
  ready->block[i] = block;
  ready->busy = false;
  stripe_unlock(&ready->lock);
}

/* Allocates a block, or touches the next page of one. */
static void work(struct cuckoo *c, size_t size, struct ready_block *block)
{
  int result;
  if (block->memory && block->size != size) { /* the newest generation has other segments */
    release_block(c, *block);
    block->memory = NULL;
  } else if (!block->memory) {
    *block = (struct ready_block){try_allocate(c, size, 0, &result), size, 0};
  } else {
    *(volatile char *) (block->memory + block->touched) = 0;
    size_t rest = size - block->touched - 1; /* the last byte may have a page of its own */
    block->touched += rest > SMALL_PAGE ? SMALL_PAGE : rest > 0 ? rest : 1;
  }
}

void tamis__ready_prepare(struct cuckoo *c, size_t size)
{
  struct ready *ready = &cuckoo_growth(c)->ready;
  struct ready_block block;
  if (atomic_load_explicit(&ready->complete, memory_order_relaxed) ||
      !begin_work(ready, size, &block))
    return;
  work(c, size, &block);
  end_work(ready, block);
}

void *tamis__ready_take(struct cuckoo *c, size_t size, size_t cleared)
{
  struct cuckoo_growth *growth = cuckoo_has_growth(c);
  if (!growth)
    return NULL;
  struct ready *ready = &growth->ready;
  char *memory = NULL;
  stripe_lock(&ready->lock);
  for (unsigned i = 0; i < READY_BLOCKS && !memory; i++)
    if (ready->block[i].size == size) {
      memory = ready->block[i].memory;
      ready->block[i].memory = NULL;
    }
  set_complete(ready, false);
  stripe_unlock(&ready->lock);
  if (memory)
    memset(memory, 0, cleared);
  return memory;
}

static bool release_blocks(struct cuckoo *c, struct ready *ready)
{
  struct ready_block all[READY_BLOCKS];
  bool any = false;
  stripe_lock(&ready->lock);
  for (unsigned i = 0; i < READY_BLOCKS; i++) {
    all[i] = ready->block[i];
    ready->block[i].memory = NULL;
  }
  set_complete(ready, false);
  stripe_unlock(&ready->lock);
  for (unsigned i = 0; i < READY_BLOCKS; i++) {
    any |= all[i].memory != NULL;
    release_block(c, all[i]);
  }
  return any;
}

bool tamis__ready_release(struct cuckoo *c)
{
  struct cuckoo_growth *growth = cuckoo_has_growth(c);
  return growth && release_blocks(c, &growth->ready);
}

void tamis__ready_destroy(struct cuckoo *c, struct ready *ready)
{
  release_blocks(c, ready);
  stripe_destroy(&ready->lock);
}
