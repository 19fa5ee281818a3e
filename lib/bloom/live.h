/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a Bloom filter whose words and counters are in a file that several processes map.
 *
 *   the file    header | further layers | tallies | words of layer 1 | of layer 2 | ...
 *               what the filter is        ─── what changes ─────────────────────────────
 *
 *   a process   struct bloom_shared, and a struct bloom for each layer that is planned: made from
 *               the checked header when the process opens the file
 *
 * An atomic access is atomic for all processes that map the memory.  So to a call, a change by
 * another process is like a change by another thread: [A] to [D] of operations.c and layers.c hold.
 *
 * [A] and [B] rest on the words and on the number of layers.  Both are in the file: the number is a
 *     part of the *state* (bloom_live_state()).  A live filter reads the state wherever a private
 *     filter reads `newest`.  A look-up reads the state after it has missed the key in the only
 *     layer that it knew.  A unique add reads the state after its last OR.  (A private filter
 *     replaces its operations instead, which another process would not see.)
 *
 * [C] The state also says whether the filter has ended: its newest layer is LAST or, if the filter
 *     is fixed, FULL.  Each process finds out how full an open layer is when it counts keys.  All
 *     processes check after the same number of keys, and at each key once any of them has found the
 *     layer NEAR its end.  A refused or a *late* call ([B] in layers.c) counts no key, so it reads
 *     the state instead (learn_live()).
 *
 * [D] No call takes a lock, and none waits for another process.  A layer has its place in the file
 *     from the beginning.  A process that needs the layer reserves its space, which another process
 *     may have reserved already, and then publishes the layer by one compare-and-swap of the state.
 *
 * [K] A process that is killed at any instruction leaves
 *     - bits of a key that it was about to add.  They make a false positive a little likelier, and
 *       no caller has been told that the key is present;
 *     - a key that is present but not counted, if the process had set its last bit;
 *     - space reserved for a layer that is not open.  The next process reserves it again.
 *     The process leaves no lock and no pointer.
 *
 * [H] Another process may write anything into the file.  Each process reads the header once, and
 *     computes its own structs from it.  A process checks that the number of layers in the state is
 *     not above the number of planned layers.  Counters are only added up and compared.  So wrong
 *     bytes can change answers, but no address.
 */
#ifndef TAMIS_LIB_BLOOM_LIVE_H
#define TAMIS_LIB_BLOOM_LIVE_H

#include "bloom/bloom.h"

/* Returns true if there is a second layer.  ORDER live.state explains the memory order. */
static inline bool live_has_grown(const struct bloom *first)
{
  return bloom_live_state(first) > LIVE_ALONE + LIVE_ENDED;
}

/* Does the work of tamis__layers_open() for a live filter.
 *   Errors  TAMIS_EFULL, which is final; TAMIS_EIO: space could not be reserved (see errno) */
int tamis__live_open_layers(struct bloom *first, struct bloom *full, unsigned number);

#endif
