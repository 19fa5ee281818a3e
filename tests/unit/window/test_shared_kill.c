/* SPDX-License-Identifier: MIT
 *
 * Processes that are killed while they call a window that they share, with its locks: at every
 * instruction of adds, of one that moves entries and of one that renews its key, and of the end of a
 * period; and at system calls of an opening, a creation and a checkpoint, too.  Children are killed as
 * killed.h says.  The parent then checks with handles of its own, opened before and after that:
 *
 *    - all keys that are remembered are in, and the child's if it has been told so;
 *    - the child's key has one winner, of the child and those who add it after its death;
 *    - what a process has left that was killed is mended by the first call that comes to it;
 *    - keys are remembered for as long as they should be, in all later periods;
 *    - the file loads, and what is loaded is valid;
 *    - nobody waits: an alarm ends a test that does.
 */
#include "killed.h"

#include "base/saved.h"
#include "window/sweep.h"

enum { PERIODS = 2 };

static tamis_options options;
static uint64_t key; /* of the child */

/* The last period in which each key was added; those of the child's keys begin behind these. */
enum { MOST_KEYS = 4000 };
static uint64_t added_in[MOST_KEYS];
static uint64_t keys; /* so many */
static bool may_be_full;

/* The period to which the child advances.  What that forgets of so many keys may be gone before. */
static uint64_t coming, keys_before;

static int run_call(enum call call, tamis_filter *f)
{
  switch (call) {
  case ADD:
    return tamis_add_hash(f, hash_of(key));
  case ADD_UNIQUE:
    return tamis_add_unique_hash(f, hash_of(key));
  case ADVANCE:
    return tamis_advance(f);
  case JUMP:
    return tamis_advance_to(f, coming);
  case SYNC:
    return tamis_sync(f);
  default:
    return tamis_open_shared(call == CREATE ? &options : NULL, shared_path, &f);
  }
}

/* ---- what must hold ---- */

static uint64_t period_of(const tamis_filter *f)
{
  return stats_of(f).period;
}

/* Takes each lock once, so that what is broken is mended. */
static void assert_whole(tamis_filter *f)
{
  struct window *w = window_of(f);
  assert_int_equal(window_join(w), TAMIS_OK);
  tamis__window_lock_advancing(w);
  for (uint64_t i = 0; i <= w->stripes.mask; i++) {
    window_lock(w, &w->stripes.all[i]);
    window_unlock(w, &w->stripes.all[i]);
  }
  owned_unlock(&w->state->advancing, &w->owner);
  assert_valid(f);
}

static void assert_remembers(const tamis_filter *f)
{
  const uint64_t now = period_of(f);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < keys; i++) {
    const bool in = tamis_contains_hash(f, hash_of(i));
    const uint64_t last = added_in[i] + PERIODS;
    if (now > last)
      wrong += in;
    else if (i >= keys_before || coming <= last)
      assert_true(in);
  }
  assert_true(wrong <= 2 + keys / 50);
}

static void check_load(void)
{
  tamis_filter *f = NULL;
  assert_int_equal(tamis_load_file(NULL, shared_path, &f), TAMIS_OK);
  assert_remembers(f);
  assert_valid(f);
  tamis_destroy(f);
}

static void check_key(enum call call, tamis_filter *a, tamis_filter *b)
{
  const bool in = tamis_contains_hash(a, hash_of(key));
  assert_true(in || !told->ended || (call != ADD && call != ADD_UNIQUE) || told->result < 0);
  int first = tamis_add_unique_hash(a, hash_of(key)),
      second = tamis_add_unique_hash(b, hash_of(key));
  int winners =
      (call == ADD_UNIQUE && told->result == TAMIS_OK) + (first == TAMIS_OK) + (second == TAMIS_OK);
  assert_true(winners <= 1);
  assert_true(first == (in ? TAMIS_PRESENT : TAMIS_OK) || (may_be_full && first == TAMIS_EFULL));
  assert_true(second == (first == TAMIS_EFULL ? TAMIS_EFULL : TAMIS_PRESENT));
}

/* Periods end by one handle, or the other. */
static void check_periods(tamis_filter *a, tamis_filter *b, uint64_t n, unsigned periods)
{
  const uint64_t before = keys;
  static uint64_t was[MOST_KEYS];
  memcpy(was, added_in, sizeof was);
  for (unsigned period = 0; period < periods; period++) {
    for (uint64_t i = 0; i < n && keys < MOST_KEYS; i++) {
      int result = tamis_add_unique_hash(i % 2 ? a : b, hash_of(keys));
      added_in[keys] = period_of(a);
      assert_true(result == TAMIS_OK || result == TAMIS_PRESENT ||
                  (may_be_full && result == TAMIS_EFULL));
      keys += result != TAMIS_EFULL;
    }
    const uint64_t now = period_of(a);
    assert_int_equal(tamis_advance_to(period % 2 ? a : b, now + 1), TAMIS_OK);
    assert_int_equal(tamis_advance_to(period % 2 ? b : a, now + 1), TAMIS_OK);
    assert_int_equal(period_of(a), now + 1);
    assert_remembers(period % 2 ? b : a);
  }
  assert_valid(a);
  keys = before;
  memcpy(added_in, was, sizeof was);
}

