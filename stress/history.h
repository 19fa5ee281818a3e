/* SPDX-License-Identifier: MIT
 *
 * Question: can these calls, which overlapped in time, have taken effect one after the other?
 *
 * A history is what several threads called on one key (or on keys that the filter cannot tell apart):
 * for each call when it was invoked, when it returned, and what it answered.  It is linearizable if
 * every call can be given an instant between the two, so that the answers are those that one thread
 * would get from a plain number of copies:
 *
 *    add           OK: one copy more
 *    add_unique    OK: there was none, now there is one       PRESENT: there was one
 *    contains      true: there was one                        false: there was none
 *    remove        OK: there was one, now one less            ABSENT: there was none
 *    any failure   nothing
 *
 * (In a Bloom filter further adds of a key change nothing.  As nothing is removed there either, only
 * none or some matters, and the same number will do.)
 *
 * The search goes through the calls and returns in the order of time (Lowe, "Testing for
 * linearizability", 2017, "just in time"; after Wing and Gong, 1993).  It keeps all sets of pending
 * calls that may have taken effect so far; the number of copies follows from the set.  When a call
 * returns, each set without it is extended in all orders that end with it.  Two things keep the sets
 * few, without losing any answer:
 *
 *    - A call that only looks takes effect as soon as it can: that takes nothing from the others.
 *    - Of pending calls that do the same the one that returns first goes first: if a good order has
 *      them the other way round, they can change places.
 *
 * So the time is linear in the length of the history.
 */
#ifndef TAMIS_STRESS_HISTORY_H
#define TAMIS_STRESS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum history_call {
  HISTORY_ADD,
  HISTORY_ADD_UNIQUE,
  HISTORY_CONTAINS,
  HISTORY_REMOVE,
  HISTORY_CALLS
};

/* A call was over before another one began exactly if its `returned` is less than the other's
 * `invoked`.  The calls of a batch have one interval, and no order among themselves. */
struct history_op {
  uint64_t invoked, returned;
  uint16_t thread;
  uint8_t call;
  int8_t result; /* of the library; contains: 1 or 0 */
};

enum { HISTORY_MOST_PENDING = 64 }; /* at any time */

struct history {
  const struct history_op *ops; /* in any order */
  size_t n;
  uint64_t copies; /* before the first */
};

/* From least to most copies may be there, as far as the calls so far say. */
struct history_copies {
  uint64_t least, most;
};

struct history_verdict {
  bool good;
  const char *why;              /* not NULL: the history was not judged, and is not good */
  size_t stuck;                 /* the call that cannot have taken effect, when it returned */
  struct history_copies copies; /* at that point */
  size_t overlapping;           /* calls that were invoked while another one was pending */
  size_t most_sets;             /* the search's largest number of sets */
};

/* The search's memory; each thread that checks has one. */
struct history_checker;

struct history_checker *history_checker_create(void); /* NULL: no memory */
void history_checker_destroy(struct history_checker *checker);

struct history_verdict history_check(struct history_checker *checker, const struct history *h);

/* The copies that there are after a history that is good. */
uint64_t history_copies_after(const struct history *h);

/* A picture of the calls around the one where the search got stuck. */
void history_explain(FILE *out, struct history_checker *checker, const struct history *h);

#endif
