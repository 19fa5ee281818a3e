/* SPDX-License-Identifier: MIT
 *
 * Names of files: those of the command line, those in a list, and those of what folders hold.
 */
#ifndef TAMIS_TOOL_NAMES_H
#define TAMIS_TOOL_NAMES_H

#include <stdbool.h>
#include <stddef.h>

struct names {
  char **at;
  size_t count, room;
};

/* A copy.  False after fail(), as the others. */
bool names_add(struct names *names, const char *name);

/* That of a file in a folder. */
bool names_add_in(struct names *names, const char *folder, const char *name);

/* Adds the names in a file, each of which ends with the byte `end`; "-" is standard input. */
bool names_read(struct names *names, const char *path, char end);

/* Adds the regular files in the folder and in those below it, sorted by name in each.  Symbolic links in
 * it are not followed.  One that cannot be read is recorded with fail(), and the others are. */
bool names_walk(struct names *names, const char *folder);

/* Those from `from` on, sorted, for names_have(); the caller frees the array alone.  NULL after fail(). */
char **names_sorted(const struct names *names, size_t from);

bool names_have(char **sorted, size_t count, const char *name);

void names_free(struct names *names);

#endif
