/* SPDX-License-Identifier: MIT
 *
 * The threads of stress-random: they make calls and judge each answer.
 */
#include "random.h"

#include "pauses.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct caller {
  struct run *run;
  struct worker *worker;
  uint64_t seed;
  uint64_t copies, goal; /* of own keys: how many are in, and for how many the mix is heading */
  /* A batch, or the one key of a single call. */
  bool batch;
  size_t n;
  uint64_t numbers[LONGEST_BATCH], hashes[LONGEST_BATCH];
  tamis_key keys[LONGEST_BATCH];
  unsigned char bytes[LONGEST_BATCH][LONGEST_KEY];
  int results[LONGEST_BATCH];
  bool found[LONGEST_BATCH];
  uint64_t counts[LONGEST_BATCH];
  uint64_t began; /* the period in which it did, at the earliest */
};

static void wrong(struct caller *caller, const char *what, uint64_t key)
{
  run_wrong(caller->run, what, key);
}

/* ---- calls ---- */

static void add_to_batch(struct caller *caller, uint64_t number)
{
  const struct configuration *c = &caller->run->configuration;
  size_t i = caller->n++;
  caller->numbers[i] = number;
  caller->keys[i] = (tamis_key){caller->bytes[i], configuration_key(c, number, caller->bytes[i])};
  caller->hashes[i] = tamis_hash(caller->run->filter, caller->keys[i].data, caller->keys[i].len);
}

/* Begins a batch, or a single call in half of all cases; returns how many keys it takes. */
static size_t begin_batch(struct caller *caller)
{
  caller->n = 0;
  caller->batch = random_next(&caller->seed) % 2;
  return caller->batch ? random_next(&caller->seed) % (caller->run->configuration.longest_batch + 1)
                       : 1;
}

static void call_add(struct caller *caller, bool unique)
{
  tamis_filter *f = caller->run->filter;
  bool hashes = random_next(&caller->seed) % 2;
  caller->began = window_call_begins(caller->run);
  if (!caller->batch) {
    const tamis_key *key = &caller->keys[0];
    caller->results[0] =
        hashes ? (unique ? tamis_add_unique_hash : tamis_add_hash)(f, caller->hashes[0])
               : (unique ? tamis_add_unique : tamis_add)(f, key->data, key->len);
  } else {
    if (hashes)
      (void) (unique ? tamis_add_unique_many_hash
                     : tamis_add_many_hash)(f, caller->hashes, caller->n, caller->results);
    else
      (void) (unique ? tamis_add_unique_many : tamis_add_many)(f, caller->keys, caller->n,
                                                               caller->results);
  }
  for (size_t i = 0; i < caller->n; i++)
    (void) note_add(caller->run, caller->results[i]);
}

static void call_contains(struct caller *caller)
{
  const tamis_filter *f = caller->run->filter;
  bool hashes = random_next(&caller->seed) % 2;
  if (!caller->batch) {
    const tamis_key *key = &caller->keys[0];
    caller->found[0] =
        hashes ? tamis_contains_hash(f, caller->hashes[0]) : tamis_contains(f, key->data, key->len);
  } else {
    (void) (hashes ? tamis_contains_many_hash(f, caller->hashes, caller->n, caller->found)
                   : tamis_contains_many(f, caller->keys, caller->n, caller->found));
  }
}

/* Of keys of the thread's own, which no other call adds or removes meanwhile. */
static void call_count(struct caller *caller)
{
  const struct run *run = caller->run;
  const tamis_filter *f = run->filter;
  bool hashes = random_next(&caller->seed) % 2;
  if (!caller->batch) {
    const tamis_key *key = &caller->keys[0];
    caller->counts[0] =
        hashes ? tamis_count_hash(f, caller->hashes[0]) : tamis_count(f, key->data, key->len);
  } else {
    (void) (hashes ? tamis_count_many_hash(f, caller->hashes, caller->n, caller->counts)
                   : tamis_count_many(f, caller->keys, caller->n, caller->counts));
  }
  for (size_t i = 0; i < caller->n; i++) {
    if (caller->counts[i] < run->copies[caller->numbers[i]])
      wrong(caller, "a copy is not counted", caller->numbers[i]);
    if (is_bloom(run) && caller->counts[i] > 1)
      wrong(caller, "a Bloom filter counts copies", caller->numbers[i]);
  }
}

static int call_remove(struct caller *caller)
{
  tamis_filter *f = caller->run->filter;
  const tamis_key *key = &caller->keys[0];
  return random_next(&caller->seed) % 2 ? tamis_remove_hash(f, caller->hashes[0])
                                        : tamis_remove(f, key->data, key->len);
}

/* ---- answers ---- */

