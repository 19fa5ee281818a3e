/* SPDX-License-Identifier: MIT
 *
 * What the operator has set: by arguments of the module, and by CONFIG where the server knows
 * settings of modules.
 */
#ifndef TAMIS_REDIS_SETTINGS_H
#define TAMIS_REDIS_SETTINGS_H

#include "server_api.h"

struct settings {
  long long max_bytes; /* of one filter; 0: no limit */
  long long bf_initial_size, bf_expansion_factor;
  long long cf_initial_size, cf_bucket_size, cf_max_iterations, cf_expansion_factor;
  long long cf_max_expansions; /* accepted, and without a meaning here */
  long long seed;              /* of new filters; 0: each has its own, from chance */
  double bf_error_rate, cf_error_rate;
};

extern struct settings settings;

/* Reads the module's arguments: NAME VALUE ...  Logs what is wrong, and returns false. */
bool settings_read(server_ctx *ctx, server_string **argv, int argc);

/* Offers them to CONFIG.  False: the server refuses. */
bool settings_register(server_ctx *ctx);

/* Whether what comes is what another server, or this one earlier, has already done: from the
 * master, or from a file while the server starts.  Then no limit of this server holds. */
bool must_obey(server_ctx *ctx);

/* The most bytes that a filter may take that comes now; 0: any number. */
uint64_t limit_for(server_ctx *ctx);

#endif /* TAMIS_REDIS_SETTINGS_H */
