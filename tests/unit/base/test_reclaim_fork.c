/* SPDX-License-Identifier: MIT
 *
 * Reclamation in processes: those that fork, those that are forked, those that end.
 */
#include "reclaim_fixture.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

/* TSan allows no new threads after a fork of several.  qemu-user (7.2) ends with an assertion of
 * its own then. */
static void skip_where_no_child_has_threads(void)
{
#ifdef TAMIS_TSAN
  skip();
#endif
  if (*EMULATOR)
    skip();
}

/* ASan's allocator (gcc 12) takes no lock of its own at a fork.  So the child of a process in which
 * another thread allocates just then may wait for that lock for ever. */
static void skip_where_no_child_allocates(void)
{
#ifdef __SANITIZE_ADDRESS__
  skip();
#endif
}

/* A child that hangs is ended. */
static pid_t fork_child(void)
{
  fflush(NULL);
  pid_t child = fork();
  if (child == 0)
    alarm(6 * PATIENCE_SECONDS);
  return child;
}

static int wait_for_exit(pid_t child)
{
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* ---- forks ---- */

/* In the child of a fork: a filter that goes through growth and joins. */
static bool child_works(void)
{
  tamis_filter *mine = make_cuckoo(10);
  bool good = mine && work(mine, 0, 5000);
  tamis_destroy(mine);
  return good;
}

/* In the child everything goes on: growth, joins, the end; and in the parent too. */
static void a_child_uses_what_its_parent_made(void **state)
{
  (void) state;
  enum { ROUNDS = SCALE > 1 ? 4 : 8, KEYS = SCALE > 1 ? 5000 : 20000 };
  skip_where_no_child_has_threads();
  for (unsigned round = 0; round < ROUNDS; round++) {
    tamis_filter *f = make_cuckoo(100);
    assert_non_null(f);
    assert_true(work(f, 0, 3000)); /* splits, so that there is something to wait for */
    for (uint64_t i = 0; i < 1000; i++)
      assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
    if (round % 4 == 3)
      usleep(20000); /* after the wait */
    pid_t child = fork_child();
    assert_true(child >= 0);
    if (child == 0) {
      bool good = work(f, 5000, KEYS);
      for (uint64_t i = 0; i < 1000; i++)
        good &= tamis_contains_hash(f, i);
      tamis_filter *another = make_cuckoo(10);
      good &= another && work(another, 0, 5000);
      tamis_destroy(another);
      /* memory comes back there too: otherwise each turn would leave a segment or more */
      tamis_stats stats = TAMIS_STATS_INIT;
      double end = harness_seconds() + PATIENCE_SECONDS;
      for (unsigned turn = 0; good && turn < 10000; turn++) {
        good &= work(f, 5000, KEYS);
        usleep(1000);
        tamis_get_stats(f, &stats);
        if (harness_seconds() > end || (turn > 30 && stats.bytes < 500000))
          break;
      }
      good &= stats.bytes < 500000 && stats.count == 1000;
      tamis_destroy(f);
#ifdef TAMIS_SANITIZED
      _exit(good ? 0 : 1); /* a search for leaks in a fork of several threads is none */
#endif
      if (round % 2)
        _exit(good ? 0 : 1);
      exit(good ? 0 : 1);
    }
    assert_true(work(f, 5000, KEYS));
    for (uint64_t i = 0; i < 1000; i++)
      assert_true(tamis_contains_hash(f, i));
    assert_int_equal(wait_for_exit(child), 0);
    tamis_destroy(f);
  }
}

/* A fork while other threads are in the middle of something. */
static atomic_bool forking;

static void *work_meanwhile(void *arg)
{
  struct visit *visit = arg;
  visit->good = true;
  while (atomic_load(&forking))
    visit->good &= work(visit->f, visit->from, visit->keys);
  return NULL;
}

static void a_fork_may_come_at_any_time(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  skip_where_no_child_allocates();
  tamis_filter *busy = make_cuckoo(10);
  assert_non_null(busy);
  struct visit visit = {.f = busy, .from = 0, .keys = 3000};
  pthread_t thread;
  atomic_store(&forking, true);
  assert_int_equal(pthread_create(&thread, NULL, work_meanwhile, &visit), 0);
  for (unsigned i = 0; i < 30; i++) {
    usleep(1000);
    pid_t child = fork_child();
    assert_true(child >= 0);
    if (child == 0) /* a filter of its own: the busy one may be locked for ever here */
      _exit(child_works() ? 0 : 1);
    assert_int_equal(wait_for_exit(child), 0);
  }
  atomic_store(&forking, false);
  pthread_join(thread, NULL);
  assert_true(visit.good);
  tamis_destroy(busy);
}

/* The library's thread waits for the very reader that forks: the fork does not wait for it. */
static void a_reader_may_fork(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  struct fixture x;
  begin(&x);
  reader_token pass = reader_enter();
  retire(&x, make_block(&x));
  usleep(20000); /* for the thread to be waiting; if it is not yet, nothing is tested */
  pid_t child = fork_child();
  assert_true(child >= 0);
  if (child == 0) {
    reader_leave(pass);
    _exit(child_works() ? 0 : 1);
  }
  assert_int_equal(wait_for_exit(child), 0);
  assert_int_equal(atomic_load(&released), 0);
  reader_leave(pass);
  assert_true(released_by_and_by(&x, 1)); /* in the parent all goes on */
  end(&x);
}

/* Readers that only the parent has hold up nothing in the child. */
static void a_child_forgets_its_parents_readers(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  struct fixture x;
  begin(&x);
  _Atomic(struct block *) shared = make_block(&x);
  while (
      atomic_load(&x.backlog.held)) /* so that the thread waits for no reader when the fork comes */
    tamis__backlog_drain(&x.backlog);
  struct long_reader reader = {.shared = &shared};
  assert_int_equal(pthread_create(&reader.thread, NULL, read_for_long, &reader), 0);
  while (!atomic_load(&reader.inside))
    usleep(100);
  pid_t child = fork_child();
  assert_true(child >= 0);
  if (child == 0)
    _exit(released_by_and_by(&x, 1) ? 0 : 1);
  assert_int_equal(wait_for_exit(child), 0);
  retire(&x, atomic_exchange(&shared, NULL));
  tamis__backlog_drain(&x.backlog);
  assert_int_equal(atomic_load(&released), 0); /* in the parent it is there */
  atomic_store(&reader.may_leave, true);
  pthread_join(reader.thread, NULL);
  assert_int_equal(reader.seen, 42);
  end(&x);
}

/* A program that prepares liburcu for a fork itself. */
static void a_program_may_prepare_its_fork_itself(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  tamis_filter *f = make_cuckoo(100);
  assert_non_null(f);
  assert_true(work(f, 0, 3000));
  urcu_bp_before_fork();
  pid_t child = fork_child();
  if (child == 0) {
    urcu_bp_after_fork_child();
    bool good = work(f, 0, 3000) && child_works();
    tamis_destroy(f);
#ifdef TAMIS_SANITIZED
    _exit(good ? 0 : 1);
#endif
    exit(good ? 0 : 1);
  }
  urcu_bp_after_fork_parent();
  assert_true(child >= 0);
  assert_int_equal(wait_for_exit(child), 0);
  assert_true(work(f, 0, 3000));
  tamis_destroy(f);
}

/* The child's handler takes no lock of liburcu's, which may be taken for ever there: by a thread of
 * the program that waits for a reader. */
static atomic_bool may_end, synchronized;

static void *read_until_told(void *unused)
{
  urcu_bp_read_lock();
  atomic_store(&forking, true);
  while (!atomic_load(&may_end))
    usleep(100);
  urcu_bp_read_unlock();
  return unused;
}

static void *synchronize(void *unused)
{
  urcu_bp_synchronize_rcu();
  atomic_store(&synchronized, true);
  return unused;
}

static void liburcu_may_be_locked_at_the_fork(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  pthread_t reader, writer;
  tamis_filter *f = make_cuckoo(100);
  assert_non_null(f);
  assert_true(work(f, 0, 3000));
  atomic_store(&forking, false);
  atomic_store(&may_end, false);
  assert_int_equal(pthread_create(&reader, NULL, read_until_told, NULL), 0);
  while (!atomic_load(&forking))
    usleep(100);
  assert_int_equal(pthread_create(&writer, NULL, synchronize, NULL), 0);
  usleep(50000); /* for it to be waiting; if it is not yet, nothing is tested */
  assert_false(atomic_load(&synchronized));
  for (unsigned i = 0; i < 5; i++) {
    pid_t child = fork_child();
    assert_true(child >= 0);
    if (child == 0) {
      struct fixture x;
      begin(&x);
      bool good = work(f, 0, 3000) && child_works() && released_by_and_by(&x, 1);
      tamis_destroy(f);
      _exit(good ? 0 : 1);
    }
    assert_int_equal(wait_for_exit(child), 0);
  }
  atomic_store(&may_end, true);
  pthread_join(reader, NULL);
  pthread_join(writer, NULL);
  tamis_destroy(f);
}

/* A fork waits neither for a reader, nor for the thread that waits for it. */
static void a_fork_waits_for_nothing(void **state)
{
  (void) state;
  struct fixture x;
  double shortest = PATIENCE_SECONDS;
  begin(&x);
  reader_token pass = reader_enter();
  retire(&x, make_block(&x));
  usleep(20000); /* for the thread to be waiting; if it is not yet, nothing is tested */
  for (unsigned i = 0; i < 200 && shortest >= 0.05; i++) { /* the machine may be busy */
    double began = harness_seconds();
    pid_t child = fork();
    if (child == 0)
      _exit(0);
    double took = harness_seconds() - began;
    shortest = took < shortest ? took : shortest;
    assert_int_equal(wait_for_exit(child), 0);
  }
  reader_leave(pass);
  end(&x);
  assert_true(shortest < 0.05);
}

/* What one waits for in the child: not released under the section that was open at the fork, but
 * after it.  `generations` children, each forked by the one before. */
static bool section_goes_on(reader_token pass, unsigned generations)
{
  struct fixture x;
  begin(&x);
  struct block *block = make_block(&x);
  retire(&x, block);
  for (unsigned i = 0; i < 50; i++, usleep(1000))
    tamis__backlog_drain(&x.backlog);
  bool good = atomic_load(&released) == 0 && block->content == 42;
  reader_leave(reader_enter()); /* a section inside the other changes nothing */
  tamis__backlog_drain(&x.backlog);
  good &= atomic_load(&released) == 0;
  if (generations > 1) {
    pid_t child = fork_child();
    if (child == 0)
      _exit(section_goes_on(pass, generations - 1) ? 0 : 1);
    good &= wait_for_exit(child) == 0;
  }
  reader_leave(pass);
  good &= released_by_and_by(&x, 1);
  end(&x);
  return good && child_works();
}

static void a_section_goes_on_in_the_child(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  for (unsigned own = 0; own < 2; own++) { /* inside of one of the program's own, too */
    if (own)
      urcu_bp_read_lock();
    reader_token pass = reader_enter();
    pid_t child = fork_child();
    assert_true(child >= 0);
    if (child == 0) {
      if (own)
        urcu_bp_read_unlock();
      _exit(section_goes_on(pass, 3) ? 0 : 1);
    }
    assert_int_equal(wait_for_exit(child), 0);
    reader_leave(pass);
    if (own)
      urcu_bp_read_unlock();
    assert_false(urcu_bp_read_ongoing());
  }
}

/* Threads of the child are readers that the child waits for. */
static void *read_in_the_child(void *arg)
{
  struct long_reader *reader = arg;
  return read_for_long(reader);
}

static bool waits_for_its_readers(void)
{
  struct fixture x;
  begin(&x);
  _Atomic(struct block *) shared = make_block(&x);
  enum { READERS = 5 };
  struct long_reader readers[READERS];
  for (unsigned i = 0; i < READERS; i++) {
    readers[i] = (struct long_reader){.shared = &shared};
    if (pthread_create(&readers[i].thread, NULL, read_in_the_child, &readers[i]))
      return false;
    while (!atomic_load(&readers[i].inside))
      usleep(100);
  }
  retire(&x, atomic_exchange(&shared, NULL));
  bool good = true;
  for (unsigned i = 0; i < READERS; i++) {
    for (unsigned turn = 0; turn < 20; turn++, usleep(1000))
      tamis__backlog_drain(&x.backlog);
    good &= atomic_load(&released) == 0;
    atomic_store(&readers[i].may_leave, true);
    pthread_join(readers[i].thread, NULL);
    good &= readers[i].seen == 42;
  }
  good &= released_by_and_by(&x, 1);
  end(&x);
  return good;
}

/* The forking thread's own sections too, although the parent has registered it. */
static bool waits_for_itself(void)
{
  struct fixture x;
  begin(&x);
  reader_token pass = reader_enter();
  retire(&x, make_block(&x));
  for (unsigned turn = 0; turn < 50; turn++, usleep(1000))
    tamis__backlog_drain(&x.backlog);
  bool good = atomic_load(&released) == 0;
  reader_leave(pass);
  good &= released_by_and_by(&x, 1);
  end(&x);
  return good;
}

static void a_child_waits_for_its_own_readers(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  reader_leave(reader_enter());
  pid_t child = fork_child();
  assert_true(child >= 0);
  if (child == 0)
    _exit(waits_for_its_readers() && waits_for_itself() ? 0 : 1);
  assert_int_equal(wait_for_exit(child), 0);
}

/* Children of children, each of which makes the filter grow and shrink, and gets its memory back.
 */
static bool goes_on(tamis_filter *f, unsigned generations)
{
  bool good = true;
  tamis_stats stats = TAMIS_STATS_INIT;
  double end = harness_seconds() + PATIENCE_SECONDS;
  do {
    good &= work(f, 5000, 5000);
    usleep(1000);
    tamis_get_stats(f, &stats);
  } while (good && stats.bytes > 500000 && harness_seconds() < end);
  good &= stats.bytes <= 500000;
  for (uint64_t i = 0; i < 1000; i++)
    good &= tamis_contains_hash(f, i);
  if (generations > 0) {
    pid_t child = fork_child();
    if (child == 0) {
      good = goes_on(f, generations - 1) && child_works();
      tamis_destroy(f);
      _exit(good ? 0 : 1);
    }
    good &= wait_for_exit(child) == 0;
  }
  return good && work(f, 5000, 3000);
}

static void children_have_children(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  tamis_filter *f = make_cuckoo(100);
  assert_non_null(f);
  for (uint64_t i = 0; i < 1000; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
  fflush(NULL);
  assert_true(goes_on(f, 4));
  tamis_destroy(f);
}

/* ---- forks in the middle of a call ---- */

/* An allocator in whose N-th call the process forks.  Both go on with the call that asked. */
static struct {
  unsigned calls, fork_at;
  bool in_release;
  pid_t child; /* 0: this is it */
} forker;

static void maybe_fork(bool in_release)
{
  if (in_release == forker.in_release && ++forker.calls == forker.fork_at) {
    forker.child = fork_child();
  }
}

static void *allocate_and_fork(void *context, size_t alignment, size_t size)
{
  maybe_fork(false);
  return plain_allocate(context, alignment, size);
}

static void release_and_fork(void *context, void *block, size_t alignment, size_t size)
{
  maybe_fork(true);
  count_release(context, block, alignment, size);
}

static void a_fork_may_come_from_an_allocator(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  const tamis_allocator allocator = {allocate_and_fork, release_and_fork, NULL};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 100;
  options.seed = 42;
  options.allocator = &allocator;
  for (unsigned i = 0; i < 40 / SCALE + 4; i++) {
    tamis_filter *f;
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    forker.calls = 0;
    forker.fork_at = 1 + i / 2;
    forker.in_release = i % 2;
    forker.child = -1;
    bool good = true;
    for (uint64_t key = 0; key < 100; key++)
      good &= tamis_add_hash(f, key) == TAMIS_OK;
    double end = harness_seconds() + PATIENCE_SECONDS;
    while (good && forker.calls < forker.fork_at && harness_seconds() < end)
      good &= work(f, 1000, 3000);
    good &= forker.calls >= forker.fork_at && work(f, 1000, 5000);
    for (uint64_t key = 0; key < 100; key++)
      good &= tamis_contains_hash(f, key);
    tamis_stats stats = TAMIS_STATS_INIT;
    do /* what was retired comes back */
      tamis_get_stats(f, &stats);
    while (stats.bytes > 200000 && harness_seconds() < end);
    good &= stats.bytes <= 200000 && stats.count == 100;
    tamis_destroy(f);
    if (forker.child == 0)
      _exit(good ? 0 : 1);
    assert_true(good);
    assert_true(forker.child > 0);
    assert_int_equal(wait_for_exit(forker.child), 0);
  }
}

/* ---- ends, and other processes of its own ---- */

/* What this program does when it is started with an argument: ends right after something was
 * retired, with the library's thread at work, in one of several ways. */
static pthread_t reader_at_exit;

static void *read_for_ever(void *unused)
{
  reader_enter(); /* and never leaves */
  atomic_store(&forking, false);
  for (;;)
    pause();
  return unused;
}

/* The library's own destructor comes before this one, whose number is lower.  Memory only waits
 * then. */
static tamis_filter *filter_at_the_end;

__attribute__((destructor(101))) static void use_a_filter_late(void)
{
  if (!filter_at_the_end)
    return;
  for (unsigned i = 0; i < 20; i++) { /* for the library's thread to be asked, and to be gone */
    if (!work(filter_at_the_end, 0, 2000))
      _exit(4);
    usleep(1000);
  }
  tamis_destroy(filter_at_the_end);
  if (!child_works()) /* nobody starts the thread again */
    _exit(5);
}

/* Where the system has no membarrier, readers need fences, which liburcu has.  (In a process of its
 * own, as readers that are registered by now do without.) */
#if defined(TAMIS_INLINE_READERS) && !defined(CONFIG_RCU_FORCE_SYS_MEMBARRIER)
#define MAY_NEED_FENCES
static bool fork_with_fences(void)
{
  reader_token pass = reader_enter();
  pid_t child = fork_child();
  if (child == 0)
    _exit(section_goes_on(pass, 2) ? 0 : 1);
  reader_leave(pass);
  return wait_for_exit(child) == 0;
}

static int work_with_fences(void)
{
  urcu_bp_has_sys_membarrier = 0;
  tamis_filter *f = make_cuckoo(100);
  uint64_t keys[100];
  for (uint64_t i = 0; i < 100; i++)
    keys[i] = i;
  bool good = f && work(f, 0, 3000) && tamis_add_many_hash(f, keys, 100, NULL) == TAMIS_OK &&
              tamis_contains_many_hash(f, keys, 100, NULL) == 100;
  reader_token pass = reader_enter();
  good &= !pass && urcu_bp_read_ongoing();
  reader_leave(pass);
  good &= !urcu_bp_read_ongoing();
  tamis_destroy(f);
  return !good || !fork_with_fences();
}
#else
static int work_with_fences(void)
{
  return 0;
}
#endif

static int end_soon(const char *how)
{
  if (strcmp(how, "fences") == 0)
    return work_with_fences();
  static tamis_filter *f; /* not destroyed; no leak, as it is still known */
  static struct visit visit;
  f = make_cuckoo(10);
  if (!f || !work(f, 0, 2000))
    return 2;
  if (strcmp(how, "destroyed") == 0) {
    tamis_destroy(f);
    f = NULL;
  }
  if (strcmp(how, "busy") == 0) {
    visit = (struct visit){.f = f, .keys = 3000};
    atomic_store(&forking, true);
    if (pthread_create(&reader_at_exit, NULL, work_meanwhile, &visit))
      return 3;
    usleep(2000);
  }
  if (strcmp(how, "reading") == 0) {
    atomic_store(&forking, true);
    if (pthread_create(&reader_at_exit, NULL, read_for_ever, NULL))
      return 3;
    while (atomic_load(&forking))
      usleep(100);
    if (!work(f, 0, 2000)) /* something to wait for with the reader inside */
      return 2;
    usleep(50000); /* for the thread to be waiting; if it is not yet, nothing is tested */
  }
  if (strcmp(how, "late") == 0)
    filter_at_the_end = f;
  return 0; /* exit(0) */
}

/* This program once more, with an argument. */
static int run_self(const char *how)
{
  extern char **environ;
  char program[4096] = "";
  assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
  char shell[] = "sh", option[] = "-c", command[] = "exec " EMULATOR " \"$0\" \"$1\"", argument[16];
  snprintf(argument, sizeof argument, "%s", how);
  char *arguments[] = {shell, option, command, program, argument, NULL};
  pid_t child;
  assert_int_equal(posix_spawnp(&child, shell, NULL, NULL, arguments, environ), 0);
  return wait_for_exit(child);
}

static void readers_use_fences_where_they_must(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
#ifndef MAY_NEED_FENCES
  skip();
#endif
  assert_int_equal(run_self("fences"), 0);
}

static void a_process_may_end_right_after_retiring(void **state)
{
  (void) state;
  const char *ways[] = {"at once", "destroyed", "busy", "late", "reading"};
  for (unsigned way = 0; way < 5; way++)
    for (unsigned i = 0; i < (way < 4 ? 60 / SCALE : 1); i++) { /* the last one takes a second */
#if defined(TAMIS_TSAN) || defined(__SANITIZE_ADDRESS__)
      if (way >= 2)
        continue; /* a thread that goes on during exit is more than sanitizers allow */
#endif
      assert_int_equal(run_self(ways[way]), 0);
    }
}

int main(int argc, char **argv)
{
  if (argc > 1)
    return end_soon(argv[1]);
  tamis_destroy(make_cuckoo(100)); /* the first filter registers the fork handler */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_child_uses_what_its_parent_made),
      cmocka_unit_test(a_fork_may_come_at_any_time),
      cmocka_unit_test(a_fork_waits_for_nothing),
      cmocka_unit_test(a_reader_may_fork),
      cmocka_unit_test(a_section_goes_on_in_the_child),
      cmocka_unit_test(a_child_waits_for_its_own_readers),
      cmocka_unit_test(a_child_forgets_its_parents_readers),
      cmocka_unit_test(a_program_may_prepare_its_fork_itself),
      cmocka_unit_test(liburcu_may_be_locked_at_the_fork),
      cmocka_unit_test(children_have_children),
      cmocka_unit_test(a_fork_may_come_from_an_allocator),
      cmocka_unit_test(readers_use_fences_where_they_must),
      cmocka_unit_test(a_process_may_end_right_after_retiring),
  };
  return cmocka_run_group_tests_name("reclaim_fork", tests, NULL, NULL);
}
