/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/cores.h"

#include <unistd.h>

/* The cores decide, within the limits. */
static void limits_are_kept_on_any_machine(void **state)
{
  (void) state;
  assert_int_equal(tamis__power_of_two_per_core(1u << 20, 2, 64), 64);
  assert_int_equal(tamis__power_of_two_per_core(0, 4, 64), 4);
  assert_int_equal(tamis__power_of_two_per_core(1u << 20, 8, 8), 8);
  unsigned n = tamis__power_of_two_per_core(1, 1, 1u << 20);
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  assert_true((long) n >= cores && (long) n < 2 * cores);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(limits_are_kept_on_any_machine),
  };
  return cmocka_run_group_tests_name("cores", tests, NULL, NULL);
}
