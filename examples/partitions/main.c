/* SPDX-License-Identifier: MIT
 *
 * A table that is partitioned by day, and is asked for rows by an id that says nothing about the day:
 * only the partitions are searched that may have the id, by a bank of filters (bank.h).
 */
#include "bank.h"

#include <argp.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_DAYS = 4096, BATCH = 100, ID_BYTES = 64, MOST_TIMES = 1 << 20 };

static struct {
  struct bank_plan plan;
  const char *database;
  const char *command;
  char **days;
  int day_count;
  bool all;
} options = {.plan = {".", 100000, 0.01}, .database = ""};

/* ---- text ---- */

/* An array, as PostgreSQL writes it. */
struct array {
  char text[BATCH * (ID_BYTES + 4) > MOST_DAYS * 12 ? BATCH *(ID_BYTES + 4) : MOST_DAYS * 12];
  size_t length;
  unsigned count;
};

static void put(struct array *a, const char *value)
{
  int n = snprintf(a->text + a->length, sizeof a->text - a->length, "%s%s",
                   a->count++ > 0 ? "," : "{", value);
  a->length += n > 0 ? (size_t) n : 0;
}

static void put_day(struct array *a, int day)
{
  char text[16];
  snprintf(text, sizeof text, "%d", day);
  put(a, text);
}

static const char *end_array(struct array *a)
{
  snprintf(a->text + a->length, sizeof a->text - a->length, "%s", a->count > 0 ? "}" : "{}");
  return a->text;
}

/* A day is a number above 0; 0: there is none. */
static int parse_day(const char *text, const char **rest)
{
  char *end;
  long day = strtol(text, &end, 10);
  *rest = end;
  return day > 0 && day < 1000000000 ? (int) day : 0;
}

static int day_of(const char *text)
{
  const char *rest;
  int day = parse_day(text, &rest);
  return *rest == '\0' ? day : 0;
}

/* ---- the database ---- */

static PGconn *connect_database(void)
{
  PGconn *c = PQconnectdb(options.database);
  if (PQstatus(c) == CONNECTION_OK)
    return c;
  fprintf(stderr, "partitions: %s", PQerrorMessage(c));
  exit(1);
}

/* NULL after a message. */
static PGresult *query(PGconn *c, const char *sql, int n, const char *const *values)
{
  PGresult *r = PQexecParams(c, sql, n, NULL, values, NULL, NULL, 0);
  if (PQresultStatus(r) == PGRES_TUPLES_OK || PQresultStatus(r) == PGRES_COMMAND_OK)
    return r;
  fprintf(stderr, "partitions: %s", PQerrorMessage(c));
  PQclear(r);
  return NULL;
}

static bool change(PGconn *c, const char *sql, int day)
{
  char text[512];
  snprintf(text, sizeof text, sql, day, day);
  PGresult *r = query(c, text, 0, NULL);
  PQclear(r);
  return r;
}

/* ---- partitions ---- */

static bool create_day(PGconn *c, int day)
{
  return bank_create_day(&options.plan, day) &&
         change(c, "CREATE TABLE IF NOT EXISTS orders_%d PARTITION OF orders FOR VALUES IN (%d)",
                day);
}

static bool close_day(PGconn *c, int day)
{
  (void) c;
  return bank_close_day(&options.plan, day);
}

struct rows {
  PGconn *connection;
  int day;
  PGresult *result; /* NULL: they have not been read yet */
  int next;
};

/* The lock of the table waits for rows that came past the bank, and keeps out others.  It is taken when
 * nobody inserts through the bank, who would wait for this lock with the bank's lock held. */
static bool read_rows(struct rows *rows)
{
  char text[64];
  snprintf(text, sizeof text, "SELECT id FROM orders_%d", rows->day);
  if (change(rows->connection, "BEGIN", rows->day) &&
      change(rows->connection, "LOCK TABLE orders_%d IN SHARE MODE", rows->day))
    rows->result = query(rows->connection, text, 0, NULL);
  return rows->result;
}

