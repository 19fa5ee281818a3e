/* SPDX-License-Identifier: MIT */
#include "tiny.h"

#include "cuckoo/directory.h"

struct cuckoo_geometry tiny_geometry(uint64_t round)
{
  static const unsigned widths[] = {12, 8, 16, 10, 21};
  struct cuckoo_geometry g = {.shape = bucket_shape(widths[round % 5], true)};
  g.first_roots = 1 + round % 7;
  g.root0_bits = 3;
  g.pair_bits = (uint8_t) ((round + 1) % 3);
  g.depth_limit = g.shape.width < 12 ? 4 : 6;
  g.fixed_shift = g.shape.shift;
  g.uneven_at =
      (uint8_t[]){NEVER_UNEVEN, 0, 2}[g.shape.width < 21 ? round % 3 : 1]; /* 2: into wider lanes */
  g.stripe_mask = round & 1 ? (uint32_t) cuckoo_buckets(&g) - 1 : 0;
  g.words_offset = (uint16_t) (64 + (g.stripe_mask + 1) * sizeof(struct stripe));
  g.rate = 0.001; /* leaves the rest of the filter's rate to later generations */
  return g;
}

int tiny_create(const tamis_options *options, const struct cuckoo_geometry *g, tamis_filter **out)
{
  tamis_options tiny = *options;
  tiny.kind = TAMIS_CUCKOO;
  tiny.fpp = 0.9;
  struct tamis_filter head = {.keys = hash_keys_from_seed(options->seed)};
  int result = tamis__cuckoo_create_with(&tiny, &head, g, out);
  if (result == TAMIS_OK && g->first_roots % 2 == 0) {
    struct slabs *slabs = generation_slabs(cuckoo_generation(cuckoo_of(*out), 0));
    slabs->slots = 4; /* as many segments must there be for a slab */
    slabs->large = 0;
  }
  return result;
}
