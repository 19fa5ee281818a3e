/* SPDX-License-Identifier: MIT
 *
 * The union of two cuckoo filters.
 */
#include "cuckoo_unit.h"
#include "saved_unit.h"

#include "cuckoo/snapshot.h"

#include <pthread.h>
#include <stdio.h>

/* ---- what a union has ---- */

/* Keys from..from + n - 1; those below `more` have been added copies_of() times. */
struct keys {
  uint64_t from, n;
};

static unsigned copies_of(uint64_t key, unsigned most)
{
  return most > 1 && key % 8 == 0 ? 1 + (unsigned) (key / 8 % most) : 1;
}

static void add_copies(tamis_filter *f, struct keys keys, unsigned most)
{
  for (uint64_t i = keys.from; i < keys.from + keys.n; i++)
    for (unsigned j = 0; j < copies_of(i, most); j++)
      assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
}

static void remove_copies(tamis_filter *f, struct keys keys, unsigned most)
{
  for (uint64_t i = keys.from; i < keys.from + keys.n; i++)
    for (unsigned j = 0; j < copies_of(i, most); j++)
      if (tamis_remove_hash(f, i) != TAMIS_OK)
        fail_msg("copy %u of key %lu is missing", j, i);
}

static void assert_keys_in(const tamis_filter *f, struct keys keys)
{
  assert_all_in(f, keys.from, keys.from + keys.n);
}

/* Whether nothing has changed. */
static void assert_unchanged(const tamis_filter *f, const tamis_stats *before, struct keys keys)
{
  tamis_stats now = stats_of(f);
  assert_same_contents(&now, before);
  assert_true(now.fpp_estimate == before->fpp_estimate);
  assert_keys_in(f, keys);
  assert_valid(f);
}

/* Unites two filters, takes the keys of one of them out again, and then those of the other.
 * Returns the result of the union. */
static int play(const tamis_options *options, struct keys of_a, struct keys of_b, unsigned copies)
{
  tamis_filter *a = make_with(options), *b = make_with(options);
  add_copies(a, of_a, copies);
  add_copies(b, of_b, copies);
  tamis_stats a_before = stats_of(a), b_before = stats_of(b);
  int result = tamis_merge(a, b);
  assert_unchanged(b, &b_before, of_b);
  if (result != TAMIS_OK) {
    assert_unchanged(a, &a_before, of_a);
  } else {
    assert_int_equal(stats_of(a).count, a_before.count + b_before.count);
    assert_valid(a);
    assert_keys_in(a, of_a);
    assert_keys_in(a, of_b);
    assert_rate(a, options->fpp, of_a.n);
    remove_copies(a, of_a, copies);
    assert_keys_in(a, of_b);
    assert_int_equal(stats_of(a).count, b_before.count);
    remove_copies(a, of_b, copies);
    assert_int_equal(stats_of(a).count, 0);
    assert_valid(a);
  }
  tamis_destroy(a);
  tamis_destroy(b);
  return result;
}

/* Each size with each: from empty filters to those of three generations. */
static void filters_in_all_stages_of_growth(uint64_t capacity, double fpp, unsigned copies)
{
  const uint64_t times[] = {0, 1, 5, 10, 30, 200, 1200, 2500, 40000 / SCALE};
  enum { TIMES = sizeof times / sizeof *times };
  tamis_options options = options_for(capacity, fpp);
  for (unsigned i = 0; i < TIMES; i++)
    for (unsigned j = 0; j < TIMES; j++) {
      struct keys of_a = {1000000, times[i] * capacity / 10};
      struct keys of_b = {of_a.from + of_a.n - of_a.n / 4, times[j] * capacity / 10};
      if (of_a.n + of_b.n > 100000 / SCALE)
        continue;
      int result = play(&options, of_a, of_b, copies);
      if (result != TAMIS_EUNSUPPORTED)
        assert_int_equal(result, TAMIS_OK);
      bool sure = of_a.n == 0 || of_b.n == 0 || (fpp == 0.01 && times[i] + times[j] < 800);
      if (sure && result != TAMIS_OK)
        fail_msg("capacity %lu, fpp %g: %lu and %lu keys", capacity, fpp, of_a.n, of_b.n);
    }
}