static bool next_id(void *context, const char **id)
{
  struct rows *rows = context;
  if (!rows->result && !read_rows(rows))
    return false;
  *id = rows->next < PQntuples(rows->result) ? PQgetvalue(rows->result, rows->next++, 0) : NULL;
  return true;
}

static bool rebuild_day(PGconn *c, int day)
{
  struct rows rows = {.connection = c, .day = day};
  bool done = bank_rebuild_day(&options.plan, day, next_id, &rows);
  PQclear(rows.result);
  return done && change(c, "COMMIT", day);
}

/* Until it is rebuilt, the partition is searched for every id. */
static bool attach_day(PGconn *c, int day)
{
  return bank_forget(&options.plan, day) &&
         change(c, "ALTER TABLE orders ATTACH PARTITION orders_%d FOR VALUES IN (%d)", day) &&
         rebuild_day(c, day);
}

/* ---- insert ---- */

struct batch {
  struct array ids, days;
};

static struct partition inserting[MOST_DAYS];
static int inserting_count;

static struct partition *partition_of(int day)
{
  for (int i = 0; i < inserting_count; i++)
    if (inserting[i].day == day)
      return &inserting[i];
  if (inserting_count == MOST_DAYS)
    exit(1);
  inserting[inserting_count] = (struct partition){.day = day, .lock = -1};
  return &inserting[inserting_count++];
}

/* Adds an id to the filter of its partition, whose lock is held from now on. */
static bool put_row(struct batch *b, const char *id, int day)
{
  struct partition *p = partition_of(day);
  if (p->lock < 0 && !bank_begin_insert(&options.plan, day, p))
    return false;
  put(&b->ids, id);
  put_day(&b->days, day);
  return bank_add(p, id);
}

static bool insert_batch(PGconn *c, struct batch *b)
{
  const char *values[] = {end_array(&b->days), end_array(&b->ids)};
  PGresult *r = query(c,
                      "INSERT INTO orders (day, id, payload) SELECT d, i, repeat(i, 3)"
                      " FROM unnest($1::int[], $2::text[]) AS r (d, i)",
                      2, values);
  for (int i = 0; i < inserting_count; i++)
    if (inserting[i].lock >= 0)
      bank_end_insert(&inserting[i]);
  if (r)
    printf("%u\n", b->ids.count), fflush(stdout);
  PQclear(r);
  return r;
}

