/* SPDX-License-Identifier: MIT
 *
 * lib/base/counted.h by itself: readers of a block that another thread replaces twice and releases.
 * Compiled as the library is, so that its accesses are the model's.
 */
#include "base/counted.h"

#include "model.h"

struct shared {
  struct counted_readers readers;
  _Alignas(64) _Atomic(uint64_t *) block;
};

static struct shared *shared;

static uint64_t *make_block(void)
{
  uint64_t *block = model_allocate(NULL, 64, sizeof *block);
  *block = 42;
  return block;
}

void model_counted_set_up(void)
{
  shared = model_allocate(NULL, 64, sizeof *shared);
  *shared = (struct shared){.block = NULL};
  shared->block = make_block();
}

int model_counted_read(uint64_t unused)
{
  (void) unused;
  _Atomic uint64_t *counter = counted_enter(&shared->readers, 0);
  if (*atomic_load_explicit(&shared->block, memory_order_acquire) != 42)
    model_fail("a reader has read something else");
  counted_leave(counter);
  return 0;
}

/* Does not wait: goes on only where it need not. */
int model_counted_replace(uint64_t unused)
{
  (void) unused;
  for (unsigned i = 0; i < 2; i++) {
    uint64_t *next = make_block(), *old = shared->block;
    atomic_store_explicit(&shared->block, next, memory_order_release);
    if (!counted_have_left(&shared->readers, counted_flip(&shared->readers)))
      break;
    model_release(NULL, old, 64, sizeof *old);
  }
  return 0;
}
