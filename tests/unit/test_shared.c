/* SPDX-License-Identifier: MIT
 *
 * A filter that processes share, as its calls see it: two handles of one file in one process are
 * two processes to each other.  (test_shared_files.c has how files are made and opened.)
 */
#include "shared_unit.h"

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

/* ---- saving and loading ---- */

static int64_t read_descriptor(void *fd, void *data, size_t size)
{
  return read(*(int *) fd, data, size);
}

static void assert_figures_in_file(const char *path, const tamis_filter *of)
{
  const tamis_stats s = stats_of(of);
  tamis_stats t = TAMIS_STATS_INIT;
  int fd = open(path, O_RDONLY);
  assert_true(fd >= 0);
  assert_int_equal(tamis_saved_info(read_descriptor, &fd, &t), TAMIS_OK);
  close(fd);
  assert_true(t.count == s.count && t.layers == s.layers && t.capacity == s.capacity);
  assert_true(t.bits == s.bits && t.parts == s.parts && t.period == s.period);
  assert_true(t.oldest_part_age == s.oldest_part_age && t.fingerprint_bits == s.fingerprint_bits);
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
  assert_figures_in_file(path, of);
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

/* Handles that were open before know nothing of the keys that others have added, nor of the layers that they have
 * opened, until a call needs these: each of them is asked by another call first. */
enum { WATCHERS = 6, BATCH = 450 };

static void check_watcher(unsigned call, tamis_filter *f, uint64_t keys)
{
  static uint64_t hashes[MOST_KEYS];
  static bool found[MOST_KEYS];
  int results[BATCH];
  for (uint64_t key = 0; key < keys; key++)
    hashes[key] = hash_of(key);
  switch (call) {
  case 0:
    assert_has(f, 0, keys);
    break;
  case 1:
    assert_int_equal(tamis_contains_many_hash(f, hashes, keys, found), keys);
    break;
  case 2:
    for (uint64_t key = keys; key-- > 0;)
      assert_int_equal(tamis_add_unique_hash(f, hashes[key]), TAMIS_PRESENT);
    break;
  case 3:
    for (uint64_t at = 0; at + BATCH <= keys; at += BATCH) {
      assert_int_equal(tamis_add_unique_many_hash(f, hashes + at, BATCH, results), TAMIS_OK);
      for (unsigned i = 0; i < BATCH; i++)
        assert_int_equal(results[i], TAMIS_PRESENT);
    }
    break;
  case 4:
    assert_valid(f);
    break;
  default:
    assert_true(stats_of(f).count > 0);
  }
}

/* They load at any time, and save. */
static void check_two_handles(const tamis_options *options)
{
  char sealed[sizeof shared_path + 8];
  snprintf(sealed, sizeof sealed, "%s.sealed", shared_path);
  tamis_filter *f[2] = {open_shared(options), open_shared(NULL)}, *third, *watchers[WATCHERS];
  for (unsigned i = 0; i < WATCHERS; i++)
    watchers[i] = open_shared(i % 2 ? options : NULL);
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
  for (unsigned i = 0; i < WATCHERS; i++) {
    check_watcher(i, watchers[i], keys);
    assert_same(f[0], watchers[i]);
    tamis_destroy(watchers[i]);
  }
  third = open_shared(options);
  assert_same(f[0], third);
  assert_loads(shared_path, f[0], keys, !options->growable);
  assert_int_equal(tamis_save_file(f[1], sealed), TAMIS_OK);
  assert_loads(sealed, f[1], keys, !options->growable);
  tamis_destroy(f[0]);
  tamis_destroy(third);
  tamis_destroy(f[1]);
  f[1] = open_shared(NULL);
  assert_int_equal(stats_of(f[1]).count, winners);
  assert_int_equal(tamis_add_unique_hash(f[1], hash_of(0)), TAMIS_PRESENT);
  tamis_destroy(f[1]);
  for (unsigned i = 0; i < 2; i++) {
    assert_int_equal(tamis_open_shared(i ? options : NULL, sealed, &f[0]), TAMIS_EUNSUPPORTED);
    assert_null(f[0]);
  }
  unlink(sealed);
}

TEST_BETWEEN(two_handles_are_one_filter, set_up, tear_down)
{
  for_each(check_two_handles);
}

/* ---- several filters ---- */

/* Growable: unions of a filter of one layer and one of several; and of two handles of one file, which are
 * two filters with the same keys. */
static void check_sets(const tamis_options *options)
{
  const uint64_t few = 300, many = options->growable ? 6000 : 400;
  tamis_options own = *options;
  tamis_filter *a = open_shared(options), *b = open_shared(NULL), *both = NULL;
  own.seed = stats_of(a).seed;
  tamis_filter *other = make_with_options(&own), *empty = make_with_options(&own);
  add_hashes(a, 0, few);
  add_hashes(other, few - 100, many);
  tamis_similarity_stats s = TAMIS_SIMILARITY_STATS_INIT;
  if (!options->growable) {
    assert_int_equal(tamis_similarity(a, other, &s), TAMIS_OK);
    assert_true(s.common > 50 && s.common < 150 && s.united > 550 && s.united < 650);
    assert_int_equal(tamis_intersect(a, other, &both), TAMIS_OK);
    assert_has(both, few - 100, 100);
    assert_valid(both);
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

TEST_BETWEEN(shared_filters_are_united_and_intersected, set_up, tear_down)
{
  for_each(check_sets);
}

/* ---- at the same time ---- */

enum { WORKERS = 4, KEYS = 8000 / SCALE };

static tamis_filter *handles[2];
static _Atomic unsigned *winners_of; /* each key; in memory that children share */

static void *add_in_step(void *number)
{
  tamis_filter *f = handles[(uintptr_t) number % 2];
  for (uint64_t key = 0; key < KEYS; key++) {
    winners_of[key] += tamis_add_unique_hash(f, hash_of(key)) == TAMIS_OK;
    if (number == 0 && key % 500 == 0) /* a period ends once, whoever is first */
      (void) tamis_advance_to(f, key / 500);
  }
  return NULL;
}

/* Threads, or children that have inherited the handles. */
static void run_workers(bool processes)
{
  pthread_t threads[WORKERS];
  pid_t children[WORKERS];
  for (uintptr_t i = 0; i < WORKERS; i++)
    if (!processes)
      assert_int_equal(pthread_create(&threads[i], NULL, add_in_step, (void *) i), 0);
    else if ((children[i] = fork_child()) == 0) {
      (void) add_in_step((void *) i);
      _exit(0);
    }
  for (unsigned i = 0; i < WORKERS; i++)
    assert_int_equal(processes ? wait_for(children[i]) : pthread_join(threads[i], NULL), 0);
}

static void *add_all(void *f)
{
  for (uint64_t key = 0; key < KEYS; key++)
    (void) tamis_add_hash(f, hash_of(key));
  return NULL;
}

/* A save and an opening count the bits of words that a thread changes meanwhile. */
TEST_WITH_THREADS_BETWEEN(bits_are_counted_beside_adds, set_up, tear_down)
{
  char sealed[sizeof shared_path + 8];
  snprintf(sealed, sizeof sealed, "%s.sealed", shared_path);
  for (unsigned i = 0; i < 6; i++) {
    tamis_options options = shared_options((tamis_layout) (i / 2), i % 2);
    options.capacity = 2 * KEYS;
    unlink(shared_path);
    tamis_filter *f = open_shared(&options);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, add_all, f), 0);
    while (stats_of(f).count < KEYS / 2)
      assert_int_equal(tamis_save_file(f, sealed), TAMIS_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    tamis_destroy(f);
  }
  unlink(sealed);
}

/* Keys are tried at about the same time, so none is forgotten between its tries.  Filters of few keys open layers
 * meanwhile. */
TEST_WITH_THREADS_BETWEEN(each_key_has_one_winner, set_up, tear_down)
{
  const size_t size = KEYS * sizeof *winners_of;
  winners_of = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(winners_of != MAP_FAILED);
  for (unsigned i = 0; i < 10; i++) {
    const bool processes = i % 2, window = i / 2 == 4;
    tamis_options options = shared_options((tamis_layout) (i / 2 % 3), i / 2 < 3);
    options.capacity = options.growable ? 100 : 2 * KEYS;
    options.window = window ? 64 : 0;
    options.layout = window ? TAMIS_LAYOUT_BLOCKED : options.layout;
    memset((void *) winners_of, 0, size);
    unlink(shared_path);
    handles[0] = open_shared(&options);
    handles[1] = open_shared(NULL);
    run_workers(processes);
    uint64_t winners = 0, twice = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
      winners += winners_of[key];
      twice += winners_of[key] > 1;
    }
    assert_int_equal(twice, 0);
    assert_in_range(winners, KEYS * 99 / 100, KEYS);
    assert_has(handles[0], 0, KEYS);
    assert_true(stats_of(handles[0]).layers > 2 || !options.growable);
    assert_same(handles[0], handles[1]);
    assert_figures_in_file(shared_path, handles[0]);
    tamis_destroy(handles[0]);
    tamis_destroy(handles[1]);
  }
  munmap((void *) winners_of, size);
}
