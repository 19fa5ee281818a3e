/* SPDX-License-Identifier: MIT
 *
 * The messages of PostgreSQL's plugin pgoutput (protocol version 1), and from them the changes of
 * one transaction: which ids come, and which ones go.
 *   Source  https://www.postgresql.org/docs/15/protocol-logicalrep-message-formats.html
 */
#ifndef GUARD_CHANGES_H
#define GUARD_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tamis/tamis.h>

struct changes {
  uint32_t relation; /* the OID of the table */
  const char *id_column;
  int column;     /* the number of the id's column; -1: not known yet */
  bool is_key;    /* whether an old row that is sent has it */
  bool open;      /* between the beginning of a transaction and its commit */
  bool truncated; /* the transaction has emptied the table; what follows came after that */
  uint64_t end;   /* where the transaction ended that was committed last */
  char *ids;      /* for each change '+' or '-', the length of the id in two bytes, and the id */
  size_t used, room;
  uint64_t count;
  const char *error;
};

typedef enum change_event { CHANGE_MORE, CHANGE_COMMITTED, CHANGE_ERROR } change_event;

void changes_init(struct changes *changes, uint32_t relation, const char *id_column);
void changes_destroy(struct changes *changes);

/* Takes a message.  After CHANGE_ERROR, `error` says what is wrong. */
change_event changes_take(struct changes *changes, const char *message, size_t size);

/* Adds the ids that come, or removes those that go.  TAMIS_OK, or the first other result. */
int changes_add(const struct changes *changes, tamis_filter *filter);
int changes_remove(const struct changes *changes, tamis_filter *filter);

/* Big-endian numbers of 1 to 8 bytes. */
uint64_t big_endian(const char *bytes, size_t size);

#endif
