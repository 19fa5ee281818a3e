/* SPDX-License-Identifier: MIT
 *
 * Creation of a filter by a program that cannot go on without it, its figures, and memory that it is
 * saved to.
 */
#ifndef TAMIS_STRESS_CREATE_H
#define TAMIS_STRESS_CREATE_H

#include "tamis/tamis.h"

#include <error.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with status 2 and a message if `result` is an error. */
static inline void require_created(int result)
{
  if (result != TAMIS_OK)
    error(2, 0, "cannot create a filter: %s", tamis_strerror(result));
}

/* tamis_create, which must succeed. */
static inline tamis_filter *create_filter(const tamis_options *options)
{
  tamis_filter *filter = NULL;
  require_created(tamis_create(options, &filter));
  return filter;
}

static inline tamis_stats stats_of(const tamis_filter *filter)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(filter, &stats);
  return stats;
}

/* What is written, and read again from `at`. */
struct saved {
  size_t size, room, at;
  unsigned char *data;
};

static inline int saved_write(void *context, const void *data, size_t size)
{
  struct saved *s = context;
  if (s->room - s->size < size) {
    s->room = 2 * s->room + size;
    s->data = realloc(s->data, s->room);
    if (!s->data)
      return 1;
  }
  memcpy(s->data + s->size, data, size);
  s->size += size;
  return 0;
}

static inline int64_t saved_read(void *context, void *data, size_t size)
{
  struct saved *s = context;
  if (size > s->size - s->at)
    size = s->size - s->at;
  memcpy(data, s->data + s->at, size);
  s->at += size;
  return (int64_t) size;
}

#endif
