/* SPDX-License-Identifier: MIT
 *
 * Question: does every call take effect at one instant between its invocation and its return, while
 * everything else goes on?
 *
 * Threads make random calls on a few keys, the *classes*.  For each call they record when it was
 * invoked, when it returned, and what it answered.  After each round the history of every class is
 * checked (history.h).  The filter confuses no class with any other key (distinct.h), so the
 * answers must be exact, without any tolerance for false positives.
 *
 * Meanwhile each thread adds and removes keys of its own, the *bystanders*, in waves.  These make
 * entries move, segments split and join, generations open, and duplicates be counted.  The filter
 * may confuse bystanders with each other, so less is checked of them: a bystander that is in the
 * filter is found and can be removed.
 *
 *    life    One filter from its creation until its last key is removed.  Each life has a variant,
 *            classes, and a size of the waves.
 *    round   Some thousand calls, in proportions that change from round to round.  Then all threads
 *            stop, and the histories, the counts and the structure are checked.  The next round
 *            begins with the copies that are left.
 *
 *    tiny     a cuckoo filter with a degenerate first generation (tiny.h)
 *    opening  the same, but the second generation is opened soon; lives are short, as this happens
 *             once in each
 *    grown    a cuckoo filter that grows from a small capacity
 *    fixed    a cuckoo filter that does not grow, filled beyond its capacity
 *    bloom    a Bloom filter of any layout; a life is one round, as a class can be added once
 *             only; three in four open some layers meanwhile
 *    counting a Bloom filter that counts; the classes have a line in common, and no counter
 *    shared-cuckoo  a cuckoo filter that processes may share: it refuses a seventh copy
 *    window   a Bloom filter with a window, growing or not; the ends of periods are part of the history
 *             of each class.  Of bystanders nothing is checked
 *    window-cuckoo  the same with a cuckoo filter: copies and removes, and a limit on memory in one
 *             filter of eight
 *
 * The seed determines the keys and the calls, but not how the threads overlap.
 * stress-linear-hooked is the same program with a library whose threads pause now and then between
 * the steps of a call.
 */
#include "linear.h"

#include "create.h"
#include "harness.h"
#include "pauses.h"
#include "stamp.h"
#include "validate.h"

#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const variant_names[] = {
    "tiny",          "opening", "grown",         "fixed", "bloom", "counting",
    "shared-cuckoo", "window",  "window-cuckoo", "all",   NULL};
/* The share of each variant in the operations, in fifteenths. */
static const uint64_t variant_shares[] = {2, 2, 1, 2, 1, 1, 2, 2, 2};

enum {
  CUCKOO_CLASSES = 6,
  EVERY_CLASS = MAX_CLASSES, /* stands for a class in a request that is on all of them ... */
  BYSTANDER,                 /* ... and on none */
  PAUSE_PERIOD = 64,         /* steps of calls */
  YIELD_PERIOD = 64 /* calls; threads that outnumber the cores overlap only if they yield */
};

#define UNKNOWN UINT64_MAX /* copies, and how old they are */

struct settings {
  struct harness_settings shared;
  uint64_t calls, operations; /* of a round; in all, instead of rounds; 0: not given */
  int variant;                /* VARIANTS: all */
};

struct entry {
  struct history_op op;
  uint32_t class;
};

/* What a thread has done and found.  Other threads read it only between rounds. */
struct caller {
  _Alignas(64) struct run *run;
  unsigned index;
  uint64_t seed;
  /* The round's calls on classes, in the order in which they were made, and sorted by class. */
  struct entry *entries;
  size_t n;
  struct history_op *sorted;
  size_t begin[MAX_CLASSES + 2];
  /* The bystanders that are in the filter, and whether their wave rises. */
  uint64_t *held;
  size_t held_count;
  bool rising;
  uint64_t fresh; /* the number of the next new one */
  /* What was found. */
  uint64_t wrong;
  struct history_checker *checker;
  struct history_op *history; /* of one class, over all threads */
  uint64_t overlapping, bystander_calls;
};

