/* SPDX-License-Identifier: MIT
 *
 * How memory that readers might still see is released: reclaim.h has the picture.
 *
 * R1  Nothing that a reader can use is released.  A grace period waits for two sorts of readers:
 *     - A *registered reader* is known to liburcu, whose grace period waits for it.  It enters and
 *       leaves a read section by one plain store each.  The thread's first call registers it.
 *     - A *counted reader* is counted while it is inside a section (counted.h).  It is a thread
 *       that liburcu must not know of: one for which liburcu has no memory (liburcu would end the
 *       process), or any thread of a forked child.  No thread is registered inside a section.
 * R2  No call waits for a reader, and no call is a cancellation point.  waiter.lock is held for a
 *     few steps, in which the library calls nothing that could wait, take another lock or enter the
 *     kernel: not liburcu, not malloc (so not pthread_create), no callback.  Conditions are
 *     signalled after the lock has been released.  No signal is lost: a request is written under
 *     the lock, so the waiting thread sees it before it sleeps, or sleeps already.
 * R3  A fork waits for nothing: there is no handler in the parent.  In the child, the other threads
 *     have vanished at an arbitrary step, and may have held any lock.
 *     - waiter.lock: the child's handler initialises it.  The data under it are valid after every
 *       step: the numbers only grow, the child begins its own grace periods, and this_order()
 *       explains the lists.
 *     - Locks of liburcu might stay held for ever, so the child calls no function of liburcu that
 *       takes a lock.  The child's threads are counted readers, and its grace periods wait only for
 *       those.  If the forking thread was inside as a registered reader, it is also counted until
 *       that section ends.
 * R4  The library ends its thread and joins it before the library is unloaded or the process ends.
 *     Unloading waits for all readers, for which the thread waits.  The process's end waits for at
 *     most a second, because a reader might stay inside for ever.  liburcu is kept loaded: it has
 *     code to run at the end of each registered thread.
 * R5  If the system refuses a thread or membarrier, retired memory is kept until the system permits
 *     both.  Registered readers rely on membarrier for their barriers, and liburcu ends the process
 *     when membarrier is refused.  So the library tries membarrier before each grace period.  (If a
 *     seccomp filter refuses it to all threads while liburcu waits, liburcu ends the process.)
 */
#include "base/reclaim.h"

#include "base/cancel.h"
#include "base/cores.h"
#include "base/counted.h"
#include "base/hook.h"
#include "base/unload.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000) /* nanoseconds */

static const int64_t idle_time = SECOND; /* without requests, the waiting thread ends */
/* After a grace period the waiting thread looks for requests at intervals between these two. */
static const int64_t first_look = SECOND / 1000;
static const int64_t last_look = SECOND / 128;
static const int64_t exit_time = SECOND;    /* the longest wait when the process ends */
static const int64_t refused_time = SECOND; /* the thread's sleep after a refusal of membarrier */
static const int64_t first_nap = SECOND / 20000; /* nap while waiting for counted readers */
static const int64_t longest_nap = SECOND / 100;

enum {
  BACKLOG_DIVISOR = 32, /* a backlog is large if it exceeds the filter's bytes divided by this */
  SMALL_BACKLOG = SMALL(32 * 1024, 4096), /* bytes; no call pauses for a smaller backlog */
  MAX_PAUSES = 4,
  PAUSE_NANOSECONDS = 50 * 1000
};

static struct {
  /* LOCK process.waiter (order 1): protects what the waiting thread uses, and the lists of all
   * backlogs; held for a few steps.  The child of a fork initialises it again. */
  pthread_mutex_t lock;
  pthread_cond_t more, ended;
  uint64_t wanted;           /* the number of the latest grace period that a filter needs */
  uint64_t started, elapsed; /* the last grace period that has begun, and the last that is over */
  bool running;              /* the waiting thread exists, or is about to be started */
  bool looking;              /* the thread sleeps, but will soon look for requests by itself */
  bool unjoined;             /* `thread` must be joined after it has ended */
  pthread_t thread;
  bool stopping; /* the process ends, or the library is being unloaded */
} waiter = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .more = PTHREAD_COND_INITIALIZER,
            .ended = PTHREAD_COND_INITIALIZER};

/* True in the child of a fork.  Relaxed: it is set while the child has only one thread. */
static _Atomic bool forked;

