/* SPDX-License-Identifier: MIT */
#include "window/create.h"

#include "base/cores.h"
#include "base/memory.h"
#include "window/copies.h"
#include "window/counted.h"
#include "window/layers.h"
#include "window/operations.h"

enum {
  MOST_VERSIONS = SMALL(256, 4),
  LEAST_VERSIONS = 2, /* with 1, window_version() would shift by 64 bits */
  LINES_PER_STRIPE = SMALL(32, 1),
  LINES_PER_VERSION = SMALL(4, 1),
  LEAST_STRIPES = 2,
};

struct window_sizes tamis__window_sizes(const struct window_geometry *g, unsigned stripes_wanted)
{
  uint64_t lines = window_words(g) / WINDOW_LINE_WORDS;
  struct window_sizes s = {.stripes = 1, .versions = MOST_VERSIONS};
  unsigned most = stripes_wanted ? stripes_wanted : usual_stripes();
  uint64_t useful = stripes_wanted ? UINT64_MAX : lines / LINES_PER_STRIPE;
  while (s.stripes < most && (s.stripes < useful || (s.stripes < LEAST_STRIPES && !stripes_wanted)))
    s.stripes *= 2;
  while (s.versions > LEAST_VERSIONS && s.versions > lines / LINES_PER_VERSION)
    s.versions /= 2;
  s.shards = usual_shards(window_bytes(g) / 8);
  return s;
}

/* The bytes of stripes, shards and state and, if `copies` is true, of planes. */
static uint64_t bytes_of(const struct window_sizes *s, bool copies)
{
  return s->stripes * sizeof(struct window_stripe) + s->shards * sizeof(struct counter_shard) +
         window_state_bytes(s) + (copies ? WINDOW_PLANES * sizeof(struct window_plane) : 0);
}

uint64_t tamis__window_total_bytes(const struct window_plan *plan)
{
  const struct window_sizes s = tamis__window_sizes(&plan->geometry, plan->stripes_wanted);
  return sizeof(struct window) + bytes_of(&s, plan->copies) + window_bytes(&plan->geometry);
}

struct window_plan tamis__window_plan_of(const tamis_options *options)
{
  const bool counted = NOT_COMPACT(!options->window);
  return (struct window_plan){.spec = {.periods = counted ? COUNTED_PERIODS : options->window,
                                       .capacity = options->capacity,
                                       .fpp = options->fpp,
                                       .growable = options->growable},
                              .index = 1,
                              .copies = options->kind == TAMIS_CUCKOO && !counted,
                              .counted = counted,
                              .renews = options->window_renews,
                              .stripes_wanted = options->stripes,
                              .max_bytes = options->max_bytes,
                              .cleared_from = options->allocator ? options->cleared_from : 0};
}

static uint64_t beside_bytes(const struct window *w)
{
  const struct window_sizes s = {.stripes = (unsigned) w->stripes.mask + 1,
                                 .shards = w->counters.mask + 1,
                                 .versions = 1u << (64 - w->version_shift)};
  return bytes_of(&s, window_counts_copies(w));
}

/* Divides cleared memory into the parts of a window.  Returns the first layer's planes, or NULL. */
static struct window_plane *divide(void *block, const struct window_sizes *s, bool copies,
                                   struct window_parts *parts)
{
  parts->stripes = block;
  parts->counters = (struct counter_shard *) (parts->stripes + s->stripes);
  struct window_plane *planes = (struct window_plane *) (parts->counters + s->shards);
  parts->state = (struct window_state *) (planes + (copies ? WINDOW_PLANES : 0));
  for (unsigned i = 0; i < s->versions; i++)
    version_begin(&parts->state->versions[i]);
  return copies ? planes : NULL;
}

static void set_parts(struct window *w, const struct window_sizes *s,
                      const struct window_parts *parts)
{
  w->shared = parts->shared;
  w->state = parts->state;
  w->stripes = (struct window_stripes){parts->stripes, s->stripes - 1};
  w->counters = (struct counters){parts->counters, w->shared ? 0 : s->shards - 1};
  w->version_shift = 64 - (unsigned) __builtin_ctz(s->versions);
  lock_init(&w->opening);
}

