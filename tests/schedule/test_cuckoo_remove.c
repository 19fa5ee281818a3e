/* SPDX-License-Identifier: MIT
 *
 * Removes: which of several entries they take.
 */
#include "cuckoo_schedule.h"

/* A key of the same pair as `hash`.  Its fingerprint is equal in all bits that an entry from
 * before the split knows, and different in the next one. */
static uint64_t nearly_equal(struct tiny *t, uint64_t hash)
{
  struct cuckoo_address a = address_of(t, hash), b;
  unsigned equal = t->geometry.shape.width - 1;
  do
    b = address_of(t, ++t->last_hash);
  while (b.lower != a.lower || b.upper != a.upper ||
         cuckoo_top_bits(a.fingerprint ^ b.fingerprint, equal) != 0 ||
         cuckoo_top_bits(a.fingerprint ^ b.fingerprint, equal + 1) == 0);
  return t->last_hash;
}

/* The older entry matches both keys, the younger one only its own key: a remove of the younger
 * key must not take the older entry. */
static void remove_young(struct tiny *t, uint64_t old, unsigned generations)
{
  uint64_t young = nearly_equal(t, old);
  add(t, young);
  assert_int_equal(stats_of(t->filter).generations, generations);
  take(t, young);
  assert_true(tamis_contains_hash(t->filter, old));
  finish_tiny(t);
}

static void the_longest_match_is_removed(void **state)
{
  (void) state;
  struct tiny t = make_tiny(8);
  uint64_t old = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, old); /* in the lower bucket; the younger one goes into the upper one */
  split(&t);
  remove_young(&t, old, 1);
}

static void the_longest_match_is_removed_if_it_comes_first(void **state)
{
  (void) state;
  struct tiny t = make_tiny(8);
  uint64_t other = hash_at(&t, HOME, OTHER_UPPER), old = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, other);
  add(&t, old); /* in the upper bucket; the younger one goes into the lower one */
  take(&t, other);
  split(&t);
  remove_young(&t, old, 1);
}

/* The younger entry stands in a later generation. */
static void the_longest_match_of_all_generations_is_removed(void **state)
{
  (void) state;
  struct tiny t = make_tiny(8);
  uint64_t old = hash_at(&t, HOME, OTHER_UPPER);
  add(&t, old);
  open_generation(&t);
  remove_young(&t, old, 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_longest_match_is_removed),
      cmocka_unit_test(the_longest_match_is_removed_if_it_comes_first),
      cmocka_unit_test(the_longest_match_of_all_generations_is_removed),
  };
  return cmocka_run_group_tests_name("cuckoo_schedule_remove", tests, NULL, NULL);
}
