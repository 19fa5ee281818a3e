/* SPDX-License-Identifier: MIT
 *
 * Layer 1: slots of liburcu's registry that threads have had.  A part of reclaim.c.
 *
 * liburcu's registry has a slot for each registered thread, and grows when none is free.  As it
 * ends the process if it has no memory for that, it must not be asked then.  To try out whether
 * there is memory takes several times as long as to register.  It is not needed for a thread that
 * finds a free slot.  So the slots are remembered in which threads were registered: each stays
 * where it is, and is free when its thread has ended.
 *
 * A thread claims such a slot before it registers, so that no two count on the same one.  (It may
 * get another slot: at least as many are free as there are claims.)
 *
 * All accesses are relaxed: they say only whether to try out first; liburcu's lock does the rest.
 */
#ifndef TAMIS_LIB_SLOTS_H
#define TAMIS_LIB_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KNOWN_SLOTS = 64, SLOT_CLAIMED = 1 };

/* From the first place on: the address of the number by which liburcu says that a slot is taken; in
 * its lowest bit, SLOT_CLAIMED. */
static _Atomic uintptr_t known_slots[KNOWN_SLOTS];

/* liburcu releases its registry when the process ends. */
static inline void slots_forget(void)
{
  for (unsigned i = 0; i < KNOWN_SLOTS; i++)
    atomic_store_explicit(&known_slots[i], 0, memory_order_relaxed);
}

/* By the thread that has the claim. */
static inline void slot_release(_Atomic uintptr_t *known)
{
  atomic_fetch_and_explicit(known, ~(uintptr_t) SLOT_CLAIMED, memory_order_relaxed);
}

static inline bool slot_is_free(uintptr_t slot)
{
  return !*(const volatile int *) slot;
}

/* NULL: none is known to be free. */
static inline _Atomic uintptr_t *slot_claim(void)
{
  for (unsigned i = 0; i < KNOWN_SLOTS; i++) {
    uintptr_t slot = atomic_load_explicit(&known_slots[i], memory_order_relaxed);
    if (!slot)
      break;
    if (slot & SLOT_CLAIMED || !slot_is_free(slot) ||
        !atomic_compare_exchange_strong_explicit(&known_slots[i], &slot, slot | SLOT_CLAIMED,
                                                 memory_order_relaxed, memory_order_relaxed))
      continue;
    if (slot_is_free(slot)) /* still: another thread may have claimed and taken it meanwhile */
      return &known_slots[i];
    slot_release(&known_slots[i]);
  }
  return NULL;
}

/* The slot of the calling thread, which is registered. */
static inline void slot_remember(const int *taken)
{
  uintptr_t slot = (uintptr_t) taken, known = 0;
  for (unsigned i = 0; i < KNOWN_SLOTS && known != slot; i++) {
    known = 0;
    if (atomic_compare_exchange_strong_explicit(&known_slots[i], &known, slot, memory_order_relaxed,
                                                memory_order_relaxed))
      break;
    known &= ~(uintptr_t) SLOT_CLAIMED;
  }
}

#endif
