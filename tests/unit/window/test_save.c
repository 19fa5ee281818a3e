/* SPDX-License-Identifier: MIT
 *
 * What is peculiar to saved windows; test_saved.c has what holds for all kinds.
 */
#include "harness.h"
#include "saved_unit.h"

#include "table/image.h"
#include "window/save.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- filters ---- */

struct sort {
  unsigned window;
  double fpp;
  bool growable;
  uint64_t capacity, keys; /* of which a part is added in each period */
};

/* All tests are made of windows of each kind. */
static tamis_kind kind = TAMIS_BLOOM;

static tamis_options options_of(const struct sort *sort)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = kind;
  options.window = sort->window;
  options.fpp = sort->fpp;
  options.growable = sort->growable;
  options.capacity = sort->capacity;
  options.window_renews = sort->window % 2;
  options.seed = 42;
  return options;
}

static void advance(tamis_filter *f)
{
  assert_int_equal(tamis_advance(f), TAMIS_OK);
}

/* Keys are added over `periods` periods, the last of which runs still. */
static tamis_filter *create(const struct sort *sort, unsigned periods)
{
  tamis_filter *f;
  tamis_options options = options_of(sort);
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  for (unsigned now = 0; now < periods; now++) {
    if (now > 0)
      advance(f);
    for (uint64_t key = sort->keys * now / periods; key < sort->keys * (now + 1) / periods; key++)
      for (uint64_t copy = 0; copy <= (kind == TAMIS_CUCKOO && key % 5 == 0 ? key % 7 : 0); copy++)
        assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
  }
  return f;
}

/* ---- round trips ---- */

static void assert_same_bytes(const struct bytes *a, const tamis_filter *f)
{
  struct bytes b = saved_bytes(f);
  assert_int_equal(a->size, b.size);
  assert_memory_equal(a->data, b.data, a->size);
  free(b.data);
}

/* ---- snapshots ---- */

struct snapshot {
  tamis_filter *filter;
  struct bytes bytes;
  unsigned advances, calls;
  uint64_t next;
};

static int write_and_go_on(void *context, const void *data, size_t size)
{
  struct snapshot *s = context;
  s->calls++;
  for (unsigned i = 0; i < 2 && s->advances; i++, s->advances--)
    advance(s->filter);
  for (unsigned i = 0; i < 5000; i++)
    assert_int_equal(tamis_add_hash(s->filter, s->next++), TAMIS_OK);
  return write_bytes(&s->bytes, data, size);
}

/* Several segments are copied in different periods.  What is not touched meanwhile is in the loaded
 * filter for exactly as long as in the saved one. */
static void periods_end_during_a_save(void **state)
{
  (void) state;
  enum { KEYS = 1500000 / SCALE, WINDOW = 4 };
  /* A short file is written at the end, when all has been copied. */
  for (unsigned advances = 0; advances < (SCALE == 1 ? 7 : 1); advances += 2) {
    const struct sort sort = {WINDOW, 0.0001, advances % 4, KEYS + 200000, KEYS};
    tamis_filter *f = create(&sort, WINDOW + 1), *g;
    struct snapshot s = {.filter = f, .advances = advances, .next = UINT64_C(1) << 40};
    assert_int_equal(tamis_save(f, write_and_go_on, &s), TAMIS_OK);
    g = load_bytes(&s.bytes);
    if (SCALE == 1)
      assert_true(s.calls > 3 && s.advances == 0);
    for (unsigned now = 0; now < WINDOW + 2; now++) {
      uint64_t in = 0;
      for (uint64_t key = 0; key < KEYS; key++)
        in += tamis_contains_hash(f, key) != tamis_contains_hash(g, key);
      assert_in_range(in, 0, KEYS / 2000); /* those that what came later makes false positives */
      advance(f);
      advance(g);
    }
    assert_int_equal(stats_of(g).count, 0);
    assert_valid(g);
    tamis_destroy(f);
    tamis_destroy(g);
    free(s.bytes.data);
  }
}

