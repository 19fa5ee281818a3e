/* SPDX-License-Identifier: MIT
 *
 * What is peculiar to saved windows; test_saved.c has what holds for all kinds.
 */
#include "harness.h"
#include "saved_unit.h"

#include "table/image.h"
#include "window/save.h"

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
      cmocka_unit_test(a_figure_stays_within_its_range),
      cmocka_unit_test(layers_may_come_cleared),
      cmocka_unit_test(without_an_allocator_nothing_comes_cleared),
  };
  const struct CMUnitTest of_cuckoo[] = {
      cmocka_unit_test(layers_may_come_cleared),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  return failed + cmocka_run_group_tests(of_cuckoo, make_cuckoo, NULL);
}
