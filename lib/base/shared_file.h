/* SPDX-License-Identifier: MIT
 *
 * Layer 1: a file that several processes map and change.
 *
 * The file has its full size from the beginning, so no process has to map it again.  Only reserved
 * parts of the file have space on the disk.  So on a full disk, the call that reserves space fails,
 * and no write to the mapping causes SIGBUS.  (On a copy-on-write file system, a write may.)
 *
 * Each process has an open file description of its own, if it can open the file.  So a process's
 * locks exclude all other processes, even the parent from which it has inherited a descriptor.  The
 * kernel releases a lock when the last process closes the file description.
 *
 * All functions are cancellation points.  They return a result; errno has an error's cause.
 */
#ifndef TAMIS_LIB_SHARED_FILE_H
#define TAMIS_LIB_SHARED_FILE_H

#include "base/saved.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shared_file {
  int fd;         /* -1: no file is open */
  bool in_memory; /* the file is in memory: no disk space is reserved */
  bool asked;     /* the call only asks whether the file could be made; nothing is written */
  void *at;       /* the mapping; NULL: the file is not mapped yet */
  uint64_t size;
  uint64_t device, inode;
};

int tamis__shared_file_in_memory(struct shared_file *file);

/* Opens a regular file for reading and writing.  If `path` is NULL, reopens the file of `fd`. */
int tamis__shared_file_open(struct shared_file *file, const char *path, int fd);

/* Reopens the file of `fd`, with its own file description.  Fails, for instance, without /proc. */
int tamis__shared_file_open_anew(struct shared_file *file, int fd);

/* Reads the size and the identity of the file. */
int tamis__shared_file_look(struct shared_file *file);

/* Claims an offset for as long as any process has this file description open.  Returns TAMIS_EIO
 * with EAGAIN if another description has locked the offset, perhaps only for reading. */
int tamis__shared_file_claim(const struct shared_file *file, uint64_t offset);

/* Returns true if another file description has claimed one of the `n` offsets from `offset` on (0:
 * without end), or if the kernel cannot tell. */
bool tamis__shared_file_is_claimed(const struct shared_file *file, uint64_t offset, uint64_t n);

/* Take and release the lock of the file, which the kernel releases when the process ends, too.  The
 * first function waits, but returns TAMIS_EIO with EAGAIN if another process holds a read lock. */
int tamis__shared_file_lock(const struct shared_file *file);
void tamis__shared_file_unlock(const struct shared_file *file);

/* Sets the file's size.  No process may have mapped the file yet. */
int tamis__shared_file_resize(struct shared_file *file, uint64_t size);

/* The last refusal of disk space to a process.  Only a hint: members may come from two refusals. */
struct refused_space {
  _Atomic uint64_t bytes; /* bytes that were refused; 0: no refusal */
  _Atomic uint64_t free;  /* bytes that were free at the refusal */
  _Atomic int64_t second; /* the time of the refusal, in seconds of the monotonic clock */
  _Atomic int error;      /* errno: ENOSPC or EDQUOT */
};

/* Reserves space for the bytes from `begin` to `end`, even beyond the end of the file.  A refusal
 * by the file system may take milliseconds, so `last`, if not NULL, remembers it.  During the same
 * second of the clock, a request for as many bytes or more then fails at once, unless more bytes
 * are free than at the refusal. */
int tamis__shared_file_reserve(const struct shared_file *file, uint64_t begin, uint64_t end,
                               struct refused_space *last);

/* Reads all `size` bytes.  Returns TAMIS_ECORRUPT if the file is too short. */
int tamis__shared_file_read(const struct shared_file *file, void *to, size_t size, uint64_t at);

/* A part of a shared file, from `at` to `end`, as the context of a tamis_read_function or a
 * tamis_write_function.  Both functions go through the part once.  A write beyond the end fails. */
struct file_part {
  const struct shared_file *file;
  uint64_t at, end;
};

int64_t tamis__file_part_read(void *part, void *data, size_t size);
int tamis__file_part_write(void *part, const void *data, size_t size);

/* Waits until all that was written is on the disk. */
int tamis__shared_file_flush(const struct shared_file *file);

int tamis__shared_file_map(struct shared_file *file);

/* Waits until the first `end` bytes are on the disk. */
int tamis__shared_file_sync(const struct shared_file *file, uint64_t end);

void tamis__shared_file_close(struct shared_file *file);

/* Returns a number that differs between starts of the machine, or 0 if it is not known. */
uint64_t tamis__shared_file_boot(void);

/* ---- live files: the files of filters shared by processes ---- */

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

/* The first process that opens the file after a restart of the machine calls `mend`, while others
 * wait: counters may be out of date, and reserved space may be lost.  *boot, a word in the file,
 * says after which start of the machine the file was last mended. */
int tamis__live_file_after_a_start(const struct shared_file *file, _Atomic uint64_t *boot,
                                   int (*mend)(void *context), void *context);

#endif
