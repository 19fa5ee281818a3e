/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the 64-bit words that hold bits and buckets.  Every access to a word that several
 * threads can reach goes through this file.
 */
#ifndef TAMIS_LIB_WORD_H
#define TAMIS_LIB_WORD_H

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t word;

/* ORDER bit.load (seq_cst)
 *   pairs with     bit.set in word_or(), word.change in word_replace(), word.clear in word_and(),
 *                  word.put in word_store()
 *   makes visible  all that the writer did before it wrote the word.  So a look-up that finds a key
 *                  sees all that the adding thread published before
 *   if weakened    with acquire, two readers could see two adds in opposite orders on a machine
 *                  without multi-copy atomicity: not linearizable.  On x86-64 and on ARMv8, acquire
 *                  and seq_cst loads are the same instruction
 *   checked by     mutants/plain_store (shows that it is atomic), mutants/bit_load_acquire */
static inline uint64_t word_load(const word *w)
{
  return atomic_load_explicit(w, memory_order_seq_cst);
}

/* Sets bits, and returns the word as it was before.
 * ORDER bit.set (seq_cst)
 *   pairs with     bit.load in word_load()
 *   if weakened    with acq_rel, two readers could see adds in opposite orders, as bit.load says.
 *                  Without atomicity, a bit that another thread sets meanwhile would be lost
 *   checked by     mutants/plain_store, mutants/bit_set_acq_rel */
static inline uint64_t word_or(word *w, uint64_t bits)
{
  return atomic_fetch_or_explicit(w, bits, memory_order_seq_cst);
}

/* Replaces a word that still has the value `old`.  Returns the word's value before.
 * ORDER word.change (seq_cst)
 *   pairs with     bit.load in word_load(), whose comment says why (the exchange is a load, too)
 *   checked by     mutants/word_change_acq_rel */
static inline uint64_t word_replace(word *w, uint64_t old, uint64_t value)
{
  atomic_compare_exchange_strong_explicit(w, &old, value, memory_order_seq_cst,
                                          memory_order_seq_cst);
  return old;
}

/* Clears all bits but those in `kept`.  Other threads may set other bits meanwhile.
 * ORDER word.clear (seq_cst)
 *   pairs with     bit.load in word_load()
 *   makes visible  all that the writer did before, such as the bump of a version
 *   if weakened    with release, the store could be delayed, as word.put says.  Without atomicity,
 *                  an entry that another thread adds meanwhile would be lost: false negative
 *   checked by     mutants/clear_before_copy, mutants/word_clear_release,
 *                  mutants/remove_overwrites_an_add */
static inline void word_and(word *w, uint64_t kept)
{
  atomic_fetch_and_explicit(w, kept, memory_order_seq_cst);
}

/* Replaces a word.  The caller must hold the lock that all writers of the word share.
 * ORDER word.put (seq_cst)
 *   pairs with     bit.load in word_load()
 *   makes visible  all that the writer did before
 *   if weakened    with release, the store could wait in a store buffer while the same thread's
 *                  next look-up reads.  If two threads each add a key and then look up the other's
 *                  key, both could miss
 *   checked by     mutants/word_put_release */
static inline void word_store(word *w, uint64_t value)
{
  atomic_store_explicit(w, value, memory_order_seq_cst);
}

#endif
