/* SPDX-License-Identifier: MIT */
#include "ledger.h"

#include "harness.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { POISON = 0xDB };
static const uint64_t allocated = UINT64_C(0xA110CA7EDB10C4ED);

/* Stands before each block.  The space for it is as large as the alignment. */
struct entry {
  uint64_t magic;
  size_t size, alignment;
};

static void note(struct ledger *ledger, const char *wrong)
{
  const char *nothing = NULL;
  atomic_compare_exchange_strong(&ledger->wrong, &nothing, wrong);
}

static void note_bytes(struct ledger *ledger, size_t size)
{
  uint64_t bytes = atomic_fetch_add(&ledger->bytes, size) + size;
  raise_to(&ledger->most_bytes, bytes);
  if (ledger->limit && bytes > ledger->limit)
    note(ledger, "more memory was taken than max_bytes");
}

static bool fails(struct ledger *ledger)
{
  uint64_t n = atomic_fetch_add(&ledger->requests, 1);
  return atomic_load(&ledger->armed) && random_at(ledger->seed, n) % ledger->odds == 0;
}

static void *allocate(void *context, size_t alignment, size_t size)
{
  struct ledger *ledger = context;
  void *start;
  if (alignment < sizeof(struct entry) || (alignment & (alignment - 1)) || size == 0)
    note(ledger, "a request without a size, or with an odd alignment");
  if (atomic_load(&ledger->yields))
    sched_yield();
  if (fails(ledger) || posix_memalign(&start, alignment, alignment + size)) {
    atomic_fetch_add(&ledger->failures, 1);
    return NULL;
  }
  memset(start, POISON, alignment + size);
  *(struct entry *) start = (struct entry){allocated, size, alignment};
  atomic_fetch_add(&ledger->blocks, 1);
  note_bytes(ledger, size);
  return (char *) start + alignment;
}

static void release(void *context, void *block, size_t alignment, size_t size)
{
  struct ledger *ledger = context;
  struct entry *entry = (struct entry *) ((char *) block - alignment);
  if (entry->magic != allocated) {
    note(ledger, "released what was not allocated, or with another alignment, or twice");
    return;
  }
  if (entry->size != size || entry->alignment != alignment)
    note(ledger, "released with another size or alignment");
  atomic_fetch_sub(&ledger->blocks, 1);
  atomic_fetch_sub(&ledger->bytes, entry->size);
  if (atomic_load(&ledger->yields))
    sched_yield();
  memset(entry, POISON, alignment + entry->size);
  free(entry);
}

tamis_allocator ledger_allocator(struct ledger *ledger)
{
  return (tamis_allocator){allocate, release, ledger};
}

bool ledger_is_even(const struct ledger *ledger)
{
  return atomic_load(&ledger->blocks) == 0 && atomic_load(&ledger->bytes) == 0;
}
