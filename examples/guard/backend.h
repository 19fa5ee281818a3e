/* SPDX-License-Identifier: MIT
 *
 * What one thread of the server asks of PostgreSQL and of Redis, over connections of its own, which
 * are made when they are needed, and again when they were lost.
 */
#ifndef GUARD_BACKEND_H
#define GUARD_BACKEND_H

#include "guard.h"

#include <stddef.h>

struct backend;

/* NULL without memory. */
struct backend *backend_create(struct guard *g);
void backend_destroy(struct backend *backend);

typedef enum outcome {
  OUTCOME_ROW,     /* read: there is such a row; write: a row was written or deleted */
  OUTCOME_NO_ROW,  /* there is no such row */
  OUTCOME_REFUSED, /* the database refuses this id or this body */
  OUTCOME_UNKNOWN  /* no answer from the database: a write may have been carried out or not */
} outcome;

/* A copy of the body that is to be freed; NULL if the outcome is no row. */
outcome backend_read_cache(struct backend *backend, const char *id, char **body, size_t *size);
outcome backend_read(struct backend *backend, const char *id, char **body, size_t *size);

/* *token is the position that a reader may wait for. */
outcome backend_put(struct backend *backend, const char *id, const char *body, size_t size,
                    position *token);
outcome backend_delete(struct backend *backend, const char *id, position *token);

/* Questions to PostgreSQL for rows, and to Redis, by all threads. */
uint64_t database_questions(void);
uint64_t cache_questions(void);

#endif
