/* SPDX-License-Identifier: MIT
 *
 * What the unit tests share.
 */
#ifndef TAMIS_TESTS_UNIT_H
#define TAMIS_TESTS_UNIT_H

/* cmocka wants these first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tamis/tamis.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Fewer keys in slow builds. */
#ifdef TAMIS_SLOW
enum { SCALE = 10 };
#else
enum { SCALE = 1 };
#endif

/* Whether tests are to be as long as they can be: script/test --all wants that, in builds that are not
 * slow. */
static inline bool is_long(void)
{
  return SCALE == 1 && getenv("TAMIS_LONG"); /* NOLINT(concurrency-mt-unsafe) */
}

/* For what comes by and by, such as memory that waits for readers: long, as the machine may be
 * busy. */
enum { PATIENCE_SECONDS = 30 };

/* TEST(name) { ... } is a test, with what runs before and after it.  A program runs its tests in the order
 * of the source.
 *
 * A test that starts threads, in a program whose other tests start none, has the mark WITH_THREADS.  Under
 * ThreadSanitizer, which can find nothing in one thread, such a program runs only these;
 * check_threads.py checks that no test lacks the mark. */
#define TEST(name) TEST_BETWEEN(name, NULL, NULL)
#define TEST_BETWEEN(name, set_up, tear_down) LISTED_TEST(name, set_up, tear_down, NULL)
#define TEST_WITH_THREADS(name) TEST_WITH_THREADS_BETWEEN(name, NULL, NULL)
#define TEST_WITH_THREADS_BETWEEN(name, set_up, tear_down) \
  LISTED_TEST(name, set_up, tear_down, (void *) "starts threads")

/* (The system calls constructors in the order of these numbers, and keeps those up to 100 for itself.) */
#define LISTED_TEST(name, set_up, tear_down, mark)                            \
  static void name(void **no_state);                                          \
  __attribute__((constructor(1000 + __LINE__))) static void list_##name(void) \
  {                                                                           \
    list_test((struct CMUnitTest){#name, name, set_up, tear_down, mark});     \
  }                                                                           \
  static void name(__attribute__((unused)) void **no_state)

void list_test(struct CMUnitTest test);

/* What main() does, unless a program has its own. */
int run_all_tests(void);
int run_all_tests_between(CMFixtureFunction set_up, CMFixtureFunction tear_down);

/* What allocators of tests share: how they release a block, and one that has no memory. */
static inline void free_block(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) alignment, (void) size;
  free(block);
}

static inline void *no_memory(void *context, size_t alignment, size_t size)
{
  (void) context, (void) alignment, (void) size;
  return NULL;
}

static const tamis_allocator without_memory = {no_memory, free_block, NULL};

/* A filter with a fixed seed, or a failed test. */
static inline tamis_filter *make_filter(tamis_layout layout, uint64_t capacity, double fpp)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = layout;
  options.capacity = capacity;
  options.fpp = fpp;
  options.seed = 42;
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  assert_non_null(f);
  return f;
}

static inline tamis_stats stats_of(const tamis_filter *f)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  assert_int_equal(tamis_get_stats(f, &stats), TAMIS_OK);
  return stats;
}

#endif
