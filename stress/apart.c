/* SPDX-License-Identifier: MIT */
#include "apart.h"

#include "bloom/geometry.h"
#include "cuckoo/directory.h"
#include "harness.h"

#include <stdlib.h>

enum { TRIES = 3000, BLOOM_TRIES = 100 };

/* The bits after root0 that every entry of a generation says. */
static unsigned known_bits(const struct cuckoo_geometry *g)
{
  return g->root_shift + g->pair_bits + g->shape.width - 1;
}

struct apart apart_of(const tamis_filter *cuckoo)
{
  struct apart apart = {.keys = cuckoo->keys,
                        .first = const_cuckoo_of(cuckoo)->generation[0]->geometry};
  apart.bits = known_bits(&apart.first) < APART_BITS ? known_bits(&apart.first) : APART_BITS;
  return apart;
}

bool apart_holds(const struct apart *apart, const tamis_filter *cuckoo)
{
  const struct cuckoo *c = const_cuckoo_of(cuckoo);
  for (unsigned i = 0; i < cuckoo_generations(c); i++)
    if (known_bits(&c->generation[i]->geometry) < apart->bits)
      return false;
  return true;
}

static bool name_is_new(const struct apart *apart, uint64_t hash, const uint64_t *hashes,
                        unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    if (apart_name(apart, hash) == apart_name(apart, hashes[i]))
      return false;
  return true;
}

/* Whether a hash is as near to another one as the i-th is to be. */
static bool near_enough(const struct apart *apart, uint64_t a, uint64_t b, unsigned i)
{
  struct cuckoo_address here = cuckoo_address(&apart->first, hash_mix(&apart->keys, a));
  struct cuckoo_address there = cuckoo_address(&apart->first, hash_mix(&apart->keys, b));
  switch (i % 3) {
  case 1:
    return (apart_name(apart, a) ^ apart_name(apart, b)) == 1;
  case 2:
    return cuckoo_root_of_index(&apart->first, here.index) ==
               cuckoo_root_of_index(&apart->first, there.index) &&
           (here.lower == there.lower || here.upper == there.upper);
  default:
    return true;
  }
}

void apart_choose(const struct apart *apart, uint64_t seed, uint64_t *hashes, unsigned n)
{
  for (unsigned i = 0; i < n; i++) {
    uint64_t hash = 0;
    for (unsigned tries = 0;; tries++) {
      hash = random_next(&seed);
      if (name_is_new(apart, hash, hashes, i) &&
          (i == 0 || tries >= TRIES || near_enough(apart, hash, hashes[0], i)))
        break;
    }
    hashes[i] = hash;
  }
}

/* ---- Bloom ---- */

/* Adds `change` to the number of users of each bit of a key; returns whether one has a single user. */
static bool use_bits(const struct bloom_geometry *g, uint64_t mixed, uint16_t *users, int change)
{
  struct bloom_probes walk = bloom_probes_begin(g, mixed, g->shape);
  bool alone = false;
  for (unsigned i = 0; i < g->shape.probes; i++) {
    struct bloom_probe touch = bloom_probes_next(g, &walk, g->shape);
    for (uint64_t mask = touch.mask; mask; mask &= mask - 1) {
      uint16_t *user = &users[touch.word * 64 + (unsigned) __builtin_ctzll(mask)];
      *user = (uint16_t) (*user + change);
      alone |= *user == 1;
    }
  }
  return alone;
}

bool apart_choose_bloom(const tamis_options *options, uint64_t seed, uint64_t *hashes, unsigned n)
{
  struct bloom_geometry g;
  struct hash_keys keys = hash_keys_from_seed(options->seed);
  if (bloom_geometry_plan(options->layout, options->capacity, options->fpp, &g) != TAMIS_OK)
    return false;
  uint16_t *users = calloc(bloom_geometry_bits(&g), sizeof *users);
  for (unsigned i = 0; i < n && users; i++) {
    hashes[i] = random_next(&seed);
    use_bits(&g, hash_mix(&keys, hashes[i]), users, 1);
  }
  /* Who has none is replaced, until nobody is. */
  bool all = false;
  for (unsigned tries = 0; users && !all && tries < BLOOM_TRIES; tries++) {
    all = true;
    for (unsigned i = 0; i < n; i++)
      if (!use_bits(&g, hash_mix(&keys, hashes[i]), users, 0)) {
        use_bits(&g, hash_mix(&keys, hashes[i]), users, -1);
        hashes[i] = random_next(&seed);
        use_bits(&g, hash_mix(&keys, hashes[i]), users, 1);
        all = false;
      }
  }
  free(users);
  return all;
}
