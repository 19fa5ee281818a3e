/* SPDX-License-Identifier: MIT
 *
 * Races of a union of two cuckoo filters with calls on either, each replayed exactly.
 */
#include "cuckoo_schedule.h"

#include "filter_unit.h"

/* As tamis_create makes them. */
static tamis_filter *make_usual(uint64_t capacity)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = capacity;
  options.seed = 42;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  return f;
}

static void add_range(tamis_filter *f, uint64_t from, uint64_t to)
{
  for (uint64_t i = from; i < to; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
}

static void finish_merge(struct call *call)
{
  assert_int_equal(finish(call), TAMIS_OK);
  assert_valid(call->filter);
  assert_valid(call->from);
}

static void destroy(struct call *call)
{
  tamis_destroy(call->filter);
  tamis_destroy(call->from);
}

/* The union has found the segment for an entry when the segment joins its sibling: it begins again
 * at the directory. */
static void a_segment_leaves_before_an_entry_comes(void **state)
{
  (void) state;
  struct call m = {.filter = make_usual(1000), .from = make_usual(1000)};
  uint64_t first = 100, next = 3000;
  add_range(m.from, 7, 8);
  add_range(m.filter, first, next);
  assert_true(stats_of(m.filter).growths > 0);
  stop_at(&m, "cuckoo_union_pair_found");
  while (stats_of(m.filter).joins == 0)
    assert_int_equal(tamis_remove_hash(m.filter, first++), TAMIS_OK);
  schedule_go();
  finish_merge(&m);
  assert_true(tamis_contains_hash(m.filter, 7));
  assert_int_equal(tamis_remove_hash(m.filter, 7), TAMIS_OK);
  for (uint64_t i = first; i < next; i++)
    assert_true(tamis_contains_hash(m.filter, i));
  destroy(&m);
}

/* A unique add has missed a key under its stripes when a union brings it: the union waits, and the
 * key is in twice. */
static void a_union_waits_for_a_unique_add(void **state)
{
  (void) state;
  struct call m = {.filter = make_usual(1000), .from = make_usual(1000)};
  add_range(m.from, 7, 8);
  struct call a = {.filter = m.filter, .hash = 7, .function = tamis_add_unique_hash};
  start_and_stop(&a, "cuckoo_unique_checked");
  start_beside(&m);
  assert_false(tamis_contains_hash(m.filter, 7));
  assert_int_equal(go_on(&a), TAMIS_OK);
  finish_merge(&m);
  assert_int_equal(stats_of(m.filter).count, 2);
  assert_int_equal(tamis_add_unique_hash(m.filter, 7), TAMIS_PRESENT);
  assert_int_equal(tamis_remove_hash(m.filter, 7), TAMIS_OK);
  assert_int_equal(tamis_remove_hash(m.filter, 7), TAMIS_OK);
  assert_int_equal(tamis_remove_hash(m.filter, 7), TAMIS_ABSENT);
  destroy(&m);
}

/* The first segment of an older generation has been copied when a key that has its entry there is
 * removed, and added again.  The new entry stands in the newest generation, and comes later.  The
 * key has one copy in the union. */
static void a_key_that_leaves_and_comes_again_comes_once(void **state)
{
  (void) state;
  const uint64_t keys = 4000;
  struct call m = {.filter = make_usual(10), .from = make_usual(10)};
  add_range(m.from, 0, keys);
  assert_true(stats_of(m.from).generations > 1);
  const struct cuckoo_geometry *g = &cuckoo_generation(cuckoo_of(m.from), 0)->geometry;
  uint64_t key = 0;
  while (cuckoo_address(g, hash_mix(&m.from->keys, key)).index > 0)
    key++;
  assert_true(key < keys / 4);
  stop_at(&m, "cuckoo_union_piece");
  assert_int_equal(tamis_remove_hash(m.from, key), TAMIS_OK);
  assert_int_equal(tamis_add_hash(m.from, key), TAMIS_OK);
  schedule_go();
  finish_merge(&m);
  assert_int_equal(stats_of(m.filter).count, keys);
  for (uint64_t i = 0; i < keys; i++)
    assert_int_equal(tamis_remove_hash(m.filter, i), TAMIS_OK);
  assert_int_equal(stats_of(m.filter).count, 0);
  destroy(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_segment_leaves_before_an_entry_comes),
      cmocka_unit_test(a_union_waits_for_a_unique_add),
      cmocka_unit_test(a_key_that_leaves_and_comes_again_comes_once),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule_unite", tests, NULL, NULL);
}
