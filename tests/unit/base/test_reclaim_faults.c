/* SPDX-License-Identifier: MIT
 *
 * What becomes of memory that readers may still see when the system refuses something: a thread,
 * memory for liburcu's registry, membarrier.
 */
#include "faults.h"

#include "base/memory.h"
#include "base/reclaim.h"
#include "base/slots.h"
#include "harness.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <semaphore.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

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
static void growth_pauses_only_when_much_waits(void **state)
{
  (void) state;
  arm(USER, NEVER, 0);
  assert_int_equal(pauses_of(0, 1024, 32), 0);
  assert_int_equal(pauses_of(0, 65536, 3), 0);
  assert_int_equal(pauses_of(64 << 20, 65536, 20), 0);
  assert_int_equal(pauses_of(0, 1024, 33), 4);
  assert_int_equal(pauses_of(0, 65536, 5), 8);
  assert_true(pauses_of(4 << 20, 65536, 20) > 0);
}

/* ---- a backlog with one block ---- */

static const tamis_allocator malloced = {0};

struct waste {
  struct backlog backlog;
  _Atomic uint64_t bytes;
};

static _Thread_local unsigned blocks_released;

static void release_to_system(void *unused, struct retired *block, size_t size)
{
  (void) unused;
  blocks_released++;
  memset(block, 0xa5, size);
  tamis__memory_release(&malloced, block, size);
}

static bool throw_away(struct waste *waste)
{
  struct retired *block = tamis__memory_allocate(&malloced, sizeof *block);
  bool good = block && tamis__backlog_init(&waste->backlog, release_to_system, NULL, &waste->bytes);
  waste->bytes = sizeof *block;
  if (good)
    tamis__backlog_retire(&waste->backlog, block, sizeof *block, false);
  return good;
}

static bool is_released_within(struct waste *waste, double seconds)
{
  double end = harness_seconds() + seconds;
  bool released = false;
  while (!released && harness_seconds() < end) {
    released = tamis__backlog_drain(&waste->backlog);
    usleep(1000);
  }
  return released;
}

/* ---- without a thread ---- */

/* The first test: no other has started the thread. */
static void without_a_thread_memory_waits_for_one(void **state)
{
  (void) state;
  struct waste waste, another;
  faults.threads = true;
  assert_true(throw_away(&waste));
  assert_true(throw_away(&another));
  assert_false(is_released_within(&waste, 0.05));
  tamis__backlog_destroy(&another.backlog); /* releases it all the same */
  faults.threads = false;
  assert_true(is_released_within(&waste, PATIENCE_SECONDS));
  tamis__backlog_destroy(&waste.backlog);
}

/* ---- counted readers: liburcu has no memory for them ---- */

static reader_token enter_counted(void)
{
  faults.maps = true;
  reader_token reader = reader_enter();
  faults.maps = false;
  return reader;
}

enum { READERS = 6, REPLACEMENTS = 200 };

struct record {
  struct retired retired;
  uint64_t content;
};

static _Atomic(struct record *) current;
static atomic_bool done;
static atomic_uint wrong, readers;

static void *read_current(void *unused)
{
  for (bool first = true; !atomic_load(&done); first = false) {
    reader_token reader = reader_enter();
    struct record *record = atomic_load_explicit(&current, memory_order_acquire);
    if (first)
      atomic_fetch_add(&readers, 1);
    usleep(10);
    if (reader || record->content != 42)
      atomic_fetch_add(&wrong, 1);
    reader_leave(reader);
  }
  return unused;
}

static struct record *make_record(void)
{
  struct record *record = tamis__memory_allocate(&malloced, sizeof *record);
  assert_non_null(record);
  record->content = 42;
  return record;
}

