/* SPDX-License-Identifier: MIT
 *
 * The hosts of a crawl, and which of them may be asked next: a heap by the time at which politeness
 * allows the next request.  The caller has a lock around all calls.
 */
#ifndef CRAWLER_HOSTS_H
#define CRAWLER_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page;
struct robots;

enum robots_state { ROBOTS_UNKNOWN, ROBOTS_ASKED, ROBOTS_KNOWN };

struct host {
  struct page *buffer;  /* pages that were read from the queue, in its order */
  struct page *retries; /* pages that are tried again, by their time */
  int64_t cursor;       /* the place in the queue up to which pages were read */
  int64_t last;         /* the place of the host's last page in the queue */
  int64_t ready_at;     /* when it may be asked again, in nanoseconds of the monotonic clock */
  unsigned in_flight;   /* requests that are under way */
  unsigned failures;    /* attempts in a row that the host did not answer */
  int64_t failed_until; /* requests that fail before belong to the same attempt */
  bool given_up;        /* after too many of them */
  bool too_deep;        /* its next page is deeper than the level that is crawled now */
  size_t place;         /* in the heap, from 1; 0: it is not there */
  enum robots_state robots_state;
  struct robots *robots;
  int64_t robots_until; /* when they are asked for again */
  char origin[];
};

struct hosts {
  struct host **all; /* by the order in which they were found */
  size_t n, room;
  void *tree; /* by origin */
  struct host **heap;
  size_t n_heap;
};

/* The host of an origin, which is added if it is new; NULL: no memory. */
struct host *hosts_find(struct hosts *hosts, const char *origin, size_t len);
void hosts_free(struct hosts *hosts);

/* Puts a host that is not in the heap into it. */
void hosts_push(struct hosts *hosts, struct host *host);
/* The host that may be asked first, or NULL. */
struct host *hosts_first(const struct hosts *hosts);
/* Takes a host out of the heap, if it is there: before its time changes. */
void hosts_take_out(struct hosts *hosts, struct host *host);

#endif
