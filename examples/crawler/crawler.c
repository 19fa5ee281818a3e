/* SPDX-License-Identifier: MIT
 *
 * A crawler that goes on after kill -9: libcurl fetches pages, libxml2 finds links, SQLite has the
 * pages that wait, and a filter that all threads share knows which URLs were found.
 *
 *   1. A thread that has fetched a page claims the page's links: for each link, tamis_add_unique
 *      returns TAMIS_OK to one thread only.  It then hands over the page with the links it has won.
 *   2. A thread that takes a page first commits what was handed over, while no thread claims: links
 *      become rows, and pages are done.  So all links of a page that is done are in the table.
 *   3. To save, a thread commits, saves the filter, and deletes the rows of pages that are done,
 *      while no thread claims.  So the saved filter has only URLs that were committed.
 *   4. A crawler that starts loads the saved filter, and adds all URLs of the table to it: those of
 *      pages that wait, and of pages that were fetched since the save.
 *
 * A claim that was not committed is in neither, so its page is fetched again: a kill costs the page
 * that each thread is working on, and only false positives hide pages.  Every error ends the
 * program, as a kill does. */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <libxml/HTMLparser.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <tamis/tamis.h>
#include <unistd.h>

enum { TRIES = 5, MOST_THREADS = 256 };

/* The page that a thread is working on. */
static struct page {
  int64_t id;
  char *url, **links; /* those that the page has won */
  size_t met, won;
  long status; /* of HTTP; 0: the crawler has given up the page */
  bool handed_over;
} in_hand[MOST_THREADS];

static tamis_filter *seen;
static char **seeds; /* links to the hosts of these URLs are followed, others are not */
static pthread_rwlock_t claiming = PTHREAD_RWLOCK_INITIALIZER; /* threads that claim share it */
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;      /* protects all below */
static pthread_cond_t committed = PTHREAD_COND_INITIALIZER;
static sqlite3 *db;
static sqlite3_stmt *insert, *set_done, *select_next;
static int64_t last_taken;
static long in_flight, unsaved, save_every; /* pages */
static size_t fetched, given_up;

static void die(const char *what, const char *why)
{
  fprintf(stderr, "crawler: %s: %s\n", what, why);
  _exit(1);
}

static void *allocated(void *memory)
{
  if (!memory)
    die("memory", strerror(ENOMEM));
  return memory;
}

/* Returns whether a key was new, or whether another call has succeeded. */
static bool done(int result)
{
  if (result != TAMIS_OK && result != TAMIS_PRESENT)
    die("seen.tamis", result == TAMIS_EIO ? strerror(errno) : tamis_strerror(result));
  return result == TAMIS_OK;
}

static void run(const char *sql)
{
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
    die("pages.db", sqlite3_errmsg(db));
}

static sqlite3_stmt *prepare(const char *sql)
{
  sqlite3_stmt *s = NULL;
  if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
    die("pages.db", sqlite3_errmsg(db));
  return s;
}

/* Returns whether there is another row. */
static bool step(sqlite3_stmt *s)
{
  int result = sqlite3_step(s);
  if (result != SQLITE_ROW && sqlite3_reset(s) != SQLITE_OK)
    die("pages.db", sqlite3_errmsg(db));
  return result == SQLITE_ROW;
}

static void put(const char *url)
{
  sqlite3_bind_text(insert, 1, url, -1, SQLITE_STATIC);
  step(insert);
}

static void commit_page(struct page *p)
{
  for (size_t i = 0; i < p->won; i++) {
    put(p->links[i]);
    curl_free(p->links[i]);
  }
  sqlite3_bind_int64(set_done, 1, p->id);
  step(set_done);
  printf("thread %d: HTTP %ld, won %zu of %zu links: %s\n", (int) (p - in_hand), p->status, p->won,
         p->met, p->url);
  *(p->status ? &fetched : &given_up) += 1;
  in_flight--;
  unsaved++;
  free(p->links);
  free(p->url);
  *p = (struct page){.url = NULL};
}

static void commit(bool save)
{
  pthread_rwlock_wrlock(&claiming); /* 2 */
  run("BEGIN");
  for (struct page *p = in_hand; p < in_hand + MOST_THREADS; p++)
    if (p->handed_over)
      commit_page(p);
  run("COMMIT");
  if (save) { /* 3 */
    done(tamis_save_file(seen, "seen.tamis"));
    run("DELETE FROM pages WHERE done");
    unsaved = 0;
  }
  pthread_rwlock_unlock(&claiming);
  fflush(stdout);
  pthread_cond_broadcast(&committed);
}

/* Takes the next page; false: the crawl is complete. */
static bool take(struct page *p)
{
  bool found;
  pthread_mutex_lock(&table);
  commit(unsaved >= save_every);
  do {
    sqlite3_bind_int64(select_next, 1, last_taken);
    found = step(select_next);
  } while (!found && in_flight > 0 && pthread_cond_wait(&committed, &table) == 0);
  if (found) {
    p->id = last_taken = sqlite3_column_int64(select_next, 0);
    p->url = allocated(strdup((const char *) sqlite3_column_text(select_next, 1)));
    in_flight++;
    sqlite3_reset(select_next);
  }
  pthread_mutex_unlock(&table);
  return found;
}

/* The normal form of a link; NULL if it is no web address, or its host is not crawled. */
static char *normal_form(const char *link, const char *of_page)
{
  char *url = NULL;
  bool in_scope = !seeds;
  CURLU *u = allocated(curl_url());
  if ((!of_page || curl_url_set(u, CURLUPART_URL, of_page, 0) == CURLUE_OK) &&
      curl_url_set(u, CURLUPART_URL, link, CURLU_URLENCODE) == CURLUE_OK &&
      curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK)
    curl_url_get(u, CURLUPART_URL, &url, 0);
  curl_url_cleanup(u);
  for (char **seed = seeds; url && seed && *seed; seed++) /* the same "https://host/" */
    in_scope |= strncmp(url, *seed, strcspn(*seed + 8, "/") + 9) == 0;
  if (url && in_scope)
    return url;
  curl_free(url);
  return NULL;
}

