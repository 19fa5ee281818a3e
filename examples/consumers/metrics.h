/* SPDX-License-Identifier: MIT
 *
 * Figures for Prometheus, by HTTP.
 */
#ifndef CONSUMERS_METRICS_H
#define CONSUMERS_METRICS_H

#include "once.h"
#include "pool.h"

struct metrics;

/* Answers GET /metrics on loopback at this port.  NULL: it has said why. */
struct metrics *metrics_start(unsigned port, const struct once *once, struct pool *pool,
                              const struct figures *figures);
void metrics_stop(struct metrics *metrics);

#endif /* CONSUMERS_METRICS_H */
