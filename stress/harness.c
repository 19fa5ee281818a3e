/* SPDX-License-Identifier: MIT */
#include "harness.h"

#include <argp.h>
#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
  char **argv;
  double began;
  struct histogram latency;
  struct histogram worker_latency[MAX_THREADS];

  pthread_mutex_t lock; /* protects the fields below */
  pthread_cond_t ended;
  bool ends;
  uint64_t calls;               /* of workers that have ended */
  const struct worker *workers; /* those at work */
  uint64_t threads;
} harness = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

/* ---- time ---- */

uint64_t harness_nanoseconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

double harness_seconds(void)
{
  return (double) harness_nanoseconds() * 1e-9;
}

uint64_t call_begins(struct worker *worker)
{
  /* Relaxed: only this thread writes it, and the reader only prints a number. */
  uint64_t calls = atomic_load_explicit(&worker->calls, memory_order_relaxed);
  atomic_store_explicit(&worker->calls, calls + 1, memory_order_relaxed);
  return calls % CALLS_PER_TIMED ? 0 : harness_nanoseconds();
}

void call_ends(const struct worker *worker, uint64_t began)
{
  if (began)
    histogram_add(&harness.worker_latency[worker->index], harness_nanoseconds() - began);
}

/* ---- progress ---- */

static uint64_t calls_so_far_locked(void)
{
  uint64_t calls = harness.calls;
  for (unsigned i = 0; i < harness.threads; i++)
    calls += atomic_load_explicit(&harness.workers[i].calls, memory_order_relaxed);
  return calls;
}

/* Prints progress: on a terminal a line that is redrawn every second, elsewhere a line every
 * minute. */
static void *show_progress(void *arg)
{
  const struct harness_settings *s = arg;
  bool terminal = isatty(STDERR_FILENO);
  pthread_mutex_lock(&harness.lock);
  while (!harness.ends) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += terminal ? 1 : 60;
    if (pthread_cond_timedwait(&harness.ended, &harness.lock, &until) != ETIMEDOUT)
      continue;
    uint64_t calls = calls_so_far_locked();
    double seconds = harness_seconds() - harness.began;
    fprintf(stderr, "%s%s: %.0f s", terminal ? "\r" : "", program_invocation_short_name, seconds);
    if (s->seconds)
      fprintf(stderr, " of %" PRIu64, s->seconds);
    fprintf(stderr, ", %.1f million calls", 1e-6 * (double) calls);
    if (s->operations)
      fprintf(stderr, " of %.1f", 1e-6 * (double) s->operations);
    fprintf(stderr, ", seed %" PRIu64 "%s", s->seed, terminal ? "   " : "\n");
  }
  if (terminal)
    fprintf(stderr, "\r\033[K");
  pthread_mutex_unlock(&harness.lock);
  return NULL;
}

static pthread_t progress;

static void end_progress(void)
{
  pthread_mutex_lock(&harness.lock);
  harness.ends = true;
  pthread_cond_signal(&harness.ended);
  pthread_mutex_unlock(&harness.lock);
  pthread_join(progress, NULL);
}

static void begin(struct harness_settings *settings, char **argv)
{
  harness.argv = argv;
  harness.began = harness_seconds();
  if (settings->seed == 0)
    settings->seed = random_at(harness_nanoseconds(), (uint64_t) getpid()) >> 32 | 1;
  int failure = pthread_create(&progress, NULL, show_progress, settings);
  if (failure)
    error(2, failure, "cannot start a thread");
}

bool harness_more(const struct harness_settings *settings, uint64_t round)
{
  if (round == 0)
    return true;
  if (!settings->seconds && !settings->operations)
    return round < settings->rounds;
  return (!settings->seconds || harness_seconds() < harness.began + (double) settings->seconds) &&
         (!settings->operations || harness.calls < settings->operations);
}

void harness_report(bool good, const char *format, ...)
{
  enum { MAX_LINES = 24 };
  static unsigned lines;
  va_list arguments;
  if (good && lines++ >= MAX_LINES)
    return;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
}

uint64_t harness_mismatch(const char *what, uint64_t actual, uint64_t expected)
{
  fprintf(stderr, "%s: %" PRIu64 ", should be %" PRIu64 "\n", what, actual, expected);
  return 1;
}

