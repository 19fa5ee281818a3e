/* SPDX-License-Identifier: MIT
 *
 * A PostgreSQL table is partitioned by day, and programs look up rows by an id that says nothing about
 * the day.  This client keeps a filter for each partition, in a file that all its processes share.  It
 * asks all filters with one call, and its query names only the days that may have the id.
 *
 * A look-up misses no row whose insert was acknowledged before the look-up began:
 *
 *   insert  adds an id to the filter before it sends the row.  From the add until the row is
 *           committed, it holds the advisory lock of the day in shared mode.
 *   attach  holds that lock in exclusive mode while it fills a new filter from the rows of a
 *           partition, gives the file its name, and attaches the partition.  No file is replaced while
 *           its partition is attached, so a process that has the file open can go on using it.
 *   find    reads the list of partitions from the catalogue in the same snapshot as the rows.  If the
 *           client has another list, it opens all filters again, and repeats the query.  A partition
 *           without a filter is searched for every id.
 *
 * The database releases an advisory lock when the transaction has ended, even if the client was
 * killed.  Such a client leaves at most an id without a row, for which the partition is searched in
 * vain.  Every error ends the program.
 */
#include <errno.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tamis/tamis.h>
#include <unistd.h>

enum { MOST_DAYS = 4096, BATCH = 100, MOST_ID = 64, ROWS = 100000 };

struct name {
  char text[32];
};

static PGconn *database;
static bool all; /* the filters are not asked, for the comparison */
/* The partitions and filters that a reader knows. */
static char known[64]; /* identifies the list of the catalogue */
static int days[MOST_DAYS];
static tamis_filter *filters[MOST_DAYS]; /* NULL: the partition has none */
static size_t count;

static void die(const char *what, const char *why)
{
  fprintf(stderr, "partitions: %s: %s\n", what, why);
  exit(1);
}

static PGresult *query(const char *sql, const char *a, const char *b)
{
  const char *values[] = {a, b};
  PGresult *r = PQexecParams(database, sql, !!a + !!b, NULL, values, NULL, NULL, 0);
  if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK)
    die("PostgreSQL", PQerrorMessage(database));
  return r;
}

/* Executes a statement about a day; returns the number of its rows. */
static int about(int day, const char *format)
{
  char sql[256];
  snprintf(sql, sizeof sql, format, day, day);
  PGresult *r = query(sql, NULL, NULL);
  int rows = PQntuples(r);
  PQclear(r);
  return rows;
}

/* ---- filters ---- */

static struct name file_of(int day, const char *kind)
{
  struct name name;
  snprintf(name.text, sizeof name.text, "%d.%s", day, kind);
  return name;
}

/* Without options, the result is NULL if there is no such file. */
static tamis_filter *open_filter(const tamis_options *options, const char *path)
{
  tamis_filter *f = NULL;
  if (!options && access(path, F_OK) != 0)
    return NULL;
  int result = tamis_open_shared(options, path, &f);
  if (result != TAMIS_OK)
    die(path, result == TAMIS_EIO ? strerror(errno) : tamis_strerror(result));
  return f;
}

static void add(tamis_filter *f, const char *id)
{
  int result = f ? tamis_add(f, id, strlen(id)) : TAMIS_OK;
  if (result != TAMIS_OK)
    die("a filter", tamis_strerror(result));
}

/* ---- attach ---- */

/* Makes a new filter of the rows that the partition has. */
static void fill(int day)
{
  struct name part = file_of(day, "part"), file = file_of(day, "tamis");
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = ROWS, options.fpp = 0.01;
  options.max_bytes = 64 << 20; /* it grows up to this size; the file is sparse */
  unlink(part.text);
  tamis_filter *f = open_filter(&options, part.text);
  char sql[64];
  snprintf(sql, sizeof sql, "SELECT id FROM orders_%d", day);
  PGresult *r = query(sql, NULL, NULL);
  for (int i = 0; i < PQntuples(r); i++)
    add(f, PQgetvalue(r, i, 0));
  PQclear(r);
  tamis_destroy(f);
  if (rename(part.text, file.text) != 0)
    die(file.text, strerror(errno));
}

/* Attaches a partition that is new, was detached, or was made by others; may be repeated. */
static void attach(int day)
{
  about(day, "BEGIN");
  about(day, "SELECT pg_advisory_xact_lock(%d)");
  about(day, "CREATE TABLE IF NOT EXISTS orders_%d (LIKE orders)");
  about(day, "LOCK TABLE orders_%d IN ACCESS EXCLUSIVE MODE"); /* no other statement runs */
  bool attached =
      about(day, "SELECT 1 FROM pg_inherits WHERE inhrelid = 'orders_%d'::regclass") > 0;
  if (!attached || access(file_of(day, "tamis").text, F_OK) != 0)
    fill(day);
  if (!attached)
    about(day, "ALTER TABLE orders ATTACH PARTITION orders_%d FOR VALUES IN (%d)");
  about(day, "COMMIT");
}

/* ---- insert ---- */

/* The filter of a day, which is opened once for a batch. */
static tamis_filter *filter_of(int day)
{
  size_t i = 0;
  while (i < count && days[i] != day)
    i++;
  if (i == MOST_DAYS)
    die("the batch", "too many days");
  if (i == count) {
    days[count] = day;
    filters[count++] = open_filter(NULL, file_of(day, "tamis").text);
  }
  return filters[i];
}

static void close_filters(void)
{
  while (count > 0)
    tamis_destroy(filters[--count]);
}

