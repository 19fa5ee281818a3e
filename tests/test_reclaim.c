/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/memory.h"
#include "base/reclaim.h"
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef TAMIS_SLOW
enum { SCALE = 10 };
#else
enum { SCALE = 1 };
#endif

enum { PATIENCE_SECONDS = 10 };

/* ---- backlog by itself ---- */

static atomic_uint released;

static void *plain_allocate(void *context, size_t alignment, size_t size)
{
  (void) context;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

/* What is released is written to, so that sanitizers see a reader that is still there. */
static void count_release(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) alignment;
  memset(block, 0xa5, size);
  free(block);
  atomic_fetch_add(&released, 1);
}

static const tamis_allocator counting = {plain_allocate, count_release, NULL};

struct block {
  struct retired retired;
  uint64_t content;
};

struct fixture {
  struct backlog backlog;
  _Atomic uint64_t bytes;
  unsigned retired;
};

static void release(void *owner, struct retired *block, size_t size)
{
  struct fixture *x = owner;
  tamis__memory_release(&counting, block, size);
  atomic_fetch_sub(&x->bytes, size);
}

static void begin(struct fixture *x)
{
  atomic_store(&released, 0);
  x->retired = 0;
  x->bytes = 0;
  assert_true(tamis__backlog_init(&x->backlog, release, x, &x->bytes));
}

static struct block *make_block(struct fixture *x)
{
  struct block *block = tamis__memory_allocate(&counting, sizeof *block);
  assert_non_null(block);
  block->content = 42;
  atomic_fetch_add(&x->bytes, sizeof *block);
  return block;
}

static void retire(struct fixture *x, struct block *block)
{
  x->retired++;
  tamis__backlog_retire(&x->backlog, &block->retired, sizeof *block);
}

/* Retires until `n` blocks have been released; false if that takes too long. */
static bool released_by_and_by(struct fixture *x, unsigned n)
{
  double end = harness_seconds() + PATIENCE_SECONDS;
  while (atomic_load(&released) < n && harness_seconds() < end) {
    retire(x, make_block(x));
    usleep(1000);
  }
  return atomic_load(&released) >= n;
}

static void end(struct fixture *x)
{
  tamis__backlog_destroy(&x->backlog);
  assert_int_equal(atomic_load(&released), x->retired);
  assert_int_equal(atomic_load(&x->bytes), 0);
}

static void what_is_retired_is_released_by_a_later_call(void **state)
{
  (void) state;
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
}

static void destroy_releases_everything_at_once(void **state)
{
  (void) state;
  for (unsigned n = 0; n < 300; n++) {
    struct fixture x;
    begin(&x);
    for (unsigned i = 0; i < n; i++)
      retire(&x, make_block(&x));
    end(&x);
  }
}

static void destroy_is_fine_after_a_failed_init(void **state)
{
  (void) state;
  struct backlog backlog;
  memset(&backlog, 0, sizeof backlog);
  tamis__backlog_destroy(&backlog);
}

/* A reader that stays inside until it is told to leave. */
struct long_reader {
  pthread_t thread;
  _Atomic(struct block *) *shared;
  atomic_bool inside, may_leave;
  uint64_t seen;
};

static void *read_for_long(void *arg)
{
  struct long_reader *reader = arg;
  reader_token pass = reader_enter();
  struct block *block = atomic_load(reader->shared);
  atomic_store(&reader->inside, true);
  while (!atomic_load(&reader->may_leave))
    usleep(100);
  reader->seen = block->content; /* still what it was */
  reader_leave(pass);
  return NULL;
}

static void nothing_is_released_under_a_reader(void **state)
{
  (void) state;
  struct fixture x;
  begin(&x);
  _Atomic(struct block *) shared = make_block(&x);
  struct long_reader reader = {.shared = &shared};
  assert_int_equal(pthread_create(&reader.thread, NULL, read_for_long, &reader), 0);
  while (!atomic_load(&reader.inside))
    usleep(100);
  retire(&x, atomic_exchange(&shared, NULL));
  for (unsigned i = 0; i < 200; i++) { /* however often somebody asks */
    retire(&x, make_block(&x));
    assert_int_equal(atomic_load(&released), 0);
    usleep(500);
  }
  atomic_store(&reader.may_leave, true);
  assert_true(released_by_and_by(&x, 201));
  pthread_join(reader.thread, NULL);
  assert_int_equal(reader.seen, 42);
  end(&x);
}