static void unions_in_all_stages_of_growth(void **state)
{
  (void) state;
  const double rates[] = {0.1, 0.01, 0.001, 1e-4, 1e-6};
  for (unsigned r = 0; r < sizeof rates / sizeof *rates; r += is_long() ? 1 : 2) {
    filters_in_all_stages_of_growth(10, rates[r], 1);
    filters_in_all_stages_of_growth(100, rates[r], 1);
  }
  filters_in_all_stages_of_growth(3000, 0.01, 1);
}

static void unions_have_the_copies_of_both(void **state)
{
  (void) state;
  filters_in_all_stages_of_growth(100, 0.01, 5);
  filters_in_all_stages_of_growth(1000, 0.001, 300);
}

/* Into filters that have grown and lost most of their keys: some of their roots have no segment. */
static void unions_with_filters_that_have_shrunk(void **state)
{
  (void) state;
  for (uint64_t left = 0; left <= 3000; left += 1000)
    for (unsigned into = 0; into < 2; into++) {
      tamis_filter *shrunk = make(100, 0.01), *small = make(100, 0.01);
      add_range(shrunk, 0, 60000);
      assert_int_equal(stats_of(shrunk).generations, 2);
      remove_range(shrunk, left, 60000);
      add_range(small, 100000, 100500);
      tamis_filter *a = into ? shrunk : small, *b = into ? small : shrunk;
      tamis_stats before = stats_of(a);
      int result = tamis_merge(a, b);
      if (result != TAMIS_OK) {
        assert_int_equal(result, TAMIS_EUNSUPPORTED);
        tamis_stats now = stats_of(a);
        assert_same_contents(&now, &before);
      } else {
        assert_all_in(a, 0, left);
        assert_all_in(a, 100000, 100500);
        assert_rate(a, 0.01, 7);
        remove_range(a, 100000, 100500);
        remove_range(a, 0, left);
        assert_int_equal(stats_of(a).count, 0);
      }
      assert_valid(a);
      tamis_destroy(a);
      tamis_destroy(b);
    }
}

/* Entries that have come to deep segments know enough for a later generation, in which there is
 * room when the first one is nearly full. */
static void entries_that_know_enough_go_to_later_generations(void **state)
{
  (void) state;
  const uint64_t own = 30000, early = 8000, late = 12000, first = 100000;
  tamis_filter *into = make(150, 0.01), *from = make(150, 0.01);
  add_range(into, 0, own);
  assert_int_equal(stats_of(into).generations, 2);
  remove_range(into, 0, 6000);
  add_range(from, first, first + early + late);
  assert_int_equal(stats_of(from).generations, 1);
  remove_range(from, first, first + early);
  assert_int_equal(tamis_merge(into, from), TAMIS_OK);
  assert_int_equal(stats_of(into).generations, 2);
  assert_valid(into);
  assert_all_in(into, 6000, own);
  assert_all_in(into, first + early, first + early + late);
  assert_rate(into, 0.01, 11);
  remove_range(into, first + early, first + early + late);
  remove_range(into, 6000, own);
  assert_int_equal(stats_of(into).count, 0);
  tamis_destroy(into);
  tamis_destroy(from);
}

/* Entries of a second generation come to a first one pair by pair, so that its segments look as if
 * they had many copies of few keys.  The filter becomes what it becomes if the keys are added. */
static void pairs_that_fill_one_by_one_are_no_limit(void **state)
{
  (void) state;
  const uint64_t others = UINT64_C(1) << 40, capacity = 150, room = 30000,
                 keys[] = {500, 4000, 8000};
  for (unsigned i = 0; i < 3; i++) {
    tamis_filter *into = make(capacity, 0.01), *from = make(capacity, 0.01);
    tamis_filter *added = make(capacity, 0.01);
    add_range(from, others, others + room);
    assert_int_equal(stats_of(from).generations, 2);
    add_range(from, 0, keys[i]);
    remove_range(from, others, others + room);
    add_range(added, 0, keys[i]);
    assert_int_equal(tamis_merge(into, from), TAMIS_OK);
    assert_int_equal(stats_of(into).generations, 1);
    assert_in_range(stats_of(into).segments, 1, stats_of(added).segments * 9 / 8);
    assert_valid(into);
    remove_range(into, 0, keys[i]);
    tamis_destroy(into);
    tamis_destroy(from);
    tamis_destroy(added);
  }
}

