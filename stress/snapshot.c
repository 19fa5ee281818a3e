/* SPDX-License-Identifier: MIT
 *
 * Question: is a filter that is saved while threads add and remove keys saved as it was?
 *
 * One thread saves the filter again and again, and loads what it has saved.  The others add and
 * remove keys of their own, and note for each of them which numbers of copies it has had during a
 * save.  In the loaded filter each key must have one of these numbers of copies: exactly the one
 * that it had if nobody has touched it.  Copies are counted by removing them.  When all have been
 * removed, the loaded filter must be empty: so nothing else was in it.
 *
 *    tiny      a filter whose segments split and join all the time (tiny.h), with keys that are
 *              never confused (distinct.h)
 *    limited   the same with a limit of memory, so that adds fall back to older generations
 *    grown     a filter that grows from 1,000 keys, with a low rate
 *    fixed     one that does not grow
 *
 * Saves have odd numbers, and the time between them the even ones.
 */
#include "create.h"
#include "distinct.h"
#include "harness.h"
#include "pauses.h"
#include "tiny.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum variant { TINY, LIMITED, GROWN, FIXED, VARIANTS };
static const char *const variant_names[] = {"tiny", "limited", "grown", "fixed", "all", NULL};

enum { MOST_COPIES = 4, PERIODS = 4, PAUSE_PERIOD = 40, BATCH = 64 };

struct settings {
  struct harness_settings shared;
  uint64_t keys, saves;
  int variant;
};

/* The numbers of copies that a key had in a period. */
struct seen {
  _Atomic uint32_t period; /* whether these say anything about the period in question */
  _Atomic uint8_t first, least, most;
};

/* A key is changed by one thread only. */
struct key {
  uint64_t hash;
  _Atomic uint8_t copies;
  bool untouched; /* after the beginning */
  struct seen seen[PERIODS];
};

struct run {
  const struct settings *settings;
  enum variant variant;
  tamis_filter *filter;
  struct key *keys;
  uint64_t n, round;
  _Atomic uint32_t period;
  _Atomic bool done;
  _Atomic uint32_t
      since[MAX_THREADS]; /* the period in which a thread's call began, and 1; 0: none */
  struct distinct distinct;
  /* Of the saves: */
  uint64_t saves, wrong, entries, noted, most_generations;
  struct saved bytes;
};

/* ---- what each key has had ---- */

/* Notes that a key has `before` and `after` copies in a period, or has had them. */
static void note(struct key *key, uint32_t period, uint8_t before, uint8_t after)
{
  struct seen *seen = &key->seen[period % PERIODS];
  uint8_t least = before < after ? before : after, most = before < after ? after : before;
  if (atomic_load(&seen->period) != period) {
    atomic_store(&seen->first, before);
    atomic_store(&seen->least, least);
    atomic_store(&seen->most, most);
    atomic_store(&seen->period, period);
  }
  if (least < atomic_load(&seen->least))
    atomic_store(&seen->least, least);
  if (most > atomic_load(&seen->most))
    atomic_store(&seen->most, most);
}

/* What a key may have had in a save, whose period has ended.  No later save has begun. */
static void allowed(const struct key *key, uint32_t period, uint8_t *least, uint8_t *most)
{
  const struct seen *seen = &key->seen[period % PERIODS],
                    *later = &key->seen[(period + 1) % PERIODS];
  *least = *most = atomic_load(&key->copies);
  if (atomic_load(&seen->period) == period) {
    *least = atomic_load(&seen->least);
    *most = atomic_load(&seen->most);
  } else if (atomic_load(&later->period) == period + 1) {
    *least = *most = atomic_load(&later->first);
  }
}

/* ---- threads that add and remove ---- */

static void change(struct run *run, struct key *key, bool add, struct worker *worker)
{
  _Atomic uint32_t *since = &run->since[worker->index];
  uint32_t began_in;
  do {
    began_in = atomic_load(&run->period);
    atomic_store(since, began_in + 1);
  } while (atomic_load(&run->period) != began_in);
  uint8_t before = atomic_load(&key->copies), after = (uint8_t) (add ? before + 1 : before - 1);
  note(key, began_in, before, after);
  int result =
      add ? tamis_add_hash(run->filter, key->hash) : tamis_remove_hash(run->filter, key->hash);
  if (result != TAMIS_OK && (!add || result != TAMIS_EFULL))
    worker->result++;
  for (uint32_t period = began_in + 1; period <= atomic_load(&run->period); period++)
    note(key, period, before, after);
  atomic_store(&key->copies, result == TAMIS_OK ? after : before);
  atomic_store(since, 0);
}

