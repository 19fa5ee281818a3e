/* SPDX-License-Identifier: MIT */
#include "cuckoo_schedule.h"

#include "cuckoo/generation.h"
#include "cuckoo/growth.h"
#include "cuckoo/segment.h"
#include "validate.h"

struct tiny make_with(unsigned width, double left, unsigned roots, unsigned depth_limit)
{
  struct tiny t = {.keys = hash_keys_from_seed(42)};
  struct cuckoo_geometry *g = &t.geometry;
  g->shape = bucket_shape(width, true);
  g->first_roots = roots;
  g->root0_bits = (uint8_t) (roots - 1); /* of one root or two */
  g->pair_bits = 2;
  g->depth_limit = (uint8_t) depth_limit;
  g->uneven_at = NEVER_UNEVEN;
  g->fixed_shift = g->shape.shift;
  g->stripe_mask = 7; /* a stripe for each bucket */
  g->words_offset = (64 + 8 * sizeof(struct stripe) + 63) / 64 * 64;
  g->rate = cuckoo_geometry_rate(g, depth_limit);
  const tamis_options options = seeded_options(TAMIS_CUCKOO, 32, g->rate + left, true);
  struct tamis_filter head = {.keys = t.keys};
  assert_int_equal(tamis__cuckoo_create_with(&options, &head, g, &t.filter), TAMIS_OK);
  for (uint64_t root = 0; root < roots; root++) /* creates its segment */
    tamis__split_to(cuckoo_of(t.filter), &cuckoo_of(t.filter)->first, root << depth_limit, 0);
  return t;
}

struct tiny make_tiny(unsigned width)
{
  return make_with(width, 0.5, 1, 1);
}

struct cuckoo_address address_of(const struct tiny *t, uint64_t hash)
{
  return cuckoo_address(&t->geometry, hash_mix(&t->keys, hash));
}

uint64_t index_of(const struct tiny *t, uint64_t hash)
{
  const struct cuckoo_address address = address_of(t, hash);
  return cuckoo_address_index(&t->geometry, &address);
}

uint64_t hash_at(struct tiny *t, uint32_t lower, uint32_t upper)
{
  struct cuckoo_address address;
  do
    address = address_of(t, ++t->last_hash);
  while (address.lower != lower || address.upper != upper ||
         (t->generation && address.root != t->root));
  return t->last_hash;
}

uint64_t hash_in_root(struct tiny *t, uint64_t root, uint32_t lower, uint32_t upper)
{
  uint64_t hash;
  do
    hash = hash_at(t, lower, upper);
  while (address_of(t, hash).root != root);
  return hash;
}

void expect_in(struct tiny *t, uint64_t hash)
{
  assert_true(t->n < MAX_KEYS);
  t->in[t->n++] = hash;
}

void add(struct tiny *t, uint64_t hash)
{
  assert_int_equal(tamis_add_hash(t->filter, hash), TAMIS_OK);
  expect_in(t, hash);
}

void add_at(struct tiny *t, uint32_t lower, uint32_t upper, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    add(t, hash_at(t, lower, upper));
}

void expect_out(struct tiny *t, uint64_t hash)
{
  for (unsigned i = 0; i < t->n; i++)
    if (t->in[i] == hash)
      t->in[i] = t->in[--t->n];
}

void take(struct tiny *t, uint64_t hash)
{
  assert_int_equal(tamis_remove_hash(t->filter, hash), TAMIS_OK);
  expect_out(t, hash);
}

bool stands_in_bucket(const struct tiny *t, uint64_t hash, uint64_t bucket)
{
  struct bucket_pair pair =
      pair_find(cuckoo_generation(cuckoo_of(t->filter), t->generation), hash_mix(&t->keys, hash));
  const struct cuckoo_geometry *g = &t->geometry;
  return bucket_match(&g->shape, word_load(&segment_words(g, pair.segment)[bucket]), pair.entry);
}

uint64_t entries_of(const struct tiny *t, unsigned generation)
{
  return cuckoo_count(cuckoo_generation(cuckoo_of(t->filter), generation), ENTRIES);
}

void finish_tiny(struct tiny *t)
{
  const char *reason = NULL;
  for (unsigned i = 0; i < t->n; i++)
    assert_true(tamis_contains_hash(t->filter, t->in[i]));
  if (!filter_validate(t->filter, &reason))
    fail_msg("%s", reason);
  assert_int_equal(stats_of(t->filter).count, t->n);
  for (unsigned i = 0; i < t->n; i++)
    assert_int_equal(tamis_remove_hash(t->filter, t->in[i]), TAMIS_OK);
  assert_int_equal(stats_of(t->filter).count, 0);
  tamis_destroy(t->filter);
}

/* ---- calls in threads ---- */

struct call call_of(const struct tiny *t, int (*make)(tamis_filter *, uint64_t), uint64_t hash)
{
  return (struct call){.filter = t->filter, .hash = hash, .function = make};
}

/* ---- splits, joins, generations ---- */

