/* SPDX-License-Identifier: MIT */
#include "base/core_counter.h"
#include "harness.h"
#include "sequences.h"

#include <signal.h>

enum { THREADS = 8, ROUNDS = 1000000 / SCALE };

/* Calls of the library to the system that a test can refuse. */
static _Atomic bool refuse_keys, refuse_values;

#ifdef NOTHING_IS_REFUSED
#define NEEDS_REFUSALS skip()
#else
#define NEEDS_REFUSALS ((void) 0)
int __real_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __real_pthread_setspecific(pthread_key_t key, const void *value);

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

/* As many shards as a filter can have on this machine. */
static struct counters largest_set(void)
{
  return set_of(usual_shards(UINT64_MAX));
}

/* The machine has so many cores; 0: as many as it really has. */
static unsigned pretended_cores;

unsigned __real_tamis__power_of_two_per_core(unsigned per_core, unsigned min, unsigned max);

unsigned __wrap_tamis__power_of_two_per_core(unsigned per_core, unsigned min, unsigned max)
{
  if (!pretended_cores)
    return __real_tamis__power_of_two_per_core(per_core, min, max);
  unsigned n = min;
  while (n < max && n < per_core * pretended_cores)
    n *= 2;
  return n;
}

/* Large machines have a shard for each thread that can run; filters those that are a small part of them. */
TEST(shards_suit_the_machine_and_the_filter)
{
  const unsigned rows[][2] = {{1, 32},   {2, 32},   {3, 64},    {32, 64},   {33, 128},
                              {64, 128}, {65, 256}, {128, 256}, {1000, 256}};
  assert_int_equal(sizeof(struct counter_shard), 64); /* a cache line */
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    pretended_cores = rows[i][0];
    const unsigned most = usual_shards(UINT64_MAX);
    assert_int_equal(most, rows[i][1]);
    assert_int_equal(usual_shards(16 * 512), 16);
    assert_int_equal(usual_shards(0), 2);
    for (uint64_t bytes = 1; bytes < 1 << 20; bytes += 1 + bytes / 8) {
      unsigned n = usual_shards(bytes);
      assert_in_range(n, 2, most);
      assert_int_equal(n & (n - 1), 0);
      assert_true(n == 2 || n * sizeof(struct counter_shard) <= bytes / 8);
      assert_true(n == most || 2 * n * sizeof(struct counter_shard) > bytes / 8);
    }
  }
  pretended_cores = 0;
}

/* The thread asks for its index when it adds to a counter. */
static unsigned own_index(void)
{
  struct counter_shard shard = {.value = {0}};
  struct counters counters = {&shard, 0};
  counter_add(&counters, 0, 1);
  return tamis__thread_index;
}

static bool is_index(unsigned n)
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

/* A figure that has been raised is never less again.  The thread gets an index in the midst of it. */
static void note(struct worker *worker)
{
  const struct counters *counters = worker->arg;
  for (uint64_t i = 0; i < ROUNDS; i++) {
    uint64_t least = i * worker->threads + worker->index;
    tamis__counter_note(counters, 2);
    tamis__counter_raise(counters, 3, least);
    worker->result += atomic_load(&counters->shards->value[3]) < least;
    if (i == ROUNDS / 2)
      (void) own_index();
  }
}

/* This test comes first, and in a process of its own, as the library asks for its key once. */
TEST(without_a_key_all_share)
{
  NEEDS_REFUSALS;
  pid_t child = fork_child();
  if (child == 0) {
    refuse_keys = true;
    struct counters counters = largest_set();
    struct worker workers[THREADS];
    counter_add(&counters, 0, 1);
    bool good = !tamis__thread_index;
    harness_run(THREADS, 1, bump, &counters, workers);
    good = good && tamis__counter_sum(&counters, 0) == THREADS * ROUNDS + 1;
    for (unsigned i = 0; i < THREADS; i++)
      good = good && !is_index((unsigned) workers[i].result);
    _exit(!good);
  }
  assert_int_equal(wait_for(child), 0);
}

