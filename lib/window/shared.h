/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a sliding window in a file that several processes map.  The window has a fixed size.  It
 * is of the Bloom kind, or a counted table, which serves as a cuckoo filter (counted.h).
 *
 *   the file    header | state and versions | counters | stripes | words | checkpoint | checkpoint
 *               fixed description        ─── changing parts ────────────
 *
 *   a process   struct window, with pointers to these parts
 *
 * The arguments of table.h hold: an access that is atomic between threads is atomic between
 * processes, too, and the locks that order processes are in the file: stripes, `advancing` and
 * `saving`.  Each process has its own marks of full segments.  A mark is valid for one period, in
 * which only moves make room.  Three arguments, [K], [H] and [R], are new:
 *
 * [K] A process that waits for a lock takes it over from a killed owner (owned.h).  An owner that
 *     was killed, at any instruction, may have left:
 *     - a lane that it has written, but not counted.  (No lane is half written: each change of a
 *       bucket is one store.)  The next owner of the stripe counts the lanes of its blocks again.
 *     - an old stamp in a lane that it has just written.  The stamp is no older than [P] allows, as
 *       at most the next period has begun before the stripe is taken over.
 *     - an entry in two lanes: a move has copied the entry, and not cleared the source.  The
 *       process that takes over a stripe clears each entry in an upper bucket of its blocks whose
 *       fingerprint is in the lower bucket, too.  The process needs no other stripe for that:
 *       1. Both lanes are equal, as a move writes the entry that it has read under the stripes.
 *       2. Until the stripe of the upper bucket is taken over, no add, renewal or move changes
 *          either lane, as these calls hold the stripes of both buckets.  Only a sweep can clear
 *          the lower lane, and only an add of another key can reuse it.  Then both stamps are dead.
 *       3. So the lane that stays is live if the cleared lane was.  If two processes take over the
 *          two stripes, only one clears a lane.  It bumps the version first, so [A] holds.
 *     - a period that has ended and is not swept, or an unfinished jump.  The process that takes
 *       over `advancing` sweeps first, as the owner should have.  So [Q] and [T] hold.
 *     - the name of a frozen segment.  A process that has waited for `saving` removes the name.
 *     A process that is killed while it mends is itself a killed owner, so the next owner mends
 *     again from the beginning.  A call writes a key's lane before it reports the key as added.
 *
 *     A process that waits for a lock asks whether the owner is alive before it yields.  Mending a
 *     stripe takes about as long as reading its part of the table.
 *
 * [H] Another process may write anything into the file.  The geometry and the number of stripes are
 *     read once, and checked.  A wrong `numbers` changes how long keys stay, until the next
 *     advance.  Whatever an entry's value is, its other bucket is in the same segment.  The name of
 *     the frozen segment, versions and counts are only compared and added up.  If an owner's name
 *     belongs to no living process, the owner counts as dead, so another process takes the lock
 *     over.  (A process that writes the name of a living process keeps the others waiting, as a
 *     stopped process does.)  A union skips entries whose stamp belongs to no period.
 *
 * [R] After a power failure the pages of the file may be from different times, and an entry that
 *     was moved between two pages may be in neither.  So tamis_sync() writes a *checkpoint*: the
 *     window as a save writes it (save.c), to one of two areas behind the words, in turn.  Before
 *     this write, tamis_sync() ensures that the disk names the last checkpoint.  After a restart of
 *     the machine, the first process that opens the file keeps the valid entries of the words, and
 *     unites the last checkpoint with them.  An area that is never used takes no space on the disk.
 */
#ifndef TAMIS_LIB_WINDOW_SHARED_H
#define TAMIS_LIB_WINDOW_SHARED_H

#include "base/filter.h"

int tamis__window_share_new(struct saved_head *saved, const struct refusal *why,
                            struct shared_file *file);
int tamis__window_share_open(struct saved_reader *r, const struct saved_head *saved,
                             const struct tamis_filter *head, struct shared_file *file,
                             tamis_filter **out);
int tamis__window_sync(const tamis_filter *f);
int tamis__window_read_info(struct saved_reader *r, struct saved_head *saved);

#endif