#define LINES " FROM string_to_table($1, E'\\n') AS line"
#define DAY_OF_LINE "split_part(line, ' ', 1)::int"

/* Inserts lines "DAY ID" in one transaction.  All clients take the locks in the order of days. */
static void insert(char *lines)
{
  char *last = strrchr(lines, '\n');
  if (last && last[1] == '\0')
    *last = '\0';
  about(0, "BEGIN");
  PQclear(query("SELECT pg_advisory_xact_lock_shared(day) FROM"
                " (SELECT DISTINCT " DAY_OF_LINE " AS day" LINES " ORDER BY day) AS ordered",
                lines, NULL));
  int rows = 0, day, length;
  char id[MOST_ID + 1], form[MOST_ID + 16];
  for (const char *line = lines; *line; line += length + (line[length] == '\n'), rows++) {
    if (sscanf(line, "%d %64s%n", &day, id, &length) != 2 ||
        snprintf(form, sizeof form, "%d %s", day, id) != length ||
        strncmp(form, line, (size_t) length) != 0 || !strchr("\n", line[length]))
      die(line, "is not 'DAY ID'");
    add(filter_of(day), id);
  }
  PQclear(query("INSERT INTO orders SELECT " DAY_OF_LINE ", split_part(line, ' ', 2),"
                " repeat(md5(line), 4)" LINES,
                lines, NULL));
  about(0, "COMMIT");
  close_filters();
  printf("%d\n", rows);
  fflush(stdout);
}

static void insert_all(void)
{
  char lines[BATCH * (MOST_ID + 16)], *end = lines;
  for (int n = 0; fgets(end, MOST_ID + 16, stdin); n++) {
    end += strlen(end);
    if (n + 1 == BATCH) {
      insert(lines);
      n = -1, end = lines;
    }
  }
  if (end > lines)
    insert(lines);
}

/* ---- find ---- */

#define KNOWN                                                                              \
  "(SELECT count(*) || ' partitions, changed by ' || coalesce(max(xmin::text::bigint), 0)" \
  " FROM pg_inherits WHERE inhparent = 'orders'::regclass)"

static void open_bank(void)
{
  close_filters();
  PGresult *r = query("SELECT substr(inhrelid::regclass::text, 8) FROM pg_inherits"
                      " WHERE inhparent = 'orders'::regclass",
                      NULL, NULL);
  for (int i = 0; i < PQntuples(r); i++)
    filter_of(atoi(PQgetvalue(r, i, 0)));
  PQclear(r);
}

/* The days that may have the id, as a PostgreSQL array. */
static size_t choose(const char *id, char *text)
{
  static bool found[MOST_DAYS];
  size_t chosen = 0;
  char *end = text;
  tamis_contains_each((const tamis_filter *const *) filters, count, id, strlen(id), found);
  for (size_t i = 0; i < count; i++)
    if (all || !filters[i] || found[i])
      end += sprintf(end, "%c%d", chosen++ > 0 ? ',' : '{', days[i]);
  strcpy(end, chosen > 0 ? "}" : "{}");
  return chosen;
}

/* Prints the days of the rows with this id; returns how many partitions were searched. */
static size_t find(const char *id)
{
  static char chosen[12 * MOST_DAYS + 3];
  if (strlen(id) > MOST_ID)
    die(id, "is the beginning of an id that is too long");
  for (;;) {
    size_t n = choose(id, chosen);
    PGresult *r = query("SELECT " KNOWN ", (SELECT string_agg(DISTINCT day::text, ' ') FROM orders"
                        " WHERE id = $1 AND day = ANY ($2::int[]))",
                        id, chosen);
    bool current = strcmp(PQgetvalue(r, 0, 0), known) == 0;
    if (current)
      printf("%s %s\n", id, PQgetvalue(r, 0, 1));
    else
      snprintf(known, sizeof known, "%s", PQgetvalue(r, 0, 0));
    PQclear(r);
    if (current)
      return n;
    open_bank();
  }
}

static void find_all(void)
{
  char id[MOST_ID + 2];
  size_t lookups = 0, searched = 0;
  for (; scanf("%65s", id) == 1; lookups++, fflush(stdout))
    searched += find(id);
  if (lookups > 0)
    fprintf(stderr, "%.2f of %zu partitions were searched for an id\n",
            (double) searched / (double) lookups, count);
}

int main(int argc, char **argv)
{
  const char *command = argc > 2 ? argv[2] : "";
  if (strcmp(command, "attach") && strcmp(command, "insert") && strcmp(command, "find") &&
      strcmp(command, "find-all")) {
    fprintf(
        stderr,
        "usage: partitions FOLDER attach DAY...     new partitions, or tables that were detached\n"
        "       partitions FOLDER insert            reads lines 'DAY ID', and prints how many rows "
        "each commit has\n"
        "       partitions FOLDER find | find-all   reads ids, and prints their days; find-all "
        "asks no filter\n"
        "The table is orders (day int, id text, payload text), partitioned by list (day); PGHOST "
        "and so on say where.\n");
    return 2;
  }
  if (chdir(argv[1]) != 0)
    die(argv[1], strerror(errno));
  database = PQconnectdb("");
  if (PQstatus(database) != CONNECTION_OK)
    die("PostgreSQL", PQerrorMessage(database));
  all = strcmp(command, "find-all") == 0;
  if (command[0] == 'a')
    for (int i = 3; i < argc; i++)
      attach(atoi(argv[i]));
  else if (command[0] == 'i')
    insert_all();
  else
    find_all();
  PQfinish(database);
  return ferror(stdout) ? (die("standard output", "cannot be written"), 1) : 0;
}