/* Geometries whose keys need a second hash, and whose hash strings one word does not hold. */
static void unions_of_filters_with_long_strings(void **state)
{
  (void) state;
  tamis_options options = options_for(1000, 1e-6);
  struct cuckoo_spec spec = {.capacity = 1000, .fpp = 1e-6, .growable = true};
  struct cuckoo_geometry g;
  assert_int_equal(cuckoo_geometry_plan(&spec, &g), TAMIS_OK);
  g.needs_second_hash = true;
  g.root0_bits = CUCKOO_HASH_BITS - 20;
  struct tamis_filter head = {.keys = hash_keys_from_seed(42)};
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *a, *b;
    assert_int_equal(tamis__cuckoo_create_with(&options, &head, &g, &a), TAMIS_OK);
    assert_int_equal(tamis__cuckoo_create_with(&options, &head, &g, &b), TAMIS_OK);
    add_range(a, 0, i ? 0 : 30000);
    add_range(b, 20000, i ? 200000 : 50000);
    assert_int_equal(tamis_merge(a, b), TAMIS_OK);
    assert_valid(a);
    assert_all_in(a, 20000, i ? 200000 : 50000);
    remove_range(a, 0, i ? 0 : 30000);
    remove_range(a, 20000, i ? 200000 : 50000);
    assert_int_equal(stats_of(a).count, 0);
    tamis_destroy(a);
    tamis_destroy(b);
  }
}

/* ---- the rate ---- */

/* Unites one filter with others until that is refused, and goes on growing: whatever the number of
 * unions, the rate stays. */
static void rates_are_kept_after_many_unions(void **state)
{
  (void) state;
  const double rates[] = {0.05, 0.01, 0.001, 1e-4};
  for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++) {
    const uint64_t n = 2000 / SCALE, most = 60;
    tamis_filter *all = make(n, rates[r]);
    uint64_t unions = 0, keys = 0;
    for (int result = TAMIS_OK; unions < most && result == TAMIS_OK; unions += result == TAMIS_OK) {
      tamis_filter *part = make(n, rates[r]);
      add_range(part, keys, keys + n);
      result = tamis_merge(all, part);
      tamis_destroy(part);
      keys += result == TAMIS_OK ? n : 0;
      if (result != TAMIS_OK)
        assert_int_equal(result, TAMIS_EUNSUPPORTED);
    }
    assert_true(unions >= 2);
    assert_all_in(all, 0, keys);
    assert_rate(all, rates[r], 1);
    assert_true(stats_of(all).fpp_estimate <= rates[r]);
    for (unsigned i = 0; i < 4; i++) {
      add_range(all, keys, 3 * keys);
      keys *= 3;
      assert_rate(all, rates[r], 2 + i);
      if (keys > 300000 / SCALE)
        break;
    }
    assert_all_in(all, 0, keys);
    assert_valid(all);
    tamis_destroy(all);
  }
}

/* ---- filters that do not grow ---- */

static void fixed_filters(void **state)
{
  (void) state;
  const uint64_t capacities[] = {1, 10, 1000, 100000 / SCALE};
  const double rates[] = {0.1, 0.01, 0.001, 1e-6};
  for (unsigned c = 0; c < 4; c++)
    for (unsigned r = 0; r < 4; r++) {
      uint64_t n = capacities[c], half = n / 2;
      tamis_options options = options_for(n, rates[r]);
      options.growable = false;
      assert_int_equal(play(&options, (struct keys){0, half}, (struct keys){n, n - half}, 1),
                       TAMIS_OK);
      assert_int_equal(play(&options, (struct keys){0, 0}, (struct keys){n, n}, 1), TAMIS_OK);
      assert_int_equal(play(&options, (struct keys){0, half + 1}, (struct keys){n, n - half}, 1),
                       TAMIS_EFULL);
      assert_int_equal(play(&options, (struct keys){0, n}, (struct keys){n, n}, 1), TAMIS_EFULL);
      /* copies beyond the second or third need no lanes */
      if (n >= 1000)
        assert_int_equal(play(&options, (struct keys){0, n / 4}, (struct keys){n / 8, n / 4}, 100),
                         TAMIS_OK);
    }
}

