/* SPDX-License-Identifier: MIT
 *
 * The follower: one thread that keeps the filter equal to the table, by logical decoding.
 *
 * A cuckoo filter takes removes, but only exact ones: to remove an id twice can take the entry of
 * another id, which would then be refused.  So each change must be applied once, over all crashes.
 *
 *   (A) The beginning.  CREATE_REPLICATION_SLOT exports a snapshot that has exactly the
 *       transactions which ended before the position where the slot begins.  The filter is filled
 *       from it.
 *   (B) Whole transactions.  Changes are kept until their commit arrives, and are then applied, the
 *       adds before the removes: a transaction that deletes an id and inserts it again never leaves
 *       a moment without it.  A connection that breaks leaves no part of a transaction behind.
 *   (C) Filter and position are saved together (saved.h), by the thread that applies the changes,
 *       and between two transactions.
 *   (D) Only then is the server told that it may forget the log up to this position.  So it can
 *       always send again what came after the saved position, and sends nothing that came before.
 *   (E) After a restart, or when a connection was lost, the stream is asked for from the position
 *       of the filter on.  If the slot has gone, or begins later, or it is another log, then the
 *       filter is thrown away, and made anew as in (A).  So it is if a change cannot be applied.
 *
 * Meanwhile nothing is refused: guard.c asks whether the filter is fresh.
 */
#include "changes.h"
#include "guard.h"
#include "saved.h"

#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

enum {
  RETRY_MS = 100, /* doubled with each try, up to */
  LONGEST_RETRY_MS = 2000,
  REPORT_MS = 1000,
  POLL_MS = 50,
  UNIX_TO_POSTGRES = 946684800
};

struct follower {
  struct guard *g;
  const struct settings *settings;
  PGconn *sql, *stream;
  struct changes changes;
  struct log_identity log; /* of the database */
  uint32_t relation;       /* the OID of the table */
  struct log_identity of;  /* of the filter, if there is one */
  tamis_filter *filter;    /* the one in g->ids, which nobody else changes */
  bool inexact;            /* neither the filter nor the file is of use any more */
  position question;       /* an end of the log that has not been reached yet, or 0 */
  int64_t question_at;     /* the time before it was asked for */
  int64_t next_question, next_save, next_report;
};

static bool failed(PGconn *connection, const char *what)
{
  say("%s: %s", what, PQerrorMessage(connection));
  return false;
}

static PGconn *connect_to(const char *database, bool replication)
{
  const char *names[] = {"dbname",           "fallback_application_name",        "connect_timeout",
                         "tcp_user_timeout", replication ? "replication" : NULL, NULL};
  const char *values[] = {database, "tamis-guard", "5", "10000", "database", NULL};
  PGconn *connection = PQconnectdbParams(names, values, 1);
  if (PQstatus(connection) == CONNECTION_OK)
    return connection;
  failed(connection, "no connection to the database");
  PQfinish(connection);
  return NULL;
}

/* The result, if it has `rows` rows at least; otherwise NULL, and the reason has been said. */
static PGresult *ask(PGconn *connection, int rows, const char *what, const char *text, int n,
                     const char *const *values)
{
  PGresult *result = n == 0 ? PQexec(connection, text)
                            : PQexecParams(connection, text, n, NULL, values, NULL, NULL, 0);
  ExecStatusType status = PQresultStatus(result);
  if ((status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_COPY_BOTH) &&
      PQntuples(result) >= rows)
    return result;
  if (status == PGRES_TUPLES_OK)
    say("%s: not found", what);
  else
    failed(connection, what);
  PQclear(result);
  return NULL;
}

static bool run(PGconn *connection, const char *what, const char *text)
{
  PGresult *result = ask(connection, 0, what, text, 0, NULL);
  PQclear(result);
  return result != NULL;
}

static bool is_true(const PGresult *result, int column)
{
  return strcmp(PQgetvalue(result, 0, column), "t") == 0;
}

static uint64_t value(const PGresult *result, int column)
{
  return strtoull(PQgetvalue(result, 0, column), NULL, 10);
}

/* ---- which log is it? ---- */

