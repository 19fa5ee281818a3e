/* SPDX-License-Identifier: MIT
 *
 * The directory of a generation.
 */
#include "unit.h"

#include "cuckoo_unit.h"

/* In generations of few and of many roots, first ones and later ones. */
static void each_directory_entry_has_its_own_memory(void **state)
{
  (void) state;
  enum { MAX_ENTRIES = 1024 };
  static directory_entry entries[MAX_ENTRIES];
  for (unsigned roots = 1; roots <= 5; roots++)
    for (unsigned shift = 0; shift < 3; shift++)
      for (unsigned depth = 0; depth < 6; depth++) {
        struct generation generation = {.directory = entries};
        generation.geometry.first_roots = roots;
        generation.geometry.root_shift = (uint8_t) shift;
        generation.geometry.depth_limit = (uint8_t) depth;
        uint64_t n = cuckoo_directory_size(&generation.geometry);
        generation.others = entries + cuckoo_roots(&generation.geometry);
        bool taken[MAX_ENTRIES] = {false};
        assert_true(n <= MAX_ENTRIES);
        for (uint64_t i = 0; i < n; i++) {
          uint64_t position = (uint64_t) (generation_directory_entry(&generation, i) - entries);
          assert_true(position < n && !taken[position]);
          taken[position] = true;
        }
      }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_directory_entry_has_its_own_memory),
  };
  return cmocka_run_group_tests_name("cuckoo_directory", tests, NULL, NULL);
}
