/* SPDX-License-Identifier: MIT */
#include "store.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "url.h"

/* queue: a row stays until the page has been fetched and its links are in the queue.
 * journal: the hashes of all URLs that came into the queue since the filter was last saved.
 * saves: it changes with each save, so that there is something to commit. */
static const char schema[] =
    "CREATE TABLE IF NOT EXISTS queue(origin TEXT, id INTEGER, depth INTEGER, target TEXT,"
    "  PRIMARY KEY(origin, id)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS journal(id INTEGER PRIMARY KEY, hash INTEGER);"
    "CREATE TABLE IF NOT EXISTS failed(url TEXT, depth INTEGER, why TEXT);"
    "CREATE TABLE IF NOT EXISTS scope(origin TEXT PRIMARY KEY);"
    "CREATE TABLE IF NOT EXISTS crawl(probe INTEGER, max_depth INTEGER, saves INTEGER);";

enum { ADD, JOURNAL, REMOVE, GIVE_UP, FORGET, SAVES, N_STATEMENTS };
static const char *const texts[N_STATEMENTS] = {
    [ADD] = "INSERT INTO queue VALUES(?, ?, ?, ?)",
    [JOURNAL] = "INSERT INTO journal VALUES(?, ?)",
    [REMOVE] = "DELETE FROM queue WHERE origin = ? AND id = ?",
    [GIVE_UP] = "INSERT INTO failed VALUES(?, ?, ?)",
    [FORGET] = "DELETE FROM journal WHERE id <= ?",
    [SAVES] = "UPDATE crawl SET saves = saves + 1",
};

struct store {
  sqlite3 *writer, *reader;
  sqlite3_stmt *statements[N_STATEMENTS];
  sqlite3_stmt *read;
  bool sync;
  _Atomic bool failed; /* set by either thread */
};

static bool report(struct store *s, sqlite3 *db)
{
  if (!s->failed)
    complain("the queue %s: %s", sqlite3_db_filename(db, "main"), sqlite3_errmsg(db));
  s->failed = true;
  return false;
}

static bool execute(struct store *s, const char *sql)
{
  return sqlite3_exec(s->writer, sql, NULL, NULL, NULL) == SQLITE_OK || report(s, s->writer);
}

static bool prepare(struct store *s, sqlite3 *db, const char *sql, sqlite3_stmt **statement)
{
  return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL) == SQLITE_OK ||
         report(s, db);
}

static bool open_one(struct store *s, const char *path, sqlite3 **db)
{
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path, db, flags, NULL) != SQLITE_OK) {
    complain("cannot open %s: %s", path, *db ? sqlite3_errmsg(*db) : "out of memory");
    return false;
  }
  sqlite3_busy_timeout(*db, 60000);
  /* With a write-ahead log a reader never waits for the writer.  Commits are whole after kill -9.
   * After a loss of power, the last ones may be gone, but for those that asked for `sync`. */
  const char *pragmas = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;";
  return sqlite3_exec(*db, pragmas, NULL, NULL, NULL) == SQLITE_OK || report(s, *db);
}

struct store *store_open(const char *path)
{
  struct store *s = calloc(1, sizeof *s);
  bool good = s && open_one(s, path, &s->writer) && execute(s, schema) &&
              open_one(s, path, &s->reader) &&
              prepare(s, s->reader,
                      "SELECT id, depth, target FROM queue WHERE origin = ? AND id > ?"
                      " ORDER BY id LIMIT ?",
                      &s->read);
  for (int i = 0; good && i < N_STATEMENTS; i++)
    good = prepare(s, s->writer, texts[i], &s->statements[i]);
  if (good)
    return s;
  store_close(s);
  return NULL;
}

void store_close(struct store *s)
{
  if (!s)
    return;
  for (int i = 0; i < N_STATEMENTS; i++)
    sqlite3_finalize(s->statements[i]);
  sqlite3_finalize(s->read);
  sqlite3_close(s->reader);
  sqlite3_close(s->writer);
  free(s);
}

