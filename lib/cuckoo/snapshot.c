/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a snapshot of a filter that is in use.
 *
 * A snapshot goes through the generations, the oldest first, and through each in the order of its
 * directory.  It copies one segment at a time, under a growth stripe and all stripes of the
 * segment.  The *cursor* is a directory index: all indices before it have been copied.  Segments
 * may split and join during a snapshot, but two segments do not join while the cursor is between
 * them.  Generations that are opened during a snapshot are copied last.
 *
 * A snapshot has each key as it was at one moment, when the key's segment in the newest generation
 * was copied.  From then on the key is *final* for the snapshot.  With one generation, no more is
 * needed, because all copies of a key in one generation are in one segment.
 *
 * With several generations, the snapshot copies the entries of a key at different moments.
 * Moreover, a remove takes the entry that knows the most bits, in any generation, which may be the
 * entry of another key.  So writers obey three rules while a snapshot is being taken:
 *
 *    remove   If the key is not final, but the remove takes an entry that has been copied, the
 *             remove notes the key.  The snapshot's user then removes the key from the snapshot.
 *    add      If the key is not final, an add writes nothing to the copied part of an older
 *             generation.  (Without a snapshot, an add may do so, at a limit or to count a copy.)
 *    join     Two segments of an older generation do not join after one has been copied: an entry
 *             would lose a bit that its copy knows.  The next remove tries the join again.
 *
 * If a generation is opened while a snapshot copies the previous one, the snapshot leaves the
 * entries of final keys out of its copy of the new generation.
 *
 * [E] To show: the snapshot has an entry for each key as the key was when it became final.  Let E
 * be the entries of the filter and K its keys, both with their copies.  An entry is its known bits,
 * a prefix of hash strings.  For a string v of bits after root0, let K(v) be the number of keys
 * whose hash strings begin with v, E(v) the number of entries whose known bits begin with v, and
 * d(v) = K(v) - E(v).  Each key can have its own entry if and only if E has as many entries as K
 * has keys, and d(v) >= 0 for all v.
 *
 *    1. In the filter, d(v) >= 0.  An add of a key raises d(v) by 1 for each prefix v of the key's
 *       hash string that is longer than the key's entry.  A remove lowers d(v) by 1 for each such v
 *       that is longer than the entry that the remove takes.  No entry that begins with such a v
 *       matches the removed key, or the remove would have taken it: all these entries stand for
 *       other keys that begin with v.  So d(v) was at least 1.
 *
 * Let L be the entries that have been copied, and those that will be copied if nothing changes any
 * more.  Let K' be the keys that L should stand for: each final key as it was when it became final,
 * and each other key as it is now, but with its noted removes undone.  To show: D(v) >= 0, where
 * D(v) = K'(v) - L(v).  When all has been copied, each key of K' then has its own entry in L.
 * The user removes the noted keys from L, and each key remains as it was when it became final.
 *
 *    2. Every call changes D(v) and d(v) by the same amount, with two exceptions.  (a) An add of a
 *       final key: no copy contains the new entry.  (b) A remove that takes a copied entry: its
 *       key is noted or is final.  Other calls do not change the known bits of copied entries:
 *       moves, folds and splits keep them, and joins are put off.
 *    3. So D(v) is d(v) with the adds (a) and the removes (b) undone.  Undone removes do not lower
 *       D(v).  Consider the keys whose hash strings begin with v.  If none of them is final, there
 *       are no adds (a), so D(v) >= d(v) >= 0.  If only some are final, v is too short to select a
 *       directory index of the generation in which they became final.  Final keys are added only to
 *       this generation and to later ones, whose entries all know more bits than v has (see
 *       cuckoo_geometry_next()).  So the adds (a) do not change d(v), and D(v) >= d(v) >= 0.  If
 *       all are final, D(v) is what it was when the last of them became final.
 *    4. K' has the effect of each call as a whole or not at all, because a writer holds a stripe of
 *       the segment that it writes to, or writes one word ([O] in insert.c).  A remove holds
 *       c->snapshots_lock and the stripe of its entry while it decides whether the entry has been
 *       copied and the key is final.
 *
 * Without notes, a key that is removed from the copied part and added again would be copied twice.
 */
#include "cuckoo/snapshot.h"

#include "base/hook.h"
#include "base/memory.h"
#include "cuckoo/segment.h"
#include "table/image.h"

#include <string.h>

/* Returns the directory index before which the snapshot has copied all of the generation. */
static uint64_t copied_before(const struct cuckoo_snapshot *s, unsigned generation)
{
  return generation < s->generation ? UINT64_MAX : generation == s->generation ? s->index : 0;
}

