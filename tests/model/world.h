/* SPDX-License-Identifier: MIT
 *
 * Accesses of the library to memory and to locks, as the world of the model checker takes them.
 */
#ifndef TAMIS_TESTS_MODEL_WORLD_H
#define TAMIS_TESTS_MODEL_WORLD_H

#include <cstddef>
#include <cstdint>

namespace model
{

/* ---- the memory itself, which always holds the last value written ---- */

inline uint64_t real_load(const volatile void *address, size_t size)
{
  return size == 8   ? *static_cast<const volatile uint64_t *>(address)
         : size == 4 ? *static_cast<const volatile uint32_t *>(address)
                     : *static_cast<const volatile uint8_t *>(address);
}

inline void real_store(volatile void *address, size_t size, uint64_t value)
{
  if (size == 8)
    *static_cast<volatile uint64_t *>(address) = value;
  else if (size == 4)
    *static_cast<volatile uint32_t *>(address) = static_cast<uint32_t>(value);
  else
    *static_cast<volatile uint8_t *>(address) = static_cast<uint8_t>(value);
}

/* ---- atomic accesses ---- */

/* Whether accesses to an address are relacy's at the moment; the functions below are for those
 * only. */
bool modelled(const volatile void *address);

uint64_t atomic_load(const volatile void *address, size_t size, int order);
void atomic_store(volatile void *address, size_t size, int order, uint64_t value);

/* What a read-modify-write makes of the old value. */
typedef uint64_t change(uint64_t old, uint64_t operand);

/* A read-modify-write; returns the old value, which is the last one. */
uint64_t atomic_change(volatile void *address, size_t size, int order, change *to,
                       uint64_t operand);
bool atomic_exchange_if(volatile void *address, size_t size, int order, int order_failed,
                        uint64_t *expected, uint64_t value);

/* ---- plain accesses, and locks: nothing outside of a search ---- */

void plain(const void *address, size_t size, bool write);
void lock(const void *address, bool may_fail = false);
/* The same, but it orders nothing: that is left to the lock's own accesses and fences. */
void wait_for(const void *address, bool may_fail);
void fence(bool acquire);
void unlock(const void *address);

/* An atomic word on which nothing hangs: threads need not be switched there. */
void mark_figure(const void *address);

} // namespace model

#endif
