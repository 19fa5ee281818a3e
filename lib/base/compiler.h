/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the extensions of C11 that the library needs from the compiler.
 */
#ifndef TAMIS_LIB_COMPILER_H
#define TAMIS_LIB_COMPILER_H

#include <limits.h> /* in glibc, every header defines __GLIBC__ */
#include <stdbool.h>
#include <stdint.h>

/* Holds the product of two 64-bit words.  C11 has no type of 128 bits.  With __extension__, gcc and
 * clang accept this type even under -Wpedantic. */
__extension__ typedef unsigned __int128 uint128;

/* FORCE_INLINE marks a function that is always inlined.  So the compiler makes special code for
 * each constant argument, such as the shape of a Bloom filter.  The functions to which the marked
 * function passes the constant are marked, too.  Otherwise clang, which inlines less than gcc does,
 * might call them, and copy the geometry's struct.  Some builds force nothing: without
 * optimisation, constants save nothing; with coverage or AddressSanitizer, the copies of a function
 * take long to compile.  TAMIS_ONE_COPY is defined by tests that replay races, by builds for
 * ThreadSanitizer, and by programs that want a small library (script/amalgamate). */
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

/* SMALL(usual, small) is `usual`, for instance a size or a limit.  In a build for tests, which
 * defines TAMIS_SMALL, it is `small`.  So events that usually need millions of keys, or 2^32 changes
 * of one bucket, happen within seconds.  The filter still keeps all promises of the public header. */
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

/* For builds in which the size of the code matters (js/).  With TAMIS_COMPACT, one copy of each
 * function serves all shapes.  Batches, code that is only for tests, and filters shared by
 * processes are left out.  With TAMIS_READER, only functions that look keys up in saved filters
 * remain.  In a table of functions, NULL stands for each function that is left out. */
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

/* For a rarely called function, which would take registers from a hot caller if it were inlined. */
#define NEVER_INLINE __attribute__((noinline))

/* Unrolls the next loop completely, if the number of its rounds is a constant of at most 8.  The
 * first pragma turns off clang's warning about a loop whose number of rounds is variable. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Makes a pointer in a filter's struct take eight bytes on every machine, so that filters have the
 * same sizes everywhere, and the same geometries, which depend on the sizes. */
#define WIDE _Alignas(8)

/* Returns n, a shift count, in a whole register.  Without this function, look-ups took 1.6 times as
 * long: clang 14 loads only the byte of n that shifts use.  The other bytes of the register stay,
 * so the load waits for the register's old value, such as a word of the last look-up. */
FORCE_INLINE unsigned shift_count(unsigned n)
{
#ifdef __clang__
  if (!__builtin_constant_p(n))
    __asm__("" : "+r"(n));
#endif
  return n;
}

/* The upper half of a 128-bit product.  Without this function, if a caller shifts the half to the
 * left, clang shifts both halves, which takes several times as long as a shift of one. */
FORCE_INLINE uint64_t upper_half(uint128 product)
{
  uint64_t upper = (uint64_t) (product >> 64);
#ifdef __clang__
  __asm__("" : "+r"(upper));
#endif
  return upper;
}

/* Returns false.  A search uses this function to return from within its loop.  clang would merge a
 * plain `return false` with the return after the loop, and compute both results in one place.  A
 * look-up of seven probes then took 136 instructions instead of 99. */
FORCE_INLINE bool false_at_exit(void)
{
  bool result = false;
#ifdef __clang__
  __asm__("" : "+r"(result));
#endif
  return result;
}

/* Hides from the compiler how the variable's value was computed.  Otherwise gcc might compute each
 * later value of the variable from its first value, and copy the first value each time. */
#define FORGET_ORIGIN(variable) __asm__("" : "+r"(variable))

/* Prefetches a cache line.  `to_write`: also asks the other cores to give up their copies, so that
 * the caller's first write to the line need not wait for them. */
FORCE_INLINE void prefetch_line(const void *line, bool to_write)
{
  if (!to_write)
    __builtin_prefetch(line, 0);
  else {
#ifdef __x86_64__
    /* Compilers use this instruction only if an option names a processor that has it.  Intel's
     * processors from 2006 to 2014 execute it as a no-op. */
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *) line));
#else
    __builtin_prefetch(line, 1);
#endif
  }
}

/* For a thread-local variable: with the initial-exec model, an access needs no function call.  The
 * model takes space that glibc reserves in every thread for libraries loaded at run time.  Other C
 * libraries, such as musl, reserve no such space, and would refuse to load this library. */
#ifdef __GLIBC__
#define DIRECT_TLS __attribute__((tls_model("initial-exec")))
#else
#define DIRECT_TLS
#endif

#endif
