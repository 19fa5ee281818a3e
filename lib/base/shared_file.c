/* SPDX-License-Identifier: MIT */
#include "base/shared_file.h"

#include "base/cancel.h"
#include "base/file.h"
#include "base/hash.h"
#include "tamis/tamis.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static int open_again(const char *path)
{
  return tamis__file_above_standard(
      UNINTERRUPTED(open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)));
}

/* ---- opening ---- */

/* Makes a file that can be sealed: its truncation would kill the processes that map it. */
int tamis__shared_file_in_memory(struct shared_file *file)
{
  *file = (struct shared_file){
      .fd = tamis__file_above_standard(memfd_create("tamis", MFD_CLOEXEC | MFD_ALLOW_SEALING)),
      .in_memory = true};
  return file->fd < 0 ? TAMIS_EIO : TAMIS_OK;
}

int tamis__shared_file_look(struct shared_file *file)
{
  struct stat status;
  if (fstat(file->fd, &status))
    return TAMIS_EIO;
  errno = S_ISDIR(status.st_mode) ? EISDIR : ENODEV; /* as open() or mmap() would set errno */
  file->size = (uint64_t) status.st_size;
  file->device = status.st_dev;
  file->inode = status.st_ino;
  return S_ISREG(status.st_mode) ? TAMIS_OK : TAMIS_EIO;
}

static int look_at_opened(struct shared_file *file)
{
  if (file->fd < 0)
    return TAMIS_EIO;
  int result = tamis__shared_file_look(file);
  if (result != TAMIS_OK)
    tamis__shared_file_close(file);
  return result;
}

static int open_descriptor_again(int fd)
{
  char link[40];
  (void) snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  return open_again(link);
}

/* Other processes may share the file description of `fd`, so the file is opened again.  If /proc or
 * a permission is missing, duplicates `fd`: the description then stays shared. */
int tamis__shared_file_open(struct shared_file *file, const char *path, int fd)
{
  *file = (struct shared_file){.fd = path ? open_again(path) : open_descriptor_again(fd)};
  if (file->fd < 0 && !path && (fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND)) == O_RDWR)
    file->fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  return look_at_opened(file);
}

int tamis__shared_file_open_anew(struct shared_file *file, int fd)
{
  *file = (struct shared_file){.fd = open_descriptor_again(fd)};
  return look_at_opened(file);
}

void tamis__shared_file_close(struct shared_file *file)
{
  int error = errno;
  if (file->at)
    munmap(file->at, (size_t) file->size);
  if (file->fd >= 0)
    close(file->fd);
  *file = (struct shared_file){.fd = -1};
  errno = error;
}

/* ---- locks ---- */

/* All locks here are write locks.  A process that may only read the file can block them by a read
 * lock on any byte, so a call that waits checks for read locks.  A byte is *claimed* if the kernel
 * would refuse a read lock on it. */

enum { WAIT_NANOSECONDS = 1000000 };

/* The offset of the file's lock, beyond all contents.  The offsets of claims are greater. */
static const uint64_t lock_offset = UINT64_C(1) << 61;

static int call_lock(const struct shared_file *file, int command, struct flock *lock, short type,
                     uint64_t offset, uint64_t n)
{
  *lock = (struct flock){
      .l_type = type, .l_whence = SEEK_SET, .l_start = (off_t) offset, .l_len = (off_t) n};
  return fcntl(file->fd, command, lock);
}

int tamis__shared_file_claim(const struct shared_file *file, uint64_t offset)
{
  struct flock lock;
  return call_lock(file, F_OFD_SETLK, &lock, F_WRLCK, offset, 1) ? TAMIS_EIO : TAMIS_OK;
}

bool tamis__shared_file_is_claimed(const struct shared_file *file, uint64_t offset, uint64_t n)
{
  struct flock lock;
  return call_lock(file, F_OFD_GETLK, &lock, F_RDLCK, offset, n) || lock.l_type != F_UNLCK;
}

/* Tries to claim lock_offset again and again: F_OFD_SETLKW would also wait for read locks. */
int tamis__shared_file_lock(const struct shared_file *file)
{
  struct flock lock;
  while (tamis__shared_file_claim(file, lock_offset) != TAMIS_OK) {
    if (errno != EAGAIN || call_lock(file, F_OFD_GETLK, &lock, F_WRLCK, lock_offset, 1))
      return TAMIS_EIO;
    if (lock.l_type == F_RDLCK) {
      errno = EAGAIN;
      return TAMIS_EIO;
    }
    if (lock.l_type == F_WRLCK)
      sleep_uncancelled(WAIT_NANOSECONDS);
  }
  return TAMIS_OK;
}

void tamis__shared_file_unlock(const struct shared_file *file)
{
  struct flock lock;
  int error = errno;
  (void) call_lock(file, F_OFD_SETLK, &lock, F_UNLCK, lock_offset, 1);
  errno = error;
}

