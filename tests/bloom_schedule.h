/* SPDX-License-Identifier: MIT
 *
 * Races between the steps of the Bloom filter, each replayed exactly: what the programs
 * test_bloom_schedule*.c share.  Built with the hooks.
 */
#ifndef TAMIS_TESTS_BLOOM_SCHEDULE_H
#define TAMIS_TESTS_BLOOM_SCHEDULE_H

#include "unit.h"

#include "base/hook.h"
#include "bloom/bloom.h"
#include "filter_unit.h"
#include "schedule.h"

#include <pthread.h>

/* A call in a thread of its own: a union if `from` is not NULL; else `function`, or a unique add if
 * that is NULL. */
struct call {
  tamis_filter *filter;
  uint64_t hash;
  int (*function)(tamis_filter *, uint64_t);
  tamis_filter *from;
  int result;
  pthread_t thread;
};

static inline void *make_call(void *arg)
{
  struct call *call = arg;
  call->result = call->from       ? tamis_merge(call->filter, call->from)
                 : call->function ? call->function(call->filter, call->hash)
                                  : tamis_add_unique_hash(call->filter, call->hash);
  HOOK(call_returned);
  return NULL;
}

static inline void start(struct call *call)
{
  assert_int_equal(pthread_create(&call->thread, NULL, make_call, call), 0);
}

static inline void finish(struct call *call)
{
  assert_int_equal(pthread_join(call->thread, NULL), 0);
}

/* Starts a call, lets it come to a hook, and stops it there. */
static inline void stop_at(struct call *call, const char *hook)
{
  schedule_stop_at(hook);
  start(call);
  schedule_wait(hook, 1);
  schedule_pass_by();
}

static inline void go_on(struct call *call)
{
  schedule_go();
  finish(call);
}

#endif
