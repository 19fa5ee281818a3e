/* SPDX-License-Identifier: MIT
 *
 * What the tests of reclamation share: a backlog of counted blocks, a reader that stays inside, a
 * filter that grows and shrinks, other processes.
 */
#ifndef TAMIS_TESTS_RECLAIM_FIXTURE_H
#define TAMIS_TESTS_RECLAIM_FIXTURE_H

#include "unit.h"

#include "base/memory.h"
#include "base/reclaim.h"

#include <spawn.h>
#include <time.h>

/* ---- a backlog ---- */

static atomic_uint released;

struct block {
  struct retired retired;
  uint64_t content;
};

struct fixture {
  struct backlog backlog;
  _Atomic uint64_t bytes;
  unsigned retired;
};

/* What is released is written to, so that sanitizers see a reader that is still there. */
static inline void release(void *owner, struct retired *block, size_t size)
{
  struct fixture *x = owner;
  memset(block, 0xa5, size);
  free(block);
  atomic_fetch_add(&released, 1);
  atomic_fetch_sub(&x->bytes, size);
}

static inline void begin(struct fixture *x)
{
  atomic_store(&released, 0);
  x->retired = 0;
  x->bytes = 0;
  assert_true(tamis__backlog_init(&x->backlog, release, x, &x->bytes));
}

static inline struct block *make_block(struct fixture *x)
{
  struct block *block = aligned_alloc(64, (sizeof *block + 63) / 64 * 64);
  assert_non_null(block);
  *block = (struct block){0};
  block->content = 42;
  atomic_fetch_add(&x->bytes, sizeof *block);
  return block;
}

static inline void retire(struct fixture *x, struct block *block)
{
  x->retired++;
  tamis__backlog_retire(&x->backlog, &block->retired, sizeof *block, false);
}

/* Retires one that no reader sees; and looks a while whether more than `n` of all are released. */
static inline bool waits(struct fixture *x, unsigned n)
{
  retire(x, make_block(x));
  for (unsigned i = 0; i < 50; i++, usleep(1000))
    tamis__backlog_drain(&x->backlog, false);
  return atomic_load(&released) <= n;
}

static inline double seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double) now.tv_sec + 1e-9 * (double) now.tv_nsec;
}

/* Retires until `n` blocks have been released; false if that takes too long. */
static inline bool released_by_and_by(struct fixture *x, unsigned n)
{
  AWAIT(atomic_load(&released) >= n, retire(x, make_block(x)));
  return atomic_load(&released) >= n;
}

static inline void end(struct fixture *x)
{
  tamis__backlog_destroy(&x->backlog);
  assert_int_equal(atomic_load(&released), x->retired);
  assert_int_equal(atomic_load(&x->bytes), 0);
}

/* ---- a reader that stays inside until it is told to leave ---- */

struct long_reader {
  pthread_t thread;
  _Atomic(struct block *) *shared;
  reader_token (*enter)(void);
  atomic_bool inside, may_leave;
  uint64_t seen;
};

static inline void *read_for_long(void *arg)
{
  struct long_reader *reader = arg;
  reader_token pass = reader->enter();
  struct block *block = atomic_load(reader->shared);
  atomic_store(&reader->inside, true);
  while (!atomic_load(&reader->may_leave))
    usleep(100);
  reader->seen = block->content; /* still what it was */
  reader_leave(pass);
  return NULL;
}

/* Returns when it is inside. */
static inline void begin_to_read(struct long_reader *reader, _Atomic(struct block *) *shared,
                                 reader_token (*enter)(void))
{
  *reader = (struct long_reader){.shared = shared, .enter = enter ? enter : reader_enter};
  assert_int_equal(pthread_create(&reader->thread, NULL, read_for_long, reader), 0);
  while (!atomic_load(&reader->inside))
    usleep(100);
}

static inline void end_reading(struct long_reader *reader)
{
  atomic_store(&reader->may_leave, true);
  pthread_join(reader->thread, NULL);
  assert_int_equal(reader->seen, 42);
}

/* ---- a filter ---- */

static inline tamis_filter *make_cuckoo(uint64_t capacity)
{
  const tamis_options options = seeded_options(TAMIS_CUCKOO, capacity, 0.001, true);
  tamis_filter *f = NULL;
  return tamis_create(&options, &f) == TAMIS_OK ? f : NULL;
}

/* Adds with splits, look-ups, removes with joins: of keys of its own. */
static inline bool work(tamis_filter *f, uint64_t from, uint64_t n)
{
  bool good = true;
  for (uint64_t i = from; i < from + n; i++)
    good &= tamis_add_hash(f, i) == TAMIS_OK && tamis_contains_hash(f, i);
  for (uint64_t i = from; i < from + n; i++)
    good &= tamis_contains_hash(f, i);
  for (uint64_t i = from; i < from + n; i++)
    good &= tamis_remove_hash(f, i) == TAMIS_OK;
  return good;
}

struct visit {
  tamis_filter *f;
  uint64_t from, keys;
  bool good;
};

/* ---- children ---- */

/* TSan allows no new threads after a fork of several.  qemu-user (7.2) ends with an assertion of
 * its own then. */
#ifdef EMULATOR
static inline void skip_where_no_child_has_threads(void)
{
#ifdef TAMIS_TSAN
  skip();
#endif
  if (*EMULATOR)
    skip();
}
#endif

#ifdef EMULATOR
/* This program once more, with an argument: the status with which it ends. */
static inline int run_self(const char *how)
{
  extern char **environ;
  char program[4096] = "";
  assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
  char shell[] = "sh", option[] = "-c", command[] = "exec " EMULATOR " \"$0\" \"$1\"", argument[16];
  snprintf(argument, sizeof argument, "%s", how);
  char *arguments[] = {shell, option, command, program, argument, NULL};
  pid_t child;
  assert_int_equal(posix_spawnp(&child, shell, NULL, NULL, arguments, environ), 0);
  return wait_for(child);
}
#endif

#endif
