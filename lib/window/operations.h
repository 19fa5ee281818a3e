/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the calls on sliding windows.  They take unmixed hashes, except `find`.
 */
#ifndef TAMIS_LIB_WINDOW_OPERATIONS_H
#define TAMIS_LIB_WINDOW_OPERATIONS_H

#include "base/filter.h"

struct window;
struct window_geometry;
struct window_layer;
struct pair;
struct found;

/* ---- lookup.c ---- */

/* WINDOW_MOVED: an entry has been moved during the search, so the answer is unknown. */
enum window_answer { WINDOW_MISS, WINDOW_HIT, WINDOW_MOVED };

/* The functions that are compiled for each shape, both for tables of one segment and of several. */
struct window_calls {
  bool (*contains)(const tamis_filter *f, uint64_t hash);
  size_t (*contains_many)(const tamis_filter *f, const uint64_t *hashes, size_t n, bool *found);
  /* Searches one layer.  `dead` is from the epoch word, which the caller must then read again. */
  enum window_answer (*find)(const struct window *w, const struct window_layer *layer,
                             uint64_t mixed, unsigned dead);
};

void tamis__window_prefetch(const tamis_filter *f, uint64_t hash);

const struct window_calls *tamis__window_calls(const struct window_geometry *g);

/* ---- insert.c ---- */

int tamis__window_add(tamis_filter *f, uint64_t hash);
int tamis__window_add_unique(tamis_filter *f, uint64_t hash);

/* The add of tables that count copies: each add adds a copy. */
int tamis__window_add_copy(tamis_filter *f, uint64_t hash);

/* Adds keys that are to be remembered for `periods` periods, in a window of any kind.  Returns
 * TAMIS_EINVAL if the window has fewer periods. */
int tamis__window_add_for(tamis_filter *f, const uint64_t *hashes, size_t n, unsigned periods,
                          bool unique, int *results);

/* ---- remove.c: the cuckoo kind; tamis__window_remove() also serves counted tables ---- */

int tamis__window_remove(tamis_filter *f, uint64_t hash);
uint64_t tamis__window_count_copies(const tamis_filter *f, uint64_t hash);

/* The number of copies of a key in a counted table. */
uint64_t tamis__counted_count(const tamis_filter *f, uint64_t hash);

/* Adds to the number of copies of an entry in a counted table.  Returns TAMIS_EFULL if the sum is
 * too large.  The caller must hold the stripes of the pair. */
int tamis__counted_add_locked(const struct window *w, const struct pair *pair,
                              const struct found *at, unsigned copies);

/* ---- advance.c, unite.c ---- */

int tamis__window_advance(tamis_filter *f, enum filter_period how, uint64_t number);

/* Takes `advancing`.  If a killed process has held this lock, the function sweeps, and completes a
 * jump that the killed process may have begun: [T] in table.h. */
void tamis__window_lock_advancing(struct window *w);

int tamis__window_merge(tamis_filter *into, const tamis_filter *from);

/* Adds the keys of `from` to the window `into`.  If `checkpoint` is set, `from` is an earlier state
 * of `into`: a key that is in both then keeps the copies that it has in `into`. */
int tamis__window_unite(tamis_filter *into, const tamis_filter *from, bool checkpoint);

#endif
