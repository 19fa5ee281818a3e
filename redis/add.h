/* SPDX-License-Identifier: MIT
 *
 * Adding items, for all commands that do.
 */
#ifndef TAMIS_REDIS_ADD_H
#define TAMIS_REDIS_ADD_H

#include "server_api.h"
#include "value.h"

enum { ADD_BATCH = 256 }; /* items that are added before they are replicated and answered */

/* How items are added.  `verbatim`: the command is the one that adds all of these items and no
 * others, so a replica may get it as it came. */
struct add_mode {
  bool unique; /* items that seem to be in are left out */
  bool stops;  /* nothing is tried after a failure */
  bool verbatim;
  /* Items end by themselves: they are in for `periods` more, at most those of the window. */
  bool ends;
  unsigned periods;
};

/* Adds up to ADD_BATCH items and replicates those that changed the filter.  results[i]: TAMIS_OK,
 * TAMIS_PRESENT, or a failure.  Returns how many items were tried. */
int add_items(server_ctx *ctx, server_string *key, struct value *v, server_string **items, int n,
              const struct add_mode *mode, int *results);

/* Whether the filter is so near its limit that a replica might meet the limit sooner or later than
 * this server: then adds and unions are refused here. */
bool is_near_limit(const struct value *v);

/* The text for an item that was not added. */
const char *add_error(const struct value *v, int result);

#endif /* TAMIS_REDIS_ADD_H */
