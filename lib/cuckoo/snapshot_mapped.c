/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a snapshot of a mapped filter.  Nothing changes in it, and nothing can be locked.  The
 * duplicate counts of a segment are in the blocks that follow it in the file.
 */
#include "cuckoo/snapshot.h"

#include "base/memory.h"
#include "cuckoo/counts.h"

#include <string.h>

static void *allocate_counts(void *context, size_t size)
{
  struct cuckoo_snapshot *s = context;
  return tamis__memory_allocate(filter_allocator(&s->c->head), size);
}

static void release_counts(void *context, void *block, size_t size)
{
  struct cuckoo_snapshot *s = context;
  tamis__memory_release(filter_allocator(&s->c->head), block, size);
}

void tamis__snapshot_release_read(struct cuckoo_snapshot *s)
{
  struct duplicates_memory memory = {NULL, allocate_counts, release_counts, s};
  if (s->read)
    tamis__duplicates_clear(s->read, &memory);
  release_counts(s, s->read, s->read ? tamis__duplicates_bytes(s->read->buckets) : 0);
  s->read = NULL;
}

static int read_counts(struct cuckoo_snapshot *s, const struct cuckoo_geometry *g,
                       const struct saved_block *block)
{
  struct duplicates_memory memory = {NULL, allocate_counts, release_counts, s};
  struct saved_counts counts = {.at = block->payload, .end = block->payload + block->size};
  uint32_t buckets = (uint32_t) cuckoo_buckets(g), first = (uint32_t) block->meanings[1];
  if (block->meanings[1] % DUPLICATES_BUCKETS || block->meanings[1] > buckets ||
      !saved_counts_next(&counts))
    return TAMIS_ECORRUPT;
  for (; counts.count && first < buckets; first += DUPLICATES_BUCKETS) {
    uint64_t to[DUPLICATES_POSITIONS];
    uint32_t n = buckets - first < DUPLICATES_BUCKETS ? buckets - first : DUPLICATES_BUCKETS;
    if (!s->read) {
      s->read = allocate_counts(s, tamis__duplicates_bytes(buckets));
      if (!s->read)
        return TAMIS_ENOMEM;
      tamis__duplicates_init(s->read, buckets, g->shape.lanes);
    }
    if (!tamis__counts_spread(&g->shape, s->words + first, n, &counts, to))
      return TAMIS_ECORRUPT;
    if (!tamis__duplicates_write(s->read, &memory, first / DUPLICATES_BUCKETS, to, false))
      return TAMIS_ENOMEM;
  }
  s->copied.counts = s->read != NULL;
  return TAMIS_OK;
}

int tamis__snapshot_copy_mapped(struct cuckoo_snapshot *s, const struct generation *generation)
{
  const struct cuckoo_geometry *g = &generation->geometry;
  const struct saved_mapping *file = &cuckoo_mapped(s->c)->file;
  const struct segment *segment =
      directory_segment(directory_load(generation_directory_entry(generation, s->index)));
  memcpy(s->words, segment_words(g, segment), cuckoo_buckets(g) * sizeof(uint64_t));
  tamis__snapshot_release_read(s);
  s->copied.counts = false;
  s->copied.first = s->copied.at = s->index;
  s->copied.end = ++s->index;
  s->copied.entries = segment_used(g, segment);
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    s->copied.used[i] = stripe_used(&segment_stripes(segment)[i]);
  struct saved_reader r;
  struct saved_block block = {0};
  int result = tamis__counts_begin(&r, file, (const char *) segment + cuckoo_segment_bytes(g));
  while (result == TAMIS_OK && (result = tamis__counts_read_block(&r, &block)) == TAMIS_OK) {
    s->copied.copying = (uint32_t) block.meanings[2];
    result = read_counts(s, g, &block);
  }
  return result == TAMIS_ABSENT ? TAMIS_OK : result;
}
