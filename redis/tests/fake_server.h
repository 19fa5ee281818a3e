/* SPDX-License-Identifier: MIT
 *
 * A server's module interface without a server: keys in an array, replies as text, RDB in memory.
 * Memory, reading, and functions of the interface can be refused.
 */
#ifndef TAMIS_REDIS_TESTS_FAKE_SERVER_H
#define TAMIS_REDIS_TESTS_FAKE_SERVER_H

#include "server_api.h"

/* RDB data: each number and each string with what it is, and for strings their sizes. */
struct server_io {
  unsigned char *data;
  size_t size, at;
  bool failed;
};

extern struct fake {
  const char *missing; /* functions that this server lacks, between spaces; NULL: none */
  bool lacks_all_optional;
  long refused_from; /* so many allocations from now on that may be refused are not; -1: all */
  long blocks;       /* that have not been freed */
  char reply[4096];  /* of the last command, as RESP2, shortened */
  bool moves;        /* memory that is defragmented moves */
  bool loads;        /* what comes is from the master, or from a file */
} fake;

/* Every function of the interface, and whether a server may lack it. */
extern const struct fake_function {
  const char *name;
  void *function;
  bool optional;
} fake_functions[];
extern const unsigned fake_functions_count;

/* RedisModule_OnLoad, with arguments between spaces. */
int fake_load(const char *arguments);

/* Runs a command, whose words are between spaces, and returns its reply. */
const char *fake_call(const char *words);
const char *fake_call_with(const char *words, const void *last, size_t size); /* and a last word */

/* The ACL categories of a command, as the module has named them. */
const char *fake_categories(const char *name);

/* As DUMP and RESTORE; false: refused. */
void fake_dump(const char *key, server_io *out);
bool fake_restore(const char *key, const char *like, server_io *io);
/* Gives a key the type with this number, by the RDB of that type; and how many types there are. */
bool fake_retype(const char *key, unsigned number);
unsigned fake_types(void);
/* Empties the key, and writes it to AOF and back; false: a command of the AOF got an error. */
bool fake_rewrite(const char *key);
size_t fake_memory_usage(const char *key);
void fake_defrag(const char *key);
const void *fake_value(const char *key);
bool fake_copy(const char *from, const char *to);
void fake_flush(void);
bool fake_exists(const char *key);

#endif /* TAMIS_REDIS_TESTS_FAKE_SERVER_H */
