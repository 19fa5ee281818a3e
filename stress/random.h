/* SPDX-License-Identifier: MIT
 *
 * A run of stress-random: a configuration, its filter, and what is known of the filter's keys.
 */
#ifndef TAMIS_STRESS_RANDOM_H
#define TAMIS_STRESS_RANDOM_H

#include "configuration.h"
#include "create.h"
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

/* Why a unique add of a contested key was refused.  A Bloom filter does so for good at its
 * limit. */
enum { FOR_THE_LIMIT = 1, FOR_MEMORY = 2 };

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

  uint16_t *copies;          /* of each key; of a contested one, 1 if it was won */
  _Atomic uint8_t *won;      /* how many unique adds of a contested key have won */
  _Atomic uint8_t *refused;  /* why one was refused; 0: none was */
  _Atomic uint64_t offered;  /* distinct keys that have been offered */
  _Atomic uint64_t adds;     /* keys of all adds that were made */
  _Atomic uint64_t refusals; /* of them, that got TAMIS_EFULL or TAMIS_ENOMEM */
  uint64_t created;          /* in nanoseconds, before the filter was */
  _Atomic uint64_t wrong;

  /* With a window: calls of tamis_advance that have begun and ended, and how many more may in a
   * phase; in which periods, at the earliest and at the latest, each key was added last. */
  _Atomic uint64_t begun, ended;
  _Atomic int64_t ends_left;
  _Atomic uint64_t *earliest, *latest;
};

static inline bool has_window(const struct run *run)
{
  return run->configuration.options.window != 0;
}

/* Whether each key has one copy at most. */
static inline bool is_bloom(const struct run *run)
{
  return run->configuration.options.kind == TAMIS_BLOOM;
}

/* Whether what is in stays in, and what seems to be in, too. */
static inline bool keeps_all(const struct run *run)
{
  return is_bloom(run) && !has_window(run);
}

/* Counts a wrong answer, and prints the first ones. */
void run_wrong(struct run *run, const char *what, uint64_t key);

/* ---- random_calls.c: the phases ---- */

void run_phase(struct run *run, enum phase phase);

/* ---- random_rest.c: what holds while no thread makes calls ---- */

/* Creation, and what was said of it beforehand.  The run has a filter afterwards. */
void create_and_check(struct run *run);

/* All that holds at rest. */
void check_at_rest(struct run *run);

/* A filter without keys. */
void check_empty(struct run *run);

/* Counts a wrong answer if there is one. */
void require(struct run *run, bool good, const char *what, uint64_t value);

/* Notes the result of an add, and returns it. */
int note_add(struct run *run, int result);

/* Makes a call on a key. */
int call_on_key(struct run *run, uint64_t key,
                int call(tamis_filter *f, const void *key, size_t len));

/* ---- random_figures.c ---- */

/* Compares each figure of the filter with what is known. */
void check_each_figure(struct run *run);

/* ---- random_window.c: periods ----
 *
 * In a phase no more periods end than the window has, and when it begins all keys that are in have
 * just been added.  So within a phase nothing is forgotten, and all that must hold of a filter
 * holds.  Between the phases it is known of each key when it must be forgotten. */

/* A call begins, in which keys may be added.  Returns what the next function wants. */
uint64_t window_call_begins(const struct run *run);

/* A key was added, or renewed, by a call that began then. */
void window_note_add(struct run *run, uint64_t key, uint64_t began);

/* Ends a period, if one may end in this phase. */
void window_end_period(struct run *run);

/* Renews all keys that are in: they have just been added. */
void window_renew_all(struct run *run);

/* Ends so many periods, one after the other, and checks what is forgotten, and when. */
void window_end_periods(struct run *run, uint64_t periods);

/* Forgets everything; then there is room again for as many keys as ever. */
void window_forget_all(struct run *run);

#endif
