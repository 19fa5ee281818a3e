/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include "record.h"

#include <error.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- time and cores ---- */

static double seconds_of(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

double now(void)
{
  return seconds_of(CLOCK_MONOTONIC);
}

static cpu_set_t allowed;
static pthread_once_t know_cores = PTHREAD_ONCE_INIT;

static void find_cores(void)
{
  if (sched_getaffinity(0, sizeof allowed, &allowed)) {
    CPU_ZERO(&allowed);
    CPU_SET(0, &allowed);
  }
}

unsigned cores(void)
{
  pthread_once(&know_cores, find_cores);
  return (unsigned) CPU_COUNT(&allowed);
}

void pin(unsigned thread)
{
  unsigned left = thread % cores();
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &allowed) && left-- == 0) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      (void) sched_setaffinity(0, sizeof one, &one); /* the measurement works without it */
      return;
    }
  }
}

/* ---- a pass: several threads go through the keys ---- */

/* A thread takes one slice of the keys after the other.  So all threads end at about the same time,
 * even if one of them loses its core for a while. */
enum { SLICE = 4096, MIN_SLICES = 16 };

struct pass {
  const struct subject *subject;
  const struct workload *workload;
  void *state;
  const uint32_t *hot;
  uint64_t slice, slices, keys;
  double seconds; /* after which no slice is begun; 0: the pass ends when all slices are done */
  pthread_barrier_t barrier;
  _Atomic uint64_t next;
};

struct pass_thread {
  pthread_t id;
  struct pass *pass;
  unsigned number;
  double began, ended, worked;
  uint64_t calls, yes;
};

struct pass_result {
  double seconds, worked;
  uint64_t calls, yes;
};

static bool take_slice(struct pass_thread *t, uint64_t *slice)
{
  struct pass *pass = t->pass;
  if (pass->workload->unpartitioned)
    *slice = t->calls / pass->slice;
  else
    *slice = atomic_fetch_add_explicit(&pass->next, 1, memory_order_relaxed);
  if (pass->seconds > 0)
    return t->calls == 0 || now() < t->began + pass->seconds;
  return *slice < pass->slices;
}

static struct span span_of(const struct pass *pass, uint64_t slice)
{
  const struct workload *w = pass->workload;
  uint64_t filled = (uint64_t) (w->filled * (double) pass->keys);
  uint64_t first = slice % pass->slices * pass->slice, count = pass->slice;
  if (pass->seconds == 0 && first + count > pass->keys)
    count = pass->keys - first;
  uint64_t fresh = pass->keys + first;
  if (w->call == CALL_MIX && filled > pass->slice) /* it looks up the keys that were in before */
    first = first % (filled - pass->slice);
  return (struct span){.first = w->absent ? first_absent + first : first,
                       .count = count,
                       .fresh = fresh,
                       .hot = pass->hot};
}

static void *pass_thread_main(void *arg)
{
  struct pass_thread *t = arg;
  struct pass *pass = t->pass;
  uint64_t slice;
  pin(t->number);
  pthread_barrier_wait(&pass->barrier);
  t->began = now();
  double worked = seconds_of(CLOCK_THREAD_CPUTIME_ID);
  while (take_slice(t, &slice)) {
    struct span span = span_of(pass, slice);
    t->yes += pass->subject->run(pass->subject, pass->state, pass->workload->call, &span);
    t->calls += span.count;
  }
  t->worked = seconds_of(CLOCK_THREAD_CPUTIME_ID) - worked;
  t->ended = now();
  return NULL;
}

static struct pass_result sum_up(const struct pass_thread *threads, unsigned n)
{
  struct pass_result sum = {0};
  double began = threads[0].began, ended = threads[0].ended;
  for (unsigned i = 0; i < n; i++) {
    began = threads[i].began < began ? threads[i].began : began;
    ended = threads[i].ended > ended ? threads[i].ended : ended;
    sum.worked += threads[i].worked;
    sum.calls += threads[i].calls;
    sum.yes += threads[i].yes;
  }
  sum.seconds = ended - began;
  return sum;
}

