/* SPDX-License-Identifier: MIT */
/* Included before every C file of a build that has many seeded bugs (seed, beside this file): which of them
 * this process has.  Without includes, because a file's own macros choose what those declare. */
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
