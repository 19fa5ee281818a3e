/* SPDX-License-Identifier: MIT
 *
 * What a generation and a slab take when they are made of memory of the user's.
 */
#include "cuckoo_unit.h"

#include "cuckoo/generation.h"
#include "cuckoo/segment.h"
#include "saved_unit.h"

#include <sys/mman.h>

/* ---- an allocator whose large blocks say how much of them has been touched ---- */

enum { LARGE = 1 << 20 };

struct mapper {
  char *last; /* the large block that was allocated last */
  size_t bytes;
};

static void *map(void *context, size_t alignment, size_t size)
{
  struct mapper *mapper = context;
  if (size < LARGE)
    return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
  char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED)
    return NULL;
  madvise(block, size, MADV_NOHUGEPAGE); /* single pages are counted */
  mapper->last = block;
  mapper->bytes = size;
  return block;
}

static void unmap(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) alignment;
  if (size < LARGE)
    free(block);
  else
    munmap(block, size);
}

static size_t bytes_touched(const struct mapper *mapper)
{
  size_t page = (size_t) sysconf(_SC_PAGESIZE), pages = (mapper->bytes + page - 1) / page;
  unsigned char *resident = malloc(pages);
  assert_non_null(resident);
  assert_int_equal(mincore(mapper->last, mapper->bytes, resident), 0);
  size_t touched = 0;
  for (size_t i = 0; i < pages; i++)
    touched += resident[i] & 1;
  free(resident);
  return touched * page;
}

/* A filter so large that its segments are in slabs, and are not created with it. */
enum { CAPACITY = 30000000 };

static void a_new_generation_touches_little_of_its_directory(void **state)
{
  (void) state;
  struct mapper mapper = {0};
  const tamis_allocator allocator = {map, unmap, &mapper};
  tamis_options options = options_for(CAPACITY, 0.01);
  options.allocator = &allocator;
  tamis_filter *f = make_with(&options);
  struct cuckoo *c = cuckoo_of(f);
  struct cuckoo_geometry next;
  int result;
  assert_int_equal(cuckoo_geometry_next(&cuckoo_generation(c, 0)->geometry,
                                        UINT64_C(128) * CAPACITY, 0.005, &next),
                   TAMIS_OK);
  struct generation *generation = tamis__generation_create(c, &next, &result);
  assert_non_null(generation);
  size_t directory = cuckoo_directory_bytes(&next);
  assert_int_equal(mapper.bytes, directory);
  assert_true(bytes_touched(&mapper) <= directory / 100);

  /* So does whoever looks for its segments. */
  const struct mapper of_directory = mapper;
  const uint64_t root = cuckoo_roots(&next) - MARKED_ROOTS - 7;
  struct segment_cursor cursor = {0};
  assert_true(cuckoo_mark_words(&next) > 0);
  assert_null(segment_next(generation, &cursor));
  struct segment *segment = tamis__segment_create(c, generation, 0, 0, &result);
  assert_non_null(segment);
  generation_mark_root(generation, root);
  directory_publish(generation_root_entry(&next, generation, root, 0), directory_value_of(segment));
  cursor = (struct segment_cursor){0};
  assert_ptr_equal(segment_next(generation, &cursor), segment);
  assert_int_equal(cuckoo_root_of_index(&next, cursor.first), root);
  assert_null(segment_next(generation, &cursor));
  assert_true(bytes_touched(&of_directory) <= directory / 100);
  tamis__generation_destroy(c, generation);
  tamis_destroy(f);
}

/* Each walk of a large directory finds all segments: those that keys have created, and those that a file
 * has brought. */
static void segments_of_a_large_directory_are_found(void **state)
{
  (void) state;
  enum { KEYS = 300 };
  const tamis_options options = options_for(1000000000, 0.01);
  tamis_filter *f = make_with(&options);
  assert_true(cuckoo_mark_words(&cuckoo_generation(cuckoo_of(f), 0)->geometry) > 0);
  add_range(f, 0, KEYS);
  assert_valid(f);
  struct bytes bytes = saved_bytes(f);
  struct source source = source_of(&bytes);
  tamis_filter *loaded;
  assert_int_equal(tamis_load(NULL, read_source, &source, &loaded), TAMIS_OK);
  assert_valid(loaded);
  assert_int_equal(stats_of(loaded).count, KEYS);
  free(bytes.data);
  tamis_destroy(loaded);
  tamis_destroy(f);
}

static void a_new_slab_is_touched_slot_by_slot(void **state)
{
  (void) state;
  struct mapper mapper = {0};
  const tamis_allocator allocator = {map, unmap, &mapper};
  tamis_options options = options_for(CAPACITY, 0.01);
  options.allocator = &allocator;
  tamis_filter *f = make_with(&options);
  struct cuckoo *c = cuckoo_of(f);
  const struct cuckoo_geometry *g = &cuckoo_generation(c, 0)->geometry;
  int result;
  struct segment *segment = tamis__segment_create(c, cuckoo_generation(c, 0), 0, 0, &result);
  assert_non_null(segment);
  assert_non_null(segment->slab);
  assert_ptr_equal(segment->slab, mapper.last);
  assert_true(bytes_touched(&mapper) <= 2 * cuckoo_segment_bytes(g));
  tamis__segment_destroy(c, g, segment);
  tamis_destroy(f);
}

/* The bank's memory is dirty, and what is not cleared is not read. */
static void dirty_directories_do_no_harm(void **state)
{
  (void) state;
  enum { N = 100000 / SCALE };
  struct bank bank = {0};
  const tamis_allocator allocator = {bank_allocate, bank_release, &bank};
  tamis_options options = options_for(100, 0.2);
  options.allocator = &allocator;
  tamis_filter *f = make_with(&options);
  for (uint64_t n = 0; n < N; n += N / 10) {
    add_range(f, n, n + N / 10);
    assert_valid(f);
    for (uint64_t i = n + N / 10; i < n + N / 5; i++)
      (void) tamis_contains_hash(f, i);
  }
  assert_true(stats_of(f).generations > 1);
  assert_all_in(f, 0, N);
  remove_range(f, 0, N);
  assert_valid(f);
  tamis_destroy(f);
  assert_int_equal(bank.blocks, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_new_generation_touches_little_of_its_directory),
      cmocka_unit_test(segments_of_a_large_directory_are_found),
      cmocka_unit_test(a_new_slab_is_touched_slot_by_slot),
      cmocka_unit_test(dirty_directories_do_no_harm),
  };
  return cmocka_run_group_tests_name("cuckoo_generation", tests, NULL, NULL);
}
