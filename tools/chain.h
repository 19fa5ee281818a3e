/* SPDX-License-Identifier: MIT
 *
 * A chain of filters, for a number of lines that is not known in advance.
 *
 * Level 0 has the expected capacity.  When it is full, keys that it does not hold go to level 1,
 * which is larger and has a lower rate, and so on.  The rates of all levels together stay within
 * the requested one.  A key is present if any level holds it.
 *
 * Each key has one winner over all levels, with any number of threads.  Every thread asks the
 * levels in the same order, and goes to the next one only on TAMIS_EFULL, which is final for a
 * unique add.  So two adds of a key either meet in the level that accepts it, or both go past that
 * level.
 *
 * Level 0 remains the only one if it grows by itself, if its memory is limited, or if nothing but
 * one filter is wanted, as for a saved one.  Here a cuckoo filter always is one of these, because
 * its TAMIS_EFULL is not final: later moves can make room.
 */
#ifndef TAMIS_TOOL_CHAIN_H
#define TAMIS_TOOL_CHAIN_H

#include "clock.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
  CHAIN_LEVELS = 40,
  BATCH = 256 /* the most keys of one call */
};

struct chain {
  _Atomic(tamis_filter *) level[CHAIN_LEVELS]; /* NULL from the first one that does not exist yet */
  pthread_mutex_t lock;                        /* held while a level is created */
  tamis_options first; /* of level 0; the rate is that of all levels together */
  bool single;         /* level 0 remains the only one */
  const char *shared;  /* NULL, or the file in which processes share level 0 */
  struct clock clock;  /* of level 0, if that has a window */
  bool ends;           /* unique adds are for `periods` more only, and level 0 has a window */
  unsigned periods;
};

struct chain_figures {
  unsigned levels;
  uint64_t bytes;
  double fpp;  /* the present rate of false positives, over all levels */
  double load; /* of level 0; above 1 only if that grows */
  uint64_t growths;
};

/* Says, with fail(), why there can be no filter with these options, at this level of a chain. */
void fail_to_create(const tamis_options *options, int result, unsigned level);

/* Creates level 0.  It remains the only one with `single`, or if `options` are growable or have
 * max_bytes.  False after fail(). */
bool chain_create(struct chain *chain, const tamis_options *options, bool single);

/* Takes over a filter, which remains the only one.  `shared` is NULL, or the file in which processes
 * share it. */
void chain_adopt(struct chain *chain, tamis_filter *filter, const char *shared);

/* Begins the clock of the window that level 0 may have, with periods of so many seconds; less than 0:
 * not given.  `name` is the file of the filter.  Unless `quiet`, says so if the window is ahead of the clock.
 * False after fail(). */
bool chain_start_clock(struct chain *chain, double period, const char *name, bool quiet);

/* From now on, unique adds are for so many seconds, rounded up to periods.  After
 * chain_start_clock(); `name` is the file of the filter.  False after fail(). */
bool chain_limit_lives(struct chain *chain, double seconds, const char *name);

void chain_destroy(struct chain *chain);

/* The filter whose tamis_hash makes the hashes for all levels. */
const tamis_filter *chain_hasher(const struct chain *chain);

/* tamis_add_unique_many_hash or tamis_add_many_hash */
typedef int chain_add_call(tamis_filter *f, const uint64_t *hashes, size_t n, int *results);

/* Ends the periods that are over, and adds each of n <= BATCH keys to the first level that accepts or
 * holds it.  If a result is negative, fail() has been called. */
void chain_add(struct chain *chain, chain_add_call *add, const uint64_t *hashes, size_t n,
               int *results);

/* Adds n <= BATCH lines; false after fail().  The adds to a cuckoo filter are unique, as it would
 * otherwise keep every copy of a line that is repeated. */
bool chain_add_lines(struct chain *chain, const uint64_t *hashes, size_t n);

/* Looks up n <= BATCH keys in all levels; returns how many were found. */
size_t chain_contains(const struct chain *chain, const uint64_t *hashes, size_t n, bool *found);

struct chain_figures chain_get_figures(const struct chain *chain);

#endif