/* ---- reserved space ---- */

int tamis__shared_file_resize(struct shared_file *file, uint64_t size)
{
  if (UNINTERRUPTED(ftruncate(file->fd, (off_t) size)))
    return TAMIS_EIO;
  file->size = size;
  if (file->in_memory)
    (void) fcntl(file->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return TAMIS_OK;
}

/* POSIX's version of fallocate() is no substitute: on a file system that cannot reserve space, it
 * writes zeros over bits that another process may have set. */
static int reserve(const struct shared_file *file, uint64_t begin, uint64_t end)
{
  const int failed =
      UNINTERRUPTED(fallocate(file->fd, FALLOC_FL_KEEP_SIZE, (off_t) begin, (off_t) (end - begin)));
  return failed ? TAMIS_EIO : TAMIS_OK;
}

/* Returns the free bytes of the file system, or 0 if the number is not known. */
static uint64_t free_space(const struct statfs *system)
{
  return system->f_bfree * (uint64_t) (system->f_frsize ? system->f_frsize : system->f_bsize);
}

static int64_t now_in_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

/* Returns false if a refusal is likely.  Accesses are relaxed, because `last` is only a hint. */
static bool may_have_space_now(const struct shared_file *file, uint64_t bytes,
                               const struct refused_space *last)
{
  struct statfs system;
  const uint64_t refused = atomic_load_explicit(&last->bytes, memory_order_relaxed);
  if (!refused || bytes < refused ||
      now_in_seconds() != atomic_load_explicit(&last->second, memory_order_relaxed) ||
      fstatfs(file->fd, &system))
    return true;
  const uint64_t free = free_space(&system);
  return free >= bytes && free > atomic_load_explicit(&last->free, memory_order_relaxed);
}

static void remember_refusal(const struct shared_file *file, uint64_t bytes, int error,
                             struct refused_space *last)
{
  struct statfs system;
  const bool full = (error == ENOSPC || error == EDQUOT) && !fstatfs(file->fd, &system);
  if (full) {
    atomic_store_explicit(&last->free, free_space(&system), memory_order_relaxed);
    atomic_store_explicit(&last->second, now_in_seconds(), memory_order_relaxed);
    atomic_store_explicit(&last->error, error, memory_order_relaxed);
  }
  atomic_store_explicit(&last->bytes, full ? bytes : 0, memory_order_relaxed);
}

int tamis__shared_file_reserve(const struct shared_file *file, uint64_t begin, uint64_t end,
                               struct refused_space *last)
{
  if (file->in_memory || begin >= end)
    return TAMIS_OK;
  if (last && !may_have_space_now(file, end - begin, last)) {
    errno = atomic_load_explicit(&last->error, memory_order_relaxed);
    return TAMIS_EIO;
  }
  const int result = reserve(file, begin, end), error = errno;
  if (last)
    remember_refusal(file, end - begin, result == TAMIS_OK ? 0 : error, last);
  errno = error;
  return result;
}

/* f_blocks is 0 in a tmpfs without a limit, which has space, and in /proc and the like. */
static int has_space(const struct shared_file *file, uint64_t bytes)
{
  enum { TMPFS = 0x01021994 }; /* from linux/magic.h */
  struct statfs system;
  if (fstatfs(file->fd, &system))
    return TAMIS_EIO;
  errno = system.f_blocks ? ENOSPC : EOPNOTSUPP;
  return (system.f_blocks ? free_space(&system) >= bytes : system.f_type == TMPFS) ? TAMIS_OK
                                                                                   : TAMIS_EIO;
}

/* ---- reading and writing bytes ---- */

int tamis__shared_file_read(const struct shared_file *file, void *to, size_t size, uint64_t at)
{
  for (size_t done = 0; done < size;) {
    ssize_t got =
        UNINTERRUPTED(pread(file->fd, (char *) to + done, size - done, (off_t) (at + done)));
    if (got <= 0)
      return got ? TAMIS_EIO : TAMIS_ECORRUPT;
    done += (size_t) got;
  }
  return TAMIS_OK;
}

static int write_all(const struct shared_file *file, const void *from, size_t size, uint64_t at)
{
  if (file_is_limited(at + size))
    return TAMIS_EIO;
  for (size_t done = 0; done < size;) {
    ssize_t put = UNINTERRUPTED(
        pwrite(file->fd, (const char *) from + done, size - done, (off_t) (at + done)));
    if (put < 0)
      return TAMIS_EIO;
    done += (size_t) put;
  }
  return TAMIS_OK;
}

int64_t tamis__file_part_read(void *part, void *data, size_t size)
{
  struct file_part *from = part;
  if (size > from->end - from->at)
    size = (size_t) (from->end - from->at);
  if (tamis__shared_file_read(from->file, data, size, from->at) != TAMIS_OK)
    return -1;
  from->at += size;
  return (int64_t) size;
}

int tamis__file_part_write(void *part, const void *data, size_t size)
{
  struct file_part *to = part;
  errno = EFBIG;
  if (size > to->end - to->at || write_all(to->file, data, size, to->at) != TAMIS_OK)
    return -1;
  to->at += size;
  return 0;
}

int tamis__shared_file_map(struct shared_file *file)
{
  void *at = mmap(NULL, (size_t) file->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                  file->fd, 0);
  if (at == MAP_FAILED)
    return errno == ENOMEM ? TAMIS_ENOMEM : TAMIS_EIO;
  file->at = at;
  return TAMIS_OK;
}

int tamis__shared_file_flush(const struct shared_file *file)
{
  return file->in_memory || !UNINTERRUPTED(fsync(file->fd)) ? TAMIS_OK : TAMIS_EIO;
}

/* Also calls fsync(): msync() does not write the metadata that says where pages are on disk. */
int tamis__shared_file_sync(const struct shared_file *file, uint64_t end)
{
  if (!file->in_memory && msync(file->at, (size_t) end, MS_SYNC))
    return TAMIS_EIO;
  return tamis__shared_file_flush(file);
}

uint64_t tamis__shared_file_boot(void)
{
  char text[64] = "";
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  /* not read(): `fd` may be 0, and another thread may read what it takes for standard input */
  ssize_t length = fd < 0 ? 0 : pread(fd, text, sizeof text, 0);
  if (fd >= 0)
    close(fd);
  return length > 0 ? hash_sum(text, (size_t) length, 0) | 1 : 0;
}

/* ---- live files: creation ---- */

enum { MAGIC = sizeof SAVED_MAGIC - 1 };

/* Reserves the space before the first write, so a full disk is found at once. */
static int take_space(const struct live_file *new, const struct shared_file *file)
{
  if (file_is_limited(new->size))
    return TAMIS_EIO;
  return file->asked ? has_space(file, new->reserved)
                     : tamis__shared_file_reserve(file, 0, new->reserved, NULL);
}

static int write_unfinished(const struct live_file *new, const struct shared_file *file)
{
  struct file_part to = {.file = file, .end = new->size};
  struct saved_writer w = {.write = tamis__file_part_write, .context = &to};
  tamis__saved_begin(&w, new->saved);
  if (w.result == TAMIS_OK)
    memcpy(w.buffer, SAVED_UNFINISHED, MAGIC);
  if (new->put_blocks)
    new->put_blocks(new->context, &w);
  return tamis__saved_end_live(&w);
}

/* Writes the magic number last, when all other bytes are on the disk. */
int tamis__live_file_write(const struct live_file *new, struct shared_file *file)
{
  int result = take_space(new, file);
  if (result != TAMIS_OK || file->asked)
    return result;
  result = write_all(file, SAVED_UNFINISHED, MAGIC, 0);
  if (result == TAMIS_OK)
    result = tamis__shared_file_flush(file); /* so that a crash leaves no file of zeros only */
  if (result == TAMIS_OK)
    result = tamis__shared_file_resize(file, new->size);
  if (result == TAMIS_OK)
    result = write_all(file, new->numbers, new->n * sizeof(uint64_t), new->numbers_at);
  if (result == TAMIS_OK)
    result = write_unfinished(new, file);
  if (result == TAMIS_OK)
    result = tamis__shared_file_flush(file);
  return result == TAMIS_OK ? write_all(file, SAVED_MAGIC, MAGIC, 0) : result;
}

/* ---- live files: after a restart of the machine ---- */

/* ORDER live.boot (acquire)
 *   pairs with     live.counted
 *   makes visible  that `mend` has corrected the counters and reserved the space
 *   if weakened    a process might see that the file is mended, but use older counters
 *   checked by     mutants/start_is_not_noticed (shows that *boot is read) */
static uint64_t mended_at(const _Atomic uint64_t *boot)
{
  return atomic_load_explicit(boot, memory_order_acquire);
}

/* ORDER live.counted (release)
 *   pairs with     live.boot, whose comment says why
 *   checked by     mutants/not_counted_again (shows that a file must be mended; tests no order) */
static void set_mended_at(_Atomic uint64_t *boot, uint64_t now)
{
  atomic_store_explicit(boot, now, memory_order_release);
}

int tamis__live_file_after_a_start(const struct shared_file *file, _Atomic uint64_t *boot,
                                   int (*mend)(void *context), void *context)
{
  const uint64_t known = tamis__shared_file_boot(), now = known ? known : 1;
  if (mended_at(boot) == now)
    return TAMIS_OK;
  int result = tamis__shared_file_lock(file);
  if (result != TAMIS_OK)
    return result;
  if (mended_at(boot) != now) /* unless another process has mended the file meanwhile */
    result = mend(context);
  if (result == TAMIS_OK)
    set_mended_at(boot, now);
  tamis__shared_file_unlock(file);
  return result;
}
