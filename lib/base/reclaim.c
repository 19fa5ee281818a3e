/* SPDX-License-Identifier: MIT */
#include "base/reclaim.h"

#include "base/hook.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum {
  IDLE_SECONDS = 1,     /* until the thread ends */
  EXIT_SECONDS = 1,     /* at most, that the end of the process waits for a grace period */
  BACKLOG_DIVISOR = 32, /* more than this part of a filter's memory is much to wait in backlog */
  SMALL_BACKLOG = 32 * 1024, /* bytes that are not worth a pause, however small the filter */
  MAX_PAUSES = 4,
  PAUSE_NANOSECONDS = 50 * 1000,
  REGISTRY_BYTES = 256 << 10 /* what liburcu maps at once for a thousand more threads */
};

/* One grace period that is waited for.  Belongs to two: the filter, and while it is pending the
 * thread that waits.  Not from the user's allocator, as the last of the two may be that thread. */
enum ticket_state { IDLE, PENDING, ELAPSED, ORPHAN };

struct ticket {
  struct ticket *next;
  _Atomic int state;
};

/* What the library's one waiting thread works on. */
static struct {
  /* Protects the lines below, and the lists of all limbos: one lock, so that a fork finds them whole.
   * Held for a few steps, or to start the thread. */
  pthread_mutex_t lock;
  pthread_cond_t more;
  struct ticket *queue;
  struct ticket *in_grace; /* what the thread waits for just now */
  bool running;
  bool stopping; /* the process is about to end */

  pthread_mutex_t grace; /* held while the thread is inside liburcu */

  /* Protects the lines below; also held while another thread makes itself known to liburcu.  For a few
   * steps. */
  pthread_mutex_t introduce;
  pthread_cond_t strangers_left;
  unsigned strangers[2]; /* readers that liburcu does not know, by the term in which they came */
  unsigned term;         /* 0 and 1 in turn: who waits for readers begins a new one */
} waiter = {.lock = PTHREAD_MUTEX_INITIALIZER,
            .more = PTHREAD_COND_INITIALIZER,
            .grace = PTHREAD_MUTEX_INITIALIZER,
            .introduce = PTHREAD_MUTEX_INITIALIZER,
            .strangers_left = PTHREAD_COND_INITIALIZER};

/* The calling thread, while it is inside although liburcu does not know it. */
static _Thread_local struct {
  unsigned depth; /* how often */
  unsigned term;
} stranger __attribute__((tls_model("initial-exec")));

#ifdef TAMIS_TSAN
char tamis__readers;
#endif

/* What a thread begins with; and what a thread has that has been introduced, but is no case of
 * registered_reader_enter(). */
struct urcu_bp_reader *tamis__no_reader[2];
_Thread_local struct urcu_bp_reader **tamis__reader = &tamis__no_reader[0];

static bool introduced(void)
{
  return tamis__reader != &tamis__no_reader[0];
}

static struct urcu_bp_reader **own_reader(void)
{
#ifdef _LGPL_SOURCE
  return urcu_bp_has_sys_membarrier ? &urcu_bp_reader : &tamis__no_reader[1];
#else /* liburcu's functions are called, and find it themselves */
  static char somewhere;
  static struct urcu_bp_reader *known = (struct urcu_bp_reader *) &somewhere;
  return &known;
#endif
}

/* ---- fork and exit ----
 *
 * In the child of a fork only the calling thread lives on.  So that nobody else is inside liburcu at
 * that moment, the locks are taken before: but only for so long, as who forks may be a reader himself,
 * or have locked liburcu (urcu_bp_before_fork()), and somebody may wait for that with our lock.
 *
 * The child then has liburcu forget the readers that are gone, or no grace period would ever end if
 * one of them was inside.  Not if the program does that itself, which is seen by all signals being
 * blocked: urcu_bp_before_fork() does that, and would not return a second time. */

enum { FORK_WAITS_NANOSECONDS = 100 * 1000 * 1000 };

static bool held_for_fork[2]; /* grace, introduce */

