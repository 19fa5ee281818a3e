/* SPDX-License-Identifier: MIT
 *
 * Compressed input is recognised, and refused with the command that decompresses it.  It is not
 * read: a decompressor in a pipe has a core of its own, and needs no library here.  The commands of
 * an index, which have many files, start it themselves (unpack.h).
 */
#ifndef TAMIS_TOOL_COMPRESSED_H
#define TAMIS_TOOL_COMPRESSED_H

#include "inputs.h"

enum { COMPRESSED_MAGIC = 10 /* the bytes that decide */ };

/* Whether these first bytes of the input begin a compressed file.  Then fail() was called. */
bool compressed_refused(const struct input *input, const char *first, size_t size);

/* The program, with its arguments, that decompresses its standard input, if these are the first bytes
 * of a compressed file.  NULL: they are not. */
const char *compressed_program(const char *first, size_t size);

/* Whether these are the first bytes of an archive, of which that program gives the first file alone. */
bool compressed_is_archive(const char *first, size_t size);

#endif
