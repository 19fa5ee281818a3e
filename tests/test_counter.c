/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/counter.h"
#include "harness.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef TAMIS_SLOW
enum { SCALE = 10 };
#else
enum { SCALE = 1 };
#endif

enum { THREADS = 8, ROUNDS = 1000000 / SCALE, MAX_SHARDS = 64 };

/* What the library asks of the system, so that it can be refused. */
static _Atomic bool refuse_keys, refuse_values;

#ifdef NOTHING_IS_REFUSED
#define NEEDS_REFUSALS skip()
#else
#define NEEDS_REFUSALS ((void) 0)
int __real_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __real_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);

int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
  return atomic_load(&refuse_keys) ? EAGAIN : __real_pthread_key_create(key, destructor);
}

int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
  return atomic_load(&refuse_values) ? ENOMEM : __real_pthread_setspecific(key, value);
}
#endif

/* ---- sets of counters ---- */

static struct counter_shard shards[MAX_SHARDS];

static struct counters set_of(unsigned n)
{
  memset(shards, 0, sizeof shards);
  return (struct counters){shards, n - 1};
}

/* As many shards as filters have at most here; so many threads can have numbers, less one. */
static struct counters largest_set(void)
{
  return set_of(tamis__counter_shards(UINT64_MAX));
}

/* After an add, by which a thread asks for one. */
static unsigned own_number(void)
{
  struct counter_shard shard = {.value = {0}};
  struct counters counters = {&shard, 0};
  counter_add(&counters, 0, 1);
  return tamis__thread_index;
}

static bool is_number(unsigned n)
{
  return n >= 1 && n < MAX_SHARDS;
}

/* ---- what is counted ---- */

static void bump(struct worker *worker)
{
  const struct counters *counters = worker->arg;
  for (unsigned i = 0; i < ROUNDS; i++) {
    counter_add(counters, 0, 1);
    counter_add(counters, 7, 3);
  }
  worker->result = tamis__thread_index;
}

/* One shard for all, where threads meet, or several: some threads own one, the others meet. */
static void sum_over(unsigned n)
{
  struct counters counters = set_of(n);
  struct worker workers[THREADS];
  harness_run(THREADS, 1, bump, &counters, workers);
  assert_int_equal(tamis__counter_sum(&counters, 0), THREADS * ROUNDS);
  assert_int_equal(tamis__counter_sum(&counters, 7), 3 * THREADS * ROUNDS);
  assert_int_equal(tamis__counter_sum(&counters, 1), 0);
}

static void sums_lose_nothing(void **state)
{
  (void) state;
  for (unsigned n = 1; n <= MAX_SHARDS; n *= 2)
    sum_over(n);
}

static void a_thread_keeps_its_number(void **state)
{
  (void) state;
  unsigned number = own_number();
  assert_true(is_number(number));
  assert_int_equal(own_number(), number);
}

static void adds_return_the_new_value(void **state)
{
  (void) state;
  struct counters counters = set_of(1);
  assert_int_equal(counter_add(&counters, 2, 5), 5);
  assert_int_equal(counter_add(&counters, 2, 1), 6);
  assert_true(is_number(own_number()));
  counters = largest_set();
  assert_int_equal(counter_add(&counters, 2, 5), 5);
  assert_int_equal(counter_add(&counters, 2, UINT64_MAX), 4);
  assert_int_equal(atomic_load(&shards[tamis__thread_index].value[2]), 4);
}

/* ---- threads that come and go ---- */

static void *bump_a_little(void *counters)
{
  for (unsigned i = 0; i < 100; i++)
    counter_add(counters, 0, 1);
  return NULL;
}

static pthread_t start(void *(*run)(void *), void *arg)
{
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
  return thread;
}

