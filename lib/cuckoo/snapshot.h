/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a snapshot of a filter that is in use.  snapshot.c explains it.
 *
 *    struct cuckoo_snapshot s;
 *    tamis__snapshot_begin(&s, c);
 *    while ((result = tamis__snapshot_next(&s, &piece)) == TAMIS_OK)
 *      ... use the piece
 *    if (result == TAMIS_ABSENT)
 *      ... record the keys of tamis__snapshot_removed(), perhaps also after a piece
 *    tamis__snapshot_end(&s);
 *
 * The contents of the snapshot are those of all pieces, less one copy of each recorded key.  The
 * thread holds no lock between the calls.
 */
#ifndef TAMIS_LIB_CUCKOO_SNAPSHOT_H
#define TAMIS_LIB_CUCKOO_SNAPSHOT_H

#include "cuckoo/directory.h"

enum { SNAPSHOT_MANY_NOTES = SMALL(8192, 34) }; /* fewer notes are returned only at the end */

/* A removed key that a snapshot has noted: an element of a list. */
struct snapshot_note {
  struct snapshot_note *next;
  uint64_t hash; /* the mixed hash of the key */
};

/* A segment as it was at one moment.  The pieces of a root cover all its directory indices, in
 * order and without gaps; a root without segments has no pieces. */
struct snapshot_piece {
  const struct generation *generation;
  const struct cuckoo_geometry *geometry; /* the segment's geometry */
  uint64_t index;                         /* the segment's first directory index */
  unsigned depth;
  const uint64_t *words;
  uint64_t entries;
  /* The duplicate counts of all lanes in use, or NULL if no lane has a count. */
  const struct table_counts *duplicates;
  uint32_t copying;
  uint32_t used[CUCKOO_FIXED_STRIPES]; /* the number of lanes in use of each stripe */
};

struct snapshot_block {
  void *at;
  uint64_t bytes;
};

struct cuckoo_snapshot {
  struct cuckoo *c;
  int result;

  /* Written under c->snapshots_lock by the thread that takes the snapshot: */
  struct cuckoo_snapshot *next; /* the next snapshot in c->snapshots */
  unsigned generation;          /* all generations before this one have been copied */
  uint64_t index;               /* all indices in `generation` before this one have been copied */
  /* The indices below final[i] were copied while generation i was the newest generation. */
  uint64_t final[CUCKOO_MAX_GENERATIONS];

  /* Written under c->snapshots_lock by the thread that takes the snapshot, and by removes: */
  struct snapshot_note *notes; /* a list */
  size_t noted;
  bool refused; /* memory for a note was refused */

  /* Used only by the thread that takes the snapshot: */
  struct snapshot_block words, duplicates; /* memory for a copied segment */
  plane read;                              /* mapped filter: duplicate counts read from the file */
  _Atomic uint64_t read_bytes;             /* the bytes of these counts */
};

void tamis__snapshot_begin(struct cuckoo_snapshot *s, const struct cuckoo *c);

/* Sets *piece to the next piece; returns TAMIS_OK, TAMIS_ABSENT after the last, or TAMIS_ENOMEM. */
int tamis__snapshot_next(struct cuckoo_snapshot *s, struct snapshot_piece *piece);

/* Returns the notes that no earlier call has returned, or NULL while there are fewer than
 * SNAPSHOT_MANY_NOTES and pieces are left.  The caller must release the list. */
struct snapshot_note *tamis__snapshot_removed(struct cuckoo_snapshot *s);
void tamis__snapshot_release_notes(struct cuckoo *c, struct snapshot_note *notes);

void tamis__snapshot_end(struct cuckoo_snapshot *s);

/* Positions a reader at the blocks of duplicate counts that follow a segment in a mapped file.  The
 * reader allocates nothing, so the caller need not close it. */
int tamis__mapped_counts(struct saved_reader *r, const struct saved_mapping *file,
                         const struct cuckoo_geometry *g, const struct segment *segment);

/* ---- what writers do for snapshots ----
 *
 * The caller must hold a stripe of the key's bucket pair in `generation`, and have checked under it
 * that the segment has not left.  For a join, it must hold all stripes of both segments. */

/* Whether any snapshot is being taken.  A relaxed load is enough: a snapshot enters c->snapshots
 * before it takes the stripes of a segment, so a caller that takes a stripe after the snapshot has
 * copied the segment sees the snapshot.  Until then, the snapshot needs nothing from the caller. */
static inline bool has_snapshots(const struct cuckoo *c)
{
  return atomic_load_explicit(&c->snapshots, memory_order_relaxed) != NULL;
}

/* Tells the snapshots of a remove in `generation`: moves a note from *notes to each snapshot that
 * needs one.  If *notes has too few notes for this, changes nothing and returns false. */
bool tamis__snapshot_note_remove(struct cuckoo *c, const struct generation *generation,
                                 uint64_t index, uint64_t hash, struct snapshot_note **notes);

/* Allocates one more note, outside of the caller's read section.  The caller must not hold a lock.
 * If memory is refused, the snapshots fail, but the remove does not. */
void tamis__snapshot_bring_note(struct cuckoo *c, struct snapshot_note **notes);

/* Whether the snapshots let a writer add to a segment of an older generation, or join two segments.
 * `range` is the directory index of the added key, or the indices of both segments. */
bool tamis__snapshot_lets_change(struct cuckoo *c, const struct generation *generation,
                                 struct directory_range range);

/* Whether a writer that holds a stripe of the pair may add to the pair.  The writer always may if
 * the pair is in the newest of the `generations`. */
static inline bool pair_lets_add(struct cuckoo *c, const struct bucket_pair *pair,
                                 unsigned generations)
{
  return pair->generation->number + 1U == generations || !has_snapshots(c) ||
         tamis__snapshot_lets_change(c, pair->generation,
                                     (struct directory_range){pair_index(pair), 1});
}

#endif