static struct timespec in_nanoseconds(long nanoseconds)
{
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_nsec += nanoseconds;
  t.tv_sec += t.tv_nsec / 1000000000;
  t.tv_nsec %= 1000000000;
  return t;
}

static void before_fork(void)
{
  struct timespec until = in_nanoseconds(FORK_WAITS_NANOSECONDS);
  bool grace = pthread_mutex_timedlock(&waiter.grace, &until) == 0;
  bool introduce = pthread_mutex_timedlock(&waiter.introduce, &until) == 0;
  pthread_mutex_lock(&waiter.lock); /* never held for long */
  held_for_fork[0] = grace;
  held_for_fork[1] = introduce;
}

static void after_fork_in_parent(void)
{
  bool grace = held_for_fork[0], introduce = held_for_fork[1];
  pthread_mutex_unlock(&waiter.lock);
  if (introduce)
    pthread_mutex_unlock(&waiter.introduce);
  if (grace)
    pthread_mutex_unlock(&waiter.grace);
}

static bool all_signals_blocked(void)
{
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  for (int i = 1; i < 32; i++)
    if (i != SIGKILL && i != SIGSTOP && sigismember(&blocked, i) == 0)
      return false;
  return true;
}

static void after_fork_in_child(void)
{
  while (waiter.in_grace) {
    struct ticket *ticket = waiter.in_grace;
    waiter.in_grace = ticket->next;
    ticket->next = waiter.queue;
    waiter.queue = ticket;
  }
  waiter.running = false;
  /* Whoever held or waited for these is gone. */
  pthread_cond_init(&waiter.more, NULL);
  pthread_mutex_init(&waiter.grace, NULL);
  pthread_mutex_init(&waiter.introduce, NULL);
  pthread_cond_init(&waiter.strangers_left, NULL);
  waiter.strangers[stranger.term] = stranger.depth > 0;
  waiter.strangers[!stranger.term] = 0;
  waiter.term = stranger.term;
  pthread_mutex_unlock(&waiter.lock);
  if (held_for_fork[0] && held_for_fork[1] && !all_signals_blocked()) {
    urcu_bp_before_fork();
    urcu_bp_after_fork_child();
  }
}

static void register_fork_handlers(void)
{
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* liburcu ends the process when it cannot map memory for its list of threads, so it is not asked then. */
static bool registry_may_grow(void)
{
  void *probe =
      mmap(NULL, REGISTRY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return probe != MAP_FAILED && munmap(probe, REGISTRY_BYTES) == 0;
}

/* Makes the thread known.  False: there is no memory for that; then it is inside all the same, as a stranger,
 * is counted under a lock that is never held for long, and stays one until it leaves, also if there is memory
 * by then: it may come again meanwhile, from an allocator that uses another filter. */
static bool introduce(void)
{
  if (stranger.depth == 0) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&waiter.introduce);
    if (registry_may_grow()) {
      urcu_bp_read_lock(); /* the first one registers */
      urcu_bp_read_unlock();
      tamis__reader = own_reader();
    } else {
      stranger.term = waiter.term;
      waiter.strangers[waiter.term]++;
    }
    pthread_mutex_unlock(&waiter.introduce);
  }
  stranger.depth += !introduced();
  return introduced();
}

static void stranger_leave(void)
{
  if (--stranger.depth > 0)
    return;
  pthread_mutex_lock(&waiter.introduce);
  if (--waiter.strangers[stranger.term] == 0)
    pthread_cond_signal(&waiter.strangers_left);
  pthread_mutex_unlock(&waiter.introduce);
}

void tamis__reader_enter(void)
{
  if (introduced() || introduce())
    urcu_bp_read_lock();
}

void tamis__reader_leave(void)
{
  if (introduced()) {
    TSAN(__tsan_release(&tamis__readers));
    urcu_bp_read_unlock();
  } else
    stranger_leave();
}

/* liburcu takes its registry down when the process ends; the thread must not be in it then.  A
 * reader that never leaves (exit() called from a signal handler) must not keep the process. */
