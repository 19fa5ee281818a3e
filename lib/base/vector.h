/* SPDX-License-Identifier: MIT
 *
 * Layer 0: arithmetic for eight keys of a batch of look-ups at a time, by AVX-512.
 *
 * No vector instruction reads memory that other threads may change.  A batch makes the same atomic
 * loads in the same order as the portable code, so the ORDER comments of these loads hold.  After
 * the loads, a vector gets one word of each of eight keys.
 *
 * An instruction that gathers eight words would load "in any order" (Intel, Software Developer's
 * Manual, volume 2, VPGATHERQQ).  If a batch looked one key up twice while another thread adds the
 * key, the first look-up could find the key and the second miss it.
 */
#ifndef TAMIS_LIB_VECTOR_H
#define TAMIS_LIB_VECTOR_H

#include "base/compiler.h"
#include "base/hash.h"

enum { VECTOR_LANES = 8 };

#if defined(__x86_64__) && !defined(TAMIS_HOOKS) && !defined(TAMIS_SANITIZED)

#define TAMIS_VECTORS 1
#include <immintrin.h>

/* For functions whose callers check vectors_usable(). */
#define VECTOR_CODE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

/* Eight numbers, one in each lane.  The operators of C work on each lane. */
typedef uint64_t vector __attribute__((vector_size(64)));

/* A set of lanes: bit i is set if lane i is in the set. */
typedef unsigned vector_lanes;

static inline bool vectors_usable(void)
{
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/* ---- vectors from numbers ---- */

VECTOR_CODE FORCE_INLINE vector vector_of(uint64_t x)
{
  return (vector) _mm512_set1_epi64((long long) x);
}

/* Takes the numbers from registers: a load from memory would wait until all are stored. */
VECTOR_CODE FORCE_INLINE vector vector_from(const uint64_t x[VECTOR_LANES])
{
  return (vector){x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]};
}

/* Returns the set of the first n lanes, or of all lanes if n exceeds their number. */
FORCE_INLINE vector_lanes vector_first_lanes(size_t n)
{
  return n < VECTOR_LANES ? (1U << n) - 1 : (1U << VECTOR_LANES) - 1;
}

/* Loads the first n numbers, at most eight.  Unused lanes get the first number. */
VECTOR_CODE FORCE_INLINE vector vector_load(const uint64_t *from, size_t n)
{
  return (vector) _mm512_mask_loadu_epi64(_mm512_set1_epi64((long long) from[0]),
                                          (__mmask8) vector_first_lanes(n), from);
}

/* ---- arithmetic ---- */

VECTOR_CODE FORCE_INLINE vector vector_upper_half(vector a, uint64_t b)
{
  const __m512i low = (__m512i) vector_of(b & UINT32_MAX), high = (__m512i) vector_of(b >> 32);
  /* _mm512_mul_epu32() ignores bits 32 to 63 of each lane. */
  const __m512i a_low = (__m512i) a, a_high = (__m512i) (a >> 32);
  vector low_low = (vector) _mm512_mul_epu32(a_low, low);
  vector low_high = (vector) _mm512_mul_epu32(a_low, high);
  vector high_low = (vector) _mm512_mul_epu32(a_high, low);
  vector high_high = (vector) _mm512_mul_epu32(a_high, high);
  /* No overflow: this sum is at most (2^32 - 1)^2 + 2 (2^32 - 1) = 2^64 - 1. */
  vector middle = high_low + (low_high & vector_of(UINT32_MAX)) + (low_low >> 32);
  return high_high + (low_high >> 32) + (middle >> 32);
}

VECTOR_CODE FORCE_INLINE vector vector_rotate_right(vector x, vector by)
{
  return (vector) _mm512_rorv_epi64((__m512i) x, (__m512i) by);
}

VECTOR_CODE FORCE_INLINE vector vector_rotate_left(vector x, vector by)
{
  return (vector) _mm512_rolv_epi64((__m512i) x, (__m512i) by);
}

/* hash_mix() in each lane. */
VECTOR_CODE FORCE_INLINE vector vector_mix(const struct hash_keys *keys, vector hash)
{
  vector x = hash ^ vector_of(keys->mix[0]);
  return (vector_upper_half(x, HASH_FOLD_MULTIPLIER) ^ x * vector_of(HASH_FOLD_MULTIPLIER)) +
         vector_of(keys->mix[1]);
}

/* hash_spread() in each lane. */
VECTOR_CODE FORCE_INLINE vector vector_spread(vector x)
{
  return (x ^ x >> 32) * vector_of(HASH_MULTIPLIER);
}

/* ---- lanes ---- */

VECTOR_CODE FORCE_INLINE vector_lanes vector_zero_lanes(vector x)
{
  return _mm512_testn_epi64_mask((__m512i) x, (__m512i) x);
}

VECTOR_CODE FORCE_INLINE vector vector_replace(vector x, vector_lanes lanes, uint64_t number)
{
  return (vector) _mm512_mask_set1_epi64((__m512i) x, (__mmask8) lanes, (long long) number);
}

/* For each of n keys, at most eight, sets found[i] to whether lane i is in the set `in`.  Returns
 * how many of the n lanes are in the set.  `found` may be NULL. */
VECTOR_CODE FORCE_INLINE size_t vector_found(vector_lanes in, size_t n, bool *found)
{
  const vector_lanes asked = vector_first_lanes(n);
  if (found)
    _mm_mask_storeu_epi8(found, (__mmask16) asked, _mm_maskz_set1_epi8((__mmask16) in, true));
  return (size_t) __builtin_popcount(in & asked);
}

#else

static inline bool vectors_usable(void)
{
  return false;
}

#endif

#endif
