/* SPDX-License-Identifier: MIT
 *
 * Races between two processes that share a filter, each replayed exactly: two handles of one file,
 * of which one has a call that stands still.  Built with the hooks.
 */
#include "calls.h"

#include "bloom/layers.h"
#include "filter_unit.h"

#include <sys/mman.h>
#include <unistd.h>

static const tamis_layout layouts[] = {TAMIS_LAYOUT_BLOCKED, TAMIS_LAYOUT_CLASSIC,
                                       TAMIS_LAYOUT_WORD};

struct pair {
  int file;
  tamis_filter *a, *b;
};

/* max_bytes 0: not growable. */
static struct pair open_pair(tamis_layout layout, uint64_t capacity, uint64_t max_bytes)
{
  struct pair pair = {.file = memfd_create("test", MFD_CLOEXEC)};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = layout;
  options.capacity = capacity;
  options.fpp = 0.0025;
  options.growable = max_bytes > 0;
  options.max_bytes = max_bytes;
  assert_int_equal(tamis_open_shared_fd(&options, pair.file, &pair.a), TAMIS_OK);
  assert_int_equal(tamis_open_shared_fd(&options, pair.file, &pair.b), TAMIS_OK);
  return pair;
}

static void close_pair(struct pair *pair)
{
  assert_valid(pair->a);
  assert_valid(pair->b);
  tamis_destroy(pair->a);
  tamis_destroy(pair->b);
  close(pair->file);
}

/* Another process opens a layer, and the key wins there. */
static void a_late_add_meets_a_winner(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    struct pair pair = open_pair(layouts[i], 10000, 1 << 20);
    struct call a = {.filter = pair.a, .hash = 7};
    struct bloom *first = bloom_of(pair.b);
    stop_at(&a, "bloom_room_found");
    assert_int_equal(tamis__layers_open(first, first, 0), TAMIS_OK);
    assert_int_equal(tamis_add_unique_hash(pair.b, 7), TAMIS_OK);
    assert_int_equal(go_on(&a), TAMIS_PRESENT);
    assert_int_equal(stats_of(pair.a).layers, 2);
    assert_int_equal(stats_of(pair.a).count, 1);
    close_pair(&pair);
  }
}

/* Another process has added keys to a layer of which this one has not heard. */
static void a_look_up_finds_what_is_in_an_unknown_layer(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 6; i++) {
    struct pair pair = open_pair(layouts[i % 3], 10000, 1 << 20);
    struct bloom *first = bloom_of(pair.b);
    const uint64_t hash = 7;
    bool found;
    assert_int_equal(tamis__layers_open(first, first, 0), TAMIS_OK);
    assert_int_equal(tamis_add_hash(pair.b, hash), TAMIS_OK);
    if (i < 3)
      assert_true(tamis_contains_hash(pair.a, hash));
    else
      assert_int_equal(tamis_contains_many_hash(pair.a, &hash, 1, &found), 1);
    close_pair(&pair);
  }
}

/* A unique add has found room when another process is refused the key for good. */
static void no_unique_add_wins_after_a_refusal(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    struct pair pair = open_pair(layouts[i], 10000, 50000);
    struct call a = {.filter = pair.a, .hash = 7};
    struct bloom *first = bloom_of(pair.b);
    stop_at(&a, "bloom_room_found");
    assert_int_equal(tamis__layers_open(first, first, 0), TAMIS_EFULL);
    assert_int_equal(tamis_add_unique_hash(pair.b, 7), TAMIS_EFULL);
    assert_int_equal(go_on(&a), TAMIS_EFULL);
    close_pair(&pair);
  }
}

