/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what a saved sliding window consists of (docs/format.md).
 *
 *    header | array of the oldest layer | periods | layer | its array | periods | ... | trailer
 */
#ifndef TAMIS_LIB_WINDOW_SAVE_H
#define TAMIS_LIB_WINDOW_SAVE_H

#include "base/saved.h"
#include "window/table.h"

/* The numbers of the header's geometry, and the trailer's totals.  Those of a layer are the payload of
 * its block, too; those in the header are the oldest one's. */
enum {
  SAVED_LAYER_SHAPE,
  SAVED_LAYER_SEGMENTS,
  SAVED_LAYER_HALF,
  SAVED_LAYER_CAPACITY,
  SAVED_LAYER_INDEX,
  SAVED_LAYER_NUMBERS
};
enum {
  SAVED_WINDOW_PERIODS, /* G */
  SAVED_WINDOW_RENEWS,
  SAVED_WINDOW_PERIOD, /* that ran when the save began, and its stamp */
  SAVED_WINDOW_STAMP,
  SAVED_WINDOW_LAYERS,
  SAVED_WINDOW_GROWTHS, /* layers that were opened before the oldest one was */
  SAVED_WINDOW_OLDEST,
  SAVED_WINDOW_NUMBERS = SAVED_WINDOW_OLDEST + SAVED_LAYER_NUMBERS
};
enum { TOTAL_WINDOW_LANES, TOTAL_WINDOW_PERIOD };

enum {
  /* [number of the layer: 1, 2, ...]  SAVED_LAYER_NUMBERS numbers; its array follows */
  SAVED_WINDOW_LAYER = 32,
  /* [number of the layer, 0 for the oldest one; first segment]  For each segment, in which period it
   * was copied: so many in each block, or all that are left. */
  SAVED_WINDOW_COPIED = 33,
  SAVED_WINDOW_COPIES = SAVED_CHUNK / 8
};

static const uint64_t saved_most_period = (UINT64_C(1) << (64 - EPOCH_PERIOD_SHIFT)) - 1;

void tamis__window_describe(const tamis_filter *f, struct saved_head *out);
void tamis__window_figures(const struct saved_head *saved, tamis_stats *out);
uint64_t tamis__window_saved_beside(const struct saved_head *saved);
int tamis__window_save(const tamis_filter *f, struct saved_writer *w);
int tamis__window_load(struct saved_reader *r, const struct saved_head *saved,
                       const struct tamis_filter *head, tamis_filter **out);

#endif
