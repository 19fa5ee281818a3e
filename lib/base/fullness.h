/* SPDX-License-Identifier: MIT
 *
 * Layer 1: remembers which segments of a filter are full, because a search for room takes long.
 *
 * A call whose search for room has failed marks the segment.  While the mark is valid, an add of a
 * key whose two buckets are full does not search.  (A *lane* of a bucket holds one entry.)
 *
 *    a call that finds no room               a call that takes an entry out of a bucket
 *      state = SEARCHED                         clears the lane of the entry
 *      searches                                 removes the state SEARCHED, and a mark if
 *      replaces SEARCHED by a mark, if          another search is worth while
 *      SEARCHED is still there
 *
 * Only one call at a time makes the search on the left, under a lock: the growth stripe in a cuckoo
 * filter, the lock `opening` in a window.  To show: if the search misses a cleared lane, the call
 * that cleared the lane finds SEARCHED or the mark.  The searching call writes SEARCHED, then reads
 * buckets; the clearing call writes a bucket, then reads the state; all four accesses are seq_cst.
 * So if the search missed the cleared lane, the clearing call sees SEARCHED or the mark.
 *
 *    COPIES    A search has failed although the segment has much room: a few pairs of buckets have
 *              many keys, or many copies.  An add of one more copy is refused at once if the copy
 *              cannot be counted.  An add of an absent key searches, as its search might succeed.
 *    NO_PATH   No moves make room, but the filter can grow.  An add grows it without a search.
 *    FULL      An add is refused at once.
 *
 * Room can also come from outside the segment: memory when another segment is released, or lanes
 * when a period of a window ends.  A filter counts these events (fullness_rooms).  COPIES and FULL
 * are valid only while the filter's count is the same as in the mark.
 *
 * A segment that is nearly as full as planned gets NO_PATH or FULL only after many failed searches,
 * and COPIES before.  Its word counts them: a failed search adds 1, a successful one subtracts 2.
 *
 * Another search is worth while when it would probably find a lane that has become free: in a small
 * segment after one such lane, in a large segment after several.
 */
#ifndef TAMIS_LIB_FULLNESS_H
#define TAMIS_LIB_FULLNESS_H

#include "base/compiler.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A segment's word.  Bits 0 to 2: the state.  Bits 3 to 5: the number of failures.  Bits 6 to 31:
 * the count of rooms (fullness_rooms) when the mark was set. */
typedef _Atomic uint32_t fullness;

/* How many entries have left a segment since it was marked.  Relaxed: the number is only a hint. */
#ifdef TAMIS_SMALL
typedef _Atomic uint8_t fullness_vacated;
#else
typedef _Atomic uint16_t fullness_vacated;
#endif

typedef _Atomic uint32_t fullness_rooms;

/* *rooms must be 0.  In tests, the count begins near its maximum, so that it soon wraps round. */
static inline void fullness_begin(fullness_rooms *rooms)
{
  if (SMALL(false, true))
    atomic_init(rooms, UINT32_MAX - 8);
}

/* Must be called after memory or lanes have become free.
 * ORDER fullness.count (release)
 *   pairs with     fullness.counted
 *   makes visible  the memory or the lanes
 *   if weakened    a call might read the new count, but miss the freed memory or lanes.  Then its
 *                  mark would stay although there is room
 *   checked by     mutants/rooms_counted_relaxed */
static inline void fullness_count(fullness_rooms *rooms)
{
  atomic_fetch_add_explicit(rooms, 1, memory_order_release);
}

/* Returns the count of rooms.  A call must read the count before it searches for room.
 * ORDER fullness.counted (acquire)
 *   pairs with     fullness.count, whose comment says why
 *   checked by     mutants/rooms_read_relaxed */
static inline uint32_t fullness_counted(const fullness_rooms *rooms)
{
  return atomic_load_explicit(rooms, memory_order_acquire);
}

enum {
  FULLNESS_SEARCHED = 1,
  FULLNESS_NO_PATH = 2,
  FULLNESS_FULL = 3, /* includes the bit of FULLNESS_NO_PATH */
  FULLNESS_COPIES = 4,
  FULLNESS_STATE = 7,
  FULLNESS_FAILURE = 8,
  FULLNESS_FAILURES = 7 * FULLNESS_FAILURE,
  FULLNESS_ROOM = 64, /* the lowest bit of the count of rooms in a segment's word */
  FULLNESS_VACATED = SMALL(UINT16_MAX, UINT8_MAX),
  FULLNESS_SEARCH = SMALL(512, 16) /* the most buckets of a search in breadth */
};