static void a_filter_of_several_segments_is_as_it_was(void **state)
{
  (void) state;
  enum { KEYS = 1500000 / SCALE };
  const struct sort sort = {8, 0.001, false, KEYS, KEYS};
  tamis_filter *f = create(&sort, 5);
  struct bytes saved = saved_bytes(f);
  tamis_filter *g = load_bytes(&saved);
  assert_same_bytes(&saved, g);
  for (unsigned now = 0; now < 10; now++) {
    for (uint64_t key = 0; key < KEYS; key += 37)
      assert_int_equal(tamis_contains_hash(f, key), tamis_contains_hash(g, key));
    assert_int_equal(stats_of(f).count, stats_of(g).count);
    advance(f);
    advance(g);
  }
  tamis_destroy(f);
  tamis_destroy(g);
  free(saved.data);
}

/* ---- files of others ---- */

/* A figure that is as large as a file may say does not get larger with the next layer: the filter
 * could not be loaded again. */
static void a_figure_stays_within_its_range(void **state)
{
  (void) state;
  const struct sort small = {2, 0.001, true, 40, 40};
  tamis_filter *f = create(&small, 1), *loaded;
  struct bytes saved = saved_bytes(f);
  saved_put64(saved.data + SAVED_GEOMETRY_AT + (size_t) SAVED_WINDOW_GROWTHS * 8, INT32_MAX);
  assert_true(repair(&saved, window_bytes(&const_window_of(f)->first.geometry)));
  assert_int_equal(load_any(source_of(&saved), 0, &loaded), TAMIS_OK);
  for (uint64_t key = 100; key < 300; key++)
    assert_int_equal(tamis_add_hash(loaded, key), TAMIS_OK);
  for (unsigned i = 0; i < 4; i++)
    advance(loaded);
  free(saved.data);
  saved = saved_bytes(loaded);
  assert_int_equal(load_any(source_of(&saved), 0, NULL), TAMIS_OK);
  free(saved.data);
  tamis_destroy(loaded);
  tamis_destroy(f);
}

/* Changes one word of the array, and makes all sums and the number of lanes right again. */
static int load_with_word(const struct bytes *saved, const struct window_geometry *g, uint64_t at,
                          uint64_t value)
{
  struct bytes b = {.data = malloc(saved->size), .size = saved->size};
  size_t array = SAVED_ARRAY_ALIGNMENT, total = b.size - SAVED_UNIT + 24;
  assert_non_null(b.data);
  memcpy(b.data, saved->data, b.size);
  uint64_t was = saved_get64(b.data + array + at * 8);
  saved_put64(b.data + array + at * 8, value);
  saved_put64(b.data + total, saved_get64(b.data + total) +
                                  lanes_count(window_used(&g->whole, value)) -
                                  lanes_count(window_used(&g->whole, was)));
  assert_true(repair(&b, window_bytes(g)));
  int result = load_any(source_of(&b), 0, NULL);
  free(b.data);
  return result;
}

/* Loads a saved window with another payload of its block of counts, which is at `block`.  The sum of
 * the copies in the trailer is as it should be for that. */
static int load_with_counts(const struct bytes *saved, size_t array, size_t block, uint64_t sum,
                            const unsigned char *payload, size_t size, tamis_kind as)
{
  struct bytes b = {.data = malloc(saved->size), .size = saved->size};
  assert_non_null(b.data);
  memcpy(b.data, saved->data, b.size);
  memset(b.data + block + SAVED_UNIT, 0, SAVED_UNIT);
  memcpy(b.data + block + SAVED_UNIT, payload, size);
  saved_put64(b.data + block + 8, size);
  saved_put64(b.data + b.size - SAVED_UNIT + 40, sum);
  saved_put32(b.data + 32, as);
  if (as == TAMIS_BLOOM)
    saved_put64(b.data + SAVED_GEOMETRY_AT + (size_t) 8 * SAVED_WINDOW_FURTHER, 0);
  assert_true(repair(&b, array));
  int result = load_any(source_of(&b), 0, NULL);
  free(b.data);
  return result;
}

