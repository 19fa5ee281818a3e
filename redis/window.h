/* SPDX-License-Identifier: MIT
 *
 * Sliding windows: filters that forget.
 *
 * A period ends by ADVANCE, or by the server's clock if RESERVE was told EVERY.  The clock is looked
 * at by commands that add: what it ends is replicated as an ADVANCE before they go on.  So a replica
 * ends a period where its master did, and has no clock of its own before it is promoted.
 */
#ifndef TAMIS_REDIS_WINDOW_H
#define TAMIS_REDIS_WINDOW_H

#include "server_api.h"
#include "value.h"

enum { MOST_PERIODS = 64 }; /* of a window */

/* Whether these can be those of a filter. */
bool window_is_possible(const struct traits *t);

/* Ends periods that are over by the clock. */
void window_tick(server_ctx *ctx, server_string *key, struct value *v);

#endif /* TAMIS_REDIS_WINDOW_H */
