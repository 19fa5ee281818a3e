/* SPDX-License-Identifier: MIT
 *
 * Question: can a process fork at any moment?
 *
 * While the main thread forks, others look keys up, make a filter grow and shrink, come to their
 * first call and end right after it, and use liburcu for themselves, waiting for its readers.  A
 * child executes another program, or works on: on the filter that only look-ups and the main thread
 * use, and on one of its own.  A child that does not end is one that hangs.
 *
 * Handlers of the program's own run right before and right after those of the library, in the
 * parent, so the time between them is what the library adds to a fork.  The scheduler may take the
 * core away in between; the thread has waited only where it gave the core up.
 */
#include "harness.h"

#include "tamis/tamis.h"

#include <error.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <urcu/urcu-bp.h>

enum { STAYING = 2000, BURST = 3000, CHILD_SECONDS = 20, WORKERS = 5, MOST_CHILDREN = 64 };

struct settings {
  struct harness_settings shared;
  uint64_t forks;    /* in a round */
  uint64_t children; /* at a time */
  bool only_exec;
};

static struct {
  const struct settings *settings;
  tamis_filter *quiet, *busy;
  atomic_bool done;
  uint64_t hung, wrong, failed; /* children; failed: could not be made */
  _Atomic uint64_t errors;      /* of the parent's threads */
} run;

/* ---- what the handlers of the library take ---- */

static struct {
  uint64_t began;
  long switches;
  uint64_t longest, longest_wait; /* nanoseconds */
  uint64_t long_waits, forks;
} added;

enum {
  LONG_WAIT = 1000000, /* nanoseconds */
  /* In so many forks there may be one long wait.  The kernel stops a thread for its own sake as
   * well, most likely where it copies a page: another thread that holds the lock of the address
   * space may have lost its time slice.  That was seen once in a million forks, on two cores with a
   * load of 40.  A short run may have a few of them.  (Of 200 forks that wait for readers, some ten
   * wait for so long.) */
  FORKS_PER_LONG_WAIT = 100000,
  LONG_WAITS_BY_CHANCE = 2
};

static long own_switches(void)
{
  struct rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

static void stretch_begins(void)
{
  added.switches = own_switches();
  added.began = harness_nanoseconds();
}

static void stretch_ends(void)
{
  uint64_t took = harness_nanoseconds() - added.began;
  if (took > added.longest)
    added.longest = took;
  added.forks++;
  if (own_switches() == added.switches)
    return;
  added.long_waits += took > LONG_WAIT;
  if (took > added.longest_wait)
    added.longest_wait = took;
}

/* The first handler after a fork writes to the pages that the following ones write to: the kernel
 * copies them, and may have to wait for that. */
static void touch_pages(void)
{
  const uint64_t longest = added.longest, longest_wait = added.longest_wait,
                 long_waits = added.long_waits, forks = added.forks;
  stretch_begins();
  stretch_ends();
  added.longest = longest;
  added.longest_wait = longest_wait;
  added.long_waits = long_waits;
  added.forks = forks;
}

/* ---- the other threads ---- */

static tamis_filter *make_filter(uint64_t seed)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 10;
  options.seed = seed;
  tamis_filter *filter;
  int result = tamis_create(&options, &filter);
  if (result != TAMIS_OK)
    error(2, 0, "cannot create a filter: %s", tamis_strerror(result));
  return filter;
}

static bool grow_and_shrink(tamis_filter *filter, uint64_t from)
{
  bool good = true;
  for (uint64_t i = from; i < from + BURST; i++)
    good &= tamis_add_hash(filter, i) == TAMIS_OK && tamis_contains_hash(filter, i);
  for (uint64_t i = from; i < from + BURST; i++)
    good &= tamis_remove_hash(filter, i) == TAMIS_OK;
  return good;
}

static bool all_there(const tamis_filter *filter)
{
  bool good = true;
  for (uint64_t i = 0; i < STAYING; i++)
    good &= tamis_contains_hash(filter, i);
  return good;
}

static void *look_up(void *unused)
{
  while (!atomic_load(&run.done))
    atomic_fetch_add(&run.errors, !all_there(run.quiet));
  return unused;
}

static void *grow(void *unused)
{
  while (!atomic_load(&run.done))
    atomic_fetch_add(&run.errors, !grow_and_shrink(run.busy, 0));
  return unused;
}

static void *look_up_and_end(void *unused)
{
  atomic_fetch_add(&run.errors, !tamis_contains_hash(run.quiet, 1));
  return unused;
}

static void *start_threads(void *unused)
{
  while (!atomic_load(&run.done)) {
    pthread_t threads[4];
    unsigned n = 0;
    while (n < 4 && pthread_create(&threads[n], NULL, look_up_and_end, NULL) == 0)
      n++;
    for (unsigned i = 0; i < n; i++)
      pthread_join(threads[i], NULL);
  }
  return unused;
}

