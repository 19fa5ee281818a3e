/* SPDX-License-Identifier: MIT
 *
 * The figures and the validation of a Bloom filter.
 */
#include "base/counter.h"
#include "base/stripe.h"
#include "bloom_unit.h"
#include "saved_unit.h"

#include <malloc.h>
#include <math.h>

/* A sample of its bits has none or few of them. */
EACH_LAYOUT(few_keys_in_a_large_filter_are_counted)
{
  tamis_filter *f = make_filter(layout, 4000000, low_rate(layout));
  for (uint64_t n = 0; n <= 2000; n++) {
    if (n % 500 == 0) {
      tamis_stats s = stats_of(f);
      assert_int_equal(s.count, n);
      assert_true(fabs(s.estimated_count - (double) n) <= 0.001 * (double) n);
      assert_in_range(s.bits_set, n * s.bits_per_key * 8 / 10, n * s.bits_per_key);
      assert_true(fabs(s.load - (double) n / 4000000) <= 0.001 * s.load + 1e-12);
    }
    tamis_add_hash(f, n);
  }
  tamis_destroy(f);
}

/* What a filter has counted, and its bits, are changed without its knowledge. */
TEST(validate_notices_bits_and_counts)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 100000;
  tamis_filter *f = make_with_options(&options);
  assert_int_equal(tamis_add(f, "x", 1), TAMIS_OK);
  assert_valid(f);
  struct counter_shard *shard = bloom_shards(bloom_of(f)); /* the thread's has one key */
  while (atomic_load(&shard->value[0]) == 0)
    shard++;
  assert_int_equal(atomic_load(&shard->value[0]), 1);
  atomic_store(&shard->value[0], 1000);
  assert_broken(f, "more keys than set bits");
  atomic_store(&shard->value[0], 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* What a filter takes that a server keeps for each of its users, the allocator's share among it;
 * and that the memory of the next one follows. */
TEST(a_small_filter_takes_little)
{
  for (unsigned stripes = 0; stripes < 2; stripes++) {
    tamis_options options = seeded_options(TAMIS_BLOOM, 100, 0.01, true);
    options.stripes = stripes;
    const uint64_t bytes = planned_bytes(&options);
    tamis_filter *f = make_with_options(&options);
    assert_int_equal(stats_of(f).bytes, bytes);
    assert_true(bytes + sizeof(size_t) <= 320);
    assert_ptr_equal((char *) f - (char *) bloom_of(f)->words, 192); /* the block begins there */
#if defined(__GLIBC__) && !defined(TAMIS_SANITIZED)
    assert_true(malloc_usable_size((void *) bloom_of(f)->words) + sizeof(size_t) <= 320);
#endif
    add_range(f, 0, 100);
    assert_int_equal(stats_of(f).bytes, bytes);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* As a server creates them, whose threads take turns: with its own allocator and limits.  All that
 * the filter has beside its words is 152 bytes. */
TEST(a_small_filter_with_an_allocator_takes_little)
{
  struct bank bank = {0};
  for (unsigned i = 0; i < 24; i++) {
    const uint64_t capacities[] = {100, 1000, 10000};
    tamis_options options = seeded_options(TAMIS_BLOOM, capacities[i % 3], 0.01, i < 12);
    options.layout = i % 6 < 3 ? TAMIS_LAYOUT_CLASSIC : TAMIS_LAYOUT_BLOCKED;
    options.max_bytes = i % 12 < 6 ? 0 : UINT64_C(1) << 29;
    options.cleared_from = 1 << 20;
    options.stripes = 1;
    options.allocator = allocator_of(&bank);
    const uint64_t bytes = planned_bytes(&options);
    tamis_filter *f = make_with_options(&options), *like;
    assert_int_equal(stats_of(f).bytes, bytes);
    assert_int_equal(bytes, stats_of(f).bits / 8 + 152);
    for (uint64_t key = 0; key < options.capacity; key++)
      assert_in_range(tamis_add_hash(f, key), TAMIS_OK, TAMIS_PRESENT);
    assert_int_equal(tamis_intersect(f, f, &like), TAMIS_OK);
    assert_int_equal(stats_of(like).bytes, bytes);
    const struct bloom *b = const_bloom_of(like);
    assert_int_equal(bloom_max_bytes(b), options.max_bytes);
    assert_int_equal(bloom_cleared_from(b), options.cleared_from);
    assert_true(filter_allocator(&b->head)->context == &bank);
    const uint64_t last = options.growable ? 8 * options.capacity : options.capacity;
    for (uint64_t key = 0; key < last; key++)
      assert_true(tamis_add_hash(f, key) >= TAMIS_OK && tamis_contains_hash(f, key));
    assert_true(stats_of(f).layers >= (options.growable ? 3 : 1));
    assert_valid(f);
    tamis_destroy(like);
    tamis_destroy(f);
    assert_int_equal(bank.bytes, 0);
  }
}

/* It has room for a limit, but not for one that allows another layer, with which it is larger. */
TEST(a_small_filter_keeps_to_max_bytes)
{
  tamis_options options = seeded_options(TAMIS_BLOOM, 100, 0.01, true);
  const uint64_t bytes = planned_bytes(&options);
  for (options.max_bytes = bytes; options.max_bytes < 4 * bytes; options.max_bytes += 4) {
    tamis_filter *f = make_with_options(&options);
    const uint64_t told = planned_bytes(&options);
    assert_int_equal(stats_of(f).bytes, told);
    assert_true(told >= bytes && told <= bytes + 40);
    uint64_t hash = 0;
    while (hash < 10000 && tamis_add_hash(f, hash) == TAMIS_OK)
      hash++;
    assert_true(hash >= 100 && hash < 10000);
    assert_true(stats_of(f).bytes <= options.max_bytes);
    assert_true(stats_of(f).refused_adds == 1);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* A mark says that the filter is full; it is no bit of a key. */
TEST(validate_notices_a_mark)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = TAMIS_LAYOUT_WORD;
  options.capacity = 2;
  options.fpp = 0.001;
  options.seed = 42;
  options.growable = false;
  tamis_filter *f = make_with_options(&options);
  assert_int_equal(tamis_add_unique_hash(f, 1), TAMIS_OK);
  struct bloom *b = bloom_of(f);
  word_or(&b->words[0], WORD_MARK);
  assert_broken(f, "a word is marked, and the filter is not full");
  atomic_fetch_and(&b->words[0], ~WORD_MARK);
  assert_int_equal(tamis_add_unique_hash(f, 2), TAMIS_OK);
  uint64_t set = stats_of(f).bits_set, marks = 0;
  assert_int_equal(tamis_add_unique_hash(f, 3), TAMIS_EFULL);
  for (unsigned i = 0; i < b->word_count; i++)
    marks += word_load(&b->words[i]) >> MARKED_POSITIONS;
  assert_int_equal(marks, 1);
  assert_int_equal(stats_of(f).bits_set, set);
  assert_valid(f);
  tamis_destroy(f);
}
