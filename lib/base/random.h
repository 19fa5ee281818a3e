/* SPDX-License-Identifier: MIT
 *
 * Layer 1: random bytes from the system.
 */
#ifndef TAMIS_LIB_RANDOM_H
#define TAMIS_LIB_RANDOM_H

#include "base/cancel.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/random.h>

/* Returns false if the system has no getrandom(), as before Linux 3.17, or if a sandbox forbids it.
 *   Blocks  until the kernel has gathered enough randomness after its start */
static inline bool random_bytes(void *to, size_t size)
{
  ssize_t got;
  do {
    got = UNCANCELLED(getrandom(to, size, 0));
  } while (got < 0 && errno == EINTR);
  return got == (ssize_t) size;
}

#endif