struct variant_totals {
  uint64_t lives, rounds, operations, bystander_calls, overlapping, splits, joins, openings;
};

struct run {
  const struct settings *settings;
  struct life life;
  struct mix mix;
  struct caller *callers;
  unsigned threads, batch; /* the largest batch */
  uint64_t seed, lives, rounds, operations;
  struct variant_totals totals[VARIANTS];
  uint64_t wrong;
  bool stop;
  pthread_barrier_t barrier;
  struct stamps stamps;
  _Alignas(64) _Atomic unsigned ready;
};

/* ---- what to call ---- */

struct request {
  uint64_t hash;
  uint32_t class; /* or EVERY_CLASS, or BYSTANDER */
  size_t held;    /* a bystander's index in held[] */
};

static bool percent(struct caller *caller, unsigned n)
{
  return random_next(&caller->seed) % 100 < n;
}

/* Chooses a class.  In a Bloom filter a class changes once only, so all threads go through them in
 * step. */
static struct request class_request(struct caller *caller)
{
  const struct run *run = caller->run;
  const struct life *life = &run->life;
  uint64_t random = random_next(&caller->seed);
  uint32_t class = (uint32_t) (random % life->classes);
  if (life->variant == BLOOM) {
    uint64_t expected = life->calls / run->threads * run->mix.class_percent / 100 + 1;
    uint64_t step = caller->n * life->classes / expected + random % 2;
    class = (uint32_t) (step < life->classes ? step : class);
  } else if (percent(caller, run->mix.hot_percent)) {
    class = run->mix.hot;
  }
  return (struct request){life->hashes[class], class, 0};
}

static bool can_remove(const struct life *life)
{
  return life->variant != BLOOM && life->variant != WINDOW;
}

static bool has_window(enum variant variant)
{
  return variant == WINDOW || variant == WINDOW_CUCKOO;
}

/* Whether the filter may confuse a key with a class. */
static bool is_class(const struct life *life, uint64_t hash)
{
  for (unsigned i = 0; i < life->classes; i++)
    if (distinct_confuses(&life->distinct, hash, life->hashes[i]))
      return true;
  return false;
}

static struct request fresh_bystander(struct caller *caller)
{
  const struct life *life = &caller->run->life;
  struct request request = {.class = BYSTANDER};
  if (life->variant == BLOOM) {
    request.hash = life->bloom_bystanders[caller->fresh++ % BLOOM_BYSTANDERS];
    return request;
  }
  do {
    uint64_t random = random_at(life->seed ^ caller->index, caller->fresh++);
    request.hash =
        life->bystander_hashes ? random_at(life->seed, random % life->bystander_hashes) : random;
  } while (is_class(life, request.hash));
  return request;
}

static struct request held_bystander(struct caller *caller)
{
  size_t held = (size_t) (random_next(&caller->seed) % caller->held_count);
  return (struct request){caller->held[held], BYSTANDER, held};
}

static struct request bystander_request(struct caller *caller, enum history_call call)
{
  bool adds = call == HISTORY_ADD || call == HISTORY_ADD_UNIQUE;
  if (adds && caller->held_count + MAX_BATCH <= MAX_HELD)
    return fresh_bystander(caller);
  if (adds)
    return class_request(caller);
  return caller->held_count ? held_bystander(caller) : class_request(caller);
}

static enum history_call class_call(struct caller *caller)
{
  const unsigned *weights = caller->run->mix.calls;
  unsigned sum = 0;
  for (unsigned i = 0; i < HISTORY_CALLS; i++)
    sum += weights[i];
  unsigned left = (unsigned) (random_next(&caller->seed) % sum);
  enum history_call call = HISTORY_ADD;
  while (left >= weights[call])
    left -= weights[call++];
  return call;
}

