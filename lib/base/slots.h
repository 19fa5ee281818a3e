/* SPDX-License-Identifier: MIT
 *
 * Layer 1: slots of liburcu's registry that threads have had.  A part of reclaim.c.
 *
 * liburcu's registry has a slot for each registered thread, and grows when none is free.  liburcu
 * ends the process if it has no memory for that, so the library first tries whether there is
 * memory.  The trial takes several times as long as the registration.  It is not needed if a slot
 * is free.  So the library remembers slots in which threads were registered.  A slot stays where it
 * is, and is free when its thread has ended.
 *
 * A thread claims such a slot before it registers, so that no two threads count on the same one.
 * (The thread may get another slot: there are at least as many free slots as claims.)
 *
 * All accesses are relaxed: they only decide on the trial; liburcu's lock protects the slots.
 */
#ifndef TAMIS_LIB_SLOTS_H
#define TAMIS_LIB_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

enum {
  KNOWN_SLOTS = 64,
  REGISTRY_BYTES = 256 << 10 /* what liburcu maps at once for a thousand more threads */
};

/* The slots that are remembered.  They are filled in from the first one on. */
static struct known_slot {
  _Atomic(const volatile int *) taken; /* liburcu's flag: a thread has the slot */
  atomic_bool claimed;
} known_slots[KNOWN_SLOTS];

/* liburcu releases its registry when the process ends. */
static inline void slots_forget(void)
{
  for (unsigned i = 0; i < KNOWN_SLOTS; i++)
    atomic_store_explicit(&known_slots[i].taken, NULL, memory_order_relaxed);
}

/* Called by the thread that has claimed the slot. */
static inline void slot_release(struct known_slot *slot)
{
  atomic_store_explicit(&slot->claimed, false, memory_order_relaxed);
}

/* Returns NULL if no slot is known to be free. */
static inline struct known_slot *slot_claim(void)
{
  for (struct known_slot *slot = known_slots; slot < known_slots + KNOWN_SLOTS; slot++) {
    const volatile int *taken = atomic_load_explicit(&slot->taken, memory_order_relaxed);
    if (!taken)
      break;
    if (*taken || atomic_exchange_explicit(&slot->claimed, true, memory_order_relaxed))
      continue;
    if (!*taken) /* another thread may have taken the slot before the claim */
      return slot;
    slot_release(slot);
  }
  return NULL;
}

/* Remembers the slot of the calling thread, which is registered. */
static inline void slot_remember(const volatile int *taken)
{
  const volatile int *known = NULL;
  for (unsigned i = 0; i < KNOWN_SLOTS && known != taken; i++) {
    known = NULL;
    if (atomic_compare_exchange_strong_explicit(&known_slots[i].taken, &known, taken,
                                                memory_order_relaxed, memory_order_relaxed))
      break;
  }
}

/* Whether liburcu can map memory for its registry; if not, it would end the process.  (Another
 * thread may still take the memory in between.) */
static inline bool registry_may_grow(void)
{
  void *probe =
      mmap(NULL, REGISTRY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return probe != MAP_FAILED && munmap(probe, REGISTRY_BYTES) == 0;
}

#endif
