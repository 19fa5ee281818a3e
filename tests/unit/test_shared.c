/* SPDX-License-Identifier: MIT
 *
 * A filter that processes share, as its calls see it: two handles of one file in one process are
 * two processes to each other.  (test_shared_files.c has how files are made and opened.)
 */
#include "shared_unit.h"

#include <errno.h>
#include <pthread.h>

/* Calls a function for each layout, growable and not. */
static void for_each(void (*test)(const tamis_options *))
{
  for (unsigned i = 0; i < 6; i++) {
    tamis_options options = shared_options((tamis_layout) (i / 2), i % 2);
    unlink(shared_path);
    test(&options);
  }
}

static void assert_same(const tamis_filter *a, const tamis_filter *b)
{
  assert_same_figures(a, b, "the other handle");
  assert_int_equal(stats_of(a).bytes, stats_of(b).bytes);
  assert_int_equal(stats_of(a).refused_adds, stats_of(b).refused_adds);
  assert_valid(a);
  assert_valid(b);
}

/* More keys than are ever won are tried. */
enum { MOST_KEYS = 200000 };
static bool won[MOST_KEYS];

/* Adds keys by two handles in turn, until one is refused.  Returns how many keys were tried. */
static uint64_t fill(tamis_filter *const f[2], uint64_t *winners)
{
  memset(won, 0, sizeof won);
  for (uint64_t key = 0; key < MOST_KEYS; key++) {
    int result = tamis_add_unique_hash(f[key % 2], hash_of(key));
    if (result == TAMIS_EFULL)
      return key;
    won[key] = result == TAMIS_OK;
    *winners += won[key];
    assert_true(won[key] || result == TAMIS_PRESENT);
    assert_int_equal(tamis_add_unique_hash(f[1 - key % 2], hash_of(key)), TAMIS_PRESENT);
    assert_int_equal(tamis_add_hash(f[1 - key % 2], hash_of(key)), TAMIS_OK);
  }
  fail_msg("no key is refused");
  return 0;
}

static void add_keys(tamis_filter *f, uint64_t first, uint64_t n)
{
  for (uint64_t key = first; key < first + n; key++)
    assert_int_equal(tamis_add_hash(f, hash_of(key)), TAMIS_OK);
}

static void assert_has(const tamis_filter *f, uint64_t first, uint64_t n)
{
  for (uint64_t key = first; key < first + n; key++)
    assert_true(tamis_contains_hash(f, hash_of(key)));
}

/* ---- saving and loading ---- */

static int64_t read_descriptor(void *fd, void *data, size_t size)
{
  return read(*(int *) fd, data, size);
}

static tamis_stats info_of_file(const char *path)
{
  tamis_stats s = TAMIS_STATS_INIT;
  int fd = open(path, O_RDONLY);
  assert_true(fd >= 0);
  assert_int_equal(tamis_saved_info(read_descriptor, &fd, &s), TAMIS_OK);
  close(fd);
  return s;
}

static void assert_loads(const char *path, const tamis_filter *of, uint64_t keys, bool full)
{
  const tamis_stats s = stats_of(of);
  for (unsigned way = 0; way < 3; way++) {
    tamis_filter *f = NULL;
    tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
    options.check_all = way == 2;
    int result = way ? tamis_map_file(&options, path, &f) : tamis_load_file(&options, path, &f);
    assert_int_equal(result, TAMIS_OK);
    assert_has(f, 0, keys);
    assert_valid(f);
    tamis_stats t = stats_of(f);
    assert_int_equal(t.count, s.count);
    assert_int_equal(t.layers, s.layers);
    assert_int_equal(t.bits_set, s.bits_set);
    assert_int_equal(t.seed, s.seed);
    assert_int_equal(tamis_sync(f), TAMIS_EUNSUPPORTED);
    uint64_t refused = 0;
    for (uint64_t key = keys; key < keys + 10; key++)
      refused += tamis_add_unique_hash(f, hash_of(MOST_KEYS + key)) ==
                 (way ? TAMIS_EUNSUPPORTED : TAMIS_EFULL);
    if (way || full)
      assert_true(refused > 0);
    tamis_destroy(f);
  }
  tamis_stats t = info_of_file(path);
  assert_int_equal(t.count, s.count);
  assert_int_equal(t.layers, s.layers);
  assert_int_equal(t.capacity, s.capacity);
}

