/* SPDX-License-Identifier: MIT
 *
 * Threads that work, and what passes between them and the thread that has the connection.
 *
 * Deliveries wait in one of three places: `ready` for a thread, `held` for the release of a claim,
 * and `failed` for a second try of their work.  All of them are unacknowledged, so the broker's
 * prefetch limit bounds their number.
 */
#ifndef CONSUMERS_POOL_H
#define CONSUMERS_POOL_H

#include "once.h"

#include <amqp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct delivery {
  struct delivery *next;
  /* Which connection brought it: its tag means nothing to another one, or another message. */
  uint64_t connection;
  uint64_t claim; /* once it is held */
  amqp_envelope_t envelope;
};

struct acknowledgement {
  uint64_t connection;
  uint64_t tag;
};

/* Counted since the process began. */
struct figures {
  atomic_ullong received;     /* deliveries */
  atomic_ullong worked;       /* works that have succeeded */
  atomic_ullong copies;       /* dropped as done before: copies, and false positives */
  atomic_ullong held;         /* times that a delivery has waited for a claim */
  atomic_ullong failed;       /* works that have failed */
  atomic_ullong without_id;   /* worked without asking: they have no message id */
  atomic_ullong not_recorded; /* worked, but there was no room to remember it */
  atomic_ullong acknowledged;
  atomic_ullong connections;
  atomic_ullong saves;
  atomic_ullong failed_saves;
};

struct pool;

/* Starts the threads.  At most `limit` deliveries will be here at one time.  NULL: it has said why.
 */
struct pool *pool_start(struct once *once, struct figures *figures, unsigned threads,
                        unsigned limit);
/* Waits for the works that are under way, and begins no other. */
void pool_stop(struct pool *pool);
/* After pool_stop(). */
void pool_free(struct pool *pool);

/* A file descriptor that can be read when there are acknowledgements to send. */
int pool_bell(const struct pool *pool);

/* By the thread that has the connection. */
void pool_put(struct pool *pool, struct delivery *delivery);
/* At most `most` acknowledgements, which it takes from the pool; returns how many.  0: none are
 * left. */
unsigned pool_acknowledgements(struct pool *pool, struct acknowledgement *out, unsigned most);
/* Forgets the deliveries that nobody works on, and all acknowledgements: the broker delivers again
 * what it has not seen acknowledged. */
void pool_connection_lost(struct pool *pool);

/* To be called now and then: works that have failed are tried again, and so are claims that are
 * held up by a false positive or by a lack of memory. */
void pool_try_again(struct pool *pool);

/* Deliveries that are here. */
unsigned pool_count(struct pool *pool);

#endif /* CONSUMERS_POOL_H */
