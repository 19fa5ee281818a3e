/* SPDX-License-Identifier: MIT
 *
 * Duplicate counts, and filters to which keys are added more than once.
 */
#include "cuckoo_unit.h"
#include "table/count_codes.h"
#include "validate.h"

/* ---- the counts of a segment ---- */

/* Counts against those that they should be, with memory that is counted and may be refused. */
struct model {
  plane plane;
  struct plane_size size;
  tamis_allocator system; /* all zero */
  _Atomic uint64_t bytes; /* of the plane's memory */
  struct budget budget;
  uint64_t *counts;
};

static void begin_model(struct model *m, uint32_t buckets, uint32_t lanes)
{
  *m = (struct model){.size = {buckets, lanes}, .budget = {.from = &m->system, .bytes = &m->bytes}};
  m->counts = calloc((size_t) buckets * lanes, sizeof *m->counts);
  assert_non_null(m->counts);
}

static void refuse_memory(struct model *m, bool refused)
{
  m->budget.limit = refused ? 1 : 0;
}

static void end_model(struct model *m)
{
  tamis__plane_clear(&m->plane, &m->budget);
  assert_null(plane_counts(&m->plane));
  assert_int_equal(m->bytes, 0);
  free(m->counts);
}

static uint64_t count_of(const struct model *m, uint32_t i)
{
  return plane_get(&m->plane, i / m->size.lanes, i % m->size.lanes);
}

static void assert_same(const struct model *m)
{
  const struct table_counts *d = plane_counts(&m->plane);
  uint64_t live = 0;
  for (uint32_t i = 0; i < m->size.buckets * m->size.lanes; i++) {
    assert_int_equal(count_of(m, i), m->counts[i]);
    live += m->counts[i] != 0;
  }
  assert_int_equal(d ? d->live : 0, live);
  assert_true(!d || counts_are_whole(d));
}

/* Every other change is a step, where that is possible. */
static bool set_count(struct model *m, uint32_t i, uint64_t count)
{
  const uint32_t bucket = i / m->size.lanes, lane = i % m->size.lanes;
  bool set =
      ((i + count) % 2 && tamis__plane_step(&m->plane, bucket, lane, count - m->counts[i])) ||
      tamis__plane_set(&m->plane, m->size, &m->budget, bucket, lane, count);
  if (set)
    m->counts[i] = count;
  assert_int_equal(count_of(m, i), m->counts[i]);
  return set;
}

static const uint32_t sizes[][2] = {{2, 2}, {16, 4}, {256, 8}, {300, 5}, {1024, 7}};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Each kind of change prevails for a while: small steps, jumps, huge counts, removes; and at times
 * memory is refused. */
TEST(counts_are_those_of_a_plain_array)
{
  uint64_t refusals = 0;
  for (unsigned s = 0; s < SIZES; s++)
    for (uint64_t seed = 1; seed <= 12; seed++) {
      struct model m;
      begin_model(&m, sizes[s][0], sizes[s][1]);
      uint64_t random = seed;
      uint32_t positions = (uint32_t) m.size.buckets * m.size.lanes, steps = 6 * positions + 2000;
      for (uint32_t step = 0; step < steps / SCALE; step++) {
        uint32_t i = (uint32_t) (random_next(&random) % positions);
        uint64_t r = random_next(&random), count = m.counts[i];
        switch (step * 8 / steps % 4) {
        case 0:
          count += r % 3;
          break;
        case 1:
          count = r % 4 ? 900 + r % (1 << seed) : r >> (12 + r % 50);
          break;
        case 2:
          count += r % 2 ? 1 : count ? UINT64_MAX : 0;
          break;
        default:
          count = r % 3 ? 0 : count / 2;
        }
        refuse_memory(&m, r % 64 < 4);
        if (!set_count(&m, i, count))
          refusals++;
        assert_true(count || m.counts[i] == 0);
        if (step % (positions < 100 ? 20 : 3000) == 0)
          assert_same(&m);
      }
      assert_same(&m);
      end_model(&m);
    }
  assert_true(refusals > 10);
}

