/* SPDX-License-Identifier: MIT
 *
 * What a cuckoo filter takes and gives back, block by block.
 */
#include "unit.h"

#include "cuckoo.h"
#include "cuckoo_table.h"
#include "harness.h"

#include <stdlib.h>
#include <unistd.h>

/* An allocator that knows the size of each block. */
struct bank {
  size_t bytes;
};

enum { HEAD = 64 };

static void *bank_allocate(void *context, size_t alignment, size_t size)
{
  struct bank *bank = context;
  char *block = aligned_alloc(alignment, HEAD + (size + alignment - 1) / alignment * alignment);
  assert_non_null(block);
  *(size_t *) block = size;
  bank->bytes += size;
  return block + HEAD;
}

static void bank_release(void *context, void *block, size_t alignment, size_t size)
{
  struct bank *bank = context;
  (void) alignment;
  assert_int_equal(*(size_t *) ((char *) block - HEAD), size);
  bank->bytes -= size;
  free((char *) block - HEAD);
}

struct fixture {
  struct bank bank;
  tamis_allocator allocator;
  tamis_filter *filter;
  struct cuckoo *c;
  struct segment *segment;
};

static void begin(struct fixture *x, uint64_t more_bytes)
{
  *x = (struct fixture){.allocator = {bank_allocate, bank_release, &x->bank}};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 1000;
  options.seed = 42;
  options.allocator = &x->allocator;
  uint64_t bytes;
  assert_int_equal(tamis_bytes_for(&options, &bytes), TAMIS_OK);
  options.max_bytes = bytes + more_bytes;
  assert_int_equal(tamis_create(&options, &x->filter), TAMIS_OK);
  x->c = cuckoo_of(x->filter);
  x->segment = slot_segment(slot_load(&x->c->generation[0]->slots[0]));
}

static void end(struct fixture *x)
{
  assert_int_equal(x->c->bytes, x->bank.bytes);
  tamis_destroy(x->filter);
  assert_int_equal(x->bank.bytes, 0);
}

/* A side table goes back with its own size, whatever is in it when a larger one takes its place. */
static void a_side_table_is_given_back_as_it_was_taken(void **state)
{
  (void) state;
  for (size_t first = 1; first <= 40; first++)
    for (uint64_t used = 0; used <= first; used++) {
      struct fixture x;
      begin(&x, 1 << 20);
      assert_int_equal(tamis__segment_reserve_copies(x.c, x.segment, first), TAMIS_OK);
      for (uint64_t key = 1; key <= used; key++)
        assert_int_equal(tamis__segment_add_copy(x.c, x.segment, key, SIZE_MAX), TAMIS_OK);
      assert_int_equal(tamis__segment_reserve_copies(x.c, x.segment, 100), TAMIS_OK);
      struct copies *copies = atomic_load(&x.segment->copies);
      assert_true(tamis__copies_room(copies) >= used + 100);
      for (uint64_t key = 1; key <= used; key++)
        assert_int_equal(tamis__copies_find(copies, key)->count, 1);
      assert_int_equal(x.c->bytes, x.bank.bytes);
      end(&x);
    }
}

/* Another copy of what is there is always taken, another entry up to the limit. */
static void a_side_table_takes_no_more_entries_than_it_may(void **state)
{
  (void) state;
  for (size_t most = 1; most <= 20; most++) {
    struct fixture x;
    begin(&x, 1 << 20);
    for (uint64_t key = 1; key <= most + 5; key++) {
      int expected = key <= most ? TAMIS_OK : TAMIS_EFULL;
      assert_int_equal(tamis__segment_add_copy(x.c, x.segment, key, most), expected);
      assert_int_equal(tamis__segment_add_copy(x.c, x.segment, key, most), expected);
    }
    assert_int_equal(atomic_load(&x.segment->copies)->used, most);
    end(&x);
  }
}

/* What is retired and may be released is room, although it still counts. */
static void at_the_limit_memory_that_waits_is_released(void **state)
{
  (void) state;
  struct fixture x;
  const struct cuckoo_geometry *g;
  begin(&x, 1 << 20);
  g = &x.c->generation[0]->geometry;
  int result;
  struct segment *segment = tamis__segment_create(x.c, g, 0, 0, &result);
  assert_non_null(segment);
  tamis__segment_retire(x.c, g, segment);
  x.c->max_bytes = x.c->bytes; /* not a byte more, but for what is retired */
  void *block = NULL;
  double patience = harness_seconds() + 5;
  while (!block && harness_seconds() < patience) {
    block = tamis__cuckoo_get(x.c, g->segment_bytes, &result);
    assert_true(block || result == TAMIS_EFULL);
    usleep(1000);
  }
  assert_non_null(block);
  tamis__cuckoo_put(x.c, block, g->segment_bytes);
  end(&x);
}

/* A block that is larger than the limit by itself, however little is taken so far, even one so large that
 * the sum would come round. */
static void a_block_beyond_the_limit_is_refused(void **state)
{
  (void) state;
  struct fixture x;
  begin(&x, 1 << 20);
  const size_t sizes[] = {x.c->max_bytes + 1, SIZE_MAX - 64, SIZE_MAX};
  for (unsigned i = 0; i < 3; i++) {
    int result = TAMIS_OK;
    assert_null(tamis__cuckoo_get(x.c, sizes[i], &result));
    assert_int_equal(result, TAMIS_EFULL);
    assert_int_equal(x.c->bytes, x.bank.bytes);
  }
  end(&x);
}

/* The part of all lanes that is in use, those of all generations. */
static void occupancy_is_of_all_lanes(void **state)
{
  (void) state;
  struct fixture x;
  begin(&x, UINT64_C(1) << 40);
  for (uint64_t key = 0; key < 300000; key++) {
    assert_int_equal(tamis_add_hash(x.filter, key), TAMIS_OK);
    if (key % 20000)
      continue;
    tamis_stats s = stats_of(x.filter);
    uint64_t lanes = 0, entries = 0;
    for (unsigned i = 0; i < s.generations; i++) {
      struct generation *generation = x.c->generation[i];
      lanes += generation->segments * cuckoo_lanes(&generation->geometry);
      entries += cuckoo_count(generation, ENTRIES);
    }
    assert_true(s.occupancy == (double) entries / (double) lanes);
  }
  assert_true(stats_of(x.filter).generations > 1);
  end(&x);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_side_table_is_given_back_as_it_was_taken),
      cmocka_unit_test(a_side_table_takes_no_more_entries_than_it_may),
      cmocka_unit_test(at_the_limit_memory_that_waits_is_released),
      cmocka_unit_test(a_block_beyond_the_limit_is_refused),
      cmocka_unit_test(occupancy_is_of_all_lanes),
  };
  return cmocka_run_group_tests_name("cuckoo_table", tests, NULL, NULL);
}
