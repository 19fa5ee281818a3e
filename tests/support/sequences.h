/* SPDX-License-Identifier: MIT
 *
 * Threads without restartable sequences (base/core_counter.h).
 */
#ifndef TAMIS_TESTS_SEQUENCES_H
#define TAMIS_TESTS_SEQUENCES_H

#include "unit.h"

#include "base/core_counter.h"

#include <sys/syscall.h>

/* Makes the kernel forget the thread's memory for restartable sequences. */
static inline void end_restartable_sequences(void)
{
#ifdef RSEQ_SIG
  enum { LEAST_SIZE = 32, UNREGISTER = 1 };
  const unsigned size = __rseq_size > LEAST_SIZE ? __rseq_size : LEAST_SIZE;
  char *memory = (char *) __builtin_thread_pointer() + __rseq_offset;
  if (__rseq_size > 0)
    assert_int_equal(syscall(SYS_rseq, memory, size, UNREGISTER, RSEQ_SIG), 0);
#endif
}

#endif