/* What unions leave for growth is saved with the filter. */
static void a_union_is_saved_with_its_limits(void **state)
{
  (void) state;
  tamis_options options = options_for(100, 0.01);
  tamis_filter *into = make_with(&options), *loaded;
  for (uint64_t i = 0; i < 20; i++) {
    tamis_filter *from = make_with(&options);
    add_range(from, i * 3000, i * 3000 + 3000);
    int result = tamis_merge(into, from);
    assert_true(result == TAMIS_OK || result == TAMIS_EUNSUPPORTED);
    tamis_destroy(from);
  }
  const struct cuckoo *a = const_cuckoo_of(into);
  assert_true(cuckoo_excess(a) > 0);
  assert_true(stats_of(&a->head).fpp_estimate >= cuckoo_excess(a));
  struct bytes bytes = saved_bytes(into);
  loaded = load_bytes(&bytes);
  const struct cuckoo *b = const_cuckoo_of(loaded);
  assert_true(cuckoo_excess(b) == cuckoo_excess(a));
  assert_int_equal(cuckoo_generations(b), cuckoo_generations(a));
  for (unsigned i = 0; i < cuckoo_generations(a); i++)
    assert_int_equal(generation_split_limit(cuckoo_generation(b, i)),
                     generation_split_limit(cuckoo_generation(a, i)));
  struct bytes again = saved_bytes(loaded);
  assert_int_equal(again.size, bytes.size);
  assert_memory_equal(again.data, bytes.data, bytes.size);
  tamis_destroy(into);
  tamis_destroy(loaded);
  free(bytes.data);
  free(again.data);
}

/* ---- mapped filters ---- */

static const char path[] = "test_cuckoo_unite.tamis";

static tamis_filter *map(bool check_all)
{
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  tamis_filter *f;
  options.check_all = check_all;
  assert_int_equal(tamis_map_file(&options, path, &f), TAMIS_OK);
  return f;
}

/* With a mapped filter, another one becomes what it becomes with the filter that was saved. */
static void unions_with_mapped_filters_of(uint64_t capacity, double fpp)
{
  tamis_options options = options_for(capacity, fpp);
  options.growable = false;
  struct keys of_from = {capacity / 8, capacity / 4}, own = {0, capacity / 4}, all = {0, capacity};
  tamis_filter *from = make_with(&options);
  add_copies(from, of_from, 20);
  assert_int_equal(tamis_save_file(from, path), TAMIS_OK);
  tamis_filter *sources[] = {from, map(false), map(true)};
  struct bytes expected = {0};
  for (unsigned i = 0; i < 3; i++) {
    tamis_stats before = stats_of(sources[i]);
    tamis_filter *into = make_with(&options);
    add_copies(into, own, 20);
    assert_int_equal(tamis_merge(into, sources[i]), TAMIS_OK);
    assert_valid(into);
    assert_unchanged(sources[i], &before, of_from);
    struct bytes bytes = saved_bytes(into);
    if (i > 0) {
      assert_int_equal(bytes.size, expected.size);
      assert_memory_equal(bytes.data, expected.data, bytes.size);
      assert_int_equal(tamis_merge(sources[i], into), TAMIS_EUNSUPPORTED);
    }
    free(expected.data);
    expected = bytes;
    remove_copies(into, of_from, 20);
    remove_copies(into, own, 20);
    assert_int_equal(stats_of(into).count, 0);
    /* beyond the capacity, nothing changes */
    add_copies(into, all, 1);
    before = stats_of(into);
    assert_int_equal(tamis_merge(into, sources[i]), TAMIS_EFULL);
    assert_unchanged(into, &before, all);
    tamis_destroy(into);
  }
  for (unsigned i = 0; i < 3; i++)
    tamis_destroy(sources[i]);
  free(expected.data);
  unlink(path);
}

