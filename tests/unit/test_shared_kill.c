/* SPDX-License-Identifier: MIT
 *
 * Processes that are killed while they call a filter that they share: at every instruction of an add,
 * around each change of an opening of a layer and of a refusal, and at every system call of an opening
 * and a creation, between which the file does not change.
 *
 * Children are killed as killed.h says.  The parent then checks with handles of its own, opened before
 * and after that:
 *
 *    - all keys that had been added are in, and the child's if it has been told so;
 *    - the child's key has at most one winner, of the child and those who add it after its death:
 *      exactly one if it was not in when the child died;
 *    - further keys are added, also into a further layer, and have one winner;
 *    - the file loads, and what is loaded is valid;
 *    - nobody waits: an alarm ends a test that does.
 */
#include "killed.h"

#include "base/saved.h"
#include "base/shared_file.h"

static tamis_options options;
static uint64_t key; /* of the child */

/* ---- the call ---- */

static int run_call(enum call call, tamis_filter *f)
{
  if (call == ADD)
    return tamis_add_hash(f, hash_of(key));
  if (call == ADD_UNIQUE)
    return tamis_add_unique_hash(f, hash_of(key));
  return tamis_open_shared(call == CREATE ? &options : NULL, shared_path, &f);
}

/* ---- what must hold after a death ---- */

static uint64_t keys_before; /* that have been added: their numbers begin at 0 */
static bool may_be_full;

static bool is_in(const tamis_filter *f)
{
  return tamis_contains_hash(f, hash_of(key));
}

static void assert_has_all(const tamis_filter *f, bool childs)
{
  for (uint64_t i = 0; i < keys_before; i++)
    assert_true(tamis_contains_hash(f, hash_of(i)));
  assert_true(!childs || is_in(f));
  assert_valid(f);
}

static void check_key(enum call call, tamis_filter *a, tamis_filter *b)
{
  const bool in = is_in(a);
  int first = tamis_add_unique_hash(a, hash_of(key)),
      second = tamis_add_unique_hash(b, hash_of(key));
  int winners =
      (call == ADD_UNIQUE && told->result == TAMIS_OK) + (first == TAMIS_OK) + (second == TAMIS_OK);
  assert_true(winners <= 1);
  if (told->result == TAMIS_EFULL) /* final, unless it is a false positive by now */
    assert_true(first == TAMIS_EFULL || (in && first == TAMIS_PRESENT));
  if (first == TAMIS_EFULL)
    assert_int_equal(second, TAMIS_EFULL);
  else
    assert_true(first == (in ? TAMIS_PRESENT : TAMIS_OK) && second == TAMIS_PRESENT);
  assert_true(may_be_full || first != TAMIS_EFULL);
}

/* Of many keys each has one winner at most, and nearly all have one. */
static void check_further(tamis_filter *a, tamis_filter *b, uint64_t n)
{
  uint64_t winners = 0;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t hash = hash_of(1000000 + i);
    int first = tamis_add_unique_hash(i % 2 ? a : b, hash);
    int second = tamis_add_unique_hash(i % 2 ? b : a, hash);
    assert_true(first == TAMIS_EFULL ? second == TAMIS_EFULL : second == TAMIS_PRESENT);
    winners += first == TAMIS_OK;
  }
  if (!may_be_full)
    assert_in_range(winners, n - 1 - n / 50, n);
}

static void check_load(bool childs)
{
  tamis_filter *f = NULL;
  assert_int_equal(tamis_load_file(NULL, shared_path, &f), TAMIS_OK);
  assert_has_all(f, childs);
  tamis_destroy(f);
}

static void check(enum call call, tamis_filter *a, uint64_t further)
{
  const bool childs = (call == ADD || call == ADD_UNIQUE) &&
                      (told->result == TAMIS_OK || told->result == TAMIS_PRESENT);
  check_load(childs);
  tamis_filter *b = open_shared(NULL);
  assert_has_all(a ? a : b, childs);
  check_key(call, a ? a : b, b);
  check_further(a ? a : b, b, further);
  assert_has_all(b, childs);
  tamis_destroy(b);
}

/* ---- the situations ---- */

enum { FAR = 5000 }; /* so many keys that an add does not sum the counters up */

static void begin(tamis_layout layout, bool growable, uint64_t capacity)
{
  alarm(600);
  unlink(shared_path);
  options = shared_options(layout, growable);
  options.capacity = capacity;
  options.max_bytes = growable ? 60000 : 0;
  options.seed = 12345;
  may_be_full = false;
}

/* Adds keys until the next one would do something that the figures show. */
static void add_until(bool (*done)(const tamis_stats *), uint64_t most)
{
  tamis_filter *f = open_shared(&options);
  remember_file();
  for (keys_before = 0; keys_before < most; keys_before++) {
    (void) tamis_add_unique_hash(f, hash_of(keys_before));
    tamis_stats s = stats_of(f);
    if (done && done(&s))
      break;
    remember_file();
  }
  key = keys_before;
  assert_true(!done || keys_before < most);
  tamis_destroy(f);
}

static bool has_grown(const tamis_stats *s)
{
  return s->layers > 1;
}