/* An id has letters, digits and hyphens: it needs no quotes in an array. */
static bool good_id(const char *id)
{
  size_t length = strspn(id, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-");
  return length > 0 && length <= ID_BYTES && id[length] == '\0';
}

/* Rows come as "DAY ID"; for each transaction that is committed, the number of its rows is printed. */
static bool insert_rows(PGconn *c)
{
  static struct batch b;
  char line[256];
  b = (struct batch){.ids = {.count = 0}};
  while (fgets(line, sizeof line, stdin)) {
    const char *id;
    int day = parse_day(line, &id);
    line[strcspn(line, "\n")] = '\0';
    id += *id == ' ';
    if (day == 0 || !good_id(id)) {
      fprintf(stderr, "partitions: '%s' is not 'DAY ID'\n", line);
      return false;
    }
    if (!put_row(&b, id, day))
      return false;
    if (b.ids.count == BATCH) {
      if (!insert_batch(c, &b))
        return false;
      b = (struct batch){.ids = {.count = 0}};
    }
  }
  return b.ids.count == 0 || insert_batch(c, &b);
}

/* ---- find ---- */

static struct {
  struct partition partitions[MOST_DAYS];
  const tamis_filter *filters[2 * MOST_DAYS]; /* two for each; NULL: none */
  int count;
  char known[64]; /* what the catalogue said of the partitions */
} bank;

#define KNOWN                                                                        \
  "(SELECT count(*) || '/' || coalesce(max(xmin::text::bigint), 0) FROM pg_inherits" \
  " WHERE inhparent = 'orders'::regclass)"

static bool load_bank(PGconn *c)
{
  for (int i = 0; i < bank.count; i++)
    bank_free(&bank.partitions[i]);
  bank.count = 0;
  PGresult *r = query(c,
                      "SELECT substr(inhrelid::regclass::text, 8), " KNOWN
                      " FROM pg_inherits WHERE inhparent = 'orders'::regclass",
                      0, NULL);
  for (int i = 0; r && i < PQntuples(r) && i < MOST_DAYS; i++) {
    struct partition *p = &bank.partitions[i];
    if (!bank_open(&options.plan, day_of(PQgetvalue(r, i, 0)), p))
      return false;
    bank.filters[2 * i] = p->filter;
    bank.filters[2 * i + 1] = p->late;
    bank.count++;
    snprintf(bank.known, sizeof bank.known, "%s", PQgetvalue(r, i, 1));
  }
  PQclear(r);
  return r;
}

static bool is_current(void)
{
  for (int i = 0; i < bank.count; i++)
    if (!bank_is_current(&options.plan, &bank.partitions[i]))
      return false;
  return bank.count > 0;
}

/* The partitions that may have the id, as an array; returns how many. */
static int choose(const char *id, struct array *days)
{
  static bool found[2 * MOST_DAYS];
  *days = (struct array){.count = 0};
  if (options.all)
    memset(found, 1, sizeof found);
  else
    tamis_contains_each(bank.filters, 2 * (size_t) bank.count, id, strlen(id), found);
  for (int i = 0; i < bank.count; i++)
    if (!bank.filters[2 * i] || found[2 * i] || found[2 * i + 1])
      put_day(days, bank.partitions[i].day);
  return (int) days->count;
}

/* The rows of an id; NULL after a message.  The catalogue is read in the same snapshot as the rows: if
 * it is not as it was, a partition may have been left out. */
static PGresult *find_id(PGconn *c, const char *id, int *touched)
{
  static struct array days;
  for (;;) {
    if (!is_current() && !load_bank(c))
      return NULL;
    *touched = choose(id, &days);
    const char *values[] = {id, end_array(&days)};
    PGresult *r = query(c,
                        "SELECT 'known', " KNOWN " UNION ALL SELECT 'day', day::text"
                        " FROM orders WHERE id = $1 AND day = ANY ($2::int[])",
                        2, values);
    if (!r)
      return NULL;
    bool same = false;
    for (int i = 0; i < PQntuples(r); i++)
      same |=
          strcmp(PQgetvalue(r, i, 0), "known") == 0 && strcmp(PQgetvalue(r, i, 1), bank.known) == 0;
    if (same)
      return r;
    PQclear(r);
    if (!load_bank(c))
      return NULL;
  }
}

static double now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double) t.tv_sec * 1e3 + (double) t.tv_nsec * 1e-6;
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

/* For each id of standard input, the days of its rows; at the end the figures, on standard error. */
static bool find_ids(PGconn *c)
{
  static double times[MOST_TIMES];
  char id[ID_BYTES + 2];
  size_t n = 0;
  double touched_in_all = 0, begin = now_ms();
  while (fgets(id, sizeof id, stdin)) {
    int touched;
    id[strcspn(id, "\n")] = '\0';
    double start = now_ms();
    PGresult *r = find_id(c, id, &touched);
    if (!r)
      return false;
    times[n++ % MOST_TIMES] = now_ms() - start;
    touched_in_all += touched;
    printf("%s", id);
    for (int i = 0; i < PQntuples(r); i++)
      if (strcmp(PQgetvalue(r, i, 0), "day") == 0)
        printf(" %s", PQgetvalue(r, i, 1));
    putchar('\n'), fflush(stdout);
    PQclear(r);
  }
  double seconds = (now_ms() - begin) / 1e3;
  size_t kept = n < MOST_TIMES ? n : MOST_TIMES;
  qsort(times, kept, sizeof *times, compare);
  if (kept)
    fprintf(stderr, "partitions %.2f p50 %.3f p99 %.3f rate %.0f\n", touched_in_all / (double) n,
            times[kept / 2], times[kept * 99 / 100], (double) n / seconds);
  return true;
}