/* The entry of the table in the publication.  It has a number of its own, which is another one
 * after the table was taken out and put in again.  The row of the publication is another one,
 * which another transaction has made (xmin), after it was told what to publish.  Where different
 * texts can be equal, the filter would refuse an id that is written in another way. */
#define ENTRY                                                                                 \
  "SELECT r.oid, r.prrelid, c.relkind = 'r', p.pubinsert AND p.pubupdate AND p.pubdelete AND" \
  " p.pubtruncate AND r.prqual IS NULL AND r.prattrs IS NULL, format_type(a.atttypid, NULL)," \
  " c.oid::regclass, quote_ident(a.attname), p.xmin, a.attnum, NOT EXISTS (SELECT FROM"       \
  " pg_collation l WHERE l.oid = a.attcollation AND NOT l.collisdeterministic)"               \
  " FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid"                     \
  " JOIN pg_class c ON c.oid = r.prrelid"                                                     \
  " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = $3 AND a.attnum > 0"            \
  " WHERE p.pubname = $1 AND r.prrelid = to_regclass($2)"

static bool type_fits(id_type type, const char *name)
{
  static const char *const names[][4] = {[ID_BIGINT] = {"bigint", "integer", "smallint"},
                                         [ID_UUID] = {"uuid"},
                                         [ID_TEXT] = {"text", "character varying"}};
  for (int i = 0; names[type][i] != NULL; i++)
    if (strcmp(names[type][i], name) == 0)
      return true;
  return false;
}

static PGresult *find_entry(struct follower *f, int rows)
{
  const char *values[] = {f->settings->publication, f->settings->table, f->settings->id_column};
  return ask(f->sql, rows, "the table with its id's column in the publication", ENTRY, 3, values);
}

static bool publish(struct follower *f)
{
  PGresult *found = find_entry(f, 0);
  bool published = found != NULL && PQntuples(found) > 0;
  PQclear(found);
  if (found == NULL || published)
    return published;
  char text[512];
  snprintf(text, sizeof text, "CREATE PUBLICATION %s FOR TABLE %s", f->settings->publication,
           f->settings->table);
  return run(f->sql, "the table cannot be published", text);
}

static bool identify(struct follower *f, char **table, char **column)
{
  PGresult *system = ask(f->stream, 1, "the system", "IDENTIFY_SYSTEM", 0, NULL);
  if (system == NULL)
    return false;
  f->log.system = value(system, 0);
  f->log.timeline = (uint32_t) value(system, 1);
  PQclear(system);
  PGresult *entry = publish(f) ? find_entry(f, 1) : NULL;
  if (entry == NULL)
    return false;
  f->log.entry = (uint32_t) value(entry, 0);
  f->relation = (uint32_t) value(entry, 1);
  f->log.publication = (uint32_t) value(entry, 7);
  f->log.column = (uint32_t) value(entry, 8);
  bool good = false;
  if (!is_true(entry, 2))
    say("%s is no ordinary table", f->settings->table);
  else if (!is_true(entry, 3))
    say("publication %s does not have all changes of all rows", f->settings->publication);
  else if (!type_fits(f->settings->id_type, PQgetvalue(entry, 0, 4)))
    say("the ids are of the type %s: see --id-type", PQgetvalue(entry, 0, 4));
  else if (!is_true(entry, 9))
    say("the ids have a collation by which different texts are equal");
  else
    good = true;
  *table = strdup(PQgetvalue(entry, 0, 5));
  *column = strdup(PQgetvalue(entry, 0, 6));
  PQclear(entry);
  return good && *table != NULL && *column != NULL;
}

/* ---- (A) the beginning ---- */

static void forget(struct follower *f)
{
  f->g->fresh_at = NEVER;
  f->filter = NULL;
  filter_replace(&f->g->ids, NULL);
}

/* The filter has what ended before this position: first the filter, then the position, and then the
 * entries that it makes superfluous. */
static void reach(struct follower *f, position at)
{
  f->g->applied = at;
  pending_pass(&f->g->pending, at);
  if (f->question != 0 && position_covers(at, f->question)) {
    f->g->fresh_at = f->question_at;
    f->question = 0;
  }
}