/* ---- what is in it ---- */

/* Calls row() for each row of a query, until it returns false. */
static bool each_row(struct store *s, const char *sql,
                     bool (*row)(void *context, sqlite3_stmt *statement), void *context)
{
  sqlite3_stmt *statement = NULL;
  bool good = prepare(s, s->writer, sql, &statement);
  int result = SQLITE_DONE;
  while (good && (result = sqlite3_step(statement)) == SQLITE_ROW)
    good = row(context, statement);
  if (good && result != SQLITE_DONE)
    good = report(s, s->writer);
  sqlite3_finalize(statement);
  return good;
}

static const char *text_of(sqlite3_stmt *statement, int column)
{
  return (const char *) sqlite3_column_text(statement, column);
}

/* What the caller of a query wants to be told. */
struct visit {
  bool (*host)(void *context, const char *origin, int64_t last_id, int64_t waiting);
  bool (*origin)(void *context, const char *origin);
  bool (*claimed)(void *context, int64_t id, uint64_t hash);
  void *context;
};

static bool visit_host(void *context, sqlite3_stmt *row)
{
  const struct visit *v = context;
  return v->host(v->context, text_of(row, 0), sqlite3_column_int64(row, 1),
                 sqlite3_column_int64(row, 2));
}

static bool visit_origin(void *context, sqlite3_stmt *row)
{
  const struct visit *v = context;
  return v->origin(v->context, text_of(row, 0));
}

static bool visit_claim(void *context, sqlite3_stmt *row)
{
  const struct visit *v = context;
  return v->claimed(v->context, sqlite3_column_int64(row, 0),
                    (uint64_t) sqlite3_column_int64(row, 1));
}

bool store_hosts(struct store *s, bool (*host)(void *, const char *, int64_t, int64_t),
                 void *context)
{
  return each_row(s, "SELECT origin, max(id), count(*) FROM queue GROUP BY origin", visit_host,
                  &(struct visit){.host = host, .context = context});
}

bool store_scope(struct store *s, bool (*origin)(void *, const char *), void *context)
{
  return each_row(s, "SELECT origin FROM scope ORDER BY origin", visit_origin,
                  &(struct visit){.origin = origin, .context = context});
}

bool store_journal(struct store *s, bool (*claimed)(void *, int64_t, uint64_t), void *context)
{
  return each_row(s, "SELECT id, hash FROM journal", visit_claim,
                  &(struct visit){.claimed = claimed, .context = context});
}

static bool read_crawl(void *context, sqlite3_stmt *row)
{
  *(struct crawl *) context =
      (struct crawl){true, sqlite3_column_int64(row, 0), sqlite3_column_int(row, 1)};
  return true;
}

bool store_crawl(struct store *s, struct crawl *crawl)
{
  *crawl = (struct crawl){0};
  return each_row(s, "SELECT probe, max_depth FROM crawl", read_crawl, crawl);
}

/* Runs a statement whose effect is on the disk afterwards, and finalizes it. */
static bool run_now(struct store *s, sqlite3_stmt *statement)
{
  bool good = execute(s, "PRAGMA synchronous=FULL") &&
              (sqlite3_step(statement) == SQLITE_DONE || report(s, s->writer));
  sqlite3_finalize(statement);
  return execute(s, "PRAGMA synchronous=NORMAL") && good;
}

bool store_begin_crawl(struct store *s, const struct crawl *crawl)
{
  sqlite3_stmt *statement;
  if (!prepare(s, s->writer, "INSERT INTO crawl VALUES(?, ?, 0)", &statement))
    return false;
  sqlite3_bind_int64(statement, 1, crawl->probe);
  sqlite3_bind_int(statement, 2, crawl->max_depth);
  return run_now(s, statement);
}