/* Under TSan, a reader that is not waited for is a race. */
static void counted_readers_are_waited_for(void **state)
{
  (void) state;
  pthread_t threads[READERS];
  struct backlog backlog;
  _Atomic uint64_t bytes = UINT64_C(1) << 30; /* no pauses */
  assert_true(tamis__backlog_init(&backlog, release_to_system, NULL, &bytes));
  current = make_record();
  done = false;
  faults.maps = true;
  for (unsigned i = 0; i < READERS; i++)
    assert_int_equal(__real_pthread_create(&threads[i], NULL, read_current, NULL), 0);
  while (atomic_load(&readers) < READERS)
    usleep(100);
  blocks_released = 0;
  double end = harness_seconds() + PATIENCE_SECONDS;
  for (unsigned i = 0; i < REPLACEMENTS || (blocks_released < 20 && harness_seconds() < end); i++) {
    struct record *next = make_record();
    struct record *old = atomic_exchange_explicit(&current, next, memory_order_acq_rel);
    tamis__backlog_retire(&backlog, &old->retired, sizeof *old, false);
    usleep(100);
  }
  done = true;
  for (unsigned i = 0; i < READERS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(wrong, 0);
  assert_true(blocks_released >= 20);
  tamis__backlog_destroy(&backlog);
  tamis__memory_release(&malloced, current, sizeof *current);
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
static void a_counted_reader_stays_one_until_it_leaves(void **state)
{
  (void) state;
  struct waste waste;
  pthread_t thread;
  sem_init(&inside, 0, 0);
  sem_init(&may_enter, 0, 0);
  sem_init(&again, 0, 0);
  sem_init(&may_leave, 0, 0);
  assert_int_equal(pthread_create(&thread, NULL, enter_again_when_there_is_memory, NULL), 0);
  sem_wait(&inside);
  assert_true(throw_away(&waste));
  assert_false(is_released_within(&waste, 0.05));
  sem_post(&may_enter);
  sem_wait(&again);
  assert_false(is_released_within(&waste, 0.05));
  sem_post(&may_leave);
  pthread_join(thread, NULL);
  assert_true(is_released_within(&waste, PATIENCE_SECONDS));
  tamis__backlog_destroy(&waste.backlog);
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

static void counted_readers_that_never_cease_do_not_keep_memory(void **state)
{
  (void) state;
  sem_t leave[2];
  atomic_bool stop = false;
  struct waste waste;
  pthread_t threads[2];
  struct runner runners[2];
  faults.maps = true;
  for (unsigned i = 0; i < 2; i++)
    sem_init(&leave[i], 0, 0);
  for (unsigned i = 0; i < 2; i++) {
    runners[i] = (struct runner){&leave[i], &leave[!i], i == 0, &stop};
    assert_int_equal(pthread_create(&threads[i], NULL, come_and_go_in_turn, &runners[i]), 0);
  }
  for (unsigned round = 0; round < 5; round++) {
    assert_true(throw_away(&waste));
    assert_true(is_released_within(&waste, PATIENCE_SECONDS));
    tamis__backlog_destroy(&waste.backlog);
  }
  stop = true;
  for (unsigned i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
}

static void *fork_inside(void *status)
{
  reader_token reader = enter_counted();
  reader_token inner = reader_enter();
  pid_t child = fork();
  if (child == 0) {
    struct waste waste;
    alarm(6 * PATIENCE_SECONDS);
    bool good = throw_away(&waste) && !is_released_within(&waste, 0.05);
    reader_leave(inner);
    good = good && !is_released_within(&waste, 0.05);
    reader_leave(reader);
    _exit(!good || !is_released_within(&waste, PATIENCE_SECONDS));
  }
  reader_leave(inner);
  reader_leave(reader);
  waitpid(child, status, 0);
  return NULL;
}

/* TSan and qemu-user (7.2) allow no threads in the child. */
static void a_counted_reader_that_forks_is_inside_in_the_child_too(void **state)
{
  (void) state;
#ifdef TAMIS_TSAN
  skip();
#endif
  if (*EMULATOR)
    skip();
  int status = -1;
  pthread_t thread;
  fflush(NULL);
  assert_int_equal(pthread_create(&thread, NULL, fork_inside, &status), 0);
  pthread_join(thread, NULL);
  assert_int_equal(status, 0);
}

static void *stay_inside(void *unused)
{
  reader_token reader = enter_counted();
  sem_post(&inside);
  sem_wait(&may_leave);
  reader_leave(reader);
  return unused;
}

static void a_child_forgets_its_parents_counted_readers(void **state)
{
  (void) state;
#ifdef TAMIS_TSAN
  skip();
#endif
  if (*EMULATOR)
    skip();
  pthread_t thread;
  int status;
  sem_init(&inside, 0, 0);
  sem_init(&may_leave, 0, 0);
  assert_int_equal(pthread_create(&thread, NULL, stay_inside, NULL), 0);
  sem_wait(&inside);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    struct waste waste;
    alarm(6 * PATIENCE_SECONDS);
    _exit(throw_away(&waste) && is_released_within(&waste, PATIENCE_SECONDS) ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  sem_post(&may_leave);
  pthread_join(thread, NULL);
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

static int deny_it_to_all(void)
{
  struct waste before, waste;
  reader_leave(reader_enter()); /* registered */
  if (!throw_away(&before) || !is_released_within(&before, PATIENCE_SECONDS))
    return 1;
  if (!deny_membarrier(SECCOMP_FILTER_FLAG_TSYNC))
    return SKIPPED;
  if (syscall(SYS_membarrier, 1 << 3, 0, 0) == 0)
    return 2;
  /* liburcu may rely on it or not: then all is as ever */
  extern int urcu_bp_has_sys_membarrier __attribute__((weak));
  bool relied_on = !&urcu_bp_has_sys_membarrier || urcu_bp_has_sys_membarrier;
  for (unsigned i = 0; i < 3; i++) { /* the thread is started again, and ends again */
    if (!throw_away(&waste) ||
        is_released_within(&waste, relied_on ? 1.2 : PATIENCE_SECONDS) == relied_on)
      return 3;
    tamis__backlog_destroy(&waste.backlog);
  }
  return 0;
}

static void *waste_where_it_is_denied(void *waste)
{
  return deny_membarrier(0) && throw_away(waste) ? waste : NULL;
}

/* The thread that waits inherits the filter of the one that starts it: the next one need not have
 * it. */
static int deny_it_to_one_thread(void)
{
  struct waste waste;
  pthread_t thread;
  void *result;
  if (pthread_create(&thread, NULL, waste_where_it_is_denied, &waste))
    return 1;
  pthread_join(thread, &result);
  if (!result)
    return SKIPPED;
  return is_released_within(&waste, PATIENCE_SECONDS) ? 0 : 3;
}

static void run_self(const char *how)
{
  if (*EMULATOR)
    skip();
  extern char **environ;
  char program[4096] = "", argument[16];
  assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
  snprintf(argument, sizeof argument, "%s", how);
  char *arguments[] = {program, argument, NULL};
  pid_t child;
  int status;
  assert_int_equal(posix_spawn(&child, program, NULL, NULL, arguments, environ), 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
    skip();
  assert_int_equal(status, 0);
}

static void memory_waits_while_membarrier_is_denied(void **state)
{
  (void) state;
  run_self("all");
}

static void a_thread_that_is_denied_membarrier_makes_room(void **state)
{
  (void) state;
  run_self("one");
}

/* ---- slots of liburcu's registry ---- */

static void *is_registered(void *unused)
{
  reader_leave(reader_enter());
  return tamis__reader == &tamis__no_reader[0] ? NULL : unused;
}

static bool registers(void)
{
  pthread_t thread;
  void *registered;
  assert_int_equal(__real_pthread_create(&thread, NULL, is_registered, &thread), 0);
  pthread_join(thread, &registered);
  return registered;
}

/* A thread is registered without memory, if a registered one has ended. */
static void a_free_slot_needs_no_memory(void **state)
{
  (void) state;
#ifndef TAMIS_INLINE_READERS
  skip();
#endif
  assert_true(registers());
  size_t before = books.mapped;
  faults.maps = true;
  for (unsigned i = 0; i < 10; i++)
    assert_true(registers());
  faults.maps = false;
  assert_true(books.mapped == before);
}

/* Each thread that is about to register has a slot of its own, which is free. */
static void no_two_threads_count_on_one_slot(void **state)
{
  (void) state;
  int taken[3] = {0, 1, 0};
  slots_forget(); /* those of this file */
  assert_null(slot_claim());
  for (unsigned i = 0; i < 6; i++)
    slot_remember(&taken[i % 3]);
  struct known_slot *first = slot_claim(), *second = slot_claim();
  assert_ptr_equal(first, &known_slots[0]);
  assert_ptr_equal(second, &known_slots[2]);
  assert_null(slot_claim());
  taken[1] = 0;
  assert_ptr_equal(slot_claim(), &known_slots[1]);
  taken[2] = 1;
  slot_release(second);
  assert_null(slot_claim());
  taken[2] = 0;
  assert_ptr_equal(slot_claim(), second);
}

int main(int argc, char **argv)
{
  if (argc > 1)
    return strcmp(argv[1], "all") == 0 ? deny_it_to_all() : deny_it_to_one_thread();
  struct waste none = {.bytes = 0}; /* the first backlog registers the fork handler */
  if (!tamis__backlog_init(&none.backlog, release_to_system, NULL, &none.bytes))
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(without_a_thread_memory_waits_for_one, start_afresh),
      cmocka_unit_test_setup(growth_pauses_only_when_much_waits, start_afresh),
      cmocka_unit_test_setup(counted_readers_are_waited_for, start_afresh),
      cmocka_unit_test_setup(a_counted_reader_stays_one_until_it_leaves, start_afresh),
      cmocka_unit_test_setup(counted_readers_that_never_cease_do_not_keep_memory, start_afresh),
      cmocka_unit_test_setup(a_counted_reader_that_forks_is_inside_in_the_child_too, start_afresh),
      cmocka_unit_test_setup(a_child_forgets_its_parents_counted_readers, start_afresh),
      cmocka_unit_test_setup(memory_waits_while_membarrier_is_denied, start_afresh),
      cmocka_unit_test_setup(a_thread_that_is_denied_membarrier_makes_room, start_afresh),
      cmocka_unit_test_setup(no_two_threads_count_on_one_slot, start_afresh),
      cmocka_unit_test_setup(a_free_slot_needs_no_memory, start_afresh),
  };
  return cmocka_run_group_tests_name("reclaim_faults", tests, NULL, NULL);
}
