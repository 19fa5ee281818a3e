/* SPDX-License-Identifier: MIT
 *
 * The directory of a generation.
 */
#include "unit.h"

#include "cuckoo_unit.h"

/* For few roots and many, in a first generation and later ones. */
static void each_slot_has_its_own_place(void **state)
{
  (void) state;
  enum { SLOTS = 1024 };
  static directory_entry slots[SLOTS];
  for (unsigned roots = 1; roots <= 5; roots++)
    for (unsigned shift = 0; shift < 3; shift++)
      for (unsigned depth = 0; depth < 6; depth++) {
        struct generation generation = {.directory = slots};
        generation.geometry.first_roots = roots;
        generation.geometry.root_shift = shift;
        generation.geometry.depth_limit = depth;
        uint64_t n = cuckoo_directory_size(&generation.geometry);
        bool taken[SLOTS] = {false};
        assert_true(n <= SLOTS);
        for (uint64_t i = 0; i < n; i++) {
          uint64_t place = (uint64_t) (generation_directory_entry(&generation, i) - slots);
          assert_true(place < n && !taken[place]);
          taken[place] = true;
        }
      }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_slot_has_its_own_place),
  };
  return cmocka_run_group_tests_name("cuckoo_directory", tests, NULL, NULL);
}
