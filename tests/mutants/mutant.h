/* SPDX-License-Identifier: MIT */
/* Which of many mutants this process has: the first line of each file in which `mutate merge` has put
 * some.  It includes nothing, because macros of the file that follows choose what that would declare. */
#ifndef MUTANT
#define MUTANT(number) __builtin_expect(tamis__mutant == (number), 0)

char *getenv(const char *name);
int atoi(const char *text);

/* One in each program or library. */
__attribute__((weak, visibility("hidden"))) int tamis__mutant;

/* Before the library's own constructors. */
__attribute__((constructor(101))) static void choose_mutant(void)
{
  const char *number = getenv("TAMIS_MUTANT");
  tamis__mutant = number ? atoi(number) : 0;
}

#endif
