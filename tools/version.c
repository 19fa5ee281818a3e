/* SPDX-License-Identifier: MIT
 *
 * The build passes LIBRARIES and SANITIZERS, and writes COMMIT into a header.
 */
#include "version.h"

#include <commit.h>
#include <tamis/tamis.h>

#include <stdio.h>

#ifdef __clang__
#define COMPILER "" /* its version begins with its name */
#else
#define COMPILER "gcc "
#endif
#if defined(__x86_64__)
#define PROCESSOR "x86-64"
#elif defined(__aarch64__)
#define PROCESSOR "arm64"
#else
#define PROCESSOR "another processor"
#endif
#ifdef __OPTIMIZE__
#define OPTIMISED "optimised"
#else
#define OPTIMISED "not optimised"
#endif
#ifdef NDEBUG
#define ASSERTIONS "without assertions"
#else
#define ASSERTIONS "with assertions"
#endif

void version_print(void)
{
  printf("tamis %s\n"
         "kinds      bloom (layouts blocked, classic, word), cuckoo, counting\n"
         "libraries  %s\n"
         "compiled   by " COMPILER __VERSION__ " for " PROCESSOR ", " OPTIMISED ", " ASSERTIONS
         "%s\n",
         tamis_version(), LIBRARIES, SANITIZERS);
  if (COMMIT[0] != '\0')
    puts("commit     " COMMIT);
}
