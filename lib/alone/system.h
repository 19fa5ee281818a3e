/* SPDX-License-Identifier: MIT
 *
 * Layer 1: replaces headers on a machine that has memory, a clock and random bytes, but no threads,
 * processes or files, such as WebAssembly.
 *
 * Like layer1.h, this header defines the include guards of the headers that it replaces.
 */
#ifndef TAMIS_LIB_ALONE_SYSTEM_H
#define TAMIS_LIB_ALONE_SYSTEM_H

#include "tamis/tamis.h"

#include <sched.h>
#include <unistd.h>

#define sched_getcpu() 0 /* for core_counter.h */

/* ---- cancel.h ---- */

#define TAMIS_LIB_CANCEL_H

#define cancellation_disable() 0
#define cancellation_restore(before) ((void) (before))
#define UNCANCELLED(call) (call)

/* ---- random.h ---- */

#define TAMIS_LIB_RANDOM_H

static inline bool random_bytes(void *to, size_t size)
{
  return getentropy(to, size) == 0;
}

#endif
