/* SPDX-License-Identifier: MIT */
#include "pending.h"

#include "guard.h"

#include <stdlib.h>
#include <string.h>

void pending_init(struct pending *pending)
{
  memset(pending, 0, sizeof *pending);
  pthread_mutex_init(&pending->mutex, NULL);
  pending->last = &pending->first;
}

void pending_destroy(struct pending *pending)
{
  for (size_t i = 0; i < PENDING_BUCKETS; i++)
    while (pending->buckets[i] != NULL) {
      struct pending_id *entry = pending->buckets[i];
      pending->buckets[i] = entry->next;
      free(entry);
    }
  pthread_mutex_destroy(&pending->mutex);
}

/* FNV-1a.  Only ids that are written get here, so nobody gains by ids that share a bucket. */
static struct pending_id **bucket(struct pending *pending, const char *id)
{
  uint64_t hash = 0xcbf29ce484222325;
  for (; *id != 0; id++)
    hash = (hash ^ (unsigned char) *id) * 0x100000001b3;
  return &pending->buckets[(hash ^ hash >> 32) % PENDING_BUCKETS];
}

struct pending_id *pending_begin(struct pending *pending, const char *id)
{
  size_t size = strlen(id) + 1;
  struct pending_id *entry = malloc(sizeof *entry + size);
  if (entry == NULL)
    return NULL;
  memcpy(entry->id, id, size);
  entry->behind = NULL;
  entry->ended = 0;
  pthread_mutex_lock(&pending->mutex);
  struct pending_id **head = bucket(pending, id);
  entry->next = *head;
  *head = entry;
  pending->count++;
  pthread_mutex_unlock(&pending->mutex);
  return entry;
}

static void drop_first_locked(struct pending *pending)
{
  struct pending_id *entry = pending->first;
  pending->first = entry->behind;
  if (pending->first == NULL)
    pending->last = &pending->first;
  struct pending_id **link = bucket(pending, entry->id);
  while (*link != entry)
    link = &(*link)->next;
  *link = entry->next;
  pending->count--;
  pending->queued--;
  free(entry);
}

/* Positions come nearly in order.  One that is behind a later one stays a little longer. */
static void drop_passed_locked(struct pending *pending)
{
  while (pending->first != NULL && position_covers(pending->passed, pending->first->ended))
    drop_first_locked(pending);
}

void pending_end(struct pending *pending, struct pending_id *entry, uint64_t ended)
{
  pthread_mutex_lock(&pending->mutex);
  entry->ended = ended;
  entry->behind = NULL;
  *pending->last = entry;
  pending->last = &entry->behind;
  pending->queued++;
  drop_passed_locked(pending);
  if (pending->queued > PENDING_MOST)
    while (pending->first != NULL) {
      if (pending->fence < pending->first->ended)
        pending->fence = pending->first->ended;
      drop_first_locked(pending);
    }
  pthread_mutex_unlock(&pending->mutex);
}

bool pending_has(struct pending *pending, const char *id)
{
  pthread_mutex_lock(&pending->mutex);
  bool has = !position_covers(pending->passed, pending->fence);
  for (struct pending_id *entry = *bucket(pending, id); entry != NULL && !has; entry = entry->next)
    has = strcmp(entry->id, id) == 0;
  pthread_mutex_unlock(&pending->mutex);
  return has;
}

void pending_pass(struct pending *pending, uint64_t at)
{
  pthread_mutex_lock(&pending->mutex);
  pending->passed = at;
  drop_passed_locked(pending);
  pthread_mutex_unlock(&pending->mutex);
}

uint64_t pending_count(struct pending *pending)
{
  pthread_mutex_lock(&pending->mutex);
  uint64_t count = pending->count;
  pthread_mutex_unlock(&pending->mutex);
  return count;
}
