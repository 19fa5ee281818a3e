/* SPDX-License-Identifier: MIT
 *
 * The two types of keys, and what the server asks of them: RDB, AOF, memory, digests, copies.
 */
#ifndef TAMIS_REDIS_TYPE_H
#define TAMIS_REDIS_TYPE_H

#include "server_api.h"
#include "value.h"

/* Creates both types.  False: the server refuses. */
bool types_create(server_ctx *ctx);

server_type *type_of(tamis_kind kind);

/* "BF" or "CF". */
const char *family_of(tamis_kind kind);

#endif /* TAMIS_REDIS_TYPE_H */
