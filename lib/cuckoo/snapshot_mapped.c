/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a snapshot of a mapped filter, which does not change and has no locks.  The duplicate
 * counts of a segment are in the blocks that follow it in the file.
 */
#include "cuckoo/snapshot.h"

#include "base/memory.h"
#include "table/image.h"

#include <string.h>

int tamis__mapped_counts(struct saved_reader *r, const struct saved_mapping *file,
                         const struct cuckoo_geometry *g, const struct segment *segment)
{
  const char *end = (const char *) segment + cuckoo_segment_bytes(g);
  uint32_t type;
  *r = (struct saved_reader){.mapping = file->at, .mapping_size = file->size};
  int result = tamis__saved_jump(r, (uint64_t) (end - (const char *) file->at));
  struct saved_block sums;
  while (result == TAMIS_OK && (result = tamis__saved_peek(r, &type)) == TAMIS_OK &&
         type == SAVED_SUMS)
    result = tamis__saved_read_block(r, &sums);
  return result;
}

static void *allocate_counts(void *context, uint64_t size)
{
  struct cuckoo_snapshot *s = context;
  return tamis__memory_allocate(filter_allocator(&s->c->head), size);
}

static void release_counts(void *context, void *block, uint64_t size)
{
  struct cuckoo_snapshot *s = context;
  tamis__memory_release(filter_allocator(&s->c->head), block, size);
}

void tamis__snapshot_release_read(struct cuckoo_snapshot *s)
{
  struct counts_memory memory = {NULL, allocate_counts, release_counts, s};
  if (s->read)
    tamis__counts_clear(s->read, &memory);
  release_counts(s, s->read, s->read ? tamis__counts_bytes(s->read->buckets) : 0);
  s->read = NULL;
}

static int give_counts(void *context, uint64_t first, uint64_t counts[COUNTS_POSITIONS])
{
  struct cuckoo_snapshot *s = context;
  struct counts_memory memory = {NULL, allocate_counts, release_counts, s};
  unsigned block = (unsigned) (first / s->read->lanes / COUNTS_BUCKETS);
  const struct counts_source from = counts_of_array(counts);
  return tamis__counts_write(s->read, &memory, block, &from, false) ? TAMIS_OK : TAMIS_ENOMEM;
}

static int provide_counts(struct cuckoo_snapshot *s, const struct cuckoo_geometry *g)
{
  if (s->read)
    return TAMIS_OK;
  s->read = allocate_counts(s, tamis__counts_bytes(cuckoo_buckets(g)));
  if (!s->read)
    return TAMIS_ENOMEM;
  tamis__counts_init(s->read, cuckoo_buckets(g), g->shape.lanes);
  return TAMIS_OK;
}

static int read_counts(struct cuckoo_snapshot *s, const struct cuckoo_geometry *g,
                       const struct segment *segment)
{
  struct saved_reader r;
  struct image_table table = {
      .shape = &g->shape, .words = s->words.at, .n = cuckoo_buckets(g), .table = s->copied.index};
  struct lane_counts_reader counts;
  uint64_t copies = 0;
  int result = tamis__mapped_counts(&r, &cuckoo_mapped(s->c)->file, g, segment);
  while (result == TAMIS_OK &&
         (result = image_load_counts(&r, &table, &counts, &copies)) == TAMIS_OK) {
    result = provide_counts(s, g);
    if (result == TAMIS_OK)
      result = tamis__image_give(counts, COUNTS_BUCKETS * g->shape.lanes, give_counts, s);
  }
  s->copied.duplicates = s->read;
  return result == TAMIS_ABSENT ? TAMIS_OK : result;
}

int tamis__snapshot_copy_mapped(struct cuckoo_snapshot *s, const struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  const struct segment *segment =
      directory_segment(directory_load(&generation->directory[s->index]));
  memcpy(s->words.at, segment_words(g, segment), (size_t) cuckoo_buckets(g) * sizeof(uint64_t));
  tamis__snapshot_release_read(s);
  snapshot_describe(s, g, segment, s->index++, NULL);
  s->copied.depth = 0; /* a damaged file may say otherwise */
  return read_counts(s, g, segment);
}
