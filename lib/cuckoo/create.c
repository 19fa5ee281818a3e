/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the first block of a cuckoo filter.
 *
 *    small:   [home] struct cuckoo │ directory entry │ counters │ allocator, or filter_more
 *    other:   struct cuckoo │ slabs, directory entry │ filter_more │ hash secret
 *
 * A filter is small if its first generation has a single root with few buckets.  The block of a
 * small filter contains the memory of that root's first segment (the *home*, which mapped filters
 * lack), and a single shard of counters, which all threads share.  The last part exists only with a
 * user's allocator or hash function.  Other filters have directory, counters and segments
 * elsewhere.
 */
#include "cuckoo/cuckoo.h"

#include "base/memory.h"
#include "base/saved.h"
#include "cuckoo/directory.h"
#include "cuckoo/generation.h"
#include "cuckoo/memory.h"
#include "cuckoo/operations.h"
#include "cuckoo/segment.h"

enum { MOST_HOME_BUCKETS = SMALL(128, 8) };

enum { HOME_COUNTERS_BYTES = (LONGEST_GROWTH + 1) * sizeof(uint64_t) };

/* The bytes of the parts of a filter's first block.  The parts follow each other in this order. */
struct block {
  uint64_t home, filter, counters, more, secret;
};

static struct block block_of(const struct cuckoo_geometry *g, bool home, uint64_t more_bytes)
{
  bool has_slabs = g->shape.ages && !home;
  struct block b = {.filter = sizeof(struct cuckoo) + tamis__generation_tail_bytes(g, has_slabs),
                    .more = more_bytes};
  if (home) {
    b.home = cuckoo_home_bytes(g);
    b.counters = HOME_COUNTERS_BYTES;
  } else {
    b.more = sizeof(struct filter_more);
    b.secret = HASH_SECRET_BYTES;
  }
  return b;
}

static uint64_t block_bytes(const struct block *b)
{
  return b->home + b->filter + b->counters + b->more + b->secret;
}

static bool is_small(const struct cuckoo_geometry *g)
{
  return cuckoo_roots(g) == 1 && cuckoo_buckets(g) <= MOST_HOME_BUCKETS;
}

uint64_t tamis__cuckoo_more_bytes(bool own_allocator, bool own_hash)
{
  return own_hash ? sizeof(struct filter_more) : own_allocator ? sizeof(tamis_allocator) : 0;
}

static uint64_t more_bytes_of(const struct tamis_filter *head)
{
  return tamis__cuckoo_more_bytes(filter_allocator(head)->allocate, filter_has_own_hash(head));
}

uint64_t tamis__cuckoo_total_bytes(const struct cuckoo_geometry *g, uint64_t more_bytes)
{
  const struct block b = block_of(g, is_small(g), more_bytes);
  uint64_t bytes = block_bytes(&b), roots = cuckoo_roots(g);
  if (is_small(g))
    return bytes;
  bytes += cuckoo_shards(g) * sizeof(struct counter_shard) + roots * cuckoo_segment_bytes(g);
  if (roots > 1)
    bytes += cuckoo_directory_bytes(g) + (g->shape.ages ? sizeof(struct cuckoo_growth) : 0) +
             tamis__slab_heads(g);
  return bytes;
}

static void begin_more(struct cuckoo *c, const struct tamis_filter *head, const struct block *b,
                       char *at)
{
  c->head.keys = head->keys;
  if (b->secret)
    filter_begin(&c->head, head, (struct filter_more *) at, (unsigned char *) at + b->more);
  else if (b->more == sizeof(struct filter_more))
    filter_set_more(&c->head, memcpy(at, filter_more(head), (size_t) b->more));
  else if (b->more)
    filter_set_allocator(&c->head, memcpy(at, filter_allocator(head), (size_t) b->more));
}

/* The least n >= 1 for which 2^n >= cleared_from (tamis_options), or 0 if cleared_from is 0. */
static unsigned char cleared_bits(uint64_t cleared_from)
{
  unsigned char bits = 1;
  while (bits < 63 && cleared_from > UINT64_C(1) << bits)
    bits++;
  return cleared_from ? bits : 0;
}

struct cuckoo *tamis__cuckoo_begin(const struct tamis_filter *head, const tamis_options *o,
                                   const struct cuckoo_geometry *g, bool apart, uint64_t max_bytes,
                                   int *result)
{
  const struct block b = block_of(g, is_small(g) && !apart, more_bytes_of(head));
  const tamis_allocator *from = filter_allocator(head);
  *result = TAMIS_EFULL;
  if (max_bytes && block_bytes(&b) > max_bytes)
    return NULL;
  *result = TAMIS_ENOMEM;
  if (o->growable && !tamis__readers_init())
    return NULL;
  char *block = b.home ? tamis__memory_allocate_dense(from, block_bytes(&b))
                       : tamis__memory_allocate(from, block_bytes(&b));
  if (!block)
    return NULL;
  struct cuckoo *c = (struct cuckoo *) (void *) (block + b.home);
  char *counters = (char *) c + b.filter;
  begin_more(c, head, &b, counters + b.counters);
  operations_begin(&c->head, g->needs_second_hash ? &tamis__cuckoo_any
                             : o->growable        ? &tamis__cuckoo_growable
                                                  : &tamis__cuckoo_fixed);
  c->capacity = o->capacity;
  c->fpp = o->fpp;
  c->growable = o->growable;
  c->cleared_bits = cleared_bits(from->allocate ? o->cleared_from : 0);
  c->max_bytes = max_bytes;
  c->has_home = b.home > 0;
  c->bytes = block_bytes(&b);
  c->generations = 1;
  fullness_begin(&c->rooms);
  lock_init(&c->snapshots_lock);
  lock_init(&c->first.own_growth);
  *result = tamis__generation_begin_first(c, g, b.counters ? (void *) counters : NULL);
  if (*result == TAMIS_OK && o->growable && cuckoo_roots(g) > 1)
    *result = tamis__growth_provide(c);
  if (*result == TAMIS_OK) {
    if (tamis__slab_heads(g))
      generation_slabs(&c->first)->planned = tamis__cuckoo_total_bytes(g, b.more);
    return c;
  }
  tamis__cuckoo_destroy(&c->head);
  return NULL;
}

void tamis__cuckoo_destroy(tamis_filter *f)
{
  struct cuckoo *c = cuckoo_of(f);
  const tamis_allocator from = *filter_allocator(&c->head);
  const struct block b = block_of(&c->first.geometry, c->has_home, more_bytes_of(&c->head));
  struct mapped *mapped = c->growable ? NULL : c->mapped;
  struct cuckoo_growth *growth = cuckoo_has_growth(c);
  if (growth)
    tamis__backlog_destroy(&growth->backlog);
  for (unsigned i = cuckoo_generations(c); i-- > 0;)
    tamis__generation_destroy(c, cuckoo_generation(c, i));
  tamis__growth_destroy(c);
  lock_destroy(&c->snapshots_lock);
  lock_destroy(&c->first.own_growth);
  if (mapped)
    tamis__saved_unmap(&mapped->file);
  tamis__cuckoo_release(c, mapped, sizeof *mapped);
  tamis__memory_release(&from, (char *) c - b.home, block_bytes(&b));
}
