/* SPDX-License-Identifier: MIT */
#include "cuckoo/save.h"

#include "base/memory.h"
#include "cuckoo/fold.h"
#include "cuckoo/snapshot.h"

#include <errno.h>

/* ---- duplicate counts ---- */

static unsigned char *put_counts_of(const struct snapshot_piece *piece, uint32_t first, uint32_t n,
                                    unsigned char *to, uint64_t *copies)
{
  return tamis__counts_put(&piece->generation->geometry.shape, piece->words, piece->duplicates,
                           first, n, to, copies);
}

static size_t counts_room(const struct cuckoo_geometry *g, uint32_t buckets)
{
  return (size_t) buckets * g->shape.lanes * SAVED_BYTES_PER_COUNT;
}

/* ---- segments of a filter that grows ---- */

static void put_words(const uint64_t *words, uint32_t n, unsigned char *to)
{
  for (uint32_t i = 0; i < n; i++)
    saved_put64(to + (size_t) i * 8, words[i]);
}

static void save_growing_segment(struct saved_writer *w, const struct snapshot_piece *piece)
{
  const struct cuckoo_geometry *g = &piece->generation->geometry;
  uint32_t buckets = (uint32_t) cuckoo_buckets(g);
  size_t bytes = (size_t) buckets * 8;
  unsigned char *room =
      tamis__saved_block_room(w, bytes + (piece->duplicates ? counts_room(g, buckets) : 0));
  if (!room)
    return;
  put_words(piece->words, buckets, room);
  unsigned char *end = room + bytes;
  if (piece->duplicates)
    end = put_counts_of(piece, 0, buckets, end, &w->totals[TOTAL_COPIES]);
  tamis__saved_block(w, SAVED_SEGMENT,
                     (uint64_t[]){piece->generation->number | (uint64_t) piece->depth << 32,
                                  piece->index, piece->copying, piece->entries},
                     (size_t) (end - room));
  w->totals[TOTAL_ENTRIES] += piece->entries;
}

static void save_generation(struct saved_writer *w, const struct generation *generation)
{
  uint64_t figures[SAVED_FIGURES_OF_GENERATION];
  tamis__cuckoo_put_figures(&generation->geometry, figures);
  unsigned char *room = tamis__saved_block_room(w, sizeof figures);
  if (!room)
    return;
  put_words(figures, SAVED_FIGURES_OF_GENERATION, room);
  tamis__saved_block(w, SAVED_GENERATION, (uint64_t[SAVED_MEANINGS]){generation->number},
                     sizeof figures);
}

static void save_removed(struct saved_writer *w, struct cuckoo_snapshot *s)
{
  const uint64_t *hashes;
  size_t n;
  while (w->result == TAMIS_OK && (n = tamis__snapshot_removed(s, &hashes)) > 0) {
    unsigned char *room = tamis__saved_block_room(w, n * 8);
    if (!room)
      return;
    put_words(hashes, (uint32_t) n, room);
    tamis__saved_block(w, SAVED_REMOVED, (uint64_t[SAVED_MEANINGS]){0}, n * 8);
  }
}

/* What unions have left for growth, if there were any.  A union announces what it takes before it
 * brings an entry, so at the end of the snapshot this is enough for all that is in it. */
static void save_limits(struct saved_writer *w, const struct cuckoo *c, unsigned generations)
{
  uint64_t limits[CUCKOO_MAX_GENERATIONS];
  double excess = cuckoo_excess(c);
  bool united = excess > 0;
  for (unsigned i = 0; i < generations; i++) {
    limits[i] = generation_split_limit(cuckoo_generation(c, i));
    united |= limits[i] < cuckoo_generation(c, i)->geometry.depth_limit;
  }
  unsigned char *room = united ? tamis__saved_block_room(w, generations * sizeof *limits) : NULL;
  if (!room)
    return;
  put_words(limits, generations, room);
  tamis__saved_block(w, SAVED_LIMITS, (uint64_t[SAVED_MEANINGS]){saved_of_double(excess)},
                     generations * sizeof *limits);
}

static int save_growing(struct saved_writer *w, struct cuckoo_snapshot *s)
{
  unsigned generation = 0;
  struct snapshot_piece piece;
  int result = TAMIS_OK;
  while (w->result == TAMIS_OK && (result = tamis__snapshot_next(s, &piece)) == TAMIS_OK) {
    while (generation < piece.generation->number)
      save_generation(w, cuckoo_generation(s->c, ++generation));
    save_growing_segment(w, &piece);
    save_removed(w, s);
    w->totals[TOTAL_SEGMENTS]++;
  }
  while (generation < s->generation)
    save_generation(w, cuckoo_generation(s->c, ++generation));
  save_removed(w, s);
  save_limits(w, s->c, generation + 1);
  return result == TAMIS_ABSENT ? TAMIS_OK : result;
}

