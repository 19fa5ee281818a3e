/* SPDX-License-Identifier: MIT
 *
 * The duplicate counts that a segment owns.
 */
#include "unit.h"

#include "cuckoo/segment.h"
#include "cuckoo_unit.h"

static const struct cuckoo_geometry *geometry_of(const struct fixture *x)
{
  return &cuckoo_generation(x->c, 0)->geometry;
}

static struct lane lane_at(const struct fixture *x, uint64_t i)
{
  const struct cuckoo_geometry *g = geometry_of(x);
  return (struct lane){(uint32_t) (i / g->shape.lanes % cuckoo_buckets(g)),
                       (unsigned) (i % g->shape.lanes)};
}

/* Memory is given back with the last count, in whatever order counts come and go. */
static void counts_take_memory_while_there_are_any(void **state)
{
  (void) state;
  struct fixture x;
  begin(&x, 1 << 20);
  size_t before = x.bank.bytes;
  for (uint64_t n = 1; n <= 2000; n = n * 2 + 1) {
    for (uint64_t i = 0; i < n; i++)
      assert_int_equal(
          tamis__segment_add_copies(x.c, geometry_of(&x), x.segment, lane_at(&x, i * 7), 2, false),
          TAMIS_OK);
    assert_true(has_duplicates(x.segment));
    assert_true(x.bank.bytes > before);
    assert_int_equal(x.c->bytes, x.bank.bytes);
    for (uint64_t i = 0; i < 2 * n; i++)
      assert_int_equal(
          tamis__segment_remove_copy(x.c, geometry_of(&x), x.segment, lane_at(&x, i % n * 7)),
          TAMIS_OK);
    assert_false(has_duplicates(x.segment));
    assert_int_equal(tamis__segment_remove_copy(x.c, geometry_of(&x), x.segment, lane_at(&x, 0)),
                     TAMIS_ABSENT);
    assert_int_equal(x.bank.bytes, before);
  }
  end(&x);
}

/* A count that is moved is in one lane before and in another one after; where memory is refused, it
 * stays. */
static void a_moved_count_is_in_one_lane(void **state)
{
  (void) state;
  for (unsigned fail = 0; fail < 6; fail++) {
    struct fixture x;
    begin(&x, 1 << 20);
    const struct cuckoo_geometry *g = geometry_of(&x);
    struct lane from = {0, 0}, to = {(uint32_t) cuckoo_buckets(g) - 1, 1};
    for (uint64_t i = 0; i < 8; i++) /* more would need another block of memory */
      assert_int_equal(tamis__segment_add_copies(x.c, g, x.segment, lane_at(&x, i), 5, false),
                       TAMIS_OK);
    size_t bytes = x.bank.bytes;
    x.bank.fail_at = fail ? x.bank.calls + fail : 0;
    int result = tamis__segment_move_copies(x.c, g, x.segment, from, to, fail % 2, false);
    bool moved = result == TAMIS_OK;
    assert_true(moved || result == TAMIS_ENOMEM);
    assert_true(moved || x.bank.bytes == bytes);
    assert_int_equal(tamis__segment_copies(x.segment, from), moved ? 0 : 5);
    assert_int_equal(tamis__segment_copies(x.segment, to), moved ? 5 + fail % 2 : 0);
    x.bank.fail_at = 0;
    end(&x);
  }
}

/* A first count needs two blocks of memory: without the second, the first is given back. */
static void a_refused_count_leaves_nothing(void **state)
{
  (void) state;
  for (unsigned fail = 1; fail <= 2; fail++) {
    struct fixture x;
    begin(&x, 1 << 20);
    size_t bytes = x.bank.bytes;
    size_t object = tamis__counts_bytes((uint32_t) cuckoo_buckets(geometry_of(&x)));
    x.bank.fail_at = x.bank.calls + fail;
    assert_int_equal(
        tamis__segment_add_copies(x.c, geometry_of(&x), x.segment, lane_at(&x, 3), 1, false),
        TAMIS_ENOMEM);
    assert_int_equal(x.bank.bytes, bytes);
    assert_false(has_duplicates(x.segment));
    x.bank.fail_at = 0;
    end(&x);
    begin(&x, fail == 1 ? 0 : object);
    assert_int_equal(
        tamis__segment_add_copies(x.c, geometry_of(&x), x.segment, lane_at(&x, 3), 1, false),
        TAMIS_EFULL);
    assert_false(has_duplicates(x.segment));
    end(&x);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_take_memory_while_there_are_any),
      cmocka_unit_test(a_moved_count_is_in_one_lane),
      cmocka_unit_test(a_refused_count_leaves_nothing),
  };
  return cmocka_run_group_tests_name("cuckoo_segment", tests, NULL, NULL);
}
