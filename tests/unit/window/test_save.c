/* SPDX-License-Identifier: MIT
 *
 * What is peculiar to saved windows; test_saved.c has what holds for all kinds.
 */
#include "harness.h"
#include "saved_unit.h"

#include "table/image.h"
#include "window/save.h"

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
  tamis_options options = seeded_options(kind, sort->capacity, sort->fpp, sort->growable);
  options.window = sort->window;
  options.window_renews = sort->window % 2;
  return options;
}

/* Keys are added over `periods` periods, the last of which runs still. */
static tamis_filter *create(const struct sort *sort, unsigned periods)
{
  const tamis_options options = options_of(sort);
  tamis_filter *f = make_with_options(&options);
  for (unsigned now = 0; now < periods; now++) {
    advance(f, now > 0);
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
    advance(s->filter, 1);
  add_range(s->filter, s->next, s->next + 5000);
  s->next += 5000;
  return write_bytes(&s->bytes, data, size);
}

/* Several segments are copied in different periods.  What is not touched meanwhile is in the loaded
 * filter for exactly as long as in the saved one. */
TEST(periods_end_during_a_save)
{
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
      advance(f, 1), advance(g, 1);
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
TEST(a_figure_stays_within_its_range)
{
  const struct sort small = {2, 0.001, true, 40, 40};
  tamis_filter *f = create(&small, 1), *loaded;
  struct bytes saved = saved_bytes(f);
  saved_put64(saved.data + SAVED_GEOMETRY_AT + (size_t) SAVED_WINDOW_GROWTHS * 8, INT32_MAX);
  assert_true(repair(&saved, window_bytes(&const_window_of(f)->first.geometry)));
  assert_int_equal(load_any(source_of(&saved), 0, &loaded), TAMIS_OK);
  add_range(loaded, 100, 300);
  advance(loaded, 4);
  free(saved.data);
  saved = saved_bytes(loaded);
  assert_int_equal(load_any(source_of(&saved), 0, NULL), TAMIS_OK);
  free(saved.data);
  tamis_destroy(loaded);
  tamis_destroy(f);
}
