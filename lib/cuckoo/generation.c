/* SPDX-License-Identifier: MIT */
#include "cuckoo/generation.h"

#include "cuckoo/directory.h"
#include "cuckoo/memory.h"
#include "cuckoo/operations.h"
#include "cuckoo/segment.h"

/* Releases the segments.  Those of a fixed filter are in one block, which begins with the first
 * segment.  If they have no duplicate counts, the function touches none of them. */
static void destroy_segments(struct cuckoo *c, struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  const bool touch = c->growable || (generation->shards && cuckoo_count(generation, DUPLICATES));
  struct segment_cursor cursor = {0};
  struct segment *segment;
  while (touch && (segment = segment_next(generation, &cursor)))
    if (c->growable)
      tamis__segment_destroy(c, g, segment);
    else
      tamis__segment_close(c, g, segment);
  if (!c->growable && !c->has_home)
    tamis__cuckoo_release(c, directory_segment(directory_load(generation->directory)),
                          cuckoo_roots(g) * cuckoo_segment_bytes(g));
}

static void release_directory(struct cuckoo *c, struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  const uint64_t roots = c->growable && generation->directory ? cuckoo_roots(g) : 0;
  for (uint64_t root = 0; root < roots && (root = generation_skip(generation, root)) < roots;
       root++) {
    unsigned bits;
    struct directory_array *array =
        directory_array_of(directory_load(&generation->directory[root]), &bits);
    tamis__cuckoo_release(c, array, directory_array_bytes(bits));
  }
  if (!generation_has_one_root(generation))
    tamis__cuckoo_release(c, generation->directory, cuckoo_directory_bytes(g));
}

void tamis__generation_destroy(struct cuckoo *c, struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  if (generation->directory && !cuckoo_mapped(c))
    destroy_segments(c, generation);
  release_directory(c, generation);
  if (generation != &c->first || !c->has_home)
    tamis__cuckoo_release(c, generation->shards,
                          (generation->counter_mask + 1U) * sizeof(struct counter_shard));
  tamis__slabs_destroy(generation_slabs(generation));
  if (generation != &c->first)
    tamis__cuckoo_release(
        c, generation, sizeof *generation + tamis__generation_tail_bytes(g, generation->has_slabs));
}

uint64_t tamis__generation_tail_bytes(const struct cuckoo_geometry *g, bool has_slabs)
{
  return (has_slabs ? sizeof(struct slabs) : 0) +
         (cuckoo_roots(g) == 1 ? DIRECTORY_ENTRY_BYTES : 0);
}

static void init(struct generation *generation, const struct cuckoo_geometry *g, unsigned number,
                 bool has_slabs)
{
  generation->geometry = *g;
  generation->split_limit = g->depth_limit;
  generation->number = (uint8_t) number;
  generation->has_slabs = has_slabs;
  if (has_slabs)
    tamis__slabs_init(generation_slabs(generation), g);
  char *end = (char *) (generation + 1) + tamis__generation_tail_bytes(g, has_slabs);
  if (generation_has_one_root(generation))
    generation->directory = (directory_entry *) (void *) end - 1;
}

static int provide_shards(struct cuckoo *c, struct generation *generation)
{
  int result;
  unsigned shards = cuckoo_shards(&generation->geometry);
  generation->counter_mask = (uint8_t) (shards - 1);
  generation->shards = tamis__cuckoo_allocate(c, shards * sizeof(struct counter_shard), &result);
  return generation->shards ? TAMIS_OK : result;
}

int tamis__generation_begin_first(struct cuckoo *c, const struct cuckoo_geometry *g,
                                  struct counter_shard *counters)
{
  init(&c->first, g, 0, g->shape.ages && !c->has_home);
  c->first.shards = counters;
  return counters ? TAMIS_OK : provide_shards(c, &c->first);
}

int tamis__generation_provide_directory(struct cuckoo *c, struct generation *generation)
{
  int result = TAMIS_OK;
  if (!generation_has_one_root(generation))
    generation->directory =
        tamis__cuckoo_allocate(c, cuckoo_directory_bytes(&generation->geometry), &result);
  return result;
}

uint64_t tamis__directory_arrays_bytes(const struct cuckoo *c, const struct generation *generation)
{
  uint64_t bytes = 0;
  const uint64_t roots = c->growable ? cuckoo_roots(&generation->geometry) : 0;
  for (uint64_t root = 0; root < roots && (root = generation_skip(generation, root)) < roots;
       root++) {
    unsigned bits;
    if (directory_array_of(directory_load(&generation->directory[root]), &bits))
      bytes += directory_array_bytes(bits);
  }
  return bytes;
}

struct generation *tamis__generation_create(struct cuckoo *c, const struct cuckoo_geometry *g,
                                            int *result)
{
  struct generation *generation =
      tamis__cuckoo_allocate(c, sizeof *generation + tamis__generation_tail_bytes(g, true), result);
  if (!generation)
    return NULL;
  init(generation, g, cuckoo_generations(c), true);
  *result = provide_shards(c, generation);
  if (*result == TAMIS_OK)
    *result = tamis__generation_provide_directory(c, generation);
  if (*result == TAMIS_OK)
    return generation;
  tamis__generation_destroy(c, generation);
  return NULL;
}

