/* SPDX-License-Identifier: MIT */
#include "pass.h"

#include "chain.h"
#include "interrupt.h"
#include "lines.h"
#include "report.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REDRAW_EVERY 0.2 /* seconds */

struct pool {
  const struct pass *pass;
  struct source source;
  struct counters *counters; /* one for each worker */
  pthread_mutex_t lock;
  pthread_cond_t finished;
  unsigned running; /* protected by lock */
};

struct worker {
  struct pool *pool;
  struct counters *counters;
  struct key_finder *finder; /* NULL: each line is its own key */
  pthread_t thread;
};

/* Consecutive lines of a chunk: line i is [start[i], start[i + 1]).  The hashes are those of the lines
 * that have a key. */
struct batch {
  size_t count, keys;
  size_t start[BATCH + 1];
  uint64_t hash[BATCH];
  bool keyed[BATCH]; /* where there is a finder */
  bool chosen[BATCH];
  const tamis_filter *hasher;
};

/* The first key of a line is the one that counts. */
static bool hash_key(void *context, const char *key, size_t length)
{
  struct batch *batch = context;
  batch->hash[batch->keys++] = tamis_hash(batch->hasher, key, length);
  return true;
}

/* False: line n cannot be searched. */
static bool find_key(struct batch *batch, size_t n, struct key_finder *finder, char *line,
                     size_t length)
{
  batch->keyed[n] = key_finder_each(finder, line, length, hash_key, batch);
  return !finder->failed;
}

/* Finds and hashes the keys of the next lines of the chunk, from offset `at` on, up to one that cannot
 * be searched.  The newline is not part of a line. */
static void cut_batch(struct batch *batch, struct key_finder *finder, const struct chunk *chunk,
                      size_t at)
{
  size_t n = 0;
  batch->keys = 0;
  for (; n < BATCH && at < chunk->length; n++) {
    char *line = chunk->data + at;
    const char *newline = memchr(line, '\n', chunk->length - at);
    size_t length = (size_t) (newline - line); /* a chunk always ends with a newline */
    batch->start[n] = at;
    if (finder == NULL)
      batch->hash[n] = tamis_hash(batch->hasher, line, length);
    else if (!find_key(batch, n, finder, line, length))
      break;
    at += length + 1;
  }
  batch->start[n] = at;
  batch->count = n;
  if (finder == NULL)
    batch->keys = n;
}

/* The answers for the keys become those for the lines.  After a failure, no line is chosen behind the
 * last one whose key was. */
static void answer_for_lines(struct batch *batch, bool takes_keyless, bool good)
{
  size_t key = batch->keys;
  for (size_t i = batch->count; i-- > 0;) {
    batch->chosen[i] = batch->keyed[i] ? batch->chosen[--key] : takes_keyless && good;
    good = good || batch->chosen[i];
  }
}

/* False after fail(). */
static bool choose(const struct pass *pass, struct batch *batch)
{
  bool good =
      batch->keys == 0 || pass->choose(pass->context, batch->hash, batch->keys, batch->chosen);
  if (batch->keys < batch->count)
    answer_for_lines(batch, pass->takes_keyless, good);
  return good;
}

/* Moves the chosen lines of the batch down to offset `kept` of the chunk, adjacent ones together;
 * returns the offset behind them.  The chunk is its own output buffer, so that input and output
 * share the same lines of the cache. */
static size_t keep_chosen(const struct batch *batch, char *data, size_t kept)
{
  for (size_t i = 0; i < batch->count;) {
    size_t first = i;
    while (i < batch->count && batch->chosen[i])
      i++;
    size_t length = batch->start[i] - batch->start[first];
    if (length > 0 && kept != batch->start[first])
      memmove(data + kept, data + batch->start[first], length);
    kept += length;
    while (i < batch->count && !batch->chosen[i])
      i++;
  }
  return kept;
}

static size_t count_chosen(const struct batch *batch)
{
  size_t count = 0;
  for (size_t i = 0; i < batch->count; i++)
    count += batch->chosen[i];
  return count;
}

/* Moves the chosen lines to the front of the chunk; returns their length.  After a failure it
 * chooses no more lines, so that the output has no gap. */
static size_t keep_chosen_lines(const struct worker *worker, struct chunk *chunk)
{
  const struct pass *pass = worker->pool->pass;
  struct batch batch;
  size_t kept = 0;
  bool good = true;
  batch.hasher = pass->hasher;
  for (size_t at = 0; good && at < chunk->length; at = batch.start[batch.count]) {
    cut_batch(&batch, worker->finder, chunk, at);
    good = choose(pass, &batch);
    size_t chosen = count_chosen(&batch);
    if (chosen > 0)
      kept = keep_chosen(&batch, chunk->data, kept);
    counters_add(worker->counters, &(struct tally){.bytes = batch.start[batch.count] - at,
                                                   .lines = batch.count,
                                                   .chosen = chosen,
                                                   .keyless = batch.count - batch.keys});
    if (worker->finder != NULL && worker->finder->failed) {
      fail(KEY_FAILED, chunk->name);
      good = false;
    }
  }
  return kept;
}

