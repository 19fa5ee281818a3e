/* SPDX-License-Identifier: MIT
 *
 * Reclamation in processes: those that fork, those that are forked, those that end.
 */
#include "reclaim_fixture.h"

/* Ends a child.  (To sanitizers, a search for leaks in a fork of several threads is none.) */
static void end_child(bool good)
{
#ifdef TAMIS_SANITIZED
  _exit(good ? 0 : 1);
#endif
  exit(good ? 0 : 1);
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

/* Threads come to their first call, and end. */
static void *look_up_once(void *f)
{
  (void) tamis_contains_hash(f, 1);
  return NULL;
}

static void *start_threads(void *f)
{
  pthread_t thread;
  while (atomic_load(&forking))
    if (pthread_create(&thread, NULL, look_up_once, f) == 0)
      pthread_join(thread, NULL);
  return NULL;
}

static atomic_bool reading, synchronized;

static void *read_meanwhile(void *unused)
{
  urcu_bp_read_lock();
  atomic_store(&reading, true);
  while (atomic_load(&forking))
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

static void fork_and_work(tamis_filter *f, bool prepared)
{
  if (prepared) /* by a program that uses liburcu itself */
    urcu_bp_before_fork();
  pid_t child = fork_child();
  if (child == 0) {
    struct fixture x;
    if (prepared)
      urcu_bp_after_fork_child();
    begin(&x);
    bool good = work(f, 0, 3000) && child_works() && released_by_and_by(&x, 1);
    tamis_destroy(f);
    if (prepared) /* no other thread has anything */
      end_child(good);
    _exit(good ? 0 : 1);
  }
  if (prepared)
    urcu_bp_after_fork_parent();
  assert_int_equal(wait_for(child), 0);
  assert_true(work(f, 0, 3000));
}

/* ASan's allocator (gcc 12) takes no lock of its own at a fork.  So the child of a process in which another
 * thread allocates just then may wait for that lock for ever. */
#ifdef __SANITIZE_ADDRESS__
enum { MAY_ALLOCATE = false };
#else
enum { MAY_ALLOCATE = true };
#endif

/* The child's handler takes no lock of liburcu's, which may be taken for ever there: by a thread of
 * the program that waits for a reader.  A filter that another thread uses may be locked for ever. */
TEST(a_fork_may_come_at_any_time)
{
  skip_where_no_child_has_threads();
  pthread_t worker = 0, starter = 0, reader, writer;
  tamis_filter *f = make_cuckoo(100), *busy = make_cuckoo(10);
  struct visit visit = {.f = busy, .keys = 3000, .good = true};
  assert_true(f && busy && work(f, 0, 3000));
  fork_and_work(f, true);
  atomic_store(&forking, true);
  assert_int_equal(pthread_create(&reader, NULL, read_meanwhile, NULL), 0);
  while (!atomic_load(&reading))
    usleep(100);
  assert_int_equal(pthread_create(&writer, NULL, synchronize, NULL), 0);
  usleep(50000); /* for it to be waiting; if it is not yet, nothing is tested */
  if (MAY_ALLOCATE) {
    assert_int_equal(pthread_create(&worker, NULL, work_meanwhile, &visit), 0);
    assert_int_equal(pthread_create(&starter, NULL, start_threads, f), 0);
  }
  for (unsigned i = 0; i < (is_long() ? 2000 : 30); i++) {
    usleep(1000);
    fork_and_work(f, false);
  }
  assert_false(atomic_load(&synchronized));
  atomic_store(&forking, false);
  if (MAY_ALLOCATE) {
    pthread_join(worker, NULL);
    pthread_join(starter, NULL);
    assert_true(visit.good);
  }
  pthread_join(reader, NULL);
  pthread_join(writer, NULL);
  tamis_destroy(busy);
  tamis_destroy(f);
}

/* What one waits for in the child: not released under the section that was open at the fork, but
 * after it.  `generations` children, each forked by the one before. */
static bool section_goes_on(reader_token pass, unsigned generations)
{
  struct fixture x;
  begin(&x);
  bool good = waits(&x, 0);
  reader_leave(reader_enter()); /* a section inside the other changes nothing */
  tamis__backlog_drain(&x.backlog, false);
  good &= atomic_load(&released) == 0;
  if (generations > 1) {
    pid_t child = fork_child();
    if (child == 0)
      _exit(section_goes_on(pass, generations - 1) ? 0 : 1);
    good &= wait_for(child) == 0;
  }
  reader_leave(pass);
  good &= released_by_and_by(&x, 1);
  end(&x);
  return good && child_works();
}

/* The library's thread waits for the very reader that forks. */
TEST(a_section_goes_on_in_the_child)
{
  skip_where_no_child_has_threads();
  for (unsigned own = 0; own < 2; own++) { /* inside of one of the program's own, too */
    struct fixture x;
    begin(&x);
    if (own)
      urcu_bp_read_lock();
    reader_token pass = reader_enter();
    assert_true(waits(&x, 0));
    pid_t child = fork_child();
    if (child == 0) {
      if (own)
        urcu_bp_read_unlock();
      _exit(section_goes_on(pass, 3) ? 0 : 1);
    }
    assert_int_equal(wait_for(child), 0);
    assert_int_equal(atomic_load(&released), 0);
    reader_leave(pass);
    if (own)
      urcu_bp_read_unlock();
    assert_false(urcu_bp_read_ongoing());
    assert_true(released_by_and_by(&x, 1)); /* in the parent all goes on */
    end(&x);
  }
}

/* A fork waits neither for a reader, nor for the thread that waits for it. */
TEST(a_fork_waits_for_nothing)
{
  struct fixture x;
  double shortest = PATIENCE_SECONDS;
  begin(&x);
  reader_token pass = reader_enter();
  retire(&x, make_block(&x));
  usleep(20000); /* for the thread to be waiting; if it is not yet, nothing is tested */
  for (unsigned i = 0; i < 200 && shortest >= 0.05; i++) { /* the machine may be busy */
    double began = seconds();
    pid_t child = fork();
    if (child == 0)
      _exit(0);
    double took = seconds() - began;
    shortest = took < shortest ? took : shortest;
    assert_int_equal(wait_for(child), 0);
  }
  reader_leave(pass);
  end(&x);
  assert_true(shortest < 0.05);
}

/* Threads of the child are readers that the child waits for; so is the forking thread, although the
 * parent has registered it. */
static bool waits_for_its_readers(void)
{
  enum { READERS = 5 };
  struct fixture x;
  begin(&x);
  _Atomic(struct block *) shared = make_block(&x);
  struct long_reader readers[READERS];
  for (unsigned i = 0; i < READERS; i++)
    begin_to_read(&readers[i], &shared, NULL);
  reader_token pass = reader_enter();
  retire(&x, atomic_exchange(&shared, NULL));
  bool good = true;
  for (unsigned i = 0; i < READERS; i++) {
    good &= waits(&x, 0);
    end_reading(&readers[i]);
  }
  good &= waits(&x, 0);
  reader_leave(pass);
  good &= released_by_and_by(&x, 1);
  end(&x);
  return good;
}

/* Readers that only the parent has hold up nothing in the child. */
TEST(a_child_waits_for_its_own_readers)
{
  skip_where_no_child_has_threads();
  struct fixture x;
  struct long_reader reader;
  begin(&x);
  _Atomic(struct block *) shared = make_block(&x);
  reader_leave(reader_enter()); /* registered */
  begin_to_read(&reader, &shared, NULL);
  pid_t child = fork_child();
  if (child == 0)
    _exit(released_by_and_by(&x, 1) && waits_for_its_readers() ? 0 : 1);
  assert_int_equal(wait_for(child), 0);
  retire(&x, atomic_exchange(&shared, NULL));
  assert_true(waits(&x, 0)); /* in the parent it is there */
  end_reading(&reader);
  end(&x);
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
  return wait_for(child) == 0;
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

static void start_beside(pthread_t *thread, void *(*run)(void *), void *argument)
{
  atomic_store(&forking, true);
  if (pthread_create(thread, NULL, run, argument))
    _exit(3);
}

static int end_soon(const char *how)
{
  if (strcmp(how, "fences") == 0)
    return work_with_fences();
  static tamis_filter *f; /* not destroyed; no leak, as it is still known */
  static struct visit visit;
  f = make_cuckoo(10);
  if (!f || !work(f, 0, 2000))
    return 2;
  visit = (struct visit){.f = f, .keys = 3000};
  if (strcmp(how, "destroyed") == 0) {
    tamis_destroy(f);
    f = NULL;
  } else if (strcmp(how, "busy") == 0) {
    start_beside(&reader_at_exit, work_meanwhile, &visit);
    usleep(2000);
  } else if (strcmp(how, "reading") == 0) {
    start_beside(&reader_at_exit, read_for_ever, NULL);
    while (atomic_load(&forking))
      usleep(100);
    if (!work(f, 0, 2000)) /* something to wait for with the reader inside */
      return 2;
    usleep(50000); /* for the thread to be waiting; if it is not yet, nothing is tested */
  } else if (strcmp(how, "late") == 0)
    filter_at_the_end = f;
  return 0; /* exit(0) */
}

TEST(readers_use_fences_where_they_must)
{
  skip_where_no_child_has_threads();
#ifndef MAY_NEED_FENCES
  skip();
#endif
  assert_int_equal(run_self("fences"), 0);
}

TEST(a_process_may_end_right_after_retiring)
{
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
  return run_all_tests();
}
