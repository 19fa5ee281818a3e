/* SPDX-License-Identifier: MIT */
#include "dumps.h"

#include "image.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

/* A dump that nobody goes on with ends after a minute, or when there are more: a cuckoo filter notes
 * what is removed while it is saved. */
enum { MOST_DUMPS = 8, IDLE_MILLISECONDS = 60 * 1000, LOOK_MILLISECONDS = 10 * 1000 };

struct dump {
  struct value of; /* as it was at the beginning */
  long long used;  /* when, in milliseconds */
  uint64_t id;
  long long tag;   /* of the cursor with which it was begun again; else 0 */
  uint64_t chunks; /* so far */
  pthread_t thread;
  sem_t goes_on, has_chunk;
  bool is_open;
  /* Of the thread while it runs, else of who waits for it: */
  bool stops, ended;
  unsigned char *data; /* the last chunk, with its head */
  size_t size;
  bool last;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dump dumps[MOST_DUMPS]; /* with the lock */
static bool looking;                  /* a timer runs */

/* Relaxed: a value gets to the thread that frees it by a lock of the server's, and its dumps have begun
 * before. */
static _Atomic unsigned open_dumps;

static void wait_for(sem_t *semaphore)
{
  while (sem_wait(semaphore) != 0 && errno == EINTR)
    ;
}

/* ---- the thread ---- */

/* A chunk_taker. */
static int hand_out(void *dump, unsigned char *with_head, size_t size, bool last)
{
  struct dump *d = dump;
  d->data = with_head;
  d->size = size;
  d->last = last;
  (void) sem_post(&d->has_chunk);
  wait_for(&d->goes_on);
  return d->stops ? -1 : 0;
}

static void *save(void *dump)
{
  struct dump *d = dump;
  (void) image_cut(&d->of, true, hand_out, d);
  d->ended = true;
  (void) sem_post(&d->has_chunk);
  return NULL;
}

/* Signals are for the server's own threads. */
static bool start(struct dump *d)
{
  sigset_t all, before;
  (void) sigfillset(&all);
  (void) sem_init(&d->goes_on, 0, 0);
  (void) sem_init(&d->has_chunk, 0, 0);
  (void) pthread_sigmask(SIG_SETMASK, &all, &before);
  const bool started = pthread_create(&d->thread, NULL, save, d) == 0;
  (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started)
    wait_for(&d->has_chunk);
  return started;
}

/* ---- with the lock ---- */

static void drop_locked(struct dump *d)
{
  if (!d->ended) {
    d->stops = true;
    (void) sem_post(&d->goes_on);
  }
  (void) pthread_join(d->thread, NULL);
  (void) sem_destroy(&d->goes_on);
  (void) sem_destroy(&d->has_chunk);
  d->is_open = false;
  atomic_fetch_sub_explicit(&open_dumps, 1, memory_order_relaxed);
}

static bool is_of(const struct dump *d, const struct value *v)
{
  return d->is_open && d->of.foreign == v->foreign && (v->foreign || d->of.filter == v->filter);
}

static long long tag_of(long long cursor)
{
  return cursor >> CURSOR_BITS;
}

static struct chunk head_of(const struct dump *d)
{
  return (struct chunk){d->of.kind, d->id, d->chunks - 1, d->last, d->size};
}

static struct dump *find_locked(const struct value *v, long long cursor)
{
  for (int i = 0; i < MOST_DUMPS; i++) {
    const struct chunk head = {.id = dumps[i].id};
    if (is_of(&dumps[i], v) && tag_of(chunk_cursor(&head)) == tag_of(cursor))
      return &dumps[i];
  }
  return NULL;
}

/* The place of a new dump: a free one, or that of the dump that has waited longest. */
static struct dump *take_place_locked(void)
{
  struct dump *oldest = &dumps[0];
  for (int i = 0; i < MOST_DUMPS; i++) {
    if (!dumps[i].is_open)
      return &dumps[i];
    if (dumps[i].used < oldest->used)
      oldest = &dumps[i];
  }
  drop_locked(oldest);
  return oldest;
}

/* The same filter has the same chunks, on every server.  But two dumps at one time have two ids, and
 * each keeps its own when it is begun again. */
static void seal_locked(struct dump *d)
{
  if (!d->chunks++) {
    uint64_t id = chunk_id(d->data + CHUNK_HEAD, d->size);
    struct chunk head = {.id = id};
    for (int i = 0; i < MOST_DUMPS && (find_locked(&d->of, chunk_cursor(&head)) ||
                                       (d->tag && d->tag != tag_of(chunk_cursor(&head))));
         i++)
      head.id = id = chunk_id(&id, sizeof id);
    d->id = id;
  }
  const struct chunk head = head_of(d);
  chunk_seal(d->data, &head);
}

static struct dump *begin_locked(const struct value *v, long long cursor)
{
  struct dump *d = take_place_locked();
  *d = (struct dump){.of = value_contents(v), .tag = tag_of(cursor)};
  if (!start(d))
    return NULL;
  atomic_fetch_add_explicit(&open_dumps, 1, memory_order_relaxed);
  d->is_open = true;
  if (!d->ended)
    seal_locked(d);
  return d;
}

/* Goes on to a chunk, or stays there.  False: there is none. */
static bool goes_to_locked(struct dump *d, uint64_t number)
{
  while (d->chunks <= number && !d->last && !d->ended) {
    (void) sem_post(&d->goes_on);
    wait_for(&d->has_chunk);
    if (!d->ended)
      seal_locked(d);
  }
  return !d->ended && d->chunks == number + 1;
}

/* The dump of a cursor.  Where it has gone on further, or was dropped as by a restart, it is begun
 * again: if the filter has not changed, its chunks are the same. */
static struct dump *find_or_begin_locked(const struct value *v, long long cursor, uint64_t number)
{
  struct dump *d = cursor ? find_locked(v, cursor) : NULL;
  if (d && d->chunks <= number + 1)
    return d;
  if (d)
    drop_locked(d);
  d = begin_locked(v, cursor);
  if (!d || !cursor)
    return d;
  const struct chunk head = head_of(d);
  if (!d->ended && tag_of(chunk_cursor(&head)) == tag_of(cursor))
    return d;
  drop_locked(d);
  return NULL;
}

/* ---- */

bool dumps_are_open(const struct value *v)
{
  bool found = false;
  if (!atomic_load_explicit(&open_dumps, memory_order_relaxed))
    return false;
  (void) pthread_mutex_lock(&lock);
  for (int i = 0; i < MOST_DUMPS; i++)
    found = found || is_of(&dumps[i], v);
  (void) pthread_mutex_unlock(&lock);
  return found;
}

void dumps_end(const struct value *v)
{
  if (!atomic_load_explicit(&open_dumps, memory_order_relaxed))
    return;
  (void) pthread_mutex_lock(&lock);
  for (int i = 0; i < MOST_DUMPS; i++)
    if (is_of(&dumps[i], v))
      drop_locked(&dumps[i]);
  (void) pthread_mutex_unlock(&lock);
}

static void drop_idle(server_ctx *ctx, void *unused)
{
  const long long now = server.Milliseconds();
  (void) unused;
  looking = false;
  (void) pthread_mutex_lock(&lock);
  for (int i = 0; i < MOST_DUMPS; i++) {
    if (dumps[i].is_open && now - dumps[i].used >= IDLE_MILLISECONDS)
      drop_locked(&dumps[i]);
    looking = looking || dumps[i].is_open;
  }
  (void) pthread_mutex_unlock(&lock);
  if (looking)
    server.CreateTimer(ctx, LOOK_MILLISECONDS, drop_idle, NULL);
}

static int reply_locked(server_ctx *ctx, struct dump *d)
{
  const struct chunk head = head_of(d);
  d->used = server.Milliseconds();
  server.ReplyWithArray(ctx, 2);
  server.ReplyWithLongLong(ctx, chunk_cursor(&head));
  server.ReplyWithStringBuffer(ctx, (const char *) d->data, CHUNK_HEAD + d->size);
  if (d->last && d->chunks == 1) /* there is nothing to go on with */
    drop_locked(d);
  else if (!looking)
    server.CreateTimer(ctx, LOOK_MILLISECONDS, drop_idle, NULL);
  looking = looking || d->is_open;
  return SERVER_OK;
}

void dumps_have_ended(const struct value *v, long long cursor)
{
  (void) pthread_mutex_lock(&lock);
  struct dump *d = find_locked(v, cursor);
  if (d && d->last)
    drop_locked(d);
  (void) pthread_mutex_unlock(&lock);
}

int dumps_reply(server_ctx *ctx, const struct value *v, long long cursor)
{
  const uint64_t number = (uint64_t) (cursor & CURSOR_END);
  (void) pthread_mutex_lock(&lock);
  struct dump *d = find_or_begin_locked(v, cursor, number);
  const bool found = d && goes_to_locked(d, number);
  if (found)
    (void) reply_locked(ctx, d);
  else if (d && d->ended)
    drop_locked(d);
  (void) pthread_mutex_unlock(&lock);
  if (found)
    return SERVER_OK;
  return server.ReplyWithError(
      ctx, cursor ? "ERR the filter has changed since that chunk, or it has none with that "
                    "cursor: begin again with 0"
                  : "ERR Insufficient memory");
}
