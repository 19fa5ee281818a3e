/* SPDX-License-Identifier: MIT
 *
 * Sliding windows: filters that forget.
 *
 * A period ends by ADVANCE, or by the server's clock if RESERVE was told EVERY.  The clock is looked
 * at by commands that add, unite and remove, before they do: so an item's time begins in the period in
 * which the item comes, however late that period has begun.  What the clock ends is replicated as an
 * ADVANCE.  So a replica ends a period where its master did, and has no clock of its own before it is
 * promoted.  Commands that only read must not write, and do not look at the clock.
 */
#ifndef TAMIS_REDIS_WINDOW_H
#define TAMIS_REDIS_WINDOW_H

#include "server_api.h"
#include "value.h"

enum { MOST_PERIODS = 64 }; /* of a window */
#define MOST_SECONDS (INT64_MAX / 4000)

/* Whether these can be those of a filter. */
bool window_is_possible(const struct traits *t);

/* How long the items of a command are in. */
struct life {
  bool ends;        /* after `seconds`; if these are 0, for `periods` more; else with the window */
  uint64_t seconds; /* up to MOST_SECONDS */
  uint64_t periods;
};

/* Why a filter cannot have items that end so; else NULL. */
const char *window_refuses(const struct traits *t, const struct life *life);

/* For how many periods more an item is in that ends so, from now on: so many that the last one does
 * not end before the item's seconds are over. */
unsigned window_periods_of(const struct traits *t, const struct life *life);

/* Ends periods that are over by the clock, before a command changes the filter. */
void window_tick(server_ctx *ctx, server_string *key, struct value *v);

#endif /* TAMIS_REDIS_WINDOW_H */
