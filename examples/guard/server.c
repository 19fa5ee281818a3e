/* SPDX-License-Identifier: MIT */
#include "server.h"

#include "backend.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_BODY = 1 << 20, IDLE_SECONDS = 60, MOST_THREADS = 256 };

enum answered { BY_FILTER, BY_CACHE, BY_DATABASE, BY_LIST, FAILED, ANSWERS };
static const char *const answered_names[ANSWERS] = {"filter", "cache", "database", "list",
                                                    "failed"};

struct server {
  struct guard *g;
  struct blocklist *list;
  struct MHD_Daemon *daemon;
  struct MHD_Response *refusal; /* the same for all ids */
  _Atomic uint64_t answers[ANSWERS];
  pthread_key_t backend; /* of each thread */
};

/* Of a request whose body is arriving. */
struct request {
  char *body;
  size_t size, room;
  bool too_long;
};

static const char no_such_id[] = "no such id\n";

static void destroy_backend(void *backend)
{
  backend_destroy(backend);
}

static struct backend *own_backend(struct server *server)
{
  struct backend *backend = pthread_getspecific(server->backend);
  if (backend == NULL) {
    backend = backend_create(server->g);
    if (backend != NULL && pthread_setspecific(server->backend, backend) != 0) {
      backend_destroy(backend);
      backend = NULL;
    }
  }
  return backend;
}

/* ---- answers ---- */

static enum MHD_Result answer_with(struct server *server, struct MHD_Connection *connection,
                                   unsigned status, enum answered by, char *body, size_t size,
                                   position token)
{
  struct MHD_Response *response =
      body != NULL ? MHD_create_response_from_buffer(size, body, MHD_RESPMEM_MUST_FREE)
                   : MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
  server->answers[by]++;
  if (response == NULL) {
    free(body);
    return MHD_NO;
  }
  MHD_add_response_header(response, "X-Guard", answered_names[by]);
  if (token != 0) {
    char text[32];
    snprintf(text, sizeof text, "%X/%X", (unsigned) (token >> 32), (unsigned) token);
    MHD_add_response_header(response, "X-Guard-Position", text);
  }
  enum MHD_Result result = MHD_queue_response(connection, status, response);
  MHD_destroy_response(response);
  return result;
}

static enum MHD_Result answer(struct server *server, struct MHD_Connection *connection,
                              unsigned status, enum answered by)
{
  return answer_with(server, connection, status, by, NULL, 0, 0);
}

static enum MHD_Result refuse(struct server *server, struct MHD_Connection *connection)
{
  server->answers[BY_FILTER]++;
  return MHD_queue_response(connection, MHD_HTTP_NOT_FOUND, server->refusal);
}

/* ---- items ---- */

static bool may_exist(struct server *server, struct MHD_Connection *connection, const char *id)
{
  const struct settings *settings = server->g->settings;
  position token = 0;
  const char *text = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Guard-Position");
  if (!id_is_canonical(settings->id_type, id))
    return false;
  if (!settings->filter)
    return true;
  if (text != NULL && !position_parse(text, &token))
    token = 0;
  return guard_judge(server->g, id, token) == POSSIBLE;
}

static enum MHD_Result get_item(struct server *server, struct MHD_Connection *connection,
                                const char *id)
{
  char *body;
  size_t size;
  if (!may_exist(server, connection, id))
    return refuse(server, connection);
  struct backend *backend = own_backend(server);
  if (backend == NULL)
    return answer(server, connection, MHD_HTTP_SERVICE_UNAVAILABLE, FAILED);
  if (backend_read_cache(backend, id, &body, &size) == OUTCOME_ROW)
    return answer_with(server, connection, MHD_HTTP_OK, BY_CACHE, body, size, 0);
  switch (backend_read(backend, id, &body, &size)) {
  case OUTCOME_ROW:
    return answer_with(server, connection, MHD_HTTP_OK, BY_DATABASE, body, size, 0);
  case OUTCOME_NO_ROW:
  case OUTCOME_REFUSED:
    return answer(server, connection, MHD_HTTP_NOT_FOUND, BY_DATABASE);
  default:
    return answer(server, connection, MHD_HTTP_SERVICE_UNAVAILABLE, FAILED);
  }
}

static enum MHD_Result answer_write(struct server *server, struct MHD_Connection *connection,
                                    outcome written, position token)
{
  switch (written) {
  case OUTCOME_ROW:
    return answer_with(server, connection, MHD_HTTP_NO_CONTENT, BY_DATABASE, NULL, 0, token);
  case OUTCOME_NO_ROW:
    return answer(server, connection, MHD_HTTP_NOT_FOUND, BY_DATABASE);
  case OUTCOME_REFUSED:
    return answer(server, connection, MHD_HTTP_BAD_REQUEST, BY_DATABASE);
  default:
    return answer(server, connection, MHD_HTTP_SERVICE_UNAVAILABLE, FAILED);
  }
}

