/* SPDX-License-Identifier: MIT
 *
 * The functions of the system by which files are saved, for tests that wrap them (-Wl,--wrap).
 */
#ifndef TAMIS_TESTS_WRAPPED_FILES_H
#define TAMIS_TESTS_WRAPPED_FILES_H

#include <sys/file.h>
#include <sys/types.h>
#include <sys/vfs.h>

int __real_open(const char *path, int flags, ...);
int __real_openat(int folder, const char *path, int flags, mode_t mode);
ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __real_read(int fd, void *data, size_t size);
int __real_fsync(int fd);
int __real_renameat(int from_folder, const char *from, int to_folder, const char *to);
int __real_close(int fd);
int __real_flock(int fd, int operation);
int __real_fstatfs(int fd, struct statfs *system);
int __real_unlinkat(int folder, const char *path, int flags);

/* A call that is wrapped: whether it goes on, else it fails; and what is made of it then. */
#define WRAP_CALL(type, name, parameters, goes_on, call) \
  type __wrap_##name parameters                          \
  {                                                      \
    return (goes_on) ? (type) ended(call) : -1;          \
  }

#endif
