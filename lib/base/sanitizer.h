/* SPDX-License-Identifier: MIT
 *
 * Layer 1: tells ThreadSanitizer of synchronization that it cannot see.  ConcurrencyKit's atomics
 * are assembly, and liburcu has no annotations.  Code that calls these libraries describes each
 * step by TSAN(call), which does nothing in other builds.  No report is suppressed.
 */
#ifndef TAMIS_LIB_SANITIZER_H
#define TAMIS_LIB_SANITIZER_H

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TAMIS_TSAN 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define TAMIS_TSAN 1
#endif

#ifdef TAMIS_TSAN
#include <sanitizer/tsan_interface.h>
#define TSAN(call) call
#else
#define TSAN(call) ((void) 0)
#endif

#endif