/* Mostly follows the wave. */
static enum history_call bystander_call(struct caller *caller)
{
  const struct life *life = &caller->run->life;
  uint64_t random = random_next(&caller->seed);
  if (caller->held_count <= life->trough)
    caller->rising = true;
  if (caller->held_count >= life->peak)
    caller->rising = false;
  bool add = random % 16 ? caller->rising : !caller->rising;
  if (caller->held_count && (random / 16 % 4 == 0 || (!add && life->variant == BLOOM)))
    return random / 256 % 8 ? HISTORY_CONTAINS : HISTORY_COUNT;
  if (caller->held_count && !add && life->variant != BLOOM)
    return HISTORY_REMOVE;
  return random / 64 % 4 == 0 ? HISTORY_ADD_UNIQUE : HISTORY_ADD;
}

/* ---- calling ---- */

static int call_one(tamis_filter *f, enum history_call call, uint64_t hash)
{
  return call == HISTORY_ADD          ? tamis_add_hash(f, hash)
         : call == HISTORY_ADD_UNIQUE ? tamis_add_unique_hash(f, hash)
         : call == HISTORY_CONTAINS   ? tamis_contains_hash(f, hash)
         : call == HISTORY_COUNT      ? (int) tamis_count_hash(f, hash)
         : call == HISTORY_ADVANCE    ? tamis_advance(f)
                                      : tamis_remove_hash(f, hash);
}

static void call_many(tamis_filter *f, enum history_call call, const uint64_t *hashes, size_t n,
                      int *results)
{
  bool found[MAX_BATCH];
  uint64_t counts[MAX_BATCH];
  switch (call) {
  case HISTORY_ADD:
    tamis_add_many_hash(f, hashes, n, results);
    break;
  case HISTORY_ADD_UNIQUE:
    tamis_add_unique_many_hash(f, hashes, n, results);
    break;
  case HISTORY_COUNT:
    tamis_count_many_hash(f, hashes, n, counts);
    for (size_t i = 0; i < n; i++)
      results[i] = (int) counts[i];
    break;
  default:
    tamis_contains_many_hash(f, hashes, n, found);
    for (size_t i = 0; i < n; i++)
      results[i] = found[i];
  }
}

static void report_bystander(struct caller *caller, const char *what, uint64_t hash)
{
  if (caller->wrong++ == 0)
    fprintf(stderr, "thread %u: a bystander in the filter %s: hash %" PRIu64 "\n", caller->index,
            what, hash);
}

static void record_bystander(struct caller *caller, const struct request *request,
                             enum history_call call, int result)
{
  enum variant variant = caller->run->life.variant;
  caller->bystander_calls++;
  if (variant == WINDOW)
    return;
  if ((call == HISTORY_CONTAINS || call == HISTORY_COUNT) && !result && variant != WINDOW_CUCKOO)
    report_bystander(caller, "was missed", request->hash);
  if (call == HISTORY_REMOVE) {
    if (result != TAMIS_OK && variant != WINDOW_CUCKOO)
      report_bystander(caller, "could not be removed", request->hash);
    caller->held[request->held] = caller->held[--caller->held_count];
  }
  if (call == HISTORY_ADD || call == HISTORY_ADD_UNIQUE) {
    if (result == TAMIS_OK)
      caller->held[caller->held_count++] = request->hash;
    else if (result < 0)
      caller->rising = false;
  }
}

static void record(struct caller *caller, const struct request *request,
                   const struct history_op *op)
{
  if (request->class == BYSTANDER) {
    record_bystander(caller, request, op->call, op->result);
    return;
  }
  caller->entries[caller->n++] = (struct entry){*op, request->class};
}