static bool has_refused(const tamis_stats *s)
{
  return s->refused_adds > 0;
}

static void an_add(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_BLOCKED, false, FAR);
  add_until(NULL, 20);
  kill_everywhere(ADD, 50);
}

static void a_unique_add(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_BLOCKED, false, FAR);
  add_until(NULL, 20);
  kill_everywhere(ADD_UNIQUE, 50);
}

static void a_unique_add_to_words(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_WORD, false, FAR);
  add_until(NULL, 20);
  kill_everywhere(ADD_UNIQUE, 50);
}

static void a_unique_add_that_may_grow(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_CLASSIC, true, FAR);
  add_until(NULL, 20);
  kill_everywhere(ADD_UNIQUE, 1000);
}

static void a_unique_add_to_a_second_layer(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_BLOCKED, true, 50);
  add_until(NULL, 80);
  kill_everywhere(ADD_UNIQUE, 200);
}

static void an_opening_of_a_layer(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_BLOCKED, true, 50);
  add_until(has_grown, 100);
  kill_everywhere(ADD_UNIQUE, 200);
}

static void the_first_refusal(void **state)
{
  (void) state;
  for (unsigned layout = 0; layout < 3; layout += 2) {
    begin((tamis_layout) layout, false, 50);
    add_until(has_refused, 100);
    may_be_full = true;
    kill_everywhere(ADD_UNIQUE, 50);
  }
}

/* ---- openings ---- */

static void kill_openers(void)
{
  pid_t child = start_child(OPEN, NULL);
  if (!child)
    skip();
  kill_child(child);
  unsigned stops = 0;
  for (bool lives = true; lives; stops++) {
    restore_file();
    lives = kill_opener(OPEN, NULL, stops, stops % 3);
    check(OPEN, NULL, stops % 8 ? 20 : 200);
  }
  print_message("%u stops at system calls\n", stops);
  assert_true(stops > 20);
}

static void an_opening(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_BLOCKED, true, 50);
  add_until(NULL, 80);
  kill_openers();
}

/* When the machine has been started since: then the file is changed under a lock. */
static void an_opening_that_counts_again(void **state)
{
  (void) state;
  begin(TAMIS_LAYOUT_BLOCKED, true, 50);
  add_until(NULL, 80);
  file.bytes[4096 + 16] ^= 2; /* the boot, in the first tally */
  kill_openers();
  kill_everywhere(OPEN, 200);
}

/* ---- creations ---- */

static void check_creation(bool empty)
{
  tamis_filter *a = NULL, *f = NULL;
  struct stat status;
  bool named = stat(shared_path, &status) == 0;
  int result = tamis_load_file(NULL, shared_path, &f);
  if (result == TAMIS_OK)
    assert_valid(f);
  else
    assert_int_equal(result, named && empty ? TAMIS_ECORRUPT : TAMIS_EIO);
  tamis_destroy(f);
  result = tamis_open_shared(NULL, shared_path, &f); /* whole, or not there */
  assert_true(result == TAMIS_OK || (result == TAMIS_EIO && errno == ENOENT));
  a = open_shared(&options);
  if (f)
    assert_int_equal(stats_of(a).bits_set, 0);
  tamis_destroy(f);
  f = open_shared(NULL);
  keys_before = 0;
  told->result = NOTHING_YET;
  check_key(CREATE, a, f);
  check_further(a, f, 20);
  check_load(true);
  tamis_destroy(a);
  tamis_destroy(f);
  assert_in_range(count_files(false), 1, 2);
  assert_int_equal(unlink(shared_path), 0); /* the next creator removes what was left */
  tamis_destroy(open_shared(&options));
  assert_int_equal(count_files(false), 1);
}

static void make_empty(bool empty)
{
  unlink(shared_path);
  if (empty)
    close(open(shared_path, O_WRONLY | O_CREAT | O_EXCL, 0600));
}

static void kill_creators(bool empty)
{
  begin(TAMIS_LAYOUT_BLOCKED, true, 50);
  make_empty(empty);
  pid_t child = start_child(CREATE, NULL);
  if (!child)
    skip();
  kill_child(child);
  unsigned stops = 0;
  for (bool lives = true; lives; stops++) {
    make_empty(empty);
    lives = kill_opener(CREATE, NULL, stops, stops % 3);
    check_creation(empty);
  }
  print_message("%u stops at system calls\n", stops);
  assert_true(stops > 20);
}

static void a_creation(void **state)
{
  (void) state;
  kill_creators(false);
}

static void a_creation_in_place(void **state)
{
  (void) state;
  kill_creators(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(an_add),
      TEST(a_unique_add),
      TEST(a_unique_add_to_words),
      TEST(a_unique_add_that_may_grow),
      TEST(a_unique_add_to_a_second_layer),
      TEST(an_opening_of_a_layer),
      TEST(the_first_refusal),
      TEST(an_opening),
      TEST(an_opening_that_counts_again),
      TEST(a_creation),
      TEST(a_creation_in_place),
  };
  in_memory = true;
  return cmocka_run_group_tests_name("shared_kill", tests, NULL, NULL);
}
