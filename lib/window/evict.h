/* SPDX-License-Identifier: MIT
 *
 * Layer 2: room in a full bucket pair of a sliding window, and segments in which nothing moves.
 *
 * A copy of a segment, which a save makes word by word, would miss an entry that is moved from a
 * part that is not copied yet to one that is.  So a segment can be frozen.  Then adds, renewals and
 * look-ups go on in it.  Adds that would have to move entries wait until it is thawed.
 *
 *    F  takes `advancing` and `saving`        M  takes the stripes of both buckets
 *    F  names the segment in `frozen`         M  reads `frozen`: its own segment?
 *    F  takes each stripe of the segment      M     if so, releases the stripes, waits for
 *       `saving`, once                                        and begins anew
 *    F  (the copy)                            M  moves
 *    F  clears `frozen`, releases the locks   M  releases the stripes
 *
 * A move that has not seen the name had its stripes before F took them, and is done.  As
 * `advancing` is held, the period stays the same meanwhile, no layer leaves, and no lane is dead:
 * every stamp in the copy is that of one of the periods that the window remembers.
 */
#ifndef TAMIS_LIB_WINDOW_EVICT_H
#define TAMIS_LIB_WINDOW_EVICT_H

#include "window/table.h"

/* Moves entries of the layer, which is the newest one of `epoch`, so that one of a key's two
 * buckets has a free lane.  TAMIS_OK: one of them may have a free lane now, or the list of layers
 * has changed since `epoch`: the caller begins again; TAMIS_ABSENT: no moves make room, or a search
 * for such moves is known to fail.  `thorough`: it searches in any case.  The caller holds no
 * stripe, and need not be a reader.
 *   Errors  there is no memory for the count of an entry that is to be moved:
 *           TAMIS_EFULL: max_bytes is reached; TAMIS_ENOMEM */
int tamis__window_evict(struct window *w, struct window_layer *layer,
                        const struct window_buckets *place, uint64_t epoch, bool thorough);

/* Whether a search for such moves is known to fail, so that nobody need make one.  The caller is a
 * reader, or holds `opening`. */
bool tamis__window_has_no_path(const struct window *w, struct window_layer *layer,
                               const struct window_buckets *place);

/* Whether such moves exist at the moment.  The caller is a reader, or holds `opening`. */
bool tamis__window_path_exists(const struct window *w, const struct window_layer *layer,
                               const struct window_buckets *place);

/* Freezes a segment of the layer with this number, and returns the epoch word, which names no other
 * period until the segment is thawed; nor does the layer leave until then.  *found is the layer, or
 * NULL if it has left already.  One at a time: the call waits for others, and for tamis_advance(). */
uint64_t tamis__window_freeze(struct window *w, uint64_t number, uint64_t segment,
                              const struct window_layer **found);
void tamis__window_thaw(struct window *w);

#endif
