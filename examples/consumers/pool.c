/* SPDX-License-Identifier: MIT */
#include "pool.h"
#include "say.h"
#include "work.h"

#include <amqp_framing.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct list {
  struct delivery *first, **end;
};

struct pool {
  struct once *once;
  struct figures *figures;
  pthread_mutex_t mutex; /* for all below */
  pthread_cond_t not_empty;
  struct list ready, held, failed;
  unsigned count;                           /* deliveries here, those that are being worked too */
  struct acknowledgement *acknowledgements; /* a ring; there is one place for each delivery */
  unsigned limit, first, waiting;
  bool stopping;
  int bell;
  unsigned thread_count;
  struct worker {
    struct pool *pool;
    unsigned number;
    pthread_t thread;
  } workers[];
};

/* ---- lists ---- */

static void make_empty(struct list *list)
{
  list->first = NULL;
  list->end = &list->first;
}

static void append(struct list *list, struct delivery *delivery)
{
  delivery->next = NULL;
  *list->end = delivery;
  list->end = &delivery->next;
}

static struct delivery *take_first(struct list *list)
{
  struct delivery *delivery = list->first;
  if (delivery != NULL && (list->first = delivery->next) == NULL)
    list->end = &list->first;
  return delivery;
}

static void move_all(struct list *from, struct list *to)
{
  if (from->first == NULL)
    return;
  *to->end = from->first;
  to->end = from->end;
  make_empty(from);
}

static void delivery_free(struct delivery *delivery)
{
  amqp_destroy_envelope(&delivery->envelope);
  free(delivery);
}

static unsigned free_all(struct list *list)
{
  unsigned count = 0;
  struct delivery *delivery;
  for (; (delivery = take_first(list)) != NULL; count++)
    delivery_free(delivery);
  return count;
}

/* ---- workers ---- */

/* The next delivery, or NULL if the pool stops. */
static struct delivery *take(struct pool *pool)
{
  struct delivery *delivery = NULL;
  pthread_mutex_lock(&pool->mutex);
  while (!pool->stopping && (delivery = take_first(&pool->ready)) == NULL)
    pthread_cond_wait(&pool->not_empty, &pool->mutex);
  pthread_mutex_unlock(&pool->mutex);
  return delivery;
}

static amqp_bytes_t message_id(const struct delivery *delivery)
{
  const amqp_basic_properties_t *properties = &delivery->envelope.message.properties;
  return properties->_flags & AMQP_BASIC_MESSAGE_ID_FLAG ? properties->message_id
                                                         : amqp_empty_bytes;
}

/* Steps 1 and 2; a message that somebody else has in hand is held until the next release.
 *
 * The second try, under the mutex, is for a release that comes between the first one and append():
 * whoever releases takes the mutex afterwards, in wake_held(). */
static enum once_begin begin(struct pool *pool, struct delivery *delivery, amqp_bytes_t id)
{
  enum once_begin answer = once_begin(pool->once, id.bytes, id.len, &delivery->claim);
  if (answer != ONCE_CLAIMED)
    return answer;
  pthread_mutex_lock(&pool->mutex);
  answer = once_begin(pool->once, id.bytes, id.len, &delivery->claim);
  if (answer == ONCE_CLAIMED)
    append(&pool->held, delivery);
  pthread_mutex_unlock(&pool->mutex);
  if (answer == ONCE_CLAIMED)
    atomic_fetch_add(&pool->figures->held, 1);
  return answer;
}

/* Copies of the message that was released are next.  A message that was held by a false positive
 * waits for pool_try_again(). */
static void wake_held(struct pool *pool, uint64_t claim)
{
  struct list others;
  struct delivery *delivery;
  pthread_mutex_lock(&pool->mutex);
  make_empty(&others);
  while ((delivery = take_first(&pool->held)) != NULL) {
    bool copy = delivery->claim == claim;
    append(copy ? &pool->ready : &others, delivery);
    if (copy)
      pthread_cond_signal(&pool->not_empty);
  }
  move_all(&others, &pool->held);
  pthread_mutex_unlock(&pool->mutex);
}

static void acknowledge(struct pool *pool, struct delivery *delivery)
{
  pthread_mutex_lock(&pool->mutex);
  struct acknowledgement *free_place =
      &pool->acknowledgements[(pool->first + pool->waiting) % pool->limit];
  free_place->connection = delivery->connection;
  free_place->tag = delivery->envelope.delivery_tag;
  bool ring = pool->waiting++ == 0;
  pthread_mutex_unlock(&pool->mutex);
  if (ring)
    eventfd_write(pool->bell, 1);
  delivery_free(delivery);
}

static void try_later(struct pool *pool, struct delivery *delivery)
{
  atomic_fetch_add(&pool->figures->failed, 1);
  pthread_mutex_lock(&pool->mutex);
  append(&pool->failed, delivery);
  pthread_mutex_unlock(&pool->mutex);
}

static bool do_work(struct worker *worker, const struct delivery *delivery, amqp_bytes_t id)
{
  const amqp_bytes_t *body = &delivery->envelope.message.body;
  if (!work(worker->number, id.bytes, id.len, body->bytes, body->len))
    return false;
  atomic_fetch_add(&worker->pool->figures->worked, 1);
  return true;
}

/* A message without an id is worked each time that it comes. */
static void handle_without_id(struct worker *worker, struct delivery *delivery)
{
  struct pool *pool = worker->pool;
  atomic_fetch_add(&pool->figures->without_id, 1);
  if (do_work(worker, delivery, amqp_cstring_bytes("-")))
    acknowledge(pool, delivery);
  else
    try_later(pool, delivery);
}

