/* SPDX-License-Identifier: MIT */
#ifndef TAMIS_TOOL_MOUNT_H
#define TAMIS_TOOL_MOUNT_H

#include <stdbool.h>

/* Whether something is mounted on the file, which therefore cannot be replaced.  False where the kernel does not
 * say so (before Linux 5.8). */
bool is_mount_point(const char *path);

#endif
