/* SPDX-License-Identifier: MIT */
#include "metrics.h"
#include "say.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_MS = 2000 };

struct metrics {
  const struct once *once;
  struct pool *pool;
  const struct figures *figures;
  int listener, stop_bell;
  pthread_t thread;
};

static void write_number(FILE *page, const char *name, const char *type, const char *help,
                         double value)
{
  fprintf(page, "# HELP consumers_%s %s\n# TYPE consumers_%s %s\nconsumers_%s %.15g\n", name, help,
          name, type, name, value);
}

static void write_counters(FILE *page, const struct figures *f)
{
  const struct {
    const char *name, *help;
    const atomic_ullong *value;
  } counters[] = {
      {"received_total", "Deliveries.", &f->received},
      {"worked_total", "Works that have succeeded.", &f->worked},
      {"copies_total", "Messages dropped as done before: copies, and false positives.", &f->copies},
      {"held_total", "Times that a delivery has waited because its message was claimed.", &f->held},
      {"failed_total", "Works that have failed, and are tried again.", &f->failed},
      {"without_id_total", "Messages without an id, which are worked each time.", &f->without_id},
      {"not_recorded_total", "Worked messages for which the window had no room.", &f->not_recorded},
      {"acknowledged_total", "Acknowledgements sent.", &f->acknowledged},
      {"connections_total", "Connections made to the broker.", &f->connections},
      {"saves_total", "Saves of the window.", &f->saves},
      {"failed_saves_total", "Saves that have failed.", &f->failed_saves}};
  for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
    write_number(page, counters[i].name, "counter", counters[i].help,
                 (double) atomic_load(counters[i].value));
}

static int to_page(void *page, const void *data, size_t size)
{
  return fwrite(data, 1, size, page) == size ? 0 : -1;
}

static bool write_page(const struct metrics *m, FILE *page)
{
  const tamis_filter *filters[] = {once_claims(m->once), once_window(m->once)};
  const char *names[] = {"claims", "done"};
  write_counters(page, m->figures);
  write_number(page, "in_hand", "gauge", "Deliveries that are not acknowledged.",
               pool_count(m->pool));
  write_number(page, "unsaved", "gauge",
               "Worked messages that the last save does not hold; a crash may repeat them.",
               (double) once_unsaved(m->once));
  write_number(page, "save_age_seconds", "gauge", "Time since the last complete save began.",
               once_save_age(m->once));
  return tamis_stats_text_many(filters, names, 2, TAMIS_PROMETHEUS, to_page, page) == TAMIS_OK;
}

static bool send_all(int client, const char *data, size_t size)
{
  for (ssize_t sent; size > 0; data += sent, size -= (size_t) sent)
    if ((sent = send(client, data, size, MSG_NOSIGNAL)) <= 0)
      return false;
  return true;
}

static void answer(const struct metrics *m, int client, bool found)
{
  char *text = NULL, head[160];
  size_t size = 0;
  FILE *page = open_memstream(&text, &size);
  if (page == NULL)
    return;
  bool written = found && write_page(m, page);
  if (fclose(page) == 0) {
    const char *status = !found    ? "404 Not Found"
                         : written ? "200 OK"
                                   : "500 Internal Server Error";
    snprintf(head, sizeof head,
             "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %zu\r\n"
             "Connection: close\r\n\r\n",
             status, size);
    if (send_all(client, head, strlen(head)))
      send_all(client, text, size);
  }
  free(text);
}

/* Reads to the empty line that ends a request without a body. */
static void serve(const struct metrics *m, int client)
{
  char request[4096];
  size_t size = 0;
  double deadline = seconds_now() + REQUEST_MS / 1e3;
  while (size < sizeof request - 1) {
    double left = deadline - seconds_now();
    struct pollfd event = {client, POLLIN, 0};
    if (left <= 0 || poll(&event, 1, (int) (left * 1e3) + 1) <= 0)
      return;
    ssize_t got = recv(client, request + size, sizeof request - 1 - size, 0);
    if (got <= 0)
      return;
    size += (size_t) got;
    request[size] = 0;
    if (strstr(request, "\r\n\r\n") == NULL)
      continue;
    answer(m, client, strncmp(request, "GET /metrics ", 13) == 0);
    return;
  }
}

static void *metrics_main(void *argument)
{
  struct metrics *m = argument;
  for (;;) {
    struct pollfd events[] = {{m->listener, POLLIN, 0}, {m->stop_bell, POLLIN, 0}};
    if (poll(events, 2, -1) < 0)
      continue;
    if (events[1].revents != 0)
      return NULL;
    int client = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
      continue;
    const struct timeval patience = {REQUEST_MS / 1000, 0};
    setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    serve(m, client);
    close(client);
  }
}

static int listen_on(unsigned port)
{
  const int yes = 1;
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t) port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0)
    return -1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, (const struct sockaddr *) &address, sizeof address) == 0 &&
      listen(listener, 16) == 0)
    return listener;
  int error = errno;
  close(listener);
  errno = error;
  return -1;
}

struct metrics *metrics_start(unsigned port, const struct once *once, struct pool *pool,
                              const struct figures *figures)
{
  struct metrics *m = calloc(1, sizeof *m);
  if (m == NULL) {
    say("out of memory");
    return NULL;
  }
  *m = (struct metrics){.once = once, .pool = pool, .figures = figures};
  m->listener = listen_on(port);
  m->stop_bell = eventfd(0, EFD_CLOEXEC);
  if (m->listener < 0)
    say("cannot listen on 127.0.0.1:%u: %s", port, strerror(errno));
  else if (m->stop_bell < 0 || pthread_create(&m->thread, NULL, metrics_main, m) != 0)
    say("cannot start the server of figures");
  else
    return m;
  if (m->listener >= 0)
    close(m->listener);
  if (m->stop_bell >= 0)
    close(m->stop_bell);
  free(m);
  return NULL;
}

void metrics_stop(struct metrics *m)
{
  if (m == NULL)
    return;
  eventfd_write(m->stop_bell, 1);
  pthread_join(m->thread, NULL);
  close(m->listener);
  close(m->stop_bell);
  free(m);
}
