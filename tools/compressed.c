/* SPDX-License-Identifier: MIT */
#include "compressed.h"

#include "report.h"

#include <string.h>

/* A pattern longer than two bytes is not the beginning of text by chance.  In a pattern, '.' stands
 * for any byte.  No pattern contains a newline, so a first line holds the whole of it. */
static const struct format {
  const char *name;
  const char *reader;
  unsigned length;
  char magic[COMPRESSED_MAGIC + 1];
} formats[] = {
    {"gzip", "zcat", 3, "\x1f\x8b\x08"},
    {"zstd", "zstdcat", 4, "\x28\xb5\x2f\xfd"},
    {"xz", "xzcat", 6,
     "\xfd"
     "7zXZ\0"},
    {"bzip2", "bzcat", 10, "BZh.1AY&SY"},
    {"lz4", "lz4cat", 4, "\x04\x22\x4d\x18"},
    {"compress", "zcat", 3, "\x1f\x9d\x90"},
    {"lzip", "lzip -dc", 5, "LZIP\x01"},
    {"zip", "funzip", 4, "PK\x03\x04"}, /* the first of the files in it alone */
};

static bool begins_with(const char *first, size_t size, const struct format *format)
{
  if (size < format->length)
    return false;
  for (unsigned i = 0; i < format->length; i++)
    if (format->magic[i] != '.' && format->magic[i] != first[i])
      return false;
  return true;
}

static const struct format *format_of(const char *first, size_t size)
{
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
    if (begins_with(first, size, &formats[i]))
      return &formats[i];
  return NULL;
}

const char *compressed_program(const char *first, size_t size)
{
  const struct format *format = format_of(first, size);
  return format != NULL ? format->reader : NULL;
}

bool compressed_is_archive(const char *first, size_t size)
{
  const struct format *format = format_of(first, size);
  return format != NULL && strcmp(format->name, "zip") == 0;
}

bool compressed_refused(const struct input *input, const char *first, size_t size)
{
  const struct format *format = format_of(first, size);
  if (format == NULL)
    return false;
  if (input->path == NULL)
    fail("standard input is compressed by %s: put '%s |' before tamis", format->name,
         format->reader);
  else
    fail("'%s' is compressed by %s: use '%s %s | tamis ...' with - for the file", input->name,
         format->name, format->reader, input->name);
  return true;
}
