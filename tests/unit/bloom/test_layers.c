/* SPDX-License-Identifier: MIT
 *
 * Bloom filters that have grown beyond their first layer.
 */
#include "bloom_unit.h"
#include "saved_unit.h"

#include "base/hash.h"

#include <math.h>
#include <pthread.h>

static tamis_options options_for(tamis_layout layout, uint64_t capacity)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = layout;
  options.capacity = capacity;
  options.seed = 42;
  return options;
}

/* A key that is never added. */
static uint64_t absent(uint64_t i)
{
  return ~i;
}

static double rate_of(const tamis_filter *f, uint64_t probes)
{
  uint64_t hits = 0;
  for (uint64_t i = 0; i < probes; i++)
    hits += tamis_contains_hash(f, absent(i));
  return (double) hits / (double) probes;
}

/* A batch searches layer after layer; a single call searches their rows, those of like shapes
 * together.  With these rates, keys have other bits in later layers, or further probes, or
 * sections.  Absent keys are found in each of the layers. */
static void a_table_has_the_row_of_each_layer(tamis_layout layout)
{
  static const double rates[] = {0.6, 0.3, 0.1, 0.03, 0.01, 0.002, 2e-4};
  enum { ADDED = 3000, PROBES = 20000 / SCALE };
  static uint64_t keys[PROBES];
  static bool found[PROBES];
  for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++) {
    tamis_filter *f = make_filter(layout, 20, rates[r]);
    for (uint64_t i = 0; i < ADDED; i++)
      assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
    const struct bloom *first = const_bloom_of(f), *layer = newest_layer(first);
    assert_int_equal(stats_of(f).bits_per_key, bloom_shape_bits_per_key(bloom_shape_of(layer)));
    const struct bloom_row *rows = const_bloom_long_of(layer)->rows;
    for (; layer; layer = bloom_older(layer), rows++) {
      assert_ptr_equal(rows->words, layer->words);
      assert_ptr_equal(rows->calls, bloom_calls_of(layer));
      assert_in_range(rows->alike, 1, layer->number);
    }
    for (uint64_t i = 0; i < PROBES; i++)
      keys[i] = i < ADDED / 2 ? i : absent(i);
    tamis_contains_many_hash(f, keys, PROBES, found);
    for (uint64_t i = 0; i < PROBES; i++) {
      assert_int_equal(tamis_contains_hash(f, keys[i]), found[i]);
      assert_true(found[i] || i >= ADDED / 2);
    }
    tamis_destroy(f);
  }
}
EACH_LAYOUT(a_table_has_the_row_of_each_layer)

/* Parts that fall by a factor would take more and more bits. */
static void parts_of_the_rate_fall_slowly(void **state)
{
  (void) state;
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
  for (uint64_t i = 0; i < keys; i++)
    assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
  tamis_stats after = stats_of(f);
  assert_true(before.count == after.count && before.bits_set == after.bits_set);
  assert_valid(f);
}

static void max_bytes_ends_growth(tamis_layout layout)
{
  struct counts counts = {0};
  tamis_allocator allocator = counting(&counts);
  tamis_options options = options_for(layout, 1000);
  options.allocator = &allocator;
  uint64_t one;
  assert_int_equal(tamis_bytes_for(&options, &one), TAMIS_OK);
  for (uint64_t limit = one; limit < 40 * one; limit = limit * 7 / 4) {
    tamis_filter *f;
    options.max_bytes = limit;
    counts.most = 0;
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    uint64_t keys = 0;
    while (keys < 200000 && tamis_add_unique_hash(f, keys) >= 0)
      keys++;
    assert_true(keys >= 1000 && keys < 200000 && counts.most <= limit &&
                stats_of(f).bytes <= limit);
    assert_true(rate_of(f, 50000) <= 0.011);
    assert_ended(f, keys);
    tamis_destroy(f);
    assert_int_equal(counts.now, 0);
  }
}
EACH_LAYOUT(max_bytes_ends_growth)

/* Blocks of `from` bytes and more come with all bits set, as if they had been cleared: where the
 * filter believes that, it finds every key. */
