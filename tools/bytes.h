/* SPDX-License-Identifier: MIT
 *
 * Numbers and texts as bytes of a file: numbers of 64 bits, little-endian, and texts after their length.
 */
#ifndef TAMIS_TOOL_BYTES_H
#define TAMIS_TOOL_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NUMBER = 8 };

void put_number(unsigned char *to, uint64_t number);
uint64_t number_at(const unsigned char *from);

/* Against accidents. */
uint64_t checksum(const unsigned char *data, size_t size);

struct buffer {
  unsigned char *data;
  size_t size, room;
  bool failed;
};

void put_bytes(struct buffer *b, const void *data, size_t size);
void put64(struct buffer *b, uint64_t number);
void put_text(struct buffer *b, const char *text);

/* What is left of the bytes that are read.  After an error, all numbers are 0. */
struct cursor {
  const unsigned char *at, *end;
  bool wrong;
};

uint64_t get64(struct cursor *c);

/* A copy with a 0 at its end, which must not have one elsewhere. */
char *get_text(struct cursor *c);

#endif
