/* SPDX-License-Identifier: MIT */
#include "access.h"

#include "base/file.h"
#include "report.h"

#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_MODE = 0x380, KEY_GROUP, OCTAL = 8, DECIMAL = 10, ALL = 0777 };

static tamis_file_access wanted = {0, -1};

static unsigned parse_mode(const char *text)
{
  char *end;
  const unsigned long mode = strtoul(text, &end, OCTAL);
  if (*text < '0' || *text > '7' || *end != '\0' || mode > ALL ||
      (mode & FILE_OWNER_ONLY) != FILE_OWNER_ONLY)
    usage_error("--mode: '%s' is no octal number from 0600 to 0777 with the bits of 0600", text);
  return (unsigned) mode;
}

/* Not by getgrnam(), which a static program cannot call.  -1: there is no such name. */
static int64_t find_group(const char *name)
{
  int64_t found = -1;
  FILE *file = fopen("/etc/group", "re");
  const struct group *group;
  while (file != NULL && found < 0 && (group = fgetgrent(file)) != NULL)
    if (strcmp(group->gr_name, name) == 0)
      found = group->gr_gid;
  if (file != NULL)
    fclose(file);
  return found;
}

static int64_t parse_group(const char *text)
{
  char *end;
  const int64_t named = find_group(text);
  if (named >= 0)
    return named;
  const unsigned long long number = strtoull(text, &end, DECIMAL);
  if (*text < '0' || *text > '9' || *end != '\0' || number >= UINT32_MAX)
    usage_error("--group: there is no group '%s'", text);
  return (int64_t) number;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
  (void) state;
  switch (key) {
  case KEY_MODE:
    wanted.mode = parse_mode(argument);
    return 0;
  case KEY_GROUP:
    wanted.group = parse_group(argument);
    return 0;
  case ARGP_KEY_END:
    if (wanted.group >= 0 && wanted.mode == 0)
      usage_error("--group needs --mode");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option entries[] = {
    {"mode", KEY_MODE, "MODE", 0,
     "Mode of the new file that holds the filter, such as 0640 (default 0600: the filter holds a "
     "secret)",
     1},
    {"group", KEY_GROUP, "GROUP", 0, "Group of that file, by its number, or its name in /etc/group",
     1},
    {NULL, 0, NULL, 0, NULL, 0}};

const struct argp access_argp = {entries, parse, NULL, NULL, NULL, NULL, NULL};

const tamis_file_access *access_given(void)
{
  return wanted.mode > 0 ? &wanted : NULL;
}
