/* SPDX-License-Identifier: MIT
 *
 * A chain of filters, for lines whose number nobody knows.
 *
 * Level 0 has the capacity expected.  When it is full, keys that it does not know go to level 1,
 * which is larger and stricter, and so on; the rates of all levels together stay within the one
 * asked for.  A key is present if any level knows it.
 *
 * One winner over all levels, with any number of threads: every thread asks the levels in the same
 * order, and leaves one only on TAMIS_EFULL, which is final for a unique add.  So two adds of one
 * key either meet in the level that let it in, or both get past it.
 *
 * Level 0 stays the only one if it grows by itself, or if its memory is limited.  A cuckoo filter is
 * one or the other here: its TAMIS_EFULL is not final, because keys that move later leave room.
 */
#ifndef TAMIS_TOOL_CHAIN_H
#define TAMIS_TOOL_CHAIN_H

#include <tamis/tamis.h>

#include <pthread.h>
#include <stdatomic.h>

enum {
  CHAIN_LEVELS = 40,
  BATCH = 256 /* keys asked about at once, at most */
};

struct chain {
  _Atomic(tamis_filter *) level[CHAIN_LEVELS]; /* NULL from the first one not made yet */
  pthread_mutex_t lock;                        /* held to make a level */
  tamis_options first;                         /* of level 0, with the rate for all together */
};

struct chain_figures {
  unsigned levels;
  uint64_t bytes;
  double fpp;  /* the rate at present: of a key that is not there, over all levels */
  double load; /* of level 0; above 1 only if it grows */
  uint64_t growths;
};

/* Makes level 0; if `options` are growable or have max_bytes, it is the only one there will be.
 * False after fail(). */
bool chain_create(struct chain *chain, const tamis_options *options);
void chain_destroy(struct chain *chain);

/* The filter by whose tamis_hash the hashes for all levels are made. */
const tamis_filter *chain_hasher(const struct chain *chain);

/* tamis_add_unique_many_hash or tamis_add_many_hash */
typedef int chain_add_call(tamis_filter *f, const uint64_t *hashes, size_t n, int *results);

/* Adds each of n <= BATCH keys to the first level that takes or knows it.  A result that is
 * negative comes with fail(). */
void chain_add(struct chain *chain, chain_add_call *add, const uint64_t *hashes, size_t n,
               int *results);

/* Whether any level knows each of n <= BATCH keys; returns how many are. */
size_t chain_contains(const struct chain *chain, const uint64_t *hashes, size_t n, bool *found);

struct chain_figures chain_get_figures(const struct chain *chain);

#endif
