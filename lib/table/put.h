/* SPDX-License-Identifier: MIT
 *
 * Layer 0: what a try to put an entry into a table returns, besides results of the API, which are
 * smaller numbers.
 */
#ifndef TAMIS_LIB_PUT_H
#define TAMIS_LIB_PUT_H

enum {
  NO_ROOM = 100, /* both buckets are full; moves, or growth, may make room */
  MARKED_FULL,   /* both are, and the segment is known to have no room */
  RETRY,         /* what the try relied on has changed, or room was made */
  LEFT,          /* the segment has left the directory, and must not be touched any more */
  NO_MEMORY,     /* windows: a count of copies needs some, which is fetched without locks */
  FROZEN,        /* windows: nothing moves in the segment, which is being copied */
  OTHER_LAYERS   /* windows: the list of layers has changed meanwhile */
};

#endif
