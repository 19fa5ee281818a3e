/* SPDX-License-Identifier: MIT
 *
 * Layer 1: creates and mends live files, the files of filters shared by processes.
 */
#ifndef TAMIS_LIB_LIVE_FILE_H
#define TAMIS_LIB_LIVE_FILE_H

#include "base/saved.h"
#include "base/shared_file.h"

/* Rounds up to a multiple of SAVED_ARRAY_ALIGNMENT, at which each part of a live file begins. */
static inline uint64_t live_file_aligned(uint64_t at)
{
  return (at + SAVED_ARRAY_ALIGNMENT - 1) & ~(uint64_t) (SAVED_ARRAY_ALIGNMENT - 1);
}

/* The contents of a new file.  All other bytes are zero. */
struct live_file {
  const struct saved_head *saved; /* the header */
  /* Writes the blocks that follow the header; NULL: there are none. */
  void (*put_blocks)(const void *context, struct saved_writer *w);
  const void *context;
  const uint64_t *numbers; /* `n` numbers to write at the offset numbers_at */
  unsigned n;
  uint64_t numbers_at;
  uint64_t size;     /* the size of the whole file */
  uint64_t reserved; /* disk space is reserved for the bytes before this offset */
};

int tamis__live_file_write(const struct live_file *new, struct shared_file *file);

/* After a restart of the machine, the file's counters may be out of date, and reserved space may be
 * lost.  Then the first process that opens the file calls `mend`, while others wait.  *boot, a word
 * in the file, says after which start of the machine the file was last mended. */
int tamis__live_file_after_a_start(const struct shared_file *file, _Atomic uint64_t *boot,
                                   int (*mend)(void *context), void *context);

#endif
