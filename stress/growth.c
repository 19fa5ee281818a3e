/* SPDX-License-Identifier: MIT
 *
 * Question: while a cuckoo filter grows a thousandfold and shrinks again, under writers of every
 * kind, is a key ever missed whose add has returned and whose remove has not started?  And is every
 * key found in the end, are the counts exact, and is the structure valid?
 *
 *    phase 1   Writers add keys of their own in bursts, and remove some of the previous burst.
 *              Readers look up random keys, the newest ones most often.
 *    phase 2   The writers remove 95 % of what is left, in random order, while the readers look it
 *              up.
 *    phase 3   One thread removes the rest.
 *
 * With --tiny the first generation has segments of 2, 4 or 8 buckets, one stripe or one for each
 * bucket, short fingerprints and few distinct hashes, so that moves, splits, joins and duplicate
 * counts collide all the time.  With --fixed the filter does not grow and is filled to its
 * capacity, so that moves collide.
 */
#include "create.h"
#include "cuckoo/cuckoo.h"
#include "harness.h"
#include "tiny.h"

#include <error.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  BATCH = 64,
  GROUP = 16,       /* keys, of which phase 1 removes the first few */
  KEPT_PERIOD = 20, /* keys, one of which phase 2 leaves in */
  BURST = 2048      /* keys at most */
};

struct settings {
  struct harness_settings shared;
  uint64_t keys, capacity;
  double fpp;
  bool tiny, fixed;
};

/* What a writer publishes about its keys, by their positions in the order of its work: all below
 * `added` have been added, and no remove of a key at or above `removing` has started. */
struct progress {
  _Alignas(64) _Atomic uint64_t added;
  _Atomic uint64_t removing;
};

struct run {
  const struct settings *settings;
  tamis_filter *filter;
  uint64_t seed;
  unsigned owners;           /* threads that write and own keys; the others read */
  uint64_t keys;             /* of each owner */
  uint64_t hashes;           /* distinct hashes; 0: as many as keys */
  unsigned removed_of_group; /* keys of each GROUP that phase 1 removes */
  bool shrinking;            /* phase 2 */
  struct progress progress[MAX_THREADS];
  _Atomic unsigned working; /* owners that have not finished */
  _Atomic uint64_t lookups;
  _Atomic bool reported;
};

/* ---- keys ---- */

static uint64_t hash_of(const struct run *run, unsigned owner, uint64_t i)
{
  uint64_t key = (uint64_t) owner << 40 | i;
  return run->hashes ? random_at(run->seed, key) % run->hashes : key;
}

static bool removed_in_growth(const struct run *run, uint64_t i)
{
  return i % GROUP < run->removed_of_group;
}

static bool removed_in_shrinking(const struct run *run, unsigned owner, uint64_t i)
{
  return random_at(run->seed ^ owner, i) % KEPT_PERIOD != 0;
}

/* The key at a position in the order of phase 2.  The factor is a prime larger than any number of
 * keys, so every key has exactly one position. */
static uint64_t shuffled(const struct run *run, uint64_t position)
{
  return (uint64_t) ((unsigned __int128) position * UINT64_C(1000000000039) % run->keys);
}

/* ---- readers ---- */

/* Prints the first key that is missed, and whether a second look-up finds it: then it was not
 * lost. */
static void report_miss(struct run *run, unsigned owner, uint64_t i)
{
  if (!atomic_exchange(&run->reported, true))
    fprintf(stderr, "missed: key %" PRIu64 " of thread %u, phase %d, %s at a second look-up\n", i,
            owner, 1 + run->shrinking,
            tamis_contains_hash(run->filter, hash_of(run, owner, i)) ? "found" : "missed");
}

/* A random position from `begin` to `end`.  Every second one is close to where the owner is at
 * work, as these keys are the most likely to be missed. */
static uint64_t choose_position(uint64_t begin, uint64_t end, uint64_t random, bool near_end)
{
  uint64_t n = end - begin, recent = n < BATCH ? n : BATCH;
  if (random & 1)
    return begin + (random >> 1) % n;
  return near_end ? end - 1 - (random >> 1) % recent : begin + (random >> 1) % recent;
}

struct question {
  unsigned owner;
  uint64_t position, i;
  bool is_removed; /* in this phase */
};