/* What a block says of copies, with the sums made right again. */
static void each_count_is_checked(void **state)
{
  (void) state;
  const struct sort sort = {2, 0.001, false, 100, 0};
  tamis_filter *f = create(&sort, 1);
  for (unsigned copy = 0; copy < 3; copy++) {
    assert_int_equal(tamis_add_hash(f, 1), TAMIS_OK);
    assert_int_equal(tamis_add_hash(f, 2), TAMIS_OK);
  }
  assert_int_equal(tamis_add_hash(f, 3), TAMIS_OK);
  const struct window *w = const_window_of(f);
  const struct window_geometry *g = &w->first.geometry;
  struct bytes saved = saved_bytes(f);
  /* Two counts and the trailer are at the end. */
  const size_t block = saved.size - SAVED_UNIT - 2 * SAVED_UNIT;
  const unsigned char *at = saved.data + block + SAVED_UNIT,
                      *end = at + saved_get64(saved.data + block + 8);
  assert_int_equal(saved_get32(saved.data + block), SAVED_COUNTS);
  uint64_t skip[2], count[2];
  for (unsigned i = 0; i < 2; i++)
    assert_true(number_get(&at, end, &skip[i]) && number_get(&at, end, &count[i]) && count[i] == 2);
  assert_true(at == end);
  uint64_t empty = skip[0] + skip[1] + 2; /* a lane after both that is not in use */
  while (lane_get(&g->whole.lane, word_load(&w->first.words[empty / g->whole.lane.lanes]),
                  (unsigned) (empty % g->whole.lane.lanes)))
    empty++;
  const uint64_t second = skip[0] + 1, none = window_lanes(g);
  const struct {
    uint64_t skip, a, b;
    int expected;
  } tries[] = {{skip[1], 2, 2, TAMIS_OK},
               {skip[1], 1, 9, TAMIS_OK},
               {skip[1], 0, 2, TAMIS_ECORRUPT},
               {skip[1], UINT64_C(1) << 53, 2, TAMIS_ECORRUPT},
               {skip[1], (UINT64_C(1) << 53) - 1, 2, TAMIS_ECORRUPT},
               {empty - second, 2, 2, TAMIS_ECORRUPT},
               {none - second, 2, 2, TAMIS_ECORRUPT},
               {(UINT64_C(1) << 56) - 1, 2, 2, TAMIS_ECORRUPT}}; /* far away */
  for (unsigned i = 0; i < sizeof tries / sizeof *tries; i++) {
    unsigned char payload[SAVED_UNIT], *to = payload;
    to = number_put(number_put(to, skip[0]), tries[i].a);
    to = number_put(number_put(to, tries[i].skip), tries[i].b);
    for (unsigned as = TAMIS_BLOOM; as <= TAMIS_CUCKOO; as++) /* the first one has no copies */
      assert_int_equal(load_with_counts(&saved, window_bytes(g), block, tries[i].a + tries[i].b,
                                        payload, (size_t) (to - payload), as),
                       as == TAMIS_BLOOM ? TAMIS_ECORRUPT : tries[i].expected);
  }
  const struct {
    unsigned char bytes[12], size;
  } numbers[] = {{{0}, 0},
                 {{(unsigned char) skip[0]}, 1},       /* half a count */
                 {{(unsigned char) skip[0], 0x82}, 2}, /* a number without an end */
                 {{(unsigned char) skip[0], 0x82, 0}, 3},
                 {{0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 2}, 10}};
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++)
    assert_int_equal(load_with_counts(&saved, window_bytes(g), block, 2, numbers[i].bytes,
                                      numbers[i].size, TAMIS_CUCKOO),
                     TAMIS_ECORRUPT);
  tamis_destroy(f);
  free(saved.data);
}

static void each_lane_is_checked(void **state)
{
  (void) state;
  const struct sort one = {2, 0.001, false, 100, 1}; /* stamps 1 to 4, of 3 bits */
  tamis_filter *f = create(&one, 1);
  const struct window *w = const_window_of(f);
  const struct window_geometry *g = &w->first.geometry;
  const struct window_shape *s = &g->shape;
  struct bytes saved = saved_bytes(f);
  uint64_t at = 0, bucket, entry = 0;
  while (!word_load(&w->first.words[at]))
    at++;
  uint64_t value = word_load(&w->first.words[at]);
  unsigned lane = lanes_first(&g->whole.lane, window_used(&g->whole, value));
  entry = lane_get(&s->lane, value, lane);
  assert_true(s->stamp_bits == 3 && lane == 0 && window_stamp_of(s, entry) == 1);
  bucket = at << g->bucket_shift;
  uint64_t fingerprint = window_fingerprint_of(s, entry);
  assert_int_equal(load_with_word(&saved, g, at, value), TAMIS_OK);
  for (unsigned stamp = 0; stamp < 8; stamp++) /* 2 is dead, and 5 and more are none */
    assert_int_equal(load_with_word(&saved, g, at, fingerprint | stamp),
                     stamp == 1 || stamp == 3 || stamp == 4 ? TAMIS_OK : TAMIS_ECORRUPT);
  assert_int_equal(load_with_word(&saved, g, at, 1), TAMIS_ECORRUPT); /* no fingerprint */
  /* A second lane with the fingerprint, in the same bucket or in the other one. */
  assert_int_equal(load_with_word(&saved, g, at, value | entry << s->lane.width), TAMIS_ECORRUPT);
  uint64_t other = window_other_bucket(g, bucket, entry);
  unsigned shift = window_shift_of(s, g->bucket_shift, other);
  assert_int_equal(
      load_with_word(&saved, g, window_word_of(g->bucket_shift, other), (fingerprint | 3) << shift),
      TAMIS_ECORRUPT);
  tamis_destroy(f);
  free(saved.data);
}

