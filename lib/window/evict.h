/* SPDX-License-Identifier: MIT
 *
 * Layer 2: makes room in a full bucket pair of a sliding window, and freezes segments.
 *
 * A save copies a segment word by word.  The copy would miss an entry that moves from a word that
 * is not copied yet to a copied word.  So the save's thread F freezes the segment: adds, renewals
 * and look-ups continue, but a thread M that has to move an entry waits until F thaws the segment.
 *
 *    F  takes `advancing` and `saving`        M  takes the stripes of both buckets
 *    F  names the segment in `frozen`         M  reads `frozen`; if it names M's segment,
 *    F  takes each of its stripes once        M     releases the stripes, waits until `saving`
 *                                             M     is free, and begins again
 *    F  (the copy)                            M  moves
 *    F  clears `frozen`, releases the locks   M  releases the stripes
 *
 * If M has not seen the name, M had the stripes before F took them, so M's move is finished before
 * the copy.  As F holds `advancing`, no period ends during the copy, no layer leaves, and every
 * stamp in the copy is that of a remembered period.
 */
#ifndef TAMIS_LIB_WINDOW_EVICT_H
#define TAMIS_LIB_WINDOW_EVICT_H

#include "window/table.h"

/* Moves entries so that one of a key's two buckets in `layer`, the newest layer that `epoch` names,
 * gets a free lane.  Returns TAMIS_OK if the caller must try again: a bucket may have a free lane
 * now, or the list of layers has changed since `epoch`.  Returns TAMIS_ABSENT if no moves make
 * room, or if the segment has a full mark and `thorough` is false.  The caller must hold no stripe.
 *   Errors  TAMIS_EFULL (max_bytes), TAMIS_ENOMEM: the count of a moved entry got no memory */
int tamis__window_evict(struct window *w, struct window_layer *layer,
                        const struct window_buckets *place, uint64_t epoch, bool thorough);

/* Opens the next layer if no moves make room for a key in `full`, the newest layer that `epoch`
 * names.  Does nothing if the layers have changed since `epoch`.  On an error, marks the key's
 * segment as full.  Returns TAMIS_EFULL if the filter is fixed.  The caller must hold no lock. */
int tamis__window_grow(struct window *w, struct window_layer *full,
                       const struct window_buckets *place, uint64_t epoch);

/* Whether moves can make room in these buckets.  Needs a read section or the lock `opening`. */
bool tamis__window_path_exists(const struct window *w, const struct window_layer *layer,
                               const struct window_buckets *place);

/* Freezes a segment of the layer with this number, and returns the epoch word.  *found is the
 * layer, or NULL if it has left.  Waits until advances and other freezes have ended. */
uint64_t tamis__window_freeze(struct window *w, uint64_t number, uint64_t segment,
                              const struct window_layer **found);
void tamis__window_thaw(struct window *w);

#endif
