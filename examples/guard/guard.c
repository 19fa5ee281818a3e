/* SPDX-License-Identifier: MIT
 *
 * An HTTP service (libmicrohttpd) in front of a table of PostgreSQL (libpq), with a cache in Redis
 * (hiredis).  A cache does not help against requests for ids that do not exist: each of them reaches
 * the database.  The guard answers such requests from a filter of the table's ids.  The filter is in
 * a file, which all guards of a machine share.
 *
 * At every moment the filter has at least one copy of each id that the table has:
 *
 *   PUT     adds a copy, inserts the row, and removes the copy if the row was there before.
 *   DELETE  deletes the row, and then removes a copy, if the database says that the row was there.
 *
 * If a guard is killed in between, or the database does not answer, the filter keeps a copy too many,
 * and requests for that id reach the database in vain.  With a copy too few, the guard would refuse
 * an id that exists.  So when it does not know whether the row was there, it removes no copy.
 */
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <tamis/tamis.h>
#include <unistd.h>

enum { THREADS = 8, MOST_BYTES = 4096, MOST_DIGITS = 18 };

struct body {
  size_t size; /* of all that came, of which `text` has the beginning */
  char text[MOST_BYTES + 1];
};

static tamis_filter *ids; /* NULL: no filter, for the comparison */
static int cache_port;
/* Each thread has connections of its own. */
static _Thread_local PGconn *database;
static _Thread_local redisContext *cache;
static atomic_ulong requests, refused, cached, queries, in_vain; /* what /stats shows */

static void die(const char *what, const char *why)
{
  fprintf(stderr, "guard: %s: %s\n", what, why);
  exit(1);
}

/* ---- the two servers ---- */

/* NULL: there was no answer, and the statement may have been executed or not.  Of a body that is no text: an error. */
static PGresult *query(const char *sql, const char *id, const char *body)
{
  const char *values[] = {id, body};
  if (!database)
    database = PQconnectdb(""); /* PGHOST, PGPASSFILE and so on say where */
  PGresult *r = PQexecParams(database, sql, !!id + !!body, NULL, values, NULL, NULL, 0);
  const char *error = PQresultErrorField(r, PG_DIAG_SQLSTATE);
  if (PQresultStatus(r) == PGRES_TUPLES_OK || PQresultStatus(r) == PGRES_COMMAND_OK ||
      (body && error && strncmp(error, "22", 2) == 0))
    return r;
  fprintf(stderr, "guard: %s", PQerrorMessage(database));
  PQclear(r);
  PQfinish(database);
  database = NULL;
  return NULL;
}

/* NULL: there was no answer.  The guard works without a cache, too. */
static redisReply *ask_cache(const char *command, const char *id, const char *body)
{
  if (cache && cache->err) {
    redisFree(cache);
    cache = NULL;
  }
  if (!cache)
    cache = redisConnect("127.0.0.1", cache_port);
  return cache && !cache->err ? redisCommand(cache, command, id, body) : NULL;
}

static void tell_cache(const char *command, const char *id, const char *body)
{
  freeReplyObject(ask_cache(command, id, body)); /* which may be NULL */
}

/* ---- requests ---- */

static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, const char *by,
                              const char *text)
{
  struct MHD_Response *r = MHD_create_response_from_buffer(strlen(text), (void *) (uintptr_t) text,
                                                           MHD_RESPMEM_MUST_COPY);
  MHD_add_response_header(r, "X-Answered-By", by);
  enum MHD_Result result = MHD_queue_response(c, status, r);
  MHD_destroy_response(r);
  return result;
}

static enum MHD_Result no_answer(struct MHD_Connection *c)
{
  return answer(c, MHD_HTTP_SERVICE_UNAVAILABLE, "database", "the database gives no answer\n");
}

static enum MHD_Result refuse(struct MHD_Connection *c)
{
  refused++;
  return answer(c, MHD_HTTP_NOT_FOUND, "filter", "");
}

