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

static void check_two_handles(const tamis_options *options)
{
  tamis_filter *f[2] = {open_shared(options), open_shared(NULL)};
  uint64_t winners = 0, keys = fill(f, &winners);
  tamis_stats s = stats_of(f[0]);
  assert_int_equal(s.count, winners);
  assert_in_range(s.layers, options->growable ? 4 : 1, options->growable ? 12 : 1);
  assert_true(s.fpp_estimate < 1.2 * options->fpp);
  if (!options->growable)
    assert_in_range(keys, options->capacity * 9 / 10, options->capacity * 11 / 10);
  for (unsigned i = 0; i < 2; i++)
    for (uint64_t key = 0; key < keys; key++)
      assert_true(tamis_contains_hash(f[i], hash_of(key)));
  for (uint64_t key = keys; key < keys + 100; key++) { /* final, in both */
    int result = tamis_add_unique_hash(f[key % 2], hash_of(key));
    assert_true(result == TAMIS_EFULL || result == TAMIS_PRESENT);
    assert_int_equal(tamis_add_unique_hash(f[1 - key % 2], hash_of(key)), result);
  }
  assert_same(f[0], f[1]);
  assert_true(stats_of(f[1]).refused_adds > 100);
  tamis_filter *third = open_shared(options);
  assert_same(f[0], third);
  tamis_destroy(f[0]);
  tamis_destroy(third);
  assert_same(f[1], f[1]);
  tamis_destroy(f[1]);
  f[1] = open_shared(NULL);
  assert_int_equal(stats_of(f[1]).count, winners);
  assert_int_equal(tamis_add_unique_hash(f[1], hash_of(0)), TAMIS_PRESENT);
  tamis_destroy(f[1]);
}

static void two_handles_are_one_filter(void **state)
{
  (void) state;
  for_each(check_two_handles);
}

/* One handle knows nothing of the layers that the other one has opened, until it needs them. */
static void check_layers_of_others(const tamis_options *options)
{
  enum { KEYS = 6000, BATCH = 500 };
  if (!options->growable)
    return;
  for (unsigned call = 0; call < 6; call++) {
    unlink(shared_path);
    tamis_filter *a = open_shared(options), *b = open_shared(options);
    static uint64_t hashes[KEYS];
    static bool found[KEYS];
    static int results[KEYS];
    tamis_stats s;
    assert_false(tamis_contains_hash(b, hash_of(0)));
    for (uint64_t key = 0; key < KEYS; key++) {
      hashes[key] = hash_of(key);
      assert_int_equal(tamis_add_hash(a, hashes[key]), TAMIS_OK);
    }
    switch (call) {
    case 0:
      for (uint64_t key = 0; key < KEYS; key++)
        assert_true(tamis_contains_hash(b, hashes[key]));
      break;
    case 1:
      assert_int_equal(tamis_contains_many_hash(b, hashes, KEYS, found), KEYS);
      assert_int_equal(tamis_contains_many_hash(b, hashes, KEYS, NULL), KEYS);
      break;
    case 2:
      for (uint64_t key = KEYS; key-- > 0;)
        assert_int_equal(tamis_add_unique_hash(b, hashes[key]), TAMIS_PRESENT);
      break;
    case 3:
      for (size_t i = 0; i < KEYS; i += BATCH)
        assert_int_equal(tamis_add_unique_many_hash(b, hashes + i, BATCH, results + i), TAMIS_OK);
      for (size_t i = 0; i < KEYS; i++)
        assert_int_equal(results[i], TAMIS_PRESENT);
      break;
    case 4:
      assert_valid(b);
      break;
    default:
      s = stats_of(b);
      assert_true(s.layers > 2);
      assert_in_range(s.count, KEYS - 20, KEYS);
    }
    if (call != 2 && call != 3)
      for (uint64_t key = 0; key < 100; key++)
        assert_int_equal(tamis_add_unique_hash(b, hash_of(KEYS - 1 - key)), TAMIS_PRESENT);
    assert_same(a, b);
    tamis_destroy(a);
    tamis_destroy(b);
  }
}

