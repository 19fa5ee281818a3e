/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the extensions of C11 that the library needs from the compiler.
 */
#ifndef TAMIS_LIB_COMPILER_H
#define TAMIS_LIB_COMPILER_H

#include <limits.h> /* with glibc, defines __GLIBC__ */
#include <stdbool.h>
#include <stdint.h>

/* With __extension__, gcc and clang accept this type even under -Wpedantic. */
__extension__ typedef unsigned __int128 uint128;

/* Compilers always inline FORCE_INLINE functions, and so make special code for each constant
 * argument, such as the shape of a Bloom filter.  A function that passes on such an argument must
 * be FORCE_INLINE, too: clang might otherwise not inline it, and copy the struct that it passes on.
 * Some builds force nothing: those without optimisation, because constants save nothing there;
 * those with coverage or AddressSanitizer, which would take long to compile; and those that define
 * TAMIS_ONE_COPY: programs that want a small library (script/amalgamate), tests that replay races,
 * and builds with ThreadSanitizer. */
#if defined(__has_feature)
#define HAS_FEATURE(feature) __has_feature(feature)
#else
#define HAS_FEATURE(feature) 0
#endif
#if defined(__OPTIMIZE__) && !defined(TAMIS_COVERAGE) && !defined(TAMIS_ONE_COPY) && \
    !defined(TAMIS_COMPACT) && !defined(__SANITIZE_ADDRESS__) && !HAS_FEATURE(address_sanitizer)
#define FORCE_INLINE static inline __attribute__((always_inline))
#else
#define FORCE_INLINE static inline
#endif

/* SMALL(usual, small) is `usual`, but `small` in a build for tests, which defines TAMIS_SMALL.
 * With small sizes and limits, events that usually need millions of keys, or 2^32 changes of one
 * bucket, happen within seconds.  The filter still keeps all promises of the public header. */
#ifdef TAMIS_SMALL
#define SMALL(usual, small) (small)
#else
#define SMALL(usual, small) (usual)
#endif

/* TSAN(call) tells ThreadSanitizer of synchronization that it cannot see: the atomics of
 * ConcurrencyKit are assembly, and liburcu has no annotations.  No report is suppressed. */
#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
#define TAMIS_TSAN 1
#include <sanitizer/tsan_interface.h>
#define TSAN(call) call
#else
#define TSAN(call) ((void) 0)
#endif

/* A build with TAMIS_COMPACT has less code (js/): one copy of each function serves all shapes of
 * filters, and batches, code for tests, and filters shared by processes are left out.  With
 * TAMIS_READER, only look-ups in saved filters remain.  NULL stands for what is left out. */
#ifdef TAMIS_COMPACT
#define NOT_COMPACT(function) NULL
#else
#define NOT_COMPACT(function) (function)
#endif
#ifdef TAMIS_READER
#define NOT_IN_READER(function) NULL
#else
#define NOT_IN_READER(function) (function)
#endif

/* For a function that is rarely called: inlined, it would take registers from its hot caller. */
#define NEVER_INLINE __attribute__((noinline))

/* Unrolls the next loop completely, if the number of its rounds is a constant of at most 8. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Makes a pointer in a filter's struct take eight bytes on every machine, so that filters have the
 * same sizes everywhere.  Geometries are computed from these sizes. */
#define WIDE _Alignas(8)

/* Returns n, a shift count, in a whole register.  Otherwise clang 14 loads only the lowest byte of
 * n, and the load waits for the register's old value: look-ups took 1.6 times as long. */
FORCE_INLINE unsigned shift_count(unsigned n)
{
#ifdef __clang__
  if (!__builtin_constant_p(n))
    __asm__("" : "+r"(n));
#endif
  return n;
}

/* Returns the upper half of a 128-bit product.  Without the assembler line, clang would shift both
 * halves where a caller shifts the upper half, which takes several times as long. */
FORCE_INLINE uint64_t upper_half(uint128 product)
{
  uint64_t upper = (uint64_t) (product >> 64);
#ifdef __clang__
  __asm__("" : "+r"(upper));
#endif
  return upper;
}

/* Returns false, for a return from within the loop of a search.  clang would merge a plain `return
 * false` with the return after the loop, and compute both results in one place: a look-up of seven
 * probes then took 136 instructions instead of 99. */
FORCE_INLINE bool false_at_exit(void)
{
  bool result = false;
#ifdef __clang__
  __asm__("" : "+r"(result));
#endif
  return result;
}

/* Hides from the compiler how the variable's value was computed.  Otherwise gcc might keep a copy
 * of the variable's first value, and compute each later value from the copy. */
#define FORGET_ORIGIN(variable) __asm__("" : "+r"(variable))

/* Prefetches a cache line.  `to_write`: also asks the other cores to give up their copies of the
 * line, so that the caller's first write need not wait for them. */
FORCE_INLINE void prefetch_line(const void *line, bool to_write)
{
  if (!to_write)
    __builtin_prefetch(line, 0);
  else {
#ifdef __x86_64__
    /* Compilers use prefetchw only for named processors.  It is a no-op on older processors. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *) line));
#else
    __builtin_prefetch(line, 1);
#endif
  }
}

/* Gives a thread-local variable the initial-exec model, so that an access needs no function call.
 * Only glibc reserves space for such variables of libraries that are loaded at run time: with musl,
 * for instance, this library could not be loaded. */
#ifdef __GLIBC__
#define DIRECT_TLS __attribute__((tls_model("initial-exec")))
#else
#define DIRECT_TLS
#endif

#endif
