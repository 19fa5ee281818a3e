/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a snapshot of a filter that is in use.  snapshot.c explains it.
 *
 *    struct cuckoo_snapshot s;
 *    int result = tamis__snapshot_begin(&s, c);
 *    while (result == TAMIS_OK && (result = tamis__snapshot_next(&s, &piece)) == TAMIS_OK) {
 *      ... use the piece
 *      while ((n = tamis__snapshot_removed(&s, &hashes)) > 0)
 *        ... note the hashes
 *    }
 *    if (result == TAMIS_ABSENT)
 *      while ((n = tamis__snapshot_removed(&s, &hashes)) > 0)
 *        ... note the hashes
 *    tamis__snapshot_end(&s);
 *
 * The snapshot is what the pieces hold, after each of the noted keys has been removed from it once.
 * The calls hold no lock between them, and the thread may do anything there.
 */
#ifndef TAMIS_LIB_CUCKOO_SNAPSHOT_H
#define TAMIS_LIB_CUCKOO_SNAPSHOT_H

#include "cuckoo/directory.h"

enum { SNAPSHOT_HASHES = SMALL(8190, 34) }; /* of a note */

/* Keys that have been removed.  (64 KiB.) */
struct snapshot_note {
  struct snapshot_note *next;
  size_t n;
  uint64_t hashes[SNAPSHOT_HASHES]; /* mixed */
};

struct cuckoo_snapshot {
  struct cuckoo *c;
  int result;
  bool entered; /* in c->snapshots */

  /* Written by the thread that takes the snapshot, under c->snapshots_lock: */
  struct cuckoo_snapshot *next; /* in c->snapshots */
  unsigned generation;          /* all before it have been copied, */
  uint64_t index;               /* and of it the directory entries before this one */
  /* Of each generation, the directory entries that were copied while it was the newest one: those
   * before this one. */
  uint64_t final[CUCKOO_MAX_GENERATIONS];

  /* Written by removes, too, under c->snapshots_lock: */
  struct snapshot_note *open, *full, *spare; /* NULL: there is none */
  bool refused;                              /* memory for a note */

  /* Of the thread that takes the snapshot: */
  struct snapshot_note *given; /* to the caller, until the next call */
  uint64_t *words;             /* of the segment */
  uint64_t words_bytes;
  struct table_counts *duplicates;
  uint64_t duplicates_bytes;
  struct table_counts *read; /* of a mapped filter: those of the segment */
  struct {
    const struct cuckoo_geometry *geometry; /* NULL: it has been given, or there was none */
    uint64_t first;                         /* of its indices */
    uint64_t prefix;
    unsigned depth;
    bool counts; /* s->duplicates has counts */
    uint32_t copying, used[CUCKOO_FIXED_STRIPES];
    uint64_t entries;
  } copied;
};

/* A segment as it was at one moment.  The pieces of a root follow one another in the directory
 * without a gap, or the root had no segment. */
struct snapshot_piece {
  const struct generation *generation;
  const struct cuckoo_geometry *geometry; /* of segments of its depth */
  uint64_t index;                         /* of its first directory entry */
  unsigned depth;
  const uint64_t *words;
  uint64_t entries;
  /* NULL: no lane has a count.  Counts of lanes without an entry do not belong to the piece. */
  const struct table_counts *duplicates;
  uint32_t copying; /* as in the segment */
  /* Lanes in use of each stripe, in a filter that does not grow. */
  const uint32_t *used;
};

/* TAMIS_ENOMEM.  tamis__snapshot_end() follows in any case. */
int tamis__snapshot_begin(struct cuckoo_snapshot *s, const struct cuckoo *c);

/* TAMIS_ABSENT: there are no more pieces.  TAMIS_ENOMEM. */
int tamis__snapshot_next(struct cuckoo_snapshot *s, struct snapshot_piece *piece);

/* How many hashes (mixed ones) there are to note now, and where.  After the last piece: all that
 * are left. */
size_t tamis__snapshot_removed(struct cuckoo_snapshot *s, const uint64_t **hashes);

void tamis__snapshot_end(struct cuckoo_snapshot *s);

/* Of a mapped filter: copies the segment at the cursor, and moves the cursor beyond it; and
 * releases the counts that it has read. */
int tamis__snapshot_copy_mapped(struct cuckoo_snapshot *s, const struct generation *generation);
void tamis__snapshot_release_read(struct cuckoo_snapshot *s);

/* Leads to the blocks of counts that follow a segment in a mapped file.  The reader allocates
 * nothing, and need not be closed. */
int tamis__mapped_counts(struct saved_reader *r, const struct saved_mapping *file,
                         const struct cuckoo_geometry *g, const struct segment *segment);

/* ---- what writers do for snapshots ----
 *
 * The caller holds a stripe of the key's bucket pair in `generation`, under which the segment has
 * not left the directory; in tamis__snapshot_lets_join(), all stripes of both segments. */

/* Whether any snapshot is being taken.  Relaxed: a snapshot that has copied a segment has entered
 * itself before it took the segment's stripes, and the caller has taken one of them since.  One
 * that has not does not matter. */
static inline bool has_snapshots(const struct cuckoo *c)
{
  return atomic_load_explicit(&c->snapshots, memory_order_relaxed) != NULL;
}

/* Provides memory for the notes of removes.  It precedes a remove if snapshots are being taken; the
 * caller holds no lock and is not a reader.  If memory is refused, or more than some thousand
 * removes are under way at the same time, it is the snapshot that fails. */
void tamis__snapshot_provide(struct cuckoo *c);

/* A copy of a key has been removed, whose entry or count was in this generation. */
void tamis__snapshot_note_remove(struct cuckoo *c, const struct generation *generation,
                                 uint64_t index, uint64_t hash);

/* Whether an entry or a copy may be put into a generation that is not the newest one. */
bool tamis__snapshot_lets_add(struct cuckoo *c, const struct generation *generation,
                              uint64_t index);

/* Whether a writer may put something into the pair, of whose stripes it holds one.  `generations`
 * is their number: it may always use the newest one. */
static inline bool pair_lets_add(struct cuckoo *c, const struct bucket_pair *pair,
                                 unsigned generations)
{
  return pair->generation->number + 1U == generations || !has_snapshots(c) ||
         tamis__snapshot_lets_add(c, pair->generation, pair_index(pair));
}

/* Whether the two segments of these directory entries may join. */
bool tamis__snapshot_lets_join(struct cuckoo *c, const struct generation *generation,
                               struct directory_range range);

#endif
