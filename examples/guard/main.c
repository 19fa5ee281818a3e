/* SPDX-License-Identifier: MIT */
#include "blocklist.h"
#include "guard.h"
#include "server.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum {
  KEY_ID = 0x100,
  KEY_BODY,
  KEY_TYPE,
  KEY_SLOT,
  KEY_PUBLICATION,
  KEY_CAPACITY,
  KEY_FPP,
  KEY_SAVE,
  KEY_LAG,
  KEY_REDIS,
  KEY_REDIS_PASSWORD,
  KEY_CACHE,
  KEY_ADDRESS,
  KEY_THREADS,
  KEY_LIST,
  KEY_PLAIN,
  LONGEST_END_SECONDS = 10
};

static const struct argp_option options[] = {
    {"database", 'd', "CONNECTION", 0,
     "Connection string of libpq.  Without it, libpq's variables (PGHOST, ...) hold.  Passwords "
     "belong "
     "into PGPASSFILE, or into the variable PGPASSWORD",
     1},
    {"table", 't', "TABLE", 0, "The table, as SQL writes it (default items)", 1},
    {"id", KEY_ID, "COLUMN", 0, "Its primary key (default id)", 1},
    {"body", KEY_BODY, "COLUMN", 0, "A column of the type text or bytea (default body)", 1},
    {"id-type", KEY_TYPE, "TYPE", 0, "bigint (default; also for the shorter ones), uuid or text",
     1},
    {"slot", KEY_SLOT, "NAME", 0,
     "The replication slot, one for each process that runs (default tamis_guard)", 1},
    {"publication", KEY_PUBLICATION, "NAME", 0, "Created if there is none (default tamis_guard)",
     1},
    {"state", 's', "FOLDER", 0, "Where the filter is saved (default .)", 2},
    {"save", KEY_SAVE, "SECONDS", 0, "How often (default 30)", 2},
    {"capacity", KEY_CAPACITY, "N", 0, "Rows expected; the filter grows beyond (default 1000000)",
     2},
    {"fpp", KEY_FPP, "RATE", 0, "Part of the wrong ids that pass the filter (default 0.001)", 2},
    {"lag", KEY_LAG, "MS", 0,
     "Refuse only while everything that was committed so long ago is in the filter (default 1000); "
     "0: no bound, where all writers go through the program and the database never fails over",
     2},
    {"redis", KEY_REDIS, "HOST:PORT", 0, "The cache (default: none)", 3},
    {"redis-password", KEY_REDIS_PASSWORD, "FILE", 0,
     "A file with its password, which may be in the variable GUARD_REDIS_PASSWORD, too", 3},
    {"cache", KEY_CACHE, "SECONDS", 0, "How long a row stays in the cache (default 30)", 3},
    {"listen", KEY_ADDRESS, "ADDRESS", 0, "Default 127.0.0.1", 4},
    {"port", 'p', "PORT", 0, "Default 8080; 0: a free one, which is printed", 4},
    {"threads", KEY_THREADS, "N", 0, "Each has a connection to the database (default 8)", 4},
    {"blocklist", KEY_LIST, "FILE", 0,
     "Made by 'tamis build' of access tokens; requests with one of them in X-Api-Key get 403.  A "
     "new "
     "file is taken within a second, or on SIGHUP",
     5},
    {"plain", KEY_PLAIN, NULL, 0, "No filter: a plain cache, for comparison", 6},
    {NULL, 0, NULL, 0, NULL, 0}};

static uint64_t parse_number(struct argp_state *state, const char *text, uint64_t most)
{
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (errno != 0 || !isdigit((unsigned char) text[0]) || *end != 0 || number > most)
    argp_error(state, "'%s' is no number from 0 to %llu", text, (unsigned long long) most);
  return number;
}

static double parse_rate(struct argp_state *state, const char *text)
{
  char *end;
  double rate = strtod(text, &end);
  if (end == text || *end != 0)
    argp_error(state, "'%s' is no number", text);
  return rate;
}

static const char *parse_name(struct argp_state *state, const char *text)
{
  size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_");
  if (length == 0 || length > 60 || text[length] != 0 || isdigit((unsigned char) text[0]))
    argp_error(state, "'%s' is no name of small letters, digits and _", text);
  return text;
}

static id_type parse_type(struct argp_state *state, const char *text)
{
  static const char *const names[] = {"bigint", "uuid", "text"};
  for (int i = 0; i < 3; i++)
    if (strcmp(text, names[i]) == 0)
      return (id_type) i;
  argp_error(state, "'%s' is no type of ids: bigint, uuid or text", text);
  return ID_BIGINT;
}

static void parse_redis(struct argp_state *state, struct settings *settings, char *text)
{
  char *colon = strrchr(text, ':');
  if (colon == NULL)
    argp_error(state, "'%s' is not HOST:PORT", text);
  else {
    settings->redis_port = (unsigned) parse_number(state, colon + 1, 65535);
    *colon = 0;
    settings->redis_host = text;
  }
}

