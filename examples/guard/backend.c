/* SPDX-License-Identifier: MIT
 *
 * An insert is preceded by an entry in the set of pending ids, and followed by the question where
 * the log ends now.  The transaction has ended before that position, whatever its result, so the
 * entry can go when the follower has passed it (pending.h).
 *
 * When the connection is lost in between, nobody knows whether the server process will still
 * commit.  The entry is kept until the next connection finds that this process has ended: then its
 * transaction has, too.
 */
#include "backend.h"

#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  RETRY_MS = 200,        /* after a connection to PostgreSQL has failed */
  CACHE_RETRY_MS = 1000, /* the same for Redis */
  CACHE_WAIT_MS = 500,
  GONE_TRIES = 50, /* how often, every 10 ms, is looked whether a server process has ended */
};

struct backend {
  struct guard *g;
  const struct settings *settings;
  PGconn *database;
  int64_t database_retry, cache_retry;
  char process[16], started[64]; /* the server process of the connection, or of the last one */
  struct pending_id *unknown;    /* what it was to insert when the connection was lost */
  redisContext *cache;
};

static _Atomic uint64_t database_asked, cache_asked;

uint64_t database_questions(void)
{
  return database_asked;
}

uint64_t cache_questions(void)
{
  return cache_asked;
}

struct backend *backend_create(struct guard *g)
{
  struct backend *backend = calloc(1, sizeof *backend);
  if (backend != NULL)
    *backend = (struct backend){.g = g, .settings = g->settings};
  return backend;
}

void backend_destroy(struct backend *backend)
{
  if (backend == NULL)
    return;
  PQfinish(backend->database);
  if (backend->cache != NULL)
    redisFree(backend->cache);
  free(backend);
}

/* ---- the database ---- */

static void lose(struct backend *backend)
{
  say("the connection to the database was lost: %s", PQerrorMessage(backend->database));
  PQfinish(backend->database);
  backend->database = NULL;
}

static bool ask_end(PGconn *database, position *end)
{
  PGresult *answer = PQexec(database, "SELECT pg_current_wal_insert_lsn()");
  bool good =
      PQresultStatus(answer) == PGRES_TUPLES_OK && position_parse(PQgetvalue(answer, 0, 0), end);
  PQclear(answer);
  return good;
}

