/* SPDX-License-Identifier: MIT
 *
 * The thread that has the connection: it hands deliveries to the pool, and sends acknowledgements.
 */
#ifndef CONSUMERS_RECEIVER_H
#define CONSUMERS_RECEIVER_H

#include "broker.h"
#include "pool.h"

struct receiver;

struct receiver_options {
  const struct broker *broker;
  const char *queue;
  uint16_t prefetch; /* unacknowledged messages, at most */
  double patience;   /* seconds without a broker until it gives up */
};

/* The process gets SIGUSR1 when it gives up.  NULL: it has said why. */
struct receiver *receiver_start(const struct receiver_options *options, struct pool *pool,
                                struct figures *figures);
/* Sends the acknowledgements that the pool still has, and ends the thread.  False if it had given
 * up. */
bool receiver_stop(struct receiver *receiver);

#endif /* CONSUMERS_RECEIVER_H */
