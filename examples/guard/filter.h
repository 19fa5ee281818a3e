/* SPDX-License-Identifier: MIT
 *
 * A filter that is replaced while threads read it.  Whoever reads it holds a reference, and the
 * last one to let go of a filter that has been replaced destroys it.
 */
#ifndef GUARD_FILTER_H
#define GUARD_FILTER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <tamis/tamis.h>

struct held_filter {
  tamis_filter *filter;
  uint64_t references; /* under the mutex of the shared filter */
};

struct shared_filter {
  pthread_mutex_t mutex;
  struct held_filter *current; /* NULL: there is none */
};

void shared_filter_init(struct shared_filter *shared);
void shared_filter_destroy(struct shared_filter *shared);

/* NULL, if there is none.  To be given back with filter_release(). */
struct held_filter *filter_hold(struct shared_filter *shared);
void filter_release(struct shared_filter *shared, struct held_filter *held);

/* Takes the filter over, which may be NULL.  False without memory; the filter is destroyed then. */
bool filter_replace(struct shared_filter *shared, tamis_filter *filter);

#endif
