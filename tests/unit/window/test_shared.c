/* SPDX-License-Identifier: MIT
 *
 * A window that processes share, as its calls see it: two handles of one file in one process are two
 * processes to each other.  (unit/test_shared_kill.c has what killed processes leave, and
 * schedule/test_window_locks.c has races for locks.)
 */
#define IN_MEMORY true
#include "saved_unit.h"
#include "shared_window_unit.h"

#include "base/saved.h"
#include "window/evict.h"
#include "window/save.h"

#include <signal.h>
#include <sys/resource.h>

static tamis_options window_options(unsigned periods, uint64_t capacity)
{
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  options.window = periods;
  options.capacity = capacity;
  options.fpp = 1e-5;
  return options;
}

static tamis_filter *open_window(unsigned periods, uint64_t capacity)
{
  const tamis_options options = window_options(periods, capacity);
  return open_shared(&options);
}

static uint64_t count_in(const tamis_filter *f, uint64_t from, uint64_t n)
{
  uint64_t in = 0;
  for (uint64_t key = from; key < from + n; key++)
    in += tamis_contains_hash(f, hash_of(key));
  return in;
}

/* ---- a start of the machine ---- */

TEST_BETWEEN(what_was_synced_is_there_again, set_up_with_alarm, tear_down)
{
  enum { KEYS = 300 };
  tamis_options options = window_options(3, 3000);
  for (unsigned lost = 0; lost < 2; lost++) {
    unlink(shared_path);
    tamis_filter *f = open_shared(&options);
    for (unsigned period = 0; period < 4; period++) {
      add_hashes(f, (uint64_t) period * KEYS, KEYS);
      if (period == 1) /* the first of two, so both places are used */
        assert_int_equal(tamis_sync(f), TAMIS_OK);
      if (period == 2)
        assert_int_equal(tamis_sync(f), TAMIS_OK);
      assert_int_equal(tamis_advance(f), TAMIS_OK);
    }
    start_machine(f, lost);
    tamis_destroy(f);
    f = open_shared(NULL);
    assert_int_equal(stats_of(f).period, 4);
    for (unsigned later = 0; later < 4; later++) {
      for (unsigned period = 0; period < 4; period++) {
        const uint64_t in = count_in(f, (uint64_t) period * KEYS, KEYS);
        const bool there = period < 3 || !lost;
        assert_true(there && period + 3 >= 4 + later ? in == KEYS : in < 3);
      }
      assert_valid(f);
      assert_int_equal(tamis_advance(f), TAMIS_OK);
    }
    assert_int_equal(stats_of(f).count, 0);
    tamis_destroy(f);
  }
}

/* Locks that nobody has any more, from before the start. */
static void leave_locks(struct window *w)
{
  for (uint64_t i = 0; i <= w->stripes.mask; i++)
    (void) owned_lock(&w->stripes.all[i].lock, &w->owner);
  (void) owned_lock(&w->state->advancing, &w->owner);
  (void) owned_lock(&w->state->saving, &w->owner);
  (void) owned_lock(&w->state->syncing, &w->owner);
}

/* Keys that were added before the sync, and after it; `lost`: those before it are in the checkpoint alone.  A
 * damaged checkpoint is left out, and locks keep nobody waiting. */
