/* SPDX-License-Identifier: MIT
 *
 * Reclamation and the system: what becomes of memory that readers may still see when the system refuses
 * something (a thread, memory for liburcu's registry, membarrier); and how its conditions are used.
 */
#include "faults.h"
#include "reclaim_fixture.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { SKIPPED = 77 };

/* ---- without a thread ---- */

/* The first test: no other has started the thread. */
TEST_BETWEEN(without_a_thread_memory_waits_for_one, start_afresh, NULL)
{
  struct fixture x, another;
  faults.threads = true;
  begin(&another);
  begin(&x);
  retire(&another, make_block(&another));
  assert_true(waits(&x, 0));
  tamis__backlog_destroy(&another.backlog); /* releases it all the same */
  assert_int_equal(another.bytes, 0);
  atomic_store(&released, 0);
  faults.threads = false;
  assert_true(released_by_and_by(&x, 1));
  end(&x);
}

/* ---- conditions ----
 *
 * All waits are on the monotonic clock, so that they end in time, whatever happens to the clock on the
 * wall.  A signal is a system call, in which the thread may lose the processor, and all filters share
 * the lock: so signals are sent without it. */

enum { MOST_CONDITIONS = 16, LONGEST_WAIT = 60 };

static struct {
  pthread_cond_t *condition;
  clockid_t clock;
} known[MOST_CONDITIONS]; /* only the first filter, and a child, initialise any */
static unsigned count;
static _Atomic unsigned waits_on_clock, wrong_waits, signals, signals_under_a_lock;
static _Thread_local int held; /* mutexes, by this thread */

int __real_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes);
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __real_pthread_cond_signal(pthread_cond_t *condition);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_cond_init(pthread_cond_t *condition, const pthread_condattr_t *attributes)
{
  clockid_t clock = CLOCK_REALTIME;
  if (attributes)
    pthread_condattr_getclock(attributes, &clock);
  if (count < MOST_CONDITIONS) {
    known[count].condition = condition;
    known[count++].clock = clock;
  }
  return __real_pthread_cond_init(condition, attributes);
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
  struct timespec now;
  clockid_t clock = CLOCK_REALTIME; /* as of one that is initialised statically */
  clock_gettime(CLOCK_MONOTONIC, &now);
  for (unsigned i = 0; i < count; i++)
    if (known[i].condition == condition)
      clock = known[i].clock;
  waits_on_clock++;
  wrong_waits += clock != CLOCK_MONOTONIC || until->tv_sec > now.tv_sec + LONGEST_WAIT ||
                 until->tv_sec < now.tv_sec - LONGEST_WAIT;
  return __real_pthread_cond_timedwait(condition, mutex, until);
}

int __wrap_pthread_cond_signal(pthread_cond_t *condition)
{
  signals_under_a_lock += held > 0;
  signals++;
  return __real_pthread_cond_signal(condition);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
  int result = __real_pthread_mutex_lock(mutex);
  held++;
  return result;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
  held--;
  return __real_pthread_mutex_unlock(mutex);
}

TEST_BETWEEN(conditions_have_the_right_clock_and_no_lock, start_afresh, NULL)
{
  struct fixture x;
  begin(&x);
  for (unsigned tries = 0; (!signals || !waits_on_clock) && tries < 10000; tries++) {
    struct block *block = make_block(&x);
    x.retired++;
    tamis__backlog_retire(&x.backlog, &block->retired, sizeof *block, true); /* in a hurry */
    usleep(1000);
  }
  end(&x);
  assert_true(signals > 0 && waits_on_clock > 0);
  assert_int_equal(signals_under_a_lock, 0);
  assert_int_equal(wrong_waits, 0);
}

/* ---- pauses ---- */

static void release_to_user(void *bytes, struct retired *block, size_t size)
{
  tamis__memory_release(&user, block, size);
  atomic_fetch_sub((_Atomic uint64_t *) bytes, size);
}

enum { MOST_BLOCKS = 64 };