static void *allocate_set(void *from, size_t alignment, size_t size)
{
  void *block = NULL;
  assert_int_equal(posix_memalign(&block, alignment, size), 0);
  memset(block, size >= *(size_t *) from ? 0xff : 0x5a, size);
  return block;
}

static void release_set(void *from, void *block, size_t alignment, size_t size)
{
  (void) from, (void) alignment, (void) size;
  free(block);
}

/* An allocator's word that its blocks are cleared is taken from the size on that it names: for the
 * filter, for layers that are opened later, and in a filter that was loaded. */
static void large_blocks_may_come_cleared(tamis_layout layout)
{
  size_t from = 20000; /* the first layer is smaller, later ones are larger */
  const tamis_allocator allocator = {allocate_set, release_set, &from};
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
  options.layout = layout;
  options.seed = 42;
  options.allocator = load.allocator = &allocator;
  const size_t sizes[] = {0, from, (UINT64_C(1) << 32) + 1};
  tamis_filter *f, *g;
  for (unsigned i = 0; i < 3; i++) {
    const bool believed = sizes[i] == from;
    struct bytes saved = {0};
    options.cleared_from = load.cleared_from = sizes[i];
    options.capacity = 1000;
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    assert_false(tamis_contains_hash(f, absent(0)));
    assert_int_equal(tamis_save(f, write_bytes, &saved), TAMIS_OK);
    struct source s = source_of(&saved);
    assert_int_equal(tamis_load(&load, read_source, &s, &g), TAMIS_OK);
    for (uint64_t key = 0; key < 20000; key++) {
      (void) tamis_add_hash(f, key);
      (void) tamis_add_hash(g, key);
    }
    assert_int_equal(rate_of(f, 1000) == 1, believed);
    assert_int_equal(rate_of(g, 1000) == 1, believed);
    tamis_destroy(f);
    tamis_destroy(g);
    options.capacity = 100000;
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    assert_int_equal(tamis_contains_hash(f, absent(0)), believed);
    tamis_destroy(f);
    free(saved.data);
  }
  /* A block of just that size. */
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  options.cleared_from = from = stats_of(f).bits / 8;
  tamis_destroy(f);
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  assert_true(tamis_contains_hash(f, absent(0)));
  tamis_destroy(f);
}
EACH_LAYOUT(large_blocks_may_come_cleared)

/* Without an allocator, the size from which on blocks come cleared says nothing: malloc() gives
 * memory back that was in use. */
static void blocks_of_malloc_are_cleared(void **state)
{
  (void) state;
  enum { BYTES = 40000, BLOCKS = 8 };
  tamis_options options = options_for(TAMIS_LAYOUT_BLOCKED, 20000);
  options.cleared_from = 1;
  for (unsigned i = 0; i < 4; i++) {
    void *used[BLOCKS] = {NULL};
    for (unsigned j = 0; j < BLOCKS; j++) {
      assert_int_equal(posix_memalign(&used[j], 64, BYTES), 0);
      memset(used[j], 0xff, BYTES);
    }
    for (unsigned j = 0; j < BLOCKS; j++)
      free(used[j]);
    tamis_filter *f = make_with_options(&options);
    assert_int_equal(stats_of(f).bits_set, 0);
    assert_int_equal(bloom_cleared_from(const_bloom_of(f)), 0);
    tamis_destroy(f);
  }
}

/* Layers for ever lower rates would need more than 64 bits of a hash. */
static void growth_ends_where_hashes_do(void **state)
{
  (void) state;
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

/* ---- saved ---- */

/* max_bytes counts all layers. */
static void max_bytes_holds_for_all_layers(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.01);
  for (uint64_t i = 0; i < 7000; i++)
    (void) tamis_add_hash(f, i);
  struct bytes b = saved_bytes(f);
  uint64_t bytes = stats_of(f).bytes;
  assert_int_equal(load_any(source_of(&b), bytes, NULL), TAMIS_OK);
  for (uint64_t less = 1; less < bytes; less += bytes / 7)
    assert_int_equal(load_any(source_of(&b), bytes - less, NULL), TAMIS_EFULL);
  tamis_destroy(f);
  free(b.data);
}

