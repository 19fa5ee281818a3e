/* SPDX-License-Identifier: MIT
 *
 * The frontier of a crawl: which URLs have been found, which of them wait, and which may be fetched
 * now.  It outlives kill -9 and a loss of power.  frontier.c begins with what it promises, and why.
 */
#ifndef CRAWLER_FRONTIER_H
#define CRAWLER_FRONTIER_H

#include "links.h"
#include "seen.h"
#include "store.h"

struct frontier;

struct frontier_options {
  const char *folder; /* where all of it is kept */
  const char *agent;  /* the product token that robots.txt is asked about */
  struct seen_options seen;
  int max_depth;     /* links from a seed; -1: no limit */
  bool any_host;     /* false: only hosts of seeds */
  unsigned window;   /* pages that are fetched and not yet committed, at most */
  unsigned per_host; /* of these, from one host */
  int64_t delay;     /* nanoseconds from one request to a host to the next, at least */
  int tries;         /* of a page, before it is given up */
  int64_t retry;     /* nanoseconds until the second try; each further one takes twice as long */
  FILE *pages;       /* a line for each page that was fetched, or NULL */
};

enum frontier_next { NEXT_PAGE, NEXT_LATER, NEXT_NONE };

/* What frontier_failed() is told: the page, or its host, could not be fetched from; or the host
 * asks for a pause, and perhaps only for this page. */
enum failure { PAGE_FAILED, HOST_FAILED, HOST_BUSY };

struct frontier_figures {
  struct seen_figures seen;
  uint64_t fetched, given_up, disallowed, waiting, links, bytes, saves, restored;
  unsigned in_flight, hosts, hosts_given_up;
};

/* Begins a crawl, or goes on with the one that the folder has; NULL after an error. */
struct frontier *frontier_open(const struct frontier_options *options);

/* Adds seeds: each may be there already.  Once, before pages are asked for. */
bool frontier_seed(struct frontier *f, struct links *seeds);

/* NEXT_PAGE: *page is to be fetched, and handed back by one of the next three functions.
 * NEXT_LATER: ask again in *wait nanoseconds, or earlier.
 * NEXT_NONE: the crawl is complete, or has been stopped. */
enum frontier_next frontier_next(struct frontier *f, struct page **page, int64_t *wait);

/* The page was fetched, and has these links (for their normal form see links.h). */
void frontier_done(struct frontier *f, struct page *page, struct links *links);
/* It was not fetched; it will be tried again, or given up. */
void frontier_failed(struct frontier *f, struct page *page, enum failure failure, const char *why);
/* The page was a robots.txt. */
void frontier_robots(struct frontier *f, struct page *page, const char *text, size_t size);

/* Saves filter and queue together. */
bool frontier_save(struct frontier *f);

/* No more pages are handed out. */
void frontier_stop(struct frontier *f);
/* Whether an error has stopped the crawl. */
bool frontier_broken(struct frontier *f);

struct frontier_figures frontier_figures(struct frontier *f);
/* Writes figures in Prometheus' text format. */
bool frontier_metrics(struct frontier *f, FILE *out);

/* No thread has a page any more.  Saves, unless the crawl is broken; false after an error. */
bool frontier_close(struct frontier *f);

#endif
