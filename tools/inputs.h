/* SPDX-License-Identifier: MIT
 *
 * The files named on the command line: checked before anything is read or written.
 */
#ifndef TAMIS_TOOL_INPUTS_H
#define TAMIS_TOOL_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct input {
  const char *name; /* for messages */
  const char *path; /* NULL: standard input */
  dev_t device;
  ino_t inode;
  bool sized;     /* false: a pipe, a file of /proc */
  uint64_t start; /* not 0 if standard input has been read before */
  uint64_t bytes; /* from `start` to the end; 0 if unknown */
};

struct inputs {
  struct input *files;
  size_t count;
  const char *filter; /* a further file that is read; NULL: none */
};

/* Checks every named file; "-", or no name at all, is standard input.  False after fail(), if one
 * does not exist, may not be read, is a directory, or is compressed. */
bool inputs_check(struct inputs *inputs, char **names, size_t count);
void inputs_free(struct inputs *inputs);

/* Opens the input for reading; returns a descriptor for input_close, or -1 with errno set. */
int input_open(const struct input *input);
void input_close(const struct input *input, int fd);

/* The sum of all sizes; 0 when one is unknown. */
uint64_t inputs_bytes(const struct input *inputs, size_t count);

/* Whether the sizes of all of them are known. */
bool inputs_sized(const struct input *inputs, size_t count);

#endif
