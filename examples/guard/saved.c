/* SPDX-License-Identifier: MIT */
#include "saved.h"

#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool same_log(const struct log_identity *a, const struct log_identity *b)
{
  return a->system == b->system && a->timeline == b->timeline && a->publication == b->publication &&
         a->entry == b->entry && a->column == b->column;
}

static void name_file(char *name, size_t size, const char *slot, const struct log_identity *log,
                      uint64_t at)
{
  snprintf(name, size,
           "%s.%" PRIu64 "-%" PRIu32 "-%" PRIu32 "-%" PRIu32 "-%" PRIu32 ".%016" PRIX64 ".tamis",
           slot, log->system, log->timeline, log->publication, log->entry, log->column, at);
}

/* Whether it is a file of this slot; its position, if it is a whole one of this log, else 0. */
static bool is_ours(const char *name, const char *slot, const struct log_identity *log,
                    uint64_t *at)
{
  size_t length = strlen(slot);
  if (strncmp(name, slot, length) != 0 || name[length] != '.' || strstr(name, ".tamis") == NULL)
    return false;
  char expected[NAME_MAX + 1];
  const char *dot = strchr(name + length + 1, '.');
  *at = 0;
  if (sscanf(dot + 1, "%16" SCNx64, at) == 1) {
    name_file(expected, sizeof expected, slot, log, *at);
    if (strcmp(name, expected) != 0)
      *at = 0;
  }
  return true;
}

static void say_result(const char *what, const char *path, int result)
{
  say("cannot %s %s: %s", what, path,
      result == TAMIS_EIO ? strerror(errno) : tamis_strerror(result));
}

bool saved_load(const char *folder, const char *slot, const struct log_identity *log,
                tamis_filter **filter, uint64_t *at)
{
  char path[PATH_MAX], best[NAME_MAX + 1] = "";
  DIR *open = opendir(folder);
  *at = 0;
  for (struct dirent *entry; open != NULL && (entry = readdir(open)) != NULL;) {
    uint64_t found;
    if (is_ours(entry->d_name, slot, log, &found) && found > *at) {
      *at = found;
      strcpy(best, entry->d_name);
    }
  }
  if (open != NULL)
    closedir(open);
  if (*at == 0)
    return false;
  snprintf(path, sizeof path, "%s/%s", folder, best);
  int result = tamis_load_file(NULL, path, filter);
  if (result != TAMIS_OK)
    say_result("load", path, result);
  return result == TAMIS_OK;
}

/* Older files, those of other logs, and unfinished ones that a killed process has left. */
static void delete_others(const char *folder, const char *slot, const struct log_identity *log,
                          uint64_t kept)
{
  char path[PATH_MAX];
  DIR *open = opendir(folder);
  for (struct dirent *entry; open != NULL && (entry = readdir(open)) != NULL;) {
    uint64_t found;
    if (is_ours(entry->d_name, slot, log, &found) && found != kept) {
      snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
      unlink(path);
    }
  }
  if (open != NULL)
    closedir(open);
}

bool saved_store(const char *folder, const char *slot, const struct log_identity *log,
                 const tamis_filter *filter, uint64_t at)
{
  char name[NAME_MAX + 1], path[PATH_MAX];
  name_file(name, sizeof name, slot, log, at);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int result = tamis_save_file(filter, path);
  if (result != TAMIS_OK) {
    say_result("save", path, result);
    return false;
  }
  delete_others(folder, slot, log, at);
  return true;
}