static bool publish_filter(struct follower *f, tamis_filter *filter, position at)
{
  f->filter = NULL;
  if (!filter_replace(&f->g->ids, filter)) {
    say("no memory for a filter");
    return false;
  }
  f->filter = filter;
  f->of = f->log;
  reach(f, at);
  return true;
}

static tamis_filter *create_filter(const struct settings *settings)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_filter *filter;
  char why[256];
  options.kind = TAMIS_CUCKOO;
  options.capacity = settings->capacity;
  options.fpp = settings->fpp;
  int result = tamis_create(&options, &filter);
  if (result != TAMIS_OK) {
    tamis_options_check(&options, why, sizeof why);
    say("no filter: %s", why[0] != 0 ? why : tamis_strerror(result));
  }
  return filter;
}

static bool add_row(struct follower *f, tamis_filter *filter, PGresult *row)
{
  int result = TAMIS_OK;
  if (PQresultStatus(row) == PGRES_SINGLE_TUPLE)
    result = tamis_add(filter, PQgetvalue(row, 0, 0), (size_t) PQgetlength(row, 0, 0));
  else if (PQresultStatus(row) != PGRES_TUPLES_OK)
    return failed(f->sql, "cannot read the table");
  if (result != TAMIS_OK)
    say("an id could not be added: %s", tamis_strerror(result));
  return result == TAMIS_OK;
}

static bool add_rows(struct follower *f, tamis_filter *filter, const char *table,
                     const char *column)
{
  char text[1024];
  snprintf(text, sizeof text, "SELECT %s::text FROM ONLY %s", column, table);
  if (!PQsendQuery(f->sql, text) || !PQsetSingleRowMode(f->sql))
    return failed(f->sql, "cannot read the table");
  bool good = true;
  uint64_t rows = 0;
  for (PGresult *row; (row = PQgetResult(f->sql)) != NULL; PQclear(row)) {
    good = good && !f->g->stopping && add_row(f, filter, row);
    if (++rows % 1000000 == 0)
      say("%" PRIu64 " rows read", rows);
  }
  return good;
}

