/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the file of a filter that processes share, as far as all kinds have it alike.
 */
#ifndef TAMIS_LIB_LIVE_FILE_H
#define TAMIS_LIB_LIVE_FILE_H

#include "base/saved.h"
#include "base/shared_file.h"

/* A part of such a file begins at a multiple of a page. */
static inline uint64_t live_file_aligned(uint64_t at)
{
  return (at + SAVED_ARRAY_ALIGNMENT - 1) & ~(uint64_t) (SAVED_ARRAY_ALIGNMENT - 1);
}

/* A new file: zeros, but for these. */
struct live_file {
  const struct saved_head *saved; /* what the header says */
  /* Writes the blocks that follow the header; NULL: there are none. */
  void (*put_blocks)(const void *context, struct saved_writer *w);
  const void *context;
  const uint64_t *numbers; /* written as they are in memory, at a place of the file */
  unsigned n;
  uint64_t numbers_at;
  uint64_t size;     /* of the file */
  uint64_t reserved; /* so many bytes, from its beginning, have space on the disk */
};

int tamis__live_file_write(const struct live_file *new, struct shared_file *file);

/* After the machine has been started again, what was counted may be older than what it counts, and
 * what was reserved may be lost.  The first process that opens the file then calls `mend`, while
 * others wait.  `boot` is where the file says by which start it was mended. */
int tamis__live_file_after_a_start(const struct shared_file *file, _Atomic uint64_t *boot,
                                   int (*mend)(void *context), void *context);

#endif
