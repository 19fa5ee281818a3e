/* SPDX-License-Identifier: MIT
 *
 * What the tests of windows and of cuckoo filters that processes share have in common.
 */
#ifndef TAMIS_TESTS_SHARED_WINDOW_UNIT_H
#define TAMIS_TESTS_SHARED_WINDOW_UNIT_H

#include "shared_unit.h"

#include "window/table.h"

enum { PAGE = 4096 }; /* of the header; the state follows */

/* Of a cuckoo filter.  At this rate no key of a test is taken for another one. */
static inline tamis_options shared_cuckoo_options(uint64_t capacity)
{
  return seeded_options(TAMIS_CUCKOO, capacity, 1e-6, false);
}

/* What the next opening takes for another start of the machine; `lost`: no word has reached the disk. */
static inline void start_machine(const tamis_filter *f, bool lost)
{
  const uint64_t other = 42;
  const struct window *w = const_window_of(f);
  write_file(PAGE + offsetof(struct window_state, boot), &other, sizeof other);
  for (uint64_t i = 0; lost && i < window_words(&w->first.geometry); i++)
    word_store(&w->first.words[i], 0);
}

/* Where the checkpoints begin. */
static inline size_t checkpoints_of(const tamis_filter *f)
{
  const struct window *w = const_window_of(f);
  const size_t words = (size_t) ((const char *) w->first.words - (const char *) w->state) + PAGE;
  return (words + window_bytes(&w->first.geometry) + PAGE - 1) & ~(size_t) (PAGE - 1);
}

/* Gives all entries this stamp. */
static inline void put_stamps(const struct window *w, unsigned stamp)
{
  const struct lane_shape *s = &w->first.geometry.whole.lane;
  for (uint64_t i = 0; i < window_words(&w->first.geometry); i++)
    for (unsigned lane = 0; lane < s->lanes; lane++) {
      const uint64_t old = word_load(&w->first.words[i]), entry = lane_get(s, old, lane),
                     fingerprint = window_fingerprint_of(&w->first.geometry.shape, entry);
      if (entry)
        word_store(&w->first.words[i], lane_put(s, old, lane, fingerprint | stamp));
    }
}

/* Takes the lock of each stripe once, so that what is broken is mended. */
static inline void take_all_stripes(struct window *w)
{
  for (uint64_t i = 0; i <= w->stripes.mask; i++) {
    window_lock(w, &w->stripes.all[i]);
    window_unlock(w, &w->stripes.all[i]);
  }
}

#endif