static bool remove_started(const struct run *run, const struct question *q)
{
  /* Acquire: pairs with the release in remove_one(). */
  return q->is_removed && atomic_load_explicit(&run->progress[q->owner].removing,
                                               memory_order_acquire) > q->position;
}

/* Chooses a key that the filter must hold at the moment.  False: it may not hold this one. */
static bool choose_question(const struct run *run, uint64_t *seed, struct question *q)
{
  uint64_t random = random_next(seed);
  q->owner = (unsigned) ((random >> 32) % run->owners);
  const struct progress *progress = &run->progress[q->owner];
  /* Acquire: pairs with the release in add_keys(), so the adds have returned. */
  uint64_t added = atomic_load_explicit(&progress->added, memory_order_acquire);
  if (run->shrinking) {
    uint64_t begin = atomic_load_explicit(&progress->removing, memory_order_acquire);
    if (begin == run->keys || random_next(seed) % 4 == 0)
      begin = 0;
    q->position = choose_position(begin, run->keys, random_next(seed), false);
    q->i = shuffled(run, q->position);
    if (removed_in_growth(run, q->i))
      return false;
    q->is_removed = removed_in_shrinking(run, q->owner, q->i);
  } else {
    if (added == 0)
      return false;
    q->position = q->i = choose_position(0, added, random_next(seed), true);
    q->is_removed = removed_in_growth(run, q->i);
  }
  return !remove_started(run, q);
}

/* Counts the keys that were not found although their remove has not started by now.  (A reader that
 * sees an entry cleared has acquired the mark that the remove has started.) */
static uint64_t misses_of(struct run *run, const struct question *q, const bool *found, size_t n)
{
  uint64_t misses = 0;
  for (size_t k = 0; k < n; k++)
    if (!found[k] && !remove_started(run, &q[k])) {
      report_miss(run, q[k].owner, q[k].i);
      misses++;
    }
  return misses;
}

static uint64_t look_up_some(struct run *run, uint64_t *seed)
{
  struct question q[BATCH];
  uint64_t hashes[BATCH];
  bool found[BATCH];
  size_t n = 0;
  for (unsigned k = 0; k < BATCH; k++)
    if (choose_question(run, seed, &q[n])) {
      hashes[n] = hash_of(run, q[n].owner, q[n].i);
      n++;
    }
  if (random_next(seed) % 4 == 0) {
    tamis_contains_many_hash(run->filter, hashes, n, found);
  } else {
    for (size_t k = 0; k < n; k++) {
      found[k] = tamis_contains_hash(run->filter, hashes[k]);
      if (!found[k] && misses_of(run, &q[k], &found[k], 1))
        return 1; /* at once, so that report_miss() looks the key up again as soon as possible */
    }
  }
  atomic_fetch_add_explicit(&run->lookups, n, memory_order_relaxed);
  return misses_of(run, q, found, n);
}

static void read_until_done(struct worker *worker)
{
  struct run *run = worker->arg;
  uint64_t seed = worker->seed;
  while (atomic_load_explicit(&run->working, memory_order_relaxed)) {
    worker->result += look_up_some(run, &seed);
    tamis_stats stats = TAMIS_STATS_INIT; /* while others write */
    worker->result += tamis_get_stats(run->filter, &stats) != TAMIS_OK;
  }
}

/* ---- writers ---- */

static uint64_t add_one(tamis_filter *f, uint64_t hash, bool unique)
{
  /* A key that is taken for another one needs an entry of its own before the other one is
   * removed. */
  int result = unique ? tamis_add_unique_hash(f, hash) : TAMIS_PRESENT;
  return (result == TAMIS_PRESENT ? tamis_add_hash(f, hash) : result) != TAMIS_OK;
}

/* Returns how many adds failed. */
static uint64_t add_keys(struct run *run, unsigned owner, uint64_t begin, uint64_t end)
{
  uint64_t failed = 0, hashes[BATCH];
  for (uint64_t i = begin, n; i < end; i += n) {
    n = owner % 3 != 2 ? 1 : end - i < BATCH ? end - i : BATCH;
    for (uint64_t k = 0; k < n; k++)
      hashes[k] = hash_of(run, owner, i + k);
    failed += n == 1 ? add_one(run->filter, hashes[0], owner % 3 == 1)
                     : tamis_add_many_hash(run->filter, hashes, n, NULL) != TAMIS_OK;
    atomic_store_explicit(&run->progress[owner].added, i + n, memory_order_release);
  }
  return failed;
}

