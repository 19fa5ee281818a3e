/* SPDX-License-Identifier: MIT
 *
 * Debian's libbloom, a classic Bloom filter for one thread: by itself, behind a mutex, and behind a
 * read-write lock.
 */
#include "subject.h"

#include <bloom.h>
#include <error.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

enum lock { NO_LOCK, MUTEX, RWLOCK };

struct locked_bloom {
  struct bloom bloom;
  pthread_mutex_t mutex;
  pthread_rwlock_t rwlock;
};

static void *create(const struct subject *subject, const struct spec *spec)
{
  enum { MIN_CAPACITY = 1000 }; /* libbloom refuses smaller ones */
  struct locked_bloom *b = calloc(1, sizeof *b);
  uint64_t capacity = spec->capacity < MIN_CAPACITY ? MIN_CAPACITY : spec->capacity;
  if (!b || capacity > INT_MAX || bloom_init(&b->bloom, (int) capacity, spec->fpp))
    error(2, 0, "%s: cannot be created for %llu keys", subject->name,
          (unsigned long long) spec->capacity);
  if (spec->prefaulted)
    bloom_reset(&b->bloom);
  pthread_mutex_init(&b->mutex, NULL);
  pthread_rwlock_init(&b->rwlock, NULL);
  return b;
}

static void destroy(const struct subject *subject, void *state)
{
  (void) subject;
  struct locked_bloom *b = state;
  pthread_rwlock_destroy(&b->rwlock);
  pthread_mutex_destroy(&b->mutex);
  bloom_free(&b->bloom);
  free(b);
}

static inline bool add(struct locked_bloom *b, enum lock lock, uint64_t key)
{
  if (lock == MUTEX)
    pthread_mutex_lock(&b->mutex);
  else if (lock == RWLOCK)
    pthread_rwlock_wrlock(&b->rwlock);
  int present = bloom_add(&b->bloom, &key, sizeof key);
  if (lock == MUTEX)
    pthread_mutex_unlock(&b->mutex);
  else if (lock == RWLOCK)
    pthread_rwlock_unlock(&b->rwlock);
  return present == 0;
}

static inline bool contains(struct locked_bloom *b, enum lock lock, uint64_t key)
{
  if (lock == MUTEX)
    pthread_mutex_lock(&b->mutex);
  else if (lock == RWLOCK)
    pthread_rwlock_rdlock(&b->rwlock);
  int present = bloom_check(&b->bloom, &key, sizeof key);
  if (lock == MUTEX)
    pthread_mutex_unlock(&b->mutex);
  else if (lock == RWLOCK)
    pthread_rwlock_unlock(&b->rwlock);
  return present == 1;
}

/* bloom_add() returns whether the key was new, so every add is a unique add. */
static inline uint64_t run_with(struct locked_bloom *b, enum lock lock, enum call call,
                                const struct span *span)
{
  uint64_t yes = 0;
  if (call == CALL_MIX) {
    for (uint64_t i = 0; i < span->count; i++) {
      uint64_t key = mix_key(span, i);
      yes += mix_adds(i) ? add(b, lock, key) : contains(b, lock, key);
    }
  } else if (call == CALL_CONTAINS || call == CALL_CONTAINS_BYTES) {
    EACH_KEY(span, key, yes += contains(b, lock, key));
  } else if (call == CALL_ADD_UNIQUE) {
    EACH_KEY(span, key, yes += add(b, lock, key));
  } else {
    EACH_KEY(span, key, add(b, lock, key));
    yes = span->count; /* a plain add succeeds even if a false positive hides the key */
  }
  return yes;
}

static uint64_t run(const struct subject *subject, void *b, enum call call, const struct span *span)
{
  switch (*(const enum lock *) subject->detail) {
  case MUTEX:
    return run_with(b, MUTEX, call, span);
  case RWLOCK:
    return run_with(b, RWLOCK, call, span);
  default:
    return run_with(b, NO_LOCK, call, span);
  }
}

#define LIBBLOOM(name_, what_, lock_)                                                          \
  {                                                                                            \
    .name = (name_), .what = (what_),                                                          \
    .calls = 1 << CALL_ADD | 1 << CALL_ADD_UNIQUE | 1 << CALL_CONTAINS | 1 << CALL_ADD_BYTES | \
             1 << CALL_CONTAINS_BYTES | 1 << CALL_MIX,                                         \
    .concurrent = (lock_) != NO_LOCK, .create = create, .destroy = destroy, .run = run,        \
    .detail = &(const enum lock)                                                               \
    {                                                                                          \
      lock_                                                                                    \
    }                                                                                          \
  }

const struct subject bloom_subjects[] = {
    LIBBLOOM("libbloom", "Debian's libbloom, for one thread", NO_LOCK),
    LIBBLOOM("libbloom-mutex", "the same behind a mutex", MUTEX),
    LIBBLOOM("libbloom-rwlock", "the same behind a read-write lock", RWLOCK),
    {0}};
