/* SPDX-License-Identifier: MIT
 *
 * A thread whose cancellation has been requested (deferred) goes through every call, waits there
 * for each lock of a filter, and must come back from the call with no lock held.
 */
#include "bloom/bloom.h"
#include "cuckoo_unit.h"
#include "window_counts.h"

#include <pthread.h>
#include <sched.h>

enum { CAPACITY = 3000, PRESENT = 1000, PAIR = 2 };

/* ---- the thread ---- */

/* Returns whether the calls answered as they should: only the main thread asserts. */
typedef bool operation(tamis_filter *f, uint64_t key);

struct task {
  operation *run;
  tamis_filter *f;
  uint64_t key;
  bool good;
  atomic_bool begun, came_back;
};

__attribute__((noinline)) static void call_when_cancelled(struct task *task)
{
  pthread_cancel(pthread_self());
  atomic_store(&task->begun, true);
  task->good = task->run(task->f, task->key);
  atomic_store(&task->came_back, true);
}

/* A function of its own: AddressSanitizer does not clean up the frames that a cancellation leaves.
 */
static void *call_and_end(void *task)
{
  call_when_cancelled(task);
  pthread_testcancel();
  return NULL;
}

static void start_task(struct task *task, pthread_t *thread)
{
  assert_int_equal(pthread_create(thread, NULL, call_and_end, task), 0);
}

static void end_task(struct task *task, pthread_t thread)
{
  void *result;
  pthread_join(thread, &result);
  assert_true(atomic_load(&task->came_back));
  assert_true(task->good);
  assert_ptr_equal(result, PTHREAD_CANCELED); /* but by the program's own cancellation point */
}

/* ---- waiting for a lock ---- */

static bool add(tamis_filter *f, uint64_t key)
{
  return tamis_add_hash(f, key) == TAMIS_OK;
}

static bool add_unique(tamis_filter *f, uint64_t key)
{
  return tamis_add_unique_hash(f, key) == TAMIS_OK;
}

static bool add_pair(tamis_filter *f, uint64_t key)
{
  uint64_t keys[PAIR] = {key, key + 1};
  return tamis_add_many_hash(f, keys, PAIR, NULL) == TAMIS_OK;
}

static bool add_unique_pair(tamis_filter *f, uint64_t key)
{
  uint64_t keys[PAIR] = {key, key + 1};
  return tamis_add_unique_many_hash(f, keys, PAIR, NULL) == TAMIS_OK;
}

static bool remove_key(tamis_filter *f, uint64_t key)
{
  return tamis_remove_hash(f, key) == TAMIS_OK;
}

static bool count(tamis_filter *f, uint64_t key)
{
  return tamis_count_hash(f, key) > 0;
}

/* A lock of either sort. */
struct lock {
  struct stripe *stripe;
  struct owned_lock *owned;
};

/* Runs a call while this thread holds a lock that it needs, for so long that it sleeps. */
static void wait_for(tamis_filter *f, operation *run, uint64_t key, struct lock lock)
{
  const struct owner *owner = lock.owned ? &window_of(f)->owner : NULL;
  struct task task = {.run = run, .f = f, .key = key};
  pthread_t thread;
  if (lock.stripe)
    stripe_lock(lock.stripe);
  else
    assert_false(owned_lock(lock.owned, owner));
  start_task(&task, &thread);
  while (!atomic_load(&task.begun))
    sched_yield();
  usleep(5000);
  assert_false(atomic_load(&task.came_back)); /* it has waited for this lock */
  if (lock.stripe)
    stripe_unlock(lock.stripe);
  else
    owned_unlock(lock.owned, owner);
  end_task(&task, thread);
  assert_false(lock.stripe ? stripe_held(lock.stripe) : owned_held(lock.owned));
}

static void wait_in(tamis_filter *f, operation *run, uint64_t key, struct stripe *stripe)
{
  wait_for(f, run, key, (struct lock){.stripe = stripe});
}

static void wait_in_owned(tamis_filter *f, operation *run, uint64_t key, struct owned_lock *lock)
{
  wait_for(f, run, key, (struct lock){.owned = lock});
}