static uint64_t remove_one(struct run *run, unsigned owner, uint64_t position, uint64_t i)
{
  atomic_store_explicit(&run->progress[owner].removing, position + 1, memory_order_release);
  return tamis_remove_hash(run->filter, hash_of(run, owner, i)) != TAMIS_OK;
}

static uint64_t grow(struct run *run, struct worker *worker)
{
  uint64_t failed = 0, removed = 0, removable = 0, end, seed = worker->seed;
  for (uint64_t i = 0; i < run->keys || removed < run->keys; i = end) {
    end = i + 1 + random_next(&seed) % BURST;
    end = end < run->keys ? end : run->keys;
    failed += add_keys(run, worker->index, i, end);
    for (; removed < removable; removed++)
      if (removed_in_growth(run, removed))
        failed += remove_one(run, worker->index, removed, removed);
    removable = end; /* in the next burst */
  }
  return failed;
}

static uint64_t shrink(struct run *run, struct worker *worker)
{
  unsigned owner = worker->index;
  uint64_t failed = 0;
  for (uint64_t position = 0; position < run->keys; position++) {
    uint64_t i = shuffled(run, position);
    if (!removed_in_growth(run, i) && removed_in_shrinking(run, owner, i))
      failed += remove_one(run, owner, position, i);
  }
  atomic_store_explicit(&run->progress[owner].removing, run->keys, memory_order_release);
  return failed;
}

static void work(struct worker *worker)
{
  struct run *run = worker->arg;
  if (worker->index >= run->owners) {
    read_until_done(worker);
    return;
  }
  worker->result = run->shrinking ? shrink(run, worker) : grow(run, worker);
  atomic_fetch_sub_explicit(&run->working, 1, memory_order_relaxed);
}

/* ---- rounds ---- */

static tamis_filter *create(const struct settings *s, uint64_t seed, uint64_t round)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = s->capacity;
  if (s->fixed) { /* room for what phase 1 leaves, and for two bursts of each owner */
    options.growable = false;
    options.capacity = s->keys / 4 * 3 + (uint64_t) 2 * BURST * s->shared.threads;
  }
  options.fpp = s->fpp;
  options.seed = seed;
  tamis_filter *f = NULL;
  struct cuckoo_geometry g = tiny_geometry(round);
  require_created(s->tiny ? tiny_create(&options, &g, &f) : tamis_create(&options, &f));
  return f;
}

/* Whether the filter should hold a key after a phase. */
typedef bool is_held(const struct run *run, unsigned owner, uint64_t i);

static bool stays_after_growth(const struct run *run, unsigned owner, uint64_t i)
{
  (void) owner;
  return !removed_in_growth(run, i);
}

static bool stays_after_shrinking(const struct run *run, unsigned owner, uint64_t i)
{
  return !removed_in_growth(run, i) && !removed_in_shrinking(run, owner, i);
}

/* Checks, while no thread makes calls, that every key is found and that the counts are right. */
static uint64_t check_at_rest(struct run *run, is_held *held, const tamis_stats *stats)
{
  uint64_t wrong = 0, count = 0, missing = 0;
  for (unsigned owner = 0; owner < run->owners; owner++)
    for (uint64_t i = 0; i < run->keys; i++)
      if (held(run, owner, i)) {
        count++;
        missing += !tamis_contains_hash(run->filter, hash_of(run, owner, i));
      }
  const char *reason;
  if (missing)
    wrong += harness_mismatch("keys missing in the end", missing, 0);
  if (stats->count != count)
    wrong += harness_mismatch("count", stats->count, count);
  if (!filter_validate(run->filter, &reason))
    wrong += harness_mismatch(reason, 1, 0);
  return wrong;
}