static bool may_exist(const char *id)
{
  return !ids || tamis_contains(ids, id, strlen(id));
}

static enum MHD_Result get(struct MHD_Connection *c, const char *id)
{
  if (!may_exist(id))
    return refuse(c);
  redisReply *hit = ask_cache("GET item:%s", id, NULL);
  bool is_cached = hit && hit->type == REDIS_REPLY_STRING;
  enum MHD_Result result = is_cached ? answer(c, MHD_HTTP_OK, "cache", hit->str) : MHD_NO;
  freeReplyObject(hit);
  cached += is_cached;
  if (is_cached)
    return result;
  queries++;
  PGresult *r = NULL;
  for (int i = 0; !r && i < 2; i++) /* the first connection may have been lost */
    r = query("SELECT body FROM items WHERE id = $1", id, NULL);
  if (!r)
    return no_answer(c);
  if (PQntuples(r) == 0) {
    in_vain++;
    result = answer(c, MHD_HTTP_NOT_FOUND, "database", "");
  } else {
    tell_cache("SET item:%s %s EX 60", id, PQgetvalue(r, 0, 0));
    result = answer(c, MHD_HTTP_OK, "database", PQgetvalue(r, 0, 0));
  }
  PQclear(r);
  return result;
}

static enum MHD_Result put(struct MHD_Connection *c, const char *id, const char *body)
{
  int added = ids ? tamis_add(ids, id, strlen(id)) : TAMIS_OK;
  if (added != TAMIS_OK)
    return answer(c, MHD_HTTP_INSUFFICIENT_STORAGE, "filter", tamis_strerror(added));
  PGresult *r = query("INSERT INTO items VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET body = "
                      "excluded.body RETURNING xmax = 0",
                      id, body);
  if (!r)
    return no_answer(c);
  bool good = PQresultStatus(r) == PGRES_TUPLES_OK;
  if (ids && (!good || PQgetvalue(r, 0, 0)[0] == 'f')) /* it is not a new row */
    tamis_remove(ids, id, strlen(id));
  PQclear(r);
  tell_cache("DEL item:%s", id, NULL);
  return answer(c, good ? MHD_HTTP_NO_CONTENT : MHD_HTTP_BAD_REQUEST, "database", "");
}

static enum MHD_Result delete (struct MHD_Connection *c, const char *id) {
  if (!may_exist(id)) return refuse(c);
  PGresult *r = query("DELETE FROM items WHERE id = $1 RETURNING id", id, NULL);
  if (!r) return no_answer(c);
  bool was_there = PQntuples(r) > 0;
  PQclear(r);
  if (ids && was_there) tamis_remove(ids, id, strlen(id));
  tell_cache("DEL item:%s", id, NULL);
  return answer(c, was_there ? MHD_HTTP_NO_CONTENT : MHD_HTTP_NOT_FOUND, "database", "");
}

static enum MHD_Result show_stats(struct MHD_Connection *c)
{
  char text[512];
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(ids, &stats);
  snprintf(
      text, sizeof text,
      "requests %lu\nrefused %lu\ncached %lu\nqueries %lu\nin_vain %lu\ncopies %ju\nbytes %ju\n",
      requests, refused, cached, queries, in_vain, (uintmax_t) stats.count,
      (uintmax_t) stats.bytes);
  return answer(c, MHD_HTTP_OK, "guard", text);
}

