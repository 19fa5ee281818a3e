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
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, size) ((void) 0)
#define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void) 0)
#endif

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

/* AWAIT(condition); returns when that holds, or was waited for in vain.  AWAIT(condition, work); does some
 * work before it looks again. */
#define AWAIT(condition, ...)                                                               \
  do {                                                                                      \
    for (time_t last = time(NULL) + PATIENCE_SECONDS; !(condition) && time(NULL) < last;) { \
      __VA_ARGS__;                                                                          \
      usleep(1000);                                                                         \
    }                                                                                       \
  } while (0)

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

/* ---- an allocator that keeps a balance ---- */

/* It knows the size of each block, and gives dirty memory.  (For failures of all kinds see
 * test_faults.c.) */
struct bank {
  _Atomic size_t bytes, blocks, most_bytes; /* that are given, and were at most */
  _Atomic unsigned calls;
  unsigned fail_at;    /* the call that is refused; 0: none */
  size_t refused_from; /* blocks of this size and more are refused; 0: none */
  size_t limit;        /* of `bytes`; 0: none */
  /* Called once, before a block is given: does what another thread might do meanwhile. */
  void (*meanwhile)(void *context);
  void *context;
  tamis_allocator allocator;
};

enum { BANK_HEAD = 64 };

static inline void *bank_allocate(void *context, size_t alignment, size_t size)
{
  struct bank *bank = context;
  if (++bank->calls == bank->fail_at || (bank->refused_from && size >= bank->refused_from) ||
      (bank->limit && bank->bytes + size > bank->limit))
    return NULL;
  void (*meanwhile)(void *) = bank->meanwhile;
  bank->meanwhile = NULL;
  if (meanwhile)
    meanwhile(bank->context);
  void *memory;
  if (posix_memalign(&memory, alignment, BANK_HEAD + size))
    return NULL;
  char *block = memset(memory, 0xa5, BANK_HEAD + size);
  *(size_t *) memory = size;
  ASAN_POISON_MEMORY_REGION(memory, BANK_HEAD);
  bank->bytes += size;
  bank->blocks++;
  if (bank->bytes > bank->most_bytes)
    bank->most_bytes = bank->bytes;
  return block + BANK_HEAD;
}

static inline void bank_release(void *context, void *block, size_t alignment, size_t size)
{
  struct bank *bank = context;
  ASAN_UNPOISON_MEMORY_REGION((char *) block - BANK_HEAD, BANK_HEAD);
  assert_int_equal(alignment, 64);
  assert_int_equal(*(size_t *) ((char *) block - BANK_HEAD), size);
  assert_true(bank->bytes >= size && bank->blocks > 0);
  bank->bytes -= size;
  bank->blocks--;
  free((char *) block - BANK_HEAD);
  errno = EBADMSG; /* as free() may do */
}

static inline const tamis_allocator *allocator_of(struct bank *bank)
{
  bank->allocator = (tamis_allocator){bank_allocate, bank_release, bank};
  return &bank->allocator;
}

/* ---- children ---- */

/* A child that hangs is ended by its alarm. */
static inline pid_t fork_child(void)
{
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0)
    alarm(6 * PATIENCE_SECONDS);
  return child;
}

/* The status with which a child ends, or the number of its signal and 128. */
static inline int wait_for(pid_t child)
{
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- filters and keys ---- */

/* A filter, or a failed test. */
static inline tamis_filter *make_with_options(const tamis_options *options)
{
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(options, &f), TAMIS_OK);
  assert_non_null(f);
  return f;
}

/* With a fixed seed. */
static inline tamis_options seeded_options(tamis_kind kind, uint64_t capacity, double fpp,
                                           bool growable)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = kind;
  options.capacity = capacity;
  options.fpp = fpp;
  options.growable = growable;
  options.seed = 42;
  return options;
}

static inline tamis_filter *make_filter(tamis_layout layout, uint64_t capacity, double fpp)
{
  tamis_options options = seeded_options(TAMIS_BLOOM, capacity, fpp, true);
  options.layout = layout;
  return make_with_options(&options);
}

static inline tamis_stats stats_of(const tamis_filter *f)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  assert_int_equal(tamis_get_stats(f, &stats), TAMIS_OK);
  return stats;
}

/* What a filter takes when it is new. */
static inline uint64_t planned_bytes(const tamis_options *options)
{
  uint64_t bytes = 0;
  assert_int_equal(tamis_bytes_for(options, &bytes), TAMIS_OK);
  return bytes;
}

/* All keys from `begin` on, but not `end`. */
static inline void add_range(tamis_filter *f, uint64_t begin, uint64_t end)
{
  for (uint64_t i = begin; i < end; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
}

static inline void remove_range(tamis_filter *f, uint64_t begin, uint64_t end)
{
  for (uint64_t i = begin; i < end; i++)
    assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
}

static inline void assert_all_in(const tamis_filter *f, uint64_t begin, uint64_t end)
{
  for (uint64_t i = begin; i < end; i++)
    if (!tamis_contains_hash(f, i))
      fail_msg("key %lu is missing", i);
}

/* Ends so many periods of a window. */
static inline void advance(tamis_filter *f, unsigned periods)
{
  for (; periods; periods--)
    assert_int_equal(tamis_advance(f), TAMIS_OK);
}

#endif
