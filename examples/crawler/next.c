/* SPDX-License-Identifier: MIT
 *
 * Who is asked next: politeness, robots.txt, levels, and what is tried again.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "complain.h"
#include "frontier_parts.h"
#include "robots.h"

enum {
  READ_AHEAD = 16, /* pages of a host that are read from the queue at once */
  HOST_TRIES = 8,  /* attempts in a row that a host leaves unanswered before it is given up */
  LONGEST_CRAWL_DELAY = 60 /* seconds; a longer one is taken for this one */
};
static const int64_t second = 1000000000, robots_lifetime = 24 * 3600 * INT64_C(1000000000);

static int64_t now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * second + t.tv_nsec;
}

static bool has_more(const struct host *host)
{
  return host->buffer || host->retries || host->last > host->cursor;
}

void frontier__offer_locked(struct frontier *f, struct host *host)
{
  if (host->place == 0 && has_more(host) && !host->too_deep && host->robots_state != ROBOTS_ASKED &&
      host->in_flight < f->options.per_host)
    hosts_push(&f->hosts, host);
}

/* What is not to be fetched is committed like a page without links. */
static void skip_locked(struct frontier *f, struct page *page)
{
  f->figures.in_flight++;
  frontier__hand_over_locked(f, page);
}

/* The host's next page, not taken out yet; NULL if there is none now. */
static struct page **next_of_locked(struct frontier *f, struct host *host, int64_t time)
{
  if (host->retries && host->retries->not_before <= time)
    return &host->retries;
  if (!host->buffer && host->last > host->cursor) {
    if (!store_read(f->store, host->origin, host->cursor, READ_AHEAD, &host->buffer))
      frontier__broken_locked(f);
    for (struct page *page = host->buffer; page; page = page->next)
      page->host = host, host->cursor = page->id;
    if (!host->buffer) /* the queue has lost rows: nothing to wait for */
      host->cursor = host->last;
  }
  return host->buffer ? &host->buffer : NULL;
}

static struct page *take_locked(struct frontier *f, struct page **place)
{
  struct page *page = *place;
  *place = page->next;
  page->next = NULL;
  page->host->in_flight++;
  f->figures.in_flight++;
  return page;
}

/* Nanoseconds from a request to the host to the next. */
static int64_t delay_of(const struct frontier *f, const struct host *host)
{
  int64_t delay = f->options.delay;
  double asked = host->robots ? robots_delay(host->robots) : 0;
  if (asked > LONGEST_CRAWL_DELAY)
    asked = LONGEST_CRAWL_DELAY;
  if ((double) delay < asked * (double) second)
    delay = (int64_t) (asked * (double) second);
  return delay;
}

static struct page *robots_page(struct host *host)
{
  struct page *page = page_new(host->origin, "/robots.txt");
  if (page)
    page->host = host, page->is_robots = true;
  return page;
}

/* The page that the first host of the heap is asked for, or NULL; then the host was not ready for
 * one, and its next page, if it has any, has found its way. */
static struct page *ask_first_locked(struct frontier *f, int64_t time)
{
  struct host *host = hosts_first(&f->hosts);
  hosts_take_out(&f->hosts, host);
  if (host->robots_state == ROBOTS_KNOWN && time > host->robots_until)
    host->robots_state = ROBOTS_UNKNOWN;
  if (host->robots_state == ROBOTS_UNKNOWN && !host->given_up) {
    struct page *robots = robots_page(host);
    if (!robots) {
      frontier__no_memory_locked(f);
      return NULL;
    }
    host->robots_state = ROBOTS_ASKED;
    host->ready_at = time + delay_of(f, host);
    return take_locked(f, &robots);
  }
  struct page **place = next_of_locked(f, host, time);
  if (!place) {
    if (host->retries)
      host->ready_at = host->retries->not_before;
    frontier__offer_locked(f, host);
    return NULL;
  }
  struct page *page = *place;
  if (f->options.max_depth >= 0 && page->depth > f->level) {
    host->too_deep = !host->retries; /* what is tried again belongs to this level */
    if (!host->too_deep) {
      host->ready_at = host->retries->not_before;
      hosts_push(&f->hosts, host);
    }
    return NULL;
  }
  bool allowed = host->given_up || robots_allow(host->robots, page->url + strlen(host->origin));
  if (host->given_up || !allowed) {
    *place = page->next;
    if (allowed)
      snprintf(page->failure, sizeof page->failure, "the host does not answer");
    f->figures.disallowed += !allowed;
    skip_locked(f, page);
    frontier__offer_locked(f, host);
    return NULL;
  }
  page = take_locked(f, place);
  host->ready_at = time + delay_of(f, host);
  frontier__offer_locked(f, host);
  return page;
}