/* ---- the command line ---- */

static error_t parse(int key, char *argument, struct argp_state *state)
{
  switch (key) {
  case 'f':
    options.plan.folder = argument;
    return 0;
  case 'd':
    options.database = argument;
    return 0;
  case 'r':
    options.plan.rows = strtoul(argument, NULL, 10);
    return 0;
  case 'p':
    options.plan.rate = strtod(argument, NULL);
    return 0;
  case 'a':
    options.all = true;
    return 0;
  case ARGP_KEY_ARG:
    if (options.command)
      return ARGP_ERR_UNKNOWN;
    options.command = argument;
    options.days = state->argv + state->next;
    options.day_count = state->argc - state->next;
    state->next = state->argc;
    return 0;
  case ARGP_KEY_END:
    if (!options.command)
      argp_error(state, "a command is missing");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option entries[] = {
    {"folder", 'f', "DIR", 0, "Where the filters are (default: this folder)", 0},
    {"database", 'd', "TEXT", 0, "How libpq connects, such as 'host=db dbname=shop'", 0},
    {"rows", 'r', "N", 0, "Rows that a partition is expected to have (default 100000)", 0},
    {"rate", 'p', "RATE", 0, "Rate of needless searches of a partition (default 0.01)", 0},
    {"all", 'a', NULL, 0, "find: ask no filter, and search all partitions", 0},
    {NULL, 0, NULL, 0, NULL, 0}};

static const struct argp argp = {
    entries,
    parse,
    "COMMAND [DAY...]",
    "Keeps a filter beside each partition of the table orders (day int, id text, payload text).\v"
    "create DAY...   makes partitions\n"
    "insert          reads lines 'DAY ID', and prints the number of rows of each commit\n"
    "close DAY...    no row is expected any more: the filters are saved, and mapped from then on\n"
    "attach DAY...   attaches tables that were detached, or made by others, and rebuilds their "
    "filters\n"
    "rebuild DAY...  makes the filters of partitions anew that have none\n"
    "find            reads ids, and prints the days of their rows",
    NULL,
    NULL,
    NULL};

static bool is_day(const char *text)
{
  if (day_of(text) == 0)
    fprintf(stderr, "partitions: '%s' is no day: a number above 0\n", text);
  return day_of(text) > 0;
}

static bool run(PGconn *c)
{
  static const struct {
    const char *name;
    bool (*of_day)(PGconn *c, int day);
    bool (*of_input)(PGconn *c);
  } commands[] = {{"create", create_day, NULL},  {"close", close_day, NULL},
                  {"attach", attach_day, NULL},  {"rebuild", rebuild_day, NULL},
                  {"insert", NULL, insert_rows}, {"find", NULL, find_ids}};
  for (size_t k = 0; k < sizeof commands / sizeof commands[0]; k++) {
    if (strcmp(options.command ? options.command : "", commands[k].name) != 0)
      continue;
    if (commands[k].of_input)
      return commands[k].of_input(c);
    bool done = options.day_count > 0;
    for (int i = 0; done && i < options.day_count; i++)
      done = is_day(options.days[i]) && commands[k].of_day(c, day_of(options.days[i]));
    return done;
  }
  fprintf(stderr, "partitions: no command '%s'\n", options.command);
  return false;
}

int main(int argc, char **argv)
{
  argp_parse(&argp, argc, argv, 0, NULL, NULL);
  PGconn *c = connect_database();
  bool done = run(c);
  PQfinish(c);
  return done ? 0 : 1;
}
