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
 *      SEARCHED becomes a mark, if it is        another search is worth while
 *      still that
 *
 * Only one call at a time searches for a mark: it holds a lock that all such calls take.  All these
 * accesses are seq_cst.  So if the search did not see that a lane was cleared, it had written
 * SEARCHED before the other call read the state; that call then removes the state, before or after
 * it becomes a mark.
 *
 * The marks:
 *
 *    COPIES    a search has failed, but in a segment so empty that others may find room: a key of
 *              few pairs with many keys, or with many copies, has come.  A further copy that cannot
 *              be counted is refused at once; a key that is not in searches
 *    NO_PATH   no moves make room, but the filter may grow: a key that has no room tries that
 *    FULL      the key is refused at once
 *
 * Room may also come from elsewhere, as memory does when a segment leaves, or lanes when a period
 * of a window ends.  So a mark contains a number of the filter, which increases whenever that
 * happens, and COPIES and FULL hold while the number is the same.
 *
 * A segment that is nearly as full as it was planned for is marked as one that has no room when
 * several searches more have failed than have found room.  Their number is in the word, too.
 *
 * Another search is worth while when it would probably find one of the lanes that have become free:
 * at once in a small segment, of which it sees all, and in a large one after several removes.
 * (Whoever has a free lane in a bucket of its own needs no search, and takes no notice of marks.)
 *
 *      31                           6 5          3 2       0
 *     ┌──────────────────────────────┬────────────┬─────────┐
 *     │ number of the mark           │ failures   │ state   │
 *     └──────────────────────────────┴────────────┴─────────┘
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
  FULLNESS_COPIES = 4,
  FULLNESS_STATE = 7,
  FULLNESS_FAILURE = 8, /* one */
  FULLNESS_FAILURES = 7 * FULLNESS_FAILURE,
  FULLNESS_NUMBER = 64, /* the unit */
  FULLNESS_SEARCH = 512 /* buckets that a search looks at, at most */
};

/* How full a segment is in which a search has failed. */
enum fullness_degree { FULLNESS_EMPTIER, FULLNESS_NEARLY, FULLNESS_AS_PLANNED };

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
 * says that there is none.  `state` is NO_PATH or FULL, and `number` was read before the search. */
static inline void fullness_mark(fullness *full, fullness_vacated *vacated, unsigned state,
                                 uint64_t number, enum fullness_degree degree)
{
  uint32_t old = atomic_load_explicit(full, memory_order_relaxed);
  uint32_t failures = old & FULLNESS_FAILURES;
  if (!(old & FULLNESS_STATE))
    return;
  if (!(old & FULLNESS_NO_PATH))
    atomic_store_explicit(vacated, 0, memory_order_relaxed);
  if (degree < FULLNESS_AS_PLANNED && (degree < FULLNESS_NEARLY || failures < FULLNESS_FAILURES))
    state = FULLNESS_COPIES;
  if (degree >= FULLNESS_NEARLY && failures < FULLNESS_FAILURES)
    failures += FULLNESS_FAILURE;
  uint32_t mark = state | failures | (uint32_t) number * FULLNESS_NUMBER;
  atomic_compare_exchange_strong_explicit(full, &old, mark, memory_order_seq_cst,
                                          memory_order_relaxed);
}

/* Whether there is a state to remove, after a bucket has lost an entry.
 * ORDER fullness.reset (seq_cst)
 *   pairs with     fullness.search
 *   makes visible  nothing more
 *   if weakened    see fullness.search
 *   checked by     negative/full_mark_not_cleared */
static inline uint32_t fullness_state(const fullness *full)
{
  return atomic_load_explicit(full, memory_order_seq_cst) & FULLNESS_STATE;
}

/* Removes the state, after a bucket has lost an entry. */
static inline void fullness_reset(fullness *full)
{
  if (fullness_state(full)) /* failures that another thread counts meanwhile may be lost */
    atomic_store_explicit(full,
                          atomic_load_explicit(full, memory_order_relaxed) & FULLNESS_FAILURES,
                          memory_order_seq_cst);
}

/* Called after an entry has left a bucket of a segment that has so many, if fullness_state() says
 * so.  (That may have read an older mark while a search is on.  Then the search may miss the lane,
 * which is one of the few that a mark may outlast.) */
static inline void fullness_has_room(fullness *full, fullness_vacated *vacated, uint64_t buckets)
{
  uint64_t enough = buckets / FULLNESS_SEARCH;
  if (enough > 1 && atomic_load_explicit(full, memory_order_relaxed) & FULLNESS_NO_PATH &&
      atomic_fetch_add_explicit(vacated, 1, memory_order_relaxed) + UINT64_C(1) <
          (enough < UINT16_MAX ? enough : UINT16_MAX))
    return;
  fullness_reset(full);
}

/* Called after a search has found room, which counts for two that have failed. */
static inline void fullness_found_room(fullness *full)
{
  uint32_t old = atomic_load_explicit(full, memory_order_relaxed);
  uint32_t failures = old & FULLNESS_FAILURES, less = 2 * FULLNESS_FAILURE;
  if (failures)
    atomic_compare_exchange_strong_explicit(full, &old, old - (failures < less ? failures : less),
                                            memory_order_relaxed, memory_order_relaxed);
}

/* Whether a search would find no room.  Relaxed: whoever takes an entry out removes the mark, if it
 * does, before its call returns, and calls that begin later see that. */
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
