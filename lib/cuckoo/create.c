/* SPDX-License-Identifier: MIT */
#include "cuckoo/create.h"

#include "base/memory.h"
#include "base/saved.h"
#include "cuckoo/generation.h"
#include "cuckoo/memory.h"
#include "cuckoo/segment.h"
#include "cuckoo/slabs.h"

uint64_t tamis__cuckoo_total_bytes(const struct cuckoo_geometry *g)
{
  return sizeof(struct cuckoo) + sizeof(struct generation) +
         cuckoo_shards(g) * sizeof(struct counter_shard) +
         cuckoo_directory_size(g) * sizeof(directory_entry) + cuckoo_roots(g) * g->segment_bytes +
         tamis__slab_heads(g);
}

struct cuckoo *tamis__cuckoo_begin(const struct tamis_filter *head, const struct cuckoo_spec *spec,
                                   uint64_t max_bytes)
{
  struct cuckoo *c = tamis__memory_allocate(filter_allocator(head), sizeof *c);
  if (!c)
    return NULL;
  filter_begin(&c->head, head, &c->more, c->secret);
  c->spec = *spec;
  c->max_bytes = max_bytes;
  c->bytes = sizeof *c;
  stripe_init(&c->opening);
  stripe_init(&c->snapshots_lock);
  tamis__ready_init(c);
  if (tamis__backlog_init(&c->backlog, tamis__segment_reclaim, c, &c->bytes))
    return c;
  tamis__cuckoo_destroy(c);
  return NULL;
}

void tamis__cuckoo_append_first(struct cuckoo *c, struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  c->generation[0] = generation;
  tamis__slabs_plan(&generation->slabs, g, tamis__cuckoo_total_bytes(g));
  atomic_store_explicit(&c->generations, 1, memory_order_relaxed); /* not shared yet */
}

void tamis__cuckoo_destroy(struct cuckoo *c)
{
  const tamis_allocator from = *filter_allocator(&c->head);
  tamis__backlog_destroy(&c->backlog);
  for (unsigned i = 0; i < cuckoo_generations(c); i++)
    tamis__generation_destroy(c, c->generation[i]);
  stripe_destroy(&c->opening);
  stripe_destroy(&c->snapshots_lock);
  tamis__ready_destroy(c);
  if (c->mapped)
    tamis__saved_unmap(&c->mapped->file);
  tamis__memory_release(&from, c->mapped, sizeof *c->mapped);
  tamis__memory_release(&from, c, sizeof *c);
}