__attribute__((destructor)) static void before_exit(void)
{
  struct timespec until = in_nanoseconds(0);
  until.tv_sec += EXIT_SECONDS;
  pthread_mutex_lock(&waiter.lock);
  waiter.stopping = true;
  pthread_mutex_unlock(&waiter.lock);
  if (pthread_mutex_timedlock(&waiter.grace, &until) == 0)
    pthread_mutex_unlock(&waiter.grace);
}

/* ---- the thread that waits ---- */

/* Those who come from now on do so in a new term, and are not waited for; of the term before that one
 * nobody is left. */
static void wait_for_strangers(void)
{
  pthread_mutex_lock(&waiter.introduce);
  unsigned term = waiter.term;
  waiter.term = !term;
  while (waiter.strangers[term] > 0)
    pthread_cond_wait(&waiter.strangers_left, &waiter.introduce);
  pthread_mutex_unlock(&waiter.introduce);
}

static void wait_for_readers(void)
{
  urcu_bp_synchronize_rcu();
  TSAN(__tsan_acquire(&tamis__readers));
  wait_for_strangers();
}

/* ORDER ticket.elapsed (acq_rel)
 *   pairs with     ticket.look
 *   makes visible  that the readers are gone: all that they read, they read before
 *   if weakened    memory is released under a reader, were it not that both ends are reached with
 *                  the waiter's lock: the model finds nothing with these relaxed
 *   checked by     negative/no_grace_period (that there is something to make visible),
 *                  negative/ticket_not_looked_at */
static void mark(struct ticket *ticket)
{
  int pending = PENDING;
  if (!atomic_compare_exchange_strong_explicit(&ticket->state, &pending, ELAPSED,
                                               memory_order_acq_rel, memory_order_acquire))
    free(ticket); /* an orphan */
}

/* Called with the lock, which it lets go of meanwhile.  False: time to end. */
static bool serve_queue(void)
{
  waiter.in_grace = waiter.queue;
  waiter.queue = NULL;
  pthread_mutex_unlock(&waiter.lock);
  HOOK(reclaim_taken);

  pthread_mutex_lock(&waiter.grace);
  pthread_mutex_lock(&waiter.lock);
  bool stopping = waiter.stopping;
  pthread_mutex_unlock(&waiter.lock);
  if (!stopping)
    wait_for_readers();
  pthread_mutex_unlock(&waiter.grace);
  HOOK(reclaim_waited);

  pthread_mutex_lock(&waiter.lock);
  while (!stopping && waiter.in_grace) {
    struct ticket *ticket = waiter.in_grace;
    waiter.in_grace = ticket->next;
    mark(ticket);
  }
  return !stopping;
}

static bool wait_for_more(void)
{
  struct timespec until = in_nanoseconds(0);
  until.tv_sec += IDLE_SECONDS;
  while (!waiter.queue)
    if (pthread_cond_timedwait(&waiter.more, &waiter.lock, &until) == ETIMEDOUT)
      return waiter.queue != NULL;
  return true;
}

static void *wait_in_place_of_callers(void *unused)
{
  pthread_mutex_lock(&waiter.lock);
  while (wait_for_more() && serve_queue())
    ;
  waiter.running = false;
  pthread_mutex_unlock(&waiter.lock);
  return unused;
}