/* Makes a call, or a batch of one kind; returns the number of keys. */
static size_t make_call(struct caller *caller)
{
  struct run *run = caller->run;
  struct request requests[MAX_BATCH];
  uint64_t hashes[MAX_BATCH];
  int results[MAX_BATCH];
  bool on_class = percent(caller, run->mix.class_percent);
  enum history_call call = on_class ? class_call(caller) : bystander_call(caller);
  size_t n = 1;
  /* A batch of plain adds could make the counters of a class stuck. */
  bool single = call == HISTORY_REMOVE || call == HISTORY_ADVANCE ||
                (run->life.variant == COUNTING && call == HISTORY_ADD);
  unsigned most = has_window(run->life.variant) ? run->batch / 3 : run->batch;
  if (!single && most && percent(caller, run->mix.batch_percent))
    n += random_next(&caller->seed) % most;
  for (size_t i = 0; i < n; i++, on_class = percent(caller, run->mix.class_percent)) {
    requests[i] = on_class ? class_request(caller) : bystander_request(caller, call);
    hashes[i] = requests[i].hash;
  }
  if (call == HISTORY_ADVANCE)
    requests[0].class = EVERY_CLASS;
  struct history_op op = {.invoked = stamp_invoked(&run->stamps),
                          .thread = (uint16_t) caller->index,
                          .call = (uint8_t) call};
  if (n == 1)
    results[0] = call_one(run->life.filter, call, hashes[0]);
  else
    call_many(run->life.filter, call, hashes, n, results);
  op.returned = stamp_returned(&run->stamps);
  for (size_t i = 0; i < n; i++) {
    op.result = results[i];
    record(caller, &requests[i], &op);
  }
  return n;
}

/* Spins until all threads are here, so that they begin at once: a barrier wakes them one after the
 * other. */
static void wait_for_all(struct run *run)
{
  atomic_fetch_add(&run->ready, 1);
  while (atomic_load(&run->ready) % run->threads)
    sched_yield();
}

static void sort_by_class(struct caller *caller)
{
  memset(caller->begin, 0, sizeof caller->begin);
  for (size_t i = 0; i < caller->n; i++)
    caller->begin[caller->entries[i].class + 1]++;
  for (unsigned class = 0; class <= EVERY_CLASS; class ++)
    caller->begin[class + 1] += caller->begin[class];
  size_t next[MAX_CLASSES + 2];
  memcpy(next, caller->begin, sizeof next);
  for (size_t i = 0; i < caller->n; i++)
    caller->sorted[next[caller->entries[i].class]++] = caller->entries[i].op;
}

static void make_calls(struct caller *caller)
{
  struct run *run = caller->run;
  uint64_t calls = run->life.calls / run->threads + 1;
  caller->n = 0;
  wait_for_all(run);
  pauses_on(random_next(&caller->seed), run->rounds);
  for (uint64_t done = 0; done < calls && caller->wrong == 0;) {
    done += make_call(caller);
    if (random_next(&caller->seed) % YIELD_PERIOD == 0)
      sched_yield();
  }
  pauses_off();
  sort_by_class(caller);
}

/* ---- checking ---- */

static void report_history(struct caller *caller, unsigned class, const struct history *h)
{
  const struct run *run = caller->run;
  const struct life *life = &run->life;
  flockfile(stderr);
  fprintf(stderr,
          "not linearizable: class %u of %u, hash %" PRIu64
          ", variant %s, filter with seed %" PRIu64 ", round %" PRIu64 "\n",
          class, life->classes, life->hashes[class], variant_names[life->variant], life->seed,
          run->rounds);
  history_explain(stderr, caller->checker, h);
  funlockfile(stderr);
}

/* Makes one more call on a class, alone. */
static void call_last(struct caller *caller, enum history_call call, unsigned class, size_t *n)
{
  struct run *run = caller->run;
  struct history_op last = {.thread = (uint16_t) caller->index,
                            .call = (uint8_t) call,
                            .invoked = stamp_invoked(&run->stamps)};
  last.result = call_one(run->life.filter, call, run->life.hashes[class]);
  last.returned = stamp_returned(&run->stamps);
  caller->history[(*n)++] = last;
}

/* Adds the calls of a thread on a class, or on every class. */
static void take_calls(struct caller *caller, const struct caller *of, unsigned class, size_t *n)
{
  size_t more = of->begin[class + 1] - of->begin[class];
  if (more)
    memcpy(&caller->history[*n], &of->sorted[of->begin[class]], more * sizeof *caller->history);
  *n += more;
}

/* Checks the history of a class: the calls of all threads, and a last look-up after them.  With a
 * window the age of the key is not known then, so it is added once more. */