void split(struct tiny *t)
{
  uint64_t before = stats_of(t->filter).growths;
  while (stats_of(t->filter).growths == before)
    add(t, hash_at(t, LOWER, UPPER));
}

void open_generation(struct tiny *t)
{
  while (stats_of(t->filter).generations == 1)
    add(t, hash_at(t, LOWER, UPPER));
}

void open_without_keys(const struct tiny *t)
{
  struct cuckoo *c = cuckoo_of(t->filter);
  const struct cuckoo_geometry *first = &cuckoo_generation(c, 0)->geometry;
  struct cuckoo_geometry g = *first;
  unsigned n = cuckoo_generations(c);
  int result;
  g.depth_limit = 1;
  assert_true(cuckoo_geometry_restore(first, &g));
  assert_int_equal(tamis__growth_provide(c), TAMIS_OK);
  struct generation *next = tamis__generation_create(c, &g, &result);
  assert_non_null(next);
  tamis__generation_append(c, next, n);
}

struct tiny make_tiny_with_two(unsigned width)
{
  struct tiny t = make_with(width, 1e-5, 1, 1);
  open_generation(&t);
  t.generation = 1;
  t.geometry = cuckoo_generation(cuckoo_of(t.filter), 1)->geometry;
  assert_true(cuckoo_buckets(&t.geometry) >= 8);
  return t;
}

/* ---- verbs ---- */

struct tiny small;

tamis_filter *make_small(const struct setup *setup)
{
  const struct small_form *form = setup->of;
  small = make_with(form->width, form->left, form->roots, form->depth_limit);
  return small.filter;
}

static bool is_chosen(uint64_t hash)
{
  return hash == stage.x || hash == stage.y || hash == stage.z;
}

void finish_small(tamis_filter *f, uint64_t n)
{
  const uint64_t chosen[] = {stage.x, stage.y, stage.z};
  (void) n;
  for (unsigned i = 0; i < small.n; i++)
    assert_true(is_chosen(small.in[i]) || tamis_contains_hash(f, small.in[i]));
  for (unsigned i = 0; i < small.n; i++)
    if (!is_chosen(small.in[i]))
      assert_int_equal(tamis_remove_hash(f, small.in[i]), TAMIS_OK);
  for (unsigned i = 0; i < 3; i++)
    while (tamis_remove_hash(f, chosen[i]) == TAMIS_OK)
      ;
  assert_int_equal(stats_of(f).count, 0);
}

static uint64_t new_hash(uint64_t where)
{
  const uint64_t half = cuckoo_buckets(&small.geometry) / 2;
  return hash_in_root(&small, where / 100, (uint32_t) (where / 10 % 10),
                      (uint32_t) (half + where % 10 - 4));
}

DEED(x_at, where)
{
  stage.x = new_hash(where);
}

DEED(y_at, where)
{
  stage.y = new_hash(where);
}

DEED(fill, n)
{
  for (uint64_t i = 0; i < n % 10; i++)
    add(&small, new_hash(n / 10));
}

/* Takes the keys that have come last. */
DEED(unfill, n)
{
  for (; n; n--)
    take(&small, small.in[small.n - 1]);
}

DEED(split, n)
{
  split(&small);
}

/* Removes keys until two segments join. */
DEED(join, n)
{
  const uint64_t before = stats_of(f).joins;
  while (stats_of(f).joins == before) {
    assert_true(small.n > 0);
    take(&small, small.in[0]);
  }
}

DEED(open, n)
{
  open_generation(&small);
}

DEED(open_bare, n)
{
  open_without_keys(&small);
}

/* Makes the filter like a large one, which has a segment only where a key has been added. */
DEED(lose, index)
{
  struct cuckoo *c = cuckoo_of(f);
  struct generation *first = cuckoo_generation(c, 0);
  directory_entry *lost = root_entry(first, index);
  tamis__segment_destroy(c, &first->geometry, directory_segment(directory_load(lost)));
  directory_publish(lost, NULL);
  first->segments--;
}

/* Waits until what has left is released. */
VERB(drain, n)
{
  const struct backlog *backlog = &cuckoo_growth(cuckoo_of(f))->backlog;
  AWAIT(!backlog->held, stats_of(f));
  return backlog->held > 0;
}

/* max_bytes is what the filter has. */
DEED(limit, n)
{
  cuckoo_of(f)->max_bytes = cuckoo_of(f)->bytes;
}

VERB(in_home, hash)
{
  return stands_in_bucket(&small, hash, HOME);
}

VERB(in_upper, hash)
{
  return stands_in_bucket(&small, hash, address_of(&small, hash).upper);
}

VERB(entries, generation)
{
  return (int) entries_of(&small, (unsigned) generation);
}

/* The same filter eight times, in each of which the key must be. */
VERB(each_of_many, hash)
{
  const tamis_filter *const filters[] = {f, f, f, f, f, f, f, f};
  return tamis_contains_each_hash(filters, 8, hash, NULL) == 8;
}
