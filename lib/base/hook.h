/* SPDX-License-Identifier: MIT
 *
 * Layer 1: hooks, which are named points between the steps of a concurrent algorithm.  A test can stop
 * threads there and so replay one schedule exactly.  Nothing is left of them in a release.
 */
#ifndef TAMIS_LIB_HOOK_H
#define TAMIS_LIB_HOOK_H

#ifdef TAMIS_HOOKS
#include <stdatomic.h>

/* Set by a test before its threads start; called with the name of the point that was reached. */
extern void (*_Atomic tamis__hook)(const char *point);

static inline void hook(const char *point)
{
  void (*call)(const char *) = atomic_load_explicit(&tamis__hook, memory_order_acquire);
  if (call)
    call(point);
}
#define HOOK(point) hook(#point)
#else
#define HOOK(point) ((void) 0)
#endif

#endif