/* Retires blocks, of a filter that takes so many bytes, under a reader: nothing can be released. */
static uint64_t pauses_of(uint64_t filter_bytes, size_t size, unsigned n)
{
  struct backlog backlog;
  struct retired *blocks[MOST_BLOCKS];
  _Atomic uint64_t bytes = filter_bytes + n * size;
  uint64_t before = pauses;
  assert_true(tamis__backlog_init(&backlog, release_to_user, &bytes, &bytes));
  for (unsigned i = 0; i < n; i++) {
    blocks[i] = tamis__memory_allocate(&user, size);
    assert_non_null(blocks[i]);
  }
  reader_token pass = reader_enter();
  for (unsigned i = 0; i < n; i++)
    tamis__backlog_retire(&backlog, blocks[i], size, false);
  reader_leave(pass);
  tamis__backlog_destroy(&backlog);
  assert_int_equal(bytes, filter_bytes);
  assert_all_released();
  return pauses - before;
}

/* A small amount, a few blocks, or a small part of the filter may wait without a pause. */
TEST_BETWEEN(growth_pauses_only_when_much_waits, start_afresh, NULL)
{
  arm(USER, NEVER, 0);
  assert_int_equal(pauses_of(0, 1024, 32), 0);
  assert_int_equal(pauses_of(0, 65536, 3), 0);
  assert_int_equal(pauses_of(64 << 20, 65536, 20), 0);
  assert_int_equal(pauses_of(0, 1024, 33), 4);
  assert_int_equal(pauses_of(0, 65536, 5), 8);
  assert_true(pauses_of(4 << 20, 65536, 20) > 0);
}

/* ---- counted readers: liburcu has no memory for them ---- */

static reader_token enter_counted(void)
{
  faults.maps = true;
  reader_token reader = reader_enter();
  faults.maps = false;
  return reader;
}

static sem_t inside, may_enter, again, may_leave;

static void *enter_again_when_there_is_memory(void *unused)
{
  reader_token reader = enter_counted();
  sem_post(&inside);
  sem_wait(&may_enter);
  reader_leave(reader_enter());
  sem_post(&again);
  sem_wait(&may_leave);
  reader_leave(reader);
  return unused;
}

/* An allocator that a call uses may use another filter, and find memory.  The grace period has
 * begun before that. */
TEST_BETWEEN(a_counted_reader_stays_one_until_it_leaves, start_afresh, NULL)
{
  struct fixture x;
  pthread_t thread;
  begin(&x);
  sem_init(&inside, 0, 0);
  sem_init(&may_enter, 0, 0);
  sem_init(&again, 0, 0);
  sem_init(&may_leave, 0, 0);
  assert_int_equal(pthread_create(&thread, NULL, enter_again_when_there_is_memory, NULL), 0);
  sem_wait(&inside);
  assert_true(waits(&x, 0));
  sem_post(&may_enter);
  sem_wait(&again);
  assert_true(waits(&x, 0));
  sem_post(&may_leave);
  pthread_join(thread, NULL);
  assert_true(released_by_and_by(&x, 2));
  end(&x);
}

struct runner {
  sem_t *leave, *other_leaves;
  bool first;
  const atomic_bool *stop;
};

/* Leaves when the other one has come again: one of the two is always inside. */
static void *come_and_go_in_turn(void *argument)
{
  const struct runner *runner = argument;
  for (bool first = runner->first; !atomic_load(runner->stop); first = false) {
    reader_token reader = reader_enter();
    if (!first)
      sem_post(runner->other_leaves);
    sem_wait(runner->leave);
    reader_leave(reader);
  }
  sem_post(runner->other_leaves);
  return NULL;
}