/* Keys by their bytes and by their hashes; calls that there are not. */
static void use_other_calls(tamis_filter *a, tamis_filter *b)
{
  assert_int_equal(tamis_add_unique(a, "key", 3), TAMIS_OK);
  assert_int_equal(tamis_add_unique(b, "key", 3), TAMIS_PRESENT);
  assert_true(tamis_contains(b, "key", 3));
  assert_true(tamis_contains_hash(b, tamis_hash(a, "key", 3)));
  assert_int_equal(tamis_remove(a, "key", 3), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_sync(a), TAMIS_OK);
  assert_int_equal(tamis_sync(NULL), TAMIS_EINVAL);
}

/* They load at any time, and save. */
static void check_two_handles(const tamis_options *options)
{
  char sealed[sizeof shared_path + 8];
  snprintf(sealed, sizeof sealed, "%s.sealed", shared_path);
  tamis_filter *f[2] = {open_shared(options), open_shared(NULL)}, *third;
  assert_loads(shared_path, f[0], 0, false);
  use_other_calls(f[0], f[1]);
  uint64_t winners = 1, keys = fill(f, &winners);
  tamis_stats s = stats_of(f[0]);
  assert_int_equal(s.count, winners);
  assert_in_range(s.layers, options->growable ? 4 : 1, options->growable ? 12 : 1);
  assert_true(s.fpp_estimate < 1.2 * options->fpp);
  if (!options->growable)
    assert_in_range(keys, options->capacity * 9 / 10, options->capacity * 11 / 10);
  assert_has(f[0], 0, keys);
  assert_has(f[1], 0, keys);
  for (uint64_t key = keys; key < keys + 100; key++) { /* final, in both */
    int result = tamis_add_unique_hash(f[key % 2], hash_of(key));
    assert_true(result == TAMIS_EFULL || result == TAMIS_PRESENT);
    assert_int_equal(tamis_add_unique_hash(f[1 - key % 2], hash_of(key)), result);
  }
  assert_same(f[0], f[1]);
  assert_true(stats_of(f[1]).refused_adds > 100);
  third = open_shared(options);
  assert_same(f[0], third);
  assert_loads(shared_path, f[0], keys, !options->growable);
  assert_int_equal(tamis_save_file(f[1], sealed), TAMIS_OK);
  assert_loads(sealed, f[1], keys, !options->growable);
  tamis_destroy(f[0]);
  tamis_destroy(third);
  assert_valid(f[1]);
  tamis_destroy(f[1]);
  f[1] = open_shared(NULL);
  assert_int_equal(stats_of(f[1]).count, winners);
  assert_int_equal(tamis_add_unique_hash(f[1], hash_of(0)), TAMIS_PRESENT);
  assert_loads(shared_path, f[1], keys, !options->growable);
  tamis_destroy(f[1]);
  for (unsigned i = 0; i < 2; i++) {
    assert_int_equal(tamis_open_shared(i ? options : NULL, sealed, &f[0]), TAMIS_EUNSUPPORTED);
    assert_null(f[0]);
  }
  unlink(sealed);
}

static void two_handles_are_one_filter(void **state)
{
  (void) state;
  for_each(check_two_handles);
}

/* One handle knows nothing of what the other one has added, and of the layers that it has opened, until it
 * needs them. */
