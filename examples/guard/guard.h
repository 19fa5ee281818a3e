/* SPDX-License-Identifier: MIT
 *
 * guard: an HTTP service in front of PostgreSQL, with a cache in Redis, that answers "no such id"
 * from a cuckoo filter without asking either.
 *
 * This header has what all parts share: the settings, and the verdict on an id.
 *
 *   main.c       options, signals, the order in which parts start and end
 *   server.c     HTTP: routes, answers, figures
 *   backend.c    what a thread of the server asks of PostgreSQL and of Redis
 *   guard.c      the verdict: may an id exist?
 *   pending.c    ids that this process is about to insert, or has just inserted
 *   follow.c     the follower: a thread that keeps the filter equal to the table
 *   changes.c    the messages of the plugin pgoutput, and the changes of one transaction
 *   saved.c      the filter on disk, together with its position
 *   filter.c     a filter that is replaced while threads read it
 *   blocklist.c  a list that `tamis build` makes, and that is replaced while the program runs
 *   message.c    what goes to standard error
 */
#ifndef GUARD_H
#define GUARD_H

#include "filter.h"
#include "pending.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { NEVER = -1 };

typedef enum id_type { ID_BIGINT, ID_UUID, ID_TEXT } id_type;

struct settings {
  const char *database; /* connection string of libpq */
  const char *table, *id_column, *body_column;
  id_type id_type;
  const char *slot, *publication;
  const char *folder; /* where the filter is saved */
  uint64_t capacity;
  double fpp;
  unsigned save_seconds, lag_ms;
  const char *redis_host; /* NULL: no cache */
  unsigned redis_port;
  char *redis_password;
  unsigned cache_seconds;
  const char *address;
  unsigned port, threads;
  const char *blocklist; /* NULL: none */
  bool filter;           /* false: a plain cache, for comparison */
};

/* A position in the database's log: an LSN. */
typedef uint64_t position;

bool position_parse(const char *text, position *out);

/* Whether all that ends at or before `wanted` has ended at or before `reached`. */
bool position_covers(position reached, position wanted);

/* The state of the guard.  The follower writes it, and all threads of the server read it. */
struct guard {
  const struct settings *settings;
  struct shared_filter ids;
  struct pending pending;
  _Atomic position applied; /* all transactions that end here or before are in `ids` */
  _Atomic position saved;
  _Atomic position known;   /* the end of the database's log, when it was last asked */
  _Atomic uint64_t asked;   /* how often it was asked */
  _Atomic int64_t fresh_at; /* what had been committed at this time is in `ids`; or NEVER */
  int wake;                 /* an eventfd: the follower shall ask for the end of the log */
  atomic_bool stopping;
  /* Figures. */
  _Atomic uint64_t fills, saves, save_failures, sessions, transactions, changes, unsure, inexact;
};

bool guard_init(struct guard *g, const struct settings *settings);
void guard_destroy(struct guard *g);

typedef enum verdict {
  REFUSED, /* no committed row has this id */
  POSSIBLE /* one may have it: ask the cache and the database */
} verdict;

/* `token` is the position that the client knows of, or 0. */
verdict guard_judge(struct guard *g, const char *id, position token);

/* Whether the text is how PostgreSQL would print this id.  Others name no row. */
bool id_is_canonical(id_type type, const char *id);

/* Milliseconds of a clock that is never set. */
int64_t now_ms(void);

/* The follower's thread; the argument is a struct guard. */
void *follow(void *guard);

/* Writes "guard: ..." and a newline to standard error.  A message that is equal to the last one is
 * left out for ten seconds. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