/* With the lock.  Without a thread the tickets wait for the next try. */
static void start_thread(void)
{
  pthread_attr_t attributes;
  pthread_t thread;
  sigset_t all, before;
  if (pthread_attr_init(&attributes))
    return;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  sigfillset(&all); /* signals are for the program's own threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  waiter.running = pthread_create(&thread, &attributes, wait_in_place_of_callers, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
}

/* With the lock.  Has the ticket wait for a grace period that begins now or later. */
static void enqueue(struct ticket *ticket)
{
  atomic_store_explicit(&ticket->state, PENDING, memory_order_relaxed); /* handed on by the lock */
  ticket->next = waiter.queue;
  waiter.queue = ticket;
}

/* With the lock.  Sees to it that somebody waits, if there is anything to wait for. */
static void wake(void)
{
  if (waiter.queue && !waiter.running && !waiter.stopping)
    start_thread();
  else
    pthread_cond_signal(&waiter.more);
}

/* ---- backlog ---- */

bool tamis__backlog_init(struct backlog *backlog, backlog_release *release, void *owner,
                         const _Atomic uint64_t *bytes)
{
  *backlog = (struct backlog){.release = release,
                              .owner = owner,
                              .bytes = bytes,
                              .ticket = calloc(1, sizeof *backlog->ticket)};
  return backlog->ticket != NULL;
}

static void release_all(struct backlog *backlog, struct retired **list)
{
  while (*list) {
    struct retired *block = *list;
    size_t size = block->size;
    *list = block->next;
    backlog->release(backlog->owner, block, size);
    atomic_fetch_sub_explicit(&backlog->held, size, memory_order_relaxed); /* a figure */
  }
}

/* Whether the ticket was still in the queue, and now is not any more: it may be that no thread will ever
 * come for it. */
static bool dequeue(const struct ticket *ticket)
{
  pthread_mutex_lock(&waiter.lock);
  struct ticket **at = &waiter.queue;
  while (*at && *at != ticket)
    at = &(*at)->next;
  bool queued = *at != NULL;
  if (queued)
    *at = ticket->next;
  pthread_mutex_unlock(&waiter.lock);
  return queued;
}

void tamis__backlog_destroy(struct backlog *backlog)
{
  if (!backlog->ticket)
    return;
  release_all(backlog, &backlog->waiting);
  release_all(backlog, &backlog->fresh);
  int pending = PENDING;
  if (dequeue(backlog->ticket) ||
      !atomic_compare_exchange_strong_explicit(&backlog->ticket->state, &pending, ORPHAN,
                                               memory_order_acq_rel, memory_order_acquire))
    free(backlog->ticket);
}

/* ORDER ticket.look (acquire)
 *   pairs with     ticket.elapsed
 *   makes visible  see there
 *   if weakened    see there */
static bool has_elapsed(const struct backlog *backlog)
{
  return atomic_load_explicit(&backlog->ticket->state, memory_order_acquire) == ELAPSED;
}

/* With the lock: takes what may be released off the lists, and has the rest wait. */
static struct retired *take_elapsed(struct backlog *backlog)
{
  struct retired *elapsed = NULL;
  if (has_elapsed(backlog)) {
    elapsed = backlog->waiting;
    backlog->waiting = NULL;
    atomic_store_explicit(&backlog->ticket->state, IDLE, memory_order_relaxed); /* ours alone now */
  }
  if (!backlog->waiting && backlog->fresh) {
    backlog->waiting = backlog->fresh;
    backlog->fresh = NULL;
    enqueue(backlog->ticket);
  }
  return elapsed;
}

static bool release_elapsed(struct backlog *backlog, struct retired *block)
{
  pthread_mutex_lock(&waiter.lock);
  if (block) {
    block->next = backlog->fresh;
    backlog->fresh = block;
  }
  struct retired *elapsed = take_elapsed(backlog);
  if (backlog->waiting)
    wake();
  pthread_mutex_unlock(&waiter.lock);
  bool released = elapsed != NULL;
  release_all(backlog, &elapsed);
  return released;
}

/* Much waits, compared with what the filter has and with a block.  Then the thread that waits for
 * readers, or a reader, lacks a core: a pause, whatever comes of it, keeps growth from running away from
 * them. */
static bool backlog_is_large(const struct backlog *backlog, size_t size)
{
  uint64_t held = atomic_load_explicit(&backlog->held, memory_order_relaxed);
  return held > SMALL_BACKLOG && held > 3 * size &&
         held > atomic_load_explicit(backlog->bytes, memory_order_relaxed) / BACKLOG_DIVISOR;
}

void tamis__backlog_retire(struct backlog *backlog, struct retired *block, size_t size)
{
  block->size = size;
  atomic_fetch_add_explicit(&backlog->held, size, memory_order_relaxed);
  release_elapsed(backlog, block);
  for (unsigned i = 0; i < MAX_PAUSES && backlog_is_large(backlog, size); i++) {
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NANOSECONDS}, NULL);
    tamis__backlog_drain(backlog);
  }
}

bool tamis__backlog_drain(struct backlog *backlog)
{
  return release_elapsed(backlog, NULL);
}