TEST_BETWEEN(keys_outlive_a_start, set_up_with_alarm, tear_down)
{
  enum { CAPACITY = 2000, NONE = -1, UNTIL_FULL = 1 << 20 };
  static const struct start {
    uint64_t before, after, known; /* keys */
    bool lost, locks;
    int damage;
  } starts[] = {
      {CAPACITY, CAPACITY, CAPACITY, true, false, NONE}, /* there is no room for both */
      {CAPACITY / 2, UNTIL_FULL, UNTIL_FULL, false, false, NONE},
      {CAPACITY / 2, 0, CAPACITY / 2, false, true, NONE},
      {CAPACITY / 2, 0, CAPACITY / 2, false, false, 0},
      {CAPACITY / 2, 0, CAPACITY / 2, false, false, 40},
      {CAPACITY / 2, 0, CAPACITY / 2, false, false, 600},
      {CAPACITY / 2, 0, CAPACITY / 2, false, false, 5000},
      {CAPACITY / 2, 0, CAPACITY / 2, false, false, 9000},
  };
  for (const struct start *s = starts; s < starts + sizeof starts / sizeof *starts; s++) {
    unlink(shared_path);
    tamis_filter *f = open_window(8, CAPACITY);
    struct window *w = window_of(f);
    uint64_t keys = s->before;
    add_hashes(f, 0, keys);
    assert_int_equal(tamis_sync(f), TAMIS_OK);
    start_machine(f, s->lost);
    for (uint64_t i = 0; s->lost && i <= w->stripes.mask; i++)
      atomic_store(&w->stripes.all[i].lanes, 0);
    while (keys < s->before + s->after && tamis_add_hash(f, hash_of(keys)) == TAMIS_OK)
      keys++;
    assert_true(keys > CAPACITY || s->after == 0);
    if (s->damage != NONE) /* of a number of the last checkpoint */
      write_file(checkpoints_of(f) + (size_t) s->damage, &(uint64_t){0xbad}, sizeof(uint64_t));
    if (s->locks)
      leave_locks(w);
    tamis_destroy(f);
    f = open_shared(NULL);
    const uint64_t known = s->known < keys ? s->known : keys;
    assert_int_equal(count_in(f, 0, known), known);
    assert_valid(f);
    assert_int_equal(tamis_sync(f), TAMIS_OK); /* another one is written */
    assert_int_equal(tamis_advance(f), TAMIS_OK);
    assert_valid(f);
    tamis_destroy(f);
  }
}

/* A process that sees another number of the start, as in a container, comes to a file that is in
 * use. */
TEST_BETWEEN(a_file_in_use_is_not_mended, set_up_with_alarm, tear_down)
{
  enum { MARK = 12345 };
  tamis_filter *f = open_window(2, 2000);
  _Atomic uint64_t *lanes = &window_of(f)->stripes.all[0].lanes;
  start_machine(f, false);
  atomic_fetch_add(lanes, MARK); /* who mends counts again */
  tamis_filter *other = open_shared(NULL);
  assert_true(atomic_load(lanes) >= MARK);
  tamis_destroy(other);
  tamis_destroy(f);
  f = open_shared(NULL);
  assert_int_equal(stats_of(f).count, 0);
  tamis_destroy(f);
}

/* ---- what others have written ---- */

/* Stamps of no period, and entries that are dead, in a window that is united with a private one. */
TEST_BETWEEN(impossible_stamps_are_not_united, set_up_with_alarm, tear_down)
{
  tamis_options options = window_options(3, 2000);
  options.seed = 7;
  tamis_filter *shared = open_shared(&options), *own;
  own = make_with_options(&options);
  add_hashes(own, 0, 500);
  add_hashes(shared, 1000, 100);
  const struct window *w = const_window_of(shared);
  const unsigned next = epoch_next_stamp(epoch_now(epoch_read(&w->state->epoch)), w->stamps),
                 stamps[] = {0, next, w->stamps + 1, w->stamps + 2};
  for (unsigned i = 0; i < 4; i++) {
    put_stamps(w, stamps[i]);
    assert_int_equal(tamis_merge(own, shared), TAMIS_OK);
    assert_in_range(count_in(own, 1000, 100), 0, 2);
  }
  for (uint64_t i = 0; i < window_words(&w->first.geometry); i++)
    word_store(&w->first.words[i], hash_of(i) & hash_of(~i));
  (void) tamis_merge(own, shared);
  assert_int_equal(count_in(own, 0, 500), 500);
  assert_valid(own);
  advance(own, 4);
  assert_int_equal(stats_of(own).count, 0);
  tamis_destroy(own);
  tamis_destroy(shared);
}

static int open_with_number(const unsigned char *original, unsigned at, uint64_t number)
{
  unsigned char header[SAVED_HEADER];
  tamis_filter *f;
  memcpy(header, original, sizeof header);
  saved_put64(header + at, number);
  saved_put64(header + SAVED_HEADER - 8, hash_sum(header, SAVED_HEADER - 8, 0));
  write_file(0, header, sizeof header);
  int result = tamis_open_shared(NULL, shared_path, &f);
  tamis_destroy(f);
  return result;
}

