/* SPDX-License-Identifier: MIT
 *
 * A thread whose cancellation has been requested (deferred) goes through every call, waits there
 * for each lock of a filter, and must come back from the call with no lock held.
 */
#include "cuckoo_unit.h"
#include "shared_unit.h"
#include "window/table.h"

/* ---- the thread ---- */

/* Returns whether the calls answered as they should: only the main thread asserts. */
typedef bool operation(tamis_filter *f, uint64_t key);

struct task {
  operation *run;
  tamis_filter *f;
  uint64_t key;
  bool good;
  atomic_int number; /* of the thread, in /proc; 0: it has not begun */
  atomic_bool came_back;
};

__attribute__((noinline)) static void call_when_cancelled(struct task *task)
{
  pthread_cancel(pthread_self());
  atomic_store(&task->number, gettid());
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

/* Whether a thread sleeps, or has ended. */
static bool sleeps(int number)
{
  char path[64], state = 'S';
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", number);
  FILE *file = fopen(path, "r");
  if (file) {
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
      state = 'S';
    fclose(file);
  }
  return state != 'R';
}

static bool add(tamis_filter *f, uint64_t key)
{
  return tamis_add_hash(f, key) == TAMIS_OK;
}

static bool add_unique(tamis_filter *f, uint64_t key)
{
  return tamis_add_unique_hash(f, key) == TAMIS_OK;
}

/* Whichever call waits, either sort of lock sleeps in one place: a stripe of a cuckoo filter here, and
 * that of a window. */
TEST(no_lock_is_kept_that_was_waited_for)
{
  for (unsigned window = 0; window < 2; window++) {
    tamis_options options = options_for(1000, 0.001);
    options.window = window;
    options.stripes = 1;
    tamis_filter *f = make_with_options(&options);
    const struct owner *owner = window ? &window_of(f)->owner : NULL;
    struct owned_lock *owned = window ? &window_of(f)->stripes.all[0].lock : NULL;
    struct bucket_pair pair = {0};
    if (!window)
      pair = pair_find(cuckoo_generation(cuckoo_of(f), 0), hash_mix(&f->keys, 1));
    struct stripe *stripe =
        window ? NULL : stripe_of_bucket(&pair.generation->geometry, pair.segment, pair.lower);
    struct task task = {.run = add_unique, .f = f, .key = 1};
    pthread_t thread;
    if (window)
      assert_false(owned_lock(owned, owner));
    else
      stripe_lock(stripe);
    start_task(&task, &thread);
    while (!atomic_load(&task.number) || !sleeps(atomic_load(&task.number)))
      sched_yield();
    assert_false(atomic_load(&task.came_back)); /* it has waited for this lock */
    if (window)
      owned_unlock(owned, owner);
    else
      stripe_unlock(stripe);
    end_task(&task, thread);
    assert_false(window ? owned_held(owned) : stripe_held(stripe));
    assert_true(tamis_contains_hash(f, 1));
    assert_valid(f); /* which finds locks that are held */
    tamis_destroy(f);
  }
}

/* ---- the user's allocator ---- */

struct account {
  atomic_long blocks;
  pthread_t caller;
  atomic_bool by_another; /* thread than the one that calls the filter */
};

static void *allocate(void *context, size_t alignment, size_t size)
{
  struct account *account = context;
  account->by_another |= !pthread_equal(account->caller, pthread_self());
  pthread_testcancel();
  void *block = aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
  atomic_fetch_add(&account->blocks, 1);
  return block;
}

static void release(void *context, void *block, size_t alignment, size_t size)
{
  struct account *account = context;
  (void) alignment, (void) size;
  account->by_another |= !pthread_equal(account->caller, pthread_self());
  pthread_testcancel();
  free(block);
  atomic_fetch_sub(&account->blocks, 1);
}

/* The whole life of filters of every form. */
static bool live(tamis_filter *unused, uint64_t keys)
{
  (void) unused;
  struct account account = {.caller = pthread_self()};
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
      good = tamis_remove_hash(f, i < 100 ? 0 : i - 100) == TAMIS_OK;
    for (unsigned i = 0; i < 2 && options.window; i++)
      good &= tamis_advance(f) == TAMIS_OK;
    tamis_destroy(f);
  }
  return good && account.blocks == 0 && !account.by_another;
}

/* Under a reader, so that much waits, and calls pause. */
TEST(an_allocator_may_contain_cancellation_points)
{
  struct task task = {.run = live, .key = 4000};
  pthread_t thread;
  reader_token reader = reader_enter();
  start_task(&task, &thread);
  end_task(&task, thread);
  reader_leave(reader);
}

/* ---- files, and texts ---- */

static bool save_and_open(tamis_filter *f, uint64_t key)
{
  tamis_filter *loaded = NULL, *mapped = NULL;
  bool good = add(f, key) && tamis_save_file(f, shared_path) == TAMIS_OK &&
              tamis_load_file(NULL, shared_path, &loaded) == TAMIS_OK &&
              tamis_map_file(NULL, shared_path, &mapped) == TAMIS_OK &&
              tamis_contains_hash(loaded, key) && tamis_contains_hash(mapped, key);
  tamis_destroy(loaded), tamis_destroy(mapped);
  return good;
}

/* The user's function may be a cancellation point. */
static int cancel_and_write(void *context, const void *data, size_t size)
{
  (void) data;
  pthread_testcancel();
  *(uint64_t *) context += size;
  return 0;
}

static bool write_texts(tamis_filter *f, uint64_t size)
{
  const tamis_filter *const filters[] = {f, f};
  const char *const names[] = {"a", "b"};
  return tamis_stats_text(f, TAMIS_JSON, "a", cancel_and_write, &size) == TAMIS_OK &&
         tamis_stats_text_many(filters, names, 2, TAMIS_PROMETHEUS, cancel_and_write, &size) ==
             TAMIS_OK &&
         size > 1000;
}

TEST_BETWEEN(no_file_and_no_text_is_a_cancellation_point, set_up, tear_down)
{
  static operation *const calls[] = {save_and_open, write_texts};
  for (unsigned i = 0; i < 2; i++) {
    struct task task = {.run = calls[i], .f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.01)};
    pthread_t thread;
    start_task(&task, &thread);
    end_task(&task, thread);
    tamis_destroy(task.f);
  }
}