static void join(pthread_t thread)
{
  assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Each begins while the one before it, and the one before that, may still add or be about to end. */
static void threads_that_follow_each_other_lose_nothing(void **state)
{
  (void) state;
  enum { LIVES = 20000 / SCALE, AT_ONCE = 12 };
  struct counters counters = largest_set();
  pthread_t threads[AT_ONCE];
  for (unsigned i = 0; i < LIVES; i++) {
    if (i >= AT_ONCE)
      join(threads[i % AT_ONCE]);
    threads[i % AT_ONCE] = start(bump_a_little, &counters);
  }
  for (unsigned i = 0; i < AT_ONCE; i++)
    join(threads[i]);
  assert_int_equal(tamis__counter_sum(&counters, 0), 100 * LIVES);
}

static void *note_number(void *number)
{
  *(unsigned *) number = own_number();
  return NULL;
}

static void numbers_are_given_back(void **state)
{
  (void) state;
  unsigned first = 0, number = 0;
  join(start(note_number, &first));
  assert_true(is_number(first));
  for (unsigned i = 0; i < 1000; i++) {
    join(start(note_number, &number));
    assert_int_equal(number, first);
  }
}

/* What an owner did before it ended comes before what the next owner does: to a thread sanitizer plain
 * accesses tell, as nothing else orders the threads. */
static uint64_t plain[MAX_SHARDS + 1];

static void *bump_plain(void *unused)
{
  unsigned number = own_number();
  if (is_number(number))
    plain[number]++;
  return unused;
}

static void owners_of_a_number_are_ordered(void **state)
{
  (void) state;
  enum { LIVES = 500 };
  pthread_t threads[LIVES];
  for (unsigned i = 0; i < LIVES; i++)
    threads[i] = start(bump_plain, NULL);
  for (unsigned i = 0; i < LIVES; i++)
    join(threads[i]);
  uint64_t sum = 0;
  for (unsigned i = 0; i <= MAX_SHARDS; i++)
    sum += plain[i];
  assert_in_range(sum, 1, LIVES);
}

/* As many threads as numbers, one of which the main thread has, are alive; when they are gone the one
 * that found none gets one. */
struct crowd {
  struct counters counters;
  pthread_barrier_t all_asked, others_gone;
  _Atomic unsigned threads;
  unsigned numbers[MAX_SHARDS];
};

static void *ask(void *arg)
{
  struct crowd *crowd = arg;
  unsigned *number = &crowd->numbers[atomic_fetch_add(&crowd->threads, 1)];
  counter_add(&crowd->counters, 0, 1);
  *number = tamis__thread_index;
  pthread_barrier_wait(&crowd->all_asked);
  if (!tamis__thread_index) {
    pthread_barrier_wait(&crowd->others_gone);
    counter_add(&crowd->counters, 0, 1);
    *number = tamis__thread_index;
  }
  return NULL;
}

static void a_thread_without_a_number_asks_again(void **state)
{
  (void) state;
  own_number();
  static struct crowd crowd;
  crowd.counters = largest_set();
  unsigned threads = MAX_SHARDS - 1, found = 0;
  uint64_t seen = UINT64_C(1) << tamis__thread_index;
  pthread_t thread[MAX_SHARDS];
  pthread_barrier_init(&crowd.all_asked, NULL, threads + 1);
  pthread_barrier_init(&crowd.others_gone, NULL, 2);
  for (unsigned i = 0; i < threads; i++)
    thread[i] = start(ask, &crowd);
  pthread_barrier_wait(&crowd.all_asked);
  for (unsigned i = 0; i < threads; i++) {
    unsigned number = crowd.numbers[i];
    found += is_number(number) && !(seen >> number & 1);
    seen |= UINT64_C(1) << number;
  }
  assert_int_equal(found, threads - 1);
  assert_true(seen & 1); /* one has none */
  for (unsigned gone = 0; gone < threads - 1;)
    for (unsigned i = 0; i < threads; i++)
      if (thread[i] && pthread_tryjoin_np(thread[i], NULL) == 0)
        thread[i] = 0, gone++;
  pthread_barrier_wait(&crowd.others_gone);
  for (unsigned i = 0; i < threads; i++) {
    if (thread[i])
      join(thread[i]);
    assert_true(is_number(crowd.numbers[i]));
  }
  assert_int_equal(tamis__counter_sum(&crowd.counters, 0), threads + 1);
  pthread_barrier_destroy(&crowd.all_asked);
  pthread_barrier_destroy(&crowd.others_gone);
}

/* A destructor that runs after the one that has given the number back adds, while the next owner does. */
static struct {
  pthread_key_t key;
  struct counters counters;
  _Atomic int step;
  unsigned first, first_late, next;
} late;

enum { BEGUN, GIVEN_BACK, TAKEN };

static void wait_for_step(int step)
{
  while (atomic_load(&late.step) != step)
    sched_yield();
}

static void add_late(void *round)
{
  if (round == &late.first) { /* the next round comes after all destructors of this one */
    pthread_setspecific(late.key, &late.first_late);
    return;
  }
  atomic_store(&late.step, GIVEN_BACK);
  wait_for_step(TAKEN);
  for (unsigned i = 0; i < ROUNDS; i++)
    counter_add(&late.counters, 0, 1);
  late.first_late = tamis__thread_index;
}

static void *own_first(void *unused)
{
  counter_add(&late.counters, 0, 1);
  late.first = tamis__thread_index;
  pthread_setspecific(late.key, &late.first);
  return unused;
}

static void *own_next(void *unused)
{
  counter_add(&late.counters, 0, 1);
  late.next = tamis__thread_index;
  atomic_store(&late.step, TAKEN);
  for (unsigned i = 0; i < ROUNDS; i++)
    counter_add(&late.counters, 0, 1);
  return unused;
}

static void destructors_may_add(void **state)
{
  (void) state;
  late.counters = largest_set();
  late.step = BEGUN;
  assert_int_equal(pthread_key_create(&late.key, add_late), 0);
  pthread_t first = start(own_first, NULL);
  wait_for_step(GIVEN_BACK);
  pthread_t next = start(own_next, NULL);
  join(first);
  join(next);
  assert_true(is_number(late.first));
  assert_int_equal(late.next, late.first);
  assert_false(is_number(late.first_late));
  assert_int_equal(tamis__counter_sum(&late.counters, 0), 2 * ROUNDS + 2);
  pthread_key_delete(late.key);
}

/* ---- what the system refuses ---- */

static int status_of(pid_t child)
{
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

/* The first test, as the library asks for its key once: in a process of its own. */
static void without_a_key_all_share(void **state)
{
  (void) state;
  NEEDS_REFUSALS;
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    refuse_keys = true;
    struct counters counters = largest_set();
    struct worker workers[THREADS];
    counter_add(&counters, 0, 1);
    bool good = !tamis__thread_index;
    harness_run(THREADS, 1, bump, &counters, workers);
    good = good && tamis__counter_sum(&counters, 0) == THREADS * ROUNDS + 1;
    for (unsigned i = 0; i < THREADS; i++)
      good = good && !is_number((unsigned) workers[i].result);
    _exit(!good);
  }
  assert_int_equal(status_of(child), 0);
}

static void a_thread_without_memory_shares(void **state)
{
  (void) state;
  NEEDS_REFUSALS;
  unsigned before = 0, number = 0, after = 0;
  join(start(note_number, &before));
  refuse_values = true;
  for (unsigned i = 0; i < 2 * MAX_SHARDS; i++) {
    join(start(note_number, &number));
    assert_true(number && !is_number(number));
  }
  refuse_values = false;
  join(start(note_number, &after));
  assert_int_equal(after, before);
}

/* ---- fork ---- */

/* Whether threads that come and go shall go. */
static _Atomic bool enough;

/* Numbers are taken and given back all the time. */
static void *come_and_go(void *counters)
{
  while (!atomic_load(&enough))
    join(start(bump_a_little, counters));
  return NULL;
}

/* Threads in the child of several: sanitizers do not support them, nor does qemu. */
static bool child_adds(unsigned number)
{
  struct counters counters = largest_set();
  counter_add(&counters, 0, 1);
  bool good = tamis__thread_index == number;
#ifndef TAMIS_SANITIZED
  if (!*EMULATOR) {
    struct worker workers[THREADS];
    harness_run(THREADS, 1, bump, &counters, workers);
    good = good && tamis__counter_sum(&counters, 0) == THREADS * ROUNDS + 1;
  }
#endif
  return good;
}

static void a_child_keeps_its_threads_number(void **state)
{
  (void) state;
  static struct counter_shard others_shards[MAX_SHARDS];
  struct counters others = {others_shards, tamis__counter_shards(UINT64_MAX) - 1};
  unsigned number = own_number();
  atomic_store(&enough, false);
  pthread_t threads[3];
  for (unsigned i = 0; i < 3; i++)
    threads[i] = start(come_and_go, &others);
  for (unsigned i = 0; i < 20; i++) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
      _exit(!child_adds(number));
    assert_int_equal(status_of(child), 0);
  }
  atomic_store(&enough, true);
  for (unsigned i = 0; i < 3; i++)
    join(threads[i]);
  assert_int_equal(tamis__counter_sum(&others, 0) % 100, 0);
  assert_int_equal(own_number(), number);
}