bool store_add_scope(struct store *s, const char *origin)
{
  sqlite3_stmt *statement;
  if (!prepare(s, s->writer, "INSERT OR IGNORE INTO scope VALUES(?)", &statement))
    return false;
  sqlite3_bind_text(statement, 1, origin, -1, SQLITE_STATIC);
  return run_now(s, statement);
}

struct page *page_new(const char *origin, const char *target)
{
  size_t len = strlen(origin);
  struct page *page = calloc(1, sizeof *page + len + strlen(target) + 1);
  if (page) {
    memcpy(page->url, origin, len);
    strcpy(page->url + len, target);
  }
  return page;
}

bool store_read(struct store *s, const char *origin, int64_t after, unsigned most,
                struct page **pages)
{
  int result;
  *pages = NULL;
  sqlite3_bind_text(s->read, 1, origin, -1, SQLITE_STATIC);
  sqlite3_bind_int64(s->read, 2, after);
  sqlite3_bind_int64(s->read, 3, most);
  while ((result = sqlite3_step(s->read)) == SQLITE_ROW) {
    struct page *page = page_new(origin, text_of(s->read, 2));
    if (!page) {
      complain("out of memory");
      s->failed = true;
      break;
    }
    page->id = sqlite3_column_int64(s->read, 0);
    page->depth = sqlite3_column_int(s->read, 1);
    *pages = page;
    pages = &page->next;
  }
  if (result != SQLITE_DONE && result != SQLITE_ROW)
    report(s, s->reader);
  sqlite3_reset(s->read);
  return result == SQLITE_DONE;
}

/* ---- a transaction ---- */

static void run(struct store *s, int which)
{
  sqlite3_stmt *statement = s->statements[which];
  if (!s->failed && sqlite3_step(statement) != SQLITE_DONE)
    report(s, s->writer);
  sqlite3_reset(statement);
}

void store_begin(struct store *s, bool sync)
{
  s->sync = sync;
  if ((!sync || execute(s, "PRAGMA synchronous=FULL")) && execute(s, "BEGIN IMMEDIATE") && sync)
    run(s, SAVES);
}

void store_add(struct store *s, const struct claim *claim, int depth)
{
  sqlite3_stmt *add = s->statements[ADD], *journal = s->statements[JOURNAL];
  size_t origin = url_origin(claim->url);
  sqlite3_bind_text(add, 1, claim->url, (int) origin, SQLITE_STATIC);
  sqlite3_bind_int64(add, 2, claim->id);
  sqlite3_bind_int(add, 3, depth);
  sqlite3_bind_text(add, 4, claim->url + origin, -1, SQLITE_STATIC);
  run(s, ADD);
  sqlite3_bind_int64(journal, 1, claim->id);
  sqlite3_bind_int64(journal, 2, (int64_t) claim->hash);
  run(s, JOURNAL);
}

void store_remove(struct store *s, const struct page *page)
{
  sqlite3_stmt *statement = s->statements[REMOVE];
  sqlite3_bind_text(statement, 1, page->url, (int) url_origin(page->url), SQLITE_STATIC);
  sqlite3_bind_int64(statement, 2, page->id);
  run(s, REMOVE);
}

void store_give_up(struct store *s, const struct page *page)
{
  sqlite3_stmt *statement = s->statements[GIVE_UP];
  sqlite3_bind_text(statement, 1, page->url, -1, SQLITE_STATIC);
  sqlite3_bind_int(statement, 2, page->depth);
  sqlite3_bind_text(statement, 3, page->failure, -1, SQLITE_STATIC);
  run(s, GIVE_UP);
}

void store_forget_journal(struct store *s, int64_t up_to)
{
  sqlite3_bind_int64(s->statements[FORGET], 1, up_to);
  run(s, FORGET);
}

bool store_commit(struct store *s)
{
  if (s->failed) {
    sqlite3_exec(s->writer, "ROLLBACK", NULL, NULL, NULL);
    return false;
  }
  return execute(s, "COMMIT") && (!s->sync || execute(s, "PRAGMA synchronous=NORMAL"));
}
