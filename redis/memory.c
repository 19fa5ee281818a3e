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

/* The bytes of all blocks of a filter.  Relaxed: a figure. */
struct memory_account {
  _Atomic uint64_t bytes;
};

size_t memory_size(const void *block, size_t asked)
{
  return !block ? 0 : server.MallocSize ? server.MallocSize((void *) (uintptr_t) block) : asked;
}

void *memory_adopt(void *block)
{
  atomic_fetch_add_explicit(&in_use, memory_size(block, 0), memory_order_relaxed);
  return block;
}

uint64_t memory_in_use(void)
{
  return atomic_load_explicit(&in_use, memory_order_relaxed);
}

void *memory_take(size_t size)
{
  return memory_adopt(server.TryAlloc && !saving ? server.TryAlloc(size) : server.Alloc(size));
}

/* A server without TryCalloc ends where Calloc finds no memory.  So there is a trial before it. */
void *memory_take_cleared(size_t size)
{
  if (server.TryCalloc && !saving)
    return memory_adopt(server.TryCalloc(1, size));
  void *trial = memory_take(size);
  memory_free(trial);
  return trial ? memory_adopt(server.Calloc(1, size)) : NULL;
}

void memory_free(void *block)
{
  atomic_fetch_sub_explicit(&in_use, memory_size(block, 0), memory_order_relaxed);
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
      block[i] = memory_take(size + more);
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
  void *all = cleared ? memory_take_cleared(with_room) : memory_take(with_room);
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

static void *allocate_block(size_t alignment, size_t size)
{
  const bool cleared = size >= MEMORY_CLEARED_FROM;
  if (!is_direct(alignment))
    return allocate_within(alignment, size, cleared);
  if (size > SIZE_MAX - ALIGNMENT)
    return NULL;
  size_t whole = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  void *block = cleared ? memory_take_cleared(whole) : memory_take(whole);
  if (block && !is_aligned(block)) { /* never seen; a refusal is safe */
    memory_free(block);
    return NULL;
  }
  return block;
}

/* The block of the server's in which a filter's block is. */
static void *whole_of(void *block, size_t alignment)
{
  if (!is_direct(alignment))
    memcpy(&block, (char *) block - sizeof(void *), sizeof(void *));
  return block;
}

static void *allocate(void *account, size_t alignment, size_t size)
{
  struct memory_account *a = account;
  void *block = allocate_block(alignment, size);
  if (block)
    atomic_fetch_add_explicit(&a->bytes, memory_size(whole_of(block, alignment), size),
                              memory_order_relaxed);
  return block;
}

static void release(void *account, void *block, size_t alignment, size_t size)
{
  struct memory_account *a = account;
  void *whole = whole_of(block, alignment);
  atomic_fetch_sub_explicit(&a->bytes, memory_size(whole, size), memory_order_relaxed);
  memory_free(whole);
}

/* ---- filters ---- */

static struct memory_account *open_account(tamis_allocator *allocator)
{
  struct memory_account *a = memory_take(sizeof *a);
  if (a)
    atomic_init(&a->bytes, 0);
  *allocator = (tamis_allocator){allocate, release, a};
  return a;
}

static int filter_made(int result, struct memory_account *a, struct memory_filter *made)
{
  if (result == TAMIS_OK)
    made->account = a;
  else
    memory_free(a);
  return result;
}

int memory_create_filter(const tamis_options *options, struct memory_filter *made)
{
  tamis_options with_account = *options;
  tamis_allocator allocator;
  struct memory_account *a = open_account(&allocator);
  *made = (struct memory_filter){0};
  with_account.allocator = &allocator;
  return filter_made(a ? tamis_create(&with_account, &made->filter) : TAMIS_ENOMEM, a, made);
}

int memory_load_filter(uint64_t max_bytes, tamis_read_function read, void *context,
                       struct memory_filter *made)
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  tamis_allocator allocator;
  struct memory_account *a = open_account(&allocator);
  *made = (struct memory_filter){0};
  options.allocator = &allocator;
  options.cleared_from = MEMORY_CLEARED_FROM;
  options.max_bytes = max_bytes;
  return filter_made(a ? tamis_load(&options, read, context, &made->filter) : TAMIS_ENOMEM, a,
                     made);
}

/* Nothing of a filter is released after tamis_destroy(). */
void memory_destroy_filter(struct memory_filter made)
{
  tamis_destroy(made.filter);
  memory_free(made.account);
}

size_t memory_of_filter(const struct memory_account *a)
{
  return a ? memory_size(a, sizeof *a) +
                 (size_t) atomic_load_explicit(&a->bytes, memory_order_relaxed)
           : 0;
}

const tamis_allocator *memory_for_plans(void)
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