/* The offset in the header of the numbers of the only layer. */
enum { LAYER_AT = SAVED_GEOMETRY_AT + 8 * SAVED_WINDOW_OLDEST };

/* The file has as many words and stripes as the header says. */
TEST_BETWEEN(headers_that_contradict_the_file_are_damaged, set_up_with_alarm, tear_down)
{
  enum { STRIPES_AT = 88, HALF_AT = LAYER_AT + 8 * SAVED_LAYER_HALF };
  unsigned char header[SAVED_HEADER];
  tamis_options options = window_options(3, 2000);
  options.stripes = 4;
  tamis_destroy(open_shared(&options));
  read_file(0, header, sizeof header);
  assert_int_equal(saved_get64(header + STRIPES_AT), 4); /* and layout 0 */
  for (unsigned stripes = 0; stripes < 70; stripes++)    /* a few more fit into the same page */
    if (!stripes || stripes & (stripes - 1) || stripes == 64)
      assert_int_equal(open_with_number(header, STRIPES_AT, stripes), TAMIS_ECORRUPT);
  assert_int_equal(open_with_number(header, HALF_AT, 2 * saved_get64(header + HALF_AT)),
                   TAMIS_ECORRUPT);
  assert_int_equal(open_with_number(header, STRIPES_AT, 4), TAMIS_OK);
}

/* Opens a file whose table has room for twice the keys for which this version plans it. */
static void check_other_plan(tamis_options options)
{
  enum { CAPACITY_AT = 64, KEYS = 1000 };
  unsigned char header[SAVED_HEADER];
  options.capacity = 2 * KEYS;
  tamis_destroy(open_shared(&options));
  read_file(0, header, sizeof header);
  saved_put64(header + LAYER_AT + 8 * SAVED_LAYER_CAPACITY, KEYS);
  assert_int_equal(open_with_number(header, CAPACITY_AT, KEYS), TAMIS_OK);
  tamis_filter *f = open_shared(NULL);
  add_hashes(f, 0, KEYS);
  tamis_destroy(f);
  f = open_shared(NULL);
  assert_int_equal(count_in(f, 0, KEYS), KEYS);
  assert_int_equal(stats_of(f).capacity, KEYS);
  tamis_destroy(f);
}

TEST_BETWEEN(files_of_other_plans_are_opened, set_up_with_alarm, tear_down)
{
  check_other_plan(window_options(3, 1));
  count_files(true);
  check_other_plan(shared_cuckoo_options(1));
}

/* ---- processes ---- */

static _Thread_local unsigned yields;

int __wrap_sched_yield(void)
{
  yields++;
  return usleep(0);
}

/* Takes all stripes, and is killed, or dies of a signal by which it leaves a (small) core. */
static _Noreturn void die_with_stripes(tamis_filter *f, int death)
{
  struct window *w = window_of(f);
  (void) setrlimit(RLIMIT_CORE, &(struct rlimit){65536, 65536});
  (void) !chdir(shared_folder);
  if (window_join(w) != TAMIS_OK)
    _exit(1);
  for (uint64_t i = 0; i <= w->stripes.mask; i++)
    window_lock(w, &w->stripes.all[i]);
  raise(death);
  _exit(1);
}

/* The child has inherited the handle, and is another process all the same.  Its locks are taken over
 * at once: beside processes that compute, a yield takes as long as they like. */
TEST_BETWEEN(a_forked_child_has_a_name_of_its_own, set_up_with_alarm, tear_down)
{
  tamis_filter *f = open_window(2, 2000);
  const uint64_t name = owner_name(&window_of(f)->owner);
  assert_int_equal(tamis_add_hash(f, hash_of(1)), TAMIS_OK);
  static const int deaths[] = {SIGKILL, SIGQUIT, SIGKILL};
  for (unsigned i = 0; i < 3; i++) {
    pid_t child = fork_child();
    if (child == 0)
      die_with_stripes(f, deaths[i]);
    assert_int_equal(wait_for(child), 128 + deaths[i]);
    yields = 0;
    assert_int_equal(tamis_add_hash(f, hash_of(2 + i)), TAMIS_OK);
    assert_int_equal(yields, 0);
    assert_int_equal(owner_name(&window_of(f)->owner), name);
    assert_int_equal(tamis_advance(f), TAMIS_OK);
    assert_valid(f);
  }
  tamis_destroy(f);
}