static void unions_with_mapped_filters(void **state)
{
  (void) state;
  const double rates[] = {0.1, 0.01, 0.001, 1e-6};
  for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++) {
    unions_with_mapped_filters_of(100, rates[r]);
    unions_with_mapped_filters_of(100000 / SCALE, rates[r]);
  }
}

/* ---- limits on the way ---- */

/* Nothing may come to the part of an older generation that a snapshot of `into` has copied. */
static void a_snapshot_of_the_filter_is_not_changed(void **state)
{
  (void) state;
  tamis_filter *into = make(100, 0.01), *from = make(100, 0.01);
  add_range(into, 0, 40000);
  assert_true(stats_of(into).generations > 1);
  remove_range(into, 0, 15000); /* so there is room in the first generation */
  add_range(from, 100000, 100010);
  struct cuckoo_snapshot s;
  struct snapshot_piece piece;
  assert_int_equal(tamis__snapshot_begin(&s, cuckoo_of(into)), TAMIS_OK);
  do
    assert_int_equal(tamis__snapshot_next(&s, &piece), TAMIS_OK);
  while (piece.generation->number == 0);
  uint64_t before = stats_of(into).count;
  assert_int_equal(tamis_merge(into, from), TAMIS_EFULL);
  assert_int_equal(stats_of(into).count, before);
  tamis__snapshot_end(&s);
  assert_int_equal(tamis_merge(into, from), TAMIS_OK);
  assert_all_in(into, 100000, 100010);
  assert_all_in(into, 15000, 40000);
  assert_valid(into);
  tamis_destroy(into);
  tamis_destroy(from);
}

/* Whatever the limit: the keys of `into` are in, the limit holds, and if the union succeeds it is
 * whole. */
static void max_bytes_holds(void **state)
{
  (void) state;
  unsigned refused = 0, united = 0;
  for (unsigned copies = 1; copies <= 50; copies += 49) {
    tamis_filter *from = make(1000, 0.01);
    struct keys of_from = {100000, 20000}, own = {0, 1000};
    add_copies(from, of_from, copies);
    for (uint64_t limit = 16384; limit < 600000; limit += limit / 4) {
      tamis_options options = options_for(1000, 0.01);
      options.max_bytes = limit;
      tamis_filter *f = make_with(&options);
      add_copies(f, own, 1);
      int result = tamis_merge(f, from);
      assert_true(stats_of(f).bytes <= limit);
      assert_true(result == TAMIS_OK || result == TAMIS_EFULL);
      refused += result == TAMIS_EFULL;
      united += result == TAMIS_OK;
      assert_keys_in(f, own);
      if (result == TAMIS_OK)
        assert_keys_in(f, of_from);
      assert_valid(f);
      remove_copies(f, own, 1);
      assert_valid(f);
      tamis_destroy(f);
    }
    tamis_destroy(from);
  }
  assert_true(refused > 2 && united > 2);
}

/* Each request for memory fails in turn. */
static void memory_may_be_refused(void **state)
{
  (void) state;
  tamis_filter *from = make(1000, 0.01);
  struct keys of_from = {100000, 6000}, own = {0, 1000};
  add_copies(from, of_from, 40);
  int result = TAMIS_ENOMEM;
  unsigned refused = 0, failures = 0;
  for (unsigned i = 1; i < 2000; i++) {
    struct bank bank = {0};
    tamis_allocator allocator = {bank_allocate, bank_release, &bank};
    tamis_options options = options_for(1000, 0.01);
    options.allocator = &allocator;
    tamis_filter *f = make_with(&options);
    add_copies(f, own, 1);
    bank.fail_at = bank.calls + i;
    result = tamis_merge(f, from);
    bool failed = bank.calls >= bank.fail_at;
    bank.fail_at = 0;
    assert_true(result == TAMIS_OK || (failed && result == TAMIS_ENOMEM));
    failures += failed;
    refused += result == TAMIS_ENOMEM;
    assert_keys_in(f, own);
    if (result == TAMIS_OK)
      assert_keys_in(f, of_from);
    assert_valid(f);
    tamis_destroy(f);
    assert_int_equal(bank.bytes, 0);
    if (!failed)
      break;
    i += i / 8;
  }
  assert_true(failures > 5);
  assert_true(refused > 0); /* otherwise memory has come free, and it was asked for again */
  tamis_destroy(from);
}