static void check_class(struct caller *caller, unsigned class)
{
  struct run *run = caller->run;
  struct life *life = &run->life;
  size_t n = 0;
  for (unsigned t = 0; t < run->threads; t++) {
    take_calls(caller, &run->callers[t], class, &n);
    take_calls(caller, &run->callers[t], EVERY_CLASS, &n);
  }
  call_last(caller, HISTORY_COUNT, class, &n);
  if (has_window(life->variant))
    call_last(caller, HISTORY_ADD, class, &n);
  bool refused = caller->history[n - 1].result < 0;
  struct history h = {.ops = caller->history,
                      .n = n,
                      .copies = life->copies[class],
                      .once = !can_remove(life),
                      .window = life->window,
                      .renews = life->renews};
  struct history_verdict verdict = history_check(caller->checker, &h);
  caller->overlapping += verdict.overlapping;
  if (verdict.good) {
    life->copies[class] = refused ? UNKNOWN : verdict.copies.most;
  } else {
    caller->wrong++;
    report_history(caller, class, &h);
  }
}

static void check_classes(struct caller *caller)
{
  const struct run *run = caller->run;
  for (unsigned class = caller->index; class < run->life.classes; class += run->threads)
    check_class(caller, class);
}

/* ---- between rounds, when one thread is at work ---- */

static void mismatch(struct run *run, const char *what, uint64_t actual, uint64_t expected)
{
  run->wrong++;
  fprintf(stderr, "%s: %" PRIu64 ", should be %" PRIu64 ", in a %s filter with seed %" PRIu64 "\n",
          what, actual, expected, variant_names[run->life.variant], run->life.seed);
}

static void add_totals(struct run *run)
{
  struct variant_totals *totals = &run->totals[run->life.variant];
  totals->rounds++;
  for (unsigned t = 0; t < run->threads; t++) {
    struct caller *caller = &run->callers[t];
    run->wrong += caller->wrong;
    totals->operations += caller->n;
    run->operations += caller->n;
    totals->bystander_calls += caller->bystander_calls;
    totals->overlapping += caller->overlapping;
    caller->bystander_calls = caller->overlapping = 0;
  }
}

/* Of all keys.  In a Bloom filter, a key that several threads add at once is counted at most once, and
 * once more by each call that meets the opening of a layer; bystanders are counted too. */
static void check_count(struct run *run)
{
  const struct life *life = &run->life;
  const tamis_stats stats = stats_of(life->filter);
  uint64_t count = 0, most;
  for (unsigned i = 0; i < life->classes; i++)
    count += life->copies[i];
  for (unsigned t = 0; t < run->threads && life->variant != BLOOM; t++)
    count += run->callers[t].held_count;
  most =
      life->variant == BLOOM ? count + BLOOM_BYSTANDERS + (stats.layers - 1) * run->threads : count;
  if (stats.count > most || (life->variant != BLOOM && stats.count < count))
    mismatch(run, "count of keys", stats.count, most);
}

/* Checks the count and the structure. */
static void check_filter(struct run *run)
{
  const char *reason = NULL;
  if (!has_window(run->life.variant))
    check_count(run);
  if (!filter_validate(run->life.filter, &reason))
    mismatch(run, reason, 1, 0);
}

/* Lets a window forget everything. */
static void forget_all(struct run *run)
{
  struct life *life = &run->life;
  for (unsigned i = 0; i <= life->window; i++)
    if (tamis_advance(life->filter) != TAMIS_OK)
      mismatch(run, "an end of a period that fails", 1, 0);
  memset(life->copies, 0, sizeof life->copies);
  for (unsigned t = 0; t < run->threads; t++)
    run->callers[t].held_count = 0;
  const tamis_stats stats = stats_of(life->filter);
  if (stats.count)
    mismatch(run, "count of keys that are forgotten", stats.count, 0);
}

/* After a round.  If the age of a key is not known, and now and then, all is forgotten. */
static void begin_window_anew(struct run *run)
{
  bool anew = random_at(run->seed ^ 2, run->rounds) % 4 == 0;
  for (unsigned i = 0; i < run->life.classes; i++)
    anew |= run->life.copies[i] == UNKNOWN;
  if (anew)
    forget_all(run);
}