static struct filter_operations operations_for(const struct window_calls *calls,
                                               const struct window_plan *plan)
{
  struct filter_operations o = {
      .kind = &tamis__window_bloom_kind,
      .contains = calls->contains,
      .contains_many = NOT_COMPACT(calls->contains_many),
      .prefetch = NOT_COMPACT(tamis__window_prefetch),
      .add = NOT_IN_READER(tamis__window_add),
      .add_unique = NOT_IN_READER(tamis__window_add_unique),
  };
  const bool counted = NOT_COMPACT(plan->counted);
  if (counted || plan->copies) {
    o.kind = counted ? &tamis__window_counted_kind : &tamis__window_cuckoo_kind;
    o.add = NOT_IN_READER(tamis__window_add_copy);
    o.remove = NOT_IN_READER(tamis__window_remove);
    o.count = NOT_IN_READER(counted ? tamis__counted_count : tamis__window_count_copies);
  }
  return o;
}

struct window *tamis__window_create(const struct tamis_filter *head, const struct window_plan *plan)
{
  const tamis_allocator *from = filter_allocator(head);
  const struct window_sizes s = tamis__window_sizes(&plan->geometry, plan->stripes_wanted);
  const uint64_t bytes = plan->parts ? 0 : bytes_of(&s, plan->copies);
  struct window *w = tamis__memory_allocate(from, sizeof *w);
  void *beside = w && bytes ? tamis__memory_allocate(from, bytes) : NULL;
  bool ready = w && (beside || !bytes) &&
               (!plan->spec.growable ||
                tamis__backlog_init(&w->backlog, tamis__window_reclaim, w, &w->bytes));
  word *words = plan->words;
  if (!words && ready)
    words = tamis__window_allocate_words(from, window_bytes(&plan->geometry), plan->cleared_from);
  if (!ready || !words) {
    tamis__memory_release(from, beside, bytes);
    tamis__memory_release(from, w, sizeof *w);
    return NULL;
  }
  filter_begin(&w->head, head, &w->more, w->secret);
  struct window_parts own = {.shared = NULL};
  struct window_plane *planes = beside ? divide(beside, &s, plan->copies, &own) : NULL;
  set_parts(w, &s, plan->parts ? plan->parts : &own);
  tamis__owner_begin_alone(&w->owner);
  w->spec = plan->spec;
  w->renews = plan->renews;
  w->counted = plan->counted;
  w->stripes_wanted = plan->stripes_wanted;
  w->max_bytes = plan->max_bytes;
  w->cleared_from = plan->cleared_from;
  w->stamps = window_stamps(plan->spec.periods);
  fullness_begin(&w->rooms);
  tamis__window_prepare_layer(w, &w->first, &plan->geometry, planes);
  w->first.words = words;
  w->first.index = plan->index;
  w->used_before = UINT64_MAX; /* unknown, as no period has ended yet */
  w->operations = operations_for(w->first.calls, plan);
  operations_begin(&w->head, &w->operations);
  atomic_store_explicit(&w->bytes, tamis__window_total_bytes(plan),
                        /* relaxed, here and below, as no other thread uses the filter yet. */
                        memory_order_relaxed);
  atomic_store_explicit(&w->newest, &w->first, memory_order_relaxed);
  if (!w->shared)
    atomic_store_explicit(&w->state->epoch,
                          NOT_COMPACT(plan->counted) ? counted_epoch() : epoch_first(w->stamps),
                          memory_order_relaxed);
  return w;
}

void tamis__window_destroy(tamis_filter *f)
{
  struct window *w = window_of(f);
  const tamis_allocator from = *filter_allocator(&w->head);
  tamis__owner_end(&w->owner);
  lock_destroy(&w->opening);
  if (w->shared) {
    window_close(w->shared);
  } else {
    tamis__window_destroy_layers(w);
    tamis__window_destroy_planes(w, &w->first);
    tamis__memory_release(&from, w->first.words, window_bytes(&w->first.geometry));
    tamis__memory_release(&from, w->stripes.all, beside_bytes(w));
  }
  tamis__memory_release(&from, w, sizeof *w);
}