/* In turns a thread rather adds, or rather removes; half of them do each at any time. */
static void work(struct worker *worker)
{
  struct run *run = worker->arg;
  const uint64_t begin = run->n * worker->index / worker->threads,
                 keys = run->n * (worker->index + 1) / worker->threads - begin;
  uint64_t random = worker->seed, turn = 16 * BATCH + keys * 2;
  pauses_on(random_next(&random), run->round);
  for (uint64_t i = 0; !atomic_load(&run->done); i++) {
    struct key *key = &run->keys[begin + random_next(&random) % keys];
    bool grow = (i / turn + worker->index) % 2 == 0;
    uint8_t copies = atomic_load(&key->copies);
    if (key->untouched)
      continue;
    bool rather = random_next(&random) % 4 != 0;
    bool add = copies == 0 ||
               (copies < MOST_COPIES && (grow ? copies == 1 && !rather : !rather && copies < 2));
    if (!add && grow && rather && copies == 1)
      continue; /* most keys are there once */
    change(run, key, add, worker);
  }
  pauses_off();
}

/* ---- saves ---- */

static int write_slowly(void *context, const void *data, size_t size)
{
  sched_yield();
  return saved_write(context, data, size);
}

/* Removes what each key may have, and must have had; what is left is nobody's. */
static uint64_t check_keys(const struct run *run, tamis_filter *loaded, uint32_t period)
{
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < run->n; i++) {
    uint8_t least, most, had = 0;
    allowed(&run->keys[i], period, &least, &most);
    while (had < most && tamis_remove_hash(loaded, run->keys[i].hash) == TAMIS_OK)
      had++;
    if (had >= least &&
        (had < most || run->variant >= GROWN || !tamis_contains_hash(loaded, run->keys[i].hash)))
      continue;
    if (wrong++ < 5)
      printf("key %" PRIu64 " has %d copies in the snapshot, not %d to %d\n", i, had, least, most);
  }
  const tamis_stats stats = stats_of(loaded);
  return wrong + (stats.count ? harness_mismatch("copies that are nobody's", stats.count, 0) : 0);
}

static uint64_t check_saved(struct run *run, uint32_t period)
{
  const char *reason = "";
  tamis_filter *loaded;
  run->bytes.at = 0;
  int result = tamis_load(NULL, saved_read, &run->bytes, &loaded);
  if (result != TAMIS_OK)
    return harness_mismatch("the result of the load", (uint64_t) -result, 0);
  const tamis_stats stats = stats_of(loaded);
  run->entries += stats.count;
  if (stats.generations > run->most_generations)
    run->most_generations = stats.generations;
  uint64_t wrong = !filter_validate(loaded, &reason);
  if (wrong)
    printf("the loaded filter is not valid: %s\n", reason);
  wrong += check_keys(run, loaded, period);
  tamis_destroy(loaded);
  return wrong;
}

static void save_and_check(struct run *run)
{
  uint32_t period = atomic_fetch_add(&run->period, 1) + 1;
  run->bytes.size = 0;
  int result = tamis_save(run->filter, write_slowly, &run->bytes);
  atomic_fetch_add(&run->period, 1);
  for (unsigned i = 0; i < MAX_THREADS; i++)
    for (uint32_t since; (since = atomic_load(&run->since[i])) > 0 && since <= period + 1;)
      sched_yield(); /* a call may have begun before the save, and changed a key during it */
  run->wrong += result != TAMIS_OK
                    ? harness_mismatch("the result of the save", (uint64_t) -result, 0)
                    : check_saved(run, period);
  run->saves++;
}

/* The first worker saves, the others change keys. */
static void save_or_work(struct worker *worker)
{
  struct run *run = worker->arg;
  if (worker->index > 0) {
    work(worker);
    return;
  }
  while (run->saves < run->settings->saves && !run->wrong) {
    pauses_on(worker->seed + run->saves, run->round);
    save_and_check(run);
    pauses_off();
  }
  atomic_store(&run->done, true);
}

/* ---- rounds ---- */

