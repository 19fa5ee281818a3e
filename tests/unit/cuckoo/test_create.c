/* SPDX-License-Identifier: MIT
 *
 * What a filter consists of before it grows, and what comes with its first growth.
 */
#include "cuckoo_unit.h"

#include "cuckoo/cuckoo.h"
#include "cuckoo/segment.h"

#include <malloc.h>

/* ---- small filters ---- */

static tamis_options small_options(bool growable, unsigned stripes)
{
  tamis_options options = options_for(100, 0.01);
  options.growable = growable;
  options.stripes = stripes;
  return options;
}

/* What a filter takes that a server keeps for each of its users: by its own account, by that of its
 * allocator, and by that of malloc(), whose own share is among it. */
TEST(a_small_filter_takes_little)
{
  uint64_t of_stripes[2];
  for (unsigned i = 0; i < 8; i++) {
    bool growable = i % 2, own_allocator = i / 4;
    struct bank bank = {0};
    tamis_options options = small_options(growable, i / 2 % 2);
    options.allocator = own_allocator ? allocator_of(&bank) : NULL;
    const uint64_t most = growable ? 640 : 672;
    const uint64_t bytes = planned_bytes(&options);
    tamis_filter *f = make_with_options(&options);
    assert_int_equal(stats_of(f).bytes, bytes);
    assert_true(bytes <= most);
    assert_true(cuckoo_of(f)->has_home);
    if (own_allocator) {
      assert_int_equal(bank.bytes, bytes);
      assert_int_equal(bank.blocks, 1);
    }
#if defined(__GLIBC__) && !defined(TAMIS_SANITIZED)
    else
      assert_true(malloc_usable_size(cuckoo_home(cuckoo_of(f))) + sizeof(size_t) <= most);
#endif
    add_range(f, 0, 100);
    assert_int_equal(stats_of(f).bytes, bytes);
    assert_int_equal(stats_of(f).count, 100);
    assert_valid(f);
    tamis_destroy(f);
    assert_int_equal(bank.bytes, 0);
    if (growable)
      of_stripes[i / 2 % 2] = bytes;
  }
  assert_true(of_stripes[1] < of_stripes[0]);
}

/* ---- the first growth ---- */

static bool home_is_used(const struct cuckoo *c)
{
  struct segment_cursor cursor = {0};
  const struct segment *segment;
  while ((segment = segment_next(&c->first, &cursor)))
    if (segment == cuckoo_home(c))
      return true;
  return false;
}

/* The first segment leaves the home when it splits, and no other one gets it.  When the keys have
 * gone, the filter takes a segment more than at first, at most. */
TEST(the_home_has_one_segment)
{
  tamis_options options = small_options(true, 0);
  tamis_filter *f = make_with_options(&options);
  struct cuckoo *c = cuckoo_of(f);
  const uint64_t most =
      stats_of(f).bytes + sizeof(struct cuckoo_growth) + cuckoo_segment_bytes(&c->first.geometry);
  int result;
  struct segment *second = tamis__segment_create(c, &c->first, 0, 1, &result);
  assert_true(second && second != cuckoo_home(c));
  tamis__segment_destroy(c, &c->first.geometry, second);
  for (unsigned round = 0; round < 3; round++) {
    for (uint64_t key = 0; key < 2000; key += 100) {
      add_range(f, key, key + 100);
      assert_int_equal(home_is_used(c), stats_of(f).growths == 0);
    }
    assert_true(stats_of(f).segments > 8);
    assert_all_in(f, 0, 2000);
    assert_valid(f);
    remove_range(f, 0, 2000);
    assert_int_equal(stats_of(f).segments, 1);
    AWAIT(stats_of(f).bytes <= most);
    assert_true(stats_of(f).bytes <= most);
  }
  tamis_destroy(f);
}

struct watch {
  tamis_filter *f;
  uint64_t growths;
};

static void *watch_growths(void *argument)
{
  struct watch *watch = argument;
  while (!watch->growths)
    watch->growths = stats_of(watch->f).growths;
  return NULL;
}

/* What comes with the first growth is whole for a thread that learns of it from nowhere else. */
TEST_WITH_THREADS(the_first_growth_is_seen_by_others)
{
  for (unsigned round = 0; round < 50; round++) {
    tamis_options options = small_options(true, 0);
    struct watch watch = {.f = make_with_options(&options)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, watch_growths, &watch), 0);
    add_range(watch.f, 0, 200);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(watch.growths > 0);
    tamis_destroy(watch.f);
  }
}
