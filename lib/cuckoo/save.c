/* SPDX-License-Identifier: MIT */
#include "cuckoo/save.h"

#include "base/memory.h"
#include "cuckoo/snapshot.h"
#include "table/count_codes.h"

#include <errno.h>

/* Saves a block's counts, except the counts of lanes that have no entry in the piece. */
static void save_counts_block(struct image_counts *to, const struct snapshot_piece *piece,
                              unsigned block)
{
  const struct lane_shape *s = &piece->geometry->shape;
  const struct table_counts *d = piece->duplicates;
  struct count_reader r = count_reader_begin(d->block[block], counts_positions(d));
  uint64_t counts[COUNTS_AT_ONCE], lane = (uint64_t) block * COUNTS_BUCKETS * s->lanes;
  for (size_t n; (n = tamis__counts_read(&r, counts)) > 0;)
    for (size_t i = 0; i < n && lane < to->words * s->lanes; i++, lane++)
      if (counts[i] && lane_get(s, piece->words[lane / s->lanes], (unsigned) (lane % s->lanes)))
        tamis__image_count(to, lane, counts[i]);
}

static void save_counts(struct saved_writer *w, const struct snapshot_piece *piece)
{
  const struct cuckoo_geometry *g = piece->geometry;
  const struct lane_shape *s = &g->shape;
  const struct table_counts *d = piece->duplicates;
  struct image_counts to = {
      .w = w, .table = piece->index, .words = cuckoo_buckets(g), .lanes = s->lanes};
  for (unsigned block = 0; d && block < counts_blocks(d->buckets); block++)
    if (d->block[block])
      save_counts_block(&to, piece, block);
  tamis__image_counts_end(&to);
  w->totals[TOTAL_COPIES] += to.copies;
}

static void save_block(struct saved_writer *w, const struct snapshot_piece *piece)
{
  tamis__image_block(w, SAVED_SEGMENT,
                     (uint64_t[]){piece->generation->number | (uint64_t) piece->depth << 32,
                                  piece->index, piece->copying, piece->entries},
                     piece->words, cuckoo_buckets(&piece->generation->geometry));
}

/* Writes n bytes of a fixed filter's segment from offset `at` on; the head is at offset 0. */
static void fill_segment(void *context, uint64_t at, size_t n, void *to)
{
  const struct snapshot_piece *piece = context;
  const struct cuckoo_geometry *g = piece->geometry;
  const uint64_t head = g->words_offset / 8, first = at / 8, end = first + n / 8;
  const uint64_t begin = first > head ? first : head, all = head + cuckoo_buckets(g);
  memset(to, 0, n);
  if (!at)
    put_segment_head(g, piece->copying, piece->used, to);
  for (uint64_t i = begin; i < end && i < all; i++)
    saved_put64((unsigned char *) to + (i - first) * 8, piece->words[i - head]);
}

/* Saves the geometries of the generations after *saved, up to `last`, and updates *saved. */
static void save_generations(struct saved_writer *w, const struct cuckoo *c, unsigned *saved,
                             unsigned last)
{
  while (*saved < last) {
    uint64_t figures[SAVED_FIGURES_OF_GENERATION];
    tamis__cuckoo_put_figures(&cuckoo_generation(c, ++*saved)->geometry, figures);
    tamis__image_block(w, SAVED_GENERATION, (uint64_t[SAVED_MEANINGS]){*saved}, figures,
                       SAVED_FIGURES_OF_GENERATION);
  }
}

static void save_removed(struct saved_writer *w, struct cuckoo_snapshot *s)
{
  struct snapshot_note *notes = tamis__snapshot_removed(s);
  for (const struct snapshot_note *note = notes; note && w->result == TAMIS_OK;) {
    unsigned char *room = tamis__saved_block_room(w, SAVED_CHUNK);
    size_t size = 0;
    for (; room && note && size < SAVED_CHUNK; note = note->next, size += 8)
      saved_put64(room + size, note->hash);
    tamis__saved_block(w, SAVED_REMOVED, (uint64_t[SAVED_MEANINGS]){0}, size);
  }
  tamis__snapshot_release_notes(s->c, notes);
}

/* Saves the split limits and the `excess` of the rate (table.h) if unions have changed them.  A
 * union changes them before it adds entries, so the last values are valid for all saved entries. */
static void save_limits(struct saved_writer *w, const struct cuckoo *c, unsigned generations)
{
  uint64_t limits[CUCKOO_MAX_GENERATIONS];
  double excess = cuckoo_growth_figure(c, excess);
  bool united = excess > 0;
  for (unsigned i = 0; i < generations; i++) {
    limits[i] = generation_split_limit(cuckoo_generation(c, i));
    united |= limits[i] < cuckoo_generation(c, i)->geometry.depth_limit;
  }
  if (united)
    tamis__image_block(w, SAVED_LIMITS, (uint64_t[SAVED_MEANINGS]){saved_of_double(excess)}, limits,
                       generations);
}

/* Saves all segments.  In a fixed filter, sets places[i] to the file offset of root i's segment.
 * In a growable filter, `places` is NULL. */
static int save_pieces(struct saved_writer *w, struct cuckoo_snapshot *s, uint64_t *places)
{
  unsigned generation = 0;
  struct snapshot_piece piece;
  int result = TAMIS_OK;
  while (w->result == TAMIS_OK && (result = tamis__snapshot_next(s, &piece)) == TAMIS_OK) {
    save_generations(w, s->c, &generation, piece.generation->number);
    if (places)
      places[piece.index] =
          tamis__saved_array(w, cuckoo_segment_bytes(piece.geometry), fill_segment, &piece);
    else
      save_block(w, &piece);
    save_counts(w, &piece);
    save_removed(w, s);
    w->totals[TOTAL_ENTRIES] += piece.entries;
    w->totals[TOTAL_OF_FORM]++;
  }
  save_generations(w, s->c, &generation, s->generation);
  save_removed(w, s);
  if (!places)
    save_limits(w, s->c, s->generation + 1);
  return result == TAMIS_ABSENT ? TAMIS_OK : result;
}

static int save_fixed(struct saved_writer *w, struct cuckoo_snapshot *s)
{
  uint64_t roots = cuckoo_roots(&cuckoo_generation(s->c, 0)->geometry);
  uint64_t *places = tamis__memory_allocate_cleared(&w->allocator, roots * 8, 0);
  if (!places)
    return TAMIS_ENOMEM;
  int result = save_pieces(w, s, places);
  w->totals[TOTAL_PLACES] = w->at;
  if (result == TAMIS_OK)
    tamis__image_row(w, SAVED_PLACES, 0, places, roots);
  tamis__memory_release(&w->allocator, places, roots * 8);
  return result;
}

int tamis__cuckoo_save(const tamis_filter *f, struct saved_writer *w)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  struct cuckoo_snapshot s;
  tamis__snapshot_begin(&s, c);
  int result = c->growable ? save_pieces(w, &s, NULL) : save_fixed(w, &s);
  int error = errno; /* the user's function may have set errno */
  tamis__snapshot_end(&s);
  errno = error;
  return w->result == TAMIS_OK ? result : w->result;
}