/* What unions leave behind for growth. */
struct left_behind {
  uint32_t unions;
  unsigned limit; /* of the newest generation */
  double excess;
};

static struct left_behind left_behind_in(const tamis_filter *f)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  return (struct left_behind){
      atomic_load(&cuckoo_growth(c)->unions),
      generation_split_limit(cuckoo_generation(c, cuckoo_generations(c) - 1)), cuckoo_excess(c)};
}

/* Unites a new filter with some others.  Then the first, the second, ... block of further ones is
 * refused, each time before an entry has come: the last one is for the copies of the first keys. */
static tamis_filter *unite_some(const tamis_options *options, unsigned unions, unsigned failures)
{
  tamis_filter *into = make_with(options);
  for (unsigned i = 0; i < unions + failures; i++) {
    struct bank bank = {0};
    tamis_allocator allocator = {bank_allocate, bank_release, &bank};
    tamis_options with_bank = *options;
    with_bank.allocator = &allocator;
    tamis_filter *from = make_with(&with_bank);
    struct keys keys = {(i < unions ? i : unions) * 500, 500};
    add_copies(from, keys, 40);
    uint64_t count = stats_of(into).count;
    bank.fail_at = i < unions ? 0 : bank.calls + 1 + i - unions;
    assert_int_equal(tamis_merge(into, from), i < unions ? TAMIS_OK : TAMIS_ENOMEM);
    assert_true(i < unions || stats_of(into).count == count);
    bank.fail_at = 0;
    tamis_destroy(from);
  }
  return into;
}

/* A union that fails before an entry has come leaves nothing behind: the filter grows on like a twin
 * that has not seen the union. */
static void a_union_that_fails_leaves_nothing(void **state)
{
  (void) state;
  const tamis_options options = options_for(100, 0.002);
  bool took_splits = false;
  for (unsigned unions = 1; unions <= 2; unions++) {
    tamis_filter *f = unite_some(&options, unions, 5);
    tamis_filter *twin = unite_some(&options, unions, 0);
    tamis_filter *more = unite_some(&options, unions + 1, 0);
    struct left_behind a = left_behind_in(f), b = left_behind_in(twin);
    assert_int_equal(a.unions, 0);
    assert_int_equal(a.limit, b.limit);
    assert_true(a.excess == b.excess);
    took_splits |= left_behind_in(more).limit < b.limit;
    add_range(f, 1000000, 1000000 + 20000);
    add_range(twin, 1000000, 1000000 + 20000);
    tamis_stats x = stats_of(f), y = stats_of(twin);
    assert_same_contents(&x, &y);
    assert_true(x.fpp_estimate == y.fpp_estimate);
    assert_valid(f);
    tamis_destroy(f);
    tamis_destroy(twin);
    tamis_destroy(more);
  }
  assert_true(took_splits); /* otherwise there is nothing to give back */
}

/* ---- while both are in use ---- */

enum { THREADS = 4, TOUCHED = 5000, STABLE = 30000 / SCALE, ROUNDS = SCALE > 1 ? 2 : 6 };

struct user {
  tamis_filter *f, *other;
  uint64_t first;
  unsigned char *won;
  _Atomic bool *stop;
  bool good;
  pthread_t thread;
};

/* Adds and removes keys of its own in both filters, and adds the stable keys uniquely to one.
 * Before the union has brought some, it adds only few of them: otherwise `into` might fill its
 * first generation with them before the union begins. */
