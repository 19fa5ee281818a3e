/* SPDX-License-Identifier: MIT
 *
 * Question: what is lost when processes that share a filter are killed?
 *
 * Workers add the same keys at about the same time, each key uniquely.  A killer sends SIGKILL to one
 * of them after the other, and starts a new one, which opens the file while the others go on.  Workers
 * write what they were told to memory that outlives them.  At the end:
 *
 *    - no key has two winners, and none a winner beside a refusal (but in a window, in which each
 *      process finds out for itself where there is no room);
 *    - each key that anybody was told of is in;
 *    - keys without a winner, and without a refusal, are at most as many as were killed: a worker that
 *      dies may have completed its key;
 *    - the file loads.
 *
 * Rounds are, in turn, with a filter that grows, with one that comes to its capacity, and with a window,
 * of which each worker ends the periods by the number of its key.  (Its periods are so many that no key
 * is forgotten.)
 */
#include "harness.h"

#include "base/filter.h"

#include <error.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORKERS = 16, ROUND_SECONDS = 300, PERIODS = 20, WINDOW = 64 };

struct settings {
  struct harness_settings shared;
  uint64_t kills; /* in a round */
  uint64_t keys;
};

/* Of one key. */
struct told {
  _Atomic uint8_t winners, present, refused;
};

/* What outlives a worker. */
struct board {
  _Atomic uint64_t next; /* the key that workers try */
  _Atomic uint64_t errors;
  struct told told[];
};

static struct {
  const struct settings *settings;
  struct board *board;
  char path[64];
  tamis_options options;
  pid_t workers[MOST_WORKERS];
} run;

/* ---- a worker ---- */

static void add_key(tamis_filter *f, uint64_t key)
{
  struct told *told = &run.board->told[key];
  int result = tamis_add_unique_hash(f, random_at(run.settings->shared.seed, key));
  if (result == TAMIS_OK)
    told->winners++;
  else if (result == TAMIS_PRESENT)
    told->present = 1;
  else if (result == TAMIS_EFULL)
    told->refused = 1;
  else
    run.board->errors++;
}

static _Noreturn void work(void)
{
  tamis_filter *f = NULL;
  if (tamis_open_shared(&run.options, run.path, &f) != TAMIS_OK) {
    run.board->errors++;
    _exit(1);
  }
  for (uint64_t key; (key = run.board->next) < run.settings->keys;) {
    if (run.options.window && tamis_advance_to(f, key * PERIODS / run.settings->keys) != TAMIS_OK)
      run.board->errors++;
    add_key(f, key);
    (void) atomic_compare_exchange_strong(&run.board->next, &key, key + 1);
  }
  _exit(0);
}

static pid_t start_worker(void)
{
  pid_t pid = fork();
  if (pid == 0)
    work();
  if (pid < 0)
    error(2, 0, "cannot fork");
  return pid;
}

/* ---- the killer ---- */

/* The kills are spread over the keys, at times of their own. */
static void kill_workers(uint64_t seed)
{
  const struct settings *s = run.settings;
  for (uint64_t i = 0; i < s->kills; i++) {
    const double end = harness_seconds() + ROUND_SECONDS;
    while (run.board->next < s->keys * i / s->kills && harness_seconds() < end)
      usleep(20);
    usleep((unsigned) (random_next(&seed) % 200));
    pid_t *worker = &run.workers[random_next(&seed) % s->shared.threads];
    kill(*worker, SIGKILL);
    (void) waitpid(*worker, NULL, 0);
    *worker = start_worker();
  }
}

static void await_workers(void)
{
  const double end = harness_seconds() + ROUND_SECONDS;
  for (uint64_t i = 0; i < run.settings->shared.threads; i++) {
    while (waitpid(run.workers[i], NULL, WNOHANG) == 0 && harness_seconds() < end)
      usleep(1000);
    if (harness_seconds() >= end) {
      kill(run.workers[i], SIGKILL);
      (void) waitpid(run.workers[i], NULL, 0);
      run.board->errors++;
    }
  }
}

/* ---- rounds ---- */

struct outcome {
  uint64_t winners, twice, missing, nobodys, refused, both;
};