/* The array is one of whole lines. */
static void what_follows_the_buckets_is_zero(void **state)
{
  (void) state;
  struct sort sort = {2, 0.001, false, 100, 1};
  tamis_filter *f = create(&sort, 1);
  while (window_words(&const_window_of(f)->first.geometry) % WINDOW_LINE_WORDS == 0) {
    tamis_destroy(f);
    sort.capacity++;
    f = create(&sort, 1);
  }
  const struct window_geometry *g = &const_window_of(f)->first.geometry;
  struct bytes saved = saved_bytes(f);
  for (uint64_t at = window_words(g); at < window_bytes(g) / 8; at++) {
    assert_int_equal(load_with_word(&saved, g, at, 0), TAMIS_OK);
    assert_int_equal(load_with_word(&saved, g, at, 1), TAMIS_ECORRUPT); /* it is no lane */
  }
  tamis_destroy(f);
  free(saved.data);
}

/* ---- saves under threads ---- */

struct under_fire {
  tamis_filter *filter;
  _Atomic bool done;
};

static void *keep_busy(void *arg)
{
  struct under_fire *u = arg;
  for (uint64_t i = 0; !atomic_load(&u->done); i++) {
    (void) tamis_add_hash(u->filter, (UINT64_C(1) << 40) + i % 20000);
    (void) tamis_add_unique_hash(u->filter, (UINT64_C(1) << 41) + i);
    if (kind == TAMIS_CUCKOO) { /* lanes are cleared, and their keys come back */
      (void) tamis_remove_hash(u->filter, (UINT64_C(1) << 41) + i);
      while (tamis_remove_hash(u->filter, (UINT64_C(1) << 40) + i % 20000) == TAMIS_OK)
        ;
      (void) tamis_add_hash(u->filter, (UINT64_C(1) << 40) + i % 20000);
    }
    if (i % 1000 == 0)
      (void) tamis_advance(u->filter);
  }
  return NULL;
}

/* Keys that are renewed now and then by this thread alone, between saves. */
static void a_filter_is_saved_while_it_is_in_use(void **state)
{
  (void) state;
  enum { KEYS = 3000 };
  const struct sort sort = {64, 0.001, true, 4000, 0};
  tamis_filter *f = create(&sort, 1), *g;
  struct under_fire u = {.filter = f};
  pthread_t threads[2];
  for (unsigned i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, keep_busy, &u), 0);
  for (unsigned turn = 0; turn < (SCALE == 1 ? 40 : 2); turn++) {
    for (uint64_t key = 0; key < KEYS; key++)
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
    struct bytes saved = saved_bytes(f);
    uint64_t missing = 0, forgotten = 0;
    assert_int_equal(load_any(source_of(&saved), 0, &g), TAMIS_OK);
    for (uint64_t key = 0; key < KEYS; key++) {
      missing += !tamis_contains_hash(g, key);
      forgotten += !tamis_contains_hash(f, key);
    }
    if (missing && !forgotten) /* else the save took longer than the window */
      fail_msg("%lu keys are missing", missing);
    tamis_destroy(g);
    free(saved.data);
  }
  atomic_store(&u.done, true);
  for (unsigned i = 0; i < 2; i++)
    assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_valid(f);
  tamis_destroy(f);
}

static int make_cuckoo(void **state)
{
  (void) state;
  kind = TAMIS_CUCKOO;
  beside_filter = 1;
  return 0;
}