static void *use(void *arg)
{
  enum { EARLY = 2000 };
  struct user *user = arg;
  bool begun = false;
  user->good = true;
  for (uint64_t i = 0; !atomic_load(user->stop); i++) {
    uint64_t key = user->first + i % TOUCHED;
    user->good &= tamis_add_hash(user->f, key) == TAMIS_OK;
    user->good &= tamis_add_hash(user->other, key) == TAMIS_OK;
    uint64_t stable = i % STABLE;
    for (unsigned j = 0; !begun && j < 4; j++) /* four false positives are unlikely */
      if (!tamis_contains_hash(user->f, STABLE - 1 - (stable + j) % (STABLE - EARLY)))
        break;
      else
        begun = j == 3;
    if (user->won && (begun || i < EARLY) && tamis_add_unique_hash(user->f, stable) == TAMIS_OK)
      __atomic_fetch_add(&user->won[stable], 1, __ATOMIC_RELAXED);
    user->good &= tamis_contains_hash(user->f, key) && tamis_contains_hash(user->other, key);
    user->good &= tamis_remove_hash(user->f, key) == TAMIS_OK;
    user->good &= tamis_remove_hash(user->other, key) == TAMIS_OK;
  }
  return NULL;
}

static void start(struct user *user, void *(*run)(void *) )
{
  assert_int_equal(pthread_create(&user->thread, NULL, run, user), 0);
}

static void finish(const struct user *user)
{
  assert_int_equal(pthread_join(user->thread, NULL), 0);
  assert_true(user->good);
}

/* Fills the first generation, so that further keys go into later ones. */
static void fill_first(tamis_filter *f, uint64_t keys)
{
  add_range(f, UINT64_C(1) << 40, (UINT64_C(1) << 40) + keys);
}

static void empty_first(tamis_filter *f, uint64_t keys)
{
  remove_range(f, UINT64_C(1) << 40, (UINT64_C(1) << 40) + keys);
}

/* The stable keys of `from` are in `into` once more after the union, or twice if a unique add has
 * won before it came. */
static void both_may_be_in_use(uint64_t capacity, uint64_t more, uint64_t room, bool unique)
{
  tamis_filter *into = make(capacity, 0.01), *from = make(capacity, 0.01);
  unsigned char *won = calloc(STABLE, 1);
  _Atomic bool stop = false;
  fill_first(from, room);
  add_range(into, 1000000, 1000000 + more);
  add_range(from, 0, STABLE);
  empty_first(from, room);
  struct user users[THREADS];
  for (unsigned i = 0; i < THREADS; i++) {
    users[i] = (struct user){.f = into,
                             .other = from,
                             .first = (i + 1) * UINT64_C(10000000),
                             .won = unique ? won : NULL,
                             .stop = &stop};
    start(&users[i], use);
  }
  int result = tamis_merge(into, from);
  atomic_store(&stop, true);
  for (unsigned i = 0; i < THREADS; i++)
    finish(&users[i]);
  assert_int_equal(result, TAMIS_OK);
  assert_valid(into);
  assert_valid(from);
  assert_int_equal(stats_of(from).count, STABLE);
  for (uint64_t key = 0; key < STABLE; key++) {
    assert_in_range(won[key], 0, 1);
    for (unsigned j = 0; j < 1U + won[key]; j++)
      assert_int_equal(tamis_remove_hash(into, key), TAMIS_OK);
  }
  assert_all_in(into, 1000000, 1000000 + more);
  remove_range(into, 1000000, 1000000 + more);
  /* Keys that the union has found just after they were added. */
  for (unsigned i = 0; i < THREADS; i++)
    for (uint64_t key = users[i].first; key < users[i].first + TOUCHED; key++)
      if (tamis_contains_hash(into, key))
        assert_int_equal(tamis_remove_hash(into, key), TAMIS_OK);
  assert_int_equal(stats_of(into).count, 0);
  assert_valid(into);
  tamis_destroy(into);
  tamis_destroy(from);
  free(won);
}