/* Removes every copy, and checks that there is not one more. */
static void remove_all(struct run *run)
{
  struct life *life = &run->life;
  for (unsigned i = 0; i < life->classes; i++) {
    uint64_t taken = 0;
    while (taken <= life->copies[i] && tamis_remove_hash(life->filter, life->hashes[i]) == TAMIS_OK)
      taken++;
    if (taken != life->copies[i])
      mismatch(run, "copies of a class in the end", taken, life->copies[i]);
    life->copies[i] = 0;
  }
  for (unsigned t = 0; t < run->threads; t++)
    for (struct caller *caller = &run->callers[t]; caller->held_count; caller->held_count--)
      if (tamis_remove_hash(life->filter, caller->held[caller->held_count - 1]) != TAMIS_OK)
        mismatch(run, "bystanders that cannot be removed in the end", 1, 0);
}

static void end_life(struct run *run)
{
  struct life *life = &run->life;
  struct variant_totals *totals = &run->totals[life->variant];
  if (!run->wrong && life->variant != BLOOM && !distinct_holds(&life->distinct))
    error(2, 0, "the filter confuses classes: a bug of this program");
  if (!run->wrong && has_window(life->variant))
    forget_all(run);
  if (!run->wrong && can_remove(life)) {
    remove_all(run);
    check_filter(run);
  }
  const tamis_stats stats = stats_of(life->filter);
  totals->lives++;
  totals->joins += stats.joins;
  if (life->variant < BLOOM)
    totals->splits += stats.growths - (stats.generations - 1);
  totals->openings += life->variant < BLOOM       ? stats.generations - 1
                      : has_window(life->variant) ? stats.growths
                                                  : stats.layers - 1;
  tamis_destroy(life->filter);
  life->filter = NULL;
}

/* ---- lives ---- */

/* The variant that is furthest behind its share, or the one that the options name. */
static enum variant next_variant(const struct run *run)
{
  if (run->settings->variant != VARIANTS)
    return (enum variant) run->settings->variant;
  enum variant next = TINY;
  /* An add to a window counts as three pending calls. */
  unsigned variants = 3 * run->threads > HISTORY_MOST_PENDING ? WINDOW : VARIANTS;
  for (enum variant v = 0; v < variants; v++)
    if (run->totals[v].operations * variant_shares[next] <
        run->totals[next].operations * variant_shares[v])
      next = v;
  return next;
}

static void begin_life(struct run *run)
{
  struct life *life = &run->life;
  *life = (struct life){.variant = next_variant(run),
                        .number = run->lives,
                        .seed = random_at(run->seed, run->lives) | 1,
                        .threads = run->threads,
                        .calls = run->settings->calls,
                        .classes = 1 + (unsigned) (run->lives % CUCKOO_CLASSES)};
  require_created(life_create(life));
  for (unsigned t = 0; t < run->threads; t++) {
    run->callers[t].held_count = run->callers[t].fresh = 0;
    run->callers[t].rising = true;
  }
  run->lives++;
}

static bool is_over(const struct run *run)
{
  const struct harness_settings *s = &run->settings->shared;
  const uint64_t operations = run->settings->operations;
  return run->wrong || (operations && run->operations >= operations) ||
         ((!operations || s->seconds) && !harness_more(s, run->rounds));
}

/* Ends the last round, and prepares the next one. */
static void begin_next_round(struct run *run)
{
  struct life *life = &run->life;
  if (life->filter) {
    add_totals(run);
    if (!run->wrong)
      check_filter(run);
    if (!run->wrong && has_window(life->variant))
      begin_window_anew(run);
    run->stop = is_over(run);
    if (--life->rounds == 0 || run->stop)
      end_life(run);
  }
  if (run->stop)
    return;
  if (!life->filter)
    begin_life(run);
  run->rounds++;
  run->mix = life_mix(&run->life, random_at(run->seed ^ 1, run->rounds));
}

