/* SPDX-License-Identifier: MIT */
#include "blocklist.h"

#include "guard.h"

#include <errno.h>
#include <string.h>

void blocklist_init(struct blocklist *list, const char *path)
{
  *list = (struct blocklist){.path = path};
  shared_filter_init(&list->filter);
}

void blocklist_destroy(struct blocklist *list)
{
  shared_filter_destroy(&list->filter);
}

static bool is_other(const struct stat *a, const struct stat *b)
{
  return a->st_ino != b->st_ino || a->st_dev != b->st_dev || a->st_size != b->st_size ||
         a->st_mtim.tv_sec != b->st_mtim.tv_sec || a->st_mtim.tv_nsec != b->st_mtim.tv_nsec;
}

bool blocklist_refresh(struct blocklist *list, bool always)
{
  struct stat status;
  if (list->path == NULL)
    return true;
  if (stat(list->path, &status) != 0) {
    say("the list %s: %s", list->path, strerror(errno));
    return list->loads > 0;
  }
  if (!always && list->loads + list->failures > 0 && !is_other(&status, &list->status))
    return list->loads > 0;
  list->status = status;
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  tamis_filter *filter;
  options.check_all = true; /* damaged bits would let blocked clients in */
  int result = tamis_map_file(&options, list->path, &filter);
  if (result == TAMIS_EUNSUPPORTED) /* a cuckoo filter that grows cannot be mapped */
    result = tamis_load_file(NULL, list->path, &filter);
  if (result != TAMIS_OK || !filter_replace(&list->filter, filter)) {
    say("the list %s cannot be used, the old one stays: %s", list->path,
        result == TAMIS_EIO ? strerror(errno) : tamis_strerror(result));
    list->failures++;
    return list->loads > 0;
  }
  list->loads++;
  say("a new list from %s", list->path);
  return true;
}

bool blocklist_has(struct blocklist *list, const char *word)
{
  struct held_filter *held = filter_hold(&list->filter);
  bool has = held != NULL && tamis_contains(held->filter, word, strlen(word));
  filter_release(&list->filter, held);
  return has;
}