static void work_on_chunks(struct worker *worker)
{
  struct pool *pool = worker->pool;
  struct chunk chunk = {0};
  struct gate *gate = pool->pass->gate;
  while (source_next(&pool->source, &chunk)) {
    if (gate != NULL)
      gate_enter(gate);
    chunk.length = keep_chosen_lines(worker, &chunk);
    if (chunk.length > 0 && pool->pass->output != NULL)
      output_write(pool->pass->output, &chunk);
    if (gate != NULL)
      gate_leave(gate);
  }
  chunk_free(&chunk);
}

/* Each thread has a finder of its own. */
static void work(struct worker *worker)
{
  const struct key_rule *rule = worker->pool->pass->keys;
  struct key_finder finder;
  char why[256];
  if (key_rule_is_plain(rule)) {
    work_on_chunks(worker);
  } else if (key_finder_init(&finder, rule, why, sizeof why)) {
    worker->finder = &finder;
    work_on_chunks(worker);
    key_finder_free(&finder);
  } else {
    fail("--regex: %s", why);
  }
}

static void *thread_main(void *argument)
{
  struct worker *worker = argument;
  struct pool *pool = worker->pool;
  work(worker);
  pthread_mutex_lock(&pool->lock);
  if (--pool->running == 0)
    pthread_cond_signal(&pool->finished);
  pthread_mutex_unlock(&pool->lock);
  return NULL;
}

/* The time of the next redraw, or of the next tick if that is earlier. */
static struct timespec next_redraw(const struct pass *pass)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  bool earlier = pass->tick != NULL && pass->tick_every > 0 && pass->tick_every < REDRAW_EVERY;
  time.tv_nsec += (long) (1e9 * (earlier ? pass->tick_every : REDRAW_EVERY));
  time.tv_sec += time.tv_nsec / 1000000000;
  time.tv_nsec %= 1000000000;
  return time;
}

/* Draws progress, and calls pass->tick, until the workers have finished. */
static void attend(struct pool *pool, struct pass *pass)
{
  pthread_mutex_lock(&pool->lock);
  while (pool->running > 0) {
    struct timespec deadline = next_redraw(pass);
    if (pthread_cond_timedwait(&pool->finished, &pool->lock, &deadline) != ETIMEDOUT)
      continue;
    pthread_mutex_unlock(&pool->lock); /* the terminal may be slow or stopped */
    struct tally done = counters_sum(pool->counters, pass->threads);
    if (pass->show_progress)
      progress_draw(&pass->progress, &done);
    if (pass->tick != NULL)
      pass->tick(pass->tick_context);
    pthread_mutex_lock(&pool->lock);
  }
  pthread_mutex_unlock(&pool->lock);
  progress_clear(&pass->progress);
}

/* Starts as many threads as the system allows; returns how many. */
static unsigned start_workers(struct pool *pool, struct worker *workers, unsigned wanted)
{
  unsigned started = 0;
  sigset_t before;
  interrupt_hold(&before); /* the workers inherit this; the main thread ends the process */
  for (; started < wanted; started++) {
    struct worker *worker = &workers[started];
    *worker = (struct worker){.pool = pool, .counters = &pool->counters[started]};
    pthread_mutex_lock(&pool->lock);
    pool->running++;
    pthread_mutex_unlock(&pool->lock);
    if (pthread_create(&worker->thread, NULL, thread_main, worker) == 0)
      continue;
    pthread_mutex_lock(&pool->lock);
    pool->running--;
    pthread_mutex_unlock(&pool->lock);
    break;
  }
  interrupt_restore(&before);
  return started;
}

static void run_workers(struct pool *pool, struct worker *workers, struct pass *pass)
{
  unsigned started = start_workers(pool, workers, pass->threads);
  if (started == 0)
    work(&workers[0]); /* which start_workers has prepared */
  else if (pass->show_progress || pass->tick != NULL)
    attend(pool, pass);
  for (unsigned i = 0; i < started; i++)
    pthread_join(workers[i].thread, NULL);
}

static void pool_init(struct pool *pool, const struct pass *pass)
{
  *pool = (struct pool){.pass = pass};
  source_init(&pool->source, pass->inputs, pass->input_count,
              pass->stop != NULL ? *pass->stop : -1);
  pthread_mutex_init(&pool->lock, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&pool->finished, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

static void pool_destroy(struct pool *pool)
{
  pthread_cond_destroy(&pool->finished);
  pthread_mutex_destroy(&pool->lock);
  source_destroy(&pool->source);
}

void pass_run(struct pass *pass)
{
  struct pool pool;
  pool_init(&pool, pass);
  size_t counter_bytes = pass->threads * sizeof *pool.counters;
  pool.counters = aligned_alloc(alignof(struct counters), counter_bytes);
  struct worker *workers = calloc(pass->threads, sizeof *workers);
  pass->progress.start = now_seconds();
  pass->progress.bytes_expected = inputs_bytes(pass->inputs, pass->input_count);
  if (pool.counters != NULL && workers != NULL) {
    memset(pool.counters, 0, counter_bytes);
    run_workers(&pool, workers, pass);
    pass->done = counters_sum(pool.counters, pass->threads);
  } else {
    fail("out of memory");
  }
  pass->seconds = now_seconds() - pass->progress.start;
  free(workers);
  free(pool.counters);
  pool_destroy(&pool);
}
