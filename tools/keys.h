/* SPDX-License-Identifier: MIT
 *
 * What the keys of a line are: the line itself, one of its fields, what a regular expression matches in
 * it, or a value in JSON.  A line may have none.
 */
#ifndef TAMIS_TOOL_KEYS_H
#define TAMIS_TOOL_KEYS_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum key_mode { KEY_LINE, KEY_FIELD, KEY_REGEX, KEY_VALUE, KEY_MODES };

enum { KEY_REGEX_MOST = 4096 }; /* bytes of an expression */

struct key_rule {
  enum key_mode mode;
  uint64_t field; /* from 1 on */
  bool delimited; /* `delimiter` ends each field, as for cut; otherwise blanks do, as for awk */
  char delimiter;
  const char *
      regex; /* extended, of POSIX; its first group is the key, or all that matches.  Or a pointer */
  bool crlf;        /* a carriage return at the end of a line is no part of it */
  bool ignore_case; /* of the letters A to Z */
};

/* Whether the only key of a line is the line itself, as it stands. */
static inline bool key_rule_is_plain(const struct key_rule *rule)
{
  return rule->mode == KEY_LINE && !rule->crlf && !rule->ignore_case;
}

bool key_rules_equal(const struct key_rule *a, const struct key_rule *b);

/* A rule made ready; each thread has its own. */
struct key_finder {
  struct key_rule rule;
  regex_t compiled;
  char *folded; /* a copy of a key, in lower case */
  size_t room;
  bool failed; /* a line could not be searched, as it is too long or there is no memory: it may have
                  keys that were not handed out */
};

/* What fail() says of such a file, whose name it gets. */
#ifdef REG_STARTEND
#define KEY_TOO_MUCH "a line has 2 GiB or more"
#else
#define KEY_TOO_MUCH "a line has a byte 0, or 2 GiB or more"
#endif
#define KEY_FAILED "cannot search '%s' for keys: " KEY_TOO_MUCH ", or there is no memory"

/* False: the expression is wrong, and `why` has a sentence of libc. */
bool key_finder_init(struct key_finder *finder, const struct key_rule *rule, char *why,
                     size_t size);
void key_finder_free(struct key_finder *finder);

/* Gets a key; true: it wants no further one. */
typedef bool (*key_taker)(void *context, const char *key, size_t length);

/* Hands out the keys of a line, behind which is a byte that may be written for a while, until one call
 * of `take` returns true; returns whether one has. */
bool key_finder_each(struct key_finder *finder, char *line, size_t length, key_taker take,
                     void *context);

/* Makes the letters A to Z lower ones. */
void key_fold(char *to, const char *from, size_t length);

#endif
