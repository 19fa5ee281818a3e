/* SPDX-License-Identifier: MIT
 *
 * The types of keys, and what the server asks of them: RDB, AOF, memory, digests, copies.
 */
#ifndef TAMIS_REDIS_TYPE_H
#define TAMIS_REDIS_TYPE_H

#include "server_api.h"
#include "value.h"

/* Creates the types.  False: the server refuses. */
bool types_create(server_ctx *ctx);

/* The type of new keys. */
server_type *type_of(tamis_kind kind);

/* Whether keys of this type hold filters of the kind: those of the type that RedisBloom's files
 * name do, too. */
bool type_is_of(const server_type *type, tamis_kind kind);

#endif /* TAMIS_REDIS_TYPE_H */