/* How full a segment was when a search failed. */
enum fullness_degree { FULLNESS_EMPTIER, FULLNESS_NEARLY, FULLNESS_AS_PLANNED };

/* Must be called before each search, under the lock that permits one search at a time.
 * ORDER fullness.search (seq_cst)
 *   pairs with     fullness.reset
 *   makes visible  to a call that clears a lane: that a search has begun
 *   if weakened    the search might miss a cleared lane while the call that cleared it misses
 *                  SEARCHED: the segment stays marked although it has room
 *   checked by     mutants/full_mark_announced_relaxed */
static inline void fullness_begin_search(fullness *full)
{
  uint32_t failures = atomic_load_explicit(full, memory_order_relaxed) & FULLNESS_FAILURES;
  atomic_store_explicit(full, failures | FULLNESS_SEARCHED, memory_order_seq_cst);
}

/* Must be called under the lock of the search, after a failed search, or if a mark says that a
 * search would fail.  `state`: NO_PATH or FULL.  `rooms`: fullness_counted() before the search. */
static inline void fullness_mark(fullness *full, fullness_vacated *vacated, unsigned state,
                                 uint64_t rooms, enum fullness_degree degree)
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
  uint32_t mark = state | failures | (uint32_t) rooms * FULLNESS_ROOM;
  atomic_compare_exchange_strong_explicit(full, &old, mark, memory_order_seq_cst,
                                          memory_order_relaxed);
}

/* Must be called after an entry has left a bucket.  Returns a mark, SEARCHED or 0.
 * ORDER fullness.reset (seq_cst)
 *   pairs with     fullness.search, whose comment says why
 *   checked by     mutants/full_mark_not_cleared */
static inline uint32_t fullness_state(const fullness *full)
{
  return atomic_load_explicit(full, memory_order_seq_cst) & FULLNESS_STATE;
}

static inline void fullness_reset(fullness *full)
{
  if (fullness_state(full)) /* the store may lose a failure that another thread counts just now */
    atomic_store_explicit(full,
                          atomic_load_explicit(full, memory_order_relaxed) & FULLNESS_FAILURES,
                          memory_order_seq_cst);
}

/* Must be called if fullness_state() is not 0 after an entry has left a bucket.  The segment has
 * `buckets` buckets.  (If a search misses the lane just cleared and then marks the segment,
 * `vacated` does not count the lane.  So the mark can stay although lanes are free.) */
static inline void fullness_has_room(fullness *full, fullness_vacated *vacated, uint64_t buckets)
{
  uint64_t enough = buckets / FULLNESS_SEARCH;
  if (enough > 1 && atomic_load_explicit(full, memory_order_relaxed) & FULLNESS_NO_PATH &&
      atomic_fetch_add_explicit(vacated, 1, memory_order_relaxed) + UINT64_C(1) <
          (enough < FULLNESS_VACATED ? enough : FULLNESS_VACATED))
    return;
  fullness_reset(full);
}

static inline void fullness_found_room(fullness *full)
{
  uint32_t old = atomic_load_explicit(full, memory_order_relaxed);
  uint32_t failures = old & FULLNESS_FAILURES, less = 2 * FULLNESS_FAILURE;
  if (failures)
    atomic_compare_exchange_strong_explicit(full, &old, old - (failures < less ? failures : less),
                                            memory_order_relaxed, memory_order_relaxed);
}

/* Returns true if a mark says that no search would find room.  Relaxed: a call that takes an entry
 * out removes the mark before it returns, so calls that begin later see the change. */
static inline bool fullness_has_no_path(const fullness *full)
{
  return atomic_load_explicit(full, memory_order_relaxed) & FULLNESS_NO_PATH;
}

/* Returns true if the mark has this state and count.  Relaxed, as in fullness_has_no_path(). */
static inline bool fullness_is(const fullness *full, unsigned state, uint64_t rooms)
{
  uint32_t mark = state | (uint32_t) rooms * FULLNESS_ROOM;
  return (atomic_load_explicit(full, memory_order_relaxed) & ~(uint32_t) FULLNESS_FAILURES) == mark;
}

#endif