/* ---- segments of a filter that does not grow ---- */

/* Returns where in the file it begins. */
static uint64_t save_array(struct saved_writer *w, const struct snapshot_piece *piece)
{
  enum { WORDS = SAVED_CHUNK / 16 };
  const struct cuckoo_geometry *g = &piece->generation->geometry;
  uint32_t buckets = (uint32_t) cuckoo_buckets(g);
  size_t padding = cuckoo_segment_bytes(g) - g->words_offset - (size_t) buckets * 8;
  tamis__saved_array_begin(w, cuckoo_segment_bytes(g));
  uint64_t begin = w->at;
  unsigned char *room = tamis__saved_array_room(w, g->words_offset);
  if (!room)
    return 0;
  memset(room, 0, g->words_offset);
  put_lanes_in_use(g, piece->used, room);
  tamis__saved_array(w, g->words_offset);
  for (uint32_t done = 0, n; done < buckets; done += n) {
    n = buckets - done < WORDS ? buckets - done : WORDS;
    room = tamis__saved_array_room(w, (size_t) n * 8 + padding);
    if (!room)
      return 0;
    put_words(piece->words + done, n, room);
    memset(room + (size_t) n * 8, 0, padding);
    tamis__saved_array(w, (size_t) n * 8 + (done + n == buckets ? padding : 0));
  }
  tamis__saved_array_end(w);
  return begin;
}

static void save_counts(struct saved_writer *w, const struct snapshot_piece *piece)
{
  const struct cuckoo_geometry *g = &piece->generation->geometry;
  uint32_t buckets = (uint32_t) cuckoo_buckets(g), n;
  for (uint32_t done = 0; done < buckets; done += n) {
    n = !piece->duplicates || buckets - done < SAVED_COUNTED ? buckets - done : SAVED_COUNTED;
    unsigned char *room = tamis__saved_block_room(w, piece->duplicates ? counts_room(g, n) : 0);
    if (!room)
      return;
    unsigned char *end = room;
    if (piece->duplicates)
      end = put_counts_of(piece, done, n, room, &w->totals[TOTAL_COPIES]);
    tamis__saved_block(w, SAVED_COUNTS,
                       (uint64_t[]){piece->index, done, piece->copying, done + n == buckets},
                       (size_t) (end - room));
  }
}

static void save_places(struct saved_writer *w, const uint64_t *places, uint64_t roots)
{
  w->totals[TOTAL_PLACES] = w->at;
  for (uint64_t done = 0, n; done < roots; done += n) {
    n = roots - done < SAVED_PLACED ? roots - done : SAVED_PLACED;
    unsigned char *room = tamis__saved_block_room(w, n * 8);
    if (!room)
      return;
    put_words(places + done, (uint32_t) n, room);
    tamis__saved_block(w, SAVED_PLACES, (uint64_t[SAVED_MEANINGS]){done}, n * 8);
  }
}

static int save_segments(struct saved_writer *w, struct cuckoo_snapshot *s, uint64_t *places)
{
  struct snapshot_piece piece;
  int result = TAMIS_OK;
  while (w->result == TAMIS_OK && (result = tamis__snapshot_next(s, &piece)) == TAMIS_OK) {
    places[piece.index] = save_array(w, &piece);
    save_counts(w, &piece);
    w->totals[TOTAL_ENTRIES] += piece.entries;
  }
  return result == TAMIS_ABSENT ? TAMIS_OK : result;
}

static int save_fixed(struct saved_writer *w, struct cuckoo_snapshot *s)
{
  uint64_t roots = cuckoo_roots(&cuckoo_generation(s->c, 0)->geometry);
  uint64_t *places = tamis__memory_allocate_cleared(&w->allocator, roots * 8, 0);
  if (!places)
    return TAMIS_ENOMEM;
  int result = save_segments(w, s, places);
  if (result == TAMIS_OK)
    save_places(w, places, roots);
  tamis__memory_release(&w->allocator, places, roots * 8);
  return result;
}

int tamis__cuckoo_save(const tamis_filter *f, struct saved_writer *w)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  struct cuckoo_snapshot s;
  int result = tamis__snapshot_begin(&s, c);
  if (result == TAMIS_OK)
    result = c->growable ? save_growing(w, &s) : save_fixed(w, &s);
  int error = errno; /* the user's function may have set it */
  tamis__snapshot_end(&s);
  errno = error;
  return w->result == TAMIS_OK ? result : w->result;
}
