/* SPDX-License-Identifier: MIT */
#include "reclaim_fixture.h"

#include <dirent.h>
#include <signal.h>

TEST(what_is_retired_is_released_by_a_later_call)
{
  struct fixture x;
  begin(&x);
  retire(&x, make_block(&x));
  assert_int_equal(atomic_load(&released), 0); /* by a later one, if any */
  assert_true(released_by_and_by(&x, 1));
  assert_true(released_by_and_by(&x, 10)); /* again and again */
  assert_int_equal(atomic_load(&x.bytes),
                   (x.retired - atomic_load(&released)) * sizeof(struct block));
  assert_int_equal(atomic_load(&x.backlog.held), atomic_load(&x.bytes));
  end(&x);
  assert_int_equal(atomic_load(&x.backlog.held), 0);
  struct backlog failed = {0};
  tamis__backlog_destroy(&failed); /* fine after a failed init, too */
}

/* Filters go meanwhile, and do not wait for it. */
TEST(nothing_is_released_under_a_reader)
{
  static struct fixture x, y; /* of threads that a failure leaves behind, too */
  static struct long_reader reader;
  static _Atomic(struct block *) shared;
  begin(&x);
  shared = make_block(&x);
  begin_to_read(&reader, &shared, NULL);
  retire(&x, atomic_exchange(&shared, NULL));
  for (unsigned i = 0; i < 200; i++) { /* however often somebody asks */
    retire(&x, make_block(&x));
    assert_int_equal(atomic_load(&released), 0);
    usleep(500);
  }
  for (unsigned i = 0; i < 100; i++) {
    begin(&y);
    retire(&y, make_block(&y));
    retire(&y, make_block(&y));
    end(&y);
  }
  atomic_store(&released, 0); /* of x */
  end_reading(&reader);
  assert_true(released_by_and_by(&x, 201));
  end(&x);
}

/* A call that waits for something leaves its section for a while. */
TEST(a_pause_lets_grace_periods_pass)
{
  struct fixture x;
  begin(&x);
  reader_token pass = reader_enter();
  retire(&x, make_block(&x));
  enum reader_pause pause = tamis__reader_pause(true);
  assert_true(released_by_and_by(&x, 1));
  tamis__reader_resume(pause);
  unsigned before = x.retired;
  for (unsigned i = 0; i < 100; i++, usleep(500)) {
    retire(&x, make_block(&x));
    assert_true(atomic_load(&released) <= before);
  }
  reader_leave(pass);
  assert_true(released_by_and_by(&x, before + 100));
  end(&x);
}

/* A section of the program that begins in a call, in its allocator say, and goes on after it; and one
 * that it has opened before, which a pause never leaves. */
TEST(sections_need_not_nest)
{
  for (unsigned own = 0; own < 2; own++) {
    if (own)
      urcu_bp_read_lock();
    assert_int_equal(tamis__reader_pause(false), READER_OUTSIDE);
    reader_token pass = reader_enter();
    enum reader_pause pause = tamis__reader_pause(true);
    assert_int_equal(!!urcu_bp_read_ongoing(), own);
    tamis__reader_resume(pause);
    urcu_bp_read_lock();
    reader_leave(pass);
    assert_true(urcu_bp_read_ongoing());
    urcu_bp_read_unlock();
    assert_int_equal(!!urcu_bp_read_ongoing(), own);
    if (own)
      urcu_bp_read_unlock();
    assert_false(urcu_bp_read_ongoing());
  }
}

/* ---- the waiting thread ---- */

/* The thread looks for requests by itself for a moment, and must be woken after that: or it would
 * sleep until it ends, which takes a second. */
TEST(the_waiting_thread_is_woken)
{
  struct fixture x;
  begin(&x);
  bool soon = false;
  /* The first time, there may be no thread yet; on a busy machine it takes its time. */
  for (unsigned i = 0; i < 30 && !soon; i++) {
    double before = seconds();
    retire(&x, make_block(&x));
    while (x.backlog.held && seconds() < before + PATIENCE_SECONDS) {
      usleep(1000);
      tamis__backlog_drain(&x.backlog, false);
    }
    soon = i > 0 && seconds() - before < 0.5;
    usleep(100000);
  }
  assert_true(soon);
  end(&x);
}

enum { MOST_TASKS = 64 };

/* The threads of this process. */
static unsigned list_tasks(pid_t tasks[MOST_TASKS])
{
  unsigned n = 0;
  DIR *directory = opendir("/proc/self/task");
  assert_non_null(directory);
  for (struct dirent *entry; n < MOST_TASKS && (entry = readdir(directory));)
    if (*entry->d_name != '.')
      tasks[n++] = (pid_t) atol(entry->d_name);
  closedir(directory);
  return n;
}

static bool is_ordinary(pid_t task)
{
  cpu_set_t process, thread;
  return sched_getscheduler(task) == SCHED_OTHER &&
         sched_getaffinity(getpid(), sizeof process, &process) == 0 &&
         sched_getaffinity(task, sizeof thread, &thread) == 0 && CPU_EQUAL(&process, &thread);
}

static atomic_uint signals;

static void count_signal(int number)
{
  (void) number;
  atomic_fetch_add(&signals, 1);
}

