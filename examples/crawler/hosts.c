/* SPDX-License-Identifier: MIT */
#include "hosts.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "robots.h"
#include "store.h"

static int by_origin(const void *a, const void *b)
{
  return strcmp(((const struct host *) a)->origin, ((const struct host *) b)->origin);
}

static void keep(void *nothing)
{
  (void) nothing;
}

struct host *hosts_find(struct hosts *hosts, const char *origin, size_t len)
{
  struct host *new = calloc(1, sizeof *new + len + 1);
  if (!new)
    return NULL;
  memcpy(new->origin, origin, len);
  struct host **node = tsearch(new, &hosts->tree, by_origin);
  if (node && *node != new) {
    free(new);
    return *node;
  }
  if (node && hosts->n == hosts->room) {
    size_t room = 2 * hosts->room + 16;
    struct host **all = realloc(hosts->all, room * sizeof *all);
    if (all)
      hosts->all = all;
    struct host **heap = all ? realloc(hosts->heap, (room + 1) * sizeof *heap) : NULL;
    if (heap)
      hosts->heap = heap, hosts->room = room;
    else
      node = (tdelete(new, &hosts->tree, by_origin), NULL);
  }
  if (!node) {
    free(new);
    return NULL;
  }
  hosts->all[hosts->n++] = new;
  return new;
}

static void free_pages(struct page *page)
{
  while (page) {
    struct page *next = page->next;
    free(page);
    page = next;
  }
}

void hosts_free(struct hosts *hosts)
{
  tdestroy(hosts->tree, keep);
  for (size_t i = 0; i < hosts->n; i++) {
    free_pages(hosts->all[i]->buffer);
    free_pages(hosts->all[i]->retries);
    robots_free(hosts->all[i]->robots);
    free(hosts->all[i]);
  }
  free(hosts->all);
  free(hosts->heap);
  *hosts = (struct hosts){0};
}

static void put(struct hosts *hosts, size_t place, struct host *host)
{
  hosts->heap[place] = host;
  host->place = place;
}

/* Finds the place for a host, from the place `i`, which is free, up or down. */
static void settle(struct hosts *hosts, size_t i, struct host *host)
{
  for (; i > 1 && hosts->heap[i / 2]->ready_at > host->ready_at; i /= 2)
    put(hosts, i, hosts->heap[i / 2]);
  for (size_t child; (child = 2 * i) <= hosts->n_heap; i = child) {
    if (child < hosts->n_heap && hosts->heap[child + 1]->ready_at < hosts->heap[child]->ready_at)
      child++;
    if (hosts->heap[child]->ready_at >= host->ready_at)
      break;
    put(hosts, i, hosts->heap[child]);
  }
  put(hosts, i, host);
}

void hosts_push(struct hosts *hosts, struct host *host)
{
  hosts->n_heap++;
  settle(hosts, hosts->n_heap, host);
}

struct host *hosts_first(const struct hosts *hosts)
{
  return hosts->n_heap > 0 ? hosts->heap[1] : NULL;
}

void hosts_take_out(struct hosts *hosts, struct host *host)
{
  size_t place = host->place;
  if (place == 0)
    return;
  host->place = 0;
  struct host *last = hosts->heap[hosts->n_heap--];
  if (last != host)
    settle(hosts, place, last);
}