static void layers_that_others_open_are_found(void **state)
{
  (void) state;
  for_each(check_layers_of_others);
}

static void check_batches(const tamis_options *options)
{
  enum { KEYS = 900 };
  tamis_filter *a = open_shared(options), *b = open_shared(NULL);
  uint64_t hashes[KEYS];
  int results[KEYS], again[KEYS];
  bool found[KEYS];
  for (uint64_t i = 0; i < KEYS; i++)
    hashes[i] = hash_of(i);
  assert_int_equal(tamis_add_unique_many_hash(a, hashes, KEYS / 2, results), TAMIS_OK);
  assert_int_equal(tamis_add_unique_many_hash(b, hashes, KEYS, again), TAMIS_OK);
  uint64_t winners = 0;
  for (size_t i = 0; i < KEYS; i++) {
    winners += i < KEYS / 2 && results[i] == TAMIS_OK;
    winners += again[i] == TAMIS_OK;
    assert_true(i >= KEYS / 2 || again[i] == TAMIS_PRESENT);
  }
  assert_int_equal(stats_of(a).count, winners);
  assert_in_range(winners, KEYS - 20, KEYS);
  assert_int_equal(tamis_contains_many_hash(a, hashes, KEYS, found), KEYS);
  assert_int_equal(tamis_add_many_hash(a, hashes, KEYS, results), TAMIS_OK);
  assert_int_equal(tamis_add(a, "one", 3), TAMIS_OK);
  assert_true(tamis_contains(b, "one", 3));
  assert_same(a, b);
  tamis_destroy(a);
  tamis_destroy(b);
}