/* libmicrohttpd calls this after the head of a request, for each part of its body, and at the end. */
static enum MHD_Result handle(void *context, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **of_request)
{
  struct body *body = *of_request;
  (void) context, (void) version;
  if (!body) {
    *of_request = body = calloc(1, sizeof *body);
    return body ? MHD_YES : MHD_NO;
  }
  if (*size > 0) {
    size_t room = body->size < MOST_BYTES ? MOST_BYTES - body->size : 0;
    memcpy(body->text + MOST_BYTES - room, data, *size < room ? *size : room);
    body->size += *size;
    *size = 0;
    return MHD_YES;
  }
  requests++;
  if (strcmp(url, "/stats") == 0)
    return show_stats(c);
  const char *id = url + (strncmp(url, "/items/", 7) == 0 ? 7 : 0);
  size_t digits = strspn(id, "0123456789");
  if (digits == 0 || digits > MOST_DIGITS || id[digits] != '\0' || id[0] == '0')
    return answer(c, MHD_HTTP_BAD_REQUEST, "guard", "/items/NUMBER, or /stats\n");
  if (strlen(body->text) < body->size) /* it would be stored in part */
    return answer(c, MHD_HTTP_BAD_REQUEST, "guard", "at most 4096 bytes of text\n");
  if (strcmp(method, "PUT") == 0)
    return put(c, id, body->text);
  return strcmp(method, "DELETE") == 0 ? delete (c, id) : get(c, id);
}

static void end_request(void *context, struct MHD_Connection *c, void **of_request,
                        enum MHD_RequestTerminationCode code)
{
  (void) context, (void) c, (void) code;
  free(*of_request);
}

/* ---- the filter ---- */

static tamis_filter *open_filter(const tamis_options *options, const char *path)
{
  tamis_filter *f;
  int result = tamis_open_shared(options, path, &f);
  if (result != TAMIS_OK)
    die(path, tamis_strerror(result));
  return f;
}

/* Fills a filter from the table.  Nobody writes meanwhile: other guards wait for the lock, and the
 * statements of killed guards have ended when the table is locked. */
static void fill(const char *path, uint64_t capacity)
{
  char part[4096];
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO, options.growable = false;
  options.capacity = capacity, options.fpp = 0.001;
  snprintf(part, sizeof part, "%s.part", path);
  unlink(part);
  tamis_filter *f = open_filter(&options, part);
  PQclear(query("BEGIN", NULL, NULL));
  PQclear(query("LOCK TABLE items IN SHARE MODE", NULL, NULL));
  PGresult *r = query("SELECT id FROM items", NULL, NULL);
  for (int i = 0; r && i < PQntuples(r); i++)
    if (tamis_add(f, PQgetvalue(r, i, 0), strlen(PQgetvalue(r, i, 0))) != TAMIS_OK)
      die(path, "the capacity is too small");
  tamis_destroy(f);
  if (!r || rename(part, path) != 0)
    die(path, "the table cannot be read, or the file not be written");
  PQclear(r);
  PQclear(query("COMMIT", NULL, NULL));
}

static void open_ids(const char *path, uint64_t capacity)
{
  char lock_path[4096];
  snprintf(lock_path, sizeof lock_path, "%s.lock", path);
  int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0 || flock(lock, LOCK_EX) != 0)
    die(lock_path, "cannot be locked");
  if (access(path, F_OK) != 0)
    fill(path, capacity);
  ids = open_filter(NULL, path);
  close(lock);
}

int main(int argc, char **argv)
{
  sigset_t ends;
  int number;
  if (argc != 4 && argc != 5) {
    fputs("usage: guard PORT REDIS-PORT FILTER CAPACITY, or guard PORT REDIS-PORT -\n", stderr);
    return 2;
  }
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, NULL);
  signal(SIGPIPE, SIG_IGN); /* when a server has ended */
  cache_port = atoi(argv[2]);
  if (argc == 5)
    open_ids(argv[3], strtoull(argv[4], NULL, 10));
  struct MHD_Daemon *daemon =
      MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, (uint16_t) atoi(argv[1]), NULL, NULL, handle,
                       NULL, MHD_OPTION_THREAD_POOL_SIZE, (unsigned) THREADS,
                       MHD_OPTION_NOTIFY_COMPLETED, end_request, NULL, MHD_OPTION_END);
  if (!daemon)
    die(argv[1], "cannot listen");
  sigwait(&ends, &number);
  MHD_stop_daemon(daemon);
  tamis_destroy(ids);
  return 0;
}