static bool is_final(const struct cuckoo_snapshot *s, uint64_t hash)
{
  for (unsigned i = 0; i <= s->generation; i++) {
    const struct cuckoo_geometry *g = &cuckoo_generation(s->c, i)->geometry;
    const struct cuckoo_address address = cuckoo_address(g, hash);
    if (cuckoo_address_index(g, &address) < s->final[i])
      return true;
  }
  return false;
}

/* The load is relaxed, because the caller holds snapshots_lock. */
static struct cuckoo_snapshot *first_snapshot(const struct cuckoo *c)
{
  return atomic_load_explicit(&c->snapshots, memory_order_relaxed);
}

/* ---- notes of removed keys ---- */

void tamis__snapshot_bring_note(struct cuckoo *c, struct snapshot_note **notes)
{
  enum reader_pause pause = tamis__reader_pause(true);
  struct snapshot_note *note = tamis__memory_allocate(filter_allocator(&c->head), sizeof *note);
  tamis__reader_resume(pause);
  if (note) {
    note->next = *notes;
    *notes = note;
    return;
  }
  lock_take(&c->snapshots_lock);
  for (struct cuckoo_snapshot *s = first_snapshot(c); s; s = s->next)
    s->refused = true;
  lock_release(&c->snapshots_lock);
}

void tamis__snapshot_release_notes(struct cuckoo *c, struct snapshot_note *notes)
{
  for (struct snapshot_note *next; notes; notes = next) {
    next = notes->next;
    tamis__memory_release(filter_allocator(&c->head), notes, sizeof *notes);
  }
}

struct snapshot_note *tamis__snapshot_removed(struct cuckoo_snapshot *s)
{
  struct snapshot_note *notes = NULL;
  lock_take(&s->c->snapshots_lock);
  if (s->noted >= SNAPSHOT_MANY_NOTES || s->result == TAMIS_ABSENT) {
    notes = s->notes;
    s->notes = NULL;
    s->noted = 0;
  }
  lock_release(&s->c->snapshots_lock);
  return notes;
}

/* ---- calls by writers ---- */

/* Whether a snapshot needs a note of a removed key.  The caller must hold snapshots_lock. */
static bool must_note(const struct cuckoo_snapshot *s, const struct generation *generation,
                      uint64_t index, uint64_t hash)
{
  return !s->refused && index < copied_before(s, generation->number) && !is_final(s, hash);
}

bool tamis__snapshot_note_remove(struct cuckoo *c, const struct generation *generation,
                                 uint64_t index, uint64_t hash, struct snapshot_note **notes)
{
  struct snapshot_note *note = *notes;
  bool enough = true;
  lock_take(&c->snapshots_lock);
  for (struct cuckoo_snapshot *s = first_snapshot(c); s && enough; s = s->next)
    if (must_note(s, generation, index, hash)) {
      enough = note != NULL;
      note = note ? note->next : NULL;
    }
  for (struct cuckoo_snapshot *s = first_snapshot(c); s && enough; s = s->next)
    if (must_note(s, generation, index, hash)) {
      note = *notes;
      *notes = note->next;
      *note = (struct snapshot_note){s->notes, hash};
      s->notes = note;
      s->noted++;
    }
  lock_release(&c->snapshots_lock);
  return enough;
}

/* Returns false if a snapshot's cursor is inside `range`, because it copies whole segments.  Also
 * returns false if `range` has been copied but has keys that are not final. */
bool tamis__snapshot_lets_change(struct cuckoo *c, const struct generation *generation,
                                 struct directory_range range)
{
  bool lets = true;
  lock_take(&c->snapshots_lock);
  for (struct cuckoo_snapshot *s = first_snapshot(c); s && lets; s = s->next) {
    uint64_t end = range.first + range.count, copied = copied_before(s, generation->number);
    lets = copied <= range.first || (copied >= end && s->final[generation->number] >= end);
  }
  lock_release(&c->snapshots_lock);
  return lets;
}

/* ---- begin and end of a snapshot ---- */

static void release(const struct cuckoo_snapshot *s, const struct snapshot_block *block)
{
  tamis__memory_release(filter_allocator(&s->c->head), block->at, block->bytes);
}

/* The memory of counts that are read.  It does not count towards max_bytes. */
static struct budget budget_of(struct cuckoo_snapshot *s)
{
  return (struct budget){.from = filter_allocator(&s->c->head), .bytes = &s->read_bytes};
}

