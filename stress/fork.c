/* SPDX-License-Identifier: MIT
 *
 * Question: can a process fork at any moment?
 *
 * While the main thread forks, others look keys up, make a filter grow and shrink, come to their
 * first call and end right after it, and use liburcu for themselves, waiting for its readers.  A
 * child executes another program, or works on: on the filter that only look-ups and the main thread
 * use, and on one of its own, until nothing of that waits for readers.  A child that does not end is
 * one that hangs.
 */
#include "create.h"
#include "harness.h"

#include <error.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <urcu/urcu-bp.h>

enum {
  STAYING = 2000,
  BURST = 3000,
  CHILD_SECONDS = 20,
  WORKERS = 5,
  MOST_CHILDREN = 64,
  OWN_SEED = 1
};

struct settings {
  struct harness_settings shared;
  uint64_t forks; /* in a round */
};

static struct {
  const struct settings *settings;
  tamis_filter *quiet, *busy;
  uint64_t own_bytes; /* of a filter that has grown and shrunk, when nothing waits any more */
  atomic_bool done;
  uint64_t hung, wrong, failed; /* children; failed: could not be made */
  _Atomic uint64_t errors;      /* of the parent's threads */
} run;

/* ---- the other threads ---- */

static tamis_filter *make_filter(uint64_t seed)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 10;
  options.seed = seed;
  return create_filter(&options);
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

static uint64_t bytes_at_rest(void)
{
  tamis_filter *filter = make_filter(OWN_SEED);
  run.errors += !grow_and_shrink(filter, 0);
  uint64_t least = UINT64_MAX;
  for (unsigned i = 0; i < 100; i++) {
    usleep(2000);
    uint64_t bytes = stats_of(filter).bytes;
    least = bytes < least ? bytes : least;
  }
  tamis_destroy(filter);
  return least;
}

static bool work_in_child(void)
{
  bool good = all_there(run.quiet) && grow_and_shrink(run.quiet, STAYING);
  tamis_filter *own = make_filter(OWN_SEED);
  good &= grow_and_shrink(own, 0) && all_there(run.quiet);
  while (stats_of(own).bytes > run.own_bytes) /* what waits for readers is released here, too */
    usleep(1000);
  tamis_destroy(own);
  tamis_destroy(run.quiet);
  return good;
}

static void be_a_child(uint64_t random)
{
  if (random % 4 != 0) {
    execl("/bin/true", "true", (char *) NULL);
    _exit(1);
  }
  _exit(work_in_child() ? 0 : 1);
}

static void await_child(pid_t pid)
{
  int status = 0;
  double end = harness_seconds() + CHILD_SECONDS;
  pid_t ended;
  while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && harness_seconds() < end)
    usleep(50);
  if (ended == 0) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    run.hung++;
  } else if (status != 0) {
    run.wrong++;
  }
}

static void fork_once(uint64_t random)
{
  pid_t pid = fork();
  if (pid == 0)
    be_a_child(random);
  if (pid < 0)
    run.failed++;
  else
    await_child(pid);
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
  run.own_bytes = bytes_at_rest();
  for (uint64_t i = 0; i < STAYING; i++)
    run.errors += tamis_add_hash(run.quiet, i) != TAMIS_OK;
  for (unsigned i = 0; i < WORKERS; i++)
    if (pthread_create(&threads[i], NULL, bodies[i], NULL))
      error(2, 0, "cannot start a thread");
  for (uint64_t i = 0; i < s->forks; i++)
    fork_once(random_next(&seed));
  run.done = true;
  for (unsigned i = 0; i < WORKERS; i++)
    pthread_join(threads[i], NULL);
  tamis_destroy(run.quiet);
  tamis_destroy(run.busy);
  bool good = run.hung + run.wrong + run.errors == 0;
  harness_report(good,
                 "%" PRIu64 " forks, %" PRIu64 " children hung, %" PRIu64 " wrong, %" PRIu64
                 " not made; %" PRIu64 " errors in the parent\n",
                 s->forks, run.hung, run.wrong, run.failed, (uint64_t) run.errors);
  return good;
}

int main(int argc, char **argv)
{
  struct settings s = {.forks = 200, .shared = {.threads = WORKERS, .rounds = 3}};
  const struct harness_option options[] = {
      {"forks", "Forks of a round (default: 200)", .number = &s.forks, .least = 1}, {0}};
  harness_parse("Forks while other threads are in the middle of something.", options, argc, argv,
                &s.shared);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= play(&s, round);
  return harness_verdict(&s.shared, good);
}