static struct outcome count(const tamis_filter *f)
{
  struct outcome o = {0};
  for (uint64_t key = 0; key < run.settings->keys; key++) {
    const struct told *told = &run.board->told[key];
    const bool in = tamis_contains_hash(f, random_at(run.settings->shared.seed, key));
    o.winners += told->winners > 0;
    o.twice += told->winners > 1;
    o.missing += (told->winners || told->present) && !in;
    o.refused += told->refused;
    o.both += told->winners && told->refused;
    o.nobodys += !told->winners && !told->refused;
  }
  return o;
}

static tamis_options options_of(const struct settings *s, uint64_t round)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.growable = round % 3 == 0;
  options.capacity = options.growable ? s->keys / 16 : s->keys * 9 / 10;
  options.fpp = 1e-6;
  options.max_bytes = options.growable ? 64 * s->keys + (1 << 20) : 0;
  options.layout = (tamis_layout) (round / 3 % 2);
  options.window = round % 3 == 2 ? WINDOW : 0;
  return options;
}

static void begin_round(const struct settings *s, uint64_t round)
{
  const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  run.settings = s;
  run.options = options_of(s, round);
  (void) snprintf(run.path, sizeof run.path, "%s/stress-kill-%ld", folder, (long) getpid());
  (void) unlink(run.path);
  run.board = mmap(NULL, sizeof *run.board + s->keys * sizeof(struct told), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (run.board == MAP_FAILED)
    error(2, 0, "no memory");
  for (uint64_t i = 0; i < s->shared.threads; i++)
    run.workers[i] = start_worker();
}

static bool end_round(const struct settings *s)
{
  tamis_filter *f = NULL, *loaded = NULL;
  const char *reason = "it does not load";
  if (tamis_open_shared(NULL, run.path, &f) != TAMIS_OK ||
      tamis_load_file(NULL, run.path, &loaded) != TAMIS_OK) {
    harness_report(false, "the file does not open, or does not load\n");
    return false;
  }
  const bool window = run.options.window;
  if (window && tamis_advance(f) != TAMIS_OK) /* which mends what the last one has left */
    run.board->errors++;
  struct outcome o = count(f), again = count(loaded);
  tamis_stats stats = TAMIS_STATS_INIT;
  (void) tamis_get_stats(f, &stats);
  bool good = filter_validate(f, &reason) && filter_validate(loaded, &reason) &&
              o.twice + o.missing + again.missing == 0 && (window || !o.both) &&
              o.nobodys <= s->kills && run.board->errors == 0 &&
              (run.options.growable ? stats.layers > 3 && !o.refused : o.refused > 0);
  harness_report(good,
                 "%" PRIu64 " kills, %u layers, %" PRIu64 " winners, %" PRIu64
                 " keys with two, %" PRIu64 " with none, %" PRIu64 " refused, %" PRIu64
                 " both, %" PRIu64 " missing, %" PRIu64 " errors%s%s\n",
                 s->kills, stats.layers, o.winners, o.twice, o.nobodys, o.refused, o.both,
                 o.missing + again.missing, (uint64_t) run.board->errors, reason ? "; " : "",
                 reason ? reason : "");
  tamis_destroy(f);
  tamis_destroy(loaded);
  return good;
}

static bool play(const struct settings *s, uint64_t round)
{
  begin_round(s, round);
  kill_workers(random_at(s->shared.seed, round));
  await_workers();
  bool good = end_round(s);
  munmap(run.board, sizeof *run.board + s->keys * sizeof(struct told));
  (void) unlink(run.path);
  return good;
}

int main(int argc, char **argv)
{
  struct settings s = {.kills = 50, .keys = 40000, .shared = {.threads = 4, .rounds = 6}};
  const struct harness_option options[] = {
      {"kills", "Kills of a round (default: 50)", .number = &s.kills, .least = 1},
      {"keys", "Keys of a round (default: 40000)", .number = &s.keys, .least = 10000},
      {0}};
  harness_parse("Kills processes that share a filter.", options, argc, argv, &s.shared);
  if (s.shared.threads > MOST_WORKERS)
    s.shared.threads = MOST_WORKERS;
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= play(&s, round);
  return harness_verdict(&s.shared, good);
}
