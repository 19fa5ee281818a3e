/* SPDX-License-Identifier: MIT
 *
 * Layer 1: named places between the steps of a concurrent algorithm, at which a test can stop a
 * thread and so replay one schedule exactly.  Nothing is left of them in a release.
 */
#ifndef TAMIS_LIB_HOOK_H
#define TAMIS_LIB_HOOK_H

#ifdef TAMIS_HOOKS
#include <stdatomic.h>

/* Set by a test before its threads start; called with the name of the place that was reached. */
extern void (*_Atomic tamis__hook)(const char *place);

static inline void hook(const char *place)
{
  void (*call)(const char *) = atomic_load_explicit(&tamis__hook, memory_order_acquire);
  if (call)
    call(place);
}
#define HOOK(place) hook(#place)
#else
#define HOOK(place) ((void) 0)
#endif

#endif
