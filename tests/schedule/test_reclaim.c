/* SPDX-License-Identifier: MIT
 *
 * Forks between the steps of the thread that waits for readers, and of one that asks for memory
 * back. Built with the hooks.
 */
#include "unit.h"

#include "base/hook.h"
#include "base/memory.h"
#include "base/reclaim.h"
#include "schedule.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 64 };

static const tamis_allocator malloced = {NULL, NULL, NULL};

static atomic_uint released;

static void release(void *unused, struct retired *block, size_t size)
{
  (void) unused;
  atomic_fetch_add(&released, 1);
  tamis__memory_release(&malloced, block, size);
}

static _Atomic uint64_t bytes = SIZE;

static void retire(struct backlog *backlog)
{
  struct retired *block = tamis__memory_allocate(&malloced, SIZE);
  assert_non_null(block);
  tamis__backlog_retire(backlog, block, SIZE, false);
}

/* Until later calls have released `n` blocks; false if that takes too long. */
static bool released_by_and_by(struct backlog *backlog, unsigned n)
{
  time_t end = time(NULL) + PATIENCE_SECONDS;
  while (atomic_load(&released) < n && time(NULL) < end) {
    tamis__backlog_drain(backlog);
    usleep(1000);
  }
  return atomic_load(&released) == n;
}

/* TSan allows no new threads after a fork of several; nor does qemu-user (7.2). */
static void skip_where_no_child_has_threads(void)
{
#ifdef TAMIS_TSAN
  skip();
#endif
  if (*EMULATOR)
    skip();
}

static pid_t fork_child(void)
{
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    alarm(3 * PATIENCE_SECONDS);
    atomic_store(&tamis__hook, NULL);
  }
  return child;
}

static void assert_success(pid_t child)
{
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/* The waiting thread stands at `place` when the fork comes.  In the child, where that thread is
 * not, another one waits for what was asked for. */
static void fork_at(const char *place)
{
  struct backlog backlog;
  assert_true(tamis__backlog_init(&backlog, release, NULL, &bytes));
  atomic_store(&released, 0);
  schedule_stop_at(place);
  retire(&backlog);
  schedule_wait(place, 1);
  pid_t child = fork_child();
  if (child == 0)
    _exit(released_by_and_by(&backlog, 1) ? 0 : 1);
  schedule_go();
  assert_success(child);
  assert_true(released_by_and_by(&backlog, 1)); /* in the parent all goes on */
  tamis__backlog_destroy(&backlog);
}

static void a_fork_in_a_grace_period(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  fork_at("reclaim_begun");
  fork_at("reclaim_waited");
}

/* In the child nobody is inside any more who was when the parent's thread began: but a reader of
 * the child's own is. */
static void a_grace_period_of_the_parent_does_not_elapse_in_the_child(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  struct backlog backlog;
  assert_true(tamis__backlog_init(&backlog, release, NULL, &bytes));
  atomic_store(&released, 0);
  schedule_stop_at("reclaim_begun");
  reader_token reader = reader_enter();
  retire(&backlog);
  schedule_wait("reclaim_begun", 1);
  pid_t child = fork_child();
  if (child == 0) {
    for (unsigned i = 0; i < 50; i++, usleep(1000))
      tamis__backlog_drain(&backlog);
    bool good = atomic_load(&released) == 0;
    reader_leave(reader);
    _exit(good && released_by_and_by(&backlog, 1) ? 0 : 1);
  }
  schedule_go();
  reader_leave(reader);
  assert_success(child);
  assert_true(released_by_and_by(&backlog, 1));
  tamis__backlog_destroy(&backlog);
}

/* A thread has the lock, and a block on its way from one list to the other: which the child loses,
 * but does not release twice. */
static void *retire_one(void *backlog)
{
  retire(backlog);
  return NULL;
}

static void a_fork_while_lists_change(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  struct backlog backlog;
  pthread_t thread;
  assert_true(tamis__backlog_init(&backlog, release, NULL, &bytes));
  atomic_store(&released, 0);
  schedule_stop_at("backlog_moved");
  assert_int_equal(pthread_create(&thread, NULL, retire_one, &backlog), 0);
  schedule_wait("backlog_moved", 1);
  pid_t child = fork_child();
  if (child == 0) {
    bool good = atomic_load(&released) == 0;
    retire(&backlog);
    good &= released_by_and_by(&backlog, 1);
    tamis__backlog_destroy(&backlog);
    _exit(good && atomic_load(&released) == 1 ? 0 : 1);
  }
  schedule_go();
  pthread_join(thread, NULL);
  assert_success(child);
  assert_true(released_by_and_by(&backlog, 1)); /* in the parent nothing is lost */
  tamis__backlog_destroy(&backlog);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fork_in_a_grace_period),
      cmocka_unit_test(a_grace_period_of_the_parent_does_not_elapse_in_the_child),
      cmocka_unit_test(a_fork_while_lists_change),
  };
  return cmocka_run_group_tests_name("reclaim_schedule", tests, NULL, NULL);
}
