/* SPDX-License-Identifier: MIT
 *
 * A thread that fetches pages, several at a time, with libcurl's multi interface.
 */
#ifndef CRAWLER_FETCH_H
#define CRAWLER_FETCH_H

#include "frontier.h"

struct fetch_options {
  struct frontier *frontier;
  const char *user_agent;
  unsigned transfers; /* at a time */
  long timeout;       /* seconds for a page */
  size_t most_bytes;  /* of a page; the rest is not read */
};

/* Fetches what the frontier has, until it has no more.  False after an error. */
bool fetch_all(const struct fetch_options *options);

#endif