/* A limit may refuse keys when more distinct ones than the capacity have been offered.  Copies take
 * room, too.  A Bloom filter ends its growth where a layer's part of the rate is one that 64-bit
 * hashes cannot give, and a window where no layer has a rate that is low enough.  In a window of
 * the cuckoo kind a second copy takes memory, also one of another key that the filter takes for the
 * first. */
static bool may_be_full(struct run *run)
{
  const tamis_options *o = &run->configuration.options;
  double lowest = 4 * (double) run->all * 0x1p-64;
  bool limited = !o->growable || o->max_bytes || (keeps_all(run) && 1e-3 * o->fpp < lowest) ||
                 (has_window(run) && o->fpp < 0.001);
  bool copies = has_window(run) && !is_bloom(run) && o->max_bytes;
  return limited && (atomic_load(&run->offered) > o->capacity || run->phase == MIX || copies);
}

static bool good_failure(struct run *run, int result)
{
  const tamis_options *o = &run->configuration.options;
  return (result == TAMIS_EFULL && may_be_full(run)) ||
         (result == TAMIS_ENOMEM &&
          (o->kind == TAMIS_CUCKOO || (o->kind == TAMIS_BLOOM && o->growable)) &&
          run->configuration.memory == FAILING_MEMORY);
}

/* One key of a thread's own was added, or refused. */
static void judge_own(struct caller *caller, uint64_t key, bool unique, int result)
{
  struct run *run = caller->run;
  bool was_in = run->copies[key];
  if (result == TAMIS_OK && !(unique && was_in)) {
    caller->copies += !(is_bloom(run) && was_in);
    run->copies[key] = is_bloom(run) ? 1 : run->copies[key] + 1;
  } else if (result == TAMIS_PRESENT && unique && !was_in) {
    run->copies[key] = keeps_all(run); /* a false positive; its bits are set for good */
  } else if (result == TAMIS_OK) {
    wrong(caller, "add_unique wins though the key is in", key);
  } else if (!(result == TAMIS_PRESENT && unique) && !good_failure(run, result)) {
    wrong(caller, result == TAMIS_EFULL ? "refused before its capacity" : tamis_strerror(result),
          key);
  }
}

static void judge_contested(struct caller *caller, uint64_t key, int result)
{
  struct run *run = caller->run;
  if (result == TAMIS_OK) {
    if (atomic_fetch_add(&run->won[key], 1))
      wrong(caller, "a second winner", key);
  } else if (result == TAMIS_EFULL && may_be_full(run)) {
    atomic_fetch_or(&run->refused[key], FOR_THE_LIMIT);
  } else if (result == TAMIS_ENOMEM && good_failure(run, result)) {
    atomic_fetch_or(&run->refused[key], FOR_MEMORY);
  } else if (result != TAMIS_PRESENT) {
    wrong(caller, result == TAMIS_EFULL ? "refused before its capacity" : tamis_strerror(result),
          key);
  }
}

/* Whether a key that was present a moment ago still is. */
static void look_for(struct caller *caller, uint64_t key, const char *what)
{
  caller->batch = false;
  caller->n = 0;
  add_to_batch(caller, key);
  call_contains(caller);
  if (!caller->found[0])
    wrong(caller, what, key);
}

/* Whether a key of the last call is found from now on, while no more periods end than the window has.
 * One of the thread's own is if it is in.  A contested one is if it was not refused, as no call removes
 * any key meanwhile; but if it was only taken for another one, a window forgets both at once. */
static bool stays(const struct caller *caller, size_t i, bool own)
{
  const struct run *run = caller->run;
  uint64_t key = caller->numbers[i];
  bool forgets = has_window(run) && !run->configuration.options.window_renews;
  if (own)
    return run->copies[key] != 0;
  return caller->results[i] == TAMIS_PRESENT ? !forgets || atomic_load(&run->won[key])
                                             : caller->results[i] == TAMIS_OK;
}

/* Looks for the keys of the last call. */
static void look_again(struct caller *caller, bool own)
{
  bool wanted[LONGEST_BATCH];
  if (caller->n == 0)
    return;
  for (size_t i = 0; i < caller->n; i++)
    wanted[i] = stays(caller, i, own);
  call_contains(caller);
  for (size_t i = 0; i < caller->n; i++)
    if (wanted[i] && !caller->found[i])
      wrong(caller, "a key that was just added is missing", caller->numbers[i]);
}

/* Adds the batch, of the thread's own keys or of contested ones; or the single key, if there is one. */
static void add_and_judge(struct caller *caller, bool unique, bool own)
{
  struct run *run = caller->run;
  const bool renews = run->configuration.options.window_renews;
  if (!caller->batch && caller->n == 0)
    return;
  call_add(caller, unique);
  for (size_t i = 0; i < caller->n; i++) {
    const uint64_t key = caller->numbers[i];
    const int result = caller->results[i];
    if (result == TAMIS_OK || (result == TAMIS_PRESENT && renews))
      window_note_add(run, key, caller->began);
    if (own)
      judge_own(caller, key, unique, result);
    else
      judge_contested(caller, key, result);
  }
  look_again(caller, own);
}

