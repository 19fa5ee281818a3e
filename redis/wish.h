/* SPDX-License-Identifier: MIT
 *
 * What a command says of a filter that is to be created, and its creation.
 */
#ifndef TAMIS_REDIS_WISH_H
#define TAMIS_REDIS_WISH_H

#include "server_api.h"
#include "value.h"

struct wish {
  tamis_kind kind;
  double rate;
  long long capacity;
  struct traits traits;
  uint64_t seed;   /* 0: from chance */
  bool nonscaling; /* NONSCALING was there */
  bool expands;    /* EXPANSION was there */
  bool limits;     /* MAXBYTES was there */
  bool no_create;  /* NOCREATE was there */
  int items;       /* INSERT: where the items begin */
};

enum wish_form { FORM_RESERVE = 1, FORM_INSERT = 2 };

/* A filter as it is made when the command says nothing. */
void wish_init(struct wish *w, tamis_kind kind);

/* Reads the options of RESERVE or INSERT from argv[from] on.  Returns NULL, the text of an error,
 * or wish_wrong_arity. */
const char *wish_read(struct wish *w, enum wish_form form, server_string **argv, int argc,
                      int from);
extern const char wish_wrong_arity[];

/* Reads the capacity or the rate where these stand alone. */
const char *wish_read_capacity(struct wish *w, const server_string *word);
const char *wish_read_rate(struct wish *w, const server_string *word);

int wish_reply_error(server_ctx *ctx, const char *error);

/* Creates the filter at an empty key.  The creation is replicated with its seed and all that the
 * command has left open, so that a replica and a restart have the same filter, bit for bit.  Where
 * it fails, replies with an error and returns NULL. */
struct value *wish_create(server_ctx *ctx, server_string *key, struct wish *w);

#endif /* TAMIS_REDIS_WISH_H */