/* All threads share one shard, or some own a shard and the others share one. */
TEST(sums_and_figures_lose_nothing)
{
  for (unsigned n = 1; n <= MAX_SHARDS; n *= 2) {
    struct counters counters = set_of(n);
    struct worker workers[THREADS];
    harness_run(THREADS, 1, bump, &counters, workers);
    harness_run(THREADS, 1, note, &counters, workers);
    assert_int_equal(tamis__counter_sum(&counters, 0), THREADS * ROUNDS);
    assert_int_equal(tamis__counter_sum(&counters, 7), 3 * THREADS * ROUNDS);
    assert_int_equal(tamis__counter_sum(&counters, 1), 0);
    assert_int_equal(tamis__counter_sum(&counters, 2), THREADS * ROUNDS);
    assert_int_equal(tamis__counter_sum(&counters, 3), THREADS * ROUNDS - 1);
    assert_int_equal(harness_results(workers, THREADS), 0);
  }
}

static void *note_first(void *counters)
{
  tamis__counter_note(counters, 2);
  tamis__counter_raise(counters, 3, 1);
  return (void *) (uintptr_t) tamis__thread_index;
}

/* A look-up makes a thread neither allocate memory nor run a destructor. */
TEST(figures_need_no_index)
{
  struct counters counters = set_of(2);
  pthread_t thread;
  void *index;
  assert_int_equal(pthread_create(&thread, NULL, note_first, &counters), 0);
  assert_int_equal(pthread_join(thread, &index), 0);
  assert_null(index);
}

/* ---- threads that come and go ---- */

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

static void *note_index(void *index)
{
  *(unsigned *) index = own_index();
  return NULL;
}

/* What an owner of an index did before it ended comes before what the next owner does.
 * ThreadSanitizer checks it by plain accesses, as nothing else orders the threads. */
static uint64_t plain[MAX_SHARDS + 1];

static void *bump_plain(void *unused)
{
  unsigned index = own_index();
  if (is_index(index))
    plain[index]++;
  return unused;
}

