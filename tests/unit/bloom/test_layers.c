/* SPDX-License-Identifier: MIT
 *
 * Bloom filters that have grown beyond their first layer.
 */
#include "bloom_unit.h"
#include "saved_unit.h"

#include "base/hash.h"

/* A batch searches layer after layer; a single call searches their rows, those of like shapes
 * together.  With these rates, keys have other bits in later layers, or further probes, or
 * sections.  Absent keys are found in each of the layers. */
EACH_LAYOUT(a_table_has_the_row_of_each_layer)
{
  static const double rates[] = {0.6, 0.3, 0.1, 0.03, 0.01, 0.002, 2e-4};
  enum { ADDED = 3000, PROBES = 20000 / SCALE };
  static uint64_t keys[PROBES];
  static bool found[PROBES];
  for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++) {
    tamis_filter *f = make_filter(layout, 20, rates[r]);
    add_range(f, 0, ADDED);
    const struct bloom *first = const_bloom_of(f), *layer = newest_layer(first);
    assert_int_equal(stats_of(f).bits_per_key, bloom_shape_bits_per_key(bloom_shape_of(layer)));
    const struct bloom_row *rows = const_bloom_long_of(layer)->rows;
    for (; layer; layer = bloom_older(layer), rows++) {
      assert_ptr_equal(rows->words, layer->words);
      assert_ptr_equal(rows->calls, bloom_calls_of(layer));
      assert_in_range(rows->alike, 1, layer->number);
    }
    for (uint64_t i = 0; i < PROBES; i++)
      keys[i] = i < ADDED / 2 ? i : ~i;
    tamis_contains_many_hash(f, keys, PROBES, found);
    for (uint64_t i = 0; i < PROBES; i++) {
      assert_int_equal(tamis_contains_hash(f, keys[i]), found[i]);
      assert_true(found[i] || i >= ADDED / 2);
    }
    tamis_destroy(f);
  }
}

/* Parts that fall by a factor would take more and more bits. */
TEST(parts_of_the_rate_fall_slowly)
{
  double sum = 0;
  for (unsigned layer = 1; layer <= BLOOM_MOST_LAYERS; layer++) {
    assert_true(bloom_geometry_share(layer) * layer * layer > 0.6);
    sum += bloom_geometry_share(layer);
  }
  assert_true(sum <= 1);
}

/* ---- where growth ends ---- */

static void assert_ended(tamis_filter *f, uint64_t keys)
{
  tamis_stats before = stats_of(f);
  for (uint64_t i = 0; i < 1000; i++) {
    bool in = tamis_contains_hash(f, keys + i);
    assert_int_equal(tamis_add_unique_hash(f, keys + i), in ? TAMIS_PRESENT : TAMIS_EFULL);
    assert_int_equal(tamis_add_hash(f, keys + i), in ? TAMIS_OK : TAMIS_EFULL);
    assert_int_equal(tamis_contains_hash(f, keys + i), in);
  }
  add_range(f, 0, keys);
  tamis_stats after = stats_of(f);
  assert_true(before.count == after.count && before.bits_set == after.bits_set);
  assert_valid(f);
}

EACH_LAYOUT(max_bytes_ends_growth)
{
  struct bank bank = {0};
  tamis_options options = seeded_options(TAMIS_BLOOM, 1000, 0.01, true);
  options.layout = layout;
  options.allocator = allocator_of(&bank);
  const uint64_t one = planned_bytes(&options);
  for (uint64_t limit = one; limit < 40 * one; limit = limit * 7 / 4) {
    options.max_bytes = limit;
    bank.most_bytes = 0;
    tamis_filter *f = make_with_options(&options);
    uint64_t keys = 0;
    while (keys < 200000 && tamis_add_unique_hash(f, keys) >= 0)
      keys++;
    assert_true(keys >= 1000 && keys < 200000 && bank.most_bytes <= limit &&
                stats_of(f).bytes <= limit);
    assert_true(rate_of(f, 50000) <= 0.011);
    assert_ended(f, keys);
    tamis_destroy(f);
    assert_int_equal(bank.bytes, 0);
  }
}

/* At the highest rates, how many keys are counted depends on the seed. */
EACH_LAYOUT(fixed_filters_are_not_full_before_their_capacity)
{
  const double rates[] = {0.5, 0.9, 0.99, 0.999};
  for (unsigned i = 0; i < 400; i++) {
    tamis_options options =
        seeded_options(TAMIS_BLOOM, i % 2 ? 10000 : 100, rates[i / 2 % 4], false);
    options.layout = layout;
    options.seed = i;
    tamis_filter *f = make_with_options(&options);
    add_range(f, 0, options.capacity);
    assert_int_equal(stats_of(f).refused_adds, 0);
    tamis_destroy(f);
  }
}

/* Layers for ever lower rates would need more than 64 bits of a hash. */
TEST(growth_ends_where_hashes_do)
{
  const double rates[] = {1e-16, 1e-17, 5e-18};
  for (unsigned i = 0; i < 3; i++) {
    tamis_filter *f = make_filter(TAMIS_LAYOUT_CLASSIC, 20, rates[i]);
    uint64_t keys = 0;
    while (tamis_add_unique_hash(f, keys) >= 0)
      keys++;
    assert_in_range(keys, 20, 20000);
    assert_ended(f, keys);
    tamis_destroy(f);
  }
}

/* A filter as versions before this one have saved it: one layer, for all of the rate. */
EACH_LAYOUT(a_file_that_was_planned_for_the_whole_rate_keeps_it)
{
  struct bloom_plan plan = {.number = 1};
  assert_int_equal(bloom_geometry_plan(layout, 10000, 0.01, &plan.geometry), TAMIS_OK);
  const struct tamis_filter head = {.keys = hash_keys_from_seed(42)};
  struct bloom *b;
  assert_int_equal(tamis__bloom_create_empty(&head, &plan, &b), TAMIS_OK);
  for (uint64_t i = 0; i < 5000; i++)
    (void) tamis_add_hash(&b->head, i);
  tamis_filter *f = copy_of(&b->head);
  for (uint64_t n = 5000; n <= 80000 / SCALE; n += 2500) {
    add_range(f, n - 2500, n);
    assert_true(rate_of(f, 100000) <= 0.01);
  }
  assert_valid(f);
  tamis_destroy(f);
  tamis_destroy(&b->head);
}
