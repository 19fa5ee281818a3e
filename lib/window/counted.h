/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the shared cuckoo filter, with removes and counts: a *counted* table.
 *
 * Such a filter is a window whose epoch word never changes, so no period ends.  The window has
 * COUNTED_PERIODS periods: its stamps are 1 to 7.  The running period always has stamp 6, and stamp
 * 7 is dead.  The age of an entry, 0 to 5, is the number of the key's *further copies*:
 *
 *    stamp    6  5  4  3  2  1       7
 *    copies   1  2  3  4  5  6       dead: no lane has it
 *
 * An add of a new key writes stamp 6, the running period's, as in any window.  An add of a key that
 * is present writes the next lower stamp, and a remove writes the next higher stamp, or clears the
 * lane of the last copy.  Each change is one store of a word, under the stripes of both buckets of
 * the key.  So [A] to [D] in table.h, and [K] and [H] in shared.h, hold here.  Three things differ:
 *
 * [M] Mending.  If a killed owner of stripes has left an entry in two lanes, both have the same
 *     count: a call that changes either lane holds both stripes, and a call that takes a stripe
 *     over mends it first.  Mending also counts the further copies of the stripe's entries again.
 *
 * [V] Room.  A remove cannot change the marks of full segments (base/fullness.h) in other
 *     processes.  So each stripe counts how many of its lanes were cleared.  A mark is valid only
 *     until enough lanes were cleared to make another search worth while (rooms.h).
 *
 * [W] After a power failure, the words of the file stay, and a checkpoint adds only entries that
 *     the words lack.  So the checkpoint may undo a remove that came after it.  But it changes no
 *     count in the words: each entry there is at least as new as the last call of tamis_sync that
 *     has returned, because this call has written the entry's page.
 *
 * The dead stamp cannot be 0, which would allow one more copy: an empty lane would then match a key
 * with fingerprint 1, because look-ups subtract 1 from the xor of lane and key (bucket.h).
 */
#ifndef TAMIS_LIB_WINDOW_COUNTED_H
#define TAMIS_LIB_WINDOW_COUNTED_H

#include "window/table.h"

enum {
  COUNTED_PERIODS = 5,
  COUNTED_COPIES = COUNTED_PERIODS + 1, /* the most copies of a key */
  COUNTED_NOW = COUNTED_COPIES,         /* the stamp of an entry with one copy */
  COUNTED_STAMPS = COUNTED_PERIODS + 2
};

static inline uint64_t counted_epoch(void)
{
  return epoch_make(0, 0, false, COUNTED_NOW, COUNTED_STAMPS);
}

/* The number of copies of an entry.  If another process has written a wrong stamp into the file,
 * the result may be 0 or COUNTED_COPIES + 1. */
static inline unsigned counted_copies(const struct window_shape *s, uint64_t entry)
{
  return entry ? COUNTED_STAMPS - window_stamp_of(s, entry) : 0;
}

/* The number of further copies in a word, beyond the first copy of each entry. */
static inline uint64_t counted_further(const struct window_shape *s, uint64_t value)
{
  uint64_t further = 0;
  for (uint64_t used = window_used(s, value); used; used &= used - 1) {
    const unsigned lane = lanes_first(&s->lane, used);
    further += (counted_copies(s, lane_get(&s->lane, value, lane)) - UINT64_C(1)) & 7;
  }
  return further;
}

#endif
