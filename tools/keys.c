/* SPDX-License-Identifier: MIT */
#include "keys.h"

#include "json.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool key_rules_equal(const struct key_rule *a, const struct key_rule *b)
{
  if (a->mode != b->mode || a->crlf != b->crlf || a->ignore_case != b->ignore_case)
    return false;
  if (a->mode == KEY_REGEX || a->mode == KEY_VALUE)
    return strcmp(a->regex, b->regex) == 0;
  return a->mode == KEY_LINE ||
         (a->field == b->field && a->delimited == b->delimited && a->delimiter == b->delimiter);
}

enum { MATCHES = 2 }; /* all that matches, and its first group */

static size_t wanted_matches(const regex_t *regex)
{
  return regex->re_nsub > 0 ? MATCHES : 1;
}

/* Searches the part of a line that the first match tells.  musl has no REG_STARTEND: there a byte 0 ends the line, and
 * so a line that has one in it cannot be searched. */
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

static int search_part(const regex_t *regex, const char *line, regmatch_t *match, int flags)
{
  return regexec(regex, line, wanted_matches(regex), match, flags | REG_STARTEND);
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

static int search_part(const regex_t *regex, const char *line, regmatch_t *match, int flags)
{
  regoff_t from = match->rm_so;
  int result = regexec(regex, line + from, wanted_matches(regex), match, flags);
  for (size_t i = 0; i < wanted_matches(regex); i++) {
    bool took_part = match[i].rm_so >= 0;
    match[i].rm_so += took_part ? from : 0;
    match[i].rm_eo += took_part ? from : 0;
  }
  return result;
}
#endif

/* A 0 ends the line meanwhile. */
static int search(const regex_t *regex, char *line, regmatch_t *match, int flags)
{
  char *end = line + match->rm_eo, behind = *end;
  *end = '\0';
  int result = search_part(regex, line, match, flags);
  *end = behind;
  return result;
}

bool key_finder_init(struct key_finder *finder, const struct key_rule *rule, char *why, size_t size)
{
  *finder = (struct key_finder){.rule = *rule};
  if (rule->mode == KEY_VALUE && !json_possible()) {
    (void) snprintf(why, size, "tamis was built without jansson");
    return false;
  }
  if (rule->mode == KEY_VALUE && !json_is_pointer(rule->regex)) {
    (void) snprintf(why, size, "'%s' is no JSON pointer, such as /user/id", rule->regex);
    return false;
  }
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
  int error =
      regcomp(&finder->compiled, rule->regex, REG_EXTENDED | (rule->ignore_case ? REG_ICASE : 0));
  if (error != 0)
    regerror(error, &finder->compiled, why, size);
  return error == 0;
}

void key_finder_free(struct key_finder *finder)
{
  if (finder->rule.mode == KEY_REGEX)
    regfree(&finder->compiled);
  free(finder->folded);
}

void key_fold(char *to, const char *from, size_t length)
{
  for (size_t i = 0; i < length; i++)
    to[i] = (char) (from[i] >= 'A' && from[i] <= 'Z' ? from[i] + ('a' - 'A') : from[i]);
}

/* Hands out a key, in lower case if the rule says so. */
static bool give(struct key_finder *finder, const char *key, size_t length, key_taker take,
                 void *context)
{
  if (!finder->rule.ignore_case)
    return take(context, key, length);
  if (length >= finder->room) {
    char *larger = realloc(finder->folded, 2 * length + 1);
    if (larger == NULL) {
      finder->failed = true;
      return false;
    }
    finder->folded = larger;
    finder->room = 2 * length + 1;
  }
  key_fold(finder->folded, key, length);
  return take(context, finder->folded, length);
}

static bool is_blank(char c)
{
  return c == ' ' || c == '\t';
}

static bool take_delimited(struct key_finder *finder, const char *line, size_t length,
                           key_taker take, void *context)
{
  const char *end = line + length, *behind;
  for (uint64_t i = 1;; i++, line = behind + 1) {
    behind = memchr(line, finder->rule.delimiter, (size_t) (end - line));
    if (i == finder->rule.field)
      return give(finder, line, (size_t) ((behind != NULL ? behind : end) - line), take, context);
    if (behind == NULL)
      return false;
  }
}

static bool take_field(struct key_finder *finder, const char *line, size_t length, key_taker take,
                       void *context)
{
  const char *at = line, *end = line + length;
  if (finder->rule.delimited)
    return take_delimited(finder, line, length, take, context);
  for (uint64_t i = 1;; i++) {
    while (at < end && is_blank(*at))
      at++;
    const char *begin = at;
    while (at < end && !is_blank(*at))
      at++;
    if (begin == at)
      return false;
    if (i == finder->rule.field)
      return give(finder, begin, (size_t) (at - begin), take, context);
  }
}

/* Matches do not overlap, and empty ones have no keys: as those of grep -o. */
static bool take_matches(struct key_finder *finder, char *line, size_t length, key_taker take,
                         void *context)
{
  regmatch_t matches[MATCHES] = {{.rm_so = 0, .rm_eo = (regoff_t) length}}, *match = matches;
  const regmatch_t *key = &matches[wanted_matches(&finder->compiled) - 1];
  int flags = 0, result;
  if (length >= INT_MAX || !can_search(line, length)) { /* regoff_t is an int */
    finder->failed = true;
    return false;
  }
  while ((result = search(&finder->compiled, line, match, flags)) == 0) {
    bool is_empty = match->rm_so == match->rm_eo, took_part = key->rm_so >= 0;
    if (!is_empty && took_part &&
        give(finder, line + key->rm_so, (size_t) (key->rm_eo - key->rm_so), take, context))
      return true;
    match->rm_so = match->rm_eo + is_empty;
    match->rm_eo = (regoff_t) length;
    if ((size_t) match->rm_so >= length)
      return false;
    flags = REG_NOTBOL;
  }
  finder->failed |= result != REG_NOMATCH;
  return false;
}

/* Hands out the value through give(). */
struct giver {
  struct key_finder *finder;
  key_taker take;
  void *context;
};

static bool give_value(void *context, const char *key, size_t length)
{
  const struct giver *giver = context;
  return give(giver->finder, key, length, giver->take, giver->context);
}

bool key_finder_each(struct key_finder *finder, char *line, size_t length, key_taker take,
                     void *context)
{
  if (finder->rule.crlf && length > 0 && line[length - 1] == '\r')
    length--;
  switch (finder->rule.mode) {
  case KEY_FIELD:
    return take_field(finder, line, length, take, context);
  case KEY_REGEX:
    return take_matches(finder, line, length, take, context);
  case KEY_VALUE:
    return json_find(finder->rule.regex, line, length, give_value,
                     &(struct giver){finder, take, context});
  default:
    return give(finder, line, length, take, context);
  }
}
