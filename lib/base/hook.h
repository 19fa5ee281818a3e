/* SPDX-License-Identifier: MIT
 *
 * Layer 1: hooks, named points between the steps of a concurrent algorithm.
 *
 * A test stops threads at hooks to replay one schedule exactly.  In a release, HOOK() does nothing.
 */
#ifndef TAMIS_LIB_HOOK_H
#define TAMIS_LIB_HOOK_H

#ifdef TAMIS_HOOKS
#include <stdatomic.h>

/* Set by a test before its threads start.  It is called with the name of the hook. */
extern void (*_Atomic tamis__hook)(const char *name);

static inline void hook(const char *name)
{
  void (*call)(const char *) = atomic_load_explicit(&tamis__hook, memory_order_acquire);
  if (call)
    call(name);
}
#define HOOK(name) hook(#name)
#else
#define HOOK(name) ((void) 0)
#endif

#endif