static enum MHD_Result put_item(struct server *server, struct MHD_Connection *connection,
                                const char *id, const struct request *request)
{
  position token = 0;
  if (!id_is_canonical(server->g->settings->id_type, id))
    return answer(server, connection, MHD_HTTP_BAD_REQUEST, FAILED);
  if (request->too_long)
    return answer(server, connection, MHD_HTTP_CONTENT_TOO_LARGE, FAILED);
  struct backend *backend = own_backend(server);
  outcome written = OUTCOME_UNKNOWN;
  if (backend != NULL)
    written =
        backend_put(backend, id, request->body == NULL ? "" : request->body, request->size, &token);
  return answer_write(server, connection, written, token);
}

static enum MHD_Result delete_item(struct server *server, struct MHD_Connection *connection,
                                   const char *id)
{
  position token = 0;
  if (!may_exist(server, connection, id))
    return refuse(server, connection);
  struct backend *backend = own_backend(server);
  outcome written = backend == NULL ? OUTCOME_UNKNOWN : backend_delete(backend, id, &token);
  return answer_write(server, connection, written, token);
}

/* ---- figures ---- */

static int print(void *context, const void *data, size_t size)
{
  return fwrite(data, 1, size, context) == size ? 0 : -1;
}

static void print_metric(FILE *page, const char *name, const char *help, double value)
{
  size_t length = strlen(name);
  bool counts = length > 6 && strcmp(name + length - 6, "_total") == 0;
  fprintf(page, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name,
          counts ? "counter" : "gauge", name, value);
}

static void print_filters(FILE *page, struct server *server)
{
  struct held_filter *ids = filter_hold(&server->g->ids);
  struct held_filter *list = filter_hold(&server->list->filter);
  const tamis_filter *filters[2];
  const char *names[2];
  size_t n = 0;
  if (ids != NULL) {
    filters[n] = ids->filter;
    names[n++] = "ids";
  }
  if (list != NULL) {
    filters[n] = list->filter;
    names[n++] = "list";
  }
  tamis_stats_text_many(filters, names, n, TAMIS_PROMETHEUS, print, page);
  filter_release(&server->g->ids, ids);
  filter_release(&server->list->filter, list);
}

static void print_page(FILE *page, struct server *server)
{
  struct guard *g = server->g;
  int64_t fresh = g->fresh_at;
  double age = fresh == NEVER ? INFINITY : (double) (now_ms() - fresh) / 1000;
  bool closed = fresh != NEVER && (g->settings->lag_ms == 0 || age * 1000 <= g->settings->lag_ms);
  fputs("# HELP guard_answers_total Answers, by whom.\n# TYPE guard_answers_total counter\n", page);
  for (int i = 0; i < ANSWERS; i++)
    fprintf(page, "guard_answers_total{by=\"%s\"} %" PRIu64 "\n", answered_names[i],
            server->answers[i]);
  print_metric(page, "guard_closed",
               "1: ids are refused; 0: the database is asked about all of them.", closed);
  print_metric(page, "guard_age_seconds", "What was committed this long ago is in the filter.",
               age);
  print_metric(page, "guard_unsure_total", "Ids that the filter was not asked about.",
               (double) g->unsure);
  print_metric(page, "guard_pending_ids", "Ids that were written here and have not come back.",
               (double) pending_count(&g->pending));
  print_metric(page, "guard_applied_position", "The position of the filter in the log, in bytes.",
               (double) g->applied);
  print_metric(page, "guard_saved_position", "That of the saved filter.", (double) g->saved);
  print_metric(page, "guard_transactions_total", "Transactions applied to the filter.",
               (double) g->transactions);
  print_metric(page, "guard_changes_total", "Rows inserted and deleted in them.",
               (double) g->changes);
  print_metric(page, "guard_sessions_total", "How often the stream of changes was started.",
               (double) g->sessions);
  print_metric(page, "guard_fills_total", "How often the whole table was read.", (double) g->fills);
  print_metric(page, "guard_inexact_total", "Changes that could not be applied.",
               (double) g->inexact);
  print_metric(page, "guard_saves_total", "Saves.", (double) g->saves);
  print_metric(page, "guard_save_failures_total", "Saves that failed.", (double) g->save_failures);
  print_metric(page, "guard_list_loads_total", "Lists taken.", (double) server->list->loads);
  print_metric(page, "guard_list_failures_total", "Lists that could not be used.",
               (double) server->list->failures);
  print_metric(page, "guard_database_questions_total", "Statements sent for rows.",
               (double) database_questions());
  print_metric(page, "guard_cache_questions_total", "Look-ups in the cache.",
               (double) cache_questions());
  print_filters(page, server);
}

static enum MHD_Result get_metrics(struct server *server, struct MHD_Connection *connection)
{
  char *text = NULL;
  size_t size = 0;
  FILE *page = open_memstream(&text, &size);
  if (page == NULL)
    return MHD_NO;
  print_page(page, server);
  if (fclose(page) != 0) {
    free(text);
    return MHD_NO;
  }
  struct MHD_Response *response =
      MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
  MHD_add_response_header(response, "Content-Type", "text/plain; version=0.0.4");
  enum MHD_Result result = MHD_queue_response(connection, MHD_HTTP_OK, response);
  MHD_destroy_response(response);
  return result;
}