static void check_what_others_add(const tamis_options *options)
{
  enum { KEYS = 6000, BATCH = 450 };
  const size_t keys = options->growable ? KEYS : 2 * BATCH;
  for (unsigned call = 0; call < 6; call++) {
    unlink(shared_path);
    tamis_filter *a = open_shared(options), *b = open_shared(options);
    static uint64_t hashes[KEYS];
    static bool found[KEYS];
    static int results[KEYS];
    assert_false(tamis_contains_hash(b, hash_of(0)));
    for (uint64_t key = 0; key < keys; key++)
      hashes[key] = hash_of(key);
    assert_int_equal(tamis_add_many_hash(a, hashes, keys, results), TAMIS_OK);
    switch (call) {
    case 0:
      assert_has(b, 0, keys);
      break;
    case 1:
      assert_int_equal(tamis_contains_many_hash(b, hashes, keys, found), keys);
      assert_int_equal(tamis_contains_many_hash(b, hashes, keys, NULL), keys);
      break;
    case 2:
      for (uint64_t key = keys; key-- > 0;)
        assert_int_equal(tamis_add_unique_hash(b, hashes[key]), TAMIS_PRESENT);
      break;
    case 3:
      for (size_t i = 0; i < keys; i += BATCH)
        assert_true(tamis_add_unique_many_hash(b, hashes + i, keys - i < BATCH ? keys - i : BATCH,
                                               results + i) == TAMIS_OK);
      for (size_t i = 0; i < keys; i++)
        assert_int_equal(results[i], TAMIS_PRESENT);
      break;
    case 4:
      assert_valid(b);
      break;
    default:
      assert_true(stats_of(b).layers > (options->growable ? 2 : 0));
      assert_in_range(stats_of(b).count, keys - 20, keys);
    }
    if (call != 2 && call != 3)
      for (uint64_t key = 0; key < 100; key++)
        assert_int_equal(tamis_add_unique_hash(b, hash_of(keys - 1 - key)), TAMIS_PRESENT);
    assert_same(a, b);
    tamis_destroy(a);
    tamis_destroy(b);
  }
}

static void what_others_add_is_found(void **state)
{
  (void) state;
  for_each(check_what_others_add);
}

/* ---- several filters ---- */

/* A private filter with the same seed and shape. */
static tamis_filter *private_like(const tamis_options *options, const tamis_filter *shared)
{
  tamis_options own = *options;
  own.seed = stats_of(shared).seed;
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(&own, &f), TAMIS_OK);
  return f;
}

/* Growable: unions of a filter of one layer and one of several; and of two handles of one file, which are
 * two filters with the same keys. */
static void check_sets(const tamis_options *options)
{
  const uint64_t few = 300, many = options->growable ? 6000 : 400;
  tamis_filter *a = open_shared(options), *b = open_shared(NULL), *both = NULL;
  tamis_filter *other = private_like(options, a), *empty = private_like(options, a);
  add_keys(a, 0, few);
  add_keys(other, few - 100, many);
  assert_int_equal(tamis_merge(a, b), TAMIS_OK);
  tamis_similarity_stats s = TAMIS_SIMILARITY_STATS_INIT;
  if (!options->growable) {
    assert_int_equal(tamis_similarity(a, other, &s), TAMIS_OK);
    assert_true(s.common > 50 && s.common < 150 && s.united > 550 && s.united < 650);
    assert_int_equal(tamis_intersect(a, other, &both), TAMIS_OK);
    assert_has(both, few - 100, 100);
    assert_valid(both);
    assert_int_equal(tamis_sync(both), TAMIS_EUNSUPPORTED);
    uint64_t others = 0;
    for (uint64_t key = 0; key < 200; key++)
      others +=
          tamis_contains_hash(both, hash_of(key)) + tamis_contains_hash(both, hash_of(few + key));
    assert_in_range(others, 0, 20);
    assert_int_equal(tamis_merge(a, both), TAMIS_OK);
    tamis_destroy(both);
  }
  assert_int_equal(tamis_merge(a, other), TAMIS_OK);
  assert_has(b, 0, few - 100 + many);
  assert_in_range(stats_of(b).count, (few - 100 + many) * 90 / 100, (few + many) * 105 / 100);
  uint64_t bits = stats_of(a).bits_set;
  assert_int_equal(tamis_merge(a, b), TAMIS_OK);
  assert_int_equal(stats_of(a).bits_set, bits);
  assert_same(a, b);
  assert_int_equal(tamis_merge(empty, b), TAMIS_OK);
  assert_has(empty, 0, few - 100 + many);
  assert_valid(empty);
  tamis_destroy(empty);
  tamis_destroy(other);
  tamis_destroy(a);
  tamis_destroy(b);
}