static void filters_of_one_generation_in_use(void **state)
{
  (void) state;
  for (unsigned i = 0; i < ROUNDS; i++)
    both_may_be_in_use(5000, 10000 / SCALE * i, 0, i % 2);
}

static void filters_of_two_generations_in_use(void **state)
{
  (void) state;
  for (unsigned i = 0; i < ROUNDS; i++)
    both_may_be_in_use(100 / SCALE, 1000 * i, STABLE, i % 2);
}

struct merge {
  tamis_filter *into, *from;
  int result;
  pthread_t thread;
};

static void *merge(void *arg)
{
  struct merge *m = arg;
  m->result = tamis_merge(m->into, m->from);
  return NULL;
}

/* Neither waits for the other. */
static void unions_in_both_directions(void **state)
{
  (void) state;
  for (unsigned round = 0; round < ROUNDS; round++) {
    tamis_filter *f[2] = {make(2000, 0.01), make(2000, 0.01)};
    add_range(f[0], 0, STABLE);
    add_range(f[1], STABLE / 2, STABLE * 3 / 2);
    struct merge m[4];
    for (unsigned i = 0; i < 4; i++) {
      m[i] = (struct merge){f[i % 2], f[!(i % 2)], 0, 0};
      assert_int_equal(pthread_create(&m[i].thread, NULL, merge, &m[i]), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
      assert_int_equal(pthread_join(m[i].thread, NULL), 0);
      assert_int_equal(m[i].result, TAMIS_OK);
    }
    for (unsigned i = 0; i < 2; i++) {
      assert_valid(f[i]);
      assert_all_in(f[i], 0, STABLE * 3 / 2);
      tamis_destroy(f[i]);
    }
  }
}

/* Keys that are removed from `from` while the union runs are gone from both, or in `into` as they
 * were; the others are not touched. */
static void *remove_half(void *arg)
{
  struct user *user = arg;
  user->good = true;
  for (uint64_t i = 0; i < STABLE; i += 2)
    user->good &= tamis_remove_hash(user->f, i) == TAMIS_OK;
  return NULL;
}

static void keys_may_be_removed_meanwhile(void **state)
{
  (void) state;
  for (unsigned round = 0; round < ROUNDS; round++) {
    uint64_t capacity = round % 2 ? 100 / SCALE : 2000;
    tamis_filter *into = make(capacity, 0.01), *from = make(capacity, 0.01);
    add_range(from, 0, STABLE);
    struct user user = {.f = from};
    start(&user, remove_half);
    assert_int_equal(tamis_merge(into, from), TAMIS_OK);
    finish(&user);
    assert_valid(into);
    for (uint64_t i = 1; i < STABLE; i += 2)
      assert_int_equal(tamis_remove_hash(into, i), TAMIS_OK);
    assert_in_range(stats_of(into).count, 0, STABLE / 2);
    assert_valid(into);
    tamis_destroy(into);
    tamis_destroy(from);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unions_in_all_stages_of_growth),
      cmocka_unit_test(unions_have_the_copies_of_both),
      cmocka_unit_test(unions_with_filters_that_have_shrunk),
      cmocka_unit_test(entries_that_know_enough_go_to_later_generations),
      cmocka_unit_test(pairs_that_fill_one_by_one_are_no_limit),
      cmocka_unit_test(unions_of_filters_with_long_strings),
      cmocka_unit_test(rates_are_kept_after_many_unions),
      cmocka_unit_test(fixed_filters),
      cmocka_unit_test(a_union_is_saved_with_its_limits),
      cmocka_unit_test(unions_with_mapped_filters),
      cmocka_unit_test(a_snapshot_of_the_filter_is_not_changed),
      cmocka_unit_test(max_bytes_holds),
      cmocka_unit_test(memory_may_be_refused),
      cmocka_unit_test(a_union_that_fails_leaves_nothing),
      TEST_WITH_THREADS(filters_of_one_generation_in_use),
      TEST_WITH_THREADS(filters_of_two_generations_in_use),
      TEST_WITH_THREADS(unions_in_both_directions),
      TEST_WITH_THREADS(keys_may_be_removed_meanwhile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
