/* SPDX-License-Identifier: MIT
 *
 * Layer 0: what the library asks of the compiler beyond C11.
 */
#ifndef TAMIS_LIB_COMPILER_H
#define TAMIS_LIB_COMPILER_H

#include <limits.h> /* with glibc, each of its headers defines __GLIBC__ */
#include <stdbool.h>
#include <stdint.h>

/* Holds the product of two 64-bit words.  C11 has no such type: __extension__ lets gcc and clang
 * accept it under -Wpedantic as well. */
__extension__ typedef unsigned __int128 uint128;

/* FORCE_INLINE: a function that is compiled separately for each constant argument, such as the
 * shape of a Bloom filter, or whether a cuckoo filter grows.  The function must never become a call
 * that takes the constant in a register.  The same holds for functions to which it passes the
 * constant: clang inlines less than gcc does, and a call would copy the geometry.  Some builds have
 * one copy of each function instead.  Without optimisation, there is nothing to gain from
 * constants.  Sanitizers and the counters of coverage make long code of each copy, which takes long
 * to compile, and one copy shows as much.  TAMIS_ONE_COPY asks for one copy where tests replay
 * races, for ThreadSanitizer, and where a program wants the library small (script/amalgamate). */
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

/* Builds in which the size of the code matters (js/).  TAMIS_COMPACT: one copy of each function for
 * all shapes, no batches, nothing that is for tests, and no filters that processes share.
 * TAMIS_READER, in addition: only the functions that look into saved filters.  The members of a
 * table that a build leaves out are NULL. */
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

/* Unrolls the next loop completely, if the number of its rounds is a constant of at most 8.  If
 * other callers of the same loop pass a variable, clang would warn that it cannot unroll it. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* For pointers in the structs of filters: they take eight bytes on every machine, so that a filter
 * and its plan have the same size everywhere. */
#define WIDE _Alignas(8)

/* A shift count, held in a whole register.  clang 14 would load a count that only shifts use as a
 * single byte, into a register whose other bytes remain.  So the load would wait for whatever the
 * register held before, such as a word of the previous look-up: look-ups took 1.6 times as long. */
FORCE_INLINE unsigned shift_count(unsigned n)
{
#ifdef __clang__
  if (!__builtin_constant_p(n))
    __asm__("" : "+r"(n));
#endif
  return n;
}

/* The upper half of a 128-bit product.  clang would merge a following shift to the left with the
 * product, into a shift of both halves, which takes several times as long as the shift of one. */
FORCE_INLINE uint64_t upper_half(uint128 product)
{
  uint64_t upper = (uint64_t) (product >> 64);
#ifdef __clang__
  __asm__("" : "+r"(upper));
#endif
  return upper;
}

/* `false`, as the result of a search that ends within its loop.  clang would merge that exit of the
 * loop with the other one, and compute the result after both: a look-up of seven probes took 136
 * instructions instead of 99. */
FORCE_INLINE bool false_at_exit(void)
{
  bool result = false;
#ifdef __clang__
  __asm__("" : "+r"(result));
#endif
  return result;
}

/* Makes the compiler go on from the variable's value, and forget the values from which it was
 * computed.  Otherwise gcc makes independent steps of a chain of steps that change one register,
 * and copies the register for each. */
#define FORGET_ORIGIN(variable) __asm__("" : "+r"(variable))

/* For thread-local variables: with the initial-exec model, an access needs no function call.  The
 * price is a part of the space that glibc reserves in every thread for libraries loaded at run
 * time.  Other C libraries, such as musl, reserve none, and would not load this library. */
#ifdef __GLIBC__
#define DIRECT_TLS __attribute__((tls_model("initial-exec")))
#else
#define DIRECT_TLS
#endif

#endif
