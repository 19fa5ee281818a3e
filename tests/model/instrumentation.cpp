/* SPDX-License-Identifier: MIT
 *
 * What the compiler calls when it instruments the library for ThreadSanitizer, and what the library
 * calls to tell ThreadSanitizer of its locks: each access arrives in the world of the model
 * checker.
 */
#include "model.h"
#include "world.h"

using namespace model;

extern "C" {

/* What says nothing of memory, or of what a lock orders. */
#define IGNORED(name, ...) \
  void name(__VA_ARGS__)   \
  {                        \
  }
IGNORED(__tsan_init, void)
IGNORED(__tsan_func_entry, void *)
IGNORED(__tsan_func_exit, void)
IGNORED(__tsan_acquire, void *)
IGNORED(__tsan_release, void *)
IGNORED(__tsan_mutex_create, void *, unsigned)
IGNORED(__tsan_mutex_destroy, void *, unsigned)
IGNORED(__tsan_mutex_post_lock, void *, unsigned, int)
IGNORED(__tsan_atomic_signal_fence, int)
int __tsan_mutex_pre_unlock(void *, unsigned)
{
  return 0;
}

void __tsan_mutex_pre_lock(void *stripe, unsigned flags)
{
  const unsigned may_fail = 1 << 4; /* __tsan_mutex_try_lock */
  mark_figure(stripe);              /* its word: threads have been switched before the annotation */
  mark_figure(static_cast<char *>(stripe) + model_stripe_used);
  wait_for(stripe, (flags & may_fail) != 0);
}

void __tsan_mutex_post_unlock(void *stripe, unsigned)
{
  unlock(stripe);
}

void model_fence_acquire(void)
{
  fence(true);
}
void model_fence_release(void)
{
  fence(false);
}

#define PLAIN(n)                          \
  void __tsan_read##n(void *p)            \
  {                                       \
    plain(p, n, false);                   \
  }                                       \
  void __tsan_write##n(void *p)           \
  {                                       \
    plain(p, n, true);                    \
  }                                       \
  void __tsan_unaligned_read##n(void *p)  \
  {                                       \
    plain(p, n, false);                   \
  }                                       \
  void __tsan_unaligned_write##n(void *p) \
  {                                       \
    plain(p, n, true);                    \
  }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
void __tsan_read_range(void *p, size_t n)
{
  plain(p, n, false);
}
void __tsan_write_range(void *p, size_t n)
{
  plain(p, n, true);
}

#define CHANGE(bits, name, expression)                                                       \
  uint##bits##_t __tsan_atomic##bits##_##name(volatile void *p, uint##bits##_t v, int order) \
  {                                                                                          \
    change *to = [](uint64_t old, uint64_t operand) {                                        \
      (void) old;                                                                            \
      return static_cast<uint64_t>(expression);                                              \
    };                                                                                       \
    return static_cast<uint##bits##_t>(atomic_change(p, bits / 8, order, to, v));            \
  }
#define EXCHANGE_IF(bits, name)                                                                 \
  int __tsan_atomic##bits##_compare_exchange_##name(volatile void *p, uint##bits##_t *expected, \
                                                    uint##bits##_t v, int order, int failed)    \
  {                                                                                             \
    uint64_t found = *expected;                                                                 \
    bool done = atomic_exchange_if(p, bits / 8, order, failed, &found, v);                      \
    *expected = static_cast<uint##bits##_t>(found);                                             \
    return done;                                                                                \
  }
/* clang calls this one instead: it returns the value found. */
#define EXCHANGE_VALUE(bits)                                                              \
  uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                              \
      volatile void *p, uint##bits##_t expected, uint##bits##_t v, int order, int failed) \
  {                                                                                       \
    __tsan_atomic##bits##_compare_exchange_strong(p, &expected, v, order, failed);        \
    return expected;                                                                      \
  }
#define ATOMIC(bits)                                                              \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile void *p, int order)    \
  {                                                                               \
    return static_cast<uint##bits##_t>(atomic_load(p, bits / 8, order));          \
  }                                                                               \
  void __tsan_atomic##bits##_store(volatile void *p, uint##bits##_t v, int order) \
  {                                                                               \
    atomic_store(p, bits / 8, order, v);                                          \
  }                                                                               \
  CHANGE(bits, exchange, operand)                                                 \
  CHANGE(bits, fetch_add, old + operand)                                          \
  CHANGE(bits, fetch_sub, old - operand)                                          \
  CHANGE(bits, fetch_or, old | operand)                                           \
  CHANGE(bits, fetch_and, old &operand)                                           \
  EXCHANGE_IF(bits, strong)                                                       \
  EXCHANGE_IF(bits, weak)                                                         \
  EXCHANGE_VALUE(bits)

ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

} // extern "C"
