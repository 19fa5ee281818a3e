/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the 64-bit words that threads share.  Every access to one goes through this file, so
 * that a checker can put its own atomics underneath.
 */
#ifndef TAMIS_LIB_WORD_H
#define TAMIS_LIB_WORD_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t word;

/* ORDER bit.look (seq_cst)
 *   pairs with     bit.set in word_or(), word.put in word_store()
 *   makes visible  all that the setter did before: a key that is found was added, and so was
 *                  whatever its adder published first
 *   if weakened    acquire would keep that, but two readers on a machine without multi-copy
 *                  atomicity could see two adds in opposite orders: not linearizable.  On x86-64
 *                  and on ARMv8 the stronger load is the same instruction
 *   checked by     negative/plain_store (that the access is atomic), negative/bit_load_acquire */
static inline uint64_t word_load(const word *w)
{
  return atomic_load_explicit(w, memory_order_seq_cst);
}

/* Sets bits; returns the word as it was.
 * ORDER bit.set (seq_cst)
 *   pairs with     bit.look in word_load()
 *   makes visible  see there
 *   if weakened    see there; not atomic at all, a bit set by another thread meanwhile is lost:
 *                  false negative
 *   checked by     negative/plain_store, negative/bit_set_acq_rel */
static inline uint64_t word_or(word *w, uint64_t bits)
{
  return atomic_fetch_or_explicit(w, bits, memory_order_seq_cst);
}

/* Only under the lock that the word's writers share.
 * ORDER word.put (seq_cst)
 *   pairs with     bit.look in word_load()
 *   makes visible  all that the writer did before, a version that it bumped among it
 *   if weakened    release would keep that, but an add could still sit in a store buffer when its
 *                  thread's next contains is answered: two threads that each add a key and then ask
 *                  for the other's could both hear no
 *   checked by     negative/clear_before_copy (that what comes before is visible),
 *                  negative/word_put_release */
static inline void word_store(word *w, uint64_t value)
{
  atomic_store_explicit(w, value, memory_order_seq_cst);
}

#endif
