/* SPDX-License-Identifier: MIT
 *
 * What a generation and a slab take when they are made of memory of the user's.
 */
#include "cuckoo_unit.h"

#include "cuckoo/generation.h"
#include "cuckoo/growth.h"
#include "cuckoo/segment.h"
#include "saved_unit.h"

/* ---- an allocator whose large blocks say how much of them has been touched ---- */

/* Blocks of LARGE bytes and more come from the system, and so cleared, and others are full of bits. */
enum { LARGE = 1 << 20, MOST_BLOCKS = 64, PAGE = 4096 };

struct pages {
  void *block[MOST_BLOCKS];
  size_t size[MOST_BLOCKS];
  unsigned n;
};

static void *allocate_pages(void *context, size_t alignment, size_t size)
{
  struct pages *p = context;
  void *block = NULL;
  if (size < LARGE) {
    assert_int_equal(posix_memalign(&block, alignment, size), 0);
    return memset(block, 0x5a, size);
  }
  assert_in_range(p->n, 0, MOST_BLOCKS - 1);
  block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(block, MAP_FAILED);
  madvise(block, size, MADV_NOHUGEPAGE); /* single pages are counted */
  p->block[p->n] = block;
  p->size[p->n++] = size;
  return block;
}

static void release_pages(void *context, void *block, size_t alignment, size_t size)
{
  struct pages *p = context;
  (void) alignment;
  unsigned i = 0;
  while (i < p->n && p->block[i] != block)
    i++;
  if (i == p->n) {
    free(block);
    return;
  }
  assert_int_equal(p->size[i], size);
  munmap(block, size);
  p->block[i] = p->block[--p->n];
  p->size[i] = p->size[p->n];
}

static size_t bytes_touched(const struct pages *p, unsigned block)
{
  static unsigned char resident[1 << 17];
  size_t touched = 0;
  assert_in_range((p->size[block] + PAGE - 1) / PAGE, 1, sizeof resident);
  assert_int_equal(mincore(p->block[block], p->size[block], resident), 0);
  for (size_t at = 0; at < p->size[block]; at += PAGE)
    touched += resident[at / PAGE] & 1 ? PAGE : 0;
  return touched;
}

/* A filter so large that its segments are in slabs, and are not created with it. */
enum { CAPACITY = 30000000 };

/* A large filter begins without segments, and makes them as keys come.  Each walk of its directory finds all:
 * those that keys have created, and those that a file has brought. */
TEST(segments_of_a_large_directory_are_found)
{
  enum { KEYS = 300 };
  const tamis_options options = options_for(1000000000, 0.01);
  tamis_filter *f = make_with_options(&options);
  assert_true(cuckoo_mark_words(&cuckoo_generation(cuckoo_of(f), 0)->geometry) > 0);
  for (uint64_t key = 0; key < KEYS; key++)
    assert_int_equal(tamis_remove_hash(f, key), TAMIS_ABSENT);
  assert_int_equal(stats_of(f).segments, 0);
  assert_true(stats_of(f).bytes < options.capacity / 8); /* less than a bit for each key */
  add_range(f, 0, KEYS);
  assert_in_range(stats_of(f).segments, KEYS / 2, KEYS);
  assert_valid(f);
  struct bytes bytes = saved_bytes(f);
  tamis_filter *loaded;
  assert_int_equal(load_from(&bytes, NULL, &loaded), TAMIS_OK);
  assert_valid(loaded);
  assert_int_equal(stats_of(loaded).count, KEYS);
  free(bytes.data);
  tamis_destroy(loaded);
  tamis_destroy(f);
}

TEST(a_new_slab_is_touched_slot_by_slot)
{
  struct pages pages = {.n = 0};
  const tamis_allocator allocator = {allocate_pages, release_pages, &pages};
  tamis_options options = options_for(CAPACITY, 0.01);
  options.allocator = &allocator;
  tamis_filter *f = make_with_options(&options);
  struct cuckoo *c = cuckoo_of(f);
  const struct cuckoo_geometry *g = &cuckoo_generation(c, 0)->geometry;
  int result;
  struct segment *segment = tamis__segment_create(c, cuckoo_generation(c, 0), 0, 0, &result);
  assert_non_null(segment);
  assert_non_null(segment->slab);
  assert_ptr_equal(segment->slab, pages.block[pages.n - 1]);
  assert_true(bytes_touched(&pages, pages.n - 1) <= 2 * cuckoo_segment_bytes(g));
  tamis__segment_destroy(c, g, segment);
  tamis_destroy(f);
}

/* What the allocator has cleared is not cleared again, so it is not touched before keys come. */
TEST(large_blocks_may_come_cleared)
{
  enum { KEYS = 10000000, SOME = 20000 };
  for (unsigned i = 0; i < 4; i++) {
    struct pages pages = {.n = 0};
    const tamis_allocator allocator = {allocate_pages, release_pages, &pages};
    tamis_options options = options_for(KEYS, 0.01);
    options.growable = i % 2;
    options.allocator = &allocator;
    options.cleared_from = i < 2 ? LARGE : 0;
    tamis_filter *f = make_with_options(&options);
    struct generation *first = &cuckoo_of(f)->first;
    for (uint64_t root = 0; options.growable && root < cuckoo_roots(&first->geometry); root++)
      tamis__split_to(cuckoo_of(f), first, root << first->geometry.depth_limit, 0);
    assert_true(pages.n > 0);
    size_t touched = 0, all = 0;
    for (unsigned j = 0; j < pages.n; j++) {
      touched += bytes_touched(&pages, j);
      all += pages.size[j];
    }
    assert_true(i >= 2 || 10 * touched < 3 * all);
    uint64_t found = 0;
    for (uint64_t key = 0; key < SOME; key++) {
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
      found += tamis_contains_hash(f, key + SOME);
    }
    assert_in_range(found, 0, SOME / 100);
    assert_valid(f);
    tamis_destroy(f);
    assert_int_equal(pages.n, 0);
  }
}