/* The same in a filter that does not grow, and that the other process fills. */
static void no_unique_add_wins_in_a_full_filter(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    struct pair pair = open_pair(layouts[i], 1000, 0);
    struct call a = {.filter = pair.a, .hash = 7};
    uint64_t key = 100;
    stop_at(&a, "bloom_room_found");
    while (tamis_add_unique_hash(pair.b, key++) != TAMIS_EFULL)
      assert_true(key < 2000);
    const int other = tamis_add_unique_hash(pair.b, 7);
    const int own = go_on(&a);
    if (other == TAMIS_EFULL) /* else other keys have set its bits */
      assert_int_equal(own, TAMIS_EFULL);
    assert_int_equal(tamis_add_unique_hash(pair.a, key), TAMIS_EFULL);
    close_pair(&pair);
  }
}

/* Both look for room at the end of a layer, and both open the next one. */
static void of_two_openings_one_counts(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 3; i++) {
    struct pair pair = open_pair(layouts[i], 100, 1 << 20);
    uint64_t key = 1000;
    while (stats_of(pair.b).count < 99)
      assert_true(tamis_add_unique_hash(pair.b, key++) >= TAMIS_OK);
    for (; stats_of(pair.b).layers == 1; key++) /* the next key may be hidden */
      if (stats_of(pair.b).count < 100)
        assert_true(tamis_add_unique_hash(pair.b, key) >= TAMIS_OK);
      else
        break;
    struct call a = {.filter = pair.a, .hash = key + 1000};
    stop_at(&a, "bloom_layer_created");
    assert_true(tamis_add_unique_hash(pair.b, key + 2000) >= TAMIS_OK);
    assert_int_equal(stats_of(pair.b).layers, 2);
    assert_true(go_on(&a) >= TAMIS_OK);
    assert_int_equal(stats_of(pair.a).layers, 2);
    close_pair(&pair);
  }
}

/* The bits of keys in all layers. */
static uint64_t bits_of(const tamis_filter *f)
{
  uint64_t bits = 0;
  for (const struct bloom *b = newest_layer(const_bloom_of(f)); b; b = bloom_older(b))
    for (uint64_t i = 0; i < b->word_count; i++)
      bits += (unsigned) __builtin_popcountll(word_load(&b->words[i]) & bloom_key_bits(b->layout));
  return bits;
}

/* One process has filled the filter, or opened a layer.  Another one, which has not heard of it, adds
 * key after key there: of those that are refused one sets bits, and so it is in a layer that is
 * closed. */
static void a_process_that_lags_sets_no_bits(void **state)
{
  (void) state;
  enum { MORE = 2000, MOST_BITS = 100 };
  for (unsigned i = 0; i < 9; i++) {
    const uint64_t max_bytes = i < 3 ? 0 : i < 6 ? 20000 : 1 << 20;
    struct pair pair = open_pair(layouts[i % 3], 1000, max_bytes);
    uint64_t key = 1;
    int result = TAMIS_OK;
    for (; result != TAMIS_EFULL && stats_of(pair.a).layers < 4; key++)
      result = tamis_add_unique_hash(pair.a, key * HASH_MULTIPLIER);
    assert_int_equal(result == TAMIS_EFULL, i < 6);
    const uint64_t bits = bits_of(pair.b);
    unsigned added = 0;
    for (uint64_t end = key + MORE; key < end; key++)
      added += tamis_add_unique_hash(pair.b, key * HASH_MULTIPLIER) == TAMIS_OK;
    if (i < 6)
      assert_int_equal(added, 0);
    const double of_key = (double) (bits_of(pair.b) - bits) / (added ? added : 1);
    if (of_key > (added ? 20 : MOST_BITS))
      fail_msg("case %u: %g bits of each of %u keys", i, of_key, added);
    close_pair(&pair);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_late_add_meets_a_winner),
      cmocka_unit_test(a_look_up_finds_what_is_in_an_unknown_layer),
      cmocka_unit_test(no_unique_add_wins_after_a_refusal),
      cmocka_unit_test(no_unique_add_wins_in_a_full_filter),
      cmocka_unit_test(of_two_openings_one_counts),
      cmocka_unit_test(a_process_that_lags_sets_no_bits),
  };
  return cmocka_run_group_tests_name("shared_schedule", tests, NULL, NULL);
}
