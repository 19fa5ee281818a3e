/* SPDX-License-Identifier: MIT
 *
 * The verdict.  The promise: an id is refused only if no row had it at some moment between the
 * request and its answer; or, if the row was committed by a program that goes past this service,
 * at some moment in the last `lag_ms` before.
 *
 * The filter holds one copy for each row as of the position `applied`, because the follower alone
 * changes it, and applies whole transactions (follow.c).  What may have been committed after this
 * position is of three kinds:
 *   (a) inserted through this process: the id is pending from before the INSERT is sent until the
 *       follower has passed its end (pending.h).  The follower adds to the filter first, then
 *       raises `applied`, then drops the entry; so the reader must look at the entries first, and
 *       at the filter afterwards.  Whoever does not find the entry of a row finds its copy.
 *   (b) inserted through another process that runs this program: its answer to the insert names a
 *       position, the token.  A reader that brings it is answered from the filter only if `applied`
 *       covers it.
 *   (c) inserted by other programs, or through another process by a client that forgets the token:
 *       the filter answers only while everything that had been committed `lag_ms` ago is in it.
 *       The follower knows this by asking for the end of the log, and noting the time before it
 *       asks.
 *
 * Where any of these is in doubt, the database is asked: too many questions rather than a wrong no.
 */
#include "guard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 8192, PAGE_HEADER = 24, LONGEST_ASK_MS = 100 };

bool position_parse(const char *text, position *out)
{
  unsigned high, low;
  int length = 0;
  if (sscanf(text, "%8X/%8X%n", &high, &low, &length) != 2 || text[length] != 0)
    return false;
  *out = (position) high << 32 | low;
  return true;
}

/* The log is written in pages with headers.  A position at the end of a page and the one behind the
 * header of the next page mean the same; PostgreSQL reports the first as the end of a record, and
 * the second as the place for the next one. */
bool position_covers(position reached, position wanted)
{
  return reached % PAGE == 0 && reached > 0 ? reached + PAGE_HEADER >= wanted : reached >= wanted;
}

int64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool guard_init(struct guard *g, const struct settings *settings)
{
  memset(g, 0, sizeof *g);
  g->settings = settings;
  shared_filter_init(&g->ids);
  pending_init(&g->pending);
  g->fresh_at = NEVER;
  g->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (g->wake < 0)
    say("eventfd: %s", strerror(errno));
  return g->wake >= 0;
}

void guard_destroy(struct guard *g)
{
  close(g->wake);
  pending_destroy(&g->pending);
  shared_filter_destroy(&g->ids);
}

static bool is_fresh(struct guard *g)
{
  int64_t at = g->fresh_at;
  unsigned lag = g->settings->lag_ms;
  return at != NEVER && (lag == 0 || now_ms() - at <= (int64_t) lag);
}

/* Whether the position is one that the database has reached.  A client can make up any other one,
 * and would have all its questions asked if that were believed.  Where the end of the log that is
 * known does not tell, the follower asks for it again; two answers, because the question for the
 * first one may have been sent before.  True as well, if nobody can tell. */
static bool may_be_reached(struct guard *g, position token)
{
  uint64_t enough = g->asked + 2;
  int64_t latest = now_ms() + LONGEST_ASK_MS;
  while (token > g->known && g->asked < enough) {
    if (now_ms() > latest || g->stopping)
      return true;
    eventfd_write(g->wake, 1);
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
  }
  return token <= g->known;
}

verdict guard_judge(struct guard *g, const char *id, position token)
{
  if (pending_has(&g->pending, id))
    return POSSIBLE;
  if (!is_fresh(g) || (!position_covers(g->applied, token) && may_be_reached(g, token) &&
                       !position_covers(g->applied, token))) {
    g->unsure++;
    return POSSIBLE;
  }
  struct held_filter *held = filter_hold(&g->ids);
  verdict result =
      held == NULL || tamis_contains(held->filter, id, strlen(id)) ? POSSIBLE : REFUSED;
  filter_release(&g->ids, held);
  return result;
}

/* ---- ids ---- */

static bool is_canonical_bigint(const char *id)
{
  char printed[32];
  errno = 0;
  int64_t value = strtoll(id, NULL, 10);
  snprintf(printed, sizeof printed, "%" PRId64, value);
  return errno == 0 && strcmp(id, printed) == 0;
}

static bool is_canonical_uuid(const char *id)
{
  size_t length = strlen(id);
  for (size_t i = 0; i < length; i++)
    if (i == 8 || i == 13 || i == 18 || i == 23 ? id[i] != '-'
                                                : strchr("0123456789abcdef", id[i]) == NULL)
      return false;
  return length == 36;
}

bool id_is_canonical(id_type type, const char *id)
{
  return type == ID_BIGINT ? is_canonical_bigint(id) : type == ID_TEXT || is_canonical_uuid(id);
}
