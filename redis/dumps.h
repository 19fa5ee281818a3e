/* SPDX-License-Identifier: MIT
 *
 * Dumps that have begun.
 *
 * A dump is a save (image.h) in a thread of its own, which waits in its write function while the
 * server does anything else: it goes on only while SCANDUMP waits for the next chunk.  So a dump takes
 * a few MiB, whatever the filter takes, and what tamis_save promises holds for the whole dump: each
 * item that nobody adds or removes meanwhile is in it, or is not, as in the filter.
 *
 * While a thread waits it holds no lock, so a child of a fork finds the filter as in any write
 * function.
 */
#ifndef TAMIS_REDIS_DUMPS_H
#define TAMIS_REDIS_DUMPS_H

#include "server_api.h"
#include "value.h"

/* Whether the value has a dump that has not ended. */
bool dumps_are_open(const struct value *v);

/* Ends all dumps of a value that will be freed.  By any thread. */
void dumps_end(const struct value *v);

/* Replies with the next chunk of a dump, or the first one for a cursor of 0. */
int dumps_reply(server_ctx *ctx, const struct value *v, long long cursor);

/* The client has had the last chunk. */
void dumps_have_ended(const struct value *v, long long cursor);

#endif /* TAMIS_REDIS_DUMPS_H */
