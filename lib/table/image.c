/* SPDX-License-Identifier: MIT */
#include "table/image.h"

#include "base/memory.h"

static uint64_t least_of(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

void tamis__image_block(struct saved_writer *w, uint32_t type,
                        const uint64_t meanings[SAVED_MEANINGS], const uint64_t *words, uint64_t n)
{
  unsigned char *room = tamis__saved_block_room(w, (size_t) n * 8);
  if (!room)
    return;
  for (uint64_t i = 0; i < n; i++)
    saved_put64(room + i * 8, words[i]);
  tamis__saved_block(w, type, meanings, (size_t) n * 8);
}

bool tamis__image_is(const struct saved_block *block, uint32_t type,
                     const uint64_t meanings[SAVED_MEANINGS], uint64_t n)
{
  return block->type == type && block->size == n * 8 &&
         memcmp(block->meanings, meanings, sizeof block->meanings) == 0;
}

void tamis__image_row(struct saved_writer *w, uint32_t type, uint64_t table,
                      const uint64_t *numbers, uint64_t n)
{
  for (uint64_t done = 0, part; done < n && w->result == TAMIS_OK; done += part) {
    part = least_of(n - done, IMAGE_ROW);
    tamis__image_block(w, type, (uint64_t[SAVED_MEANINGS]){table, done}, numbers + done, part);
  }
}

int tamis__image_read_row(struct saved_reader *r, uint32_t type, uint64_t table, uint64_t n,
                          uint64_t *done, struct saved_block *block)
{
  const uint64_t part = least_of(n - *done, IMAGE_ROW);
  int result = tamis__saved_read_block(r, block);
  if (result == TAMIS_OK &&
      !tamis__image_is(block, type, (uint64_t[SAVED_MEANINGS]){table, *done}, part))
    result = TAMIS_ECORRUPT;
  *done += part;
  return result;
}

bool tamis__lane_counts_reserve(struct lane_counts *counts, const tamis_allocator *allocator,
                                size_t more)
{
  if (more <= counts->room - counts->size)
    return true;
  size_t room = counts->size + more > 2 * counts->room ? counts->size + more : 2 * counts->room;
  unsigned char *bytes = tamis__memory_grow(allocator, counts->bytes, counts->room, room);
  if (!bytes)
    return false;
  counts->bytes = bytes;
  counts->room = room;
  return true;
}

void tamis__lane_counts_release(struct lane_counts *counts, const tamis_allocator *allocator)
{
  tamis__memory_release(allocator, counts->bytes, counts->room);
  *counts = (struct lane_counts){0};
}

bool tamis__image_next(struct lane_counts_reader *r, unsigned lanes, uint64_t *first,
                       uint64_t counts[COUNTS_POSITIONS])
{
  if (!r->count && !lane_counts_next(r)) /* r->count: the last call has read one count too many */
    return false;
  *first = r->lane / lanes * lanes;
  memset(counts, 0, COUNTS_POSITIONS * sizeof *counts);
  do {
    counts[r->lane % lanes] = r->count;
    r->count = 0;
  } while (lane_counts_next(r) && r->lane - *first < lanes);
  return true;
}

static void begin_block(struct image_counts *to, uint64_t first)
{
  const uint64_t words = least_of(to->words - first, IMAGE_COUNTED);
  to->first = first;
  to->counts = (struct lane_counts){
      .bytes = tamis__saved_block_room(to->w, (size_t) words * to->lanes * IMAGE_COUNT_IN_BLOCK),
      .next = first * to->lanes};
}

void tamis__image_count(struct image_counts *to, uint64_t lane, uint64_t count)
{
  const uint64_t first = lane / to->lanes / IMAGE_COUNTED * IMAGE_COUNTED;
  if (to->counts.bytes && first != to->first)
    tamis__image_counts_end(to);
  if (!to->counts.bytes)
    begin_block(to, first);
  if (!to->counts.bytes)
    return;
  lane_counts_add(&to->counts, lane, count);
  to->copies += count;
}

void tamis__image_counts_end(struct image_counts *to)
{
  if (to->counts.bytes)
    tamis__saved_block(to->w, SAVED_COUNTS, (uint64_t[SAVED_MEANINGS]){to->table, to->first},
                       to->counts.size);
  to->counts.bytes = NULL;
}

int tamis__image_read_counts(struct saved_reader *r, struct image_table *t,
                             struct lane_counts_reader *out)
{
  struct saved_block block;
  uint32_t type;
  int result = tamis__saved_peek(r, &type);
  if (result != TAMIS_OK || type != SAVED_COUNTS)
    return result == TAMIS_OK ? TAMIS_ABSENT : result;
  result = tamis__saved_read_block(r, &block);
  if (result != TAMIS_OK)
    return result;
  const uint64_t first = block.meanings[1];
  if (block.meanings[0] != t->table || first < t->end || first >= t->n || first % IMAGE_COUNTED ||
      block.meanings[2] || block.meanings[3] || !block.size)
    return TAMIS_ECORRUPT;
  t->first = first;
  t->end = first + least_of(t->n - first, IMAGE_COUNTED);
  *out = (struct lane_counts_reader){
      .at = block.payload, .end = block.payload + block.size, .next = first * t->shape->lanes};
  return TAMIS_OK;
}

int tamis__image_load_counts(struct saved_reader *r, struct image_table *t,
                             struct lane_counts_reader *out, uint64_t *copies)
{
  const struct lane_shape *s = t->shape;
  int result = tamis__image_read_counts(r, t, out);
  if (result != TAMIS_OK)
    return result;
  struct lane_counts_reader counts = *out;
  while (lane_counts_next(&counts)) {
    if (counts.lane >= t->end * s->lanes || counts.count >= saved_most_copies - *copies ||
        !lane_get(s, t->words[counts.lane / s->lanes], (unsigned) (counts.lane % s->lanes)))
      return TAMIS_ECORRUPT;
    *copies += counts.count;
  }
  return counts.wrong ? TAMIS_ECORRUPT : TAMIS_OK;
}

int tamis__image_load_plane(struct saved_reader *r, struct image_table *t, plane *p,
                            struct budget *budget, bool spare, uint64_t *copies)
{
  const struct plane_size size = {t->n, t->shape->lanes};
  uint64_t first, all[COUNTS_POSITIONS];
  const struct counts_source from = {.array = all};
  struct lane_counts_reader counts;
  int result;
  while ((result = tamis__image_load_counts(r, t, &counts, copies)) == TAMIS_OK)
    while (p && tamis__image_next(&counts, COUNTS_BUCKETS * size.lanes, &first, all))
      if (!tamis__plane_write(p, size, budget, (unsigned) (first / size.lanes / COUNTS_BUCKETS),
                              &from, spare))
        return budget->result;
  return result == TAMIS_ABSENT ? TAMIS_OK : result;
}
