/* SPDX-License-Identifier: MIT */
#include "harness.h"

#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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

void harness_run(unsigned threads, uint64_t seed, void (*body)(struct worker *), void *arg,
                 struct worker *workers)
{
  struct start start = {.body = body};
  struct thread *all = calloc(threads, sizeof *all);
  if (!all || pthread_barrier_init(&start.barrier, NULL, threads))
    error(2, errno, "cannot start");
  for (unsigned i = 0; i < threads; i++) {
    workers[i] =
        (struct worker){.index = i, .threads = threads, .seed = random_at(seed, i + 1), .arg = arg};
    all[i] = (struct thread){.start = &start, .worker = &workers[i]};
    int failure = pthread_create(&all[i].id, NULL, thread_main, &all[i]);
    if (failure)
      error(2, failure, "cannot start a thread");
  }
  for (unsigned i = 0; i < threads; i++)
    pthread_join(all[i].id, NULL);
  pthread_barrier_destroy(&start.barrier);
  free(all);
}

struct range harness_share(const struct worker *worker, uint64_t n)
{
  uint64_t part = n / worker->threads, rest = n % worker->threads, i = worker->index;
  uint64_t begin = i * part + (i < rest ? i : rest);
  return (struct range){begin, begin + part + (i < rest)};
}

double harness_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

int harness_verdict(const char *program, uint64_t seed, bool good)
{
  printf("%s: %s (seed %" PRIu64 ")\n", program, good ? "passed" : "FAILED", seed);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

uint64_t harness_number(const char *text)
{
  char *end;
  errno = 0;
  uint64_t number = strtoull(text, &end, 10);
  if (errno || end == text || *end || *text == '-')
    error(2, 0, "not a number: %s", text);
  return number;
}

double harness_rate(const char *text)
{
  char *end;
  double rate = strtod(text, &end);
  if (end == text || *end || !(rate > 0 && rate < 1))
    error(2, 0, "not a rate: %s", text);
  return rate;
}

static error_t parse_shared(int key, char *arg, struct argp_state *state)
{
  struct harness_settings *settings = state->input;
  switch (key) {
  case 't':
    settings->threads = (unsigned) harness_number(arg);
    if (settings->threads < 1 || settings->threads > MAX_THREADS)
      argp_error(state, "threads: 1 to %d", MAX_THREADS);
    return 0;
  case 's':
    settings->seed = harness_number(arg);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option shared_options[] = {
    {"threads", 't', "N", 0, "Threads", 0}, {"seed", 's', "N", 0, "Replays a run", 0}, {0}};
static const struct argp shared = {shared_options, parse_shared, NULL, NULL, NULL, NULL, NULL};
static const struct argp_child children[] = {{&shared, 0, "In every program:", 1}, {0}};

/* Hands the settings on to the shared parser, then goes on as the program's own. */
static argp_parser_t program_parse;

static error_t parse_both(int key, char *arg, struct argp_state *state)
{
  if (key == ARGP_KEY_INIT) {
    state->child_inputs[0] = state->input;
    return 0;
  }
  return program_parse(key, arg, state);
}

void harness_parse(const char *what, const struct argp_option *options, argp_parser_t parse,
                   int argc, char **argv, void *settings)
{
  program_parse = parse;
  struct argp argp = {options, parse_both, NULL, what, children, NULL, NULL};
  argp_parse(&argp, argc, argv, 0, NULL, settings);
  struct harness_settings *shared_settings = settings;
  if (shared_settings->seed == 0) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    shared_settings->seed = random_at((uint64_t) now.tv_sec, (uint64_t) now.tv_nsec) >> 32 | 1;
  }
}
