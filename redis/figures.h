/* SPDX-License-Identifier: MIT
 *
 * Figures of all filters together, for INFO.
 */
#ifndef TAMIS_REDIS_FIGURES_H
#define TAMIS_REDIS_FIGURES_H

#include "server_api.h"
#include "value.h"

/* Offers them to INFO, if the server can.  False: it refuses. */
bool figures_register(server_ctx *ctx);

/* A key has got a filter, or one is freed; the latter by any thread. */
void figures_begin(const struct value *v);
void figures_end(const struct value *v);

/* Results of adds.  Every now and then looks at the filter that they went to. */
void figures_note_adds(const struct value *v, const int *results, int n);

/* What has been seen of a filter; only the main thread looks. */
void figures_note_stats(const tamis_stats *stats, uint64_t bytes);

#endif /* TAMIS_REDIS_FIGURES_H */