/* ---- own keys ---- */

static uint64_t own_keys(const struct caller *caller)
{
  const struct run *run = caller->run;
  uint64_t owned = run->configuration.keys - run->contested, t = caller->worker->index;
  return owned / caller->worker->threads + (t < owned % caller->worker->threads);
}

static uint64_t own_key(const struct caller *caller, uint64_t i)
{
  return caller->run->contested + i * caller->worker->threads + caller->worker->index;
}

static void look_at_figures(struct caller *caller)
{
  const struct run *run = caller->run;
  const tamis_options *o = &run->configuration.options;
  tamis_stats s = TAMIS_STATS_INIT;
  if (tamis_get_stats(run->filter, &s) != TAMIS_OK)
    wrong(caller, "there are no figures", 0);
  if (s.kind != o->kind || s.capacity != o->capacity || s.fpp != o->fpp || s.seed != o->seed)
    wrong(caller, "a constant figure has changed", 0);
  if (o->max_bytes && s.bytes > o->max_bytes)
    wrong(caller, "more bytes than max_bytes", s.bytes);
  if (!(s.fpp_estimate >= 0 && s.fpp_estimate <= 1 && s.load >= 0 && s.occupancy >= 0) ||
      !isfinite(s.load))
    wrong(caller, "an impossible figure", 0);
}

/* ---- phases ---- */

/* Now and then, if the filter has a window. */
static void end_a_period(struct caller *caller)
{
  enum { ONE_IN = 64 };
  if (has_window(caller->run) && random_next(&caller->seed) % ONE_IN == 0)
    window_end_period(caller->run);
}

static void fill_own(struct caller *caller, uint64_t *next)
{
  bool unique = random_next(&caller->seed) % 2;
  size_t n = begin_batch(caller);
  while (caller->n < n && *next < own_keys(caller))
    add_to_batch(caller, own_key(caller, (*next)++));
  atomic_fetch_add(&caller->run->offered, caller->n);
  add_and_judge(caller, unique, true);
}

static void compete(struct caller *caller, uint64_t *next, uint64_t end)
{
  size_t n = begin_batch(caller);
  while (caller->n < n && *next < end)
    add_to_batch(caller, (*next)++);
  add_and_judge(caller, true, false);
}

static void fill(struct caller *caller)
{
  const struct run *run = caller->run;
  uint64_t contested = 0, own = 0;
  while (contested < run->contested || own < own_keys(caller)) {
    if (contested < run->contested && random_next(&caller->seed) % 2)
      compete(caller, &contested, run->contested);
    else
      fill_own(caller, &own);
    if (random_next(&caller->seed) % 8 == 0)
      look_at_figures(caller); /* which releases what has waited */
    end_a_period(caller);
    if (own && run->copies[own_key(caller, random_next(&caller->seed) % own)]) {
      uint64_t key = own_key(caller, random_next(&caller->seed) % own);
      if (run->copies[key])
        look_for(caller, key, "a key is missing while the filter fills");
    }
  }
}

static void reach_the_brink(struct caller *caller)
{
  uint64_t next = caller->run->configuration.keys;
  while (next < caller->run->all) {
    compete(caller, &next, caller->run->all);
    end_a_period(caller);
  }
}

static void look_up_own(struct caller *caller)
{
  const struct run *run = caller->run;
  size_t n = begin_batch(caller);
  while (caller->n < n)
    add_to_batch(caller, own_key(caller, random_next(&caller->seed) % own_keys(caller)));
  if (random_next(&caller->seed) % 4 == 0) {
    call_count(caller);
    return;
  }
  call_contains(caller);
  for (size_t i = 0; i < caller->n; i++)
    if (run->copies[caller->numbers[i]] && !caller->found[i])
      wrong(caller, "a key is missing", caller->numbers[i]);
}

/* Whether one more copy is wanted of a key.  A batch may hold a key several times, but where copies
 * could make counters stuck. */
static bool takes_copy(const struct caller *caller, uint64_t key)
{
  const struct run *run = caller->run;
  bool once = run->configuration.options.kind == TAMIS_COUNTING_BLOOM;
  for (size_t i = 0; once && i < caller->n; i++)
    if (caller->numbers[i] == key)
      return false;
  return run->copies[key] < run->most_copies;
}

/* A few keys are added more often than others. */
static void add_own(struct caller *caller)
{
  bool unique = random_next(&caller->seed) % 2;
  uint64_t range = own_keys(caller);
  if (random_next(&caller->seed) % 4 == 0 && range > 4)
    range = 4;
  size_t n = begin_batch(caller);
  for (size_t tries = 0; tries < n; tries++) {
    uint64_t key = own_key(caller, random_next(&caller->seed) % range);
    if (takes_copy(caller, key))
      add_to_batch(caller, key);
  }
  add_and_judge(caller, unique, true);
}

