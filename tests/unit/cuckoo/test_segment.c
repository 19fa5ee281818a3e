/* SPDX-License-Identifier: MIT
 *
 * The duplicate counts that a segment owns.
 */
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
TEST(counts_take_memory_while_there_are_any)
{
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
      assert_int_equal(tamis__segment_add_copies(x.c, geometry_of(&x), x.segment,
                                                 lane_at(&x, i % n * 7), UINT64_MAX, true),
                       TAMIS_OK);
    assert_false(has_duplicates(x.segment));
    assert_int_equal(tamis__segment_add_copies(x.c, geometry_of(&x), x.segment, lane_at(&x, 0),
                                               UINT64_MAX, true),
                     TAMIS_ABSENT);
    assert_int_equal(x.bank.bytes, before);
  }
  end(&x);
}