/* Goes through all keys once, or, if `seconds` is not 0, again and again for that time. */
static struct pass_result run_pass(const struct entry *entry, uint64_t keys, double seconds)
{
  static struct pass_thread threads[MAX_THREADS];
  struct pass pass = {.subject = entry->subject,
                      .workload = entry->workload,
                      .state = entry->state,
                      .hot = hot_keys(entry->workload->skew, keys),
                      .keys = keys,
                      .seconds = seconds};
  pass.slice = keys / MIN_SLICES / BATCH * BATCH;
  pass.slice = pass.slice > SLICE ? SLICE : pass.slice < BATCH ? BATCH : pass.slice;
  /* In a pass that goes through the keys again and again, every slice is a whole one. */
  pass.slices = seconds > 0 ? keys / pass.slice : (keys + pass.slice - 1) / pass.slice;
  pthread_barrier_init(&pass.barrier, NULL, entry->threads);
  for (unsigned i = 0; i < entry->threads; i++) {
    threads[i] = (struct pass_thread){.pass = &pass, .number = i};
    int failure = pthread_create(&threads[i].id, NULL, pass_thread_main, &threads[i]);
    if (failure)
      error(2, failure, "cannot start a thread");
  }
  for (unsigned i = 0; i < entry->threads; i++)
    pthread_join(threads[i].id, NULL);
  pthread_barrier_destroy(&pass.barrier);
  return sum_up(threads, entry->threads);
}

/* ---- states: what is measured ---- */

static uint64_t keys_before(const struct experiment *x, const struct entry *entry)
{
  return (uint64_t) (entry->workload->filled * (double) x->keys);
}

static enum call fill_call(const struct entry *entry)
{
  return entry->workload->call == CALL_CONTAINS_BYTES ? CALL_ADD_BYTES : CALL_ADD;
}

static void create_state(const struct experiment *x, struct entry *entry)
{
  /* A filter that grows allocates its memory in calls; with all others no call should fault pages
   * in. */
  struct spec spec = {.capacity = entry->capacity,
                      .fpp = entry->fpp,
                      .bytes = entry->bytes,
                      .prefaulted = entry->capacity >= x->keys};
  struct span span = {.count = keys_before(x, entry)};
  entry->state = entry->subject->create(entry->subject, &spec);
  if (!entry->subject->is_machine)
    entry->subject->run(entry->subject, entry->state, fill_call(entry), &span);
}

static void destroy_state(struct entry *entry)
{
  if (entry->state)
    entry->subject->destroy(entry->subject, entry->state);
  entry->state = NULL;
}

/* ---- one measurement ---- */

/* Counts the answers that cannot be right.  No key is missed or refused, an exact set has no false
 * positives, and no two unique adds of a key win. */
static uint64_t wrong_answers(const struct experiment *x, const struct entry *entry,
                              const struct pass_result *pass)
{
  const struct workload *w = entry->workload;
  bool exact = entry->subject->exact;
  if (entry->subject->is_machine || w->call == CALL_MIX)
    return 0;
  if (w->call == CALL_ADD_UNIQUE) {
    if (!w->changes) /* no key is new; but a single hot key is, once in the life of the filter */
      return pass->yes > (w->skew == ONE_KEY);
    return pass->yes > x->keys || (exact && w->skew == NO_SKEW && pass->yes < x->keys);
  }
  if (w->absent)
    return exact ? pass->yes : 0;
  return pass->calls - pass->yes;
}

/* Measures new filters until the passes have taken `seconds`, or all of it three times as long. */
static struct pass_result measure_changes(const struct experiment *x, struct entry *entry,
                                          double seconds)
{
  struct pass_result sum = {0};
  const double deadline = now() + 3 * seconds;
  do {
    create_state(x, entry);
    const struct pass_result pass = run_pass(entry, x->keys, 0);
    entry->series.wrong += wrong_answers(x, entry, &pass);
    destroy_state(entry);
    sum.seconds += pass.seconds;
    sum.worked += pass.worked;
    sum.calls += pass.calls;
  } while (sum.seconds < seconds && now() < deadline);
  return sum;
}

static struct pass_result measure(const struct experiment *x, struct entry *entry, double seconds)
{
  if (entry->workload->changes)
    return measure_changes(x, entry, seconds);
  struct pass_result pass = run_pass(entry, x->keys, seconds);
  entry->series.wrong += wrong_answers(x, entry, &pass);
  return pass;
}

static void record_round(struct entry *entry, const struct pass_result *pass, bool cpu_time)
{
  struct series *s = &entry->series;
  unsigned at_once = entry->threads < cores() ? entry->threads : cores();
  double worked = pass->worked / at_once, took = cpu_time ? worked : pass->seconds;
  s->ns[s->rounds++] = pass->calls ? 1e9 * took / (double) pass->calls : 0;
  s->busy += (worked / pass->seconds - s->busy) / s->rounds;
}

