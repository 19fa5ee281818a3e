/* SPDX-License-Identifier: MIT
 *
 * System calls that are made again when a signal has interrupted them.  glibc has this macro; other C libraries
 * do not.
 */
#ifndef TAMIS_TOOL_RETRY_H
#define TAMIS_TOOL_RETRY_H

#include <errno.h>
#include <unistd.h>

#ifndef TEMP_FAILURE_RETRY
#define TEMP_FAILURE_RETRY(call)                    \
  __extension__({                                   \
    long result_of_call;                            \
    do                                              \
      result_of_call = (long) (call);               \
    while (result_of_call == -1 && errno == EINTR); \
    result_of_call;                                 \
  })
#endif

#endif