static bool read_snapshot(struct follower *f, const char *snapshot, tamis_filter *filter,
                          const char *table, const char *column)
{
  char text[256];
  snprintf(text, sizeof text, "SET TRANSACTION SNAPSHOT '%s'", snapshot);
  return run(f->sql, "cannot begin", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") &&
         run(f->sql, "cannot take the snapshot", text) && add_rows(f, filter, table, column) &&
         run(f->sql, "cannot end", "COMMIT");
}

static bool fill(struct follower *f, bool slot_exists, const char *table, const char *column)
{
  char text[256];
  forget(f);
  say("reading the table");
  snprintf(text, sizeof text, "DROP_REPLICATION_SLOT %s", f->settings->slot);
  if (slot_exists && !run(f->stream, "cannot drop the old slot", text))
    return false;
  snprintf(text, sizeof text, "CREATE_REPLICATION_SLOT %s LOGICAL pgoutput EXPORT_SNAPSHOT",
           f->settings->slot);
  PGresult *slot = ask(f->stream, 1, "cannot create the slot", text, 0, NULL);
  tamis_filter *filter = slot == NULL ? NULL : create_filter(f->settings);
  position begin;
  bool good = filter != NULL && position_parse(PQgetvalue(slot, 0, 1), &begin) &&
              read_snapshot(f, PQgetvalue(slot, 0, 2), filter, table, column);
  PQclear(slot);
  if (!good) {
    tamis_destroy(filter);
    return false;
  }
  if (!publish_filter(f, filter, begin))
    return false;
  f->inexact = false;
  f->g->fills++;
  f->g->saved = 0;
  return true;
}

/* ---- (C), (D) saving ---- */

static void put(char *bytes, uint64_t number)
{
  for (int i = 8; i-- > 0; number >>= 8)
    bytes[i] = (char) number;
}

/* Tells the server what has been applied, and what has been saved, which it may forget. */
static bool report(struct follower *f)
{
  char message[34] = "r";
  uint64_t now = (uint64_t) (time(NULL) - UNIX_TO_POSTGRES) * 1000000;
  put(message + 1, f->g->applied);
  put(message + 9, f->g->saved);
  put(message + 17, f->g->saved);
  put(message + 25, now);
  f->next_report = now_ms() + REPORT_MS;
  return (PQputCopyData(f->stream, message, sizeof message) == 1 && PQflush(f->stream) == 0) ||
         failed(f->stream, "the stream has ended");
}

static void save(struct follower *f)
{
  f->next_save = now_ms() + (int64_t) f->settings->save_seconds * 1000;
  position at = f->g->applied;
  if (f->filter == NULL || at == f->g->saved)
    return;
  if (saved_store(f->settings->folder, f->settings->slot, &f->of, f->filter, at)) {
    f->g->saved = at;
    f->g->saves++;
  } else
    f->g->save_failures++;
}

/* ---- (E) where to go on ---- */

/* Whether the slot can send all that the filter does not have. */
static bool slot_serves(const PGresult *slot, position from)
{
  position confirmed;
  return is_true(slot, 0) && position_parse(PQgetvalue(slot, 0, 1), &confirmed) &&
         confirmed <= from;
}

static bool resume(struct follower *f, const PGresult *slot)
{
  if (f->inexact)
    return false;
  if (f->filter == NULL) {
    tamis_filter *filter;
    position at;
    if (!saved_load(f->settings->folder, f->settings->slot, &f->log, &filter, &at) ||
        !publish_filter(f, filter, at))
      return false;
    f->g->saved = at;
  }
  if (!same_log(&f->of, &f->log))
    say("this is another log: the filter is of no use");
  else if (!slot_serves(slot, f->g->applied))
    say("slot %s does not have all that is missing in the filter", f->settings->slot);
  else
    return true;
  return false;
}

static bool start(struct follower *f)
{
  char text[512], *table = NULL, *column = NULL;
  const char *slot_name = f->settings->slot;
  PGresult *slot = NULL;
  bool good = false;
  if (identify(f, &table, &column))
    slot =
        ask(f->sql, 0, "slots",
            "SELECT plugin = 'pgoutput' AND database = current_database() AND wal_status <> 'lost',"
            " confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = $1",
            1, &slot_name);
  if (slot != NULL) {
    bool exists = PQntuples(slot) > 0;
    good = (exists && resume(f, slot)) || fill(f, exists, table, column);
  }
  PQclear(slot);
  free(table);
  free(column);
  if (!good)
    return false;
  save(f);
  position from = f->g->applied;
  snprintf(text, sizeof text,
           "START_REPLICATION SLOT %s LOGICAL %X/%X (proto_version '1', publication_names '%s')",
           slot_name, (unsigned) (from >> 32), (unsigned) from, f->settings->publication);
  return run(f->stream, "cannot begin to follow", text);
}

/* ---- the stream ---- */

/* (B)  False: the filter is no longer what the table is. */
static bool apply(struct follower *f)
{
  struct changes *changes = &f->changes;
  tamis_filter *filter = f->filter;
  if (changes->truncated && (filter = create_filter(f->settings)) == NULL)
    return false;
  int result = changes_add(changes, filter);
  if (result == TAMIS_OK && changes->truncated && !publish_filter(f, filter, f->g->applied))
    return false;
  if (result == TAMIS_OK)
    result = changes_remove(changes, filter);
  if (result != TAMIS_OK) {
    say("a change could not be applied: %s", tamis_strerror(result));
    if (filter != f->filter)
      tamis_destroy(filter);
    return false;
  }
  f->g->changes += changes->count;
  f->g->transactions++;
  reach(f, changes->end);
  return true;
}

static bool take_message(struct follower *f, const char *message, size_t size)
{
  if (size >= 25 && message[0] == 'w') {
    change_event event = changes_take(&f->changes, message + 25, size - 25);
    if (event == CHANGE_ERROR)
      say("cannot follow: %s", f->changes.error);
    if (event == CHANGE_ERROR || (event == CHANGE_COMMITTED && !apply(f))) {
      f->g->inexact++;
      f->inexact = true;
      forget(f);
      return false;
    }
  } else if (size >= 18 && message[0] == 'k') {
    /* Between two transactions it says that none ended before this position which has not come. */
    position end = big_endian(message + 1, 8);
    if (!f->changes.open && end > f->g->applied)
      reach(f, end);
    if (message[17] != 0)
      return report(f);
  }
  return true;
}

static bool take_messages(struct follower *f)
{
  if (!PQconsumeInput(f->stream))
    return failed(f->stream, "the stream has ended");
  char *message;
  int size;
  while ((size = PQgetCopyData(f->stream, &message, 1)) > 0) {
    bool good = take_message(f, message, (size_t) size);
    PQfreemem(message);
    if (!good)
      return false;
  }
  if (size == 0)
    return true;
  PQclear(PQgetResult(f->stream)); /* it brings the reason */
  return failed(f->stream, "the stream has ended");
}

/* Where the log ends now; and whether the table is still in the publication. */
static bool ask_question(struct follower *f)
{
  char entry[16], publication[16];
  const char *values[] = {entry, f->settings->table, publication};
  snprintf(entry, sizeof entry, "%" PRIu32, f->log.entry);
  snprintf(publication, sizeof publication, "%" PRIu32, f->log.publication);
  int64_t before = now_ms();
  PGresult *answer =
      ask(f->sql, 1, "the end of the log",
          "SELECT pg_current_wal_insert_lsn(), EXISTS (SELECT FROM pg_publication_rel r"
          " JOIN pg_publication p ON p.oid = r.prpubid WHERE r.oid = $1::oid"
          " AND r.prrelid = to_regclass($2) AND p.xmin = $3::xid)",
          3, values);
  if (answer == NULL)
    return false;
  position end;
  bool good = position_parse(PQgetvalue(answer, 0, 0), &end) && is_true(answer, 1);
  PQclear(answer);
  if (!good) {
    say("the table is no longer in the publication, or one of them was changed");
    forget(f);
    return false;
  }
  if (f->question == 0) {
    f->question = end;
    f->question_at = before;
    reach(f, f->g->applied);
  }
  f->g->known = end;
  f->g->asked++;
  f->next_question = now_ms() + (f->settings->lag_ms > 400 ? 100 : f->settings->lag_ms / 4 + 1);
  return true;
}

/* How long the thread may sleep. */
static int pause_ms(const struct follower *f)
{
  int64_t wait = f->next_question - now_ms();
  return wait < 0 ? 0 : wait > POLL_MS ? POLL_MS : (int) wait;
}

static bool follow_stream(struct follower *f)
{
  struct pollfd events[] = {{.fd = PQsocket(f->stream), .events = POLLIN},
                            {.fd = f->g->wake, .events = POLLIN}};
  while (!f->g->stopping) {
    eventfd_t wakes;
    bool woken = eventfd_read(f->g->wake, &wakes) == 0;
    if (!take_messages(f) || ((woken || now_ms() >= f->next_question) && !ask_question(f)))
      return false;
    if (now_ms() >= f->next_save)
      save(f);
    if (now_ms() >= f->next_report && !report(f))
      return false;
    poll(events, 2, pause_ms(f));
  }
  save(f);
  return report(f);
}

static void session(struct follower *f)
{
  f->question = 0;
  f->g->known = 0;
  f->sql = connect_to(f->settings->database, false);
  f->stream = f->sql == NULL ? NULL : connect_to(f->settings->database, true);
  bool good = f->stream != NULL && start(f);
  if (good) {
    f->g->sessions++;
    say("following from %X/%X", (unsigned) (f->g->applied >> 32), (unsigned) f->g->applied);
    changes_init(&f->changes, f->relation, f->settings->id_column);
    follow_stream(f);
    changes_destroy(&f->changes);
  }
  PQfinish(f->stream);
  PQfinish(f->sql);
  f->sql = f->stream = NULL;
}

void *follow(void *guard)
{
  struct follower f = {.g = guard, .settings = ((struct guard *) guard)->settings};
  int retry = RETRY_MS;
  while (!f.g->stopping) {
    uint64_t before = f.g->sessions;
    session(&f);
    retry = f.g->sessions != before && !f.inexact ? RETRY_MS : retry * 2;
    if (retry > LONGEST_RETRY_MS)
      retry = LONGEST_RETRY_MS;
    for (int64_t until = now_ms() + retry; !f.g->stopping && now_ms() < until;)
      poll(NULL, 0, POLL_MS);
  }
  save(&f);
  return NULL;
}
