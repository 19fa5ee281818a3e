/* SPDX-License-Identifier: MIT
 *
 * What the library asks of a user's allocator and of the system, so that a test can refuse it, and
 * the books of what it was given.  A program that uses this wraps the functions that the library
 * calls (see the linker's options in CMakeLists.txt).
 */
#ifndef TAMIS_TESTS_FAULTS_H
#define TAMIS_TESTS_FAULTS_H

#include "unit.h"

#include <stdatomic.h>

/* ---- which requests fail ---- */

enum pattern { NEVER, ONCE, FOR_GOOD, BY_CHANCE };
enum asked { USER, SYSTEM }; /* to whom the requests go that may fail */

struct faults {
  enum pattern pattern;
  enum asked source;
  uint64_t at;         /* the first one that fails, counted from 1 */
  uint64_t odds, seed; /* by chance: one in so many */
  /* whether these are refused, whatever the rest says */
  bool threads, maps;
  _Atomic bool armed;
  _Atomic uint64_t requests, failures, random_failures;
};

extern struct faults faults;

void arm(enum asked source, enum pattern pattern, uint64_t at);

/* Calls of nanosleep: growth pauses when much memory waits.  Of no use in a test, so it only
 * yields. */
extern _Atomic uint64_t pauses;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);

/* ---- the books: what was given, and has not come back ---- */

enum owner { USERS_BLOCK, SYSTEMS_BLOCK, OWNERS };

struct books {
  pthread_mutex_t lock;
  /* Changed under the lock, but read without. */
  _Atomic size_t blocks, bytes[OWNERS], most_bytes;
  _Atomic size_t mapped;     /* bytes, whole pages */
  const char *_Atomic wrong; /* any thread may find it; the main one asserts */
};

extern struct books books;

/* A user's allocator that keeps the books. */
extern const tamis_allocator user;

void assert_books(void);

/* Nothing is left in the books. */
void assert_all_released(void);

/* Before each test, so that one that fails does not make the next ones fail too. */
int start_afresh(void **state);

#endif