/* The stripe of both buckets of a key, as a plain add takes that of only one; NULL: they differ. */
static struct stripe *stripe_of_key(tamis_filter *f, uint64_t key)
{
  struct generation *generation = cuckoo_generation(cuckoo_of(f), 0);
  struct bucket_pair pair = pair_find(generation, hash_mix(&f->keys, key));
  struct stripe *lower = stripe_of_bucket(&generation->geometry, pair.segment, pair.lower);
  struct stripe *upper = stripe_of_bucket(&generation->geometry, pair.segment, pair.upper);
  return lower == upper ? upper : NULL;
}

/* The first key from `key` on that has one, in steps of two. */
static uint64_t next_key(tamis_filter *f, uint64_t key)
{
  while (!stripe_of_key(f, key))
    key += PAIR;
  return key;
}

static void no_lock_of_a_bucket_pair_is_kept(void **state)
{
  (void) state;
  static operation *const calls[] = {add, add_unique, add_pair, add_unique_pair};
  for (int growable = 0; growable < 2; growable++) {
    tamis_options options = options_for(CAPACITY, 0.001);
    options.growable = growable;
    tamis_filter *f = make_with(&options);
    add_range(f, 0, PRESENT);
    uint64_t key = PRESENT;
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++, key += PAIR) {
      key = next_key(f, key);
      wait_in(f, calls[i], key, stripe_of_key(f, key));
      assert_true(tamis_contains_hash(f, key));
    }
    key = next_key(f, PRESENT);
    wait_in(f, remove_key, key, stripe_of_key(f, key));
    assert_valid(f); /* which finds locks that are held */
    tamis_destroy(f);
  }
}

static bool fill(tamis_filter *f, uint64_t key)
{
  uint64_t before = cuckoo_splits(cuckoo_of(f));
  while (cuckoo_splits(cuckoo_of(f)) == before)
    if (!add(f, key++))
      return false;
  return true;
}

static bool drain(tamis_filter *f, uint64_t key)
{
  uint64_t before = cuckoo_joins(cuckoo_of(f));
  while (cuckoo_joins(cuckoo_of(f)) == before)
    if (!remove_key(f, key++))
      return false;
  return true;
}

static void no_growth_stripe_is_kept(void **state)
{
  (void) state;
  tamis_filter *f = make(100, 0.001);
  assert_int_equal(cuckoo_roots(&cuckoo_generation(cuckoo_of(f), 0)->geometry), 1);
  struct stripe *growth = growth_stripe(cuckoo_generation(cuckoo_of(f), 0), 0);
  add_range(f, 0, 1);
  wait_in(f, fill, 1, growth);
  uint64_t keys = stats_of(f).count;
  wait_in(f, drain, 0, growth);
  assert_all_in(f, keys - 1, keys);
  assert_valid(f);
  tamis_destroy(f);
}

static bool open_a_layer(tamis_filter *f, uint64_t key)
{
  while (!stats_of(f).growths)
    if (!add(f, key++))
      return false;
  return true;
}

static void no_stripe_of_a_counting_filter_is_kept(void **state)
{
  (void) state;
  static operation *const calls[] = {add_unique, add_unique_pair};
  tamis_options options = options_for(CAPACITY, 1e-5);
  options.kind = TAMIS_COUNTING_BLOOM;
  options.stripes = 1;
  tamis_filter *f = make_with(&options);
  for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
    uint64_t key = i * PAIR;
    wait_in(f, calls[i], key, bloom_stripe(bloom_of(f), 0));
    assert_true(tamis_contains_hash(f, key));
  }
  tamis_destroy(f);
}

static bool advance(tamis_filter *f, uint64_t key)
{
  (void) key;
  return tamis_advance(f) == TAMIS_OK;
}

/* Copies are added for which there is no memory yet, and taken out again. */
static void wait_for_counts(tamis_filter *f)
{
  uint64_t copies = tamis_count_hash(f, 0);
  wait_in(f, add, 0, window_counts_lock(f, 0));
  assert_int_equal(tamis_count_hash(f, 0), copies + 1);
  wait_in_owned(f, count, 0, &window_of(f)->stripes.all[0].lock);
  wait_in(f, count, 0, window_counts_lock(f, 0));
  for (; copies; copies--)
    if (copies % 2)
      wait_in_owned(f, remove_key, 0, &window_of(f)->stripes.all[0].lock);
    else
      wait_in(f, remove_key, 0, window_counts_lock(f, 0));
  assert_int_equal(tamis_count_hash(f, 0), 1);
}