static void create(struct run *run, uint64_t seed)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 1000;
  options.seed = seed | 1;
  options.growable = run->variant != FIXED;
  options.fpp = 1e-6;
  if (run->variant >= GROWN) {
    if (run->variant == FIXED)
      options.capacity = run->n;
    run->filter = create_filter(&options);
    return;
  }
  struct cuckoo_geometry g = tiny_geometry(run->round);
  g.depth_limit = (uint8_t) (1 + run->round / VARIANTS % 3); /* so that generations open soon */
  if (run->variant == LIMITED)
    options.max_bytes = 48 * 1024 + 4 * 1024 * (run->round % 8);
  require_created(tiny_create(&options, &g, &run->filter));
}

/* A quarter of the keys is added at first, some of them several times, and never touched. */
static void provide_keys(struct run *run, uint64_t seed)
{
  if (run->variant < GROWN) {
    run->distinct = distinct_of(run->filter);
    uint64_t prefixes = run->distinct.first.first_roots << run->distinct.bits;
    run->n = prefixes / 4 < run->n ? prefixes / 4 : run->n;
  }
  uint64_t *hashes = malloc(run->n * sizeof *hashes);
  run->keys = calloc(run->n, sizeof *run->keys);
  if (!hashes || !run->keys)
    require_created(TAMIS_ENOMEM);
  for (uint64_t i = 0; i < run->n; i++)
    hashes[i] = random_at(seed, i);
  if (run->variant < GROWN)
    distinct_choose(&run->distinct, seed, hashes, (unsigned) run->n);
  for (uint64_t i = 0; i < run->n; i++) {
    struct key *key = &run->keys[i];
    key->hash = hashes[i];
    for (unsigned j = 0; j < PERIODS; j++)
      key->seen[j].period = UINT32_MAX;
    key->untouched = i % 4 == 0;
    for (uint64_t j = 0; key->untouched && j <= (i % 32 == 0 ? i / 32 % 6 : 0); j++)
      key->copies += tamis_add_hash(run->filter, key->hash) == TAMIS_OK;
  }
  free(hashes);
}

static bool run_round(const struct settings *s, uint64_t round)
{
  static struct run run;
  uint64_t seed = random_at(s->shared.seed, round);
  run = (struct run){.settings = s,
                     .round = round,
                     .variant = s->variant == VARIANTS ? (enum variant)(round % VARIANTS)
                                                       : (enum variant) s->variant};
  run.n = run.variant >= GROWN ? s->keys : 300;
  create(&run, seed);
  provide_keys(&run, seed);
  struct worker workers[MAX_THREADS];
  harness_run(s->shared.threads + 1, seed, save_or_work, &run, workers);
  const tamis_stats stats = stats_of(run.filter);
  bool distinct = run.variant >= GROWN || distinct_holds(&run.distinct, run.filter);
  uint64_t wrong = harness_results(workers, s->shared.threads + 1);
  const char *reason = "";
  bool valid = filter_validate(run.filter, &reason);
  bool good = !run.wrong && !wrong && valid;
  harness_report(good,
                 "%s: %" PRIu64 " saves, %" PRIu64 " copies each, %" PRIu64 " growths, %" PRIu64
                 " joins, %" PRIu64 " generations%s%s\n",
                 variant_names[run.variant], run.saves, run.saves ? run.entries / run.saves : 0,
                 stats.growths, stats.joins, run.most_generations, good ? "" : ": WRONG",
                 distinct ? "" : " (keys were not distinct)");
  tamis_destroy(run.filter);
  free(run.keys);
  free(run.bytes.data);
  return good || !distinct;
}

int main(int argc, char **argv)
{
  struct settings s = {.keys = 100000,
                       .saves = 20,
                       .variant = VARIANTS,
                       .shared = {.threads = 4, .rounds = 2 * VARIANTS}};
  const struct harness_option options[] = {
      {"keys", "Keys of large filters (default: 100000)", .number = &s.keys, .least = 64},
      {"saves", "Saves in a round (default: 20)", .number = &s.saves, .least = 1},
      {"variant", "tiny, limited, grown, fixed, or all, the default", .choice = &s.variant,
       .choice_names = variant_names},
      {0}};
  harness_parse("Finds keys that are not as they were in filters that are saved while in use.",
                options, argc, argv, &s.shared);
  pauses_install(PAUSE_PERIOD, 0);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= run_round(&s, round);
  return harness_verdict(&s.shared, good);
}
