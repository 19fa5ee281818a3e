/* SPDX-License-Identifier: MIT
 *
 * Keys and replies, for all commands.
 */
#ifndef TAMIS_REDIS_KEYS_H
#define TAMIS_REDIS_KEYS_H

#include "server_api.h"
#include "value.h"

enum key_state {
  KEY_EMPTY,
  KEY_WHOLE,
  KEY_RESTORING, /* its last chunk has not come yet */
  KEY_OTHER_TYPE
};

/* What is at a key.  `mode` is KEY_READ, or KEY_READ | KEY_WRITE in commands that change it. */
enum key_state key_find(server_ctx *ctx, server_string *name, int mode, tamis_kind kind,
                        struct value **out);

/* Puts a new value at a key, which is empty. */
void key_store(server_ctx *ctx, server_string *name, struct value *value);

/* What follows a change: those who watch the key learn of it. */
void key_changed(server_ctx *ctx, server_string *name, const char *event);

/* Replies with the error that belongs to a state in which a command cannot go on. */
int reply_state(server_ctx *ctx, enum key_state state);

int reply_error(server_ctx *ctx, const char *format, ...) __attribute__((format(printf, 2, 3)));

bool speaks_resp3(server_ctx *ctx);

/* Whether a word is this one, in whatever case. */
bool word_is(const server_string *word, const char *name);

#endif /* TAMIS_REDIS_KEYS_H */
