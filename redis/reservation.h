/* SPDX-License-Identifier: MIT
 *
 * What a command says of a filter that is to be created, and its creation.
 */
#ifndef TAMIS_REDIS_RESERVATION_H
#define TAMIS_REDIS_RESERVATION_H

#include "server_api.h"
#include "value.h"
#include "window.h"

struct reservation {
  tamis_kind kind;
  double rate;
  long long capacity;
  struct traits traits;
  uint64_t seed;     /* 0: from chance */
  uint64_t ttl;      /* seconds until the key expires; 0: it does not */
  bool seeded;       /* SEED was there */
  bool nonscaling;   /* NONSCALING was there */
  bool expands;      /* EXPANSION was there */
  bool limits;       /* MAXBYTES was there */
  bool no_create;    /* NOCREATE was there */
  struct life life;  /* EX or PERIODS: of the items */
  uint64_t seen;     /* options, by their numbers */
  uint64_t scale_to; /* VALIDATESCALETO: to so many items the filter must be able to grow; 0: any */
  int items;         /* INSERT: where the items begin */
  unsigned form;     /* of the command, as below; 0: it has no options */
};

enum reservation_form { FORM_RESERVE = 1, FORM_INSERT = 2 };

/* A filter as it is made when the command says nothing. */
void reservation_init(struct reservation *w, tamis_kind kind);

/* Whether a filter can be made so; else why not. */
bool reservation_is_possible(tamis_kind kind, char *why, size_t size);

/* Reads the options of RESERVE or INSERT from argv[from] on.  Returns NULL, the text of an error,
 * or reservation_wrong_arity. */
const char *reservation_read(struct reservation *w, enum reservation_form form,
                             server_string **argv, int argc, int from);
extern const char reservation_wrong_arity[];

/* Why the filter could not grow as VALIDATESCALETO says; NULL: it can. */
const char *reservation_refuses_scale(const struct reservation *w);

/* Reads the capacity, the rate or the items' seconds where these stand alone. */
const char *reservation_read_capacity(struct reservation *w, const server_string *word);
const char *reservation_read_rate(struct reservation *w, const server_string *word);
const char *reservation_read_ex(struct reservation *w, const server_string *word);

int reservation_reply_error(server_ctx *ctx, const char *error);

/* Creates the filter at an empty key.  The creation is replicated with its seed and all that the
 * command has left open, so that a replica and a restart have the same filter, bit for bit.  Where
 * it fails, replies with an error and returns NULL. */
struct value *reservation_create(server_ctx *ctx, server_string *key, struct reservation *w);

#endif /* TAMIS_REDIS_RESERVATION_H */