static void shared_filters_are_united_and_intersected(void **state)
{
  (void) state;
  for_each(check_sets);
}

/* ---- space ---- */

/* Whether the file has space for all layers that are open. */
static void assert_reserved(const tamis_filter *f)
{
  struct stat status;
  assert_int_equal(stat(shared_path, &status), 0);
  assert_true((uint64_t) status.st_blocks * 512 >= stats_of(f).bits / 8);
}

/* So a full disk is an error of a call.  It is looked at when a layer has a single key. */
static void space_is_reserved(void **state)
{
  (void) state;
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, true);
  options.capacity = 50000;
  options.max_bytes = 2000000;
  tamis_filter *f = open_shared(&options);
  assert_reserved(f);
  uint64_t key = options.capacity - 500;
  add_keys(f, 0, key);
  while (stats_of(f).layers < 2)
    add_keys(f, key++, 1);
  assert_reserved(f);
  tamis_destroy(f);
}

/* ---- threads ---- */

enum { THREADS = 4, KEYS_OF_THREADS = 8000 / SCALE };
static tamis_filter *handles[2];
static _Atomic unsigned winners_of[KEYS_OF_THREADS];

static void *add_in_step(void *argument)
{
  unsigned number = *(unsigned *) argument;
  for (uint64_t key = 0; key < KEYS_OF_THREADS; key++)
    winners_of[key] += tamis_add_unique_hash(handles[number % 2], hash_of(key)) == TAMIS_OK;
  return NULL;
}

/* Each handle has two threads, and a filter of few keys opens layers under them. */
static void threads_of_two_handles_have_one_winner(void **state)
{
  (void) state;
  for (unsigned layout = 0; layout < 3; layout++) {
    tamis_options options = shared_options((tamis_layout) layout, true);
    options.capacity = 100;
    unlink(shared_path);
    handles[0] = open_shared(&options);
    handles[1] = open_shared(&options);
    memset(winners_of, 0, sizeof winners_of);
    pthread_t threads[THREADS];
    unsigned numbers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
      numbers[i] = i;
      assert_int_equal(pthread_create(&threads[i], NULL, add_in_step, &numbers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
      pthread_join(threads[i], NULL);
    uint64_t winners = 0, twice = 0;
    for (uint64_t key = 0; key < KEYS_OF_THREADS; key++) {
      winners += winners_of[key];
      twice += winners_of[key] > 1;
    }
    assert_int_equal(twice, 0);
    assert_in_range(winners, KEYS_OF_THREADS * 99 / 100, KEYS_OF_THREADS);
    assert_has(handles[0], 0, KEYS_OF_THREADS);
    assert_true(stats_of(handles[0]).layers > 2);
    assert_same(handles[0], handles[1]);
    tamis_destroy(handles[0]);
    tamis_destroy(handles[1]);
  }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(two_handles_are_one_filter),
      TEST(what_others_add_is_found),
      TEST(shared_filters_are_united_and_intersected),
      TEST(space_is_reserved),
      TEST_WITH_THREADS_BETWEEN(threads_of_two_handles_have_one_winner, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("shared", tests, NULL, NULL);
}
