/* SPDX-License-Identifier: MIT
 *
 * Question: are all answers right in a filter with many generations, also while the next one is
 * opened?
 *
 * The filter opens a generation when a segment that may not split any more is full, so most filters
 * have one or two.  Here a few hundred keys open about six.  The filter has many
 * roots, but all keys belong to two of them, which share a growth stripe, and their hash strings
 * begin with the same bits, so that most splits make no room.
 *
 *    owned    Each thread adds and removes keys of its own (owner.h), at times many and at times
 *             few.  So several generations hold copies of a key, and segments of older ones join
 *             and are dropped.
 *    prizes   All threads compete for these keys.  The thread whose unique add wins one holds it
 *             until it removes it, and no other thread may win it meanwhile.
 *    staying  The filter always holds a copy of these keys, which every thread must find while the
 *             owners add and remove others.
 *
 * Every second filter has a limit on its memory; then adds also go into older generations.  The
 * keys are so similar that the number of false positives means nothing.
 *
 * The program uses the library with hooks: threads pause between the steps of their calls.
 */
#include "create.h"
#include "cuckoo/directory.h"
#include "harness.h"
#include "owner.h"
#include "pauses.h"
#include "tiny.h"

#include <error.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  ROOTS = 100,
  ROOT_BITS = 7,
  OTHER_ROOT_PERIOD = 16, /* keys, one of which belongs to the other root */
  PRIZES = 8,
  STAYING = 8,
  PAUSE_PERIOD = 1024,   /* steps of calls */
  GOAL_PERIOD = 512,     /* calls after which a thread changes its goal, on average */
  FULL_GOAL_PERIOD = 16, /* the same, after a refused add */
  LIMIT_MIN = 500000,    /* bytes */
  LIMIT_RANGE = 300000,
  GENERATIONS_MIN = 4 /* rounds with fewer have not asked the question */
};

/* The bits of the hash string after the root, from bit 63 on, that all keys have in common.  The
 * first five are among those by which the first generation splits its segments; the bits before
 * them choose a bucket pair.  A later generation takes the first seven bits for its unequal roots.
 * It splits by the next five, of which three are common. */
static const uint64_t common_bits = UINT64_C(0xFE00) << 48;

struct settings {
  struct harness_settings shared;
  uint64_t keys, calls;
};

struct run {
  const struct settings *settings;
  tamis_filter *filter;
  uint64_t round, with_enough;
  uint64_t n, *hashes; /* all keys: the owned ones, then these two: */
  const uint64_t *prizes, *staying;
  struct owner owners[MAX_THREADS + 1]; /* the last one owns the staying keys */
  _Atomic unsigned holders[PRIZES];     /* a thread's index + 1; 0: no thread */
};

/* ---- keys ---- */

/* Chooses keys of two roots whose hash strings have the same bits in common.  Each takes some ten
 * thousand tries. */
static void choose_hashes(struct run *run, uint64_t seed)
{
  const uint64_t root = random_next(&seed) % GROWTH_STRIPES;
  const uint64_t common = random_next(&seed) & common_bits;
  for (uint64_t i = 0; i < run->n; i++) {
    uint64_t wanted = root + (random_next(&seed) % OTHER_ROOT_PERIOD == 0 ? GROWTH_STRIPES : 0);
    unsigned __int128 string;
    do {
      run->hashes[i] = random_next(&seed);
      string =
          (unsigned __int128) hash_spread(hash_mix(&run->filter->keys, run->hashes[i])) * ROOTS;
    } while (string >> 64 != wanted || ((uint64_t) string & common_bits) != common);
  }
}

/* ---- threads ---- */

static void give_back(struct run *run, struct worker *worker, unsigned prize)
{
  uint64_t hash = run->prizes[prize];
  worker->result += !tamis_contains_hash(run->filter, hash);
  atomic_store(&run->holders[prize], 0); /* before another thread can win it */
  worker->result += tamis_remove_hash(run->filter, hash) != TAMIS_OK;
}

static void try_to_win(struct run *run, struct worker *worker, unsigned prize)
{
  int result = tamis_add_unique_hash(run->filter, run->prizes[prize]);
  unsigned no_thread = 0;
  if (result == TAMIS_OK)
    worker->result +=
        !atomic_compare_exchange_strong(&run->holders[prize], &no_thread, worker->index + 1);
  else
    worker->result += result != TAMIS_PRESENT && result != TAMIS_EFULL && result != TAMIS_ENOMEM;
}

static void compete(struct run *run, struct worker *worker, uint64_t random)
{
  unsigned prize = random % PRIZES;
  bool mine = atomic_load(&run->holders[prize]) == worker->index + 1;
  uint64_t began = call_begins(worker);
  if (mine && random >> 16 & 3)
    give_back(run, worker, prize);
  else
    try_to_win(run, worker, prize);
  call_ends(worker, began);
}

static void find_staying(const struct run *run, struct worker *worker, uint64_t random)
{
  uint64_t began = call_begins(worker);
  worker->result += !tamis_contains_hash(run->filter, run->staying[random % STAYING]);
  call_ends(worker, began);
}

/* Sets a new goal now and then: many keys and few, by turns.  After a refused add it is soon few,
 * as a full filter changes little. */
static void change_goal(struct owner *owner, uint64_t *refused, uint64_t random)
{
  bool full = owner->refused > *refused, up = !full && owner->goal < owner->keys / 4;
  *refused = owner->refused;
  if (random % (full ? FULL_GOAL_PERIOD : GOAL_PERIOD) == 0) {
    random >>= 32;
    owner->goal = up ? owner->keys / 4 + random % owner->keys : random % (owner->keys / 16);
  }
}

