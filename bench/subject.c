/* SPDX-License-Identifier: MIT */
#include "subject.h"

#include <string.h>

static unsigned count(const struct subject *list)
{
  unsigned n = 0;
  while (list[n].name)
    n++;
  return n;
}

const struct subject *subject_number(unsigned n)
{
  enum { LISTS = 3 };
  const struct subject *const lists[LISTS] = {tamis_subjects, bloom_subjects, machine_subjects};
  for (unsigned i = 0; exact_subjects[i]; i++, n--)
    if (n == 0)
      return exact_subjects[i];
  for (unsigned i = 0; i < LISTS; i++) {
    if (n < count(lists[i]))
      return &lists[i][n];
    n -= count(lists[i]);
  }
  return NULL;
}

const struct subject *subject_find(const char *name)
{
  const struct subject *subject;
  for (unsigned n = 0; (subject = subject_number(n)); n++)
    if (strcmp(subject->name, name) == 0)
      return subject;
  return NULL;
}
