/* SPDX-License-Identifier: MIT */
#include "names.h"

#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool no_memory(void)
{
  fail("out of memory");
  return false;
}

/* Takes over the name, which may be NULL if there was no memory for it. */
static bool take(struct names *names, char *name)
{
  if (name != NULL && names->count == names->room) {
    size_t room = 2 * names->room + 64;
    char **grown = reallocarray(names->at, room, sizeof *grown);
    if (grown == NULL) {
      free(name);
      return no_memory();
    }
    names->at = grown;
    names->room = room;
  }
  if (name == NULL)
    return no_memory();
  names->at[names->count++] = name;
  return true;
}

bool names_add(struct names *names, const char *name)
{
  return take(names, strdup(name));
}

static char *path_of(const char *folder, const char *name)
{
  char *path;
  size_t length = strlen(folder);
  bool slash = length > 0 && folder[length - 1] == '/';
  return asprintf(&path, "%s%s%s", folder, slash ? "" : "/", name) < 0 ? NULL : path;
}

bool names_add_in(struct names *names, const char *folder, const char *name)
{
  return take(names, path_of(folder, name));
}

static int compare(const void *a, const void *b)
{
  return strcmp(*(const char *const *) a, *(const char *const *) b);
}

char **names_sorted(const struct names *names, size_t from)
{
  size_t count = names->count - from;
  char **sorted = calloc(count + 1, sizeof *sorted);
  if (sorted == NULL) {
    no_memory();
    return NULL;
  }
  for (size_t i = 0; i < count; i++)
    sorted[i] = names->at[from + i];
  qsort(sorted, count, sizeof *sorted, compare);
  return sorted;
}

bool names_have(char **sorted, size_t count, const char *name)
{
  return bsearch(&name, sorted, count, sizeof *sorted, compare) != NULL;
}

void names_free(struct names *names)
{
  for (size_t i = 0; i < names->count; i++)
    free(names->at[i]);
  free(names->at);
  *names = (struct names){.at = NULL};
}

/* ---- lists ---- */

static bool read_names(struct names *names, FILE *list, char end)
{
  char *name = NULL;
  size_t room = 0;
  bool good = true;
  for (ssize_t got; good && (got = getdelim(&name, &room, end, list)) > 0;) {
    size_t length = (size_t) got - (name[got - 1] == end);
    name[length] = '\0';
    good = length == 0 || (strlen(name) == length && names_add(names, name));
    if (strlen(name) < length)
      fail("a name in the list has a byte 0: use --null");
  }
  free(name);
  return good;
}

bool names_read(struct names *names, const char *path, char end)
{
  bool standard = strcmp(path, "-") == 0;
  FILE *list = standard ? stdin : fopen(path, "re");
  if (list == NULL) {
    fail("cannot open '%s': %s", path, strerror(errno));
    return false;
  }
  bool good = read_names(names, list, end);
  if (ferror(list))
    fail("cannot read '%s': %s", standard ? "standard input" : path, strerror(errno));
  good = good && !ferror(list);
  if (!standard)
    fclose(list);
  return good;
}

/* ---- folders ---- */

static int is_listed(const struct dirent *entry)
{
  return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

/* Adds what is in a folder to the files and to the folders. */
static bool list_folder(struct names *files, struct names *folders, const char *folder)
{
  struct dirent **found;
  struct stat status;
  bool good = true;
  int count = scandir(folder, &found, is_listed, alphasort);
  if (count < 0) {
    fail("cannot open '%s': %s", folder, strerror(errno));
    return true;
  }
  for (int i = 0; i < count; i++) {
    char *path = good ? path_of(folder, found[i]->d_name) : NULL;
    bool known = path != NULL && lstat(path, &status) == 0;
    good = good && (path != NULL || no_memory());
    if (known && S_ISDIR(status.st_mode))
      good = take(folders, path);
    else if (known && S_ISREG(status.st_mode))
      good = take(files, path);
    else
      free(path);
    free(found[i]);
  }
  free(found);
  return good;
}

bool names_walk(struct names *names, const char *folder)
{
  struct names folders = {.at = NULL};
  bool good = names_add(&folders, folder);
  for (size_t i = 0; good && i < folders.count; i++)
    good = list_folder(names, &folders, folders.at[i]);
  names_free(&folders);
  return good;
}