/* Readers that come later do not hold up what was retired before. */
static void later_readers_hold_up_nothing(void **state)
{
  (void) state;
  struct fixture x;
  begin(&x);
  enum { READERS = 3, ROUNDS = 20 };
  _Atomic(struct block *) shared = make_block(&x);
  struct long_reader readers[READERS] = {{0}};
  for (unsigned i = 0; i < ROUNDS; i++) { /* there is always one inside, but never the same */
    struct long_reader *reader = &readers[i % READERS];
    if (i >= READERS) {
      atomic_store(&reader->may_leave, true);
      pthread_join(reader->thread, NULL);
      assert_int_equal(reader->seen, 42);
    }
    *reader = (struct long_reader){.shared = &shared};
    assert_int_equal(pthread_create(&reader->thread, NULL, read_for_long, reader), 0);
    while (!atomic_load(&reader->inside))
      usleep(100);
    retire(&x, atomic_exchange(&shared, make_block(&x)));
    if (i == ROUNDS - READERS)
      assert_true(atomic_load(&released) <= i);
  }
  for (unsigned i = 0; i < READERS; i++) {
    atomic_store(&readers[i].may_leave, true);
    pthread_join(readers[i].thread, NULL);
  }
  assert_true(released_by_and_by(&x, ROUNDS));
  retire(&x, atomic_load(&shared));
  end(&x);
}

/* A block that is retired during a grace period waits for the next one: a reader may have come since the
 * first began. */
static void retire_in_turn(struct fixture *x, struct fixture *y)
{
  _Atomic(struct block *) first = make_block(x), second = make_block(y);
  struct long_reader a = {.shared = &first}, b = {.shared = &second};
  assert_int_equal(pthread_create(&a.thread, NULL, read_for_long, &a), 0);
  while (!atomic_load(&a.inside))
    usleep(100);
  retire(x, atomic_exchange(&first, NULL));
  usleep(20000); /* for the thread to be waiting; if it is not yet, nothing is tested */
  assert_int_equal(pthread_create(&b.thread, NULL, read_for_long, &b), 0);
  while (!atomic_load(&b.inside))
    usleep(100);
  retire(y, atomic_exchange(&second, NULL));
  atomic_store(&a.may_leave, true);
  pthread_join(a.thread, NULL);
  for (unsigned i = 0; i < 50; i++, usleep(1000)) {
    tamis__backlog_drain(&x->backlog);
    tamis__backlog_drain(&y->backlog);
    assert_true(atomic_load(&released) <= 1);
  }
  atomic_store(&b.may_leave, true);
  pthread_join(b.thread, NULL);
  assert_int_equal(b.seen, 42);
}

static void what_comes_during_a_grace_period_waits_for_the_next(void **state)
{
  (void) state;
  struct fixture x, y;
  begin(&x);
  begin(&y);
  retire_in_turn(&x, &y);
  x.retired += y.retired; /* which `released` counts together */
  tamis__backlog_destroy(&y.backlog);
  end(&x);
}

static void what_one_filter_retires_meanwhile_waits_too(void **state)
{
  (void) state;
  struct fixture x;
  begin(&x);
  retire_in_turn(&x, &x);
  end(&x);
}

/* The thread that waits ends when there is nothing to do for a second; the next one who retires
 * something gets a new one. */
static void the_waiting_thread_comes_back(void **state)
{
  (void) state;
  struct fixture x;
  begin(&x);
  assert_true(released_by_and_by(&x, 1));
  usleep(1500000);
  unsigned before = atomic_load(&released);
  assert_true(released_by_and_by(&x, before + x.retired - before + 1));
  end(&x);
}

/* Signals are for the program's own threads: when all of these block one it waits, and who starts the
 * library's thread has the same signals blocked before and after. */
static atomic_uint signals;

static void count_signal(int number)
{
  (void) number;
  atomic_fetch_add(&signals, 1);
}

