/* SPDX-License-Identifier: MIT
 *
 * How the library calls what it waits with: all waits are on the monotonic clock, so that they end in
 * time, whatever happens to the clock on the wall; and signals are sent without a lock.
 */
#include "reclaim_fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

enum { MOST_CONDITIONS = 16, LONGEST_WAIT = 60 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  pthread_cond_t *condition;
  clockid_t clock;
} known[MOST_CONDITIONS];
static unsigned count;
static _Atomic unsigned waits, wrong;

int __real_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int __wrap_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int __wrap_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes)
{
  clockid_t clock = CLOCK_REALTIME;
  if (attributes)
    pthread_condattr_getclock(attributes, &clock);
  pthread_mutex_lock(&lock);
  unsigned i = 0;
  while (i < count && known[i].condition != condition)
    i++;
  if (i < MOST_CONDITIONS) {
    known[i].condition = condition;
    known[i].clock = clock;
    count += i == count;
  }
  pthread_mutex_unlock(&lock);
  return __real_pthread_cond_init(condition, attributes);
}

static clockid_t clock_of(const pthread_cond_t *condition)
{
  clockid_t clock = CLOCK_REALTIME; /* as of one that is initialised statically */
  pthread_mutex_lock(&lock);
  for (unsigned i = 0; i < count; i++)
    if (known[i].condition == condition)
      clock = known[i].clock;
  pthread_mutex_unlock(&lock);
  return clock;
}

int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  waits++;
  wrong += clock_of(condition) != CLOCK_MONOTONIC || until->tv_sec > now.tv_sec + LONGEST_WAIT ||
           until->tv_sec < now.tv_sec - LONGEST_WAIT;
  return __real_pthread_cond_timedwait(condition, mutex, until);
}

static void waits_are_on_the_monotonic_clock(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 1000;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  for (uint64_t i = 0; i < 50000; i++) /* each split retires a segment, for which a thread waits */
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
  for (unsigned tries = 0; !waits && tries < 10000; tries++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  tamis_destroy(f);
  assert_true(waits > 0);
  assert_int_equal(wrong, 0);
}

/* ---- signals ---- */

static _Thread_local int held; /* mutexes, by this thread */
static _Atomic unsigned signals, signals_under_a_lock;

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
  int result = __real_pthread_mutex_lock(mutex);
  held++;
  return result;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
  held--;
  return __real_pthread_mutex_unlock(mutex);
}

int __real_pthread_cond_signal(pthread_cond_t *condition);
int __wrap_pthread_cond_signal(pthread_cond_t *condition);
int __wrap_pthread_cond_signal(pthread_cond_t *condition)
{
  signals_under_a_lock += held > 0;
  signals++;
  return __real_pthread_cond_signal(condition);
}

/* A signal is a system call, in which the thread may lose the processor, and all filters share the
 * lock. */
static void signals_are_sent_without_a_lock(void **state)
{
  (void) state;
  struct fixture x;
  begin(&x);
  for (unsigned tries = 0; !signals && tries < 10000; tries++) { /* each of them is in a hurry */
    struct block *block = make_block(&x);
    x.retired++;
    tamis__backlog_retire(&x.backlog, &block->retired, sizeof *block, true);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  end(&x);
  assert_true(signals > 0);
  assert_int_equal(signals_under_a_lock, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(signals_are_sent_without_a_lock),
      cmocka_unit_test(waits_are_on_the_monotonic_clock),
  };
  return cmocka_run_group_tests_name("reclaim_clock", tests, NULL, NULL);
}
