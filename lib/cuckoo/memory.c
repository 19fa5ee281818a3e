/* SPDX-License-Identifier: MIT */
#include "cuckoo/memory.h"

struct budget tamis__cuckoo_budget(struct cuckoo *c)
{
  struct cuckoo_growth *growth = cuckoo_has_growth(c);
  return (struct budget){.from = filter_allocator(&c->head),
                         .bytes = &c->bytes,
                         .limit = c->max_bytes,
                         .backlog = growth ? &growth->backlog : NULL};
}

void *tamis__cuckoo_allocate_cleared(struct cuckoo *c, uint64_t size, uint64_t cleared, int *result)
{
  struct budget budget = tamis__cuckoo_budget(c);
  void *block =
      tamis__budget_allocate(&budget, size, cuckoo_block_comes_cleared(c, size) ? 0 : cleared);
  *result = block ? TAMIS_OK : budget.result;
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