static bool is_forked(void)
{
  return atomic_load_explicit(&forked, memory_order_relaxed);
}

static struct counted_readers counted;

/* The calling thread's state as a counted reader. */
static _Thread_local struct {
  _Atomic uint64_t *counter; /* the counter to which the thread has added 1; NULL: none */
  unsigned depth;            /* the number of sections inside the thread's outermost section */
  bool inherited;            /* the outermost section is registered, and was open at a fork */
} own DIRECT_TLS;

/* tamis__reader points to tamis__no_reader[0] in threads that are not registered, and to [1] in
 * registered threads that cannot use registered_reader_enter(). */
struct urcu_bp_reader *tamis__no_reader[2];
_Thread_local struct urcu_bp_reader **tamis__reader = &tamis__no_reader[0];

_Thread_local unsigned tamis__read_sections;

#ifdef TAMIS_TSAN
char tamis__readers;
#endif

/* ---- times of the monotonic clock ---- */

static struct timespec in_nanoseconds(int64_t nanoseconds)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_sec += (time_t) ((t.tv_nsec + nanoseconds) / SECOND);
  t.tv_nsec = (long) ((t.tv_nsec + nanoseconds) % SECOND);
  return t;
}

static void init_conditions(void)
{
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&waiter.more, &monotonic);
  pthread_cond_init(&waiter.ended, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

/* ---- registration ---- */

static struct urcu_bp_reader **registered_reader(void)
{
#ifdef TAMIS_INLINE_READERS
  return urcu_bp_has_sys_membarrier ? &urcu_bp_reader : &tamis__no_reader[1];
#else /* liburcu's functions find the reader themselves: any pointer but NULL will do */
  static char somewhere;
  static struct urcu_bp_reader *known = (struct urcu_bp_reader *) &somewhere;
  return &known;
#endif
}

/* Returns true if liburcu could map memory for a thousand more threads: without memory, liburcu
 * would end the process.  (After the check, another thread may still take the memory.) */
static bool registry_may_grow(void)
{
  const size_t bytes = 256 << 10;
  void *trial = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return trial != MAP_FAILED && munmap(trial, bytes) == 0;
}

/* Registers the calling thread, which must be in no read section.  Returns false if the thread must
 * be a counted reader instead. */
static bool register_reader(void)
{
  if (is_forked() || !registry_may_grow())
    return false;
  urcu_bp_read_lock(); /* the first call of a thread registers it */
  urcu_bp_read_unlock();
  tamis__reader = registered_reader();
  return true;
}

/* ---- readers that registered_reader_enter() does not serve ---- */

/* Chooses a shard by the address of the variable `own`, which differs between threads. */
static unsigned own_shard(void)
{
  return (unsigned) ((uintptr_t) &own * UINT64_C(0x9E3779B97F4A7C15) >> (64 - COUNTED_SHARD_BITS));
}

/* Returns true if the calling thread, which must have been registered, is in a registered section.
 * (Without TAMIS_INLINE_READERS, the function may register an ending thread again.) */
static bool in_registered_section(void)
{
#ifdef TAMIS_INLINE_READERS
  return urcu_bp_reader && urcu_bp_read_ongoing();
#else
  return urcu_bp_read_ongoing();
#endif
}

static void leave_counted(void)
{
  _Atomic uint64_t *counter = own.counter;
  own.counter = NULL;
  counted_leave(counter);
}

/* Stops counting the thread as a reader if a section that was open at a fork has ended.
 * (registered_reader_leave(), which ends such a section, does not.) */
static void inherited_section_end(void)
{
  if (own.inherited && own.depth == 0 && !in_registered_section()) {
    own.inherited = false;
    leave_counted();
  }
}

void tamis__reader_enter(void)
{
  inherited_section_end();
  READ_SECTIONS(++);
  if (own.counter)
    own.depth++;
  else if (tamis__reader == &tamis__no_reader[1] || register_reader())
    urcu_bp_read_lock();
  else
    own.counter = counted_enter(&counted, own_shard());
}

void tamis__reader_leave(void)
{
  READ_SECTIONS(--);
  if (own.depth > 0)
    own.depth--;
  else if (own.counter && !own.inherited)
    leave_counted();
  else {
    TSAN(__tsan_release(&tamis__readers));
    urcu_bp_read_unlock();
  }
}

enum reader_pause tamis__reader_pause(bool inside)
{
  inherited_section_end();
  bool is_registered = tamis__reader != &tamis__no_reader[0] && in_registered_section();
  if (!inside || (!own.counter && !is_registered))
    return READER_OUTSIDE;
  enum reader_pause pause = own.depth > 0                   ? READER_NESTED
                            : own.counter && !own.inherited ? READER_COUNTED
                                                            : READER_REGISTERED;
  tamis__reader_leave();
  inherited_section_end();
  return pause;
}

/* Enters the section again.  In the child of a fork, a registered reader is also counted. */
void tamis__reader_resume(enum reader_pause pause)
{
  if (pause == READER_OUTSIDE)
    return;
  READ_SECTIONS(++);
  own.depth += pause == READER_NESTED;
  if (pause == READER_REGISTERED)
    urcu_bp_read_lock();
  bool inherited = pause == READER_REGISTERED && is_forked() && !own.counter;
  own.inherited |= inherited;
  if (pause == READER_COUNTED || inherited)
    own.counter = counted_enter(&counted, own_shard());
}

/* ---- the waiting thread: how it waits ----
 *
 * Functions whose names end with _locked are called with waiter.lock held. */

static bool membarrier_is_refused(void)
{
#ifndef TAMIS_INLINE_READERS
  extern int urcu_bp_has_sys_membarrier __attribute__((weak));
  bool relied_on = !&urcu_bp_has_sys_membarrier || urcu_bp_has_sys_membarrier;
#else
  bool relied_on = urcu_bp_has_sys_membarrier;
#endif
  enum { PRIVATE_EXPEDITED = 1 << 3 }; /* the command that liburcu passes to membarrier */
  return relied_on && syscall(SYS_membarrier, PRIVATE_EXPEDITED, 0, 0) != 0;
}

static bool wait_for_registered_readers(void)
{
  if (is_forked())
    return true;
  if (membarrier_is_refused())
    return false;
  urcu_bp_synchronize_rcu();
  TSAN(__tsan_acquire(&tamis__readers));
  return true;
}

static int wait_for_signal_locked(int64_t nanoseconds)
{
  struct timespec until = in_nanoseconds(nanoseconds);
  return pthread_cond_timedwait(&waiter.more, &waiter.lock, &until);
}

/* Waits until the counted readers have left, and releases the lock meanwhile.  Returns false if the
 * thread must end. */
static bool wait_for_counted_readers_locked(void)
{
  uint64_t phase = counted_flip(&counted);
  for (int64_t nap = first_nap; !counted_have_left(&counted, phase);
       nap = nap < longest_nap ? 2 * nap : longest_nap) {
    if (waiter.stopping)
      return false;
    wait_for_signal_locked(nap);
  }
  return true;
}

static void sleep_while_refused_locked(void)
{
  struct timespec until = in_nanoseconds(refused_time);
  while (!waiter.stopping &&
         pthread_cond_timedwait(&waiter.more, &waiter.lock, &until) != ETIMEDOUT)
    ;
}

/* Waits for a grace period, and releases the lock meanwhile.  Returns false if the grace period has
 * not ended, because the system refused membarrier or because the thread must end. */
static bool grace_period_locked(void)
{
  uint64_t number = ++waiter.started;
  pthread_mutex_unlock(&waiter.lock);
  HOOK(reclaim_begun);
  bool waited = wait_for_registered_readers();
  HOOK(reclaim_waited);
  pthread_mutex_lock(&waiter.lock);
  if (!waited)
    sleep_while_refused_locked();
  if (!waited || !wait_for_counted_readers_locked())
    return false;
  waiter.elapsed = number;
  return true;
}

/* Waits for a request.  Returns false if the thread must end, for instance after idle_time.  While
 * requests come often, the thread looks for them by itself, and only a caller in a hurry wakes it:
 * the system call that wakes it takes longer than all other steps of a segment's split. */
static bool request_comes_locked(void)
{
  for (int64_t wait = first_look; !waiter.stopping && waiter.wanted <= waiter.elapsed; wait *= 2) {
    waiter.looking = wait <= last_look;
    int result = wait_for_signal_locked(waiter.looking ? wait : idle_time);
    if (result == ETIMEDOUT && !waiter.looking)
      return waiter.wanted > waiter.elapsed;
    waiter.looking = false;
  }
  return !waiter.stopping;
}

/* The waiting thread.  It ends when membarrier is refused, because a seccomp filter might restrict
 * only this thread.  At the end, it wakes stop(), which joins the thread. */
static void *wait_in_place_of_callers(void *unused)
{
  tamis__schedule_as_the_process();
  pthread_mutex_lock(&waiter.lock);
  waiter.thread = pthread_self();
  waiter.unjoined = true;
  while (request_comes_locked() && grace_period_locked())
    ;
  waiter.running = false;
  pthread_mutex_unlock(&waiter.lock);
  pthread_cond_signal(&waiter.ended);
  return unused;
}

/* ---- the waiting thread: its beginning and its end ---- */

/* Joins the last thread: a detached thread might still run when the library is unloaded. */
static void join_last_thread(void)
{
  pthread_mutex_lock(&waiter.lock);
  const bool unjoined = waiter.unjoined;
  const pthread_t thread = waiter.thread;
  waiter.unjoined = false;
  pthread_mutex_unlock(&waiter.lock);
  if (unjoined)
    pthread_join(thread, NULL);
}

/* Starts the waiting thread.  The caller must have set `running`, and must not hold the lock.  If
 * the system refuses the thread, the requests wait for a later call. */
static void start_thread(void)
{
  sigset_t all, before;
  pthread_t thread;
  int cancellation = cancellation_disable(); /* pthread_join is a cancellation point */
  join_last_thread();
  sigfillset(&all); /* signals are for the program's own threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&thread, NULL, wait_in_place_of_callers, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!started) {
    pthread_mutex_lock(&waiter.lock);
    waiter.running = false;
    pthread_mutex_unlock(&waiter.lock);
    pthread_cond_signal(&waiter.ended);
  }
  cancellation_restore(cancellation);
}

__attribute__((destructor)) static void stop(void)
{
  int cancellation = cancellation_disable();
  struct timespec until = in_nanoseconds(exit_time);
  pthread_mutex_lock(&waiter.lock);
  waiter.stopping = true;
  pthread_mutex_unlock(&waiter.lock);
  pthread_cond_signal(&waiter.more);
  pthread_mutex_lock(&waiter.lock);
  while (waiter.running)
    if (pthread_cond_timedwait(&waiter.ended, &waiter.lock, &until) == ETIMEDOUT) {
      if (tamis__process_ends())
        break;
      until = in_nanoseconds(exit_time);
    }
  bool ended = !waiter.running;
  pthread_mutex_unlock(&waiter.lock);
  if (ended)
    join_last_thread();
  tamis__stop_watching();
  cancellation_restore(cancellation);
}

/* ---- set-up, once in each process ---- */

static bool handler_registered;

/* Runs in the child of a fork, on the child's only thread (R3 above). */
static void after_fork_in_child(void)
{
  handler_registered = true; /* a fork can come before begin() sets the variable */
  atomic_store_explicit(&forked, true, memory_order_relaxed);
  pthread_mutex_init(&waiter.lock, NULL);
  init_conditions();
  waiter.running = waiter.unjoined = waiter.looking = false;
  counted_reset(&counted);
  if (tamis__reader != &tamis__no_reader[0] && in_registered_section())
    own.inherited = true;
  if (own.counter || own.inherited)
    own.counter = counted_enter(&counted, own_shard());
  tamis__reader = &tamis__no_reader[0];
}

static void begin(void)
{
  init_conditions();
  tamis__keep_loaded(urcu_bp_register_thread);
  tamis__watch_for_exit();
  if (!handler_registered)
    handler_registered = pthread_atfork(NULL, NULL, after_fork_in_child) == 0;
}

/* ---- backlogs ---- */

bool tamis__readers_init(void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, begin);
  return handler_registered;
}

bool tamis__backlog_init(struct backlog *backlog, backlog_release *release, void *owner,
                         const _Atomic uint64_t *bytes)
{
  *backlog = (struct backlog){.release = release, .owner = owner, .bytes = bytes};
  return tamis__readers_init();
}

static void release_first(struct backlog *backlog, struct retired **list)
{
  struct retired *block = *list;
  const uint64_t size = block->size;
  *list = block->next;
  backlog->release(backlog->owner, block, size);
  atomic_fetch_sub_explicit(&backlog->held, size, memory_order_relaxed); /* a statistic */
}

void tamis__backlog_destroy(struct backlog *backlog)
{
  while (backlog->waiting)
    release_first(backlog, &backlog->waiting);
  while (backlog->fresh)
    release_first(backlog, &backlog->fresh);
}

/* A fork can come after any step of another thread, and the child continues with the lists as they
 * are.  After each step, no block is in two lists, if the compiler keeps the order of the steps. */
static inline void this_order(void)
{
  atomic_signal_fence(memory_order_seq_cst);
}

static void add_fresh_locked(struct backlog *backlog, struct retired *block)
{
  block->next = backlog->fresh;
  this_order();
  backlog->fresh = block;
}

/* Empties the list `waiting` if its grace period has ended, and returns its blocks.  If the list is
 * empty, moves the fresh blocks there. */
static struct retired *take_elapsed_locked(struct backlog *backlog)
{
  struct retired *elapsed = NULL, *fresh = backlog->fresh;
  if (backlog->waiting && backlog->grace_period <= waiter.elapsed) {
    elapsed = backlog->waiting;
    backlog->waiting = NULL;
  }
  if (!backlog->waiting && fresh) {
    this_order();
    backlog->grace_period = waiter.started + 1;
    this_order();
    backlog->fresh = NULL;
    HOOK(backlog_moved);
    this_order();
    backlog->waiting = fresh;
  }
  return elapsed;
}

/* What a caller must do with the waiting thread after it has released the lock. */
enum errand { NOTHING, WAKE_IT, START_IT };

static enum errand request_locked(const struct backlog *backlog, bool hurry)
{
  if (!backlog->waiting || waiter.stopping)
    return NOTHING;
  bool new = waiter.wanted < backlog->grace_period;
  if (new)
    waiter.wanted = backlog->grace_period;
  if (waiter.running)
    return (waiter.looking ? hurry : new) ? WAKE_IT : NOTHING;
  waiter.running = true;
  return START_IT;
}

/* Releases unused blocks, and keeps the others.  Returns true if it has released any. */
static bool release_unused(struct backlog *backlog, struct retired *elapsed)
{
  bool released = false;
  for (struct retired *block; (block = elapsed) != NULL;)
    if (backlog->in_use && backlog->in_use(block)) {
      elapsed = block->next;
      pthread_mutex_lock(&waiter.lock);
      add_fresh_locked(backlog, block);
      pthread_mutex_unlock(&waiter.lock);
    } else {
      release_first(backlog, &elapsed);
      released = true;
    }
  return released;
}

static bool release_elapsed(struct backlog *backlog, struct retired *block, bool hurry)
{
  inherited_section_end();
  pthread_mutex_lock(&waiter.lock);
  if (block)
    add_fresh_locked(backlog, block);
  struct retired *elapsed = take_elapsed_locked(backlog);
  enum errand errand = request_locked(backlog, hurry);
  pthread_mutex_unlock(&waiter.lock);
  if (errand == WAKE_IT)
    pthread_cond_signal(&waiter.more);
  else if (errand == START_IT)
    start_thread();
  return release_unused(backlog, elapsed);
}

/* Returns true if `times` times the backlog is large, compared with the filter and with `size`. */
static bool backlog_is_large(const struct backlog *backlog, uint64_t size, unsigned times)
{
  uint64_t held = times * atomic_load_explicit(&backlog->held, memory_order_relaxed);
  return held > SMALL_BACKLOG && held > 3 * size &&
         held > atomic_load_explicit(backlog->bytes, memory_order_relaxed) / BACKLOG_DIVISOR;
}

/* A large backlog means that the waiting thread or a reader lacks a core, which a pause frees. */
void tamis__backlog_retire(struct backlog *backlog, struct retired *block, uint64_t size,
                           bool hurry)
{
  block->size = size;
  atomic_fetch_add_explicit(&backlog->held, size, memory_order_relaxed);
  release_elapsed(backlog, block, hurry || backlog_is_large(backlog, size, 2));
  for (unsigned i = 0; i < MAX_PAUSES && backlog_is_large(backlog, size, 1); i++) {
    sleep_uncancelled(PAUSE_NANOSECONDS);
    tamis__backlog_drain(backlog, true);
  }
}

/* Relaxed: a block that another thread is just retiring may be missed; a later call finds it. */
bool tamis__backlog_drain(struct backlog *backlog, bool hurry)
{
  return atomic_load_explicit(&backlog->held, memory_order_relaxed) > 0 &&
         release_elapsed(backlog, NULL, hurry);
}
