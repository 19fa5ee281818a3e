/* SPDX-License-Identifier: MIT
 *
 * Where a window of the cuckoo kind counts the copies of a key, for tests.
 */
#ifndef TAMIS_TESTS_WINDOW_COUNTS_H
#define TAMIS_TESTS_WINDOW_COUNTS_H

#include "window/pair.h"

/* The lock of the counts beside a key's entry in the first layer. */
static inline struct stripe *window_counts_lock(tamis_filter *f, uint64_t key)
{
  struct window *w = window_of(f);
  struct pair pair = pair_in(&w->first, window_mixed(w, key));
  struct view view = look_at(&pair);
  struct found found = find_entry(&pair, &view);
  struct window_lane lane = window_lane(&w->first, found.bucket, found.lane);
  return &window_plane_of(&w->first, lane.index)->lock;
}

#endif