static void remove_copy(struct caller *caller, uint64_t key)
{
  struct run *run = caller->run;
  caller->n = 0;
  add_to_batch(caller, key);
  if (is_bloom(run)) {
    if (call_remove(caller) != TAMIS_EUNSUPPORTED)
      wrong(caller, "a Bloom filter removes", key);
  } else if (run->copies[key]) {
    if (call_remove(caller) != TAMIS_OK)
      wrong(caller, "a copy could not be removed", key);
    run->copies[key]--;
    caller->copies--;
    if (run->copies[key])
      look_for(caller, key, "a key is missing after one of its copies was removed");
  }
}

static void remove_own(struct caller *caller)
{
  enum { REMOVES = 32, TRIES = 8 };
  for (unsigned n = (unsigned) (random_next(&caller->seed) % REMOVES); n > 0; n--) {
    uint64_t key, tries = TRIES;
    do
      key = own_key(caller, random_next(&caller->seed) % own_keys(caller));
    while (!caller->run->copies[key] && --tries);
    remove_copy(caller, key);
  }
}

/* Keys for which threads competed stay in for good. */
static void look_for_contested(struct caller *caller)
{
  const struct run *run = caller->run;
  uint64_t i = random_next(&caller->seed) % (run->contested + run->all - run->configuration.keys);
  uint64_t key = i < run->contested ? i : run->configuration.keys + i - run->contested;
  if (run->copies[key])
    look_for(caller, key, "a key that stays is missing");
}

static void mix(struct caller *caller)
{
  const struct run *run = caller->run;
  if (own_keys(caller) == 0)
    return;
  for (uint64_t i = 0; i < run->configuration.calls; i++) {
    uint64_t random = random_next(&caller->seed);
    if (random >> 32 < UINT32_MAX / 256)
      caller->goal = random_next(&caller->seed) % (2 * own_keys(caller));
    bool grows = caller->copies < caller->goal;
    end_a_period(caller);
    if (random % 64 == 0)
      look_at_figures(caller);
    else if (random % 8 < 2)
      look_up_own(caller);
    else if (random % 8 == 2 && run->contested)
      look_for_contested(caller);
    else if (random % 8 == 3 ? grows : !grows) /* mostly towards the goal */
      remove_own(caller);
    else
      add_own(caller);
  }
}

static void drain(struct caller *caller)
{
  for (uint64_t i = 0; i < own_keys(caller); i++) {
    while (caller->run->copies[own_key(caller, i)])
      remove_copy(caller, own_key(caller, i));
    end_a_period(caller);
  }
}

static void work(struct worker *worker)
{
  static void (*const phases[])(struct caller *) = {
      [FILL] = fill, [BRINK] = reach_the_brink, [MIX] = mix, [DRAIN] = drain};
  struct run *run = worker->arg;
  struct caller *caller = harness_zeroes(1, sizeof *caller);
  caller->run = run;
  caller->worker = worker;
  caller->seed = worker->seed;
  for (uint64_t i = 0; i < own_keys(caller); i++)
    caller->copies += run->copies[own_key(caller, i)];
  caller->goal = own_keys(caller) / 2;
  pauses_on(worker->seed, run->number);
  phases[run->phase](caller);
  pauses_off();
  free(caller);
}

/* What is known of contested keys when all threads have ended. */
static void settle(struct run *run, uint64_t begin, uint64_t end)
{
  for (uint64_t key = begin; key < end; key++) {
    bool won = atomic_load(&run->won[key]), refused = atomic_load(&run->refused[key]);
    if (won && atomic_load(&run->refused[key]) & FOR_THE_LIMIT && keeps_all(run))
      run_wrong(run, "a key wins though it was refused for good", key);
    run->copies[key] = won || (!refused && keeps_all(run)); /* or a false positive to all */
  }
}

void run_phase(struct run *run, enum phase phase)
{
  static struct worker workers[MAX_THREADS];
  const struct configuration *c = &run->configuration;
  run->phase = phase;
  atomic_store(&run->ends_left, c->options.window);
  if (phase == FILL)
    atomic_store(&run->offered, run->contested);
  if (phase == BRINK)
    atomic_fetch_add(&run->offered, run->all - c->keys);
  atomic_store(&run->ledger.armed, c->memory == FAILING_MEMORY);
  harness_run(c->threads, random_at(c->seed, phase), work, run, workers);
  atomic_store(&run->ledger.armed, false);
  if (phase == FILL)
    settle(run, 0, run->contested);
  if (phase == BRINK)
    settle(run, c->keys, run->all);
}