/* Where the numbers of the layers are in a file: after each array and its sums. */
static size_t next_layer_block(const struct bytes *b, size_t from)
{
  for (size_t at = from; at + 64 < b->size; at += 64)
    if (saved_get32(b->data + at) == SAVED_KIND_BLOCKS && !saved_get32(b->data + at + 4) &&
        saved_get64(b->data + at + 8) == 56)
      return at;
  return 0;
}

/* Each change is made in a file whose sum of the block is right, but not those after it; so what
 * the library says is found before these are. */
static void layers_that_cannot_be_are_refused(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.01);
  for (uint64_t i = 0; i < 3000; i++)
    (void) tamis_add_hash(f, i);
  struct bytes b = saved_bytes(f), changed = {.size = b.size, .data = malloc(b.size)};
  size_t block = next_layer_block(&b, SAVED_ARRAY_ALIGNMENT);
  assert_true(block);
  const uint64_t inf = UINT64_C(0x7FF0000000000000);
  const struct {
    size_t at; /* in the block, or (below 64) in its head */
    uint64_t value;
  } numbers[] = {
      {24, 3},           {24, 0},  {24, UINT64_MAX}, {32, UINT64_MAX}, {40, UINT64_MAX},
      {48, 1},           {64, 2},  {64, 3},          {64, 99},         {72, 0},
      {72, 65},          {80, 0},  {80, 99},         {88, 0},          {88, UINT64_C(1) << 41},
      {88, UINT64_MAX},  {96, 0},  {96, 2},          {96, UINT64_MAX}, {104, 0},
      {104, UINT64_MAX}, {112, 0}, {112, inf},       {112, UINT64_MAX}};
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    memcpy(changed.data, b.data, b.size);
    saved_put64(changed.data + block + numbers[i].at, numbers[i].value);
    saved_put64(changed.data + block + 56,
                saved_block_sum(changed.data + block, changed.data + block + 64, 48));
    int result = load_any(source_of(&changed), 0, NULL);
    if (result != TAMIS_ECORRUPT)
      fail_msg("number %u: %d", i, result);
  }
  /* how many layers there are, in the header */
  const struct {
    uint64_t features, further;
    int result;
  } headers[] = {{0, 2, TAMIS_ECORRUPT},    {1, 0, TAMIS_EUNSUPPORTED},
                 {1, 1, TAMIS_ECORRUPT},    {1, 3, TAMIS_ECORRUPT},
                 {1, 64, TAMIS_ECORRUPT},   {1, UINT64_MAX, TAMIS_ECORRUPT},
                 {3, 2, TAMIS_EUNSUPPORTED}};
  for (unsigned i = 0; i < sizeof headers / sizeof *headers; i++) {
    memcpy(changed.data, b.data, b.size);
    saved_put64(changed.data + 16, headers[i].features);
    saved_put64(changed.data + SAVED_GEOMETRY_AT + 48, headers[i].further);
    saved_put64(changed.data + SAVED_HEADER - 8, hash_sum(changed.data, SAVED_HEADER - 8, 0));
    int result = load_any(source_of(&changed), 0, NULL);
    if (result != headers[i].result)
      fail_msg("header %u: %d", i, result);
  }
  assert_truncations_are_found(&b, 64);
  assert_changes_are_found(&b, SCALE == 1 ? 301 : 3001);
  tamis_destroy(f);
  free(b.data);
  free(changed.data);
}