void tamis__generation_use_block(struct cuckoo *c, void *block)
{
  struct generation *generation = &c->first;
  const struct cuckoo_geometry *g = &generation->geometry;
  const uint64_t roots = cuckoo_roots(g);
  for (uint64_t i = 0; i < roots; i++) {
    struct segment *segment =
        (struct segment *) (void *) ((char *) block + i * cuckoo_segment_bytes(g));
    if (SMALL(false, true))
      tamis__segment_init(g, segment); /* in normal builds, zeroed memory is valid */
    /* The depth is 0, so the entry is the address.  (To read the depth would touch a new page.) */
    directory_publish(&generation->directory[i], (directory_value) segment);
  }
  generation->segments = roots;
}

int tamis__generation_complete_first(struct cuckoo *c)
{
  const struct cuckoo_geometry *g = &c->first.geometry;
  int result = tamis__generation_provide_directory(c, &c->first);
  if (result == TAMIS_OK && !c->growable) {
    void *block =
        c->has_home ? cuckoo_home(c)
                    : tamis__cuckoo_allocate(c, cuckoo_roots(g) * cuckoo_segment_bytes(g), &result);
    if (block)
      tamis__generation_use_block(c, block);
  } else if (result == TAMIS_OK && generation_has_one_root(&c->first)) {
    struct segment *segment = tamis__segment_create(c, &c->first, 0, 0, &result);
    if (!segment)
      return result;
    directory_publish(c->first.directory, directory_value_of(segment));
    c->first.segments = 1;
  }
  return result;
}

/* ---- the struct cuckoo_growth ---- */

/* ORDER growth.publish (release)
 *   pairs with     growth.load, whose comment says why
 *   checked by     mutants/growth_published_relaxed */
static inline void publish_growth(struct cuckoo *c, struct cuckoo_growth *growth)
{
  atomic_store_explicit(&c->growth, growth, memory_order_release);
}

int tamis__growth_provide(struct cuckoo *c)
{
  int result;
  if (cuckoo_has_growth(c))
    return TAMIS_OK;
  struct cuckoo_growth *growth = tamis__cuckoo_allocate(c, sizeof *growth, &result);
  if (!growth)
    return result;
  if (!tamis__backlog_init(&growth->backlog, tamis__retired_release, c, &c->bytes)) {
    tamis__cuckoo_release(c, growth, sizeof *growth);
    return TAMIS_ENOMEM;
  }
  growth->backlog.in_use = tamis__retired_in_use;
  for (unsigned i = 0; i < GROWTH_STRIPES; i++)
    lock_init(&growth->stripe[i]);
  lock_init(&growth->opening);
  growth->after = cuckoo_geometry_after(&c->first.geometry);
  HOOK(cuckoo_growth_made);
  publish_growth(c, growth);
  return TAMIS_OK;
}

void tamis__growth_destroy(struct cuckoo *c)
{
  struct cuckoo_growth *growth = cuckoo_has_growth(c);
  if (!growth)
    return;
  for (unsigned i = 0; i < GROWTH_STRIPES; i++)
    lock_destroy(&growth->stripe[i]);
  lock_destroy(&growth->opening);
  tamis__cuckoo_release(c, growth, sizeof *growth);
}

/* ---- opening a generation ---- */

static uint64_t count_entries(const struct cuckoo *c, unsigned generations)
{
  uint64_t entries = 0;
  for (unsigned i = 0; i < generations; i++)
    entries += cuckoo_count(cuckoo_generation(c, i), ENTRIES);
  return entries;
}

/* ORDER generations.publish (seq_cst)
 *   pairs with     generations.load, whose comment says why
 *   checked by     mutants/directory_published_relaxed, mutants/generations_publish_release */
void tamis__generation_append(struct cuckoo *c, struct generation *generation, unsigned n)
{
  cuckoo_growth(c)->generation[n] = generation;
  atomic_store_explicit(&c->generations, n + 1, memory_order_seq_cst);
  /* Relaxed: calls may use the old operations after this.  These read the number of generations,
   * and take the general path if there are several.  The new operations work with any number. */
  atomic_store_explicit(&c->head.operations, &tamis__cuckoo_any, memory_order_relaxed);
}

/* Sets *out to the geometry of generation n: `like` if it fits the filter, otherwise a new plan. */
static int plan_generation(const struct cuckoo *c, unsigned n, const struct cuckoo_geometry *like,
                           struct cuckoo_geometry *out)
{
  const struct cuckoo_geometry *before = &cuckoo_generation(c, n - 1)->geometry;
  double left = cuckoo_rate_left(c, n);
  if (n == CUCKOO_MAX_GENERATIONS)
    return TAMIS_EFULL;
  if (!like || like->rate > left || !cuckoo_geometry_may_follow(before, like))
    return cuckoo_geometry_next(before, count_entries(c, n), left, out);
  *out = *like;
  return TAMIS_OK;
}

int tamis__generation_open(struct cuckoo *c, const struct generation *full,
                           const struct cuckoo_geometry *like)
{
  int result = TAMIS_OK;
  struct lock *opening = &cuckoo_growth(c)->opening;
  lock_take(opening);
  unsigned n = cuckoo_generations(c);
  if (cuckoo_generation(c, n - 1) == full) {
    struct cuckoo_geometry g;
    result = plan_generation(c, n, like, &g);
    struct generation *next = result == TAMIS_OK ? tamis__generation_create(c, &g, &result) : NULL;
    if (next)
      tamis__generation_append(c, next, n);
  }
  lock_release(opening);
  return result;
}
