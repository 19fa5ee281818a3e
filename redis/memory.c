/* SPDX-License-Identifier: MIT */
#include "memory.h"

#include "server_api.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* what filters ask for */

/* Whether the allocator aligns blocks to 64 bytes where their size is a multiple of that.  jemalloc
 * does: its size classes from 64 bytes on that fit such a size are such multiples themselves, and
 * larger blocks begin at cache lines.  An alignment of our own would take those blocks into a
 * larger class, which is a quarter more memory for a size that is a power of two. */
static bool aligned_blocks;

static bool saving;

/* Relaxed: a figure. */
static _Atomic uint64_t in_use;

static size_t size_of(void *block)
{
  return block && server.MallocSize ? server.MallocSize(block) : 0;
}

void *memory_adopt(void *block)
{
  atomic_fetch_add_explicit(&in_use, size_of(block), memory_order_relaxed);
  return block;
}

uint64_t memory_in_use(void)
{
  return atomic_load_explicit(&in_use, memory_order_relaxed);
}

static void *take(size_t size)
{
  return memory_adopt(server.TryAlloc && !saving ? server.TryAlloc(size) : server.Alloc(size));
}

/* A server without TryCalloc ends where Calloc finds no memory.  So there is a trial before it. */
static void *take_cleared(size_t size)
{
  if (server.TryCalloc && !saving)
    return memory_adopt(server.TryCalloc(1, size));
  void *trial = take(size);
  memory_free(trial);
  return trial ? memory_adopt(server.Calloc(1, size)) : NULL;
}

void *memory_take(size_t size)
{
  return take(size);
}

void *memory_take_cleared(size_t size)
{
  return take_cleared(size);
}

void memory_free(void *block)
{
  atomic_fetch_sub_explicit(&in_use, size_of(block), memory_order_relaxed);
  server.Free(block);
}

static bool is_aligned(const void *block)
{
  return (uintptr_t) block % ALIGNMENT == 0;
}

void memory_init(void)
{
  enum { STEPS = 16 };
  aligned_blocks = true;
  for (size_t size = ALIGNMENT; size <= (size_t) 1 << 15; size *= 2) {
    void *block[STEPS];
    for (size_t i = 0; i < STEPS; i++) { /* with all sizes between this power of two and the next */
      size_t more = size * i / STEPS / ALIGNMENT * ALIGNMENT;
      block[i] = take(size + more);
      aligned_blocks = aligned_blocks && block[i] && is_aligned(block[i]);
    }
    for (size_t i = 0; i < STEPS; i++)
      memory_free(block[i]);
  }
}

/* A block within a larger one, whose address is stored before it. */
static void *allocate_within(size_t alignment, size_t size, bool cleared)
{
  if (alignment < sizeof(void *))
    alignment = sizeof(void *);
  if (size > SIZE_MAX - alignment - sizeof(void *))
    return NULL;
  size_t with_room = size + alignment + sizeof(void *);
  void *all = cleared ? take_cleared(with_room) : take(with_room);
  if (!all)
    return NULL;
  char *block = (char *) all + sizeof(void *);
  block += (alignment - (uintptr_t) block % alignment) % alignment;
  memcpy(block - sizeof(void *), &all, sizeof(void *));
  return block;
}

static bool is_direct(size_t alignment)
{
  return aligned_blocks && alignment <= ALIGNMENT;
}

static void *allocate(void *unused, size_t alignment, size_t size)
{
  (void) unused;
  const bool cleared = size >= MEMORY_CLEARED_FROM;
  if (!is_direct(alignment))
    return allocate_within(alignment, size, cleared);
  if (size > SIZE_MAX - ALIGNMENT)
    return NULL;
  size_t whole = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  void *block = cleared ? take_cleared(whole) : take(whole);
  if (block && !is_aligned(block)) { /* never seen; a refusal is safe */
    memory_free(block);
    return NULL;
  }
  return block;
}

static void release(void *unused, void *block, size_t alignment, size_t size)
{
  (void) unused, (void) size;
  if (!is_direct(alignment))
    memcpy(&block, (char *) block - sizeof(void *), sizeof(void *));
  memory_free(block);
}

const tamis_allocator *memory_of_filters(void)
{
  static const tamis_allocator allocator = {allocate, release, NULL};
  return &allocator;
}

void memory_begin_save(void)
{
  saving = true;
}

void memory_end_save(void)
{
  saving = false;
}
