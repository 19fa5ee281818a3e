/* SPDX-License-Identifier: MIT
 *
 * A run of stress-random: a configuration, its filter, and what is known of the filter's keys.
 */
#ifndef TAMIS_STRESS_RANDOM_H
#define TAMIS_STRESS_RANDOM_H

#include "configuration.h"
#include "harness.h"
#include "ledger.h"

#include <stdatomic.h>

/* What the threads of a run do, one after the other. */
enum phase {
  FILL,  /* add distinct keys: some are the thread's own, for the others all threads compete */
  BRINK, /* compete for keys that the filter may refuse */
  MIX,   /* make calls of all sorts with own keys */
  DRAIN  /* remove all copies of own keys */
};

/* Keys are numbered.  Threads compete for the keys below `contested` and for those from
 * configuration.keys to `all`.  The others are owned: key i by thread i % threads. */
struct run {
  struct configuration configuration;
  uint64_t number;
  uint64_t needed; /* bytes that the filter was said to take */
  tamis_filter *filter;
  struct ledger ledger;
  enum phase phase;
  uint64_t contested, all;
  unsigned most_copies;

  uint16_t *copies;         /* of each key; of a contested one, 1 if it was won */
  _Atomic uint8_t *won;     /* how many unique adds of a contested key have won */
  _Atomic uint8_t *refused; /* whether one was refused for the capacity */
  _Atomic uint64_t offered; /* distinct keys that have been offered */
  _Atomic uint64_t wrong;
};

/* Counts a wrong answer, and prints the first ones. */
void run_wrong(struct run *run, const char *what, uint64_t key);

/* ---- random_calls.c: the phases ---- */

void run_phase(struct run *run, enum phase phase);

/* ---- random_rest.c: what holds while no thread makes calls ---- */

/* Creation, and what was said of it beforehand.  The run has a filter afterwards. */
void create_and_check(struct run *run);

/* All that holds at rest. */
void check_at_rest(struct run *run);

/* The rate of a filter that has taken the keys of FILL, with at most `most` look-ups. */
void check_rate(struct run *run, uint64_t most);

/* The same for a filter with the same options, but for this capacity. */
void check_rate_when_large(struct run *run, uint64_t capacity, uint64_t most);

/* A filter that refused keys takes some again after removes. */
void check_room_after_removes(struct run *run);

/* A cuckoo filter without keys. */
void check_empty(struct run *run);

#endif