static tamis_filter *make_window(tamis_kind kind, bool growable, uint64_t capacity)
{
  tamis_options options = options_for(capacity, 1e-5);
  options.kind = kind;
  options.growable = growable;
  options.window = 1;
  options.stripes = 1;
  return make_with(&options);
}

static void no_lock_of_a_window_is_kept(void **state)
{
  (void) state;
  static operation *const adds[] = {add, add_unique, add_pair, add_unique_pair};
  for (unsigned kind = 0; kind < 4; kind++) {
    const tamis_kind of = kind / 2 ? TAMIS_CUCKOO : TAMIS_BLOOM;
    tamis_filter *f = make_window(of, kind % 2, CAPACITY);
    for (unsigned i = 0; i < sizeof adds / sizeof *adds; i++) {
      wait_in_owned(f, adds[i], i * PAIR, &window_of(f)->stripes.all[0].lock);
      assert_true(tamis_contains_hash(f, i * PAIR));
    }
    if (kind / 2)
      wait_for_counts(f);
    wait_in_owned(f, advance, 0, &window_of(f)->stripes.all[0].lock);
    assert_true(tamis_contains_hash(f, 0));
    wait_in_owned(f, advance, 0, &window_of(f)->state->advancing);
    assert_false(tamis_contains_hash(f, 0));
    assert_valid(f);
    tamis_destroy(f);
    if (kind % 2 == 0)
      continue;
    f = make_window(of, true, 100); /* the call has to open the next layer */
    wait_in(f, open_a_layer, 0, &window_of(f)->opening);
    assert_int_equal(stats_of(f).growths, 1);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* ---- the user's allocator ---- */

struct account {
  atomic_long blocks;
};

static void *allocate(void *context, size_t alignment, size_t size)
{
  struct account *account = context;
  pthread_testcancel();
  void *block = aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
  atomic_fetch_add(&account->blocks, 1);
  return block;
}

static void release(void *context, void *block, size_t alignment, size_t size)
{
  struct account *account = context;
  (void) alignment, (void) size;
  pthread_testcancel();
  free(block);
  atomic_fetch_sub(&account->blocks, 1);
}

/* The whole life of filters of every form. */
static bool live(tamis_filter *unused, uint64_t keys)
{
  (void) unused;
  struct account account = {0};
  const tamis_allocator allocator = {allocate, release, &account};
  bool good = true;
  for (const struct form *form = NULL; good && (form = next_form(form));) {
    tamis_options options = form->options;
    tamis_filter *f;
    options.capacity = options.growable ? 100 : 2 * keys;
    options.allocator = &allocator;
    options.seed = 0; /* one from the system */
    good = tamis_create(&options, &f) == TAMIS_OK;
    for (uint64_t i = 0; i < keys + 100 && good; i++) /* copies of the first key */
      good = add(f, i < keys ? i : 0);
    for (uint64_t i = 0; i < keys + 100 && good && form->removes; i++)
      good = remove_key(f, i < 100 ? 0 : i - 100);
    for (unsigned i = 0; i < 2 && options.window; i++)
      good &= advance(f, 0);
    tamis_destroy(f);
  }
  return good && account.blocks == 0;
}

static void an_allocator_may_contain_cancellation_points(void **state)
{
  (void) state;
  struct task task = {.run = live, .key = 4000};
  pthread_t thread;
  start_task(&task, &thread);
  end_task(&task, thread);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_lock_of_a_bucket_pair_is_kept),
      cmocka_unit_test(no_growth_stripe_is_kept),
      cmocka_unit_test(no_stripe_of_a_counting_filter_is_kept),
      cmocka_unit_test(no_lock_of_a_window_is_kept),
      cmocka_unit_test(an_allocator_may_contain_cancellation_points),
  };
  return cmocka_run_group_tests_name("cancel", tests, NULL, NULL);
}
