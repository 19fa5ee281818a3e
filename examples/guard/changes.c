/* SPDX-License-Identifier: MIT */
#include "changes.h"

#include "guard.h"

#include <stdlib.h>
#include <string.h>

/* What is left of a message.  After a read past its end, it is empty and `bad`. */
struct reader {
  const char *at, *end;
  bool bad;
};

static const char *take(struct reader *reader, size_t size)
{
  const char *at = reader->at;
  if (size > (size_t) (reader->end - at)) {
    reader->bad = true;
    reader->at = reader->end;
    return NULL;
  }
  reader->at += size;
  return at;
}

uint64_t big_endian(const char *bytes, size_t size)
{
  uint64_t value = 0;
  for (size_t i = 0; i < size; i++)
    value = value << 8 | (unsigned char) bytes[i];
  return value;
}

static uint64_t number(struct reader *reader, size_t size)
{
  const char *bytes = take(reader, size);
  return bytes == NULL ? 0 : big_endian(bytes, size);
}

static const char *string(struct reader *reader)
{
  const char *text = reader->at;
  const char *end = memchr(text, 0, (size_t) (reader->end - text));
  if (end == NULL) {
    reader->bad = true;
    reader->at = reader->end;
    return "";
  }
  reader->at = end + 1;
  return text;
}

void changes_init(struct changes *changes, uint32_t relation, const char *id_column)
{
  *changes = (struct changes){.relation = relation, .id_column = id_column, .column = -1};
}

void changes_destroy(struct changes *changes)
{
  free(changes->ids);
  changes->ids = NULL;
}

static change_event fail(struct changes *changes, const char *error)
{
  changes->error = error;
  return CHANGE_ERROR;
}

/* ---- rows ---- */

struct id {
  const char *text; /* NULL: the message does not have it */
  size_t length;
};

static struct id read_row(const struct changes *changes, struct reader *reader)
{
  struct id id = {NULL, 0};
  uint64_t columns = number(reader, 2);
  for (uint64_t i = 0; i < columns && !reader->bad; i++) {
    char kind = (char) number(reader, 1);
    if (kind != 't') /* NULL, or a large value that has not changed */
      continue;
    size_t length = number(reader, 4);
    const char *text = take(reader, length);
    if ((int) i == changes->column)
      id = (struct id){text, length};
  }
  return id;
}

static bool note(struct changes *changes, char sign, struct id id)
{
  if (id.length > UINT16_MAX)
    return false;
  size_t size = 3 + id.length;
  if (changes->room - changes->used < size) {
    size_t room = changes->room * 2 + size + 4096;
    char *ids = realloc(changes->ids, room);
    if (ids == NULL)
      return false;
    changes->ids = ids;
    changes->room = room;
  }
  char *at = changes->ids + changes->used;
  at[0] = sign;
  at[1] = (char) (id.length >> 8);
  at[2] = (char) id.length;
  memcpy(at + 3, id.text, id.length);
  changes->used += size;
  changes->count++;
  return true;
}

static change_event note_row(struct changes *changes, char sign, struct id id)
{
  if (id.text == NULL)
    return fail(changes, "a row without an id: the column must be in the table's replica identity");
  return note(changes, sign, id) ? CHANGE_MORE : fail(changes, "no memory for a transaction");
}

/* The relation message, which comes before the first change of a table and after its definition has
 * changed. */
static change_event take_relation(struct changes *changes, struct reader *reader)
{
  if (number(reader, 4) != changes->relation)
    return CHANGE_MORE;
  string(reader); /* schema */
  string(reader); /* table */
  number(reader, 1);
  int columns = (int) number(reader, 2);
  changes->column = -1;
  for (int i = 0; i < columns && !reader->bad; i++) {
    bool is_key = number(reader, 1) & 1;
    if (strcmp(string(reader), changes->id_column) == 0) {
      changes->column = i;
      changes->is_key = is_key;
    }
    take(reader, 8); /* its type */
  }
  return changes->column >= 0 ? CHANGE_MORE : fail(changes, "the id's column has gone");
}

