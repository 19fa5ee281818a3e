/* SPDX-License-Identifier: MIT
 *
 * The duplicate table that a segment owns.
 */
#include "unit.h"

#include "cuckoo/segment.h"
#include "cuckoo_unit.h"

/* A side table goes back with its own size, whatever is in it when a larger one takes its place. */
static void a_side_table_is_given_back_as_it_was_taken(void **state)
{
  (void) state;
  for (size_t first = 1; first <= 40; first++)
    for (uint64_t used = 0; used <= first; used++) {
      struct fixture x;
      begin(&x, 1 << 20);
      assert_int_equal(tamis__segment_reserve_duplicates(x.c, x.segment, first), TAMIS_OK);
      for (uint64_t key = 1; key <= used; key++)
        assert_int_equal(tamis__segment_add_duplicate(x.c, x.segment, key, SIZE_MAX), TAMIS_OK);
      assert_int_equal(tamis__segment_reserve_duplicates(x.c, x.segment, 100), TAMIS_OK);
      struct duplicate_table *copies = atomic_load(&x.segment->duplicates);
      assert_true(tamis__duplicates_capacity(copies) >= used + 100);
      for (uint64_t key = 1; key <= used; key++)
        assert_int_equal(tamis__duplicates_find(copies, key)->count, 1);
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
      assert_int_equal(tamis__segment_add_duplicate(x.c, x.segment, key, most), expected);
      assert_int_equal(tamis__segment_add_duplicate(x.c, x.segment, key, most), expected);
    }
    assert_int_equal(atomic_load(&x.segment->duplicates)->used, most);
    end(&x);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_side_table_is_given_back_as_it_was_taken),
      cmocka_unit_test(a_side_table_takes_no_more_entries_than_it_may),
  };
  return cmocka_run_group_tests_name("cuckoo_segment", tests, NULL, NULL);
}