static void work(struct worker *worker)
{
  struct run *run = worker->arg;
  struct owner *owner = &run->owners[worker->index];
  uint64_t seed = worker->seed, refused = 0;
  pauses_on(random_next(&seed), run->round);
  for (uint64_t i = 0; i < run->settings->calls; i++) {
    uint64_t random = random_next(&seed);
    change_goal(owner, &refused, random);
    if (random >> 16 & 1)
      owner_work(owner, worker, 1);
    else if (random >> 17 & 1)
      compete(run, worker, random >> 32);
    else
      find_staying(run, worker, random >> 32);
  }
  for (unsigned i = 0; i < PRIZES; i++)
    if (atomic_load(&run->holders[i]) == worker->index + 1)
      give_back(run, worker, i);
  owner_check(owner);
  pauses_off();
}

static void remove_all(struct worker *worker)
{
  struct run *run = worker->arg;
  pauses_on(worker->seed, run->round);
  owner_remove_all(&run->owners[worker->index], worker);
  if (worker->index == 0)
    owner_remove_all(&run->owners[worker->threads], worker);
  pauses_off();
}

/* ---- rounds ---- */

static tamis_options create(struct run *run, uint64_t seed)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.seed = random_next(&seed) | 1;
  if (run->round & 1)
    options.max_bytes = LIMIT_MIN + random_next(&seed) % LIMIT_RANGE;
  static const unsigned widths[] = {16, 21};
  struct cuckoo_geometry g = tiny_geometry(run->round);
  g.shape = bucket_shape(widths[run->round / 2 % 2], true);
  g.depth_limit = run->round / 2 % 4;
  g.first_roots = ROOTS;
  g.root0_bits = ROOT_BITS;
  require_created(tiny_create(&options, &g, &run->filter));
  return options;
}

/* Each thread's owner also adds and removes copies of the staying keys.  The last owner has one
 * copy of each, and makes no calls. */
static void create_owners(struct run *run, uint64_t seed)
{
  uint64_t n = run->settings->shared.threads, keys = run->settings->keys / n;
  for (unsigned i = 0; i < n; i++) {
    struct owner *owner = &run->owners[i];
    owner_init(owner, run->filter, i, keys, random_at(seed, i));
    uint64_t *hashes = &run->hashes[i * keys];
    memcpy(hashes, run->staying, STAYING * sizeof *hashes);
    owner->hashes = hashes;
    owner->goal = keys;
    owner->mix = SINGLE_CALLS; /* stress-churn also makes batch calls */
    owner->limited = true;     /* by the number of generations, if by nothing else */
  }
  struct owner *staying = &run->owners[n];
  owner_init(staying, run->filter, 0, STAYING, seed);
  staying->hashes = run->staying;
  for (; staying->in < STAYING; staying->in++) {
    staying->copies[staying->in] = 1;
    staying->wrong += tamis_add_hash(run->filter, run->staying[staying->in]) != TAMIS_OK;
  }
}

static uint64_t count_found(const struct run *run)
{
  uint64_t found = 0;
  for (uint64_t i = 0; i < run->n; i++)
    found += tamis_contains_hash(run->filter, run->hashes[i]);
  return found;
}

static bool run_round(struct run *run)
{
  uint64_t seed = random_at(run->settings->shared.seed, run->round);
  uint64_t n = run->settings->shared.threads;
  tamis_options options = create(run, seed);
  choose_hashes(run, seed);
  create_owners(run, seed);
  struct worker workers[MAX_THREADS];
  harness_run(n, seed, work, run, workers);
  uint64_t wrong = harness_results(workers, n) + owners_verify(run->owners, n + 1, 1);
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(run->filter, &stats);
  wrong += options.max_bytes && stats.bytes > options.max_bytes;
  harness_run(n, seed, remove_all, run, workers);
  wrong += owners_verify(run->owners, n + 1, 1) + count_found(run);

  uint64_t refused = owners_refused(run->owners, n + 1);
  owners_free(run->owners, n + 1);
  run->with_enough += stats.generations >= GENERATIONS_MIN;
  bool good = wrong == 0;
  harness_report(good,
                 "%u generations, %" PRIu64 " keys, %" PRIu64 " growths, %" PRIu64
                 " joins, %" PRIu64 " bytes, %" PRIu64 " refused%s\n",
                 stats.generations, stats.count, stats.growths, stats.joins, stats.bytes, refused,
                 wrong ? ": WRONG" : "");
  tamis_destroy(run->filter);
  return good;
}

int main(int argc, char **argv)
{
  static struct settings s = {.keys = 3000, .calls = 15000, .shared = {.threads = 4, .rounds = 10}};
  const struct harness_option options[] = {
      {"keys", 'n', "Keys of all threads (default: 1600)", .number = &s.keys, .least = 1024},
      {"calls", 'c', "Calls of each thread in a round (default: 10000)", .number = &s.calls,
       .least = 5000},
      {0}};
  harness_parse("Finds wrong answers in filters with many generations.", options, argc, argv,
                &s.shared);
  static struct run run;
  run.settings = &s;
  run.n = s.keys + PRIZES + STAYING;
  run.hashes = calloc(run.n, sizeof *run.hashes);
  if (!run.hashes)
    error(2, 0, "no memory");
  run.prizes = run.hashes + s.keys;
  run.staying = run.prizes + PRIZES;
  pauses_install(PAUSE_PERIOD, 0);
  bool good = true;
  for (; harness_more(&s.shared, run.round); run.round++)
    good &= run_round(&run);
  if (2 * run.with_enough < run.round) {
    puts("most rounds have had too few generations");
    good = false;
  }
  free(run.hashes);
  return harness_verdict(&s.shared, good);
}
