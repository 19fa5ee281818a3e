/* SPDX-License-Identifier: MIT
 *
 * Layer 0: the constants that decide where something wraps round, is full, is cut into pieces, or
 * begins anew.
 *
 * SMALL(usual, small) is `usual`.  The build for tests that defines TAMIS_SMALL has `small`, so
 * that what otherwise takes millions of keys, or 2^32 changes of one bucket, happens to every
 * filter within seconds.  A small value keeps all that the header promises.
 */
#ifndef TAMIS_LIB_SMALL_H
#define TAMIS_LIB_SMALL_H

#ifdef TAMIS_SMALL
#define SMALL(usual, small) (small)
#else
#define SMALL(usual, small) (usual)
#endif

#endif
