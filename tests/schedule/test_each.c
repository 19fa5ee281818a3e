/* SPDX-License-Identifier: MIT
 *
 * A call with many filters, stopped between the fetch of their memory and the look-ups.  Built with
 * the hooks.
 */
#include "calls.h"

/* While a call with many filters stands between the fetch and the look-ups, a key is added to the
 * first filter and then, in a layer that opens now, to the second one.  The filters are looked up in
 * their order: so whoever finds the key in the first one finds it in the second one. */
static int contains_each(struct call *call)
{
  bool found[8];
  tamis_contains_each_hash(call->context, 8, call->hash, found);
  return found[0] && !found[1] ? TAMIS_ABSENT : found[0] ? TAMIS_PRESENT : TAMIS_OK;
}

static void a_filter_that_grows_after_the_fetch_is_searched_in_all_layers(void **state)
{
  (void) state;
  const tamis_filter *filters[8];
  tamis_filter *first = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  tamis_filter *second = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  const uint64_t wanted = 1 << 20;
  for (unsigned i = 0; i < 8; i++)
    filters[i] = i == 1 ? second : first;
  struct call a = {.filter = first, .hash = wanted, .whole = contains_each, .context = filters};
  stop_at(&a, "each_fetched");
  assert_int_equal(tamis_add_hash(first, wanted), TAMIS_OK);
  for (uint64_t i = 0; stats_of(second).layers < 2; i++)
    assert_int_equal(tamis_add_hash(second, i), TAMIS_OK);
  assert_int_equal(tamis_add_hash(second, wanted), TAMIS_OK);
  assert_int_equal(go_on(&a), TAMIS_PRESENT);
  tamis_destroy(first), tamis_destroy(second);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_filter_that_grows_after_the_fetch_is_searched_in_all_layers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
