/* SPDX-License-Identifier: MIT
 *
 * Layer 1: shared_file.h on a machine without files.  No file can be opened, so functions that need
 * an open file are never called: they only must exist.
 */
#include "base/shared_file.h"

#include <errno.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

static int no_files(void)
{
  errno = ENOSYS;
  return TAMIS_EUNSUPPORTED;
}

#define NO_FILES(name, ...) \
  int name(__VA_ARGS__)     \
  {                         \
    return no_files();      \
  }
NO_FILES(tamis__shared_file_open_anew, struct shared_file *file, int fd)
NO_FILES(tamis__shared_file_look, struct shared_file *file)
NO_FILES(tamis__shared_file_claim, const struct shared_file *file, uint64_t offset)
NO_FILES(tamis__shared_file_lock, const struct shared_file *file)
NO_FILES(tamis__shared_file_map, struct shared_file *file)
NO_FILES(tamis__shared_file_reserve, const struct shared_file *file, uint64_t begin, uint64_t end,
         struct refused_space *last)
NO_FILES(tamis__shared_file_sync, const struct shared_file *file, uint64_t end)
NO_FILES(tamis__shared_file_flush, const struct shared_file *file)
NO_FILES(tamis__file_part_write, void *part, const void *data, size_t size)
NO_FILES(tamis__live_file_write, const struct live_file *new, struct shared_file *file)
NO_FILES(tamis__live_file_after_a_start, const struct shared_file *file, _Atomic uint64_t *boot,
         int (*mend)(void *context), void *context)

int64_t tamis__file_part_read(void *part, void *data, size_t size)
{
  no_files();
  return -1;
}

bool tamis__shared_file_is_claimed(const struct shared_file *file, uint64_t offset, uint64_t n)
{
  return false;
}

uint64_t tamis__shared_file_boot(void)
{
  return 0;
}

void tamis__shared_file_unlock(const struct shared_file *file)
{
}

void tamis__shared_file_close(struct shared_file *file)
{
}