static uint64_t phase(struct run *run, const char *name, is_held *held)
{
  struct worker workers[MAX_THREADS];
  uint64_t wrong = 0;
  atomic_store(&run->working, run->owners);
  atomic_store(&run->lookups, 0);
  for (unsigned t = 0; t < run->owners; t++)
    atomic_store(&run->progress[t].removing, 0);
  double begin = harness_seconds();
  harness_run(run->settings->shared.threads, run->seed, work, run, workers);
  double seconds = harness_seconds() - begin;
  for (unsigned t = 0; t < run->settings->shared.threads; t++)
    if (workers[t].result)
      wrong += harness_mismatch(t < run->owners ? "calls that failed" : "wrong answers",
                                workers[t].result, 0);
  const tamis_stats stats = stats_of(run->filter);
  wrong += check_at_rest(run, held, &stats);
  harness_report(!wrong,
                 "%s: %.2f s, %" PRIu64 " keys, %" PRIu64 " look-ups, %" PRIu64 " bytes, %" PRIu64
                 " segments, %" PRIu64 " growths, %" PRIu64 " joins, %u generations\n",
                 name, seconds, stats.count, run->lookups, stats.bytes, stats.segments,
                 stats.growths, stats.joins, stats.generations);
  return wrong;
}

static uint64_t remove_rest(struct run *run)
{
  uint64_t failed = 0;
  for (unsigned owner = 0; owner < run->owners; owner++)
    for (uint64_t i = 0; i < run->keys; i++)
      if (stays_after_shrinking(run, owner, i))
        failed += tamis_remove_hash(run->filter, hash_of(run, owner, i)) != TAMIS_OK;
  /* An empty filter has no false positives. */
  for (uint64_t i = 0; i < run->keys; i++)
    failed += tamis_contains_hash(run->filter, hash_of(run, 0, i));
  const tamis_stats stats = stats_of(run->filter);
  const char *reason;
  if (failed)
    harness_mismatch("last removes that failed, or keys found after them", failed, 0);
  if (stats.count)
    failed += harness_mismatch("count after the last remove", stats.count, 0);
  if (!filter_validate(run->filter, &reason))
    failed += harness_mismatch(reason, 1, 0);
  return failed;
}

static uint64_t run_round(const struct settings *s, uint64_t round)
{
  static const uint64_t few_hashes[] = {50, 1000, 20000, 0};
  static struct run run;
  uint64_t seed = random_at(s->shared.seed, round);
  run = (struct run){.settings = s,
                     .seed = seed,
                     .filter = create(s, seed, round),
                     .owners = (unsigned) (s->shared.threads + 1) / 2,
                     .hashes = s->tiny ? few_hashes[round % 4] : 0,
                     .removed_of_group = s->tiny ? GROUP * 7 / 8 : GROUP / 4};
  run.keys = s->keys / run.owners;
  uint64_t wrong = phase(&run, "grown", stays_after_growth);
  run.shrinking = true;
  wrong += phase(&run, "shrunk", stays_after_shrinking);
  wrong += remove_rest(&run);
  tamis_destroy(run.filter);
  if (wrong)
    fprintf(stderr, "in round %" PRIu64 "\n", round);
  return wrong;
}

int main(int argc, char **argv)
{
  struct settings s = {.capacity = 1000, .fpp = 0.01, .shared.threads = 4};
  const struct harness_option options[] = {
      {"keys", "Keys of a round, over all threads (default: 1000000; tiny: 20000)",
       .number = &s.keys},
      {"capacity", "Initial capacity (default: 1000)", .number = &s.capacity, .least = 1},
      {"fpp", "Requested false-positive rate (default: 0.01)", .rate = &s.fpp},
      {"tiny", "Use degenerate segments, stripes and hashes", .flag = &s.tiny},
      {"fixed", "Use a filter that does not grow", .flag = &s.fixed},
      {0}};
  harness_parse("Finds keys that are missed while a cuckoo filter grows and shrinks.", options,
                argc, argv, &s.shared);
  s.keys = s.keys ? s.keys : s.tiny ? 20000 : 1000000;
  s.shared.rounds = s.shared.rounds ? s.shared.rounds : s.tiny ? 40 : 1;
  if (s.keys < s.shared.threads)
    error(2, 0, "too few keys");
  uint64_t wrong = 0;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    wrong += run_round(&s, round);
  return harness_verdict(&s.shared, wrong == 0);
}
