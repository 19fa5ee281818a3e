/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the extensions of C11 that the library needs from the compiler.
 */
#ifndef TAMIS_LIB_COMPILER_H
#define TAMIS_LIB_COMPILER_H

#include <limits.h> /* each header of glibc defines __GLIBC__ */
#include <stdbool.h>
#include <stdint.h>

/* Holds the product of two 64-bit words.  C11 has no type of 128 bits.  __extension__ lets gcc and
 * clang accept this one even under -Wpedantic. */
__extension__ typedef unsigned __int128 uint128;

/* FORCE_INLINE marks a function that is always inlined, so that the compiler makes special code for
 * each constant argument, such as the shape of a Bloom filter.  The functions to which it passes
 * the constant have the mark, too: clang inlines less than gcc does, and a call would copy the
 * geometry.  In some builds each function has only one copy.  Without optimisation, constants save
 * nothing.  Sanitizers and coverage make each copy long and slow to compile, and one copy is
 * enough for them.  TAMIS_ONE_COPY asks for one copy in tests that replay races, for
 * ThreadSanitizer, and in programs that want a small library (script/amalgamate). */
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

/* For builds in which the size of the code matters (js/).  TAMIS_COMPACT makes one copy of each
 * function for all shapes.  It leaves out batches, code that is only for tests, and filters that
 * processes share.  TAMIS_READER also leaves out all functions but those that look into saved
 * filters.  In a table of functions, each function that is left out is NULL. */
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

/* Unrolls the next loop completely, if the number of its rounds is a constant of at most 8.
 * Without the first pragma, clang would warn where a caller passes a variable number. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* For a pointer in a struct of a filter: it takes eight bytes on every machine, so that the size of
 * a filter, and a plan that depends on this size, are the same everywhere. */
#define WIDE _Alignas(8)

/* A shift count, held in a whole register.  clang 14 would load a count that only shifts use as a
 * single byte, into a register whose other bytes remain.  So the load would wait for the register's
 * earlier value, such as a word of the previous look-up: look-ups took 1.6 times as long. */
FORCE_INLINE unsigned shift_count(unsigned n)
{
#ifdef __clang__
  if (!__builtin_constant_p(n))
    __asm__("" : "+r"(n));
#endif
  return n;
}

/* The upper half of a 128-bit product.  If a shift to the left follows, clang would make it a shift
 * of both halves, which takes several times as long as a shift of the upper half. */
FORCE_INLINE uint64_t upper_half(uint128 product)
{
  uint64_t upper = (uint64_t) (product >> 64);
#ifdef __clang__
  __asm__("" : "+r"(upper));
#endif
  return upper;
}

/* Returns false, for a search that returns from within its loop.  clang would merge this return
 * with the one after the loop, and compute the result after both: a look-up of seven probes took
 * 136 instructions instead of 99. */
FORCE_INLINE bool false_at_exit(void)
{
  bool result = false;
#ifdef __clang__
  __asm__("" : "+r"(result));
#endif
  return result;
}

/* Makes the compiler forget how the variable's value was computed.  gcc could otherwise compute each
 * of several steps from the first value, for which it would have to copy the register each time. */
#define FORGET_ORIGIN(variable) __asm__("" : "+r"(variable))

/* For thread-local variables: with the initial-exec model, an access needs no function call.  The
 * price is a part of the space that glibc reserves in every thread for libraries loaded at run
 * time.  Other C libraries, such as musl, reserve no space, and would not load this library. */
#ifdef __GLIBC__
#define DIRECT_TLS __attribute__((tls_model("initial-exec")))
#else
#define DIRECT_TLS
#endif

#endif
