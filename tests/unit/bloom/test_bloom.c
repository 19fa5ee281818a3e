/* SPDX-License-Identifier: MIT
 *
 * The figures and the validation of a Bloom filter.
 */
#include "unit.h"

#include "base/counter.h"
#include "base/stripe.h"
#include "bloom_unit.h"

#include <malloc.h>
#include <math.h>

static void stats_tell_the_truth(tamis_layout layout)
{
  enum { N = 200000 };
  tamis_filter *f = make_filter(layout, N, 0.01);
  tamis_stats empty = stats_of(f);
  assert_int_equal(empty.kind, TAMIS_BLOOM);
  assert_int_equal(empty.layout, layout);
  assert_int_equal(empty.capacity, N);
  assert_true(empty.fpp == 0.01);
  assert_int_equal(empty.count, 0);
  assert_int_equal(empty.bits_set, 0);
  assert_true(empty.estimated_count == 0 && empty.load == 0);
  assert_true(empty.fpp_estimate < 1e-9);
  assert_int_equal(empty.seed, 42);
  assert_in_range(empty.bytes, empty.bits / 8, empty.bits / 8 + 65536);
  uint64_t added = 0;
  for (uint64_t target = N / 4; target <= 8 * N; target *= 2) {
    for (; added < target; added++)
      tamis_add_hash(f, added);
    tamis_stats s = stats_of(f);
    assert_true(fabs(s.estimated_count / (double) target - 1) < 0.01);
    assert_true(fabs(s.load - s.estimated_count / N) < 1e-9);
    /* With one thread, every key that sets a bit is counted.  (0.99: bits are counted by
     * samples.) */
    if (s.layers == 1)
      assert_true((double) s.count * s.bits_per_key > 0.99 * (double) s.bits_set);
    assert_true(s.count <= target && (double) s.count > 0.98 * (double) target);
    assert_int_equal(s.layers, 1 + (target > N) + (target > 2 * N) + (target > 4 * N));
    assert_int_equal(s.growths, s.layers - 1);
    /* the estimate of the rate against the rate */
    enum { PROBES = 400000 };
    unsigned hits = 0;
    for (uint64_t i = 0; i < PROBES; i++)
      hits += tamis_contains_hash(f, ~i);
    double expected = s.fpp_estimate * PROBES;
    assert_true(fabs(hits - expected) < 0.03 * expected + 5 * sqrt(expected));
    assert_true(s.fpp_estimate < 0.01 && hits <= 0.01 * PROBES);
  }
  assert_valid(f);
  tamis_destroy(f);
}
EACH_LAYOUT(stats_tell_the_truth)

/* A sample of its bits has none or few of them. */
static void few_keys_in_a_large_filter_are_counted(tamis_layout layout)
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
EACH_LAYOUT(few_keys_in_a_large_filter_are_counted)

/* A bit is cleared without the filter's knowledge, in the block of the words, which is the
 * largest. */
static void *largest;

static void *remember_largest(void *context, size_t alignment, size_t size)
{
  size_t *most = context;
  void *block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (size > *most) {
    *most = size;
    largest = block;
  }
  return block;
}

static void just_free(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) alignment, (void) size;
  free(block);
}

static void validate_notices_a_lost_bit(void **state)
{
  (void) state;
  size_t most = 0;
  tamis_allocator allocator = {remember_largest, just_free, &most};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 100000;
  options.growable = false;
  options.allocator = &allocator;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  tamis_add(f, "x", 1);
  assert_valid(f);
  uint64_t *w = largest;
  while (*w == 0)
    w++;
  *w &= *w - 1;
  const char *reason;
  assert_false(filter_validate(f, &reason));
  assert_string_equal(reason, "counted bits are not the set bits");
  tamis_destroy(f);
}

/* The blocks of a filter, in the order in which it asks for them. */
enum block { WORDS, REST, BLOCKS };

struct blocks {
  void *block[BLOCKS];
  size_t size[BLOCKS];
  unsigned n;
};

static void *remember_all(void *context, size_t alignment, size_t size)
{
  struct blocks *blocks = context;
  void *block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  assert_true(blocks->n < BLOCKS);
  blocks->block[blocks->n] = block;
  blocks->size[blocks->n++] = size;
  return block;
}