static change_event take_insert(struct changes *changes, struct reader *reader)
{
  number(reader, 1);
  return note_row(changes, '+', read_row(changes, reader));
}

static change_event take_delete(struct changes *changes, struct reader *reader)
{
  if (!changes->is_key)
    return fail(changes, "the id's column must be in the table's replica identity");
  number(reader, 1);
  return note_row(changes, '-', read_row(changes, reader));
}

/* Without an old row, the key has not changed. */
static change_event take_update(struct changes *changes, struct reader *reader)
{
  if (!changes->is_key)
    return fail(changes, "the id's column must be in the table's replica identity");
  if (number(reader, 1) == 'N')
    return CHANGE_MORE;
  struct id old = read_row(changes, reader);
  number(reader, 1);
  struct id new = read_row(changes, reader);
  bool same =
      new.text == NULL || (new.length == old.length &&memcmp(new.text, old.text, new.length) == 0);
  if (old.text != NULL && same)
    return CHANGE_MORE;
  change_event event = note_row(changes, '-', old);
  return event == CHANGE_MORE ? note_row(changes, '+', new) : event;
}

static change_event take_truncate(struct changes *changes, struct reader *reader)
{
  uint64_t relations = number(reader, 4);
  number(reader, 1);
  for (uint64_t i = 0; i < relations && !reader->bad; i++)
    if (number(reader, 4) == changes->relation) {
      changes->truncated = true;
      changes->used = 0;
      changes->count = 0;
    }
  return CHANGE_MORE;
}

/* ---- messages ---- */

static change_event take_begin(struct changes *changes)
{
  if (changes->open)
    return fail(changes, "a transaction within a transaction");
  changes->open = true;
  changes->truncated = false;
  changes->used = 0;
  changes->count = 0;
  return CHANGE_MORE;
}

static change_event take_commit(struct changes *changes, struct reader *reader)
{
  if (!changes->open)
    return fail(changes, "a commit without a transaction");
  take(reader, 9); /* flags, and where the record of the commit begins */
  uint64_t end = number(reader, 8);
  if (reader->bad)
    return fail(changes, "a message that is too short");
  changes->end = end;
  changes->open = false;
  return CHANGE_COMMITTED;
}

change_event changes_take(struct changes *changes, const char *message, size_t size)
{
  struct reader reader = {message, message + size, false};
  change_event event = CHANGE_MORE;
  char kind = (char) number(&reader, 1);
  switch (kind) {
  case 'B':
    return take_begin(changes);
  case 'C':
    return take_commit(changes, &reader);
  case 'R':
    event = take_relation(changes, &reader);
    break;
  case 'T':
    event = take_truncate(changes, &reader);
    break;
  case 'I':
  case 'U':
  case 'D':
    if (number(&reader, 4) == changes->relation)
      event = kind == 'I'   ? take_insert(changes, &reader)
              : kind == 'U' ? take_update(changes, &reader)
                            : take_delete(changes, &reader);
    break;
  default: /* origins and types */
    break;
  }
  return reader.bad ? fail(changes, "a message that is too short") : event;
}

/* ---- to the filter ---- */

static int apply(const struct changes *changes, tamis_filter *filter, char sign,
                 int (*call)(tamis_filter *f, const void *key, size_t len))
{
  int first = TAMIS_OK;
  for (size_t at = 0; at < changes->used;) {
    const char *change = changes->ids + at;
    size_t length = big_endian(change + 1, 2);
    int result = *change == sign ? call(filter, change + 3, length) : TAMIS_OK;
    if (first == TAMIS_OK)
      first = result;
    at += 3 + length;
  }
  return first;
}

int changes_add(const struct changes *changes, tamis_filter *filter)
{
  return apply(changes, filter, '+', tamis_add);
}

int changes_remove(const struct changes *changes, tamis_filter *filter)
{
  return apply(changes, filter, '-', tamis_remove);
}
