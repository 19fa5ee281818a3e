/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a sliding window in a file that several processes map: one of the Bloom kind and of a
 * fixed size.
 *
 *    the file    header | state, with versions | counters | stripes | words | checkpoint | checkpoint
 *                what the window is       ─── what changes ──────────────
 *
 *    a process   struct window, with pointers to these parts
 *
 * The arguments of table.h hold, as an atomic access is one whoever maps the memory, and as all locks
 * that order two processes are in the file: the stripes, `advancing` and `saving`.  What a process
 * knows for itself is when a segment is full; these marks hold for a period, in which nothing but a
 * move makes room.  What is new:
 *
 * [K] A process that is killed leaves locks, which whoever waits for them takes over (owned.h).  It
 *     has then left, at any instruction:
 *     - a lane written or not, and not counted: each change of a bucket is one store of a word.  Who
 *       takes over a stripe counts the lanes of its blocks.
 *     - an old stamp in a lane that was just written: no older one than [P] allows, as no period but
 *       the next can have begun before the stripe was taken over.
 *     - an entry that stands twice, copied by a move and not cleared.  Both are the same, as a move
 *       writes what it has read under the stripes (move_locked() in evict.c).  And until the stripe of the upper bucket is taken over, nobody changes either: who adds, renews or
 *       moves an entry holds the stripes of both its buckets.  Only a sweep of the lower one may
 *       clear it, or an add of another key may take its lane; but then the stamp of both is dead.
 *       So who takes over a stripe looks at its upper buckets only, and clears an entry whose
 *       fingerprint is in the lower bucket, too.  It needs no other stripe, and of two processes
 *       that take over the two stripes one clears.  It bumps the version first, so [A] holds.  The
 *       lane that stays is as live as the one that goes.
 *     - a period that was ended, and not swept, or a jump in its midst: who takes over `advancing`
 *       sweeps first, as that one would have.  So [Q] and [T] hold.
 *     - the name of a frozen segment: who has waited for `saving` removes it.
 *     A process that is killed while it mends leaves its own name in the lock; so the next one mends
 *     again, from the beginning.  Nobody is told that a key is in before its lane is written.
 *
 *     Who waits asks for the owner before it yields.  To mend a stripe takes about as long as to read
 *     its part of the table.
 *
 * [H] Another process may write anything into the file.  The geometry, and the number of stripes, are
 *     read once, and checked.  `numbers` changes how long keys stay, until the next advance.  Of the words, each bucket that follows from an entry is one of its
 *     segment, whatever the entry is; the frozen segment's name, versions and counts are only
 *     compared and added up; and the name of an owner that does not live is that of a dead one, so
 *     that a lock which somebody has written to is taken over.  (Who writes the name of a living
 *     process keeps others waiting, as a process that is stopped does.)  A union passes over entries
 *     whose stamp is that of no period.
 *
 * [R] After a failure of power the pages of the file may be of different times.  An entry that was
 *     moved from one page to another may be in neither.  So tamis_sync() writes a *checkpoint*: the
 *     window as it is saved to a file of its own (save.c), in one of two places behind the words,
 *     in turn, after it has written which of them was the last one.  The first process that opens the
 *     file after the machine was started again, if no other one has it, keeps what is whole in the
 *     words, and unites the last checkpoint with it.  Places that are never used take
 *     no space on the disk.
 */
#ifndef TAMIS_LIB_WINDOW_SHARED_H
#define TAMIS_LIB_WINDOW_SHARED_H

#include "base/filter.h"

int tamis__window_share_new(const tamis_options *o, const struct tamis_filter *head,
                            const struct refusal *why, struct shared_file *file);
int tamis__window_share_open(struct saved_reader *r, const struct saved_head *saved,
                             const struct tamis_filter *head, struct shared_file *file,
                             tamis_filter **out);
int tamis__window_sync(const tamis_filter *f);
int tamis__window_live_figures(struct saved_reader *r, struct saved_head *saved);

#endif