static void work(struct worker *worker)
{
  struct run *run = worker->arg;
  struct caller *caller = &run->callers[worker->index];
  caller->seed = worker->seed;
  for (;;) {
    if (worker->index == 0)
      begin_next_round(run);
    pthread_barrier_wait(&run->barrier);
    if (run->stop)
      return;
    make_calls(caller);
    pthread_barrier_wait(&run->barrier);
    if (caller->wrong == 0)
      check_classes(caller);
    pthread_barrier_wait(&run->barrier);
  }
}

/* ---- the program ---- */

static void create_callers(struct run *run)
{
  run->callers = aligned_alloc(64, run->threads * sizeof *run->callers);
  if (!run->callers)
    error(2, errno, "cannot start");
  size_t each = run->settings->calls / run->threads + 1 + MAX_BATCH;
  for (unsigned t = 0; t < run->threads; t++) {
    run->callers[t] = (struct caller){
        .run = run,
        .index = t,
        .entries = harness_zeroes(each, sizeof(struct entry)),
        .sorted = harness_zeroes(each, sizeof(struct history_op)),
        .held = harness_zeroes(MAX_HELD, sizeof(uint64_t)),
        .checker = history_checker_create(),
        .history = harness_zeroes(each * run->threads + 2, sizeof(struct history_op))};
    if (!run->callers[t].checker)
      error(2, errno, "cannot start");
  }
}

static void free_callers(struct run *run)
{
  for (unsigned t = 0; t < run->threads; t++) {
    struct caller *caller = &run->callers[t];
    free(caller->entries);
    free(caller->sorted);
    free(caller->held);
    free(caller->history);
    history_checker_destroy(caller->checker);
  }
  free(run->callers);
}

static void print_totals(const struct run *run)
{
  for (enum variant v = 0; v < VARIANTS; v++) {
    const struct variant_totals *t = &run->totals[v];
    if (!t->lives)
      continue;
    printf("%s: %" PRIu64 " filters, %" PRIu64 " rounds, %" PRIu64
           " calls checked, %.0f %% of them overlapping, %" PRIu64 " on bystanders; %" PRIu64
           " splits, %" PRIu64 " joins, %" PRIu64 " new generations or layers\n",
           variant_names[v], t->lives, t->rounds, t->operations,
           100 * (double) t->overlapping / (double) (t->operations + 1), t->bystander_calls,
           t->splits, t->joins, t->openings);
  }
}

int main(int argc, char **argv)
{
  static struct run run;
  struct settings s = {.shared = {.threads = 4, .rounds = 400}, .calls = 4000, .variant = VARIANTS};
  const struct harness_option options[] = {
      {"calls", "Calls of a round, over all threads (default: 4000)", .number = &s.calls,
       .least = 1, .most = 1000000},
      {"operations", "Begin rounds until so many calls, instead of --rounds",
       .number = &s.operations},
      {"variant", "Filters (default: all)", .choice = &s.variant, .choice_names = variant_names},
      {0}};
  harness_parse("Checks that all calls on a filter are linearizable.", options, argc, argv,
                &s.shared);
  if (has_window((enum variant) s.variant) && 3 * s.shared.threads > HISTORY_MOST_PENDING)
    error(2, 0, "with a window at most %d threads", HISTORY_MOST_PENDING / 3);
  run.settings = &s;
  run.seed = s.shared.seed;
  run.threads = (unsigned) s.shared.threads;
  /* Even if all batches are on one class, the search can take all pending calls. */
  run.batch = HISTORY_MOST_PENDING / run.threads;
  run.batch = run.batch < MAX_BATCH ? run.batch : MAX_BATCH;
  create_callers(&run);
  int failure = pthread_barrier_init(&run.barrier, NULL, run.threads);
  if (failure)
    error(2, failure, "cannot start");
  pauses_install(PAUSE_PERIOD, 0);
  struct worker workers[MAX_THREADS];
  harness_run(run.threads, run.seed, work, &run, workers);
  pthread_barrier_destroy(&run.barrier);
  print_totals(&run);
  free_callers(&run);
  return harness_verdict(&s.shared, run.wrong == 0);
}