/* When all of a level has been committed: makes the next one that has pages the current one. */
static bool next_level_locked(struct frontier *f)
{
  int level = INT32_MAX;
  for (size_t i = 0; i < f->hosts.n; i++) {
    struct host *host = f->hosts.all[i];
    if (host->too_deep && host->buffer->depth < level)
      level = host->buffer->depth;
  }
  if (level == INT32_MAX)
    return false;
  f->level = level;
  for (size_t i = 0; i < f->hosts.n; i++) {
    f->hosts.all[i]->too_deep = false;
    frontier__offer_locked(f, f->hosts.all[i]);
  }
  return true;
}

enum frontier_next frontier_next(struct frontier *f, struct page **page, int64_t *wait)
{
  int64_t time = now();
  enum frontier_next result = NEXT_LATER;
  *page = NULL;
  *wait = second / 50;
  pthread_mutex_lock(&f->lock);
  while (!*page && !f->stopping && f->figures.in_flight < f->options.window) {
    const struct host *first = hosts_first(&f->hosts);
    if (first && first->ready_at > time) {
      if (*wait > first->ready_at - time)
        *wait = first->ready_at - time;
      break;
    }
    if (first)
      *page = ask_first_locked(f, time);
    else if (f->figures.in_flight > 0 || !next_level_locked(f))
      break;
  }
  if (*page)
    result = NEXT_PAGE;
  else if (f->stopping || (f->figures.in_flight == 0 && !hosts_first(&f->hosts)))
    result = NEXT_NONE;
  pthread_mutex_unlock(&f->lock);
  return result;
}

/* ---- what became of a request ---- */

void frontier__returned_locked(struct frontier *f, struct host *host, bool answered)
{
  host->in_flight--;
  if (answered)
    host->failures = 0;
  frontier__offer_locked(f, host);
}

static int64_t backoff(const struct frontier *f, unsigned failures)
{
  int64_t wait = f->options.retry << (failures < 16 ? failures - 1 : 15);
  return wait < 60 * second ? wait : 60 * second;
}

static void host_failed_locked(struct frontier *f, struct host *host, int64_t time, const char *why)
{
  if (host->given_up || time < host->failed_until)
    return;
  host->failures++;
  host->failed_until = time + backoff(f, host->failures);
  hosts_take_out(&f->hosts, host);
  if (host->ready_at < host->failed_until)
    host->ready_at = host->failed_until;
  if (host->failures < HOST_TRIES)
    return;
  complain("%s is given up after %u attempts: %s", host->origin, host->failures, why);
  host->given_up = true;
  host->ready_at = time;
  f->figures.hosts_given_up++;
}

void frontier_failed(struct frontier *f, struct page *page, enum failure failure, const char *why)
{
  struct host *host = page->host;
  pthread_mutex_lock(&f->lock);
  int64_t time = now();
  if (failure != PAGE_FAILED)
    host_failed_locked(f, host, time, why);
  page->tries += failure != HOST_FAILED;
  if (!page->is_robots && page->tries >= f->options.tries) {
    snprintf(page->failure, sizeof page->failure, "%s", why);
    frontier__hand_over_locked(f, page);
  } else {
    f->figures.in_flight--;
    if (page->is_robots) { /* without its rules, nothing of a host may be fetched */
      host->robots_state = ROBOTS_UNKNOWN;
      page_free(page);
    } else {
      page->not_before = time + (page->tries > 0 ? backoff(f, (unsigned) page->tries) : 0);
      struct page **place = &host->retries;
      while (*place && (*place)->not_before <= page->not_before)
        place = &(*place)->next;
      page->next = *place;
      *place = page;
      host->too_deep = false;
    }
  }
  frontier__returned_locked(f, host, failure != HOST_FAILED);
  pthread_mutex_unlock(&f->lock);
}

void frontier_robots(struct frontier *f, struct page *page, const char *text, size_t size)
{
  struct host *host = page->host;
  struct robots *robots = robots_parse(text, size, f->options.agent);
  pthread_mutex_lock(&f->lock);
  if (robots) {
    robots_free(host->robots);
    host->robots = robots;
    host->robots_state = ROBOTS_KNOWN;
    host->robots_until = now() + robots_lifetime;
  } else {
    frontier__no_memory_locked(f);
  }
  f->figures.in_flight--;
  frontier__returned_locked(f, host, true);
  page_free(page);
  pthread_mutex_unlock(&f->lock);
}
