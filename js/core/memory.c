/* SPDX-License-Identifier: MIT
 *
 * The allocator of the C library, in a tenth of the room that wasi-libc's takes, which is as much as a kind of
 * filter.  A filter consists of few blocks, so a list of free blocks will do: in the order of their addresses,
 * and searched from the first one, so that what is large stays together behind what is small.
 *
 * Source: the list is that of Kernighan and Ritchie, "The C Programming Language" (1988), 8.7
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Before each block, which begins at a multiple of 16. */
struct head {
  struct head *next; /* free block; the list is a ring */
  size_t units;      /* of the size of this, with the head */
  _Alignas(16) char block[];
};

enum { PAGE = 65536, LEAST_PAGES = 16 };

extern unsigned char __heap_base;

static struct head ring = {&ring, 0};
static struct head *last = &ring;
static uintptr_t end; /* of the memory that has been in the list */

/* Joins `low` with `high` if nothing lies between them. */
static void join(struct head *low, struct head *high)
{
  low->next = high;
  if (low->units && low + low->units == high) {
    low->units += high->units;
    low->next = high->next;
  }
}

static void give(struct head *h)
{
  struct head *p = last;
  while (!(h > p && (h < p->next || p->next <= p)) && !(p->next <= p && h < p->next))
    p = p->next;
  join(h, p->next);
  join(p, h);
  last = p;
}

/* 0: there is no memory. */
static int more(size_t units)
{
  if (!end)
    end = ((uintptr_t) &__heap_base + 15) & ~(uintptr_t) 15;
  size_t pages = units / (PAGE / sizeof(struct head)) + 1, have = __builtin_wasm_memory_size(0);
  size_t wanted = pages < LEAST_PAGES ? LEAST_PAGES : pages;
  if (__builtin_wasm_memory_grow(0, wanted) == SIZE_MAX) {
    if (wanted == pages || __builtin_wasm_memory_grow(0, pages) == SIZE_MAX)
      return 0;
    wanted = pages;
  }
  struct head *h = (struct head *) end;
  h->units = ((have + wanted) * PAGE - end) / sizeof *h; /* modulo 2^32 */
  end += h->units * sizeof *h;
  give(h);
  return 1;
}

/* A block of so many units, head included; NULL: there is none. */
static struct head *take(size_t units)
{
  struct head *before = &ring;
  for (struct head *p = before->next;; before = p, p = p->next) {
    if (p->units >= units) {
      if (p->units == units) {
        before->next = p->next;
      } else {
        p->units -= units;
        p += p->units;
        p->units = units;
      }
      last = before;
      return p;
    }
    if (p == &ring && !more(units)) /* the new memory follows it, or has become a part of a block */
      return NULL;
  }
}

static size_t units_for(size_t size)
{
  return (size + sizeof(struct head) - 1) / sizeof(struct head) + 1;
}

void *malloc(size_t size)
{
  struct head *h = size <= PTRDIFF_MAX ? take(units_for(size)) : NULL;
  return h ? h->block : NULL;
}

void free(void *block)
{
  if (block)
    give((struct head *) block - 1);
}

/* ---- blocks that grow ----
 *
 * A filter that is loaded grows as its bytes come.  If each step took a new block, the old ones would lie about, and
 * the memory would be twice as large as the filter. */

/* The free block before that at `h` in the list; NULL: nothing free begins there. */
static struct head *before(const struct head *h)
{
  struct head *p = last;
  do
    if (p->next == h)
      return p;
  while ((p = p->next) != last);
  return NULL;
}

/* The free block that ends at `h`, or NULL. */
static struct head *below(const struct head *h)
{
  struct head *p = last;
  do
    if (p->units && p + p->units == h)
      return p;
  while ((p = p->next) != last);
  return NULL;
}

static void take_out(struct head *free_block)
{
  last = before(free_block);
  last->next = free_block->next;
}

/* Gives back what is more than `units` of a block that is in no list. */
static void cut(struct head *h, size_t units)
{
  if (h->units > units) {
    struct head *rest = h + units;
    rest->units = h->units - units;
    h->units = units;
    give(rest);
  }
}

/* Makes a block larger by what is free behind it and, if that is too little, before it, or by new memory if
 * nothing else is behind.  The block may move to lower addresses.  NULL: there is not as much. */
static struct head *extend(struct head *h, size_t units)
{
  const size_t missing = units - h->units, used = h->units - 1;
  struct head *behind = h + h->units, *low = below(h);
  size_t free_behind = before(behind) ? behind->units : 0;
  bool moves = free_behind < missing && low && low->units + free_behind >= missing;
  if (free_behind < missing && !moves) {
    if ((uintptr_t) (behind + free_behind) != end || !more(missing - free_behind))
      return NULL;
    free_behind = behind->units;
  }
  if (free_behind)
    take_out(behind);
  h->units += free_behind;
  if (moves) {
    take_out(low);
    low->units += h->units;
    memmove(low->block, h->block, used * sizeof *h); /* which may go over the old head */
    h = low;
  }
  cut(h, units);
  return h;
}

/* Never makes a block smaller. */
void *realloc(void *block, size_t size)
{
  if (!block || size > PTRDIFF_MAX)
    return block ? NULL : malloc(size);
  struct head *h = (struct head *) block - 1;
  if (units_for(size) <= h->units)
    return block;
  struct head *extended = extend(h, units_for(size));
  if (extended)
    return extended->block;
  void *larger = malloc(size);
  if (larger) {
    memcpy(larger, block, (h->units - 1) * sizeof *h);
    free(block);
  }
  return larger;
}

void *calloc(size_t n, size_t size)
{
  void *block = n && size > PTRDIFF_MAX / n ? NULL : malloc(n * size);
  return block ? memset(block, 0, n * size) : NULL;
}

/* What lies before the aligned block is given back. */
int posix_memalign(void **out, size_t alignment, size_t size)
{
  struct head *h = size <= PTRDIFF_MAX - alignment ? take(units_for(size + alignment)) : NULL;
  if (!h)
    return ENOMEM;
  uintptr_t block = ((uintptr_t) h->block + alignment - 1) & ~(uintptr_t) (alignment - 1);
  struct head *aligned = (struct head *) block - 1;
  size_t before = (size_t) (aligned - h);
  if (before) {
    aligned->units = h->units - before;
    h->units = before;
    give(h);
  }
  *out = aligned->block;
  return 0;
}
