/* SPDX-License-Identifier: MIT
 *
 * Creation of a filter by a program that cannot go on without it, and its figures.
 */
#ifndef TAMIS_STRESS_CREATE_H
#define TAMIS_STRESS_CREATE_H

#include "tamis/tamis.h"

#include <error.h>

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

#endif