static void *read_with_liburcu(void *unused)
{
  while (!atomic_load(&run.done)) {
    urcu_bp_read_lock();
    usleep(500);
    urcu_bp_read_unlock();
  }
  return unused;
}

static void *wait_with_liburcu(void *unused)
{
  while (!atomic_load(&run.done)) {
    urcu_bp_synchronize_rcu();
    usleep(100);
  }
  return unused;
}

/* ---- children ---- */

static bool work_in_child(uint64_t seed)
{
  bool good = all_there(run.quiet) && grow_and_shrink(run.quiet, STAYING);
  tamis_filter *own = make_filter(seed);
  good &= grow_and_shrink(own, 0) && all_there(run.quiet);
  tamis_destroy(own);
  tamis_destroy(run.quiet);
  return good;
}

static void be_a_child(uint64_t random)
{
  if (run.settings->only_exec || random % 4 != 0) {
    execl("/bin/true", "true", (char *) NULL);
    _exit(1);
  }
  alarm(CHILD_SECONDS);
  _exit(work_in_child(random) ? 0 : 1);
}

struct child {
  pid_t pid; /* 0: none */
  double end;
};

static struct child start_child(uint64_t random)
{
  pid_t pid = fork();
  if (pid == 0)
    be_a_child(random);
  run.failed += pid < 0;
  return (struct child){pid > 0 ? pid : 0, harness_seconds() + CHILD_SECONDS};
}

static void await_child(const struct child *child)
{
  if (!child->pid)
    return;
  int status = 0;
  pid_t ended;
  while ((ended = waitpid(child->pid, &status, WNOHANG)) == 0 && harness_seconds() < child->end)
    usleep(50);
  if (ended == 0) {
    kill(child->pid, SIGKILL);
    waitpid(child->pid, &status, 0);
    run.hung++;
  } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
    run.hung++;
  } else if (status != 0) {
    run.wrong++;
  }
}

/* ---- rounds ---- */

static bool play(const struct settings *s, uint64_t round)
{
  uint64_t seed = random_at(s->shared.seed, round);
  void *(*const bodies[WORKERS])(void *) = {look_up, grow, start_threads, read_with_liburcu,
                                            wait_with_liburcu};
  pthread_t threads[WORKERS];
  run.settings = s;
  run.quiet = make_filter(seed);
  run.busy = make_filter(seed);
  run.hung = 0, run.wrong = 0, run.failed = 0, run.errors = 0;
  run.done = false;
  for (uint64_t i = 0; i < STAYING; i++)
    run.errors += tamis_add_hash(run.quiet, i) != TAMIS_OK;
  for (unsigned i = 0; i < WORKERS; i++)
    if (pthread_create(&threads[i], NULL, bodies[i], NULL))
      error(2, 0, "cannot start a thread");
  struct child children[MOST_CHILDREN] = {0};
  for (uint64_t i = 0; i < s->forks; i++) {
    struct child *child = &children[i % s->children];
    await_child(child);
    *child = start_child(random_next(&seed));
  }
  for (uint64_t i = 0; i < s->children; i++)
    await_child(&children[i]);
  run.done = true;
  for (unsigned i = 0; i < WORKERS; i++)
    pthread_join(threads[i], NULL);
  tamis_destroy(run.quiet);
  tamis_destroy(run.busy);
  bool good = run.hung + run.wrong + run.errors == 0 &&
              added.long_waits <= LONG_WAITS_BY_CHANCE + added.forks / FORKS_PER_LONG_WAIT;
  harness_report(good,
                 "%" PRIu64 " forks, %" PRIu64 " children hung, %" PRIu64 " wrong, %" PRIu64
                 " not made; %" PRIu64
                 " errors in the parent; longest wait added to a fork %" PRIu64 " ns (%" PRIu64
                 " ns with what the scheduler took), %" PRIu64 " of over 1 ms\n",
                 s->forks, run.hung, run.wrong, run.failed, (uint64_t) run.errors,
                 added.longest_wait, added.longest, added.long_waits);
  return good;
}

int main(int argc, char **argv)
{
  struct settings s = {.forks = 200, .children = 1, .shared = {.threads = WORKERS, .rounds = 3}};
  const struct harness_option options[] = {
      {"forks", 'f', "Forks of a round (default: 200)", .number = &s.forks, .least = 1},
      {"children", 'c', "Children at a time (default: 1)", .number = &s.children, .least = 1,
       .most = MOST_CHILDREN},
      {"exec", 'x', "All children execute another program", .flag = &s.only_exec},
      {0}};
  harness_parse("Forks while other threads are in the middle of something.", options, argc, argv,
                &s.shared);
  /* Those that are registered later run earlier before the fork, and later after it. */
  pthread_atfork(NULL, touch_pages, NULL);
  pthread_atfork(stretch_ends, stretch_begins, NULL);
  tamis_destroy(make_filter(1)); /* the library registers its own */
  pthread_atfork(stretch_begins, stretch_ends, NULL);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= play(&s, round);
  return harness_verdict(&s.shared, good);
}
