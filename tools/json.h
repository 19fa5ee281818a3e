/* SPDX-License-Identifier: MIT
 *
 * The value that a JSON pointer (RFC 6901) leads to, in a line that is a JSON text.  The library jansson
 * reads it; the command may be built without it.
 */
#ifndef TAMIS_TOOL_JSON_H
#define TAMIS_TOOL_JSON_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the command has the library. */
bool json_possible(void);

/* Whether this is a pointer: empty, or tokens that each follow a slash, with no ~ but in ~0 and ~1. */
bool json_is_pointer(const char *pointer);

/* Gets the text of the value, as it is in the string, or as a number or a boolean is written. */
typedef bool (*json_taker)(void *context, const char *text, size_t length);

/* Writes the value with as few digits as give the same number again; returns the length. */
int json_write_real(char *text, size_t size, double value);

/* What `take` returns; false if there is no such value, or it has no text: null, an array, an object.  The
 * byte behind the line ends a number. */
bool json_find(const char *pointer, const char *line, size_t length, json_taker take,
               void *context);

#endif