int harness_verdict(const struct harness_settings *settings, bool good)
{
  end_progress();
  if (harness.calls)
    printf("%" PRIu64 " calls in %.1f s\n", harness.calls, harness_seconds() - harness.began);
  if (harness.latency.all)
    histogram_print(&harness.latency);
  printf("%s: %s (seed %" PRIu64 ")\n", program_invocation_short_name, good ? "passed" : "FAILED",
         settings->seed);
  if (!good) {
    printf("run it again:");
    for (char **arg = harness.argv; *arg; arg++)
      printf(" %s", *arg);
    printf(" --seed %" PRIu64 "\n", settings->seed);
  }
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- threads ---- */

struct start {
  pthread_barrier_t barrier;
  void (*body)(struct worker *);
};

struct thread {
  pthread_t id;
  struct start *start;
  struct worker *worker;
};

static void *thread_main(void *arg)
{
  struct thread *thread = arg;
  pthread_barrier_wait(&thread->start->barrier);
  thread->start->body(thread->worker);
  return NULL;
}

static void set_workers(const struct worker *workers, uint64_t threads)
{
  pthread_mutex_lock(&harness.lock);
  harness.calls = calls_so_far_locked();
  harness.workers = workers;
  harness.threads = threads;
  pthread_mutex_unlock(&harness.lock);
}

void harness_run(uint64_t threads, uint64_t seed, void (*body)(struct worker *), void *arg,
                 struct worker *workers)
{
  struct start start = {.body = body};
  struct thread *all = calloc(threads, sizeof *all);
  if (!all || pthread_barrier_init(&start.barrier, NULL, (unsigned) threads))
    error(2, errno, "cannot start");
  for (uint64_t i = 0; i < threads; i++)
    workers[i] = (struct worker){
        .index = (unsigned) i, .threads = threads, .seed = random_at(seed, i + 1), .arg = arg};
  set_workers(workers, threads);
  for (uint64_t i = 0; i < threads; i++) {
    all[i] = (struct thread){.start = &start, .worker = &workers[i]};
    int failure = pthread_create(&all[i].id, NULL, thread_main, &all[i]);
    if (failure)
      error(2, failure, "cannot start a thread");
  }
  for (uint64_t i = 0; i < threads; i++)
    pthread_join(all[i].id, NULL);
  set_workers(NULL, 0);
  for (uint64_t i = 0; i < threads && i < MAX_THREADS; i++)
    histogram_move(&harness.latency, &harness.worker_latency[i]);
  pthread_barrier_destroy(&start.barrier);
  free(all);
}

uint64_t harness_results(const struct worker *workers, uint64_t threads)
{
  uint64_t sum = 0;
  for (uint64_t i = 0; i < threads; i++)
    sum += workers[i].result;
  return sum;
}

struct range harness_share(const struct worker *worker, uint64_t n)
{
  uint64_t part = n / worker->threads, rest = n % worker->threads, i = worker->index;
  uint64_t begin = i * part + (i < rest ? i : rest);
  return (struct range){begin, begin + part + (i < rest)};
}

/* ---- the command line ---- */

static uint64_t parse_number(struct argp_state *state, const struct harness_option *o,
                             const char *text)
{
  char *end;
  errno = 0;
  uint64_t number = strtoull(text, &end, 10);
  if (errno || end == text || *end || *text == '-')
    argp_error(state, "%s: not a number: %s", o->name, text);
  if (number < o->least || (o->most && number > o->most))
    argp_error(state, "%s: must be from %" PRIu64 " to %" PRIu64, o->name, o->least,
               o->most ? o->most : UINT64_MAX);
  return number;
}

static double parse_rate(struct argp_state *state, const struct harness_option *o, const char *text)
{
  char *end;
  double rate = strtod(text, &end);
  if (end == text || *end || !(rate > 0 && rate < 1))
    argp_error(state, "%s: not a rate: %s", o->name, text);
  return rate;
}

static int parse_choice(struct argp_state *state, const struct harness_option *o, const char *text)
{
  for (int i = 0; o->choice_names[i]; i++)
    if (strcmp(text, o->choice_names[i]) == 0)
      return i;
  argp_error(state, "%s: unknown name: %s", o->name, text);
  return 0;
}

/* state->input is the array of options. */
static error_t parse(int key, char *arg, struct argp_state *state)
{
  const struct harness_option *o = state->input;
  while (o->name && o->letter != key)
    o++;
  if (!o->name)
    return ARGP_ERR_UNKNOWN;
  if (o->number)
    *o->number = parse_number(state, o, arg);
  else if (o->rate)
    *o->rate = parse_rate(state, o, arg);
  else if (o->choice)
    *o->choice = parse_choice(state, o, arg);
  else
    *o->flag = true;
  return 0;
}

enum { MAX_OPTIONS = 16 };

static void run_argp(const char *doc, struct harness_option *options, int argc, char **argv)
{
  struct argp_option table[MAX_OPTIONS + 1] = {0};
  for (unsigned i = 0; options[i].name; i++) {
    for (unsigned j = 0; j < i; j++)
      if (options[j].letter == options[i].letter) {
        fprintf(stderr, "--%s and --%s have the same letter\n", options[j].name, options[i].name);
        abort();
      }
    table[i] = (struct argp_option){.name = options[i].name,
                                    .key = options[i].letter,
                                    .arg = options[i].number   ? "N"
                                           : options[i].rate   ? "P"
                                           : options[i].choice ? "NAME"
                                                               : NULL,
                                    .doc = options[i].help};
  }
  struct argp argp = {.options = table, .parser = parse, .doc = doc};
  argp_err_exit_status = 2;
  argp_parse(&argp, argc, argv, 0, NULL, options);
}

void harness_parse(const char *doc, const struct harness_option *options, int argc, char **argv,
                   struct harness_settings *settings)
{
  struct harness_option all[MAX_OPTIONS + 1] = {
      {"threads", 't', "Number of threads", .number = &settings->threads, .least = 1,
       .most = MAX_THREADS},
      {"seed", 's', "Seed of all random numbers", .number = &settings->seed},
      {"rounds", 'r', "Number of rounds", .number = &settings->rounds, .least = 1},
      {"seconds", 'e', "Begin rounds for this time, instead of --rounds",
       .number = &settings->seconds},
      {"operations", 'o', "Begin rounds until this number of calls, instead of --rounds",
       .number = &settings->operations}};
  for (unsigned n = 5; options && options->name && n < MAX_OPTIONS; n++)
    all[n] = *options++;
  run_argp(doc, all, argc, argv);
  begin(settings, argv);
}
