/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include "cuckoo/generation.h"
#include "cuckoo/growth.h"

#include <stdio.h>
#include <stdlib.h>

struct fixture t;

const tamis_allocator from_the_world = {model_allocate, model_release, NULL};

void expect(bool good, const char *what)
{
  if (good)
    return;
  fprintf(stderr, "set-up: %s\n", what);
  exit(2);
}

static void make(struct lane_shape shape, double left, uint64_t roots, unsigned pair_bits,
                 unsigned depth_limit)
{
  memset(&t, 0, sizeof t);
  t.keys = hash_keys_from_seed(SEED);
  struct cuckoo_geometry *g = &t.geometry;
  g->shape = shape;
  g->first_roots = roots;
  g->pair_bits = (uint8_t) pair_bits;
  g->depth_limit = (uint8_t) depth_limit;
  g->uneven_at = NEVER_UNEVEN;
  g->fixed_shift = g->shape.shift;
  g->stripe_mask = (uint32_t) cuckoo_buckets(g) - 1;
  g->words_offset = (uint16_t) (64 + cuckoo_buckets(g) * sizeof(struct stripe));
  g->rate = cuckoo_geometry_rate(g, depth_limit);
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = cuckoo_lanes(g) * roots;
  options.fpp = g->rate + left;
  options.growable = shape.ages;
  options.seed = SEED;
  const struct filter_more more = {.allocator = from_the_world};
  struct tamis_filter head = {.keys = t.keys};
  filter_set_more(&head, &more);
  expect(tamis__cuckoo_create_with(&options, &head, g, &t.filter) == TAMIS_OK, "create");
  for (uint64_t root = 0; root < roots; root++) /* creates its segment */
    tamis__split_to(cuckoo(), cuckoo_generation(cuckoo(), 0), root << depth_limit, 0);
}

void make_cuckoo_of(unsigned width, double left, uint64_t roots, unsigned pair_bits,
                    unsigned depth_limit)
{
  make(bucket_shape(width, true), left, roots, pair_bits, depth_limit);
}

void make_fixed_cuckoo(void)
{
  make(bucket_shape(64 / LANES, false), 0, 1, 1, 0);
}

void make_cuckoo(uint64_t roots, unsigned pair_bits, unsigned depth_limit)
{
  make_cuckoo_of(64 / LANES, 8e-9, roots, pair_bits, depth_limit);
}

struct cuckoo *cuckoo(void)
{
  return cuckoo_of(t.filter);
}

void provide_growth(void)
{
  struct growth_stripes held = growth_lock(cuckoo(), &cuckoo()->first, 0, 0);
  expect(tamis__growth_provide(cuckoo()) == TAMIS_OK, "growth");
  growth_unlock(held);
}

struct bucket_pair pair_of(uint64_t hash)
{
  return pair_find(cuckoo_generation(cuckoo(), 0), hash_mix(&t.keys, hash));
}

uint64_t key_at(unsigned index, unsigned lower, unsigned upper)
{
  struct cuckoo_address address;
  do
    address = cuckoo_address(&t.geometry, hash_mix(&t.keys, ++t.last_hash));
  while ((index != ANY && cuckoo_address_index(&t.geometry, &address) != index) ||
         (lower != ANY && address.lower != lower) || (upper != ANY && address.upper != upper));
  return t.last_hash;
}

uint64_t key(void)
{
  return key_at(ANY, ANY, ANY);
}

uint64_t put(uint64_t hash)
{
  expect(tamis_add_hash(t.filter, hash) == TAMIS_OK, "add");
  return hash;
}

uint64_t put_to_stay(uint64_t hash)
{
  t.in[t.n++] = put(hash);
  return hash;
}

void take(uint64_t hash)
{
  expect(tamis_remove_hash(t.filter, hash) == TAMIS_OK, "remove");
}

bool contains(uint64_t hash)
{
  return tamis_contains_hash(t.filter, hash);
}

tamis_stats figures(void)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(t.filter, &stats);
  return stats;
}

const char *whole(void)
{
  const char *reason;
  if (!filter_validate(t.filter, &reason))
    return reason;
  for (unsigned i = 0; i < t.n; i++)
    if (!contains(t.in[i]))
      return "a key has been lost";
  return NULL;
}
