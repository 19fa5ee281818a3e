/* SPDX-License-Identifier: MIT
 *
 * Layer 0: constants such as sizes and limits, which a build for tests makes small.
 *
 * SMALL(usual, small) is `usual`.  A build for tests that defines TAMIS_SMALL uses `small`.  So
 * events that usually need millions of keys, or 2^32 changes of one bucket, happen within
 * seconds.  With small values the filter keeps all promises of the public header.
 */
#ifndef TAMIS_LIB_SMALL_H
#define TAMIS_LIB_SMALL_H

#ifdef TAMIS_SMALL
#define SMALL(usual, small) (small)
#else
#define SMALL(usual, small) (usual)
#endif

#endif
