/* SPDX-License-Identifier: MIT
 *
 * By the kernel's own header: musl has statx only since 1.2.4, and headers of the C library that define the same
 * things are not to be included beside it.
 */
#include "mount.h"

#include <linux/fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

bool is_mount_point(const char *path)
{
  struct statx status;
  return syscall(SYS_statx, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, 0, &status) == 0 &&
         (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}
