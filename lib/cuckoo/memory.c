/* SPDX-License-Identifier: MIT */
#include "cuckoo/memory.h"

#include "base/memory.h"

bool tamis__cuckoo_fits(const struct cuckoo *c, uint64_t size)
{
  uint64_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed);
  return !c->max_bytes || (size <= c->max_bytes && bytes <= c->max_bytes - size);
}

static void *try_allocate(struct cuckoo *c, uint64_t size, uint64_t cleared, int *result)
{
  *result = TAMIS_EFULL;
  if (!tamis__memory_count(&c->bytes, c->max_bytes, size))
    return NULL;
  if (cuckoo_block_comes_cleared(c, size))
    cleared = 0;
  void *block = tamis__memory_allocate_cleared(filter_allocator(&c->head), size, cleared);
  *result = block ? TAMIS_OK : TAMIS_ENOMEM;
  if (!block)
    atomic_fetch_sub_explicit(&c->bytes, size, memory_order_relaxed);
  return block;
}

static bool release_retired(struct cuckoo *c)
{
  struct cuckoo_growth *growth = cuckoo_has_growth(c);
  return growth && tamis__backlog_drain(&growth->backlog, true);
}

bool tamis__cuckoo_makes_room(struct cuckoo *c, uint64_t size)
{
  return tamis__cuckoo_fits(c, size) || (release_retired(c) && tamis__cuckoo_fits(c, size));
}

void *tamis__cuckoo_allocate_cleared(struct cuckoo *c, uint64_t size, uint64_t cleared, int *result)
{
  void *block = try_allocate(c, size, cleared, result);
  if (!block && release_retired(c))
    block = try_allocate(c, size, cleared, result);
  return block;
}

void *tamis__cuckoo_allocate(struct cuckoo *c, uint64_t size, int *result)
{
  return tamis__cuckoo_allocate_cleared(c, size, size, result);
}

void tamis__cuckoo_release(struct cuckoo *c, void *block, uint64_t size)
{
  if (!block)
    return;
  tamis__memory_release(filter_allocator(&c->head), block, size);
  atomic_fetch_sub_explicit(&c->bytes, size, memory_order_relaxed);
}