/* The child's call may have renewed its key. */
static void check(enum call call, tamis_filter *a, uint64_t further)
{
  tamis_filter *b = open_shared(NULL), *first = a ? a : b;
  assert_remembers(first);
  check_load();
  check_key(call, first, b);
  check_periods(first, b, 5, further > 20 ? 10 : 1);
  assert_whole(b);
  tamis_destroy(b);
}

/* ---- adds ---- */

static void begin(uint64_t capacity)
{
  alarm(600);
  unlink(shared_path);
  options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  options.window = PERIODS;
  options.capacity = capacity;
  options.fpp = 0.01;
  options.seed = 12345;
  options.stripes = 4;
  may_be_full = false;
  keys = keys_before = coming = 0;
}

static void add_keys(tamis_filter *f, uint64_t n)
{
  for (; n; n--, keys++) {
    assert_int_equal(tamis_add_hash(f, hash_of(keys)), TAMIS_OK);
    added_in[keys] = period_of(f);
  }
  key = keys;
}

/* Of four periods, the last two and the running one are remembered. */
static tamis_filter *fill(uint64_t capacity, uint64_t in_each)
{
  begin(capacity);
  tamis_filter *f = open_shared(&options);
  for (unsigned period = 0; period < 4; period++) {
    if (period)
      assert_int_equal(tamis_advance(f), TAMIS_OK);
    add_keys(f, in_each);
  }
  return f;
}

static void an_add(void **state)
{
  (void) state;
  tamis_destroy(fill(1000, 20));
  remember_file();
  kill_everywhere(ADD, 21);
}

static void a_unique_add(void **state)
{
  (void) state;
  tamis_destroy(fill(1000, 20));
  remember_file();
  kill_everywhere(ADD_UNIQUE, 21);
}

/* A key of the period before. */
static void an_add_that_renews(void **state)
{
  (void) state;
  tamis_destroy(fill(1000, 20));
  key = 45;
  remember_file();
  kill_everywhere(ADD, 21);
}

/* The first key for which entries are moved. */
static void an_add_that_moves(void **state)
{
  (void) state;
  tamis_filter *f = fill(120, 10);
  do {
    remember_file();
    add_keys(f, 1);
  } while (stats_of(f).evictions == 0);
  key = --keys;
  may_be_full = true;
  tamis_destroy(f);
  kill_everywhere(ADD_UNIQUE, 21);
}

/* A save is copying, and is killed; then entries move. */
static void the_end_of_a_period(void **state)
{
  (void) state;
  tamis_destroy(fill(120, 20));
  remember_file();
  kill_everywhere(ADVANCE, 21);
}

/* Of several periods, and of more than are remembered. */
static void many_periods_that_end(void **state)
{
  (void) state;
  for (uint64_t n = 2; n <= 2 * PERIODS; n += 2) {
    tamis_destroy(fill(120, 20));
    remember_file();
    coming = 3 + n;
    keys_before = keys;
    kill_everywhere(JUMP, 21);
  }
}

/* ---- system calls ---- */

static void kill_at_system_calls(enum call call)
{
  unsigned stops = 0;
  for (bool lives = true; lives; stops++) {
    restore_file();
    tamis_filter *a = call == OPEN ? NULL : open_shared(NULL);
    lives = kill_opener(call, a, stops, stops % 3);
    check(call, a, stops % 8 ? 20 : 21);
    tamis_destroy(a);
  }
  print_message("%u stops at system calls\n", stops);
  assert_true(stops > 20);
}

static void an_opening(void **state)
{
  (void) state;
  tamis_destroy(fill(120, 20));
  remember_file();
  kill_at_system_calls(OPEN);
}

/* After a start of the machine; with a checkpoint. */
static void an_opening_that_mends(void **state)
{
  (void) state;
  tamis_filter *f = fill(120, 20);
  assert_int_equal(tamis_sync(f), TAMIS_OK);
  const uint64_t boot = atomic_load(&window_of(f)->state->boot);
  tamis_destroy(f);
  remember_file();
  file.bytes[4096 + offsetof(struct window_state, boot)] ^= 2;
  assert_true(boot != saved_get64(file.bytes + 4096 + offsetof(struct window_state, boot)));
  kill_at_system_calls(OPEN);
}

static void a_checkpoint(void **state)
{
  (void) state;
  tamis_filter *f = fill(120, 20);
  assert_int_equal(tamis_sync(f), TAMIS_OK);
  tamis_destroy(f);
  remember_file();
  kill_at_system_calls(SYNC);
}

static void a_creation(void **state)
{
  (void) state;
  for (unsigned empty = 0; empty < 2; empty++) {
    unsigned stops = 0;
    begin(120);
    key = 7;
    for (bool lives = true; lives; stops++) {
      unlink(shared_path);
      if (empty)
        close(open(shared_path, O_WRONLY | O_CREAT | O_EXCL, 0600));
      lives = kill_opener(CREATE, NULL, stops, stops % 3);
      tamis_destroy(open_shared(&options));
      check(CREATE, NULL, 20);
    }
    print_message("%u stops at system calls\n", stops);
    assert_true(stops > 20);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(an_add),
      TEST(a_unique_add),
      TEST(an_add_that_renews),
      TEST(an_add_that_moves),
      TEST(the_end_of_a_period),
      TEST(many_periods_that_end),
      TEST(an_opening),
      TEST(an_opening_that_mends),
      TEST(a_checkpoint),
      TEST(a_creation),
  };
  in_memory = true;
  return cmocka_run_group_tests_name("shared_window_kill", tests, NULL, NULL);
}
