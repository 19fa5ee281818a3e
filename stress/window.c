/* SPDX-License-Identifier: MIT
 *
 * Question: does a filter with a window remember each id for as long as it should, and no longer,
 * while periods end at random moments?
 *
 * The threads deliver ids, as consumers of a queue do: new ones, ones that were delivered a moment
 * ago (perhaps by another thread, which is not done yet), and ones that come late: by exactly
 * `window` periods, by one more, or by anything in between.  Most deliveries are unique adds, some
 * are plain adds or look-ups.  Periods end after a random number of new ids, by a call of the
 * thread that delivers the last one; and at random times, by calls of one more thread, sometimes
 * two in a row.  So calls of tamis_advance overlap adds, look-ups and each other.  Numbers of ids
 * come again much later, when they have been forgotten, and must win then.
 *
 * The oracle knows of each call in which period it began at the earliest and ended at the latest:
 * the number of advances that had returned when it began, and of those that had begun when it
 * returned.  Nobody knows more without asking the filter, so a call is judged only if it is wrong
 * whatever the period in which it took effect was.
 *
 *   forgotten too early   the id was added in a call that had returned before this one began, and
 *                         at most `window` periods can have ended in between
 *   two winners           two unique adds have won within `window` periods of each other
 *   remembered too long   no add of the id can have been less than `window` + 1 periods ago, and no
 *                         call with the id ran beside this one.  As many of these calls may find
 *                         the id as the rate says
 *
 * With --bursts, some periods have BURST times as many ids, so that layers are opened, leave and are
 * released.
 *
 * In a filter that does not grow, no id is refused and the bytes stay the same.  In the end
 * `window` + 1 periods pass, and nothing may be left.
 *
 * A window of the cuckoo kind also has ids of each thread's own, which no other thread knows.
 * Their thread adds copies of them, removes and counts them, between its deliveries.  It knows how
 * many copies there are, but for periods that end beside its calls.  These ids make lanes empty at
 * any moment, and counts of copies take memory, so bytes vary.
 */
#include "base/filter.h"
#include "create.h"
#include "harness.h"
#include "pauses.h"

#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BURST = 20, PAUSE_PERIOD = 60, FIRST_PERIOD = 100 /* so that an interval is never 0 */ };

struct settings {
  struct harness_settings shared;
  uint64_t adds, periods, window;
  double fpp;
  bool renews, growable, bursts;
  int kind; /* of kind_names */
};

enum { BLOOM, CUCKOO };
static const char *const kind_names[] = {"bloom", "cuckoo", NULL};

/* MANY: that other ids may have, which the filter takes for one. */
enum { OWN_IDS = 64, MOST_COPIES = 6, MANY_COPIES = 50 };

/* One of the thread's own ids, in a window of the cuckoo kind. */
struct own {
  uint64_t copies, most; /* that there are at least and at most, if it is remembered */
  uint64_t added;        /* the interval of the last add */
};

/* Of an id.  An interval of periods is packed: the earliest one in the upper half. */
struct id {
  _Atomic uint64_t added; /* the interval of the last adds that have returned, or 0 */
  _Atomic uint64_t won;   /* that of the last one that has won, or 0 */
  _Atomic uint32_t calls; /* that are inside, and in the upper half how many have left */
};

struct run {
  const struct settings *settings;
  tamis_filter *filter;
  struct id *ids;
  uint64_t n;     /* ids; their numbers come again after so many */
  uint64_t *ends; /* how many ids have been delivered when a period should end */
  uint64_t periods, round;
  _Atomic uint64_t next;          /* number of the next new id */
  _Atomic uint64_t begun, ended;  /* calls of tamis_advance, and FIRST_PERIOD */
  _Atomic uint64_t ended_in_time; /* those that `ends` asks for */
  _Atomic uint64_t working;       /* threads that deliver */
  /* Of all times when somebody looked: */
  uint64_t least_bytes, most_bytes;
  unsigned most_layers;
  _Atomic uint64_t early, twice, refused; /* wrong answers */
  _Atomic uint64_t miscounted, own_calls; /* of ids that belong to a thread */
  _Atomic uint64_t exactly_late, forgotten, found, wins;
};