/* ---- how many shards ---- */

static void a_shard_is_a_cache_line(void **state)
{
  (void) state;
  assert_int_equal(sizeof(struct counter_shard), 64);
}

static void shards_are_a_small_part(void **state)
{
  (void) state;
  unsigned most = tamis__counter_shards(UINT64_MAX);
  assert_in_range(most, 8, MAX_SHARDS);
  for (uint64_t bytes = 1; bytes < 1 << 20; bytes += 1 + bytes / 8) {
    unsigned count = tamis__counter_shards(bytes);
    assert_in_range(count, 2, most);
    assert_int_equal(count & (count - 1), 0);
    assert_true(count == 2 || count * sizeof(struct counter_shard) <= bytes / 8);
    assert_true(count == most || 2 * count * sizeof(struct counter_shard) > bytes / 8);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_a_key_all_share),
      cmocka_unit_test(sums_lose_nothing),
      cmocka_unit_test(a_thread_keeps_its_number),
      cmocka_unit_test(adds_return_the_new_value),
      cmocka_unit_test(threads_that_follow_each_other_lose_nothing),
      cmocka_unit_test(numbers_are_given_back),
      cmocka_unit_test(owners_of_a_number_are_ordered),
      cmocka_unit_test(a_thread_without_a_number_asks_again),
      cmocka_unit_test(destructors_may_add),
      cmocka_unit_test(a_thread_without_memory_shares),
      cmocka_unit_test(a_child_keeps_its_threads_number),
      cmocka_unit_test(a_shard_is_a_cache_line),
      cmocka_unit_test(shards_are_a_small_part),
  };
  return cmocka_run_group_tests_name("counter", tests, NULL, NULL);
}
