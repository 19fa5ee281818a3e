/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the parts of a saved sliding window (docs/reference/format.md).
 *
 *    header | array of the oldest layer | periods | copies | layer | its array | ... | trailer
 */
#ifndef TAMIS_LIB_WINDOW_SAVE_H
#define TAMIS_LIB_WINDOW_SAVE_H

#include "base/saved.h"
#include "window/copies.h"

/* Indices of numbers in a file.  SAVED_LAYER_*: the numbers of one layer.  Those of the oldest
 * layer are in the header's geometry, and those of each newer layer in a block.  SAVED_WINDOW_*:
 * all numbers in the header's geometry.  TOTAL_WINDOW_*: the trailer's totals. */
enum {
  SAVED_LAYER_SHAPE,
  SAVED_LAYER_SEGMENTS,
  SAVED_LAYER_HALF,
  SAVED_LAYER_CAPACITY,
  SAVED_LAYER_INDEX,
  SAVED_LAYER_NUMBERS
};
enum {
  SAVED_WINDOW_PERIOD = SAVED_WINDOW_RENEWS + 1, /* the period in which the save began */
  SAVED_WINDOW_STAMP,                            /* the stamp of that period */
  /* The number of layers when the save began.  Layers that leave during the save are not saved. */
  SAVED_WINDOW_LAYERS,
  SAVED_WINDOW_GROWTHS, /* how many layers had been opened in all, up to the oldest saved one */
  SAVED_WINDOW_OLDEST,
  /* The number of further copies when the save began, which the header's count of keys includes. */
  SAVED_WINDOW_FURTHER = SAVED_WINDOW_OLDEST + SAVED_LAYER_NUMBERS,
  SAVED_WINDOW_NUMBERS
};
enum { TOTAL_WINDOW_LANES, TOTAL_WINDOW_PERIOD, TOTAL_WINDOW_FURTHER };

enum {
  /* A block with the numbers SAVED_LAYER_* of a newer layer.  The first of its `meanings` is the
   * layer's number in the file, from 1 on.  The layer's array follows. */
  SAVED_WINDOW_LAYER = 32,
  /* A row with one number for each segment of a layer: the period in which the segment was copied.
   * The row's table number is the layer's number, 0 for the oldest.  The layer's counts follow. */
  SAVED_WINDOW_COPIED = 33
};

struct lane_place {
  uint64_t bucket, lower; /* `lower` is the lower bucket of the entry's pair */
  uint64_t entry;         /* 0: the lane is empty */
};

/* Describes a lane of the word number `index`, whose value is `value`. */
static inline struct lane_place lane_place(const struct window_geometry *g, uint64_t value,
                                           uint64_t index, unsigned lane)
{
  struct lane_place at = {.entry = lane_get(&g->whole.lane, value, lane)};
  at.bucket = at.lower = index << g->bucket_shift | lane / g->shape.lane.lanes;
  if (at.entry && at.bucket % window_segment_buckets(g) >= g->half)
    at.lower = window_other_bucket(g, at.bucket, at.entry);
  return at;
}

/* Whether an entry is in an upper bucket although its fingerprint is also in its lower bucket. */
static inline bool stands_twice(const struct window_geometry *g, const word *words,
                                const struct lane_place *at)
{
  const uint64_t lower = word_load(&words[window_word_of(g->bucket_shift, at->lower)]) >>
                         window_shift_of(g->bucket_shift, at->lower);
  return at->bucket != at->lower &&
         window_match(&g->shape, lower, window_fingerprint_of(&g->shape, at->entry));
}

/* Whether each fingerprint in a word is in only one lane of its bucket pair. */
static inline bool lanes_are_alone(const struct window_geometry *g, const word *words,
                                   uint64_t index)
{
  const uint64_t value = word_load(&words[index]);
  for (uint64_t used = window_used(&g->whole, value); used; used &= used - 1) {
    const struct lane_place at = lane_place(g, value, index, lanes_first(&g->whole.lane, used));
    const uint64_t own = value >> window_shift_of(g->bucket_shift, at.bucket);
    const uint64_t fingerprint = window_fingerprint_of(&g->shape, at.entry);
    if (lanes_count(window_match(&g->shape, own, fingerprint)) != 1 || stands_twice(g, words, &at))
      return false;
  }
  return true;
}

/* The bits of the lanes of a word that have an entry with a live stamp from 1 to `stamps`. */
static inline uint64_t whole_lanes(const struct window_shape *s, uint64_t value, unsigned stamps,
                                   unsigned dead)
{
  return lanes_bits(&s->lane, window_live(s, value, dead) & ~window_beyond(s, value, 1, stamps));
}

/* What a save keeps of a layer: the layer itself may be released during the save. */
struct window_copied_layer {
  struct window_geometry geometry;
  uint64_t number;
  unsigned index;
};

/* Lists the layers, from the newest to the oldest.  Returns their number. */
unsigned tamis__window_list(const struct window *w,
                            struct window_copied_layer layers[WINDOW_MOST_LAYERS]);

/* Copies a segment to `words`, and appends its counts to `counts`.  The copy has the entries that
 * the window remembered in the period of *epoch, except for changes by other calls during the copy.
 * If the layer has left, the copy is empty.
 *   Errors  TAMIS_ENOMEM: there is no memory for the counts */
int tamis__window_copy_segment(struct window *w, const struct window_copied_layer *layer,
                               uint64_t segment, uint64_t *words, struct lane_counts *counts,
                               const tamis_allocator *allocator, uint64_t *epoch);

struct window_plan;
/* Writes a new window's numbers into a header, except its capacity and rate, which are options. */
void tamis__window_put_numbers(const struct window_plan *plan, uint64_t *numbers);

/* Reads a layer's numbers.  Returns false if no valid layer can have these numbers. */
bool tamis__window_get_layer(unsigned periods, const uint64_t *numbers, struct window_geometry *g,
                             unsigned *index);

/* Reads the plan of a window of one layer from a header.  Returns false if the header is wrong. */
bool tamis__window_read_plan(const struct saved_head *saved, struct window_plan *out);

void tamis__window_describe(const tamis_filter *f, struct saved_head *out);
void tamis__window_figures(struct saved_head *saved);
int tamis__window_save(const tamis_filter *f, struct saved_writer *w);
int tamis__window_load(struct saved_reader *r, const struct saved_head *saved,
                       const struct tamis_filter *head, tamis_filter **out);

#endif
