/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a Bloom filter whose words and counters are in a file that several processes map.
 *
 *    the file    header | further layers | tallies | words of layer 1 | of layer 2 | ...
 *                what the filter is        ─── what changes ─────────────────────────────
 *
 *    a process   struct bloom_shared, and a struct bloom for each layer that is planned: made when
 *                the process opens the file, from what has been checked then
 *
 * A call works on words that other processes change as it works on words that other threads change:
 * an atomic access is one whoever maps the memory.  So the arguments [A] to [D] of operations.c and
 * layers.c hold, with these remarks.
 *
 * [A] and [B] need two things that processes know in common: the words, and the number of layers,
 *     which is a part of the *state* (bloom_live_state()).  Both are in the file.  The state is read
 *     wherever a private filter reads `newest`: by a look-up after it has missed the key in the only
 *     layer that it knew, and by a unique add after its last OR.  (A private filter exchanges its
 *     operations instead, which another process would not see.)
 *
 * [C] The end, LAST, is a part of the state, too; of a limited filter FULL is.  How full a layer is
 *     besides, each process knows for itself.  It finds out with the keys that it counts: all have one
 *     period of looks, which is a single key when any process has found the layer NEAR its end.  A
 *     call that is refused or late counts nothing; it learns from the state (learn_live()), as each
 *     further one would set bits in a layer that is closed.
 *
 * [D] No call takes a lock, and none waits for another process.  A layer has its place in the file
 *     from the beginning.  Whoever needs it reserves the space, which changes nothing if another one
 *     has done so, and publishes it by one compare-and-swap of the number.
 *
 * [K] A process that is killed leaves at any instruction
 *     - bits of a key that it was about to add: no more than a false positive that is a little
 *       likelier.  Nobody has been told that the key is in;
 *     - a key that is in and that nobody counts, if it had set the last bit;
 *     - space that is reserved for a layer that is not open, and that the next one reserves again.
 *     There is no lock that it could have held, and no pointer that it could have left.
 *
 * [H] Another process may write anything into the file.  The header is read once, and what each
 *     process has made of it is its own.  Of what changes, the number of layers is compared with that
 *     of the layers that are planned, the state with LAST, and counters are only added up and
 *     compared: so any bytes change answers, and no address.
 */
#ifndef TAMIS_LIB_BLOOM_LIVE_H
#define TAMIS_LIB_BLOOM_LIVE_H

#include "bloom/bloom.h"

/* Whether there is a second layer.  See layer.load. */
static inline bool live_has_grown(const struct bloom *first)
{
  return bloom_live_state(first) > LIVE_ALONE + LIVE_ENDED;
}

/* As tamis__layers_open().
 *   Errors  TAMIS_EFULL, which is final; TAMIS_EIO: the space could not be reserved, errno says why */
int tamis__live_open_layers(struct bloom *first, struct bloom *full, unsigned number);

/* As tamis__layers_will_fit(). */
bool tamis__live_will_fit(const struct bloom *first, unsigned have, struct bloom *const *others,
                          unsigned n);

#endif