/* A filter as versions before this one have saved it: one layer, for all of the rate. */
static void a_file_that_was_planned_for_the_whole_rate_keeps_it(tamis_layout layout)
{
  struct bloom_plan plan = {.stripes_wanted = 0};
  assert_int_equal(bloom_geometry_plan(layout, 10000, 0.01, &plan.geometry), TAMIS_OK);
  const struct tamis_filter head = {.keys = hash_keys_from_seed(42)};
  struct bloom *b;
  assert_int_equal(tamis__bloom_create_empty(&head, &plan, &b), TAMIS_OK);
  for (uint64_t i = 0; i < 5000; i++)
    (void) tamis_add_hash(&b->head, i);
  struct bytes saved = saved_bytes(&b->head);
  tamis_filter *f = load_bytes(&saved);
  for (uint64_t n = 5000; n <= 80000 / SCALE; n += 2500) {
    for (uint64_t i = n - 2500; i < n; i++)
      assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
    assert_true(rate_of(f, 100000) <= 0.01);
  }
  assert_valid(f);
  tamis_destroy(f);
  tamis_destroy(&b->head);
  free(saved.data);
}
EACH_LAYOUT(a_file_that_was_planned_for_the_whole_rate_keeps_it)

/* ---- threads ---- */

enum { THREADS = 4, SHARED = 60000 / SCALE };

struct adder {
  tamis_filter *filter;
  unsigned char *won;
  unsigned number;
  bool batches, good;
  pthread_t thread;
};

static void *add_all(void *arg)
{
  struct adder *a = arg;
  a->good = true;
  for (uint64_t i = 0; i < SHARED; i += 16) {
    uint64_t keys[16];
    int results[16];
    for (uint64_t j = 0; j < 16; j++)
      keys[j] = i + j;
    if (a->batches && a->number % 2)
      a->good &= tamis_add_unique_many_hash(a->filter, keys, 16, results) == TAMIS_OK;
    else
      for (unsigned j = 0; j < 16; j++)
        results[j] = tamis_add_unique_hash(a->filter, keys[j]);
    for (unsigned j = 0; j < 16; j++) {
      if (results[j] == TAMIS_OK)
        __atomic_fetch_add(&a->won[keys[j]], 1, __ATOMIC_RELAXED);
      a->good &= results[j] >= 0 && tamis_contains_hash(a->filter, keys[j]);
    }
  }
  return NULL;
}

/* All threads add the same keys in the same order: across all openings each key has at most one
 * winner, and hardly any has none. */
static void each_key_has_one_winner(tamis_layout layout)
{
  for (unsigned round = 0; round < 6; round++) {
    tamis_filter *f = make_filter(layout, round % 2 ? 100 : 1000, 0.01);
    struct adder adders[THREADS];
    static unsigned char won[SHARED];
    memset(won, 0, sizeof won);
    for (unsigned t = 0; t < THREADS; t++) {
      adders[t] = (struct adder){.filter = f, .won = won, .number = t, .batches = round > 2};
      assert_int_equal(pthread_create(&adders[t].thread, NULL, add_all, &adders[t]), 0);
    }
    uint64_t none = 0;
    for (unsigned t = 0; t < THREADS; t++) {
      pthread_join(adders[t].thread, NULL);
      assert_true(adders[t].good);
    }
    for (uint64_t i = 0; i < SHARED; i++) {
      assert_true(won[i] <= 1 && tamis_contains_hash(f, i));
      none += !won[i];
    }
    tamis_stats s = stats_of(f);
    assert_true((double) none < 0.011 * SHARED && s.layers > (SCALE == 1 ? 5 : 3));
    assert_in_range(s.count, SHARED - none, SHARED - none + THREADS * s.layers);
    assert_true(rate_of(f, 100000) <= 0.01);
    assert_valid(f);
    tamis_destroy(f);
  }
}
EACH_LAYOUT(each_key_has_one_winner)

int main(void)
{
  const struct CMUnitTest tests[] = {
      EACH(a_table_has_the_row_of_each_layer),
      cmocka_unit_test(parts_of_the_rate_fall_slowly),
      EACH(max_bytes_ends_growth),
      EACH(large_blocks_may_come_cleared),
      cmocka_unit_test(blocks_of_malloc_are_cleared),
      cmocka_unit_test(growth_ends_where_hashes_do),
      cmocka_unit_test(max_bytes_holds_for_all_layers),
      cmocka_unit_test(layers_that_cannot_be_are_refused),
      EACH(a_file_that_was_planned_for_the_whole_rate_keeps_it),
      EACH_WITH_THREADS(each_key_has_one_winner),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
