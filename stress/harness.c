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

uint64_t harness_seed(const char *text)
{
  if (text)
    return harness_number(text);
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return random_at((uint64_t) now.tv_sec, (uint64_t) now.tv_nsec) >> 32;
}
