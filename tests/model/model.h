/* SPDX-License-Identifier: MIT
 *
 * What the parts of the model checker know of each other:
 *
 *    shapes_*.c            small situations in which calls meet
 *    calls.c               makes the calls, and says whether their answers have an order
 *    fixture.c             the filter and the keys that they share
 *    test_model.c          the program: which shape, which search
 *    world.cpp             their world: relacy's memory model beneath the library's code
 *    instrumentation.cpp   what the compiler calls for each access of the library
 *
 * docs/internals/model.md says how it works.
 */
#ifndef TAMIS_TESTS_MODEL_H
#define TAMIS_TESTS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MODEL_MAX_THREADS = 4 };

enum model_search { MODEL_FULL, MODEL_BOUND, MODEL_RANDOM, MODEL_NEVER };

struct model_effort {
  enum model_search search;
  unsigned bound;      /* MODEL_BOUND: preemptions in an execution */
  uint64_t executions; /* MODEL_RANDOM: how many; otherwise at most this many, 0 for all */
};

/* Threads make calls, which a bar separates: "add x; has y | remove? y" (calls.c has their names).  When
 * they have ended, the filter is valid, the keys that no call names are there, and some order of the calls
 * explains their answers and what the filter holds.  A call with ? may be refused. */
struct shape {
  const char *name;
  const char *question;
  void (*set_up)(void); /* once, before the search; every execution begins with what it left */
  const char *calls;
  struct model_effort effort; /* all executions, if nothing is said; so is acq_rel */
  /* The search with acquire and release in place of seq_cst.  The model's seq_cst loads never
   * see an old value, which hides what the weaker orders are for.  So every shape that does not
   * depend on the one order of all seq_cst accesses is searched in this way too. */
  struct model_effort acq_rel;
  const char *(*also)(void); /* what must hold besides: NULL, or what is wrong */
  /* The same in place of an order: each call without ? has succeeded. */
  const char *(*instead)(void);
  bool grace;     /* one thread more waits for grace periods */
  const void *of; /* what set_up() needs: model_set_up_of() */
};

/* calls.c: sets a shape up; returns the number of threads. */
unsigned model_begin(const struct shape *shape);

const void *model_set_up_of(void);

/* What a thread does. */
void model_run(unsigned thread);

/* When all threads have ended: NULL, or what is wrong. */
const char *model_judge(void);

struct model_report {
  bool good;
  bool exhaustive; /* all executions, of those that the search is about */
  uint64_t executions;
  uint64_t with_release; /* of memory, in how many of them */
};

/* Set up and searched.  If it is not good, the execution that shows it has been printed. */
struct model_report model_check(const struct shape *shape, const struct model_effort *effort,
                                bool acq_rel);

/* Within run(): this execution is wrong. */
void model_fail(const char *reason);

/* Memory of the world: never given out twice, so that an access to what was released is seen. */
void *model_allocate(void *context, size_t alignment, size_t size);
void model_release(void *context, void *block, size_t alignment, size_t size);

/* In a set-up: what the thread of reclaim.c would do now. */
void model_wait_for_readers(void);

/* reclaim.c: what it keeps between calls is as at the start of the program. */
void model_reset_reclaim(void);

/* counted.c: readers, which another thread waits for.  The last two are calls of shapes. */
void model_counted_set_up(void);
int model_counted_read(uint64_t unused), model_counted_replace(uint64_t unused);

/* In a set-up: a word of the world on which nothing depends.  Threads are not switched where it is
 * read or written. */
void model_mark_figure(const void *address);

/* The offset of the count of entries in a stripe, on which nothing depends. */
extern const size_t model_stripe_used;

#ifdef __cplusplus
}
#endif

#endif