/* ---- the oracle ---- */

static uint64_t interval(uint64_t earliest, uint64_t latest)
{
  return earliest << 32 | latest;
}

static uint64_t earliest(uint64_t interval)
{
  return interval >> 32;
}

static uint64_t latest(uint64_t interval)
{
  return (uint32_t) interval;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

/* Notes an add.  What is known are the bounds of all of them. */
static void note_add(struct id *id, uint64_t when)
{
  uint64_t old = atomic_load(&id->added), both;
  do
    both = interval(larger(earliest(old), earliest(when)), larger(latest(old), latest(when)));
  while (!atomic_compare_exchange_weak(&id->added, &old, both));
}

/* Notes that a unique add has won.  Returns whether another one has in the same window. */
static bool note_win(struct id *id, uint64_t when, uint64_t window)
{
  uint64_t old = atomic_load(&id->won), later;
  do
    later = latest(old) > latest(when) ? old : when;
  while (!atomic_compare_exchange_weak(&id->won, &old, later));
  uint64_t first = earliest(old) < earliest(when) ? earliest(old) : earliest(when);
  return old && larger(latest(old), latest(when)) - first <= window;
}

/* What is known of an id before a call, and when the call began. */
struct before {
  uint64_t added, earliest;
  uint32_t calls;
};

static struct before call_with(struct run *run, struct id *id)
{
  struct before before = {.calls = atomic_fetch_add(&id->calls, 1)};
  before.added = atomic_load(&id->added);
  before.earliest = atomic_load(&run->ended);
  return before;
}

/* Judges whether an id may have been there, or not.  `alone`: no other call with it ran
 * meanwhile. */
static void judge(struct run *run, const struct before *before, uint64_t end, bool there,
                  bool alone)
{
  uint64_t window = run->settings->window;
  if (before->added && end - earliest(before->added) <= window) {
    run->early += !there;
    if (end == before->earliest && end - earliest(before->added) == window &&
        earliest(before->added) == latest(before->added))
      atomic_fetch_add_explicit(&run->exactly_late, 1, memory_order_relaxed);
  } else if (alone && before->earliest > latest(before->added) + window) {
    atomic_fetch_add_explicit(&run->forgotten, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&run->found, there, memory_order_relaxed);
  }
}

/* ---- calls ---- */

static void advance(struct run *run)
{
  atomic_fetch_add(&run->begun, 1);
  if (tamis_advance(run->filter) != TAMIS_OK)
    run->early++;
  atomic_fetch_add(&run->ended, 1);
}

static uint64_t key_of(const struct run *run, uint64_t number)
{
  return random_at(run->settings->shared.seed, number % run->n);
}

enum call { UNIQUE, ADD, LOOK };

/* Delivers an id, and judges what the filter says. */
static void deliver(struct run *run, uint64_t number, enum call call)
{
  struct id *id = &run->ids[number % run->n];
  uint64_t key = key_of(run, number);
  struct before before = call_with(run, id);
  int result = call == UNIQUE ? tamis_add_unique_hash(run->filter, key)
               : call == ADD  ? tamis_add_hash(run->filter, key)
                              : tamis_contains_hash(run->filter, key);
  uint64_t end = atomic_load(&run->begun), when = interval(before.earliest, end);
  run->refused += result < 0;
  bool won = call == UNIQUE && result == TAMIS_OK;
  if (won) {
    atomic_fetch_add_explicit(&run->wins, 1, memory_order_relaxed);
    run->twice += note_win(id, when, run->settings->window);
  }
  /* One that finds the id is an add only if it renews. */
  if (call == ADD || won || (call == UNIQUE && run->settings->renews))
    note_add(id, when);
  bool alone = (before.calls & UINT16_MAX) == 0 && atomic_load(&id->calls) == before.calls + 1;
  if (call != ADD && result >= 0)
    judge(run, &before, end, !won && (call == UNIQUE || result), alone);
  atomic_fetch_add(&id->calls, UINT16_MAX); /* one less inside, one more that has left */
}

static bool counts_copies(const struct run *run)
{
  return run->settings->kind == CUCKOO;
}

/* Whether an id was remembered all the time until a period in which at most `end` calls of
 * tamis_advance have begun. */
static bool is_sure(const struct run *run, const struct own *own, uint64_t end)
{
  return own->copies && end - earliest(own->added) <= run->settings->window;
}

/* Adds, removes or counts one of the thread's own ids.  There are own->copies of it at least, as
 * long as it is surely remembered.  (The filter may take other ids for it, so there may be
 * more.) */
static void call_own(struct run *run, struct own *own, uint64_t key, uint64_t what)
{
  uint64_t began = atomic_load(&run->ended);
  if (began > latest(own->added) + run->settings->window)
    own->copies = own->most = 0;
  if (what < 2 && own->most < MOST_COPIES) {
    run->refused += tamis_add_hash(run->filter, key) != TAMIS_OK;
    uint64_t end = atomic_load(&run->begun);
    own->copies = is_sure(run, own, end) ? own->copies + 1 : 1;
    own->most++;
    own->added = interval(began, end);
  } else if (what == 2 && is_sure(run, own, atomic_load(&run->begun) + 1)) {
    int result = tamis_remove_hash(run->filter, key);
    bool sure = is_sure(run, own, atomic_load(&run->begun));
    run->miscounted += sure && result != TAMIS_OK;
    own->copies = sure ? own->copies - 1 : 0;
    own->most -= sure;
  }
  bool forgotten =
      !own->copies && atomic_load(&run->ended) > latest(own->added) + run->settings->window;
  uint64_t count = tamis_count_hash(run->filter, key);
  bool sure = is_sure(run, own, atomic_load(&run->begun));
  run->miscounted += sure && (count < own->copies || count > own->most + MANY_COPIES);
  run->miscounted += forgotten && count > MANY_COPIES;
  atomic_fetch_add_explicit(&run->own_calls, 1, memory_order_relaxed);
}

/* The next new id; and the period that it should be in.  The filter is as large as the ids of so
 * many periods; so before ids of a period are delivered, the advance has ended that ends the last
 * but one. */
static uint64_t next_number(struct run *run, uint64_t *period)
{
  uint64_t number = atomic_fetch_add(&run->next, 1);
  while (*period + 1 < run->periods && number >= run->ends[*period])
    ++*period;
  while (atomic_load(&run->ended_in_time) + 1 < *period)
    sched_yield();
  return number;
}

/* An id that was new before: a moment ago, or so many periods ago. */
static uint64_t earlier_number(const struct run *run, uint64_t number, uint64_t period,
                               uint64_t random)
{
  uint64_t window = run->settings->window, choice = random % 8, back = window;
  random >>= 8;
  if (choice < 2 && number > 16)
    return number - 1 - random % 16;
  if (choice == 7)
    back = window + 1; /* too late: it is new again */
  else if (choice > 4)
    back = random % (window + 2);
  if (back > period)
    return number;
  uint64_t from = back < period ? run->ends[period - back - 1] : 0,
           to = back ? run->ends[period - back] : number;
  return to > from ? from + random % (to - from) : number;
}

static void deliver_all(struct worker *worker)
{
  struct run *run = worker->arg;
  uint64_t period = 0, random = worker->seed, number;
  struct own own[OWN_IDS] = {{0}};
  while ((number = next_number(run, &period)) < run->ends[run->periods - 1]) {
    deliver(run, number, UNIQUE);
    if (number + 1 == run->ends[period]) {
      advance(run);
      atomic_fetch_add(&run->ended_in_time, 1);
    }
    for (unsigned i = 0; i < 2; i++) {
      uint64_t again = earlier_number(run, number, period, random_next(&random)),
               what = random_next(&random) % 16;
      deliver(run, again, what == 0 ? ADD : what < 3 ? LOOK : UNIQUE);
    }
    if (counts_copies(run)) {
      uint64_t i = random_next(&random) % OWN_IDS;
      call_own(run, &own[i], random_at(~run->settings->shared.seed, worker->index * OWN_IDS + i),
               random_next(&random) % 4);
    }
  }
}

static void look_at_bytes(struct run *run)
{
  const tamis_stats stats = stats_of(run->filter);
  run->most_bytes = larger(run->most_bytes, stats.bytes);
  if (!run->least_bytes || stats.bytes < run->least_bytes)
    run->least_bytes = stats.bytes;
  if (stats.layers > run->most_layers)
    run->most_layers = stats.layers;
}

/* Ends periods early, now and then. */
static void end_periods(struct run *run, uint64_t random)
{
  uint64_t next = 1;
  while (atomic_load(&run->working)) {
    nanosleep(&(struct timespec){.tv_nsec = (long) (random_next(&random) % 1000000)}, NULL);
    look_at_bytes(run);
    if (atomic_load(&run->ended_in_time) < next)
      continue;
    for (unsigned i = 0; i < 1 + (random_next(&random) % 4 == 0); i++)
      advance(run);
    next = atomic_load(&run->ended_in_time) + 1 + random_next(&random) % 16;
  }
}

/* The first worker ends periods, the others deliver. */
static void deliver_or_end(struct worker *worker)
{
  struct run *run = worker->arg;
  pauses_on(worker->seed, run->round);
  if (worker->index == 0) {
    end_periods(run, worker->seed);
  } else {
    deliver_all(worker);
    atomic_fetch_sub(&run->working, 1);
  }
  pauses_off();
}

/* ---- rounds ---- */

static void begin(struct run *run, uint64_t seed)
{
  const struct settings *s = run->settings;
  uint64_t mean = s->adds / 3 / s->periods, longest = mean * 4 / 3 + 1, end = 0;
  run->periods = s->periods;
  run->n = 4 * (s->window + 4 + (s->bursts ? 2 * BURST : 0)) * longest;
  run->ends = calloc(run->periods, sizeof *run->ends);
  run->ids = calloc(run->n, sizeof *run->ids);
  if (!run->ends || !run->ids)
    require_created(TAMIS_ENOMEM);
  for (uint64_t i = 0; i < run->periods; i++) {
    bool burst = s->bursts && i % (2 * s->window + 6) == 2;
    run->ends[i] = end +=
        (longest / 2 + 1 + random_at(seed, i) % (longest - longest / 2)) * (burst ? BURST : 1);
  }
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = s->kind == CUCKOO ? TAMIS_CUCKOO : TAMIS_BLOOM;
  options.window = (unsigned) s->window;
  options.window_renews = s->renews;
  options.growable = s->growable;
  options.fpp = s->fpp;
  options.seed = seed;
  /* Of late ids, some are new again. */
  options.capacity =
      s->growable ? (s->window + 1) * longest / 8 + 1 : 3 * (s->window + 3) * longest / 2;
  run->filter = create_filter(&options);
  atomic_store(&run->begun, FIRST_PERIOD);
  atomic_store(&run->ended, FIRST_PERIOD);
  atomic_store(&run->working, s->shared.threads);
}

/* When no id is remembered any more, none is found, and nothing is left of them. */
static uint64_t left_in_the_end(struct run *run)
{
  uint64_t left = 0;
  const char *reason = "";
  if (!filter_validate(run->filter, &reason)) {
    printf("not valid: %s\n", reason);
    left++;
  }
  for (uint64_t i = 0; i <= run->settings->window; i++)
    advance(run);
  for (uint64_t i = 0; i < run->n; i++)
    left += tamis_contains_hash(run->filter, key_of(run, i));
  const tamis_stats stats = stats_of(run->filter);
  return left + stats.count + !filter_validate(run->filter, &reason);
}

static bool run_round(const struct settings *s, uint64_t round)
{
  static struct run run;
  uint64_t seed = random_at(s->shared.seed, round) | 1;
  run = (struct run){.settings = s, .round = round};
  begin(&run, seed);
  struct worker workers[MAX_THREADS];
  harness_run(s->shared.threads + 1, seed, deliver_or_end, &run, workers);
  look_at_bytes(&run);
  /* Ids come again with the same neighbours, so one that is taken for a neighbour is found as often
   * as it comes.  Independent are pairs of ids, not calls. */
  double times = (double) run.forgotten / (double) run.n + 1, found = (double) run.found / times,
         bound = 1.1 * s->fpp * (double) run.forgotten / times, most = bound + 8 * sqrt(bound + 1);
  uint64_t left = left_in_the_end(&run);
  bool steady = s->growable || s->kind == CUCKOO || run.least_bytes == run.most_bytes;
  bool good = !run.early && !run.twice && !run.refused && !run.miscounted && !left && steady &&
              found <= most;
  harness_report(good,
                 "window %" PRIu64 ", %" PRIu64 " threads, %" PRIu64 " periods: %" PRIu64
                 " winners, %" PRIu64 " redelivered exactly %" PRIu64
                 " periods late; forgotten too early %" PRIu64 ", two winners %" PRIu64
                 ", refused %" PRIu64 ", forgotten and found %" PRIu64 " of %" PRIu64
                 " (at most %.0f allowed), left in the end %" PRIu64 "; %" PRIu64 " to %" PRIu64
                 " bytes, at most %u layers; copies miscounted %" PRIu64 " of %" PRIu64 "%s\n",
                 s->window, s->shared.threads, atomic_load(&run.ended) - FIRST_PERIOD, run.wins,
                 run.exactly_late, s->window, run.early, run.twice, run.refused, run.found,
                 run.forgotten, most * times, left, run.least_bytes, run.most_bytes,
                 run.most_layers, run.miscounted, run.own_calls, good ? "" : ": WRONG");
  tamis_destroy(run.filter);
  free(run.ids);
  free(run.ends);
  return good;
}

int main(int argc, char **argv)
{
  struct settings s = {.adds = 3000000,
                       .periods = 1000,
                       .window = 4,
                       .fpp = 0.001,
                       .shared = {.threads = 8, .rounds = 1}};
  const struct harness_option options[] = {
      {"adds", "Deliveries in a round (default: 3000000)", .number = &s.adds, .least = 1000},
      {"periods", "Periods in a round, and some more (default: 1000)", .number = &s.periods,
       .least = 1},
      {"window", "Periods for which an id is remembered (default: 4)", .number = &s.window,
       .least = 1, .most = 64},
      {"fpp", "Requested false-positive rate (default: 0.001)", .rate = &s.fpp},
      {"renews", "Unique adds that find an id renew it", .flag = &s.renews},
      {"kind", "Kind of the filter: bloom (default) or cuckoo", .choice = &s.kind,
       .choice_names = kind_names},
      {"growable", "A filter that has to grow", .flag = &s.growable},
      {"bursts", "Some periods have twenty times as many ids", .flag = &s.bursts},
      {0}};
  harness_parse("Finds ids that a window forgets too early, lets win twice, or keeps too long.",
                options, argc, argv, &s.shared);
  if (s.adds / 3 / s.periods == 0 || s.shared.threads >= MAX_THREADS)
    error(2, 0, "there must be three adds for each period, and less than %d threads", MAX_THREADS);
  pauses_install(PAUSE_PERIOD, 0);
  bool good = true;
  for (uint64_t round = 0; harness_more(&s.shared, round); round++)
    good &= run_round(&s, round);
  return harness_verdict(&s.shared, good);
}
