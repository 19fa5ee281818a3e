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

/* ---- atomic accesses: of memory that is not modelled at the moment, simply made ---- */

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
