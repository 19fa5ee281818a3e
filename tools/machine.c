/* SPDX-License-Identifier: MIT */
#include "machine.h"

#include <limits.h> /* any header of glibc's defines __GLIBC__ */
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif
#if defined(__GLIBC__) && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define RSEQ (__rseq_size > 0 ? "registered" : "no")
#else
#define RSEQ "not known to the C library"
#endif

static void print_system(void)
{
  struct utsname system;
  if (uname(&system) != 0)
    return;
#ifdef __GLIBC__
  const char *libc = "glibc ", *version = gnu_get_libc_version();
#else
  const char *libc = "another C library", *version = "";
#endif
  printf("system     %s %s, %s, %s%s\n", system.sysname, system.release, system.machine, libc,
         version);
}

static void print_processors(void)
{
  cpu_set_t usable;
  printf("processors %ld online", sysconf(_SC_NPROCESSORS_ONLN));
  if (sched_getaffinity(0, sizeof usable, &usable) == 0)
    printf(", %d for this process", CPU_COUNT(&usable));
  putchar('\n');
}

/* What batches of look-ups may use: lib/base/vector.h. */
static void print_vectors(void)
{
#ifdef __x86_64__
  printf("AVX-512   %s%s%s%s\n", __builtin_cpu_supports("avx512f") ? " F" : " no F",
         __builtin_cpu_supports("avx512bw") ? ", BW" : ", no BW",
         __builtin_cpu_supports("avx512dq") ? ", DQ" : ", no DQ",
         __builtin_cpu_supports("avx512vl") ? ", VL" : ", no VL");
#endif
}

/* The kernel's file has the word that is chosen in brackets. */
static void print_pages(void)
{
  char words[100] = "";
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
  size_t length = file != NULL ? fread(words, 1, sizeof words - 1, file) : 0;
  if (file != NULL)
    fclose(file);
  words[length] = '\0';
  char *chosen = strchr(words, '['), *end = strchr(words, ']');
  printf("pages      %ld bytes; huge ones: ", sysconf(_SC_PAGESIZE));
  if (chosen != NULL && end > chosen)
    printf("%.*s\n", (int) (end - chosen - 1), chosen + 1);
  else
    puts("not known");
}

void machine_print(void)
{
  long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  print_system();
  print_processors();
  print_vectors();
  print_pages();
  printf("membarrier %s\n",
         commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) ? "yes" : "no");
  printf("rseq       %s\n", RSEQ);
}
