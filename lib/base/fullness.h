/* SPDX-License-Identifier: MIT
 *
 * Layer 1: segments that are known to be full.
 *
 * A search for room that fails is long.  So a segment in which one has failed is marked, and keys
 * that find both their buckets full are not searched room for there again, until entries have left
 * its buckets.
 *
 *    a call that finds no room               a call that takes an entry out of a bucket
 *      state = SEARCHED                         clears the lane
 *      searches                                 removes the state SEARCHED, and a mark if
 *      SEARCHED becomes NO_PATH or FULL, if     another search is worth while
*      it is still that
 *
 * Only one call at a time searches for a mark: it holds a lock that all such calls take.  All these
 * accesses are seq_cst.  So if the search did not see that a lane was cleared, it had written
 * SEARCHED before the other call read the state; that call then removes the state, before or after
 * it becomes a mark, and no mark is left.
 *
 *    NO_PATH   no moves make room, but the filter may grow: a key that has no room tries that
 *    FULL      neither will: the key is refused at once
 *
 * Room may also come from elsewhere, as memory does when a segment leaves, or lanes when a period
 * of a window ends.  So a mark contains a number of the filter, which increases whenever that
 * happens.  FULL holds while the number is the same.
 *
 * A segment that is emptier than it was planned for may have many keys in a few pairs, while others
 * find room.  So it is marked only when several searches more have failed than have found room.
 * Their number is in the word, too.
 *
 * Another search is worth while when it would probably find one of the lanes that have become free:
 * at once in a small segment, of which it sees all, and in a large one after several removes.
 * (Whoever has a free lane in a bucket of its own needs no search, and takes no notice of marks.)
 *
 *      31                        5 4          2 1       0
 *     ┌───────────────────────────┬────────────┬─────────┐
 *     │ number of the mark        │ failures   │ state   │
 *     └───────────────────────────┴────────────┴─────────┘
 */
#ifndef TAMIS_LIB_FULLNESS_H
#define TAMIS_LIB_FULLNESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef _Atomic uint32_t fullness;

/* How many entries have left since the mark was set.  Relaxed: it decides only when to search. */
typedef _Atomic uint16_t fullness_vacated;

enum {
  FULLNESS_SEARCHED = 1,
  FULLNESS_NO_PATH = 2,
  FULLNESS_FULL = 3,
  FULLNESS_STATE = 3,
  FULLNESS_FAILURE = 4, /* one */
  FULLNESS_FAILURES = 7 * FULLNESS_FAILURE,
  FULLNESS_NUMBER = 32, /* the unit */
  FULLNESS_SEARCH = 512 /* buckets that a search looks at */
};

/* Called before the search, with the lock held.
 * ORDER fullness.search (seq_cst)
 *   pairs with     fullness.reset
 *   makes visible  that a search reads the buckets from now on
 *   if weakened    an entry that leaves may be missed by the search, and its call may not see the
 *                  search: the segment stays marked although it has room
 *   checked by     negative/full_mark_announced_relaxed */
static inline void fullness_begin_search(fullness *full)
{
  uint32_t failures = atomic_load_explicit(full, memory_order_relaxed) & FULLNESS_FAILURES;
  atomic_store_explicit(full, failures | FULLNESS_SEARCHED, memory_order_seq_cst);
}

/* Called with the lock held, after a search that has found no room, or if an earlier mark still
 * says that there is none.  `state` is that of the mark, and `number` was read before the search.
 * `as_planned`: so full a segment has no room for others either. */
static inline void fullness_mark(fullness *full, fullness_vacated *vacated, unsigned state,
                                 uint64_t number, bool as_planned)
{
  uint32_t old = atomic_load_explicit(full, memory_order_relaxed);
  uint32_t failures = old & FULLNESS_FAILURES;
  if (!(old & FULLNESS_STATE))
    return;
  if (failures == FULLNESS_FAILURES)
    as_planned = true;
  else
    failures += FULLNESS_FAILURE;
  if (!(old & FULLNESS_NO_PATH))
    atomic_store_explicit(vacated, 0, memory_order_relaxed);
  uint32_t mark = failures;
  if (as_planned)
    mark |= state | (uint32_t) number * FULLNESS_NUMBER;
  atomic_compare_exchange_strong_explicit(full, &old, mark, memory_order_seq_cst,
                                          memory_order_relaxed);
}

/* Removes the state, after a bucket has lost an entry.
 * ORDER fullness.reset (seq_cst)
 *   pairs with     fullness.search
 *   makes visible  nothing more
 *   if weakened    see fullness.search
 *   checked by     negative/full_mark_not_cleared */
static inline void fullness_reset(fullness *full)
{
  uint32_t old = atomic_load_explicit(full, memory_order_seq_cst);
  if (old & FULLNESS_STATE)
    atomic_store_explicit(full, old & FULLNESS_FAILURES, memory_order_seq_cst);
}

/* Called after an entry has left a bucket of a segment that has so many.  (Relaxed: a mark that is
 * set at the same time is set after SEARCHED, which fullness_reset() removes.) */
static inline void fullness_has_room(fullness *full, fullness_vacated *vacated, uint64_t buckets)
{
  bool marked = atomic_load_explicit(full, memory_order_relaxed) & FULLNESS_NO_PATH;
  if (marked && (atomic_fetch_add_explicit(vacated, 1, memory_order_relaxed) + UINT64_C(1)) *
                        FULLNESS_SEARCH <
                    buckets)
    return;
  fullness_reset(full);
}

/* Called after a search has found room. */
static inline void fullness_found_room(fullness *full)
{
  uint32_t old = atomic_load_explicit(full, memory_order_relaxed);
  if (old & FULLNESS_FAILURES)
    atomic_compare_exchange_strong_explicit(full, &old, old - FULLNESS_FAILURE,
                                            memory_order_relaxed, memory_order_relaxed);
}

/* Whether a search would find no room.  Relaxed: whoever takes an entry out removes the mark before
 * its call returns, and calls that begin later see that. */
static inline bool fullness_has_no_path(const fullness *full)
{
  return atomic_load_explicit(full, memory_order_relaxed) & FULLNESS_NO_PATH;
}

/* Whether a mark was set with this number.  Relaxed, as before. */
static inline bool fullness_is(const fullness *full, unsigned state, uint64_t number)
{
  uint32_t mark = state | (uint32_t) number * FULLNESS_NUMBER;
  return (atomic_load_explicit(full, memory_order_relaxed) & ~(uint32_t) FULLNESS_FAILURES) == mark;
}

#endif