/* ---- an experiment ---- */

struct experiment experiment(const char *title, uint64_t keys, double fpp)
{
  return (struct experiment){.title = title, .keys = keys, .fpp = fpp};
}

unsigned add_entry_for(struct experiment *x, const char *workload, const char *subject,
                       unsigned threads, uint64_t capacity)
{
  struct entry entry = {.workload = workload_find(workload),
                        .subject = subject_find(subject),
                        .threads = threads,
                        .capacity = capacity,
                        .fpp = x->fpp};
  if (!entry.workload || !entry.subject)
    error(2, 0, "no such workload or subject: %s, %s", workload, subject);
  if (!subject_can(entry.subject, entry.workload->call) ||
      (threads > 1 && !entry.subject->concurrent))
    error(2, 0, "%s cannot do that: %s, %u threads", subject, workload, threads);
  if (x->count == MAX_ENTRIES)
    error(2, 0, "too many subjects in an experiment");
  x->entries[x->count] = entry;
  return x->count++;
}

unsigned add_entry(struct experiment *x, const char *workload, const char *subject,
                   unsigned threads)
{
  return add_entry_for(x, workload, subject, threads, x->keys);
}

unsigned add_entry_at(struct experiment *x, const char *workload, const char *subject,
                      unsigned threads, double fpp)
{
  unsigned number = add_entry(x, workload, subject, threads);
  x->entries[number].fpp = fpp;
  return number;
}

unsigned add_machine_entry(struct experiment *x, const char *subject, unsigned threads,
                           const char *like)
{
  unsigned number = add_entry(x, "hit", subject, threads);
  const struct subject *filter = subject_find(like);
  struct spec spec = {.capacity = x->keys, .fpp = x->fpp};
  x->entries[number].bytes = filter->bytes(filter, &spec);
  return number;
}

/* An entry before this one that has the same state.  Workloads that change nothing share their
 * filter. */
static const struct entry *earlier_entry_like(const struct experiment *x, const struct entry *entry)
{
  for (const struct entry *e = x->entries; e < entry; e++)
    if (e->subject == entry->subject && e->capacity == entry->capacity && e->fpp == entry->fpp &&
        e->bytes == entry->bytes && !e->workload->changes &&
        keys_before(x, e) == keys_before(x, entry) && fill_call(e) == fill_call(entry))
      return e;
  return NULL;
}

static void create_shared_states(struct experiment *x)
{
  for (struct entry *e = x->entries; e < x->entries + x->count; e++) {
    const struct entry *same = earlier_entry_like(x, e);
    if (e->workload->changes)
      continue;
    if (same)
      e->state = same->state;
    else
      create_state(x, e);
  }
}

static void destroy_shared_states(struct experiment *x)
{
  for (struct entry *e = x->entries + x->count; e-- > x->entries;) {
    if (earlier_entry_like(x, e))
      e->state = NULL;
    destroy_state(e);
  }
}

void experiment_run(struct experiment *x, const struct settings *settings)
{
  enum { WARM_UP = 4 }; /* times shorter than a measurement */
  create_shared_states(x);
  for (unsigned i = 0; i < x->count; i++)
    if (!x->entries[i].workload->changes) /* a new filter is cold in any case */
      measure(x, &x->entries[i], settings->seconds / WARM_UP);
  for (unsigned round = 0; round < settings->rounds; round++) {
    for (unsigned i = 0; i < x->count; i++) {
      struct pass_result pass = measure(x, &x->entries[i], settings->seconds);
      record_round(&x->entries[i], &pass, settings->cpu_time);
    }
  }
  destroy_shared_states(x);
  record_experiment(x);
  if (!settings->quiet)
    print_experiment(x);
}

/* ---- quartiles ---- */

static int compare(const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

double series_quartile(const struct series *series, unsigned number)
{
  double sorted[MAX_ROUNDS];
  if (series->rounds == 0)
    return 0;
  memcpy(sorted, series->ns, series->rounds * sizeof *sorted);
  qsort(sorted, series->rounds, sizeof *sorted, compare);
  double at = 0.25 * number * (series->rounds - 1);
  unsigned below = (unsigned) at;
  double rest = at - below;
  return rest > 0 ? sorted[below] * (1 - rest) + sorted[below + 1] * rest : sorted[below];
}

double median_of(const struct experiment *x, unsigned entry)
{
  return series_quartile(&x->entries[entry].series, 2);
}
