/* SPDX-License-Identifier: MIT */
#include "bytes.h"

#include <stdlib.h>
#include <string.h>

void put_number(unsigned char *to, uint64_t number)
{
  for (unsigned i = 0; i < NUMBER; i++)
    to[i] = (unsigned char) (number >> 8 * i);
}

uint64_t number_at(const unsigned char *from)
{
  uint64_t number = 0;
  for (unsigned i = 0; i < NUMBER; i++)
    number |= (uint64_t) from[i] << 8 * i;
  return number;
}

/* Source: the hash FNV-1a of Fowler, Noll and Vo */
uint64_t checksum(const unsigned char *data, size_t size)
{
  uint64_t sum = UINT64_C(0xCBF29CE484222325);
  for (size_t i = 0; i < size; i++)
    sum = (sum ^ data[i]) * UINT64_C(0x100000001B3);
  return sum;
}

void put_bytes(struct buffer *b, const void *data, size_t size)
{
  if (b->room - b->size < size) {
    size_t room = 2 * (b->size + size);
    unsigned char *grown = b->failed ? NULL : realloc(b->data, room);
    if (grown == NULL) {
      b->failed = true;
      return;
    }
    b->data = grown;
    b->room = room;
  }
  if (size > 0)
    memcpy(b->data + b->size, data, size);
  b->size += size;
}

void put64(struct buffer *b, uint64_t number)
{
  unsigned char bytes[NUMBER];
  put_number(bytes, number);
  put_bytes(b, bytes, sizeof bytes);
}

void put_text(struct buffer *b, const char *text)
{
  size_t length = text != NULL ? strlen(text) : 0;
  put64(b, length);
  put_bytes(b, text, length);
}

uint64_t get64(struct cursor *c)
{
  if (c->end - c->at < NUMBER) {
    c->wrong = true;
    c->at = c->end;
    return 0;
  }
  c->at += NUMBER;
  return number_at(c->at - NUMBER);
}

char *get_text(struct cursor *c)
{
  uint64_t length = get64(c);
  if (length > (uint64_t) (c->end - c->at) || memchr(c->at, 0, length) != NULL) {
    c->wrong = true;
    return NULL;
  }
  char *text = strndup((const char *) c->at, length);
  c->at += length;
  return text;
}