/* A parent is killed while it has locks; its child, which never called the filter, lives on. */
TEST_BETWEEN(a_child_does_not_keep_its_parents_locks, set_up_with_alarm, tear_down)
{
  int alive[2];
  assert_int_equal(pipe(alive), 0);
  tamis_filter *f = open_window(2, 2000);
  pid_t parent = fork_child();
  if (parent == 0) {
    tamis_filter *own = open_shared(NULL);
    close(alive[1]);
    if (fork() == 0) {
      char byte;
      (void) !read(alive[0], &byte, 1); /* until the test ends */
      _exit(0);
    }
    die_with_stripes(own, SIGKILL);
  }
  close(alive[0]);
  assert_int_equal(wait_for(parent), 128 + SIGKILL);
  assert_int_equal(tamis_add_hash(f, hash_of(1)), TAMIS_OK);
  assert_int_equal(tamis_advance(f), TAMIS_OK);
  assert_valid(f);
  tamis_destroy(f);
  close(alive[1]);
}

/* ---- readers ---- */

/* A lock of one that may only read the file: of all bytes but one, that of a name, or of the first. */
static int lock_as_reader(uint64_t name, bool all)
{
  int fd = open(shared_path, O_RDONLY | O_CLOEXEC);
  struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = all ? (off_t) name : 4096};
  assert_int_equal(fcntl(fd, F_OFD_SETLK, &lock), 0);
  lock.l_start = (off_t) name + 1;
  lock.l_len = 0;
  assert_true(!name || !fcntl(fd, F_OFD_SETLK, &lock));
  return fd;
}

/* Nobody waits for the reader: what needs a lock that it has is refused at once. */
static void assert_locked(int result)
{
  assert_int_equal(result, TAMIS_EIO);
  assert_int_equal(errno, EAGAIN);
}

TEST_BETWEEN(a_reader_keeps_nobody, set_up_with_alarm, tear_down)
{
  char why[400];
  tamis_filter *f = open_window(2, 2000);
  pid_t child = fork_child();
  if (child == 0)
    die_with_stripes(f, SIGKILL);
  assert_int_equal(wait_for(child), 128 + SIGKILL);
  int reader = lock_as_reader(owner_name(&window_of(f)->owner), true);
  assert_int_equal(tamis_add_hash(f, hash_of(1)), TAMIS_OK); /* the dead one seems not to live */
  tamis_filter *late = open_window(2, 2000);
  assert_true(tamis_contains_hash(late, hash_of(1)));
  assert_locked(tamis_add_hash(late, hash_of(2)));
  assert_locked(tamis_advance(late));
  assert_locked(tamis_sync(late));
  if ((child = fork_child()) == 0)
    _exit(tamis_add_hash(f, hash_of(2)) == TAMIS_EIO && errno == EAGAIN ? 7 : 1);
  assert_int_equal(wait_for(child), 7);
  close(reader);
  assert_int_equal(tamis_add_unique_hash(late, hash_of(2)), TAMIS_OK);
  assert_int_equal(tamis_add_unique_hash(f, hash_of(2)), TAMIS_PRESENT);
  start_machine(f, false);
  tamis_destroy(f);
  tamis_destroy(late);
  reader = lock_as_reader(0, true);
  assert_locked(tamis_open_shared(NULL, shared_path, &f));
  assert_int_equal(tamis_shared_check(NULL, shared_path, why, sizeof why), TAMIS_EIO);
  assert_non_null(strstr(why, "a process that may only read it has locked it"));
  close(reader);
  f = open_shared(NULL);
  assert_int_equal(count_in(f, 1, 2), 2);
  tamis_destroy(f);
}

