/* SPDX-License-Identifier: MIT */
#include "distinct.h"

#include "bloom/geometry.h"
#include "cuckoo/directory.h"
#include "harness.h"
#include "line_rate.h"

#include <stdlib.h>

enum { CLOSE_TRIES = 3000, BLOOM_ROUNDS = 100, UNITS_APART = 4 };

/* What the kinds do not have in common. */
struct distinct_form {
  bool (*confuses)(const struct distinct *distinct, uint64_t a, uint64_t b);
  /* Whether the i-th hash, a, is close to the first one, b. */
  bool (*is_close)(const struct distinct *distinct, uint64_t a, uint64_t b, unsigned i);
  bool (*holds)(const struct distinct *distinct);
};

/* ---- cuckoo ---- */

/* The bits after root0 that every entry of a generation holds at least. */
static unsigned known_bits(const struct cuckoo_geometry *g)
{
  return (unsigned) g->root_shift + g->pair_bits + g->shape.width - 1U;
}

/* The distinct prefix of a key. */
static uint64_t prefix_of(const struct distinct *distinct, uint64_t hash)
{
  uint64_t spread = hash_spread(hash_mix(&distinct->filter->keys, hash));
  unsigned __int128 string = (unsigned __int128) spread * distinct->first.first_roots;
  return (uint64_t) (string >> (64 - distinct->bits));
}

static bool cuckoo_confuses(const struct distinct *distinct, uint64_t a, uint64_t b)
{
  return prefix_of(distinct, a) == prefix_of(distinct, b);
}

/* The kinds of closeness take turns: prefixes that differ in the last bit, a bucket in common, and
 * none. */
static bool is_close_in_cuckoo(const struct distinct *distinct, uint64_t a, uint64_t b, unsigned i)
{
  const struct hash_keys *keys = &distinct->filter->keys;
  struct cuckoo_address x = cuckoo_address(&distinct->first, hash_mix(keys, a));
  struct cuckoo_address y = cuckoo_address(&distinct->first, hash_mix(keys, b));
  switch (i % 3) {
  case 1:
    return (prefix_of(distinct, a) ^ prefix_of(distinct, b)) == 1;
  case 2:
    return x.root == y.root && (x.lower == y.lower || x.upper == y.upper);
  default:
    return true;
  }
}

static bool cuckoo_holds(const struct distinct *distinct)
{
  const struct cuckoo *c = const_cuckoo_of(distinct->filter);
  for (unsigned i = 0; i < cuckoo_generations(c); i++)
    if (known_bits(&cuckoo_generation(c, i)->geometry) < distinct->bits)
      return false;
  return true;
}

/* ---- counting ---- */

static struct bloom_probes probes_of(const tamis_filter *f, uint64_t hash)
{
  const struct bloom_geometry g = bloom_geometry_of(const_bloom_of(f));
  return bloom_probes_begin(g.words, hash_mix(&f->keys, hash), g.shape);
}

/* Whether two keys have a counter in common. */
static bool counting_confuses(const struct distinct *distinct, uint64_t a, uint64_t b)
{
  const struct bloom_geometry g = bloom_geometry_of(const_bloom_of(distinct->filter));
  struct bloom_probes of_a = probes_of(distinct->filter, a);
  for (unsigned i = 0; i < g.shape.probes; i++) {
    struct bloom_probe x = bloom_probes_next(&of_a, g.shape);
    struct bloom_probes of_b = probes_of(distinct->filter, b);
    for (unsigned j = 0; j < g.shape.probes; j++) {
      struct bloom_probe y = bloom_probes_next(&of_b, g.shape);
      if (x.word == y.word && x.mask & y.mask)
        return true;
    }
  }
  return false;
}

static bool in_one_line(const struct distinct *distinct, uint64_t a, uint64_t b, unsigned i)
{
  const tamis_filter *f = distinct->filter;
  (void) i;
  return probes_of(f, a).word / LINE_WORDS == probes_of(f, b).word / LINE_WORDS;
}

/* There is one array of counters for good. */
static bool counting_holds(const struct distinct *distinct)
{
  (void) distinct;
  return true;
}

/* ---- windows ---- */

/* The values that the digits of a key can have in a layer, in units of 2^-64 of the fraction. */
static uint64_t unit_of(const struct window_geometry *g)
{
  return (UINT64_MAX >> window_fingerprint_bits(&g->shape)) / (g->segments * g->half) + 1;
}

static const struct window_geometry *first_of(const struct distinct *distinct)
{
  return &const_window_of(distinct->filter)->first.geometry;
}

static bool window_confuses(const struct distinct *distinct, uint64_t a, uint64_t b)
{
  uint64_t x = window_spread(hash_mix(&distinct->filter->keys, a)),
           y = window_spread(hash_mix(&distinct->filter->keys, b));
  return (x > y ? x - y : y - x) < UNITS_APART * unit_of(first_of(distinct));
}

static uint64_t lower_of(const struct distinct *distinct, uint64_t hash)
{
  const struct window_geometry *g = first_of(distinct);
  return window_place_of(g, hash_mix(&distinct->filter->keys, hash), g->segments > 1).lower;
}

/* Two in three have a bucket in common. */
static bool is_close_in_window(const struct distinct *distinct, uint64_t a, uint64_t b, unsigned i)
{
  return i % 3 == 2 || lower_of(distinct, a) == lower_of(distinct, b);
}

