/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the extensions of C11 that the library needs from the compiler.
 */
#ifndef TAMIS_LIB_COMPILER_H
#define TAMIS_LIB_COMPILER_H

#include <limits.h> /* defines __GLIBC__, as every header of glibc does */
#include <stdbool.h>
#include <stdint.h>

/* Holds the product of two 64-bit words.  C11 has no type of 128 bits.  With __extension__, gcc and
 * clang accept this type even under -Wpedantic. */
__extension__ typedef unsigned __int128 uint128;

/* FORCE_INLINE marks a function that is always inlined, so that the compiler makes special code for
 * each constant argument, such as the shape of a Bloom filter.  Functions that get the constant
 * from such a function have the mark, too: clang inlines less than gcc does, and a real call would
 * copy the geometry.  Some builds do not force the compiler to inline.  Without optimisation,
 * constants save nothing.  With coverage or AddressSanitizer, more copies of a function would take
 * long to compile.  Tests that replay races, builds for ThreadSanitizer, and programs that want a
 * small library (script/amalgamate) define TAMIS_ONE_COPY. */
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
 * processes share.  TAMIS_READER also leaves out all functions except those that look keys up in
 * saved filters.  In a table of functions, each function that is left out is NULL. */
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

/* Makes a pointer in a filter's struct take eight bytes on every machine, so that the size of the
 * filter, and a plan that depends on this size, are the same everywhere. */
#define WIDE _Alignas(8)

/* Returns n, a shift count, in a whole register.  Without this, clang 14 loads a number that only
 * shifts use as a single byte, into a register that keeps its other bytes.  Such a load waits for
 * the register's old value, such as a word of the last look-up: look-ups took 1.6 times as long. */
FORCE_INLINE unsigned shift_count(unsigned n)
{
#ifdef __clang__
  if (!__builtin_constant_p(n))
    __asm__("" : "+r"(n));
#endif
  return n;
}

/* The upper half of a 128-bit product.  Without this, if a shift to the left follows, clang shifts
 * both halves, which takes several times as long as a shift of the upper half. */
FORCE_INLINE uint64_t upper_half(uint128 product)
{
  uint64_t upper = (uint64_t) (product >> 64);
#ifdef __clang__
  __asm__("" : "+r"(upper));
#endif
  return upper;
}

/* Returns false, for a search that returns from within its loop.  clang would merge a plain `return
 * false` with the return after the loop, and compute the result of both in one place: a look-up of
 * seven probes took 136 instructions instead of 99. */
FORCE_INLINE bool false_at_exit(void)
{
  bool result = false;
#ifdef __clang__
  __asm__("" : "+r"(result));
#endif
  return result;
}

/* Makes the compiler forget how the variable's value was computed.  Without this, gcc might compute
 * each of several steps from the first value, and would copy its register before each step. */
#define FORGET_ORIGIN(variable) __asm__("" : "+r"(variable))

/* For thread-local variables: with the initial-exec model, an access needs no function call.  But
 * the variable takes some of the space that glibc reserves in every thread for libraries loaded at
 * run time.  Other C libraries, such as musl, reserve none, and would then refuse this library. */
#ifdef __GLIBC__
#define DIRECT_TLS __attribute__((tls_model("initial-exec")))
#else
#define DIRECT_TLS
#endif

#endif
