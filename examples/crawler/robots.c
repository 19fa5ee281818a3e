/* SPDX-License-Identifier: MIT */
#include "robots.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "url.h"

struct rule {
  bool allow;
  char *pattern;
  size_t len; /* of the pattern as written: the longest one decides */
};

struct robots {
  struct rule *rules;
  size_t n, room;
  double delay;
};

struct line {
  char *field, *value;
};

void robots_free(struct robots *r)
{
  if (!r)
    return;
  for (size_t i = 0; i < r->n; i++)
    free(r->rules[i].pattern);
  free(r->rules);
  free(r);
}

static bool add_rule(struct robots *r, bool allow, const char *pattern)
{
  if (r->n == r->room) {
    size_t room = r->room ? 2 * r->room : 16;
    struct rule *more = realloc(r->rules, room * sizeof *more);
    if (!more)
      return false;
    r->rules = more, r->room = room;
  }
  char *copy = strdup(pattern);
  if (!copy)
    return false;
  url_unify_escapes(copy);
  r->rules[r->n++] = (struct rule){allow, copy, strlen(copy)};
  return true;
}

static char *trimmed(char *text)
{
  text += strspn(text, " \t");
  size_t len = strlen(text);
  while (len > 0 && strchr(" \t", text[len - 1]))
    len--;
  text[len] = '\0';
  return text;
}

/* Takes the next "field: value" from *text, in place; false at the end. */
static bool next_line(char **text, struct line *line)
{
  while (**text != '\0') {
    char *begin = *text;
    size_t len = strcspn(begin, "\r\n");
    *text = begin + len + (begin[len] != '\0');
    begin[len] = '\0';
    begin[strcspn(begin, "#")] = '\0';
    char *colon = strchr(begin, ':');
    if (!colon)
      continue;
    *colon = '\0';
    line->field = trimmed(begin), line->value = trimmed(colon + 1);
    return true;
  }
  return false;
}

/* A product token is letters, - and _; what follows it in the line, as a version, does not
 * count. */
static bool names(const char *value, const char *agent)
{
  size_t len = strlen(agent);
  return strncasecmp(value, agent, len) == 0 && !isalpha((unsigned char) value[len]) &&
         value[len] != '-' && value[len] != '_';
}

/* Reads the rules of all groups that are for `agent`; of those for *, if agent is "*".  Returns how
 * many groups these are, or -1 if there is no memory. */
static int read_groups(struct robots *r, char *text, const char *agent)
{
  struct line line;
  int groups = 0;
  bool ours = false, in_heading = false;
  while (next_line(&text, &line)) {
    if (strcasecmp(line.field, "user-agent") == 0) {
      if (!in_heading)
        ours = false; /* a rule came before: this line begins another group */
      in_heading = true;
      bool matches = *agent == '*' ? strcmp(line.value, "*") == 0 : names(line.value, agent);
      groups += matches && !ours;
      ours |= matches;
      continue;
    }
    bool allow = strcasecmp(line.field, "allow") == 0;
    if (allow || strcasecmp(line.field, "disallow") == 0) {
      in_heading = false;
      /* An empty rule matches nothing. */
      if (ours && *line.value != '\0' && !add_rule(r, allow, line.value))
        return -1;
    } else if (strcasecmp(line.field, "crawl-delay") == 0) {
      in_heading = false;
      double delay = strtod(line.value, NULL);
      if (ours && delay > r->delay)
        r->delay = delay;
    } /* others, such as Sitemap, belong to no group */
  }
  return groups;
}

struct robots *robots_parse(const char *text, size_t size, const char *agent)
{
  if (size > ROBOTS_MOST)
    size = ROBOTS_MOST;
  if (size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
    text += 3, size -= 3;
  struct robots *r = calloc(1, sizeof *r);
  int groups = 0;
  for (int round = 0; r && round < 2 && groups == 0; round++) {
    char *copy = strndup(text, size); /* up to a 0 byte, which no text has */
    groups = copy ? read_groups(r, copy, round == 0 ? agent : "*") : -1;
    free(copy);
  }
  if (groups < 0) {
    robots_free(r);
    r = NULL;
  }
  return r;
}

/* Whether the pattern matches a beginning of the target; * is any text, and $ at the end of the
 * pattern is the end of the target.  When a part after a * does not fit, the part is tried one byte
 * further.  An earlier * need not be tried again: the earliest fit of what lies between two of them
 * leaves the most room.  So the time is at most the product of both lengths. */
static bool matches(const char *pattern, const char *target)
{
  const char *star = NULL, *from = NULL;
  for (;;) {
    bool end = pattern[0] == '$' && pattern[1] == '\0';
    if (*pattern == '*') {
      star = ++pattern, from = target;
    } else if (*pattern == '\0' || (end && *target == '\0')) {
      return true;
    } else if (!end && *target != '\0' && *pattern == *target) {
      pattern++, target++;
    } else if (star && *from != '\0') {
      pattern = star, target = ++from;
    } else {
      return false;
    }
  }
}

bool robots_allow(const struct robots *r, const char *target)
{
  size_t longest = 0;
  bool allow = true;
  if (strcmp(target, "/robots.txt") == 0)
    return true;
  for (size_t i = 0; i < r->n; i++) {
    const struct rule *rule = &r->rules[i];
    /* Of two that are equally long, the one that allows wins. */
    bool decides = rule->len > longest || (rule->len == longest && rule->allow && !allow);
    if (decides && matches(rule->pattern, target))
      longest = rule->len, allow = rule->allow;
  }
  return allow;
}

double robots_delay(const struct robots *r)
{
  return r->delay;
}
