/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool json_is_pointer(const char *pointer)
{
  if (*pointer != '/' && *pointer != '\0')
    return false;
  for (; (pointer = strchr(pointer, '~')) != NULL; pointer++)
    if (pointer[1] != '0' && pointer[1] != '1')
      return false;
  return true;
}

int json_write_real(char *text, size_t size, double value)
{
  int digits = 15, length;
  do
    length = snprintf(text, size, "%.*g", digits++, value);
  while (digits <= 17 && strtod(text, NULL) != value);
  return length;
}

#ifndef HAVE_JANSSON
bool json_possible(void)
{
  return false;
}

bool json_find(const char *pointer, const char *line, size_t length, json_taker take, void *context)
{
  (void) pointer, (void) line, (void) length, (void) take, (void) context;
  return false;
}
#else
#include <jansson.h>

bool json_possible(void)
{
  return true;
}

/* Copies the token behind the slash at `from`, as it is meant; returns where it ends. */
static const char *read_token(char *to, const char *from)
{
  for (from++; *from != '/' && *from != '\0'; from++, to++) {
    *to = *from;
    if (*from == '~')
      *to = *++from == '0' ? '~' : '/';
  }
  *to = '\0';
  return from;
}

static json_t *element(const json_t *array, const char *token)
{
  size_t digits = strspn(token, "0123456789");
  if (digits == 0 || digits > 9 || token[digits] != '\0' || (digits > 1 && token[0] == '0'))
    return NULL;
  return json_array_get(array, strtoul(token, NULL, 10));
}

static const json_t *follow(const json_t *value, const char *pointer, char *token)
{
  while (value != NULL && *pointer != '\0') {
    pointer = read_token(token, pointer);
    value = json_is_array(value) ? element(value, token) : json_object_get(value, token);
  }
  return value;
}

static bool give(const json_t *value, json_taker take, void *context)
{
  char number[64];
  if (json_is_string(value))
    return take(context, json_string_value(value), json_string_length(value));
  if (json_is_boolean(value))
    return json_is_true(value) ? take(context, "true", 4) : take(context, "false", 5);
  if (!json_is_number(value))
    return false;
  int length = json_is_integer(value)
                   ? snprintf(number, sizeof number, "%jd", (intmax_t) json_integer_value(value))
                   : json_write_real(number, sizeof number, json_real_value(value));
  return take(context, number, (size_t) length);
}

/* Where the character, the escape or the number at `at` ends. */
static const char *end_of(const char *at, bool in_string)
{
  if (in_string && *at == '\\')
    return at + 2;
  size_t number =
      in_string || strchr("-0123456789", *at) == NULL ? 0 : strspn(at, "-0123456789+.eE");
  return at + (number > 0 ? number : 1);
}

static size_t digits_at(const char *at)
{
  return strspn(at, "0123456789");
}

/* Whether jansson may refuse the number between these, as it is an integer of so many digits or no finite real. */
static bool is_large(const char *at, const char *end)
{
  enum { LARGE = 19 };
  const char *first = at + (*at == '-'), *behind = first + digits_at(first);
  bool whole = behind == end, good = behind > first && (*first != '0' || behind == first + 1);
  if (*behind == '.') {
    good &= digits_at(behind + 1) > 0;
    behind += 1 + digits_at(behind + 1);
  }
  if (*behind == 'e' || *behind == 'E') {
    behind += 1 + (behind[1] == '-' || behind[1] == '+');
    good &= digits_at(behind) > 0;
    behind += digits_at(behind);
  }
  return good && behind == end && (whole ? end - first >= LARGE : isinf(strtod(at, NULL)) != 0);
}

/* A copy in which numbers that jansson may refuse are strings. */
static char *with_strings(const char *line, size_t *length)
{
  enum { SHORTEST = 5 }; /* such as 1e309 */
  bool in_string = false;
  const char *end = line + *length, *behind;
  char *copy = malloc(*length + *length / SHORTEST * 2 + 1), *to = copy;
  for (const char *at = line; copy != NULL && at < end; at = behind) {
    behind = end_of(at, in_string);
    behind = behind < end ? behind : end;
    in_string ^= *at == '"';
    bool large = !in_string && is_large(at, behind);
    to = mempcpy(to, "\"", large);
    to = mempcpy(to, at, (size_t) (behind - at));
    to = mempcpy(to, "\"", large);
  }
  *length = (size_t) (to - copy);
  return copy;
}

static json_t *load(const char *line, size_t length)
{
  const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
  json_t *root = json_loadb(line, length, flags, NULL);
  char *copy = root == NULL ? with_strings(line, &length) : NULL;
  if (copy != NULL)
    root = json_loadb(copy, length, flags, NULL);
  free(copy);
  return root;
}

bool json_find(const char *pointer, const char *line, size_t length, json_taker take, void *context)
{
  char *token = malloc(strlen(pointer) + 1);
  json_t *root = token == NULL ? NULL : load(line, length);
  bool taken = root != NULL && give(follow(root, pointer, token), take, context);
  json_decref(root);
  free(token);
  return taken;
}
#endif