static bool window_holds(const struct distinct *distinct)
{
  const struct window *w = const_window_of(distinct->filter);
  for (const struct window_layer *layer = atomic_load(&w->newest); layer; layer = layer->older)
    if (unit_of(&layer->geometry) > UNITS_APART / 2 * unit_of(first_of(distinct)))
      return false;
  return true;
}

/* ---- any of them ---- */

struct distinct distinct_of(const tamis_filter *filter)
{
  static const struct distinct_form cuckoo = {cuckoo_confuses, is_close_in_cuckoo, cuckoo_holds},
                                    counting = {counting_confuses, in_one_line, counting_holds},
                                    window = {window_confuses, is_close_in_window, window_holds};
  const struct filter_kind *kind = operations_of(filter)->kind;
  struct distinct distinct = {.filter = filter,
                              .form = kind == &tamis__cuckoo_kind           ? &cuckoo
                                      : kind == &tamis__counting_bloom_kind ? &counting
                                                                            : &window};
  if (kind == &tamis__cuckoo_kind) {
    distinct.first = cuckoo_generation(const_cuckoo_of(filter), 0)->geometry;
    distinct.bits = known_bits(&distinct.first) < DISTINCT_BITS_MAX ? known_bits(&distinct.first)
                                                                    : DISTINCT_BITS_MAX;
  }
  return distinct;
}

bool distinct_confuses(const struct distinct *distinct, uint64_t a, uint64_t b)
{
  return distinct->form->confuses(distinct, a, b);
}

bool distinct_holds(const struct distinct *distinct)
{
  return distinct->form->holds(distinct);
}

void distinct_choose(const struct distinct *distinct, uint64_t seed, uint64_t *hashes, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    for (unsigned tries = 0;; tries++) {
      bool confused = false;
      hashes[i] = random_next(&seed);
      for (unsigned j = 0; j < i; j++)
        confused |= distinct_confuses(distinct, hashes[i], hashes[j]);
      if (!confused &&
          (tries >= CLOSE_TRIES || distinct->form->is_close(distinct, hashes[i], hashes[0], i)))
        break;
    }
}

/* ---- Bloom ---- */

/* The layers that may be opened, and how many keys use each of their bits. */
struct users {
  struct bloom_geometry layers[BLOOM_MOST_LAYERS];
  uint64_t first[BLOOM_MOST_LAYERS]; /* of each layer in `all` */
  uint16_t *all;
  unsigned n;
};

/* As long as the layers have no room for all keys twice: threads that add a key while a layer is
 * opened may add it to both. */
static bool plan_layers(const tamis_options *options, uint64_t keys, struct users *users)
{
  uint64_t room = 0, bits = 0;
  for (uint64_t capacity = options->capacity; room < 2 * keys; capacity = room) {
    struct bloom_geometry *g = &users->layers[users->n];
    if (bloom_geometry_plan_layer(options->layout, users->n + 1, capacity, options->fpp, g) !=
        TAMIS_OK)
      return false;
    users->first[users->n++] = bits;
    bits += bloom_geometry_bits(g);
    room += capacity;
  }
  users->all = bits ? calloc(bits, sizeof *users->all) : NULL;
  return users->all;
}

/* Adds `change` to the number of keys that use each bit of a key in a layer.  Returns whether one
 * of these bits is then used by a single key. */
static bool use_bits_of(const struct bloom_geometry *g, uint64_t mixed, uint16_t *users, int change)
{
  struct bloom_probe probes[MOST_PROBES_OF_KEY];
  const unsigned n = probes_of_key(g, mixed, probes);
  bool single = false;
  for (unsigned i = 0; i < n; i++) {
    for (uint64_t mask = probes[i].mask; mask; mask &= mask - 1) {
      uint16_t *user = &users[probes[i].word * 64 + (unsigned) __builtin_ctzll(mask)];
      *user = (uint16_t) (*user + change);
      single |= *user == 1;
    }
  }
  return single;
}

/* The same in all layers. */
static bool use_bits(const struct users *users, uint64_t mixed, int change)
{
  bool single = true;
  for (unsigned i = 0; i < users->n; i++)
    single &= use_bits_of(&users->layers[i], mixed, users->all + users->first[i], change);
  return single;
}

/* Keys without a bit of their own are replaced until every key has one. */
static bool choose(const struct users *users, const struct hash_keys *keys, uint64_t seed,
                   uint64_t *hashes, unsigned n)
{
  bool all = false;
  for (unsigned i = 0; i < n; i++) {
    hashes[i] = random_next(&seed);
    use_bits(users, hash_mix(keys, hashes[i]), 1);
  }
  for (unsigned rounds = 0; !all && rounds < BLOOM_ROUNDS; rounds++) {
    all = true;
    for (unsigned i = 0; i < n; i++)
      if (!use_bits(users, hash_mix(keys, hashes[i]), 0)) {
        use_bits(users, hash_mix(keys, hashes[i]), -1);
        hashes[i] = random_next(&seed);
        use_bits(users, hash_mix(keys, hashes[i]), 1);
        all = false;
      }
  }
  return all;
}

bool distinct_choose_bloom(const tamis_options *options, uint64_t seed, uint64_t *hashes,
                           unsigned n)
{
  struct users users = {.n = 0};
  struct hash_keys keys = hash_keys_from_seed(options->seed);
  bool all = plan_layers(options, n, &users) && choose(&users, &keys, seed, hashes, n);
  free(users.all);
  return all;
}
