/* SPDX-License-Identifier: MIT
 *
 * robots.txt, as RFC 9309 has it: groups of user agents, Allow and Disallow with * and $, the
 * longest rule wins; and Crawl-delay, which many sites use.
 */
#ifndef CRAWLER_ROBOTS_H
#define CRAWLER_ROBOTS_H

#include <stdbool.h>
#include <stddef.h>

enum { ROBOTS_MOST = 512 * 1024 }; /* bytes that are read of a file; RFC 9309 asks for 500 KiB */

struct robots;

/* The rules of `text` for the crawler whose product token is `agent`; NULL: no memory. */
struct robots *robots_parse(const char *text, size_t size, const char *agent);
void robots_free(struct robots *rules);

/* Whether `target`, a path with its query, may be fetched.  Its escapes are uniform, as those of
 * url_normalise() are. */
bool robots_allow(const struct robots *rules, const char *target);

/* Seconds between two requests, 0 if the file does not say. */
double robots_delay(const struct robots *rules);

#endif