static void claim(struct page *p, const char *link)
{
  char *url = normal_form(link, p->url);
  p->met++;
  if (!url || !done(tamis_add_unique(seen, url, strlen(url)))) {
    curl_free(url);
    return;
  }
  p->links = allocated(realloc(p->links, (p->won + 1) * sizeof *p->links));
  p->links[p->won++] = url;
}

/* Called by libxml2 for each element of a page, with the attributes in pairs. */
static void claim_link_of(void *page, const xmlChar *name, const xmlChar **attributes)
{
  for (const xmlChar **a = attributes; a && *a; a += 2)
    if (xmlStrEqual(name, BAD_CAST "a") && xmlStrEqual(*a, BAD_CAST "href") && a[1] &&
        a[1][0] != '\0' && a[1][0] != '#')
      claim(page, (const char *) a[1]);
}

/* The text of a page.  If the server fails, the crawler tries several times. */
static char *fetch(CURL *curl, struct page *p)
{
  char *text = NULL;
  size_t size;
  for (unsigned i = 0; i < TRIES && !text; i++) {
    FILE *file = allocated(open_memstream(&text, &size));
    curl_easy_setopt(curl, CURLOPT_URL, p->url);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, file);
    CURLcode result = curl_easy_perform(curl);
    fclose(file);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &p->status);
    if (result == CURLE_OK && p->status < 500)
      break;
    free(text);
    text = NULL, p->status = 0;
    usleep(100000U << i);
  }
  return text;
}

static void claim_and_hand_over(struct page *p, CURL *curl, char *text)
{
  const char *redirect = NULL, *type = NULL;
  htmlSAXHandler on_element = {.startElement = claim_link_of};
  curl_easy_getinfo(curl, CURLINFO_REDIRECT_URL, &redirect);
  curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
  pthread_rwlock_rdlock(&claiming); /* 1 */
  if (text && redirect)
    claim(p, redirect);
  else if (text && p->status == 200 && type && strncmp(type, "text/html", 9) == 0)
    htmlSAXParseDoc(BAD_CAST text, NULL, &on_element, p);
  p->handed_over = true;
  pthread_rwlock_unlock(&claiming);
  free(text);
}

static void *crawl(void *page)
{
  CURL *curl = allocated(curl_easy_init());
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "tamis-crawler/1.0");
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 30L);
  while (take(page))
    claim_and_hand_over(page, curl, fetch(curl, page));
  curl_easy_cleanup(curl);
  return NULL;
}

static void open_state(const char *folder)
{
  mkdir(folder, 0700); /* the filter has a seed, which is a secret */
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 || chdir(folder) != 0)
    die(folder, errno == EWOULDBLOCK ? "another crawler is at work" : strerror(errno));
  sqlite3_open("pages.db", &db);
  run("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; CREATE TABLE IF NOT EXISTS"
      " pages (id INTEGER PRIMARY KEY, url TEXT, done INT DEFAULT 0)");
  insert = prepare("INSERT INTO pages (url) VALUES (?)");
  set_done = prepare("UPDATE pages SET done = 1 WHERE id = ?");
  select_next = prepare("SELECT id, url FROM pages WHERE id > ? AND NOT done ORDER BY id");
  tamis_options filter = TAMIS_OPTIONS_INIT;
  filter.kind = TAMIS_CUCKOO, filter.capacity = 10000, filter.fpp = 1e-6; /* it grows */
  done(access("seen.tamis", F_OK) == 0 ? tamis_load_file(NULL, "seen.tamis", &seen)
                                       : tamis_create(&filter, &seen));
  sqlite3_stmt *all = prepare("SELECT url FROM pages"); /* 4 */
  for (const char *url; step(all) && (url = (const char *) sqlite3_column_text(all, 0));)
    done(tamis_add_unique(seen, url, strlen(url)));
  sqlite3_finalize(all);
}

int main(int argc, char **argv)
{
  pthread_t threads[MOST_THREADS];
  int n = argc > 4 ? atoi(argv[2]) : 0;
  if (n < 1 || n > MOST_THREADS || (save_every = atoi(argv[3])) < 1) {
    fprintf(stderr, "usage: crawler FOLDER THREADS SAVE-AFTER-SO-MANY-PAGES URL...\n");
    return 2;
  }
  curl_global_init(CURL_GLOBAL_DEFAULT);
  xmlInitParser();
  for (char **url = argv + 4; *url; url++)
    if (!(*url = normal_form(*url, NULL)))
      die("URL", "not an address of the web");
  seeds = argv + 4;
  open_state(argv[1]);
  for (char **url = seeds; *url; url++)
    if (done(tamis_add_unique(seen, *url, strlen(*url))))
      put(*url);
  for (int i = 0; i < n; i++)
    if (pthread_create(&threads[i], NULL, crawl, &in_hand[i]) != 0)
      die("threads", strerror(EAGAIN));
  for (int i = 0; i < n; i++)
    pthread_join(threads[i], NULL);
  commit(true);
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(seen, &stats);
  printf("complete: %zu pages fetched, %zu given up; the filter has %ju URLs in %ju KiB\n", fetched,
         given_up, (uintmax_t) stats.count, (uintmax_t) stats.bytes / 1024);
  return fflush(stdout) == 0 ? 0 : 1;
}