TEST(owners_of_an_index_are_ordered)
{
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

/* There are as many threads as indices, one of which the main thread has.  When the others have
 * ended, the thread that found no index gets one. */
struct crowd {
  struct counters counters;
  pthread_barrier_t all_asked, others_gone;
  _Atomic unsigned threads;
  unsigned indices[MAX_SHARDS];
};

static void *ask(void *arg)
{
  struct crowd *crowd = arg;
  unsigned *index = &crowd->indices[atomic_fetch_add(&crowd->threads, 1)];
  counter_add(&crowd->counters, 0, 1);
  *index = tamis__thread_index;
  pthread_barrier_wait(&crowd->all_asked);
  if (!tamis__thread_index) {
    pthread_barrier_wait(&crowd->others_gone);
    counter_add(&crowd->counters, 0, 1);
    *index = tamis__thread_index;
  }
  return NULL;
}

TEST(a_thread_without_an_index_asks_again)
{
  own_index();
  static struct crowd crowd;
  crowd.counters = largest_set();
  unsigned threads = MAX_SHARDS - 1, found = 0;
  bool seen[MAX_SHARDS] = {false};
  seen[tamis__thread_index] = true;
  pthread_t thread[MAX_SHARDS];
  pthread_barrier_init(&crowd.all_asked, NULL, threads + 1);
  pthread_barrier_init(&crowd.others_gone, NULL, 2);
  for (unsigned i = 0; i < threads; i++)
    thread[i] = start(ask, &crowd);
  pthread_barrier_wait(&crowd.all_asked);
  for (unsigned i = 0; i < threads; i++) {
    unsigned index = crowd.indices[i];
    found += is_index(index) && !seen[index];
    seen[index] = true;
  }
  assert_int_equal(found, threads - 1);
  assert_true(seen[0]); /* one thread has no index */
  for (unsigned gone = 0; gone < threads - 1;)
    for (unsigned i = 0; i < threads; i++)
      if (thread[i] && pthread_tryjoin_np(thread[i], NULL) == 0)
        thread[i] = 0, gone++;
  pthread_barrier_wait(&crowd.others_gone);
  for (unsigned i = 0; i < threads; i++) {
    if (thread[i])
      join(thread[i]);
    assert_true(is_index(crowd.indices[i]));
  }
  assert_int_equal(tamis__counter_sum(&crowd.counters, 0), threads + 1);
  pthread_barrier_destroy(&crowd.all_asked);
  pthread_barrier_destroy(&crowd.others_gone);
}

/* A destructor that runs after the library has released the index of its thread adds while the
 * next owner of the index does. */
static struct {
  pthread_key_t key;
  struct counters counters;
  _Atomic int step;
  unsigned first, first_late, next;
} late;

enum { BEGUN, RELEASED, ACQUIRED };

static void wait_for_step(int step)
{
  while (atomic_load(&late.step) != step)
    sched_yield();
}

static void add_late(void *round)
{
  if (round == &late.first) { /* the system runs the next round after all destructors of this one */
    pthread_setspecific(late.key, &late.first_late);
    return;
  }
  atomic_store(&late.step, RELEASED);
  wait_for_step(ACQUIRED);
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
  atomic_store(&late.step, ACQUIRED);
  for (unsigned i = 0; i < ROUNDS; i++)
    counter_add(&late.counters, 0, 1);
  return unused;
}

TEST(destructors_may_add)
{
  late.counters = largest_set();
  late.step = BEGUN;
  assert_int_equal(pthread_key_create(&late.key, add_late), 0);
  pthread_t first = start(own_first, NULL);
  wait_for_step(RELEASED);
  pthread_t next = start(own_next, NULL);
  join(first);
  join(next);
  assert_true(is_index(late.first));
  assert_int_equal(late.next, late.first);
  assert_false(is_index(late.first_late));
  assert_int_equal(tamis__counter_sum(&late.counters, 0), 2 * ROUNDS + 2);
  pthread_key_delete(late.key);
}

/* ---- what the system refuses ---- */

TEST(a_thread_without_memory_shares)
{
  NEEDS_REFUSALS;
  unsigned before = 0, index = 0, after = 0;
  join(start(note_index, &before));
  refuse_values = true;
  for (unsigned i = 0; i < 2 * MAX_SHARDS; i++) {
    join(start(note_index, &index));
    assert_true(index && !is_index(index));
  }
  refuse_values = false;
  join(start(note_index, &after));
  assert_int_equal(after, before);
}

/* ---- counters of several processes ---- */

static struct counter_shard of_cores[CORE_SHARDS];
static const struct counters core_counters = {of_cores, CORE_SHARDS - 1};
static volatile sig_atomic_t handled;
static _Atomic bool interrupted;

static void count_signal(int unused)
{
  (void) unused;
  core_counter_add(of_cores, 0, 1);
  handled++;
}

static void *interrupt(void *thread)
{
  for (unsigned i = 0; i < 100000 / SCALE; i++)
    pthread_kill(*(pthread_t *) thread, SIGUSR1);
  atomic_store(&interrupted, true);
  return NULL;
}

/* A signal handler adds on the same core, often between the load and the store of an add. */
TEST(interrupted_adds_are_not_lost)
{
  const struct sigaction action = {.sa_handler = count_signal};
  pthread_t self = pthread_self();
  uint64_t adds = 0;
  memset(of_cores, 0, sizeof of_cores);
  sigaction(SIGUSR1, &action, NULL);
  pthread_t thread = start(interrupt, &self);
  while (!atomic_load(&interrupted))
    core_counter_add(of_cores, 0, 1), adds++;
  join(thread);
  assert_true(handled > 0);
  assert_int_equal(tamis__counter_sum(&core_counters, 0), adds + (unsigned) handled);
}

static uint64_t sum_of_cores(void)
{
  const struct counters own = {of_cores, OWN_CORES - 1};
  return tamis__counter_sum(&own, 0);
}

static void *add_without_sequences(void *unused)
{
  end_restartable_sequences();
  for (unsigned i = 0; i < 1000; i++)
    core_counter_add(of_cores, 0, (uint64_t) 2 - i % 2);
  return unused;
}

TEST(threads_without_sequences_use_other_shards)
{
  memset(of_cores, 0, sizeof of_cores);
  join(start(add_without_sequences, NULL));
  assert_int_equal(sum_of_cores(), 0);
  assert_int_equal(tamis__counter_sum(&core_counters, 0), 1500);
#ifdef RSEQ_SIG
  for (unsigned i = 0; i < 1000; i++)          /* the kernel may interrupt some of these adds */
    core_counter_add(of_cores, 0, UINT64_MAX); /* subtracts 1 */
  if (__rseq_size > 0 && sysconf(_SC_NPROCESSORS_CONF) <= OWN_CORES)
    assert_int_not_equal(sum_of_cores(), 0);
  assert_int_equal(tamis__counter_sum(&core_counters, 0), 500);
#endif
}
