/* SPDX-License-Identifier: MIT
 *
 * Layer 0: results of an attempt to put an entry into a table.  An attempt can also return a result
 * of the API, such as TAMIS_OK.  All results of the API are smaller numbers.
 */
#ifndef TAMIS_LIB_PUT_H
#define TAMIS_LIB_PUT_H

enum {
  NO_ROOM = 100, /* both buckets are full; moving entries or growing the filter might make room */
  MARKED_FULL,   /* both buckets are full, and the segment is marked as full */
  RETRY,         /* try again: data that the attempt has read has changed, or room was made */
  FROZEN,        /* windows: the segment is being copied, so its entries must not move */
  OTHER_LAYERS   /* windows: the list of layers has changed since the attempt began */
};

#endif