/* Step 4.  Without room for it, the message must be acknowledged nevertheless: it was worked. */
static void record(struct pool *pool, amqp_bytes_t id)
{
  static _Atomic double complained;
  if (once_done(pool->once, id.bytes, id.len))
    return;
  atomic_fetch_add(&pool->figures->not_recorded, 1);
  if (may_complain(&complained))
    say("no memory to remember a message as done; a copy of it will be worked again");
}

static void handle(struct worker *worker, struct delivery *delivery)
{
  struct pool *pool = worker->pool;
  amqp_bytes_t id = message_id(delivery);
  if (id.len == 0) {
    handle_without_id(worker, delivery);
    return;
  }
  enum once_begin answer = begin(pool, delivery, id);
  if (answer == ONCE_CLAIMED)
    return; /* others may have it already */
  uint64_t claim = delivery->claim;
  if (answer == ONCE_DONE) {
    atomic_fetch_add(&pool->figures->copies, 1);
    acknowledge(pool, delivery);
  } else if (do_work(worker, delivery, id)) {
    record(pool, id);
    acknowledge(pool, delivery);
  } else {
    try_later(pool, delivery);
  }
  once_release(pool->once, claim);
  wake_held(pool, claim);
}

static void *worker_main(void *argument)
{
  struct worker *worker = argument;
  struct delivery *delivery;
  while ((delivery = take(worker->pool)) != NULL)
    handle(worker, delivery);
  return NULL;
}

/* ---- the pool ---- */

struct pool *pool_start(struct once *once, struct figures *figures, unsigned threads,
                        unsigned limit)
{
  struct pool *pool = calloc(1, sizeof *pool + threads * sizeof pool->workers[0]);
  if (pool == NULL ||
      (pool->acknowledgements = calloc(limit, sizeof *pool->acknowledgements)) == NULL ||
      (pool->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0) {
    say("cannot start the pool: %s", strerror(errno));
    if (pool != NULL)
      free(pool->acknowledgements);
    free(pool);
    return NULL;
  }
  pool->once = once;
  pool->figures = figures;
  pool->limit = limit;
  make_empty(&pool->ready);
  make_empty(&pool->held);
  make_empty(&pool->failed);
  pthread_mutex_init(&pool->mutex, NULL);
  pthread_cond_init(&pool->not_empty, NULL);
  for (; pool->thread_count < threads; pool->thread_count++) {
    struct worker *worker = &pool->workers[pool->thread_count];
    worker->pool = pool;
    worker->number = pool->thread_count;
    int error = pthread_create(&worker->thread, NULL, worker_main, worker);
    if (error != 0) {
      say("cannot start a thread: %s", strerror(error));
      pool_stop(pool);
      pool_free(pool);
      return NULL;
    }
  }
  return pool;
}

void pool_stop(struct pool *pool)
{
  pthread_mutex_lock(&pool->mutex);
  pool->stopping = true;
  pthread_cond_broadcast(&pool->not_empty);
  pthread_mutex_unlock(&pool->mutex);
  for (unsigned i = 0; i < pool->thread_count; i++)
    pthread_join(pool->workers[i].thread, NULL);
}

void pool_free(struct pool *pool)
{
  free_all(&pool->ready);
  free_all(&pool->held);
  free_all(&pool->failed);
  pthread_mutex_destroy(&pool->mutex);
  pthread_cond_destroy(&pool->not_empty);
  close(pool->bell);
  free(pool->acknowledgements);
  free(pool);
}

int pool_bell(const struct pool *pool)
{
  return pool->bell;
}

void pool_put(struct pool *pool, struct delivery *delivery)
{
  pthread_mutex_lock(&pool->mutex);
  append(&pool->ready, delivery);
  pool->count++;
  pthread_cond_signal(&pool->not_empty);
  pthread_mutex_unlock(&pool->mutex);
}

unsigned pool_acknowledgements(struct pool *pool, struct acknowledgement *out, unsigned most)
{
  unsigned count = 0;
  eventfd_t ignored;
  eventfd_read(pool->bell, &ignored);
  pthread_mutex_lock(&pool->mutex);
  for (; count < most && pool->waiting > 0; count++) {
    out[count] = pool->acknowledgements[pool->first];
    pool->first = (pool->first + 1) % pool->limit;
    pool->waiting--;
  }
  pool->count -= count;
  pthread_mutex_unlock(&pool->mutex);
  return count;
}

void pool_connection_lost(struct pool *pool)
{
  pthread_mutex_lock(&pool->mutex);
  pool->count -= free_all(&pool->ready) + free_all(&pool->held) + free_all(&pool->failed);
  pool->count -= pool->waiting;
  pool->waiting = 0;
  pthread_mutex_unlock(&pool->mutex);
}

void pool_try_again(struct pool *pool)
{
  pthread_mutex_lock(&pool->mutex);
  move_all(&pool->failed, &pool->ready);
  move_all(&pool->held, &pool->ready);
  pthread_cond_broadcast(&pool->not_empty);
  pthread_mutex_unlock(&pool->mutex);
}

unsigned pool_count(struct pool *pool)
{
  pthread_mutex_lock(&pool->mutex);
  unsigned count = pool->count;
  pthread_mutex_unlock(&pool->mutex);
  return count;
}