static uint64_t blocks_of(const struct model *m)
{
  return counts_blocks(m->size.buckets);
}

/* Counts that fall need no memory, however many there are in whatever shape: equal ones, and some
 * that are much larger. */
TEST(counts_fall_without_memory)
{
  for (uint32_t buckets = 2; buckets <= 256; buckets *= 4)
    for (uint32_t lanes = 2; lanes <= 8; lanes += 3)
      for (uint64_t most = 1; most <= 600; most = most * 3 / 2 + 1) {
        struct model m;
        begin_model(&m, buckets, lanes);
        uint32_t positions = buckets * lanes, left = 0;
        uint64_t random = most + 100 * buckets + lanes;
        unsigned skipped = (unsigned) (random_next(&random) % 3); /* none: counts are equal */
        for (uint32_t i = 0; i < positions; i++)
          if (!skipped || random_next(&random) % (4 * skipped)) {
            uint64_t count = skipped && random_next(&random) % 16 == 0 ? most << 22 : most;
            assert_true(set_count(&m, i, count));
            left++;
          }
        const struct counts_source from = {.block = plane_counts(&m.plane)->block[0]};
        assert_true(tamis__plane_write(&m.plane, m.size, &m.budget, 0, &from, false));
        refuse_memory(&m, true);
        while (left > 0) {
          uint32_t i = (uint32_t) (random_next(&random) % positions);
          uint64_t count = m.counts[i];
          if (!count)
            continue;
          uint64_t less = count > most ? count / 2 : count - 1 - random_next(&random) % count / 3;
          if (!set_count(&m, i, less))
            fail_msg("%u buckets, %u lanes, counts up to %lu: %lu", buckets, lanes, most, count);
          left -= !less;
        }
        assert_int_equal(m.bytes, 0);
        end_model(&m);
      }
}

/* A block that is larger than what is copied to the stack is encoded anew in other memory only. */
TEST(large_blocks_fall_without_memory)
{
  struct model m;
  begin_model(&m, 256, 8);
  const uint32_t positions = 256 * 8;
  for (uint32_t i = 0; i < positions; i++)
    assert_true(set_count(&m, i, 5000 + i % 3000));
  assert_true(plane_counts(&m.plane)->block[0]->bytes > 2048);
  refuse_memory(&m, true);
  for (uint32_t i = 0; i < 3 * positions; i++)
    assert_true(set_count(&m, i % positions, m.counts[i % positions] - 1));
  assert_same(&m);
  refuse_memory(&m, false);
  for (uint32_t i = 0; i < positions; i++)
    assert_true(set_count(&m, i, m.counts[i] * 9));
  assert_same(&m);
  end_model(&m);
}

/* Counts that are alike take as many bits as the most frequent of them has: counted in passes, or
 * key by key, and one lane in fifty with twice the count. */
TEST(equal_counts_take_few_bits)
{
  for (unsigned by_key = 0; by_key < 2; by_key++)
    for (uint64_t count = 1; count <= 4000 / SCALE; count = count * 5 / 2 + 1) {
      struct model m;
      begin_model(&m, 1024, 4);
      uint32_t positions = 4096;
      for (uint64_t n = 0; n < positions * count; n++) {
        uint32_t i = (uint32_t) (by_key ? n / count : n % positions);
        uint64_t more = i % 50 == 0 ? 2 : 1;
        assert_true(set_count(&m, i, m.counts[i] + more));
      }
      assert_same(&m);
      unsigned bits = 64 - (unsigned) __builtin_clzll(count);
      if (m.bytes > positions * (bits + 1) / 8 + 64 * blocks_of(&m))
        fail_msg("%lu bytes for counts of %lu", m.bytes, count);
      end_model(&m);
    }
}

/* A block that is refused memory is not encoded again for each count that finds no room in it, but
 * only once the memory is there that it was refused. */