static void the_waiting_thread_takes_no_signals(void **state)
{
  (void) state;
  usleep(1500000); /* a thread that there was has ended */
  struct sigaction action = {.sa_handler = count_signal}, action_before;
  sigset_t none, mine, pending, after;
  sigemptyset(&none);
  sigemptyset(&mine);
  sigaddset(&mine, SIGUSR1);
  assert_int_equal(sigaction(SIGUSR1, &action, &action_before), 0);
  assert_int_equal(pthread_sigmask(SIG_SETMASK, &none, NULL), 0);
  struct fixture x;
  begin(&x);
  retire(&x, make_block(&x)); /* starts it */
  assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
  assert_false(sigismember(&after, SIGUSR1) || sigismember(&after, SIGTERM));
  assert_int_equal(pthread_sigmask(SIG_SETMASK, &mine, NULL), 0);
  assert_int_equal(kill(getpid(), SIGUSR1), 0);
  assert_true(released_by_and_by(&x, 1)); /* the thread has run */
  assert_int_equal(sigpending(&pending), 0);
  assert_true(sigismember(&pending, SIGUSR1));
  assert_int_equal(atomic_load(&signals), 0);
  assert_int_equal(pthread_sigmask(SIG_SETMASK, &none, NULL), 0);
  assert_int_equal(atomic_load(&signals), 1);
  assert_int_equal(sigaction(SIGUSR1, &action_before, NULL), 0);
  end(&x);
}

static void a_reader_inside_does_not_keep_a_filter_from_going(void **state)
{
  (void) state;
  _Atomic(struct block *) shared = NULL;
  struct block block = {.content = 42};
  atomic_store(&shared, &block);
  struct long_reader reader = {.shared = &shared};
  assert_int_equal(pthread_create(&reader.thread, NULL, read_for_long, &reader), 0);
  while (!atomic_load(&reader.inside))
    usleep(100);
  for (unsigned i = 0; i < 100; i++) { /* tickets of which the thread frees the last */
    struct fixture x;
    begin(&x);
    retire(&x, make_block(&x));
    retire(&x, make_block(&x));
    if (i == 0)
      usleep(50000); /* for the thread to be waiting with its ticket */
    end(&x);
  }
  atomic_store(&reader.may_leave, true);
  pthread_join(reader.thread, NULL);
  assert_int_equal(reader.seen, 42);
  usleep(50000); /* for the thread to come back with it */
}

/* ---- filters ---- */

static tamis_filter *make_cuckoo(uint64_t capacity)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = capacity;
  options.fpp = 0.001;
  options.seed = 42;
  tamis_filter *f = NULL;
  return tamis_create(&options, &f) == TAMIS_OK ? f : NULL;
}

/* Adds with splits, look-ups, removes with joins: of keys of its own. */
static bool work(tamis_filter *f, uint64_t from, uint64_t n)
{
  bool good = true;
  for (uint64_t i = from; i < from + n; i++)
    good &= tamis_add_hash(f, i) == TAMIS_OK && tamis_contains_hash(f, i);
  for (uint64_t i = from; i < from + n; i++)
    good &= tamis_contains_hash(f, i);
  for (uint64_t i = from; i < from + n; i++)
    good &= tamis_remove_hash(f, i) == TAMIS_OK;
  return good;
}

struct visit {
  tamis_filter *f;
  uint64_t from, keys;
  bool good;
};

static void *visit_filter(void *arg)
{
  struct visit *visit = arg;
  visit->good = work(visit->f, visit->from, visit->keys);
  return NULL;
}

