/* SPDX-License-Identifier: MIT
 *
 * HTTP.
 *   GET /items/ID      200 with the body, or 404
 *   PUT /items/ID      204; the body of the request becomes that of the row
 *   DELETE /items/ID   204, or 404
 *   GET /metrics       figures for Prometheus
 * 503: the database gave no answer; a write may have been carried out or not.  403: the access
 * token in X-Api-Key is in the list.
 *
 * X-Guard says who has answered: filter, cache or database.  X-Guard-Position is the token
 * (guard.c): a writer gets it, and whoever shall see the write sends it.
 */
#ifndef GUARD_SERVER_H
#define GUARD_SERVER_H

#include "blocklist.h"
#include "guard.h"

struct server;

/* NULL: the reason has been said. */
struct server *server_start(struct guard *g, struct blocklist *list);

/* Ends the threads, when they have answered what they are at. */
void server_stop(struct server *server);

unsigned server_port(const struct server *server);

#endif
