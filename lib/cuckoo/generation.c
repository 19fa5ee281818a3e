/* SPDX-License-Identifier: MIT */
#include "cuckoo/generation.h"

#include "cuckoo/directory.h"
#include "cuckoo/memory.h"
#include "cuckoo/segment.h"
#include "cuckoo/slabs.h"

static void destroy_segments(struct cuckoo *c, struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  struct segment_cursor cursor = {0};
  struct segment *segment;
  while ((segment = segment_next(generation, &cursor)))
    if (generation->block)
      tamis__segment_close(c, g, segment);
    else
      tamis__segment_destroy(c, g, segment);
}

void tamis__generation_destroy(struct cuckoo *c, struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  if (generation->directory && !c->mapped)
    destroy_segments(c, generation);
  tamis__cuckoo_release(c, generation->block, cuckoo_roots(g) * g->segment_bytes);
  tamis__cuckoo_release(c, generation->directory,
                        cuckoo_directory_size(g) * sizeof(directory_entry));
  tamis__cuckoo_release(c, generation->counters.shards,
                        (generation->counters.mask + 1) * sizeof(struct counter_shard));
  for (unsigned i = 0; i < GROWTH_STRIPES; i++)
    stripe_destroy(&generation->growth[i]);
  tamis__slabs_destroy(&generation->slabs);
  tamis__cuckoo_release(c, generation, sizeof *generation);
}

/* A filter that does not grow has all its segments from the start, in one block. */
static bool create_block(struct cuckoo *c, struct generation *generation, int *result)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  uint64_t roots = cuckoo_roots(g);
  generation->block = tamis__cuckoo_allocate(c, roots * g->segment_bytes, result);
  if (!generation->block)
    return false;
  for (uint64_t i = 0; i < roots; i++) {
    struct segment *segment =
        (struct segment *) ((char *) generation->block + i * g->segment_bytes);
#ifdef TAMIS_TSAN
    tamis__segment_init(g, segment); /* without TSan, zeros will do, and the pages stay untouched */
#endif
    directory_publish(generation_directory_entry(generation, i), directory_value_of(segment));
  }
  generation->segments = roots;
  return true;
}

/* Only the first entries of the roots need be clear, which are few.  The others of a root are not
 * read until the root has a segment, and then they lead to it: so a new generation does not pause a
 * call for as long as it takes to clear all of its directory. */
static directory_entry *create_directory(struct cuckoo *c, const struct cuckoo_geometry *g,
                                         int *result)
{
  return tamis__cuckoo_allocate_cleared(c, cuckoo_directory_size(g) * sizeof(directory_entry),
                                        cuckoo_roots(g) * sizeof(directory_entry), result);
}

struct generation *tamis__generation_begin(struct cuckoo *c, const struct cuckoo_geometry *g,
                                           int *result)
{
  struct generation *generation = tamis__cuckoo_allocate(c, sizeof *generation, result);
  if (!generation)
    return NULL;
  generation->geometry = *g;
  generation->split_limit = g->depth_limit;
  generation->number = cuckoo_generations(c); /* it will be the next one */
  for (unsigned i = 0; i < GROWTH_STRIPES; i++)
    stripe_init(&generation->growth[i]);
  tamis__slabs_init(&generation->slabs, g);
  unsigned shards = cuckoo_shards(g);
  generation->counters.mask = shards - 1;
  generation->counters.shards =
      tamis__cuckoo_allocate(c, shards * sizeof(struct counter_shard), result);
  if (generation->counters.shards)
    return generation;
  tamis__generation_destroy(c, generation);
  return NULL;
}

int tamis__generation_provide_directory(struct cuckoo *c, struct generation *generation)
{
  int result;
  generation->directory = create_directory(c, &generation->geometry, &result);
  return generation->directory ? TAMIS_OK : result;
}

struct generation *tamis__generation_create(struct cuckoo *c, const struct cuckoo_geometry *g,
                                            int *result)
{
  struct generation *generation = tamis__generation_begin(c, g, result);
  if (!generation)
    return NULL;
  *result = tamis__generation_provide_directory(c, generation);
  if (*result == TAMIS_OK && (c->spec.growable || create_block(c, generation, result)))
    return generation;
  tamis__generation_destroy(c, generation);
  return NULL;
}

/* ---- opening ---- */

static uint64_t count_entries(const struct cuckoo *c, unsigned generations)
{
  uint64_t entries = 0;
  for (unsigned i = 0; i < generations; i++)
    entries += cuckoo_count(c->generation[i], ENTRIES);
  return entries;
}

/* ORDER generations.publish (seq_cst)
 *   pairs with     generations.load
 *   makes visible  the generation
 *   if weakened    see generations.load
 *   checked by     negative/directory_published_relaxed, negative/generations_publish_release */
static void publish_generation(struct cuckoo *c, struct generation *generation, unsigned n)
{
  c->generation[n] = generation;
  atomic_store_explicit(&c->generations, n + 1, memory_order_seq_cst);
}

/* The geometry of a further generation: `like`, if that fits, or a new one. */
static int plan_generation(const struct cuckoo *c, unsigned n, const struct cuckoo_geometry *like,
                           struct cuckoo_geometry *out)
{
  const struct cuckoo_geometry *before = &c->generation[n - 1]->geometry;
  double left = cuckoo_rate_left(c, n);
  if (n == CUCKOO_MAX_GENERATIONS)
    return TAMIS_EFULL;
  if (!like || like->rate > left || cuckoo_index_bits(like) < cuckoo_index_bits(before))
    return cuckoo_geometry_next(before, count_entries(c, n), left, out);
  *out = *like;
  return TAMIS_OK;
}

int tamis__generation_open(struct cuckoo *c, const struct generation *full,
                           const struct cuckoo_geometry *like)
{
  int result = TAMIS_OK;
  stripe_lock(&c->opening);
  unsigned n = cuckoo_generations(c);
  if (c->generation[n - 1] == full) {
    struct cuckoo_geometry g;
    result = plan_generation(c, n, like, &g);
    struct generation *next = result == TAMIS_OK ? tamis__generation_create(c, &g, &result) : NULL;
    if (next)
      publish_generation(c, next, n);
  }
  stripe_unlock(&c->opening);
  return result;
}