/* ---- memory that comes cleared ---- */

enum { LARGE = 20000, MARK = 0xff };

/* The large block that was allocated last.  Its last byte has a mark: who clears the block again
 * wipes it out. */
struct large {
  unsigned char *block;
  size_t size;
};

static void *allocate_marked(void *large, size_t alignment, size_t size)
{
  struct large *l = large;
  unsigned char *block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  memset(block, 0, size);
  if (size >= LARGE) {
    block[size - 1] = MARK;
    *l = (struct large){block, size};
  }
  return block;
}

static void release_marked(void *large, void *block, size_t alignment, size_t size)
{
  (void) large, (void) alignment, (void) size;
  free(block);
}

/* Whether the block was left as it came, which it has to be for what follows. */
static bool was_left_alone(struct large *l)
{
  assert_non_null(l->block);
  bool left = l->block[l->size - 1] == MARK;
  l->block[l->size - 1] = 0;
  *l = (struct large){0};
  return left;
}

static void add_until_a_layer_opens(tamis_filter *f)
{
  tamis_stats before = TAMIS_STATS_INIT, after = TAMIS_STATS_INIT;
  assert_int_equal(tamis_get_stats(f, &before), TAMIS_OK);
  for (uint64_t key = 0; after.layers <= before.layers; key++) {
    assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
    assert_int_equal(tamis_get_stats(f, &after), TAMIS_OK);
  }
}

/* The words of a layer that come cleared are not touched before keys come: of the first layer, of
 * one that is opened later, and of one that a loaded filter opens. */
static void layers_may_come_cleared(void **state)
{
  (void) state;
  const struct sort sort = {3, 0.001, true, 20000, 0};
  for (unsigned believed = 0; believed < 2; believed++) {
    struct large large = {0};
    const tamis_allocator allocator = {allocate_marked, release_marked, &large};
    tamis_options options = options_of(&sort);
    tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
    tamis_filter *f, *loaded;
    options.allocator = load.allocator = &allocator;
    options.cleared_from = load.cleared_from = believed ? LARGE : 0;
    assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
    assert_int_equal(was_left_alone(&large), believed);
    struct bytes saved = saved_bytes(f);
    struct source s = source_of(&saved);
    assert_int_equal(tamis_load(&load, read_source, &s, &loaded), TAMIS_OK);
    free(saved.data);
    large = (struct large){0};
    add_until_a_layer_opens(f);
    assert_int_equal(was_left_alone(&large), believed);
    add_until_a_layer_opens(loaded);
    assert_int_equal(was_left_alone(&large), believed);
    tamis_destroy(f);
    tamis_destroy(loaded);
  }
}

/* malloc() gives memory back that was in use. */
static void without_an_allocator_nothing_comes_cleared(void **state)
{
  (void) state;
  const struct sort sort = {3, 0.001, true, 100, 0};
  tamis_options options = options_of(&sort);
  tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
  tamis_filter *f, *loaded;
  options.cleared_from = load.cleared_from = 1;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  struct bytes saved = saved_bytes(f);
  struct source s = source_of(&saved);
  assert_int_equal(tamis_load(&load, read_source, &s, &loaded), TAMIS_OK);
  assert_int_equal(const_window_of(f)->cleared_from, 0);
  assert_int_equal(const_window_of(loaded)->cleared_from, 0);
  tamis_destroy(f);
  tamis_destroy(loaded);
  free(saved.data);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(periods_end_during_a_save),
      cmocka_unit_test(a_filter_of_several_segments_is_as_it_was),
      cmocka_unit_test(a_figure_stays_within_its_range),
      cmocka_unit_test(each_lane_is_checked),
      cmocka_unit_test(layers_may_come_cleared),
      cmocka_unit_test(without_an_allocator_nothing_comes_cleared),
      cmocka_unit_test(what_follows_the_buckets_is_zero),
      TEST_WITH_THREADS(a_filter_is_saved_while_it_is_in_use),
  };
  const struct CMUnitTest of_cuckoo[] = {
      cmocka_unit_test(each_count_is_checked),
      cmocka_unit_test(layers_may_come_cleared),
      TEST_WITH_THREADS(a_filter_is_saved_while_it_is_in_use),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed + cmocka_run_group_tests(of_cuckoo, make_cuckoo, NULL);
}