/* The count of keys is too high, or too low. */
static void validate_notices_counts(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 100000, 0.01);
  assert_int_equal(tamis_add(f, "x", 1), TAMIS_OK);
  assert_valid(f);

  const struct bloom *b = bloom_of(f);
  /* The thread's shard has counted one key, and its bits, which are more. */
  struct counter_shard *shard = bloom_shards(b);
  while (atomic_load(&shard->value[0]) == 0)
    shard++;
  assert_int_equal(atomic_load(&shard->value[0]), stats_of(f).count);
  atomic_store(&shard->value[0], 1000);
  assert_broken(f, "more keys than set bits");
  atomic_store(&shard->value[0], 1);
  assert_valid(f);
  tamis_destroy(f);
}

/* What a filter takes that a server keeps for each of its users, the allocator's share among it;
 * and that the memory of the next one follows. */
static void a_small_filter_takes_little(void **state)
{
  (void) state;
  for (unsigned stripes = 0; stripes < 2; stripes++) {
    tamis_options options = TAMIS_OPTIONS_INIT;
    options.capacity = 100;
    options.stripes = stripes;
    uint64_t bytes;
    assert_int_equal(tamis_bytes_for(&options, &bytes), TAMIS_OK);
    tamis_filter *f;
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    assert_int_equal(stats_of(f).bytes, bytes);
    assert_true(bytes + sizeof(size_t) <= 320);
    assert_ptr_equal((char *) f - (char *) bloom_of(f)->words, 192); /* the block begins there */
#if defined(__GLIBC__) && !defined(TAMIS_SANITIZED)
    assert_true(malloc_usable_size((void *) bloom_of(f)->words) + sizeof(size_t) <= 320);
#endif
    for (uint64_t key = 0; key < 100; key++)
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
    assert_int_equal(stats_of(f).bytes, bytes);
    assert_valid(f);
    tamis_destroy(f);
  }
}

static void *allocate_aligned(void *context, size_t alignment, size_t size)
{
  void *block = NULL;
  (void) context;
  return posix_memalign(&block, alignment < 8 ? 8 : alignment, size) ? NULL : block;
}

static void release_aligned(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) alignment, (void) size;
  free(block);
}

/* As a server creates them, whose threads take turns: with its own allocator and limits.  All that
 * the filter has beside its words is 160 bytes, or 168 if it does not grow. */
static void a_small_filter_with_an_allocator_takes_little(void **state)
{
  (void) state;
  const tamis_allocator allocator = {allocate_aligned, release_aligned, NULL};
  for (unsigned i = 0; i < 24; i++) {
    tamis_options options = TAMIS_OPTIONS_INIT;
    const uint64_t capacities[] = {100, 1000, 10000};
    options.capacity = capacities[i % 3];
    options.layout = i % 6 < 3 ? TAMIS_LAYOUT_CLASSIC : TAMIS_LAYOUT_BLOCKED;
    options.growable = i < 12;
    options.max_bytes = i % 12 < 6 ? 0 : UINT64_C(1) << 29;
    options.cleared_from = 1 << 20;
    options.stripes = 1;
    options.allocator = &allocator;
    uint64_t bytes;
    tamis_filter *f, *like;
    assert_int_equal(tamis_bytes_for(&options, &bytes), TAMIS_OK);
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    assert_int_equal(stats_of(f).bytes, bytes);
    assert_int_equal(bytes, stats_of(f).bits / 8 + (options.growable ? 160 : 168));
    for (uint64_t key = 0; key < options.capacity; key++)
      assert_in_range(tamis_add_hash(f, key), TAMIS_OK, TAMIS_PRESENT);
    assert_int_equal(tamis_intersect(f, f, &like), TAMIS_OK);
    assert_int_equal(stats_of(like).bytes, bytes);
    const struct bloom *b = const_bloom_of(like);
    assert_int_equal(bloom_max_bytes(b), options.max_bytes);
    assert_int_equal(bloom_cleared_from(b), options.cleared_from);
    assert_true(filter_allocator(&b->head)->allocate == allocate_aligned);
    const uint64_t last = options.growable ? 8 * options.capacity : options.capacity;
    for (uint64_t key = 0; key < last; key++)
      assert_true(tamis_add_hash(f, key) >= TAMIS_OK && tamis_contains_hash(f, key));
    assert_true(stats_of(f).layers >= (options.growable ? 3 : 1));
    uint64_t more = 0;
    while (!options.growable && tamis_add_hash(f, UINT64_MAX - more) == TAMIS_OK)
      more++;
    assert_true(options.growable || more < options.capacity / 10 + 10);
    assert_valid(f);
    tamis_destroy(like);
    tamis_destroy(f);
  }
}

