/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the header of a saved cuckoo filter.
 */
#include "cuckoo/save.h"

#include "cuckoo/cuckoo.h"
#include "cuckoo/generation.h"
#include "cuckoo/memory.h"
#include "cuckoo/segment.h"

void tamis__cuckoo_put_figures(const struct cuckoo_geometry *g, uint64_t *to)
{
  to[SAVED_WIDTH] = g->shape.width;
  to[SAVED_PAIR_BITS] = g->pair_bits;
  to[SAVED_DEPTH_LIMIT] = g->depth_limit;
  to[SAVED_STRIPES] = g->stripe_mask + UINT64_C(1);
  to[SAVED_RATE] = saved_of_double(g->rate);
  to[SAVED_ROOT_SHIFT] = g->root_shift;
  to[SAVED_UNEVEN_AT] = (uint8_t) (g->uneven_at + 1);
}

void tamis__cuckoo_describe(const tamis_filter *f, struct saved_head *out)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  const struct cuckoo_geometry *first = &cuckoo_generation(c, 0)->geometry;
  out->options = (tamis_options){.capacity = c->capacity,
                                 .fpp = c->fpp,
                                 .growable = c->growable,
                                 .max_bytes = c->max_bytes,
                                 .stripes = first->stripes_wanted};
  /* Counts neither the backlog nor what differs between machines, nor the directory of a single
   * root with one segment, whose word is in the generation's block. */
  for (unsigned i = 0; i < cuckoo_generations(c); i++) {
    const struct generation *generation = cuckoo_generation(c, i);
    const struct cuckoo_geometry *g = &generation->geometry;
    uint64_t segments = atomic_load_explicit(&generation->segments, memory_order_relaxed);
    out->figures.bytes += segments * cuckoo_segment_bytes(g);
    if (!c->growable || !generation_has_one_root(generation) || segments > 1)
      out->figures.bytes +=
          cuckoo_directory_bytes(g) + tamis__directory_arrays_bytes(c, generation);
  }
  tamis__cuckoo_put_figures(first, out->geometry);
  out->geometry[SAVED_FIRST_ROOTS] = first->first_roots;
  out->geometry[SAVED_SPLITS] = cuckoo_growth_figure(c, splits);
  out->geometry[SAVED_JOINS] = cuckoo_growth_figure(c, joins);
  out->geometry[SAVED_COUNTS_COPIES] = filter_counts_copies(c);
}

bool tamis__cuckoo_read_geometry(const struct saved_head *saved, const uint64_t *figures,
                                 const struct cuckoo_geometry *before, struct cuckoo_geometry *g)
{
  static const uint64_t most[] = {
      [SAVED_WIDTH] = 64,       [SAVED_PAIR_BITS] = 63,  [SAVED_DEPTH_LIMIT] = 63,
      [SAVED_STRIPES] = 4096,   [SAVED_ROOT_SHIFT] = 63, [SAVED_UNEVEN_AT] = 63,
      [SAVED_RATE] = UINT64_MAX};
  for (unsigned i = 0; i < SAVED_FIGURES_OF_GENERATION; i++)
    if (figures[i] > most[i])
      return false;
  *g = (struct cuckoo_geometry){
      .shape = {.width = (uint8_t) figures[SAVED_WIDTH], .ages = saved->options.growable},
      .first_roots = saved->geometry[SAVED_FIRST_ROOTS],
      .root_shift = (uint8_t) figures[SAVED_ROOT_SHIFT],
      .pair_bits = (uint8_t) figures[SAVED_PAIR_BITS],
      .depth_limit = (uint8_t) figures[SAVED_DEPTH_LIMIT],
      .uneven_at = (uint8_t) (figures[SAVED_UNEVEN_AT] - 1),
      .stripes_wanted = (uint16_t) saved->options.stripes,
      .stripe_mask = (uint32_t) figures[SAVED_STRIPES] - 1,
      .rate = saved_to_double(figures[SAVED_RATE])};
  return cuckoo_geometry_restore(before, g);
}

/* A growable filter is planned with at most 4 lanes for each key of its capacity.  Returns false if
 * the filter has more than 8, so that no file can make the first directory much too large. */
static bool roots_fit_capacity(const struct saved_head *saved, const struct cuckoo_geometry *g)
{
  return !saved->options.growable || (double) (g->first_roots - 1) * (double) cuckoo_lanes(g) <=
                                         8 * (double) saved->options.capacity;
}

bool tamis__cuckoo_read_first_geometry(const struct saved_head *saved, struct cuckoo_geometry *g)
{
  const uint64_t *figures = saved->geometry;
  for (unsigned i = SAVED_FIGURES_OF_FILTER; i < SAVED_GEOMETRY; i++)
    if (figures[i])
      return false;
  return figures[SAVED_COUNTS_COPIES] <= 1 && saved->options.layout == TAMIS_LAYOUT_BLOCKED &&
         tamis__cuckoo_read_geometry(saved, figures, NULL, g) && roots_fit_capacity(saved, g);
}

/* Adds the bytes that saves do not count, except those for which the header has no numbers: the
 * heads of slabs, duplicate counts and, after the first generation, all shards of counters but
 * one. */
int tamis__cuckoo_read_info(struct saved_reader *r, struct saved_head *saved)
{
  (void) r;
  struct cuckoo_geometry g;
  uint64_t n = saved->figures.generations;
  if (!tamis__cuckoo_read_first_geometry(saved, &g))
    return TAMIS_OK;
  uint64_t first = tamis__slab_heads(&g);
  bool has_grown = n > 1 || saved->geometry[SAVED_SPLITS];
  bool has_directory = n > 1 || saved->figures.segments > 1 || !saved->options.growable;
  if (cuckoo_roots(&g) > 1)
    first += cuckoo_directory_bytes(&g);
  else if (has_directory)
    first += 8; /* 8 bytes for the word of the root */
  first += cuckoo_roots(&g) * cuckoo_segment_bytes(&g);
  n = n < 1 ? 1 : n < CUCKOO_MAX_GENERATIONS ? n : CUCKOO_MAX_GENERATIONS;
  saved->figures.bytes +=
      tamis__cuckoo_total_bytes(&g, 0) - first +
      (cuckoo_roots(&g) == 1 && has_grown ? sizeof(struct cuckoo_growth) : 0) +
      (n - 1) * (sizeof(struct generation) + sizeof(struct slabs) + sizeof(struct counter_shard));
  return TAMIS_OK;
}
