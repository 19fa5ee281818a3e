/* SPDX-License-Identifier: MIT
 *
 * The queue on the disk, in SQLite: what waits to be fetched, and a journal of what has been
 * claimed since the filter was last saved.
 *
 * One thread writes and one at a time reads; they may do so at the same time.  Errors are reported
 * where they occur, and stay: after one, store_commit() fails.
 */
#ifndef CRAWLER_STORE_H
#define CRAWLER_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct host;
struct store;

/* A page that is to be fetched. */
struct page {
  struct page *next;
  struct host *host;
  int64_t id; /* its place in the queue; 0: it is in none */
  int depth;  /* links from a seed */
  int tries;
  bool is_robots;     /* it is the robots.txt of its host */
  int64_t not_before; /* of a page that is tried again */
  /* What became of it. */
  int status; /* of HTTP; 0: it was not fetched */
  size_t bytes;
  char failure[64];        /* why it has been given up; empty: it has not */
  struct claim *new_pages; /* links on it that nobody had claimed before */
  size_t n_new_pages;
  char url[]; /* in normal form */
};

/* A URL that this crawl has found first on a certain page. */
struct claim {
  uint64_t hash;
  int64_t id; /* its place in the queue */
  char *url;
};

/* Opens the queue, which is created if there is none; NULL after an error. */
struct store *store_open(const char *path);
void store_close(struct store *s);

/* The crawl that the queue belongs to, with the numbers that it was begun with. */
struct crawl {
  bool begun;
  int64_t probe; /* of the filter */
  int max_depth;
};
bool store_crawl(struct store *s, struct crawl *crawl);
bool store_begin_crawl(struct store *s, const struct crawl *crawl);

/* What is in it.  The functions given are called for each row. */
bool store_hosts(struct store *s,
                 bool (*host)(void *context, const char *origin, int64_t last_id, int64_t waiting),
                 void *context);
bool store_journal(struct store *s, bool (*claimed)(void *context, int64_t id, uint64_t hash),
                   void *context);
bool store_scope(struct store *s, bool (*origin)(void *context, const char *origin), void *context);
bool store_add_scope(struct store *s, const char *origin);

/* The next pages of a host after the place `after`, at most `most`, in their order; *pages is NULL
 * if there are none. */
bool store_read(struct store *s, const char *origin, int64_t after, unsigned most,
                struct page **pages);

/* A transaction.  With `sync`, it and all before it are on the disk when it has been committed. */
void store_begin(struct store *s, bool sync);
void store_add(struct store *s, const struct claim *claim, int depth);
void store_remove(struct store *s, const struct page *page);
void store_give_up(struct store *s, const struct page *page);
void store_forget_journal(struct store *s, int64_t up_to);
bool store_commit(struct store *s);

struct page *page_new(const char *origin, const char *target);

#endif