static void batches_are_seen_by_both(void **state)
{
  (void) state;
  for_each(check_batches);
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

/* Growable: into a filter of one layer from one of several. */
static void check_merge(const tamis_options *options)
{
  const uint64_t few = 300, many = options->growable ? 6000 : 400;
  tamis_filter *a = open_shared(options), *b = open_shared(NULL);
  tamis_filter *other = private_like(options, a);
  add_keys(a, 0, few);
  add_keys(other, few, many);
  assert_int_equal(tamis_merge(a, other), TAMIS_OK);
  assert_has(b, 0, few + many);
  assert_in_range(stats_of(b).count, (few + many) * 95 / 100, (few + many) * 105 / 100);
  assert_same(a, b);
  tamis_destroy(other);
  other = private_like(options, a);
  assert_int_equal(tamis_merge(other, b), TAMIS_OK);
  assert_has(other, 0, few + many);
  assert_valid(other);
  tamis_destroy(other);
  tamis_destroy(a);
  tamis_destroy(b);
}

static void shared_filters_are_united(void **state)
{
  (void) state;
  for_each(check_merge);
}

/* Two handles of one file are two filters with the same keys. */
static void check_merge_with_itself(const tamis_options *options)
{
  tamis_filter *a = open_shared(options), *b = open_shared(NULL);
  add_keys(a, 0, options->growable ? 3000 : 500);
  uint64_t bits = stats_of(a).bits_set;
  assert_int_equal(tamis_merge(a, b), TAMIS_OK);
  assert_int_equal(stats_of(a).bits_set, bits);
  assert_same(a, b);
  tamis_destroy(a);
  tamis_destroy(b);
}

static void two_handles_may_be_united(void **state)
{
  (void) state;
  for_each(check_merge_with_itself);
}

static void check_intersection(const tamis_options *options)
{
  tamis_filter *a = open_shared(options), *other = private_like(options, a), *both = NULL;
  add_keys(a, 0, 400);
  add_keys(other, 200, 400);
  assert_int_equal(tamis_intersect(a, other, &both), TAMIS_OK);
  assert_has(both, 200, 200);
  assert_valid(both);
  assert_int_equal(tamis_sync(both), TAMIS_EUNSUPPORTED);
  uint64_t others = 0;
  for (uint64_t key = 0; key < 200; key++)
    others +=
        tamis_contains_hash(both, hash_of(key)) + tamis_contains_hash(both, hash_of(400 + key));
  assert_in_range(others, 0, 20);
  tamis_similarity_stats s = TAMIS_SIMILARITY_STATS_INIT;
  assert_int_equal(tamis_similarity(a, other, &s), TAMIS_OK);
  assert_true(s.common > 150 && s.common < 250 && s.united > 550 && s.united < 650);
  int result = tamis_merge(a, both);
  assert_int_equal(result, TAMIS_OK);
  assert_valid(a);
  tamis_destroy(both);
  tamis_destroy(other);
  tamis_destroy(a);
}

static void shared_filters_are_intersected(void **state)
{
  (void) state;
  for_each(check_intersection);
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

static void assert_loads(const char *path, uint64_t keys, const tamis_stats *s, bool full)
{
  for (unsigned way = 0; way < 3; way++) {
    tamis_filter *f = NULL;
    tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
    options.check_all = way == 2;
    int result = way ? tamis_map_file(&options, path, &f) : tamis_load_file(&options, path, &f);
    assert_int_equal(result, TAMIS_OK);
    assert_has(f, 0, keys);
    assert_valid(f);
    tamis_stats t = stats_of(f);
    assert_int_equal(t.count, s->count);
    assert_int_equal(t.layers, s->layers);
    assert_int_equal(t.bits_set, s->bits_set);
    assert_int_equal(t.seed, s->seed);
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
  assert_int_equal(t.count, s->count);
  assert_int_equal(t.layers, s->layers);
  assert_int_equal(t.capacity, s->capacity);
}

static void check_load(const tamis_options *options)
{
  char sealed[sizeof shared_path + 8];
  snprintf(sealed, sizeof sealed, "%s.sealed", shared_path);
  tamis_filter *f[2] = {open_shared(options), open_shared(NULL)};
  tamis_stats s = stats_of(f[0]);
  assert_loads(shared_path, 0, &s, false);
  add_keys(f[0], 0, 700);
  s = stats_of(f[0]);
  assert_loads(shared_path, 700, &s, false);
  uint64_t winners = 0, keys = fill(f, &winners);
  s = stats_of(f[0]);
  assert_loads(shared_path, keys, &s, !options->growable);
  assert_int_equal(tamis_save_file(f[1], sealed), TAMIS_OK);
  assert_loads(sealed, keys, &s, !options->growable);
  tamis_destroy(f[0]);
  tamis_destroy(f[1]);
  assert_loads(shared_path, keys, &s, !options->growable);
  assert_int_equal(tamis_open_shared(NULL, sealed, &f[0]), TAMIS_EUNSUPPORTED);
  assert_null(f[0]);
  assert_int_equal(tamis_open_shared(options, sealed, &f[0]), TAMIS_EUNSUPPORTED);
  unlink(sealed);
}

static void a_live_file_loads(void **state)
{
  (void) state;
  for_each(check_load);
}

static void text_and_hashed_keys_work(void **state)
{
  (void) state;
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, true);
  tamis_filter *a = open_shared(&options), *b = open_shared(NULL);
  assert_int_equal(tamis_add_unique(a, "key", 3), TAMIS_OK);
  assert_int_equal(tamis_add_unique(b, "key", 3), TAMIS_PRESENT);
  assert_true(tamis_contains(b, "key", 3));
  assert_true(tamis_contains_hash(b, tamis_hash(a, "key", 3)));
  assert_int_equal(tamis_remove(a, "key", 3), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_sync(a), TAMIS_OK);
  assert_int_equal(tamis_sync(NULL), TAMIS_EINVAL);
  tamis_destroy(a);
  tamis_destroy(b);
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
      TEST(layers_that_others_open_are_found),
      TEST(batches_are_seen_by_both),
      TEST(shared_filters_are_united),
      TEST(two_handles_may_be_united),
      TEST(shared_filters_are_intersected),
      TEST(a_live_file_loads),
      TEST(text_and_hashed_keys_work),
      TEST(space_is_reserved),
      TEST_WITH_THREADS_BETWEEN(threads_of_two_handles_have_one_winner, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("shared", tests, NULL, NULL);
}