static unsigned blocks_signals(void)
{
  sigset_t set;
  pthread_sigmask(SIG_SETMASK, NULL, &set);
  return (unsigned) (sigismember(&set, SIGUSR1) + sigismember(&set, SIGTERM));
}

/* Starts the waiting thread from one that is bound to a core, is no ordinary one, and has no signal
 * blocked; all of the program's threads have when a signal comes. */
struct start {
  unsigned started, ordinary, blocked; /* threads that have been started; signals */
  bool has_come_back, is_pending;
};

static void *start_from_a_bound_thread(void *arg)
{
  struct start *start = arg;
  struct fixture x;
  pid_t before[MOST_TASKS], after[MOST_TASKS];
  cpu_set_t cores, core;
  sigset_t mine, none, pending;
  sched_getaffinity(0, sizeof cores, &cores);
  CPU_ZERO(&core);
  for (unsigned i = 0; !CPU_COUNT(&core); i++)
    if (CPU_ISSET(i, &cores))
      CPU_SET(i, &core);
  sched_setaffinity(0, sizeof core, &core);
  sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
  sigemptyset(&none);
  begin(&x);
  unsigned n = list_tasks(before), m;
  pthread_sigmask(SIG_SETMASK, &none, &mine);
  retire(&x, make_block(&x));
  start->blocked += blocks_signals();
  pthread_sigmask(SIG_SETMASK, &mine, NULL);
  kill(getpid(), SIGUSR1);
  start->has_come_back = released_by_and_by(&x, 1); /* the thread has run */
  start->is_pending = sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1);
  m = list_tasks(after);
  for (unsigned i = 0; i < m; i++) {
    bool known = false;
    for (unsigned j = 0; j < n; j++)
      known |= before[j] == after[i];
    start->started += !known;
    start->ordinary += !known && is_ordinary(after[i]);
  }
  end(&x);
  return NULL;
}

/* It ends when there is nothing to do for a second; the next one who retires something gets a new one,
 * which takes neither signals nor its maker's place. */
TEST(the_waiting_thread_comes_back_and_is_nobody_elses)
{
  struct sigaction action = {.sa_handler = count_signal}, action_before;
  sigset_t mine, before;
  sigemptyset(&mine);
  sigaddset(&mine, SIGUSR1);
  assert_int_equal(sigaction(SIGUSR1, &action, &action_before), 0);
  assert_int_equal(pthread_sigmask(SIG_SETMASK, &mine, &before), 0);
  struct start start = {0};
  struct fixture x;
  begin(&x);
  assert_true(released_by_and_by(&x, 1));
  end(&x);
  for (unsigned i = 0; i < PATIENCE_SECONDS && start.started == 0; i++) {
    usleep(1500000); /* a thread that there was has ended, or will have the next time */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, start_from_a_bound_thread, &start), 0);
    pthread_join(thread, NULL);
    assert_true(start.has_come_back);
    assert_true(start.is_pending);
    assert_int_equal(atomic_load(&signals), i);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
    assert_int_equal(atomic_load(&signals), i + 1);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &mine, NULL), 0);
  }
  assert_int_equal(start.blocked, 0);
  assert_int_equal(start.started, 1);
  assert_int_equal(start.ordinary, 1);
  assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
  assert_int_equal(sigaction(SIGUSR1, &action_before, NULL), 0);
}

/* ---- a program that uses liburcu itself ---- */

#ifndef TAMIS_TSAN /* which cannot see what liburcu's queue orders */
struct own_node {
  struct rcu_head head;
  uint64_t value;
};

static atomic_uint freed_by_program;

static void free_node(struct rcu_head *head)
{
  atomic_fetch_add(&freed_by_program, 1);
  free((struct own_node *) ((char *) head - offsetof(struct own_node, head)));
}
#endif

TEST(a_program_may_use_liburcu_itself)
{
  tamis_filter *f = make_cuckoo(100);
  assert_non_null(f);
  urcu_bp_register_thread();
  uint64_t n = 50000 / SCALE;
  for (uint64_t i = 0; i < n; i++) {
    urcu_bp_read_lock(); /* a call inside of the program's own critical section, which splits too */
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
    assert_true(tamis_contains_hash(f, i));
    assert_true(urcu_bp_read_ongoing());
    urcu_bp_read_unlock();
    if (i % (n / 20) == 0) {
#ifndef TAMIS_TSAN
      struct own_node *node = calloc(1, sizeof *node);
      assert_non_null(node);
      urcu_bp_call_rcu(&node->head, free_node);
#endif
      urcu_bp_synchronize_rcu(); /* which the library's look-ups do not hold up */
    }
  }
  urcu_bp_read_lock();
  remove_range(f, 0, n);
  urcu_bp_read_unlock();
  assert_true(stats_of(f).joins > 0);
#ifndef TAMIS_TSAN
  urcu_bp_barrier();
  assert_in_range(atomic_load(&freed_by_program), 20, 21);
#endif
  tamis_destroy(f);
  /* the library did not unregister the thread */
  urcu_bp_read_lock();
  assert_true(urcu_bp_read_ongoing());
  urcu_bp_read_unlock();
}
