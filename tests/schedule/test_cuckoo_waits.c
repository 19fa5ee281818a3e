/* SPDX-License-Identifier: MIT
 *
 * A call of one filter waits in the user's allocator, and another one for a stripe that the first
 * one holds.  Another filter grows and shrinks meanwhile, and gets its memory back.
 */
#include "cuckoo_schedule.h"

#include "cuckoo/segment.h"

/* ---- an allocator that waits ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool armed, waiting;

static void wait_if_armed(void)
{
  pthread_mutex_lock(&mutex);
  if (armed && !waiting) { /* the first one */
    waiting = true;
    pthread_cond_broadcast(&changed);
    while (armed)
      pthread_cond_wait(&changed, &mutex);
  }
  pthread_mutex_unlock(&mutex);
}

static void arm(bool on)
{
  pthread_mutex_lock(&mutex);
  armed = on;
  waiting &= on;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

static void wait_until_it_waits(void)
{
  pthread_mutex_lock(&mutex);
  while (!waiting)
    pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

static void *allocate(void *context, size_t alignment, size_t size)
{
  (void) context;
  wait_if_armed();
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void release(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) alignment, (void) size;
  wait_if_armed();
  free(block);
}

static const tamis_allocator allocator_that_waits = {allocate, release, NULL};

/* ---- filters ---- */

enum { KEY = 7, TURNS = 10, TURN_KEYS = 5000 };

static tamis_filter *make(bool waits)
{
  tamis_options options = seeded_options(TAMIS_CUCKOO, 200, 0.01, true);
  options.allocator = waits ? &allocator_that_waits : NULL;
  return make_with_options(&options);
}

static unsigned lanes_of_a_key(tamis_filter *f)
{
  return max_lanes_per_key(&cuckoo_generation(cuckoo_of(f), 0)->geometry);
}

static void add_copies(tamis_filter *f, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    assert_int_equal(tamis_add_hash(f, KEY), TAMIS_OK);
}

static void grow_and_shrink(tamis_filter *f)
{
  for (uint64_t turn = 0; turn < TURNS; turn++) {
    add_range(f, 0, TURN_KEYS);
    remove_range(f, 0, TURN_KEYS);
  }
}

/* Whether all that has been retired is released by and by. */
static bool memory_comes_back(tamis_filter *f)
{
  const _Atomic uint64_t *held = &cuckoo_growth(cuckoo_of(f))->backlog.held;
  AWAIT(atomic_load(held) == 0, stats_of(f)); /* which releases what has waited */
  return atomic_load(held) == 0;
}

/* Two calls of the same key: the first one waits in the allocator, the second one for the first. */
static void expect_no_effect_on_others(tamis_filter *f, int (*function)(tamis_filter *, uint64_t))
{
  tamis_filter *other = make(false);
  struct call calls[2];
  schedule_stop_at("no point");
  arm(true);
  for (unsigned i = 0; i < 2; i++)
    calls[i] = (struct call){.filter = f, .hash = KEY, .function = function};
  start(&calls[0]);
  wait_until_it_waits();
  start(&calls[1]);
  schedule_wait("stripe_wait", 1);
  grow_and_shrink(other);
  bool comes_back = memory_comes_back(other);
  arm(false);
  for (unsigned i = 0; i < 2; i++)
    assert_int_equal(finish(&calls[i]), TAMIS_OK);
  assert_true(comes_back);
  tamis_destroy(other);
}

/* The copy that comes after those that have lanes is the first one that is counted. */
TEST(memory_for_a_count_is_waited_for)
{
  schedule_pass_by();
  tamis_filter *f = make(true);
  add_copies(f, lanes_of_a_key(f));
  expect_no_effect_on_others(f, tamis_add_hash);
  tamis_destroy(f);
}

TEST(the_release_of_a_count_is_waited_for)
{
  schedule_pass_by();
  tamis_filter *f = make(true);
  add_copies(f, lanes_of_a_key(f) + 1);
  expect_no_effect_on_others(f, tamis_remove_hash);
  tamis_destroy(f);
}

/* ---- a segment leaves while a call waits for one of its stripes ---- */

/* Until a grace period is over that has begun after this call. */
static void wait_for_grace_periods(void)
{
  tamis_filter *other = make(false);
  grow_and_shrink(other);
  assert_true(memory_comes_back(other));
  tamis_destroy(other);
}

TEST(a_segment_that_is_waited_for_is_not_released)
{
  schedule_pass_by();
  struct tiny t = make_tiny(64 / LANES);
  const _Atomic uint64_t *held;
  uint64_t waits = hash_at(&t, LOWER, OTHER_UPPER);
  add_at(&t, HOME, UPPER, 2 * LANES); /* the next one splits the segment */
  struct call splits = call_of(&t, tamis_add_hash, hash_at(&t, HOME, UPPER));
  struct call late = call_of(&t, tamis_add_unique_hash, waits);
  start_and_stop(&splits, "cuckoo_split_copied");
  start(&late);
  schedule_wait("stripe_wait", 1);
  schedule_stop_at("cuckoo_waited"); /* so the split goes on */
  assert_int_equal(finish(&splits), TAMIS_OK);
  schedule_wait("cuckoo_waited", 1);
  held = &cuckoo_growth(cuckoo_of(t.filter))->backlog.held;
  wait_for_grace_periods();
  for (unsigned i = 0; i < 3; i++) {
    stats_of(t.filter);
    assert_true(atomic_load(held) > 0);
  }
  schedule_go();
  assert_int_equal(finish(&late), TAMIS_OK);
  assert_true(memory_comes_back(t.filter));
  expect_in(&t, splits.hash);
  expect_in(&t, waits);
  finish_tiny(&t);
}
