/* SPDX-License-Identifier: MIT
 *
 * The set of all URLs that were ever found.  seen.c keeps it in a filter of libtamis; exact.c keeps
 * it exactly, for a comparison.
 */
#ifndef CRAWLER_SEEN_H
#define CRAWLER_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct seen;

struct seen_options {
  uint64_t expected;  /* URLs; more may come */
  double fpp;         /* the part of the URLs that may be missed */
  uint64_t max_bytes; /* 0: no limit */
};

struct seen_figures {
  uint64_t count, bytes;
};

/* NULL after an error, which is reported. */
struct seen *seen_create(const struct seen_options *options);
struct seen *seen_load(const struct seen_options *options, const char *path);
void seen_destroy(struct seen *s);

/* A number that is the same for two sets only if one is the saved form of the other. */
int64_t seen_probe(const struct seen *s);

/* Claims a URL: 1 if it was new, and of all threads that claim it only one gets 1; 0 if it had been
 * claimed; -1 if the set is full.  *hash stands for the URL in seen_restore(). */
int seen_claim(struct seen *s, const char *url, size_t len, uint64_t *hash);

/* Claims a URL again, by its hash; it may have been claimed.  False if the set is full. */
bool seen_restore(struct seen *s, uint64_t hash);

/* Saves the set while others claim.  What was claimed before the call is saved; what is claimed
 * meanwhile may be. */
bool seen_save(const struct seen *s, const char *path);

struct seen_figures seen_figures(const struct seen *s);

/* Writes more figures, in Prometheus' text format. */
bool seen_metrics(const struct seen *s, FILE *out);

#endif
