/* SPDX-License-Identifier: MIT
 *
 * Forks between the steps of the thread that waits for readers.  Built with the hooks.
 */
#include "unit.h"

#include "base/hook.h"
#include "base/memory.h"
#include "base/reclaim.h"
#include "schedule.h"

#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_SECONDS = 10 };

/* Until a later call has released what was retired; false if that takes too long. */
static bool released_by_and_by(struct backlog *backlog)
{
  time_t end = time(NULL) + PATIENCE_SECONDS;
  while (atomic_load(&backlog->held) && time(NULL) < end) {
    tamis__backlog_drain(backlog);
    usleep(1000);
  }
  return !atomic_load(&backlog->held);
}

static const tamis_allocator malloced = {NULL, NULL, NULL};

static void release(void *unused, struct retired *block, size_t size)
{
  (void) unused;
  tamis__memory_release(&malloced, block, size);
}

/* The thread has taken the tickets, and stands at `place` when the fork comes.  In the child, where that
 * thread is not, another one waits for the same tickets. */
static void fork_at(const char *place)
{
  enum { SIZE = 64 };
  _Atomic uint64_t bytes = SIZE;
  struct backlog backlog;
  assert_true(tamis__backlog_init(&backlog, release, NULL, &bytes));
  reader_leave(reader_enter()); /* the first one registers the fork handlers */
  struct retired *block = tamis__memory_allocate(&malloced, SIZE);
  assert_non_null(block);
  schedule_stop_at(place);
  tamis__backlog_retire(&backlog, block, SIZE);
  schedule_wait(place, 1);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    atomic_store(&tamis__hook, NULL);
    _exit(released_by_and_by(&backlog) ? 0 : 1);
  }
  schedule_go();
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_true(released_by_and_by(&backlog)); /* in the parent all goes on */
  tamis__backlog_destroy(&backlog);
}

/* TSan allows no new threads after a fork of several; nor does qemu-user (7.2). */
static void a_fork_while_tickets_are_taken(void **state)
{
  (void) state;
#ifdef TAMIS_TSAN
  skip();
#endif
  if (*EMULATOR)
    skip();
  fork_at("reclaim_taken");
  fork_at("reclaim_waited");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fork_while_tickets_are_taken),
  };
  return cmocka_run_group_tests_name("reclaim_schedule", tests, NULL, NULL);
}
