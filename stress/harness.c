/* SPDX-License-Identifier: MIT */
#include "harness.h"

#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char **harness_argv;
static double began;

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

bool harness_more(const struct harness_settings *settings, uint64_t round)
{
  if (settings->seconds)
    return round == 0 || harness_seconds() < began + (double) settings->seconds;
  return round < settings->rounds;
}

/* ---- messages ---- */

int harness_verdict(const struct harness_settings *settings, bool good)
{
  printf("%s: %s in %.1f s (seed %" PRIu64 ")\n", program_invocation_short_name,
         good ? "passed" : "FAILED", harness_seconds() - began, settings->seed);
  if (!good) {
    printf("run it again:");
    for (char **arg = harness_argv; *arg; arg++)
      printf(" %s", *arg);
    printf(" --seed %" PRIu64 "\n", settings->seed);
  }
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- memory ---- */

void *harness_zeroes(size_t n, size_t size)
{
  void *block = calloc(n ? n : 1, size);
  if (!block)
    error(2, errno, "no memory");
  return block;
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

void harness_run(uint64_t threads, uint64_t seed, void (*body)(struct worker *), void *arg,
                 struct worker *workers)
{
  struct start start = {.body = body};
  struct thread *all = harness_zeroes(threads, sizeof *all);
  if (pthread_barrier_init(&start.barrier, NULL, (unsigned) threads))
    error(2, errno, "cannot start");
  for (uint64_t i = 0; i < threads; i++) {
    workers[i] = (struct worker){
        .index = (unsigned) i, .threads = threads, .seed = random_at(seed, i + 1), .arg = arg};
    all[i] = (struct thread){.start = &start, .worker = &workers[i]};
    int failure = pthread_create(&all[i].id, NULL, thread_main, &all[i]);
    if (failure)
      error(2, failure, "cannot start a thread");
  }
  for (uint64_t i = 0; i < threads; i++)
    pthread_join(all[i].id, NULL);
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

/* ---- the command line ---- */

/* Sets the option to the value of the text.  False: the text is none. */
static bool set(const struct harness_option *o, const char *text)
{
  char *end = NULL;
  if (o->choice) {
    for (int i = 0; o->choice_names[i]; i++)
      if (strcmp(text, o->choice_names[i]) == 0) {
        *o->choice = i;
        return true;
      }
    return false;
  }
  errno = 0;
  *o->number = strtoull(text, &end, 10);
  return !errno && end != text && !*end && *text != '-' && *o->number >= o->least &&
         (!o->most || *o->number <= o->most);
}

static _Noreturn void help(const char *doc, const struct harness_option *options)
{
  printf("%s\n\n", doc);
  for (const struct harness_option *o = options; o->name; o++) {
    printf("  --%s VALUE\n      %s\n", o->name, o->help);
    for (int i = 0; o->choice && o->choice_names[i]; i++)
      printf("        %s\n", o->choice_names[i]);
  }
  exit(EXIT_SUCCESS);
}

void harness_parse(const char *doc, const struct harness_option *options, int argc, char **argv,
                   struct harness_settings *settings)
{
  enum { SHARED = 4, MAX_OPTIONS = 16 };
  struct harness_option all[MAX_OPTIONS + 1] = {
      {"threads", "Number of threads", .number = &settings->threads, .least = 1,
       .most = MAX_THREADS},
      {"seed", "Seed of all random numbers", .number = &settings->seed},
      {"rounds", "Number of rounds", .number = &settings->rounds, .least = 1},
      {"seconds", "Begin rounds for this time, instead of --rounds", .number = &settings->seconds}};
  for (unsigned n = SHARED; options->name && n < MAX_OPTIONS; n++)
    all[n] = *options++;
  for (int i = 1; i < argc; i++) {
    const struct harness_option *o = all;
    if (strcmp(argv[i], "--help") == 0)
      help(doc, all);
    while (o->name && (strncmp(argv[i], "--", 2) != 0 || strcmp(argv[i] + 2, o->name) != 0))
      o++;
    if (!o->name)
      error(2, 0, "no option %s; --help lists them", argv[i]);
    if (i + 1 == argc || !set(o, argv[++i]))
      error(2, 0, "--%s: not a value: %s", o->name, argv[i]);
  }
  harness_argv = argv;
  began = harness_seconds();
  if (settings->seed == 0)
    settings->seed = random_at(harness_nanoseconds(), (uint64_t) getpid()) >> 32 | 1;
}