static void read_password(struct argp_state *state, struct settings *settings, const char *path)
{
  FILE *file = fopen(path, "re");
  size_t room = 0;
  if (file == NULL || getline(&settings->redis_password, &room, file) < 0)
    argp_failure(state, 2, errno, "cannot read %s", path);
  else
    settings->redis_password[strcspn(settings->redis_password, "\n")] = 0;
  if (file != NULL)
    fclose(file);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
  struct settings *s = state->input;
  switch (key) {
  case 'd':
    s->database = text;
    return 0;
  case 't':
    s->table = text;
    return 0;
  case KEY_ID:
    s->id_column = text;
    return 0;
  case KEY_BODY:
    s->body_column = text;
    return 0;
  case KEY_TYPE:
    s->id_type = parse_type(state, text);
    return 0;
  case KEY_SLOT:
    s->slot = parse_name(state, text);
    return 0;
  case KEY_PUBLICATION:
    s->publication = parse_name(state, text);
    return 0;
  case 's':
    s->folder = text;
    return 0;
  case KEY_SAVE:
    s->save_seconds = (unsigned) parse_number(state, text, 1000000);
    return 0;
  case KEY_CAPACITY:
    s->capacity = parse_number(state, text, UINT64_C(1) << 40);
    return 0;
  case KEY_FPP:
    s->fpp = parse_rate(state, text);
    return 0;
  case KEY_LAG:
    s->lag_ms = (unsigned) parse_number(state, text, 1000000000);
    return 0;
  case KEY_REDIS:
    parse_redis(state, s, text);
    return 0;
  case KEY_REDIS_PASSWORD:
    read_password(state, s, text);
    return 0;
  case KEY_CACHE:
    s->cache_seconds = (unsigned) parse_number(state, text, 1000000000);
    return 0;
  case KEY_ADDRESS:
    s->address = text;
    return 0;
  case 'p':
    s->port = (unsigned) parse_number(state, text, 65535);
    return 0;
  case KEY_THREADS:
    s->threads = (unsigned) parse_number(state, text, 1000);
    return 0;
  case KEY_LIST:
    s->blocklist = text;
    return 0;
  case KEY_PLAIN:
    s->filter = false;
    return 0;
  case ARGP_KEY_ARG:
    argp_error(state, "'%s' is no option", text);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp argp = {options,
                                 parse,
                                 NULL,
                                 "An HTTP service in front of a table of PostgreSQL, with a cache "
                                 "in Redis, that refuses ids which "
                                 "do not exist without asking either.",
                                 NULL,
                                 NULL,
                                 NULL};

/* Whether the options make a filter, before anything is started. */
static bool check_filter(const struct settings *settings)
{
  tamis_options wanted = TAMIS_OPTIONS_INIT;
  char why[256];
  wanted.kind = TAMIS_CUCKOO;
  wanted.capacity = settings->capacity;
  wanted.fpp = settings->fpp;
  if (tamis_options_check(&wanted, why, sizeof why) == TAMIS_OK)
    return true;
  say("%s", why);
  return false;
}

/* Two processes with one slot would take each other's changes away. */
static bool lock_folder(const struct settings *settings)
{
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.lock", settings->folder, settings->slot);
  int file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
    return true; /* for as long as the process lives */
  say(file >= 0 && errno == EWOULDBLOCK ? "%s: another process is at work" : "%s: %m", path);
  return false;
}

/* Waits for a signal that ends the program, and looks for new lists meanwhile. */
static void serve(const sigset_t *signals, struct blocklist *list)
{
  struct timespec second = {.tv_sec = 1};
  for (;;) {
    int number = sigtimedwait(signals, NULL, &second);
    if (number == SIGTERM || number == SIGINT)
      return;
    blocklist_refresh(list, number == SIGHUP);
  }
}

static void end_at_once(int number)
{
  static const char text[] = "guard: the database does not answer: ended without a last save\n";
  (void) number;
  _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 2 : 1);
}

/* The threads end within milliseconds, unless they wait for the database: a server that hangs, or
 * a slot that is created, which waits for all transactions that are open.  The saved filter is
 * whole at any time.  A second signal ends the process at once. */
static void limit_end(const sigset_t *signals)
{
  signal(SIGALRM, end_at_once);
  alarm(LONGEST_END_SECONDS);
  pthread_sigmask(SIG_UNBLOCK, signals, NULL);
}

static int run(const struct settings *settings, struct guard *g, struct blocklist *list)
{
  sigset_t signals;
  pthread_t follower;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  signal(SIGPIPE, SIG_IGN);
  if (!blocklist_refresh(list, true))
    return 1;
  struct server *server = server_start(g, list);
  if (server == NULL)
    return 1;
  bool follows = settings->filter && pthread_create(&follower, NULL, follow, g) == 0;
  if (settings->filter && !follows)
    say("no thread to follow the table: all ids are asked for");
  say("listening at http://%s:%u", settings->address, server_port(server));
  serve(&signals, list);
  limit_end(&signals);
  g->stopping = true;
  server_stop(server);
  eventfd_write(g->wake, 1);
  if (follows)
    pthread_join(follower, NULL);
  say("ended");
  return 0;
}

int main(int argc, char **argv)
{
  struct settings settings = {.database = "",
                              .table = "items",
                              .id_column = "id",
                              .body_column = "body",
                              .slot = "tamis_guard",
                              .publication = "tamis_guard",
                              .folder = ".",
                              .capacity = 1000000,
                              .fpp = 0.001,
                              .save_seconds = 30,
                              .lag_ms = 1000,
                              .cache_seconds = 30,
                              .address = "127.0.0.1",
                              .port = 8080,
                              .threads = 8,
                              .filter = true};
  static struct guard guard;
  static struct blocklist list;
  const char *password = getenv("GUARD_REDIS_PASSWORD");
  argp_parse(&argp, argc, argv, 0, NULL, &settings);
  if (settings.redis_password == NULL && password != NULL)
    settings.redis_password = strdup(password);
  if (!check_filter(&settings) || !lock_folder(&settings) || !guard_init(&guard, &settings))
    return 1;
  blocklist_init(&list, settings.blocklist);
  int status = run(&settings, &guard, &list);
  blocklist_destroy(&list);
  guard_destroy(&guard);
  free(settings.redis_password);
  return status;
}
