/* SPDX-License-Identifier: MIT
 *
 * Layer 0: results of an attempt to put an entry into a table.  An attempt may also return a result
 * of the API, which is a smaller number.
 */
#ifndef TAMIS_LIB_PUT_H
#define TAMIS_LIB_PUT_H

enum {
  NO_ROOM = 100, /* both buckets are full; moves, or growth, may make room */
  MARKED_FULL,   /* both buckets are full, and the segment is marked as full */
  RETRY,         /* data on which the attempt relied has changed, or room was made */
  FROZEN,        /* windows: the segment is being copied, so nothing may move in it */
  OTHER_LAYERS   /* windows: the list of layers has changed since the attempt began */
};

#endif