/* Ends the server process of the lost connection, and waits until it has gone. */
static bool is_gone(struct backend *backend, PGconn *database)
{
  const char *values[] = {backend->process, backend->started};
  for (int i = 0; i < GONE_TRIES; i++) {
    PGresult *answer = PQexecParams(database,
                                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
                                    " pid = $1 AND extract(epoch FROM backend_start)::text = $2",
                                    2, NULL, values, NULL, NULL, 0);
    bool good = PQresultStatus(answer) == PGRES_TUPLES_OK;
    bool gone = good && PQntuples(answer) == 0;
    PQclear(answer);
    if (gone || !good)
      return gone;
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  return false;
}

/* Gives positions to the entries whose transactions were cut off. */
static bool settle(struct backend *backend, PGconn *database)
{
  position end;
  if (backend->unknown == NULL)
    return true;
  if (!is_gone(backend, database) || !ask_end(database, &end))
    return false;
  while (backend->unknown != NULL) {
    struct pending_id *entry = backend->unknown;
    backend->unknown = entry->behind;
    pending_end(&backend->g->pending, entry, end);
  }
  return true;
}

static bool prepare(PGconn *database, const char *name, const char *text)
{
  PGresult *result = PQprepare(database, name, text, 0, NULL);
  bool good = PQresultStatus(result) == PGRES_COMMAND_OK;
  PQclear(result);
  return good;
}

static bool prepare_all(PGconn *database, const struct settings *s)
{
  char text[1024];
  snprintf(text, sizeof text, "SELECT %s FROM ONLY %s WHERE %s = $1", s->body_column, s->table,
           s->id_column);
  if (!prepare(database, "read", text))
    return false;
  snprintf(
      text, sizeof text,
      "INSERT INTO %s (%s, %s) VALUES ($1, $2) ON CONFLICT (%s) DO UPDATE SET %s = excluded.%s",
      s->table, s->id_column, s->body_column, s->id_column, s->body_column, s->body_column);
  if (!prepare(database, "put", text))
    return false;
  snprintf(text, sizeof text, "DELETE FROM ONLY %s WHERE %s = $1", s->table, s->id_column);
  return prepare(database, "delete", text);
}

static bool note_process(struct backend *backend, PGconn *database)
{
  PGresult *answer = PQexec(database, "SELECT pid, extract(epoch FROM backend_start)::text FROM"
                                      " pg_stat_activity WHERE pid = pg_backend_pid()");
  bool good = PQresultStatus(answer) == PGRES_TUPLES_OK && PQntuples(answer) == 1;
  if (good) {
    snprintf(backend->process, sizeof backend->process, "%s", PQgetvalue(answer, 0, 0));
    snprintf(backend->started, sizeof backend->started, "%s", PQgetvalue(answer, 0, 1));
  }
  PQclear(answer);
  return good;
}

/* A table that is locked must not keep all threads of the server. */
static bool limit_time(PGconn *database)
{
  PGresult *answer = PQexec(database, "SELECT set_config('statement_timeout', '3s', false)"
                                      " WHERE current_setting('statement_timeout') = '0'");
  bool good = PQresultStatus(answer) == PGRES_TUPLES_OK;
  PQclear(answer);
  return good;
}

static bool connect_database(struct backend *backend)
{
  if (backend->database != NULL)
    return true;
  if (now_ms() < backend->database_retry)
    return false;
  const char *names[] = {"dbname", "fallback_application_name", "connect_timeout",
                         "tcp_user_timeout", NULL};
  const char *values[] = {backend->settings->database, "tamis-guard", "2", "10000", NULL};
  PGconn *database = PQconnectdbParams(names, values, 1);
  if (PQstatus(database) == CONNECTION_OK && settle(backend, database) && limit_time(database) &&
      prepare_all(database, backend->settings) && note_process(backend, database)) {
    backend->database = database;
    return true;
  }
  say("no connection to the database: %s", PQerrorMessage(database));
  PQfinish(database);
  backend->database_retry = now_ms() + RETRY_MS;
  return false;
}

static PGresult *run(struct backend *backend, const char *statement, const char *id,
                     const char *body, size_t size)
{
  const char *values[] = {id, body};
  int lengths[] = {0, (int) size}, formats[] = {0, 1};
  database_asked++;
  return PQexecPrepared(backend->database, statement, body == NULL ? 1 : 2, values, lengths,
                        formats, 1);
}

static bool is_lost(struct backend *backend)
{
  if (PQstatus(backend->database) == CONNECTION_OK)
    return false;
  lose(backend);
  return true;
}

static outcome outcome_of(const PGresult *result, bool rows)
{
  if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
    /* Classes 22 and 23: what was to be written is not legal. */
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY); /* without the row */
    say("the database refuses: %s", message != NULL ? message : PQresultErrorMessage(result));
    return state != NULL && state[0] == '2' && (state[1] == '2' || state[1] == '3')
               ? OUTCOME_REFUSED
               : OUTCOME_UNKNOWN;
  }
  return rows ? OUTCOME_ROW : OUTCOME_NO_ROW;
}

static char *copy(const char *data, size_t size)
{
  char *body = malloc(size + 1);
  if (body != NULL)
    memcpy(body, data, size);
  return body;
}

static void cache_put(struct backend *backend, const char *id, const char *body, size_t size);
static void cache_delete(struct backend *backend, const char *id);

outcome backend_read(struct backend *backend, const char *id, char **body, size_t *size)
{
  *body = NULL;
  if (!connect_database(backend))
    return OUTCOME_UNKNOWN;
  PGresult *result = run(backend, "read", id, NULL, 0);
  outcome read = outcome_of(result, PQntuples(result) > 0);
  if (is_lost(backend))
    read = OUTCOME_UNKNOWN;
  if (read == OUTCOME_ROW) {
    *size = (size_t) PQgetlength(result, 0, 0);
    *body = copy(PQgetvalue(result, 0, 0), *size);
    if (*body == NULL)
      read = OUTCOME_UNKNOWN;
    else
      cache_put(backend, id, *body, *size);
  }
  PQclear(result);
  return read;
}