/* An empty file is filled under a lock: not of what programs lock that read it. */
TEST_BETWEEN(a_reader_keeps_no_creator, set_up_with_alarm, tear_down)
{
  for (unsigned window = 0; window < 3; window += 2) {
    tamis_options options = window_options(window, 2000);
    tamis_filter *f;
    struct stat status;
    unlink(shared_path);
    close(open(shared_path, O_WRONLY | O_CREAT | O_EXCL, 0600));
    int reader = lock_as_reader(0, true);
    assert_locked(tamis_open_shared(&options, shared_path, &f));
    assert_int_equal(stat(shared_path, &status), 0);
    assert_int_equal(status.st_size, 0);
    close(reader);
    reader = lock_as_reader(0, false);
    tamis_destroy(open_shared(&options));
    close(reader);
  }
}

/* A process freezes a segment, as a save does, and is killed.  Keys that need moves find room. */
TEST_BETWEEN(a_dead_saver_keeps_nobody, set_up_with_alarm, tear_down)
{
  enum { CAPACITY = 3000 };
  tamis_filter *f = open_window(2, CAPACITY);
  pid_t child = fork_child();
  if (child == 0) {
    const struct window_layer *found;
    struct window *w = window_of(f);
    if (window_join(w) == TAMIS_OK)
      (void) tamis__window_freeze(w, window_number(&w->first), 0, &found);
    raise(SIGKILL);
  }
  assert_int_equal(wait_for(child), 128 + SIGKILL);
  assert_true(atomic_load(&window_of(f)->state->frozen) != 0);
  add_hashes(f, 0, CAPACITY);
  assert_true(stats_of(f).evictions > 0);
  assert_int_equal(tamis_advance(f), TAMIS_OK);
  assert_valid(f);
  tamis_destroy(f);
}

/* Another thread of the parent searched for room when the child was forked. */
TEST_BETWEEN(a_child_is_not_kept_by_a_vanished_thread, set_up_with_alarm, tear_down)
{
  tamis_filter *f = open_window(2, 1000);
  lock_take(&window_of(f)->opening);
  pid_t child = fork_child();
  if (child == 0) {
    uint64_t key = 0;
    while (tamis_add_hash(f, hash_of(key)) == TAMIS_OK)
      key++;
    _exit(key >= 1000 ? 7 : 1);
  }
  lock_release(&window_of(f)->opening);
  assert_int_equal(wait_for(child), 7);
  tamis_destroy(f);
}

static bool forked;

static int fork_and_write(void *context, const void *data, size_t size)
{
  (void) data;
  (void) size;
  pid_t *child = context;
  if (!forked) {
    forked = true;
    *child = fork_child();
  }
  return 0;
}

/* A call forks, and goes on in the child, which is another process. */
TEST_BETWEEN(a_call_that_forks_goes_on_with_a_name, set_up_with_alarm, tear_down)
{
  pid_t child = -1;
  tamis_options options = window_options(2, 2000000);
  options.fpp = 1e-6;
  tamis_filter *f = open_shared(&options);
  const struct owner *owner = &window_of(f)->owner;
  const uint64_t name = owner_name(owner);
  forked = false;
  int result = tamis_save(f, fork_and_write, &child);
  if (child == 0)
    _exit(result == TAMIS_OK && owner_has_name(owner) && owner_name(owner) != name ? 7 : 1);
  assert_int_equal(result, TAMIS_OK);
  assert_int_equal(wait_for(child), 7);
  assert_int_equal(owner_name(owner), name);
  struct owner nameless = {.file = 1};
  struct owned_lock lock = {0};
  assert_false(owned_trylock(&lock, &nameless));
  tamis_destroy(f);
}

static void *destroy_cancelled(void *f)
{
  pthread_cancel(pthread_self());
  tamis_destroy(f);
  return (void *) f;
}

TEST_BETWEEN(no_lock_is_left_by_a_cancelled_thread, set_up_with_alarm, tear_down)
{
  for (unsigned window = 0; window < 2; window++) {
    pthread_t thread;
    void *result = NULL;
    tamis_options options = window_options(2, 1000);
    options.window = window;
    unlink(shared_path);
    unsigned descriptors = count_descriptors();
    tamis_filter *f = open_shared(&options);
    assert_int_equal(pthread_create(&thread, NULL, destroy_cancelled, f), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, f);
    assert_int_equal(count_descriptors(), descriptors);
    pid_t child = fork_child();
    if (child == 0)
      _exit(7);
    assert_int_equal(wait_for(child), 7);
    tamis_destroy(open_shared(&options));
  }
}
