/* SPDX-License-Identifier: MIT */
#include "filter.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <unistd.h>

/* Guards the tree, the references and the handles; never held in a call of the library. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *with_handles; /* by handle: a program may have a million, and free each */

static int by_handle(const void *a, const void *b)
{
  uint64_t first = ((const struct filter *) a)->handle,
           second = ((const struct filter *) b)->handle;
  return (first > second) - (first < second);
}

struct filter *filter_own(tamis_filter *f)
{
  struct filter *filter = malloc(sizeof *filter);
  if (!filter) {
    tamis_destroy(f);
    return NULL;
  }
  *filter = (struct filter){.f = f, .references = 1};
  return filter;
}

void filter_hold(struct filter *filter)
{
  pthread_mutex_lock(&lock);
  filter->references++;
  pthread_mutex_unlock(&lock);
}

void filter_release(struct filter *filter)
{
  pthread_mutex_lock(&lock);
  bool is_last = --filter->references == 0;
  if (is_last && filter->handle)
    tdelete(filter, &with_handles, by_handle);
  pthread_mutex_unlock(&lock);
  if (is_last) {
    tamis_destroy(filter->f);
    free(filter);
  }
}

/* Leaves 0 where there are no random numbers, or no memory. */
static void give_handle_locked(struct filter *filter)
{
  while (!filter->handle)
    if (getentropy(&filter->handle, sizeof filter->handle) != 0)
      return;
  if (!tsearch(filter, &with_handles, by_handle))
    filter->handle = 0;
}

uint64_t filter_handle(struct filter *filter)
{
  pthread_mutex_lock(&lock);
  if (!filter->handle)
    give_handle_locked(filter);
  uint64_t handle = filter->handle;
  pthread_mutex_unlock(&lock);
  return handle;
}

struct filter *filter_find(uint64_t handle)
{
  struct filter wanted = {.handle = handle}, **found;
  pthread_mutex_lock(&lock);
  found = tfind(&wanted, &with_handles, by_handle);
  struct filter *filter = found ? *found : NULL;
  if (filter)
    filter->references++;
  pthread_mutex_unlock(&lock);
  return filter;
}
