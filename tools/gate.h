/* SPDX-License-Identifier: MIT
 *
 * A gate that threads enter and leave in turns, and that another thread may find empty for a moment.  Whoever waits
 * for that holds the turn, so that nobody enters meanwhile: with a rwlock alone, threads that read in turns can keep
 * a writer waiting for ever, where the C library prefers readers.
 */
#ifndef TAMIS_TOOL_GATE_H
#define TAMIS_TOOL_GATE_H

#include <pthread.h>

struct gate {
  pthread_mutex_t turn; /* held for a moment, or by who waits until the gate is empty */
  pthread_rwlock_t lock;
};

static inline void gate_init(struct gate *gate)
{
  pthread_mutex_init(&gate->turn, NULL);
  pthread_rwlock_init(&gate->lock, NULL);
}

static inline void gate_destroy(struct gate *gate)
{
  pthread_rwlock_destroy(&gate->lock);
  pthread_mutex_destroy(&gate->turn);
}

static inline void gate_enter(struct gate *gate)
{
  pthread_mutex_lock(&gate->turn);
  pthread_rwlock_rdlock(&gate->lock);
  pthread_mutex_unlock(&gate->turn);
}

static inline void gate_leave(struct gate *gate)
{
  pthread_rwlock_unlock(&gate->lock);
}

/* Waits until all that were in have left. */
static inline void gate_wait_until_empty(struct gate *gate)
{
  pthread_mutex_lock(&gate->turn);
  pthread_rwlock_wrlock(&gate->lock);
  pthread_rwlock_unlock(&gate->lock);
  pthread_mutex_unlock(&gate->turn);
}

#endif
