/* SPDX-License-Identifier: MIT
 *
 * Layer 0: how often a few buckets of a table get more keys than they have lanes.
 */
#ifndef TAMIS_LIB_OVERFULL_H
#define TAMIS_LIB_OVERFULL_H

/* The number of sets of a few buckets, in all segments, that are expected to get more keys than
 * they have lanes.  Each key has one of `half` lower and one of `half` upper buckets of a segment,
 * which gets `mean` keys. */
double tamis__overfull_sets(unsigned lanes, double half, double segments, double mean);

#endif