/* A write, and then the end of the log. */
static outcome write_row(struct backend *backend, const char *statement, const char *id,
                         const char *body, size_t size, position *token)
{
  PGresult *result = run(backend, statement, id, body, size);
  outcome written = outcome_of(result, atoi(PQcmdTuples(result)) > 0);
  PQclear(result);
  if (is_lost(backend))
    return OUTCOME_UNKNOWN;
  if (!ask_end(backend->database, token)) {
    lose(backend); /* also where only the question was refused: settle() finds the way out */
    return OUTCOME_UNKNOWN;
  }
  return written;
}

outcome backend_put(struct backend *backend, const char *id, const char *body, size_t size,
                    position *token)
{
  if (!connect_database(backend))
    return OUTCOME_UNKNOWN;
  struct pending_id *entry = pending_begin(&backend->g->pending, id);
  if (entry == NULL)
    return OUTCOME_UNKNOWN;
  outcome written = write_row(backend, "put", id, body, size, token);
  if (backend->database != NULL)
    pending_end(&backend->g->pending, entry, *token);
  else {
    entry->behind = backend->unknown;
    backend->unknown = entry;
  }
  cache_delete(backend, id);
  return written;
}

outcome backend_delete(struct backend *backend, const char *id, position *token)
{
  if (!connect_database(backend))
    return OUTCOME_UNKNOWN;
  outcome written = write_row(backend, "delete", id, NULL, 0, token);
  cache_delete(backend, id);
  return written;
}

/* ---- the cache: whatever fails there, the database is asked ---- */

static bool greet(redisContext *cache, const char *password)
{
  if (password == NULL)
    return true;
  redisReply *reply = redisCommand(cache, "AUTH %s", password);
  bool good = reply != NULL && reply->type != REDIS_REPLY_ERROR;
  if (!good)
    say("the cache: %s", reply == NULL ? cache->errstr : reply->str);
  freeReplyObject(reply);
  return good;
}

static bool connect_cache(struct backend *backend)
{
  if (backend->cache != NULL)
    return true;
  if (backend->settings->redis_host == NULL || now_ms() < backend->cache_retry)
    return false;
  struct timeval wait = {.tv_usec = CACHE_WAIT_MS * 1000};
  redisContext *cache = redisConnectWithTimeout(backend->settings->redis_host,
                                                (int) backend->settings->redis_port, wait);
  if (cache != NULL && cache->err == 0 && redisSetTimeout(cache, wait) == REDIS_OK &&
      greet(cache, backend->settings->redis_password)) {
    backend->cache = cache;
    return true;
  }
  say("no connection to the cache: %s", cache == NULL ? "no memory" : cache->errstr);
  if (cache != NULL)
    redisFree(cache);
  backend->cache_retry = now_ms() + CACHE_RETRY_MS;
  return false;
}

/* The reply, or NULL. */
static redisReply *cache_answer(struct backend *backend, void *answer)
{
  redisReply *reply = answer;
  if (reply == NULL) {
    say("the connection to the cache was lost: %s", backend->cache->errstr);
    redisFree(backend->cache);
    backend->cache = NULL;
    backend->cache_retry = now_ms() + CACHE_RETRY_MS;
  } else if (reply->type == REDIS_REPLY_ERROR)
    say("the cache: %s", reply->str);
  return reply;
}

outcome backend_read_cache(struct backend *backend, const char *id, char **body, size_t *size)
{
  *body = NULL;
  if (!connect_cache(backend))
    return OUTCOME_UNKNOWN;
  cache_asked++;
  redisReply *reply = cache_answer(backend, redisCommand(backend->cache, "GET item:%s", id));
  if (reply != NULL && reply->type == REDIS_REPLY_STRING) {
    *size = reply->len;
    *body = copy(reply->str, reply->len);
  }
  freeReplyObject(reply);
  return *body != NULL ? OUTCOME_ROW : OUTCOME_NO_ROW;
}

static void cache_put(struct backend *backend, const char *id, const char *body, size_t size)
{
  if (connect_cache(backend))
    freeReplyObject(
        cache_answer(backend, redisCommand(backend->cache, "SET item:%s %b EX %u", id, body, size,
                                           backend->settings->cache_seconds)));
}

static void cache_delete(struct backend *backend, const char *id)
{
  if (connect_cache(backend))
    freeReplyObject(cache_answer(backend, redisCommand(backend->cache, "DEL item:%s", id)));
}