static void threads_come_and_go_by_the_thousand(void **state)
{
  (void) state;
  enum { AT_ONCE = 8, THREADS = 6000 / SCALE };
  tamis_filter *f = make_cuckoo(100);
  assert_non_null(f);
  for (uint64_t i = 0; i < 1000; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
  for (uint64_t i = 0; i < THREADS; i += AT_ONCE) {
    pthread_t threads[AT_ONCE];
    struct visit visits[AT_ONCE];
    for (unsigned j = 0; j < AT_ONCE; j++) {
      visits[j] = (struct visit){.f = f, .from = 1000000 + (i + j) * 1000, .keys = 100};
      assert_int_equal(pthread_create(&threads[j], NULL, visit_filter, &visits[j]), 0);
    }
    for (unsigned j = 0; j < AT_ONCE; j++) {
      pthread_join(threads[j], NULL);
      assert_true(visits[j].good);
    }
  }
  for (uint64_t i = 0; i < 1000; i++)
    assert_true(tamis_contains_hash(f, i));
  assert_int_equal(stats_of(f).count, 1000);
  tamis_destroy(f);
}

static tamis_filter *shared_filter;

/* Filters of its own, created and destroyed while the shared one is in use. */
static void create_and_destroy(struct worker *worker)
{
  enum { FILTERS = 400 / SCALE, KEYS = 2000 };
  bool good = true;
  for (uint64_t i = 0; i < FILTERS && good; i++) {
    tamis_filter *mine = make_cuckoo(10);
    uint64_t from = (worker->index + 1) * UINT64_C(1000000000) + i * KEYS;
    good = mine && work(mine, 0, KEYS) && work(shared_filter, from, KEYS);
    for (uint64_t key = 0; key < 100; key++)
      good &= tamis_contains_hash(shared_filter, key);
    tamis_destroy(mine);
  }
  worker->result = good;
}

static void filters_come_and_go_while_others_are_in_use(void **state)
{
  (void) state;
  enum { THREADS = 4 };
  struct worker workers[THREADS];
  shared_filter = make_cuckoo(10);
  assert_non_null(shared_filter);
  for (uint64_t key = 0; key < 100; key++)
    assert_int_equal(tamis_add_hash(shared_filter, key), TAMIS_OK);
  harness_run(THREADS, 1, create_and_destroy, NULL, workers);
  for (unsigned i = 0; i < THREADS; i++)
    assert_true(workers[i].result);
  assert_int_equal(stats_of(shared_filter).count, 100);
  tamis_destroy(shared_filter);
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

static void a_program_may_use_liburcu_itself(void **state)
{
  (void) state;
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
  for (uint64_t i = 0; i < n; i++)
    assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
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

/* TSan allows no new threads after a fork of several.  qemu-user (7.2) ends with an assertion of its own
 * then. */
static void skip_where_no_child_has_threads(void)
{
#ifdef TAMIS_TSAN
  skip();
#endif
  if (*EMULATOR)
    skip();
}

static int wait_for_exit(pid_t child)
{
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* A section of the program that begins in a call, in its allocator say, and goes on after it. */
static void sections_need_not_nest(void **state)
{
  (void) state;
  for (unsigned own = 0; own < 2; own++) { /* inside of one of the program's own, too */
    if (own)
      urcu_bp_read_lock();
    reader_token pass = reader_enter();
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

#if defined(_LGPL_SOURCE) && !defined(CONFIG_RCU_FORCE_SYS_MEMBARRIER)
#define MAY_NEED_FENCES
static void *work_with_fences(void *result)
{
  tamis_filter *f = make_cuckoo(100);
  uint64_t keys[100];
  for (uint64_t i = 0; i < 100; i++)
    keys[i] = i;
  bool good = f && work(f, 0, 3000) && tamis_add_many_hash(f, keys, 100, NULL) == TAMIS_OK &&
              tamis_contains_many_hash(f, keys, 100, NULL) == 100;
  reader_token pass = reader_enter();
  good &= !pass && urcu_bp_read_ongoing();
  reader_leave(pass);
  *(bool *) result = good && !urcu_bp_read_ongoing();
  tamis_destroy(f);
  return NULL;
}

/* Where the system has no membarrier, readers need fences, which liburcu has.  (In a process of its own, as
 * readers that are known by now do without.) */
static void readers_use_fences_where_they_must(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    bool good = false;
    pthread_t thread;
    urcu_bp_has_sys_membarrier = 0;
    bool started = pthread_create(&thread, NULL, work_with_fences, &good) == 0;
    if (started)
      pthread_join(thread, NULL);
    _exit(started && good ? 0 : 1);
  }
  assert_int_equal(wait_for_exit(child), 0);
}
#endif

/* ---- processes ---- */

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
    fflush(NULL);
    pid_t child = fork();
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
  tamis_filter *busy = make_cuckoo(10);
  assert_non_null(busy);
  struct visit visit = {.f = busy, .from = 0, .keys = 3000};
  pthread_t thread;
  atomic_store(&forking, true);
  assert_int_equal(pthread_create(&thread, NULL, work_meanwhile, &visit), 0);
  for (unsigned i = 0; i < 30; i++) {
    usleep(1000);
    fflush(NULL);
    pid_t child = fork();
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
  fflush(NULL);
  pid_t child = fork();
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

/* Readers that only the parent has hold up nothing in the child: liburcu is told that they are gone. */
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
  fflush(NULL);
  pid_t child = fork();
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

/* A program that prepares liburcu for a fork itself, which the library sees and leaves alone. */
static void a_program_may_prepare_its_fork_itself(void **state)
{
  (void) state;
  skip_where_no_child_has_threads();
  tamis_filter *f = make_cuckoo(100);
  assert_non_null(f);
  assert_true(work(f, 0, 3000));
  fflush(NULL);
  urcu_bp_before_fork();
  pid_t child = fork();
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

/* What this program does when it is started with an argument: ends right after something was retired,
 * with the library's thread at work, in one of several ways. */
static pthread_t reader_at_exit;

static void *read_for_ever(void *unused)
{
  reader_enter(); /* and never leaves */
  atomic_store(&forking, false);
  for (;;)
    pause();
  return unused;
}

/* The library's own destructor comes before this one, whose number is lower.  Memory only waits then. */
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

static int end_soon(const char *how)
{
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

static void a_process_may_end_right_after_retiring(void **state)
{
  (void) state;
  const char *ways[] = {"at once", "destroyed", "busy", "late", "reading"};
  char program[4096] = "";
  assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
  for (unsigned way = 0; way < 5; way++)
    for (unsigned i = 0; i < (way < 4 ? 60 / SCALE : 1); i++) { /* the last one takes a second */
#if defined(TAMIS_TSAN) || defined(__SANITIZE_ADDRESS__)
      if (way >= 2)
        continue; /* a thread that goes on during exit is more than sanitizers allow */
#endif
      extern char **environ;
      char shell[] = "sh", option[] = "-c", command[] = "exec " EMULATOR " \"$0\" \"$1\"",
           argument[16];
      snprintf(argument, sizeof argument, "%s", ways[way]);
      char *arguments[] = {shell, option, command, program, argument, NULL};
      pid_t child;
      assert_int_equal(posix_spawnp(&child, shell, NULL, NULL, arguments, environ), 0);
      assert_int_equal(wait_for_exit(child), 0);
    }
}

int main(int argc, char **argv)
{
  if (argc > 1)
    return end_soon(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_retired_is_released_by_a_later_call),
      cmocka_unit_test(destroy_releases_everything_at_once),
      cmocka_unit_test(destroy_is_fine_after_a_failed_init),
      cmocka_unit_test(nothing_is_released_under_a_reader),
      cmocka_unit_test(later_readers_hold_up_nothing),
      cmocka_unit_test(what_comes_during_a_grace_period_waits_for_the_next),
      cmocka_unit_test(what_one_filter_retires_meanwhile_waits_too),
      cmocka_unit_test(the_waiting_thread_comes_back),
      cmocka_unit_test(the_waiting_thread_takes_no_signals),
      cmocka_unit_test(a_reader_inside_does_not_keep_a_filter_from_going),
      cmocka_unit_test(threads_come_and_go_by_the_thousand),
      cmocka_unit_test(filters_come_and_go_while_others_are_in_use),
      cmocka_unit_test(a_program_may_use_liburcu_itself),
      cmocka_unit_test(sections_need_not_nest),
#ifdef MAY_NEED_FENCES
      cmocka_unit_test(readers_use_fences_where_they_must),
#endif
      cmocka_unit_test(a_child_uses_what_its_parent_made),
      cmocka_unit_test(a_fork_may_come_at_any_time),
      cmocka_unit_test(a_reader_may_fork),
      cmocka_unit_test(a_child_forgets_its_parents_readers),
      cmocka_unit_test(a_program_may_prepare_its_fork_itself),
      cmocka_unit_test(a_process_may_end_right_after_retiring),
  };
  return cmocka_run_group_tests_name("reclaim", tests, NULL, NULL);
}
