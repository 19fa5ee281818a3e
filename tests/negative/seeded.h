/* SPDX-License-Identifier: MIT */
/* Which of many seeded bugs this process has: the first line of each file in which `seed merge` has put
 * some.  It includes nothing, because macros of the file that follows choose what that would declare. */
#ifndef SEEDED_BUG
#define SEEDED_BUG(number) __builtin_expect(tamis__seeded_bug == (number), 0)

char *getenv(const char *name);
int atoi(const char *text);

/* One in each program or library. */
__attribute__((weak, visibility("hidden"))) int tamis__seeded_bug;

/* Before the library's own constructors. */
__attribute__((constructor(101))) static void choose_seeded_bug(void)
{
  const char *number = getenv("TAMIS_SEEDED_BUG");
  tamis__seeded_bug = number ? atoi(number) : 0;
}

#endif