TEST(a_refused_block_is_not_encoded_again)
{
  struct model m;
  begin_model(&m, 256, 8);
  uint32_t positions = 256 * 8;
  for (uint32_t i = 0; i < positions; i++)
    assert_true(set_count(&m, i, 1));
  refuse_memory(&m, true);
  uint32_t i = 0;
  while (set_count(&m, i, 2 + i * 1000))
    i++;
  assert_in_range(i, 1, positions - 1);
  while (!plane_counts(&m.plane)
              ->block[0]
              ->refused) { /* until its list of exceptions is no more worth its memory */
    refuse_memory(&m, false);
    assert_true(set_count(&m, i, 2 + i * 1000));
    refuse_memory(&m, true);
    while (set_count(&m, i + 1, 2 + i * 1000))
      i++;
    i++;
    assert_true(i < positions);
  }
  struct count_block *b = plane_counts(&m.plane)->block[0];
  b->refused++; /* a refused encoding would set this size again */
  const uint64_t refused = b->refused;
  for (uint32_t j = i + 1; j < positions; j++)
    assert_false(set_count(&m, j, 2 + j * 1000));
  assert_int_equal(b->refused, refused);
  refuse_memory(&m, false);
  for (uint32_t j = i; j < positions; j++)
    assert_true(set_count(&m, j, 2 + j * 1000));
  assert_same(&m);
  end_model(&m);
}

/* ---- copies in filters ---- */

TEST(a_million_copies_of_one_key_are_harmless)
{
  enum { TIMES = 1000000 / SCALE };
  const double rates[] = {0.3, 0.01, 1e-4, 1e-6};
  for (unsigned r = 0; r < 4; r++)
    for (int growable = 0; growable < 2; growable++) {
      tamis_options options = options_for(10000, rates[r]);
      options.growable = growable;
      tamis_filter *f = make_with_options(&options);
      add_range(f, 0, 5000);
      tamis_stats before = stats_of(f);
      const uint64_t again = UINT64_MAX;
      bool there = tamis_contains_hash(f, again);
      for (unsigned i = 0; i < TIMES; i++)
        assert_int_equal(tamis_add_hash(f, again), TAMIS_OK);
      tamis_stats after = stats_of(f);
      assert_int_equal(after.count, before.count + TIMES);
      assert_int_equal(after.growths, before.growths);
      assert_true((double) after.bytes <= 1.02 * (double) before.bytes);
      assert_valid(f);
      assert_int_equal(tamis_add_unique_hash(f, again), TAMIS_PRESENT);
      for (unsigned i = 0; i < TIMES; i++) {
        assert_true(tamis_contains_hash(f, again));
        assert_int_equal(tamis_remove_hash(f, again), TAMIS_OK);
      }
      assert_int_equal(tamis_contains_hash(f, again), there);
      assert_int_equal(stats_of(f).count, before.count);
      assert_all_in(f, 0, 5000);
      assert_valid(f);
      tamis_destroy(f);
    }
}

TEST(copies_go_along_in_splits_and_joins)
{
  enum { KEYS = 20, TIMES = 50 };
  const double rates[] = {0.05, 0.001, 1e-6};
  const uint64_t first = UINT64_C(1) << 50;
  for (unsigned r = 0; r < 3; r++) {
    struct bank bank = {0};
    tamis_options options = options_for(1000, rates[r]);
    options.allocator = allocator_of(&bank);
    tamis_filter *f = make_with_options(&options);
    uint64_t n = 200000 / SCALE;
    for (unsigned time = 0; time < 3; time++) { /* at three sizes of the filter */
      for (unsigned copy = 0; copy < TIMES; copy++)
        add_range(f, first, first + KEYS);
      add_range(f, n / 3 * time, n / 3 * (time + 1));
    }
    n = n / 3 * 3;
    assert_valid(f);
    assert_int_equal(stats_of(f).count, n + 3 * TIMES * KEYS);
    assert_true(stats_of(f).growths > 3);
    for (unsigned copy = 0; copy < TIMES; copy++) /* some while it is large */
      remove_range(f, first, first + KEYS);
    assert_all_in(f, first, first + KEYS);
    uint64_t *order = shuffled(n, r);
    for (uint64_t i = 0; i < n; i++) {
      assert_int_equal(tamis_remove_hash(f, order[i]), TAMIS_OK);
      if (i % (n / 20) == 0)
        assert_all_in(f, first, first + KEYS);
    }
    free(order);
    assert_true(stats_of(f).joins > 0);
    assert_valid(f);
    assert_int_equal(stats_of(f).count, 2 * TIMES * KEYS);
    for (unsigned copy = 0; copy < 2 * TIMES; copy++) {
      assert_all_in(f, first, first + KEYS);
      remove_range(f, first, first + KEYS);
    }
    assert_int_equal(stats_of(f).count, 0);
    for (uint64_t key = first; key < first + KEYS; key++)
      assert_false(tamis_contains_hash(f, key));
    assert_valid(f);
    assert_bytes(f, &bank);
    tamis_destroy(f);
    assert_int_equal(bank.blocks, 0);
  }
}

