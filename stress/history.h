/* SPDX-License-Identifier: MIT
 *
 * Question: can these calls, which overlapped in time, have taken effect one after the other?
 *
 * A history is a record of the calls that several threads made on one key (or on keys that the
 * filter cannot tell apart): when each call was invoked, when it returned, and what it answered.
 * The history is linearizable if every call can be given an instant between its invocation and its
 * return, such that the answers are those of a sequential filter, in which a key is a number of
 * copies:
 *
 *    add           OK: adds a copy
 *    add_unique    OK: there was no copy, adds one            PRESENT: there was a copy
 *    contains      true: there was a copy                     false: there was none
 *    count         so many copies were there
 *    remove        OK: there was a copy, removes one          ABSENT: there was none
 *    a failure     no effect
 *
 * In a Bloom filter a key has one copy or none: further adds change nothing.
 *
 * In a filter with a window the copies have an *age*, too, which is 0 after an add:
 *
 *    advance       the age rises by one; beyond the window, no copy is left
 *    add_unique    PRESENT, if the window renews: there was a copy; at that instant or later, but
 *                  before the call returns, the age becomes 0, as after an add
 *
 * and an add belongs to any of the periods in which it runs.  So between the instant at which it
 * takes effect and its return, it may make the age 0 once more, if the key is still remembered.
 *
 * If the last period of a key ends while an add runs, or while a unique add runs that has found the
 * key and will renew it, that call may bring back all copies that have just been forgotten.  Until
 * then there are none.  It can do so only as long as nothing else has changed the copies, and
 * before the next period ends.
 *
 * The search goes through the invocations and returns in the order of time (Lowe, "Testing for
 * linearizability", 2017, "just in time"; after Wing and Gong, 1993).  It keeps every possible
 * *point*: a set of pending calls that have taken effect so far, and the copies then.  When a call
 * returns, each point without it is extended in every order that ends with it.  Two rules keep the
 * points few, without losing a valid order:
 *
 *    - A call that only reads takes effect as soon as it can: that restricts no other call.
 *    - Of pending calls with the same effect, the one that returns first takes effect first.  A
 *      valid order in which it does not stays valid when the two are swapped.
 *
 * So the search takes time linear in the length of the history.
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
  HISTORY_COUNT,
  HISTORY_ADVANCE, /* part of the history of every key */
  HISTORY_CALLS
};

/* A call ended before another one began exactly if its `returned` is less than the `invoked` of the
 * other one.  The calls of a batch all have the batch's interval, and so no order among them. */
struct history_op {
  uint64_t invoked, returned;
  uint16_t thread;
  uint8_t call;
  int32_t result; /* as the library returns it; of contains: 1 or 0 */
};

enum { HISTORY_MOST_PENDING = 64 }; /* at any time; with a window, adds count up to three times */

struct history {
  const struct history_op *ops; /* in any order */
  size_t n;
  uint64_t copies; /* before the first call; their age is 0 */
  bool once;       /* a key has one copy at most, however often it is added */
  unsigned window; /* 0: there is none */
  bool renews;     /* so do unique adds that find the key */
};

/* The numbers of copies that the calls so far allow. */
struct history_copies {
  uint64_t least, most;
};

struct history_verdict {
  bool good;
  const char *why;              /* not NULL: the history was not judged, and is not good */
  size_t stuck;                 /* the call that no order explains */
  struct history_copies copies; /* when that call returned, or in the end */
  size_t overlapping;           /* calls that were invoked while another one was pending */
};

/* The memory of the search.  Threads do not share a checker. */
struct history_checker;

struct history_checker *history_checker_create(void); /* NULL: no memory */
void history_checker_destroy(struct history_checker *checker);

struct history_verdict history_check(struct history_checker *checker, const struct history *h);

/* Prints the calls around the one that no order explains, as bars over time. */
void history_explain(FILE *out, struct history_checker *checker, const struct history *h);

#endif