TEST_BETWEEN(counted_readers_that_never_cease_do_not_keep_memory, start_afresh, NULL)
{
  sem_t leave[2];
  atomic_bool stop = false;
  struct fixture x;
  pthread_t threads[2];
  struct runner runners[2];
  begin(&x);
  faults.maps = true;
  for (unsigned i = 0; i < 2; i++)
    sem_init(&leave[i], 0, 0);
  for (unsigned i = 0; i < 2; i++) {
    runners[i] = (struct runner){&leave[i], &leave[!i], i == 0, &stop};
    assert_int_equal(pthread_create(&threads[i], NULL, come_and_go_in_turn, &runners[i]), 0);
  }
  for (unsigned round = 1; round <= 5; round++)
    assert_true(released_by_and_by(&x, round));
  stop = true;
  for (unsigned i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  end(&x);
}

static void *fork_inside(void *status)
{
  reader_token reader = enter_counted();
  reader_token inner = reader_enter();
  pid_t child = fork_child();
  if (child == 0) {
    struct fixture x;
    begin(&x);
    bool good = waits(&x, 0);
    reader_leave(inner);
    good = good && waits(&x, 0);
    reader_leave(reader);
    _exit(!good || !released_by_and_by(&x, 2));
  }
  reader_leave(inner);
  reader_leave(reader);
  *(int *) status = wait_for(child);
  return NULL;
}

/* The reader that forks is inside there, too; those that stay in the parent are not. */
TEST_BETWEEN(a_child_has_the_counted_reader_that_forked, start_afresh, NULL)
{
  skip_where_no_child_has_threads();
  int status = -1;
  pthread_t thread;
  struct block block = {.content = 42};
  _Atomic(struct block *) shared = &block;
  struct long_reader reader;
  begin_to_read(&reader, &shared, enter_counted);
  assert_int_equal(pthread_create(&thread, NULL, fork_inside, &status), 0);
  pthread_join(thread, NULL);
  end_reading(&reader);
  assert_int_equal(status, 0);
}

/* ---- membarrier is denied, to readers that rely on it ---- */

/* In processes of their own: these filters are for good. */
static bool deny_membarrier(unsigned flags)
{
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0;
}

static bool is_released_within(struct fixture *x, double most)
{
  double end_at = seconds() + most;
  while (!released && seconds() < end_at) {
    tamis__backlog_drain(&x->backlog, false);
    usleep(1000);
  }
  return released;
}

static int deny_it_to_all(void)
{
  struct fixture x;
  reader_leave(reader_enter()); /* registered */
  begin(&x);
  if (!released_by_and_by(&x, 1))
    return 1;
  end(&x);
  if (!deny_membarrier(SECCOMP_FILTER_FLAG_TSYNC))
    return SKIPPED;
  if (syscall(SYS_membarrier, 1 << 3, 0, 0) == 0)
    return 2;
  /* liburcu may rely on it or not: then all is as ever */
  extern int urcu_bp_has_sys_membarrier __attribute__((weak));
  bool relied_on = !&urcu_bp_has_sys_membarrier || urcu_bp_has_sys_membarrier;
  for (unsigned i = 0; i < 3; i++) { /* the thread is started again, and ends again */
    begin(&x);
    retire(&x, make_block(&x));
    if (is_released_within(&x, relied_on ? 1.2 : PATIENCE_SECONDS) == relied_on)
      return 3;
    end(&x);
  }
  return 0;
}

static void *retire_where_it_is_denied(void *x)
{
  if (!deny_membarrier(0))
    return NULL;
  retire(x, make_block(x));
  return x;
}

/* The thread that waits inherits the filter of the one that starts it: the next one need not have
 * it. */
static int deny_it_to_one_thread(void)
{
  struct fixture x;
  pthread_t thread;
  void *result;
  begin(&x);
  if (pthread_create(&thread, NULL, retire_where_it_is_denied, &x))
    return 1;
  pthread_join(thread, &result);
  if (!result)
    return SKIPPED;
  return is_released_within(&x, PATIENCE_SECONDS) ? 0 : 3;
}

static void run_alone(const char *how)
{
  if (*EMULATOR)
    skip();
  const int status = run_self(how);
  if (status == SKIPPED)
    skip();
  assert_int_equal(status, 0);
}

TEST_BETWEEN(memory_waits_while_membarrier_is_denied, start_afresh, NULL)
{
  run_alone("all");
}

TEST_BETWEEN(a_thread_that_is_denied_membarrier_makes_room, start_afresh, NULL)
{
  run_alone("one");
}

int main(int argc, char **argv)
{
  if (argc > 1)
    return strcmp(argv[1], "all") == 0 ? deny_it_to_all() : deny_it_to_one_thread();
  struct fixture none; /* the first backlog registers the fork handler */
  begin(&none);
  return run_all_tests();
}