/* Makes a block at least `bytes` large.  Its contents are lost.  Returns false without memory. */
static bool provide(struct cuckoo_snapshot *s, struct snapshot_block *block, uint64_t bytes)
{
  if (bytes <= block->bytes)
    return true;
  release(s, block);
  block->at = tamis__memory_allocate_cleared(filter_allocator(&s->c->head), bytes, 0);
  block->bytes = block->at ? bytes : 0;
  return block->at != NULL;
}

void tamis__snapshot_begin(struct cuckoo_snapshot *s, const struct cuckoo *c)
{
  /* The filter is const to the caller of tamis_save(), but the object itself is not. */
  *s = (struct cuckoo_snapshot){.c = (struct cuckoo *) c};
  lock_take(&s->c->snapshots_lock);
  s->next = first_snapshot(c);
  atomic_store_explicit(&s->c->snapshots, s, memory_order_relaxed); /* see has_snapshots() */
  lock_release(&s->c->snapshots_lock);
}

void tamis__snapshot_end(struct cuckoo_snapshot *s)
{
  struct cuckoo *c = s->c;
  lock_take(&c->snapshots_lock);
  struct cuckoo_snapshot *before = first_snapshot(c);
  if (before == s) {
    atomic_store_explicit(&c->snapshots, s->next, memory_order_relaxed);
  } else {
    while (before->next != s)
      before = before->next;
    before->next = s->next;
  }
  lock_release(&c->snapshots_lock);
  struct budget budget = budget_of(s);
  tamis__plane_clear(&s->read, &budget);
  release(s, &s->words);
  release(s, &s->duplicates);
  tamis__snapshot_release_notes(c, s->notes);
}

/* ---- copying ---- */

/* Advances the cursor.  The keys that it passes become final if it is in the newest generation.
 * The caller must hold a growth stripe and all stripes of the segment at the cursor. */
static void advance_locked(struct cuckoo_snapshot *s, uint64_t to)
{
  struct cuckoo *c = s->c;
  bool newest = cuckoo_generations(c) == s->generation + 1;
  lock_take(&c->snapshots_lock);
  s->index = to;
  if (newest)
    s->final[s->generation] = to;
  if (s->refused)
    s->result = TAMIS_ENOMEM;
  lock_release(&c->snapshots_lock);
}

/* Copies a segment's words to *piece, without the counts.  Meanwhile other calls may change only
 * the segment's counts and, in a fixed filter, may fill free lanes by plain adds. */
static void copy_words(const struct cuckoo_snapshot *s, const struct cuckoo_geometry *g,
                       const struct segment *segment, uint64_t index, struct snapshot_piece *piece)
{
  const word *words = segment_words(g, segment);
  uint64_t *to = s->words.at;
  for (uint64_t i = 0; i < cuckoo_buckets(g); i++)
    to[i] = word_load(&words[i]);
  *piece = (struct snapshot_piece){
      .generation = cuckoo_generation(s->c, s->generation),
      .geometry = g,
      .index = index,
      .depth = segment->depth,
      .words = to,
      .copying = atomic_load_explicit(&segment->copying, memory_order_relaxed)};
  (void) tamis__check_words(g, to, 0, piece->used); /* only counts the lanes in use */
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    piece->entries += piece->used[i];
}

/* Copies a locked segment.  Returns 0, or the bytes needed if s->duplicates is too small. */
static uint64_t copy_locked(struct cuckoo_snapshot *s, const struct cuckoo_geometry *g,
                            struct segment *segment, uint64_t index, struct snapshot_piece *piece)
{
  lock_take(&segment->duplicates_lock);
  const struct table_counts *d = plane_counts(&segment->duplicates);
  uint64_t bytes = d ? tamis__counts_copy_bytes(d) : 0;
  bool fits = bytes <= s->duplicates.bytes;
  if (d && fits)
    tamis__counts_copy(d, s->duplicates.at);
  lock_release(&segment->duplicates_lock);
  if (!fits)
    return bytes;
  copy_words(s, g, segment, index, piece);
  piece->duplicates = d ? s->duplicates.at : NULL;
  return 0;
}

/* Copies the segment at the cursor to *piece, and advances the cursor.  If the root has no segment,
 * sets piece->geometry to NULL.  Returns 0 or, if s->duplicates is too small, the bytes needed. */
static uint64_t copy_at_cursor(struct cuckoo_snapshot *s, struct generation *generation,
                               struct snapshot_piece *piece)
{
  struct growth_stripes held =
      growth_lock(s->c, generation, s->index, generation->geometry.depth_limit);
  uint64_t needed = 0;
  directory_value value = directory_at(generation, s->index);
  const struct directory_range range =
      directory_range_of(&generation->geometry, s->index, directory_depth(value));
  struct segment *segment = directory_segment(value);
  piece->geometry = NULL;
  if (segment) {
    const struct cuckoo_geometry *g = segment_geometry(generation, segment);
    segment_lock_all(g, segment);
    needed = copy_locked(s, g, segment, range.first, piece);
    HOOK(cuckoo_snapshot_copied);
  }
  if (!needed)
    advance_locked(s, range.first + range.count);
  if (segment)
    segment_unlock_all(&generation->geometry, segment);
  growth_unlock(held);
  return needed;
}

