/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the header and the layer blocks of a saved Bloom filter (docs/reference/format.md).
 */
#ifndef TAMIS_LIB_BLOOM_SAVED_HEAD_H
#define TAMIS_LIB_BLOOM_SAVED_HEAD_H

#include "bloom/bloom.h"

/* Indices of the numbers in a header's geometry, and of those in a trailer's totals. */
enum {
  LAYOUT,
  PROBES,
  BITS_PER_PROBE,
  LINES,
  SECTIONS,
  MOST_KEYS,
  FURTHER_LAYERS,
  GEOMETRY_NUMBERS
};
enum { TOTAL_KEYS, TOTAL_FULL, TOTAL_UNITED };

/* The block of a later layer: its type, its named numbers, and the numbers in its payload. */
enum { BLOCK_LAYER = SAVED_KIND_BLOCKS };
enum { LAYER_NUMBER, LAYER_KEYS, LAYER_UNITED };
enum { LAYER_CAPACITY = SECTIONS + 1, LAYER_RATE, LAYER_NUMBERS };
enum {
  BLOOM_LAYER_BLOCK_BYTES =
      SAVED_UNIT + (LAYER_NUMBERS * 8 + SAVED_UNIT - 1) / SAVED_UNIT * SAVED_UNIT
};

void tamis__bloom_put_shape(const struct bloom_geometry *g, uint64_t *numbers);

void tamis__bloom_put_layer(const struct bloom_geometry *g, unsigned number,
                            struct bloom_sums counted, struct saved_writer *w);

bool tamis__bloom_read_plan(const struct saved_head *saved, struct bloom_plan *out);

int tamis__bloom_read_layer(struct saved_reader *r, unsigned number, struct bloom_geometry *g,
                            struct bloom_sums *counted);

/* Reads the blocks of layers 2 to n of a live filter into layers[1] to layers[n - 1]. */
int tamis__bloom_read_further(struct saved_reader *r, unsigned n, struct bloom_geometry *layers);

#endif
