/* SPDX-License-Identifier: MIT */
#include "keys.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

bool key_rules_equal(const struct key_rule *a, const struct key_rule *b)
{
  if (a->mode != b->mode)
    return false;
  return a->mode == KEY_FIELD   ? a->field == b->field
         : a->mode == KEY_REGEX ? strcmp(a->regex, b->regex) == 0
                                : true;
}

/* Searches the part of a line that `match` tells.  musl has no REG_STARTEND: there a byte 0 ends the line, and so a
 * line that has one in it cannot be searched. */
#ifdef REG_STARTEND
static bool can_go_on(const char *regex)
{
  (void) regex;
  return true;
}

static bool can_search(const char *line, size_t length)
{
  (void) line, (void) length;
  return true;
}

static int search(const regex_t *regex, const char *line, regmatch_t *match, int flags)
{
  return regexec(regex, line, 1, match, flags | REG_STARTEND);
}
#else
/* Behind a match the search takes what follows for the beginning of a line, and so of a word. */
static bool can_go_on(const char *regex)
{
  for (; (regex = strchr(regex, '\\')) != NULL && regex[1] != '\0'; regex += 2)
    if (strchr("<>bB", regex[1]) != NULL)
      return false;
  return true;
}

static bool can_search(const char *line, size_t length)
{
  return memchr(line, 0, length) == NULL;
}

static int search(const regex_t *regex, const char *line, regmatch_t *match, int flags)
{
  regoff_t from = match->rm_so;
  int result = regexec(regex, line + from, 1, match, flags);
  match->rm_so += from;
  match->rm_eo += from;
  return result;
}
#endif

bool key_finder_init(struct key_finder *finder, const struct key_rule *rule, char *why, size_t size)
{
  *finder = (struct key_finder){.rule = *rule};
  if (rule->mode != KEY_REGEX)
    return true;
  /* The C library's parser calls itself for each parenthesis. */
  if (strlen(rule->regex) > KEY_REGEX_MOST) {
    (void) snprintf(why, size, "it is longer than %d bytes", KEY_REGEX_MOST);
    return false;
  }
  if (!can_go_on(rule->regex)) {
    (void) snprintf(why, size, "\\<, \\>, \\b and \\B need another C library than this one");
    return false;
  }
  int error = regcomp(&finder->compiled, rule->regex, REG_EXTENDED);
  if (error != 0)
    regerror(error, &finder->compiled, why, size);
  return error == 0;
}

void key_finder_free(struct key_finder *finder)
{
  if (finder->rule.mode == KEY_REGEX)
    regfree(&finder->compiled);
}

static bool is_blank(char c)
{
  return c == ' ' || c == '\t';
}

static bool take_field(uint64_t field, const char *line, size_t length, key_taker take,
                       void *context)
{
  const char *at = line, *end = line + length;
  for (uint64_t i = 1;; i++) {
    while (at < end && is_blank(*at))
      at++;
    const char *begin = at;
    while (at < end && !is_blank(*at))
      at++;
    if (begin == at)
      return false;
    if (i == field)
      return take(context, begin, (size_t) (at - begin));
  }
}

/* Matches do not overlap, and empty ones are no keys: as those of grep -o. */
static bool take_matches(struct key_finder *finder, const char *line, size_t length, key_taker take,
                         void *context)
{
  regmatch_t match = {.rm_so = 0, .rm_eo = (regoff_t) length};
  int flags = 0, result;
  if (length >= INT_MAX || !can_search(line, length)) { /* regoff_t is an int */
    finder->failed = true;
    return false;
  }
  while ((result = search(&finder->compiled, line, &match, flags)) == 0) {
    bool is_empty = match.rm_so == match.rm_eo;
    if (!is_empty && take(context, line + match.rm_so, (size_t) (match.rm_eo - match.rm_so)))
      return true;
    match.rm_so = match.rm_eo + is_empty;
    match.rm_eo = (regoff_t) length;
    if ((size_t) match.rm_so >= length)
      return false;
    flags = REG_NOTBOL;
  }
  finder->failed |= result != REG_NOMATCH;
  return false;
}

bool key_finder_each(struct key_finder *finder, const char *line, size_t length, key_taker take,
                     void *context)
{
  switch (finder->rule.mode) {
  case KEY_FIELD:
    return take_field(finder->rule.field, line, length, take, context);
  case KEY_REGEX:
    return take_matches(finder, line, length, take, context);
  default:
    return take(context, line, length);
  }
}
