/* SPDX-License-Identifier: MIT
 *
 * Layer 2: creates a sliding window from a plan.
 */
#ifndef TAMIS_LIB_WINDOW_CREATE_H
#define TAMIS_LIB_WINDOW_CREATE_H

#include "base/memory.h"
#include "base/shared_file.h"
#include "window/table.h"

/* The two kinds of windows, and the counted kind, which shared cuckoo filters are (window.c). */
extern const struct filter_kind tamis__window_bloom_kind;
extern const struct filter_kind tamis__window_cuckoo_kind;
extern const struct filter_kind tamis__window_counted_kind;

struct window_plan {
  struct window_spec spec;
  struct window_geometry geometry; /* the geometry of the first layer */
  unsigned index;                  /* the index of the first layer */
  bool copies;                     /* the window is of the cuckoo kind */
  bool counted;                    /* the table is a counted one, not a window */
  bool renews;
  unsigned stripes_wanted;
  uint64_t max_bytes;
  uint64_t cleared_from; /* tamis_options.cleared_from; 0 without the user's allocator */
  word *words; /* the first layer's words, which the filter will own; NULL: it allocates them */
  /* The parts of a shared filter in its file.  `words` then also points into the file, and the
   * filter does not own the words.  NULL: the filter allocates its parts. */
  const struct window_parts *parts;
};

struct window_parts {
  struct window_shared *shared;
  struct window_state *state;
  struct counter_shard *counters; /* the only shard; all processes use it */
  struct window_stripe *stripes;
};

/* The numbers of stripes, shards and versions of a window: they may depend on this machine. */
struct window_sizes {
  unsigned stripes, shards, versions;
};

struct window_sizes tamis__window_sizes(const struct window_geometry *g, unsigned stripes_wanted);

static inline uint64_t window_state_bytes(const struct window_sizes *s)
{
  return sizeof(struct window_state) + s->versions * sizeof(version_counter);
}

/* A new filter's plan, without the geometry.  Options without a window give a counted table. */
struct window_plan tamis__window_plan_of(const tamis_options *options);

/* The plan of a window in a shared file, with the offsets of its parts in the file. */
struct window_file_plan {
  struct window_plan plan;
  struct window_sizes sizes;
  uint64_t state, counters, stripes, words, end; /* byte offsets of the parts in the file */
  uint64_t checkpoint_bytes;                     /* the most bytes that a checkpoint takes */
};

struct window_shared {
  tamis_allocator allocator;
  struct shared_file file;
  struct window_file_plan plan;
};

static inline void window_close(struct window_shared *shared)
{
  const tamis_allocator from = shared->allocator;
  tamis__shared_file_close(&shared->file);
  tamis__memory_release(&from, shared, sizeof *shared);
}

uint64_t tamis__window_total_bytes(const struct window_plan *plan);

/* Creates an empty filter, or returns NULL for lack of memory.  The caller must check max_bytes. */
struct window *tamis__window_create(const struct tamis_filter *head,
                                    const struct window_plan *plan);

void tamis__window_destroy(tamis_filter *f);

#endif