/* Copies the segment at the cursor, and advances the cursor.  A mapped filter needs no locks. */
static int copy_mapped(struct cuckoo_snapshot *s, const struct generation *generation,
                       struct snapshot_piece *piece)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  struct budget budget = budget_of(s);
  struct segment *segment = directory_segment(directory_load(&generation->directory[s->index]));
  struct image_table table = {
      .shape = &g->shape, .words = s->words.at, .n = cuckoo_buckets(g), .table = s->index};
  struct saved_reader r;
  uint64_t copies = 0;
  tamis__plane_clear(&s->read, &budget);
  copy_words(s, g, segment, s->index++, piece);
  piece->depth = 0; /* in a damaged file, the depth may be wrong */
  int result = tamis__mapped_counts(&r, &cuckoo_mapped(s->c)->file, g, segment);
  if (result == TAMIS_OK)
    result = tamis__image_load_plane(&r, &table, &s->read, &budget, false, &copies);
  piece->duplicates = plane_counts(&s->read);
  return result;
}

/* ---- entries of final keys in a new generation ---- */

/* The directory index of an entry's keys in an earlier generation, whose geometry is `g`. */
static uint64_t earlier_index(const struct cuckoo_geometry *g, const struct snapshot_piece *piece,
                              uint64_t bucket, uint64_t entry)
{
  const struct cuckoo_geometry *own = piece->geometry;
  uint64_t prefix = cuckoo_prefix(own, piece->index);
  uint64_t fingerprint = cuckoo_fingerprint(own, entry, prefix, piece->depth);
  uint64_t lower = cuckoo_lower_bucket(own, bucket, fingerprint);
  const struct cuckoo_address address =
      cuckoo_address_in(g, own, cuckoo_root_of_index(own, piece->index), lower, fingerprint);
  return cuckoo_address_index(g, &address);
}

/* Clears in the piece the entries of keys that became final in earlier generations. */
static void leave_final_out(const struct cuckoo_snapshot *s, struct snapshot_piece *piece)
{
  const struct cuckoo_geometry *g = piece->geometry;
  uint64_t *words = s->words.at;
  for (unsigned i = 0; i < piece->generation->number; i++) {
    if (!s->final[i])
      continue;
    const struct cuckoo_geometry *earlier = &cuckoo_generation(s->c, i)->geometry;
    for (uint64_t bucket = 0; bucket < cuckoo_buckets(g); bucket++)
      for (unsigned lane = 0; lane < g->shape.lanes; lane++) {
        uint64_t entry = lane_get(&g->shape, words[bucket], lane);
        if (entry && earlier_index(earlier, piece, bucket, entry) < s->final[i]) {
          words[bucket] = lane_put(&g->shape, words[bucket], lane, 0);
          piece->entries--;
        }
      }
  }
}

static bool enter_next_generation(struct cuckoo_snapshot *s)
{
  struct cuckoo *c = s->c;
  if (s->generation + 1 == cuckoo_generations(c))
    return false;
  lock_take(&c->snapshots_lock);
  s->generation++;
  s->index = 0;
  lock_release(&c->snapshots_lock);
  return true;
}

int tamis__snapshot_next(struct cuckoo_snapshot *s, struct snapshot_piece *piece)
{
  HOOK(cuckoo_snapshot_next);
  while (s->result == TAMIS_OK) {
    struct generation *generation = cuckoo_generation(s->c, s->generation);
    uint64_t needed;
    if (s->index == cuckoo_directory_size(&generation->geometry)) {
      if (!enter_next_generation(s))
        s->result = TAMIS_ABSENT;
    } else if (!provide(s, &s->words, cuckoo_buckets(&generation->geometry) * sizeof(uint64_t))) {
      s->result = TAMIS_ENOMEM;
    } else if (cuckoo_mapped(s->c)) {
      return s->result = copy_mapped(s, generation, piece);
    } else if ((needed = copy_at_cursor(s, generation, piece)) > 0) {
      if (!provide(s, &s->duplicates, needed + needed / 4))
        s->result = TAMIS_ENOMEM;
    } else if (piece->geometry) {
      leave_final_out(s, piece);
      return s->result;
    }
  }
  return s->result;
}
