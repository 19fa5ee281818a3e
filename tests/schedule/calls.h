/* SPDX-License-Identifier: MIT
 *
 * Calls in threads of their own, which stop at a hook while the test makes other calls: what all
 * programs share that replay races.  Built with the hooks.
 *
 *     struct call a = {.filter = f, .hash = 7, .function = tamis_add_hash};
 *     stop_at(&a, "bloom_word_set");      it has begun, and stands there
 *     ...                                 calls of the test, which stop nowhere
 *     assert_int_equal(go_on(&a), TAMIS_OK);
 */
#ifndef TAMIS_TESTS_CALLS_H
#define TAMIS_TESTS_CALLS_H

#include "unit.h"

#include "base/hook.h"
#include "base/reclaim.h"
#include "schedule.h"

struct call {
  tamis_filter *filter;
  uint64_t hash;
  /* What is called: one of these, or a union if there is `from`; none of the three:
   * tamis_add_unique_hash(). */
  int (*function)(tamis_filter *filter, uint64_t hash);
  int (*whole)(
      struct call *call); /* a call on whole filters; it finds what it needs in `context` */
  tamis_filter *from;
  void *context;
  int result;
  pthread_t thread;
};

/* tamis_contains_hash() and tamis_advance(), as functions of a call. */
static inline int call_contains(tamis_filter *f, uint64_t hash)
{
  return tamis_contains_hash(f, hash);
}

static inline int call_advance(tamis_filter *f, uint64_t unused)
{
  (void) unused;
  return tamis_advance(f);
}

static inline void *make_call(void *arg)
{
  struct call *call = arg;
  reader_leave(reader_enter()); /* the thread is registered: its next call takes the fast path */
  call->result = call->whole      ? call->whole(call)
                 : call->from     ? tamis_merge(call->filter, call->from)
                 : call->function ? call->function(call->filter, call->hash)
                                  : tamis_add_unique_hash(call->filter, call->hash);
  HOOK(call_returned);
  return NULL;
}

/* With a small stack, which costs little in a program that starts thousands of calls. */
static inline void start(struct call *call)
{
  pthread_attr_t attributes;
  assert_int_equal(pthread_attr_init(&attributes), 0);
  assert_int_equal(pthread_attr_setstacksize(&attributes, 1 << 18), 0);
  assert_int_equal(pthread_create(&call->thread, &attributes, make_call, call), 0);
  assert_int_equal(pthread_attr_destroy(&attributes), 0);
}

static inline int finish(struct call *call)
{
  assert_int_equal(pthread_join(call->thread, NULL), 0);
  return call->result;
}

/* Starts a call, and waits until it stands at the hook. */
static inline void start_and_stop(struct call *call, const char *hook)
{
  schedule_stop_at(hook);
  start(call);
  schedule_wait_either(hook, 1, "call_returned", 1);
  if (!schedule_reached(hook))
    fail_msg("the call returns without coming to %s", hook);
}

/* The same; the test's own calls stop nowhere from now on. */
static inline void stop_at(struct call *call, const char *hook)
{
  start_and_stop(call, hook);
  schedule_pass_by();
}

/* Starts a call beside one that stands at a hook, and waits until it has returned, or waits for a
 * stripe. */
static inline void start_beside(struct call *call)
{
  start(call);
  schedule_wait_either("stripe_wait", 1, "call_returned", 1);
}

/* Lets the call that stands at a hook go on to its end. */
static inline int go_on(struct call *call)
{
  schedule_go();
  return finish(call);
}

#endif