/* ---- requests ---- */

static enum MHD_Result dispatch(struct server *server, struct MHD_Connection *connection,
                                const char *url, const char *method, const struct request *request)
{
  const char *token = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Api-Key");
  if (strcmp(url, "/metrics") == 0)
    return get_metrics(server, connection);
  if (token != NULL && blocklist_has(server->list, token))
    return answer(server, connection, MHD_HTTP_FORBIDDEN, BY_LIST);
  if (strncmp(url, "/items/", 7) != 0)
    return answer(server, connection, MHD_HTTP_NOT_FOUND, FAILED);
  if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
    return get_item(server, connection, url + 7);
  if (strcmp(method, "PUT") == 0)
    return put_item(server, connection, url + 7, request);
  if (strcmp(method, "DELETE") == 0)
    return delete_item(server, connection, url + 7);
  return answer(server, connection, MHD_HTTP_METHOD_NOT_ALLOWED, FAILED);
}

static void take_body(struct request *request, const char *data, size_t size)
{
  if (request->size + size > LONGEST_BODY)
    request->too_long = true;
  if (request->room - request->size < size && !request->too_long) {
    size_t room = request->room * 2 + size;
    char *body = realloc(request->body, room);
    if (body == NULL)
      request->too_long = true;
    else {
      request->body = body;
      request->room = room;
    }
  }
  if (!request->too_long) {
    memcpy(request->body + request->size, data, size);
    request->size += size;
  }
}

/* libmicrohttpd calls it first for the headers, then for each part of the body, then for the
 * answer. */
static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **state)
{
  (void) version;
  if (*state == NULL) {
    *state = calloc(1, sizeof(struct request));
    return *state != NULL ? MHD_YES : MHD_NO;
  }
  if (*size > 0) {
    take_body(*state, data, *size);
    *size = 0;
    return MHD_YES;
  }
  return dispatch(context, connection, url, method, *state);
}

static void complete(void *context, struct MHD_Connection *connection, void **state,
                     enum MHD_RequestTerminationCode reason)
{
  struct request *request = *state;
  (void) context;
  (void) connection;
  (void) reason;
  if (request != NULL)
    free(request->body);
  free(request);
}

static void log_line(void *context, const char *format, va_list arguments)
{
  char text[512];
  (void) context;
  vsnprintf(text, sizeof text, format, arguments);
  say("%s", text);
}

/* An id with a NUL in it must not be cut there. */
static size_t unescape(void *context, struct MHD_Connection *connection, char *text)
{
  (void) context;
  (void) connection;
  size_t length = MHD_http_unescape(text);
  if (strlen(text) != length)
    text[length = 0] = 0;
  return length;
}

static bool create_refusal(struct server *server)
{
  server->refusal = MHD_create_response_from_buffer(sizeof no_such_id - 1, (void *) no_such_id,
                                                    MHD_RESPMEM_PERSISTENT);
  return server->refusal != NULL &&
         MHD_add_response_header(server->refusal, "X-Guard", answered_names[BY_FILTER]) == MHD_YES;
}

static bool start_daemon(struct server *server)
{
  const struct settings *settings = server->g->settings;
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t) settings->port)};
  if (inet_pton(AF_INET, settings->address, &address.sin_addr) != 1) {
    say("%s is no IPv4 address", settings->address);
    return false;
  }
  server->daemon =
      MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ERROR_LOG, 0, NULL, NULL, handle,
                       server, MHD_OPTION_EXTERNAL_LOGGER, log_line, NULL, MHD_OPTION_SOCK_ADDR,
                       (struct sockaddr *) &address, MHD_OPTION_THREAD_POOL_SIZE, settings->threads,
                       MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS,
                       MHD_OPTION_LISTENING_ADDRESS_REUSE, 1, MHD_OPTION_UNESCAPE_CALLBACK,
                       unescape, NULL, MHD_OPTION_NOTIFY_COMPLETED, complete, NULL, MHD_OPTION_END);
  if (server->daemon == NULL)
    say("cannot listen at %s port %u: %s", settings->address, settings->port, strerror(errno));
  return server->daemon != NULL;
}

struct server *server_start(struct guard *g, struct blocklist *list)
{
  struct server *server = calloc(1, sizeof *server);
  if (server == NULL)
    return NULL;
  server->g = g;
  server->list = list;
  if (pthread_key_create(&server->backend, destroy_backend) != 0) {
    free(server);
    return NULL;
  }
  if (!create_refusal(server) || !start_daemon(server)) {
    server_stop(server);
    return NULL;
  }
  return server;
}

void server_stop(struct server *server)
{
  if (server->daemon != NULL)
    MHD_stop_daemon(server->daemon);
  if (server->refusal != NULL)
    MHD_destroy_response(server->refusal);
  pthread_key_delete(server->backend);
  free(server);
}

unsigned server_port(const struct server *server)
{
  return MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}
