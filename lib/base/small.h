/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the constants that decide where things wrap round, are full, are cut, or begin again.
 *
 * SMALL(usual, small) is `usual`.  A build for tests that defines TAMIS_SMALL uses `small`, so that
 * events that otherwise need millions of keys, or 2^32 changes of one bucket, happen to every
 * filter within seconds.  With small values the filter keeps all promises of the public header.
 */
#ifndef TAMIS_LIB_SMALL_H
#define TAMIS_LIB_SMALL_H

#ifdef TAMIS_SMALL
#define SMALL(usual, small) (small)
#else
#define SMALL(usual, small) (usual)
#endif

#endif