/* Copies that came early are in other generations than those that come late, also those that are only
 * counted.  Some keys come with each generation. */
TEST(copies_of_all_generations_are_counted)
{
  enum { COPIES = 5, KEYS = 40 };
  for (unsigned generations = 2; generations <= 3; generations++) {
    const double fpp = generations == 2 ? 1e-6 : 0.1;
    tamis_filter *f = make(10, fpp);
    uint64_t next = 1000;
    for (unsigned n = 1; n <= generations; n++) {
      for (; stats_of(f).generations < n; next += 100)
        add_range(f, next, next + 100);
      for (uint64_t key = 0; key < KEYS * n; key++) {
        uint64_t before = tamis_count_hash(f, key);
        assert_true(fpp > 1e-5 || before == COPIES * (n - 1 - key / KEYS));
        for (unsigned i = 1; i <= COPIES; i++) {
          assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
          assert_int_equal(tamis_count_hash(f, key), before + i);
        }
      }
    }
    for (uint64_t key = 0; key < KEYS * generations; key++)
      for (uint64_t left = COPIES * (generations - key / KEYS); left > 0; left--) {
        uint64_t before = tamis_count_hash(f, key);
        assert_true(before >= left && (fpp > 1e-5 || before == left));
        assert_int_equal(tamis_remove_hash(f, key), TAMIS_OK);
        assert_int_equal(tamis_count_hash(f, key), before - 1);
      }
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* ---- copies at the limits ---- */

/* A few copies of every key take lanes, so pairs overflow early: no reason for a filter that grows to be full.  Adds to one
 * that does not come to an end, although copies make cuckoo paths long, and the last room may be at the end of a
 * path that is too long. */
TEST(keys_that_come_a_few_times_have_room)
{
  static const double rates[] = {0.1, 0.01, 0.001, 1e-4, 1e-6, 1e-9};
  static const uint64_t capacities[] = {1, 300, 2000, 7000};
  enum { KEYS = 30000 / SCALE };
  static unsigned in[KEYS];
  for (unsigned i = 0; i < 6 * 4 * 3 * 2; i++) {
    const uint64_t copies = 2 + i / 24 % 3;
    const bool at_once = i / 6 % 2 == 0; /* all copies of a key, or all keys first */
    tamis_options options = options_for(capacities[i / 6 % 4], rates[i % 6]);
    options.growable = i / 72;
    options.seed = 1 + i;
    if (tamis_options_check(&options, NULL, 0) != TAMIS_OK)
      continue;
    tamis_filter *f = make_with_options(&options);
    const uint64_t n =
        options.growable || 9 * options.capacity > KEYS ? KEYS : 9 * options.capacity;
    uint64_t count = 0;
    memset(in, 0, sizeof in);
    for (uint64_t j = 0; j < n * copies; j++) {
      const uint64_t key = at_once ? j / copies : j % n;
      int result = tamis_add_hash(f, key);
      if (result != TAMIS_OK && (options.growable || result != TAMIS_EFULL || j < options.capacity))
        fail_msg("fpp %g, capacity %lu: add %lu failed, %lu copies of each key", options.fpp,
                 options.capacity, j, copies);
      in[key] += result == TAMIS_OK;
      count += result == TAMIS_OK;
    }
    assert_int_equal(stats_of(f).count, count);
    assert_valid(f);
    for (uint64_t key = 0; key < n; key++)
      for (; in[key]; in[key]--) {
        assert_true(tamis_contains_hash(f, key));
        assert_int_equal(tamis_remove_hash(f, key), TAMIS_OK);
      }
    assert_int_equal(stats_of(f).count, 0);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* In a full filter keys that seem to be there are counted as copies.  However many come, that takes
 * little memory. */
TEST(a_full_filter_does_not_go_on_in_its_duplicate_counts)
{
  tamis_options options = options_for(30000, 0.03);
  options.growable = false;
  tamis_filter *f = make_with_options(&options);
  uint64_t bytes = stats_of(f).bytes, in = 0;
  for (uint64_t i = 0; i < 3000000 / SCALE; i++)
    in += tamis_add_hash(f, i) == TAMIS_OK;
  assert_true(in < 30000 + 3000000 / SCALE / 20);
  assert_true((double) stats_of(f).bytes <= 1.4 * (double) bytes);
  assert_valid(f);
  tamis_destroy(f);
}

/* How many keys a filter takes until it refuses one, if the first of them come several times. */
static uint64_t keys_until_full(uint64_t first, unsigned copies, double fpp)
{
  tamis_options options = options_for(20000, fpp);
  options.growable = false;
  tamis_filter *f = make_with_options(&options);
  for (unsigned copy = 0; copy < copies; copy++)
    add_range(f, 0, first);
  uint64_t keys = first;
  while (tamis_add_hash(f, keys) == TAMIS_OK)
    keys++;
  assert_all_in(f, 0, keys);
  assert_valid(f);
  for (unsigned copy = 1; copy < copies; copy++)
    remove_range(f, 0, first);
  assert_int_equal(stats_of(f).count, keys);
  assert_all_in(f, 0, keys);
  tamis_destroy(f);
  return keys;
}

/* Copies in lanes, also such as are too few to be counted at once, are folded when the last keys come. */
TEST(copies_do_not_keep_out_new_keys)
{
  const double rates[] = {0.03, 0.001, 1e-6};
  for (unsigned r = 0; r < 3; r++)
    for (unsigned copies = 2; copies <= 5; copies++)
      assert_in_range(keys_until_full(15000, copies, rates[r]), 20000, 30000);
  assert_in_range(keys_until_full(1000, 2, 0.03), keys_until_full(0, 1, 0.03) - 200, 30000);
}

/* So are those in lanes that are wider than the filter's first ones. */
TEST(copies_in_wider_lanes_are_folded)
{
  tamis_filter *f = make(3000, 0.001);
  add_range(f, 0, 150000);
  add_range(f, 0, 60000);
  add_range(f, 150000, 300000);
  assert_valid(f);
  assert_all_in(f, 0, 300000);
  remove_range(f, 0, 60000);
  remove_range(f, 0, 300000);
  assert_int_equal(stats_of(f).count, 0);
  tamis_destroy(f);
}

/* A fold that is refused memory changes nothing: copies still take free lanes, and need no memory. */
TEST(a_fold_without_memory_is_forgotten)
{
  struct bank bank = {.bytes = 0};
  tamis_options options = options_for(3000, 0.001);
  options.growable = false;
  options.allocator = allocator_of(&bank);
  tamis_filter *f = make_with_options(&options);
  uint64_t key = 1000;
  int result;
  bank.refused_from = 1;
  add_range(f, 0, 1000);
  add_range(f, 0, 1000);
  while ((result = tamis_add_hash(f, key)) == TAMIS_OK)
    key++;
  assert_int_equal(result, TAMIS_ENOMEM);
  remove_range(f, 0, 1000);
  remove_range(f, 0, 1000);
  add_range(f, 0, 1000);
  add_range(f, 0, 1000);
  assert_valid(f);
  tamis_destroy(f);
  assert_int_equal(bank.bytes, 0);
}
