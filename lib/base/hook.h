/* SPDX-License-Identifier: MIT
 *
 * Layer 1: hooks, named points between the steps of a concurrent algorithm, at which tests stop
 * threads to replay one schedule exactly.  In a release, HOOK() does nothing.
 */
#ifndef TAMIS_LIB_HOOK_H
#define TAMIS_LIB_HOOK_H

#ifdef TAMIS_HOOKS
#include <stdatomic.h>

/* A test sets this variable before its threads start.  Each hook then calls the function with the
 * hook's name.  Weak: each file that includes this header defines the variable. */
__attribute__((weak)) void (*_Atomic tamis__hook)(const char *name);

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
