/* SPDX-License-Identifier: MIT
 *
 * Layer 1: a file that several processes map and change.
 *
 * The file has its full size from the beginning, so no process maps it anew when more of it is
 * used.  It has space on the disk only as far as space is reserved, so a full disk is an error of
 * the call that reserves, and no SIGBUS.  (On a file system that copies what is written, such as
 * one with snapshots, a reservation may not last.)
 *
 * Each process has an open file description of its own, if it can open the file.  So its locks hold
 * against other processes, even if it has inherited the descriptor from one.  The kernel releases a
 * lock when no process has the description any more.
 *
 * All functions are cancellation points.  They return a result, and errno says why. */
#ifndef TAMIS_LIB_SHARED_FILE_H
#define TAMIS_LIB_SHARED_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shared_file {
  int fd;         /* -1: none */
  bool in_memory; /* no file of any file system: needs no space reserved */
  bool asked;     /* nothing is written: the caller asks only whether it could be */
  void *at;       /* NULL: not mapped yet */
  uint64_t size;
  uint64_t device, inode; /* of the file, when it was looked at */
};

/* Makes a file of memory, without a name. */
int tamis__shared_file_in_memory(struct shared_file *file);

/* Opens a regular file for reading and writing.  `path` is NULL: the file to which `fd` leads. */
int tamis__shared_file_open(struct shared_file *file, const char *path, int fd);

/* Opens the file to which `fd` leads, with a description of its own.  If that is not possible, as
 * there is no /proc, that is an error. */
int tamis__shared_file_open_anew(struct shared_file *file, int fd);

/* Reads the size and the identity of the file. */
int tamis__shared_file_look(struct shared_file *file);

/* Claims an offset for as long as a process has the file's description.  TAMIS_EIO with EAGAIN:
 * another description has claimed it, or a process that may only read the file has locked it. */
int tamis__shared_file_claim(const struct shared_file *file, uint64_t offset);

/* Whether another description has claimed one of `n` offsets, or, if n is 0, of all from there on.
 * True also if the kernel does not tell. */
bool tamis__shared_file_is_claimed(const struct shared_file *file, uint64_t offset, uint64_t n);

/* Waits for the lock of the file, and takes it.  The function below, or the end of the process,
 * releases it.  TAMIS_EIO with EAGAIN: a process that may only read the file has locked it. */
int tamis__shared_file_lock(const struct shared_file *file);
void tamis__shared_file_unlock(const struct shared_file *file);

/* Sets the size, before anybody has mapped the file. */
int tamis__shared_file_resize(struct shared_file *file, uint64_t size);

/* The last refusal of space to a process.  A hint: the members may be of two refusals. */
struct refused_space {
  _Atomic uint64_t bytes; /* that were refused; 0: none */
  _Atomic uint64_t free;  /* that were free then */
  _Atomic int64_t second; /* of the monotonic clock */
  _Atomic int error;
};

/* Reserves the space from `begin` to `end`, also behind the end of the file.  Space that is
 * reserved already stays as it is.  `last`, if not NULL, remembers a refusal: for as much space,
 * the file system is asked again only when more is free, or in another second, as a refusal may
 * take milliseconds. */
int tamis__shared_file_reserve(const struct shared_file *file, uint64_t begin, uint64_t end,
                               struct refused_space *last);

/* TAMIS_OK: the file system says that so many bytes are free; else TAMIS_EIO. */
int tamis__shared_file_has_space(const struct shared_file *file, uint64_t bytes);

/* Reads or writes all of the bytes.  TAMIS_ECORRUPT: the file is shorter. */
int tamis__shared_file_read(const struct shared_file *file, void *to, size_t size, uint64_t at);
int tamis__shared_file_write(const struct shared_file *file, const void *from, size_t size,
                             uint64_t at);

/* A part of such a file, from `at` on, which is read or written from its beginning to its end.  The
 * functions are a tamis_read_function and a tamis_write_function; a write beyond its end fails. */
struct file_part {
  const struct shared_file *file;
  uint64_t at, end;
};

int64_t tamis__file_part_read(void *part, void *data, size_t size);
int tamis__file_part_write(void *part, const void *data, size_t size);

/* Waits until what has been written is on the disk. */
int tamis__shared_file_flush(const struct shared_file *file);

/* Maps all of the file. */
int tamis__shared_file_map(struct shared_file *file);

/* Waits until the first `end` bytes are on the disk. */
int tamis__shared_file_sync(const struct shared_file *file, uint64_t end);

void tamis__shared_file_close(struct shared_file *file);

/* A number that differs between starts of the machine.  0: the system does not say. */
uint64_t tamis__shared_file_boot(void);

#endif
