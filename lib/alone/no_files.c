/* SPDX-License-Identifier: MIT
 *
 * Layer 1: shared_file.h and live_file.h on a machine without files.  No file can be opened, so the
 * other functions are never called; they are here for those of the filters that call them.
 */
#include "base/live_file.h"
#include "base/shared_file.h"

#include <errno.h>

static int no_files(void)
{
  errno = ENOSYS;
  return TAMIS_EUNSUPPORTED;
}

void tamis__shared_file_close(struct shared_file *file)
{
  (void) file;
}

uint64_t tamis__shared_file_boot(void)
{
  return 0;
}

int tamis__shared_file_open_anew(struct shared_file *file, int fd)
{
  (void) file, (void) fd;
  return no_files();
}

int tamis__shared_file_look(struct shared_file *file)
{
  (void) file;
  return no_files();
}

int tamis__shared_file_claim(const struct shared_file *file, uint64_t offset)
{
  (void) file, (void) offset;
  return no_files();
}

bool tamis__shared_file_is_claimed(const struct shared_file *file, uint64_t offset, uint64_t n)
{
  (void) file, (void) offset, (void) n;
  return false;
}

int tamis__shared_file_lock(const struct shared_file *file)
{
  (void) file;
  return no_files();
}

void tamis__shared_file_unlock(const struct shared_file *file)
{
  (void) file;
}

int tamis__shared_file_map(struct shared_file *file)
{
  (void) file;
  return no_files();
}

int tamis__shared_file_reserve(const struct shared_file *file, uint64_t begin, uint64_t end,
                               struct refused_space *last)
{
  (void) file, (void) begin, (void) end, (void) last;
  return no_files();
}

int tamis__shared_file_sync(const struct shared_file *file, uint64_t end)
{
  (void) file, (void) end;
  return no_files();
}

int tamis__shared_file_flush(const struct shared_file *file)
{
  (void) file;
  return no_files();
}

int64_t tamis__file_part_read(void *part, void *data, size_t size)
{
  (void) part, (void) data, (void) size;
  no_files();
  return -1;
}

int tamis__file_part_write(void *part, const void *data, size_t size)
{
  (void) part, (void) data, (void) size;
  return no_files();
}

int tamis__live_file_write(const struct live_file *new, struct shared_file *file)
{
  (void) new, (void) file;
  return no_files();
}

int tamis__live_file_after_a_start(const struct shared_file *file, _Atomic uint64_t *boot,
                                   int (*mend)(void *context), void *context)
{
  (void) file, (void) boot, (void) mend, (void) context;
  return no_files();
}