/* It has room for a limit, but not for one that allows another layer, with which it is larger. */
static void a_small_filter_keeps_to_max_bytes(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  uint64_t bytes;
  options.capacity = 100;
  assert_int_equal(tamis_bytes_for(&options, &bytes), TAMIS_OK);
  for (options.max_bytes = bytes; options.max_bytes < 4 * bytes; options.max_bytes += 4) {
    tamis_filter *f;
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    uint64_t told;
    assert_int_equal(tamis_bytes_for(&options, &told), TAMIS_OK);
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

/* Whatever number of stripes is asked for: no call would take one. */
static void no_layout_has_stripes(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 6; i++) {
    struct blocks blocks = {.n = 0};
    tamis_allocator allocator = {remember_all, just_free, &blocks};
    tamis_options options = TAMIS_OPTIONS_INIT;
    options.layout = (tamis_layout) (i / 2);
    options.capacity = 100000;
    options.growable = i % 2;
    options.stripes = i % 2 ? 4096 : 0;
    options.allocator = &allocator;
    tamis_filter *f;
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    assert_int_equal(blocks.n, BLOCKS);
    assert_int_equal(bloom_stripe_count(bloom_of(f)), 0);
    uint64_t bytes, sum = 0;
    for (unsigned j = 0; j < blocks.n; j++)
      sum += blocks.size[j];
    assert_int_equal(stats_of(f).bytes, sum);
    assert_int_equal(tamis_bytes_for(&options, &bytes), TAMIS_OK);
    assert_int_equal(bytes, sum);
    assert_int_equal(tamis_add_unique(f, "x", 1), TAMIS_OK);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* A mark says that the filter is full; it is no bit of a key. */
static void validate_notices_a_mark(void **state)
{
  (void) state;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = TAMIS_LAYOUT_WORD;
  options.capacity = 2;
  options.fpp = 0.001;
  options.seed = 42;
  options.growable = false;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
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

/* What a filter takes is enough as its limit, and buys the rate that it was planned for. */
static void the_bytes_of_a_filter_may_be_its_limit(void **state)
{
  (void) state;
  const tamis_kind kinds[] = {TAMIS_BLOOM, TAMIS_COUNTING_BLOOM, TAMIS_CUCKOO};
  for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (uint64_t capacity = 1; capacity < 1000; capacity = capacity * 5 / 4 + 1)
      for (unsigned growable = 0; growable < 2; growable++) {
        tamis_options options = TAMIS_OPTIONS_INIT;
        options.kind = kinds[i];
        options.capacity = capacity;
        options.growable = growable;
        double fpp;
        tamis_filter *f;
        assert_int_equal(tamis_bytes_for(&options, &options.max_bytes), TAMIS_OK);
        assert_int_equal(tamis_fpp_for(&options, options.max_bytes, &fpp), TAMIS_OK);
        assert_true(fpp <= options.fpp * 1.01);
        assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
        tamis_destroy(f);
      }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      EACH(stats_tell_the_truth),
      EACH(few_keys_in_a_large_filter_are_counted),
      cmocka_unit_test(validate_notices_a_lost_bit),
      cmocka_unit_test(validate_notices_counts),
      cmocka_unit_test(a_small_filter_takes_little),
      cmocka_unit_test(a_small_filter_with_an_allocator_takes_little),
      cmocka_unit_test(a_small_filter_keeps_to_max_bytes),
      cmocka_unit_test(no_layout_has_stripes),
      cmocka_unit_test(validate_notices_a_mark),
      cmocka_unit_test(the_bytes_of_a_filter_may_be_its_limit),
  };
  return cmocka_run_group_tests_name("bloom", tests, NULL, NULL);
}
