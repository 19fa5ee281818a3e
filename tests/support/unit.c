/* SPDX-License-Identifier: MIT */
#include "unit.h"

static struct {
  struct CMUnitTest tests[256];
  size_t n;
} listed;

void list_test(struct CMUnitTest test)
{
  if (listed.n == sizeof listed.tests / sizeof *listed.tests)
    abort();
  listed.tests[listed.n++] = test;
}

#ifdef TAMIS_THREADS_ONLY
static const bool only_threads = true;
#else
static const bool only_threads = false;
#endif

/* Leaves those that have the mark, if any has. */
static void keep_marked(void)
{
  size_t marked = 0;
  for (size_t i = 0; i < listed.n; i++)
    if (listed.tests[i].initial_state)
      listed.tests[marked++] = listed.tests[i];
  listed.n = marked ? marked : listed.n;
}

int run_all_tests_between(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
  if (only_threads)
    keep_marked();
  return _cmocka_run_group_tests(program_invocation_short_name, listed.tests, listed.n, set_up,
                                 tear_down);
}

int run_all_tests(void)
{
  return run_all_tests_between(NULL, NULL);
}

/* With TAMIS_TEST=PATTERN in the environment a program runs those of its tests only whose names
 * match. */
__attribute__((constructor)) static void choose_tests(void)
{
  const char *pattern = getenv("TAMIS_TEST"); /* NOLINT(concurrency-mt-unsafe) */
  if (pattern)
    cmocka_set_test_filter(pattern);
}

__attribute__((weak)) int main(void)
{
  return run_all_tests();
}
