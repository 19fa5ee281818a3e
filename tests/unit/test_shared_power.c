/* SPDX-License-Identifier: MIT
 *
 * Power that is lost while processes share a filter.  The disk has the pages that msync() has
 * written, and of those that have changed since any may be there or not.  So what is left is put
 * together from two states of the file, page by page, and is opened as after a start of the machine.
 */
#include "bloom/bloom.h"
#include "shared_window_unit.h"

enum { SYNCED = 1500, ADDED = 3000, TRIES = 40 };

/* ---- what is on the disk ---- */

static unsigned char *disk; /* NULL: nothing is recorded */
static size_t disk_size;

int __real_msync(void *at, size_t size, int flags);

ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t at);

/* Calls of msync() before the first of pwrite(), and whether that has come. */
static unsigned flushed;
static bool written;

ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t at)
{
  written = true;
  return __real_pwrite(fd, data, size, at);
}

int __wrap_msync(void *at, size_t size, int flags)
{
  assert_int_equal(flags, MS_SYNC);
  flushed += !written;
  if (disk)
    memcpy(disk, at, size < disk_size ? size : disk_size);
  return __real_msync(at, size, flags);
}

static unsigned char *file_bytes(size_t *size)
{
  struct stat status;
  assert_int_equal(stat(shared_path, &status), 0);
  *size = (size_t) status.st_size;
  unsigned char *bytes = calloc(1, *size);
  assert_non_null(bytes);
  read_file(0, bytes, *size);
  return bytes;
}

/* The file after another start of the machine: each page is as it was `then` or as it is `now`. */
static void lose_power(const unsigned char *then, const unsigned char *now, size_t all,
                       unsigned which, bool (*is_newer)(size_t at, unsigned which, bool chance),
                       size_t boot)
{
  uint64_t chance = hash_of(which + 1);
  const uint64_t other = 42;
  unlink(shared_path);
  int fd = open(shared_path, O_CREAT | O_WRONLY, 0600);
  for (size_t at = 0; at < all; at += PAGE) {
    size_t size = all - at < PAGE ? all - at : PAGE;
    chance = hash_of(chance + 1);
    assert_int_equal(write(fd, (is_newer(at, which, chance % 2) ? now : then) + at, size), size);
  }
  close(fd);
  write_file(PAGE + boot, &other,
             sizeof other); /* there a tally begins, and the state of a window */
}

/* ---- Bloom filters ---- */

static bool is_newer(size_t at, unsigned which, bool chance)
{
  (void) at;
  return which > 1 ? chance : which;
}

static void check_what_is_left(tamis_filter *f, bool growable)
{
  assert_has(f, 0, SYNCED);
  assert_valid(f);
  const tamis_stats s = stats_of(f);
  assert_true(s.estimated_count > 0.95 * SYNCED && s.estimated_count < 1.05 * ADDED);
  assert_true((double) s.count > 0.9 * s.estimated_count);
  /* It goes on, and keeps to its capacity. */
  uint64_t added = 0;
  for (uint64_t key = ADDED; key < 2 * ADDED; key++)
    added += tamis_add_unique_hash(f, hash_of(key)) == TAMIS_OK;
  const double all = (double) (added + s.count);
  assert_true(growable ? (double) added > 0.95 * ADDED : all <= 1.05 * ADDED);
  assert_valid(f);
}

static void what_was_synced_is_there(tamis_layout layout, bool growable)
{
  tamis_options options = shared_options(layout, growable);
  options.capacity = growable ? 1000 : ADDED;
  tamis_filter *f = open_shared(&options);
  for (uint64_t key = 0; key < SYNCED; key++)
    assert_true(tamis_add_unique_hash(f, hash_of(key)) >= TAMIS_OK);
  disk = file_bytes(&disk_size);
  memset(disk, 0, disk_size);
  assert_int_equal(tamis_sync(f), TAMIS_OK);
  for (uint64_t key = SYNCED; key < ADDED; key++)
    assert_true(tamis_add_unique_hash(f, hash_of(key)) >= TAMIS_OK);
  size_t size;
  unsigned char *now = file_bytes(&size);
  assert_int_equal(size, disk_size);
  tamis_destroy(f);
  for (unsigned i = 0; i < TRIES; i++) {
    lose_power(disk, now, disk_size, i, is_newer, offsetof(struct bloom_tally, boot));
    f = open_shared(NULL);
    check_what_is_left(f, growable);
    tamis_destroy(f);
  }
  free(now);
  free(disk);
  disk = NULL;
  unlink(shared_path);
}

TEST(what_was_synced_is_there_in_bloom_filters)
{
  for (unsigned i = 0; i < 6; i++)
    what_was_synced_is_there((tamis_layout) (i / 2), i % 2);
}

/* ---- windows ---- */

enum { WINDOW = 3, IN_PERIOD = 6500, CAPACITY = 30000 };

/* Adds keys in a period of their own. */
static void add_period(tamis_filter *f, uint64_t period)
{
  assert_int_equal(tamis_advance_to(f, period), TAMIS_OK);
  for (uint64_t key = period * IN_PERIOD; key < (period + 1) * IN_PERIOD; key++)
    assert_true(tamis_add_unique_hash(f, hash_of(key)) >= TAMIS_OK);
}

static size_t checkpoints; /* where they begin */

/* While the next checkpoint is written, or (odd) when it has been: then what the state names has been
 * written before.  TRIES: when the sync has returned. */
static bool is_newer_of_window(size_t at, unsigned which, bool chance)
{
  const bool whole = which % 2;
  return which == TRIES || (at == PAGE || (whole && at >= checkpoints) ? whole : chance);
}

/* All keys of periods up to `synced` are remembered for as long as they should be. */
static void check_window(uint64_t synced)
{
  tamis_filter *f = open_shared(NULL);
  assert_valid(f);
  for (unsigned i = 0; i <= WINDOW; i++) {
    const uint64_t now = epoch_period(epoch_read(&const_window_of(f)->state->epoch));
    for (uint64_t key = 0; key < (synced + 1) * IN_PERIOD; key++)
      assert_true(now > key / IN_PERIOD + WINDOW || tamis_contains_hash(f, hash_of(key)));
    assert_int_equal(tamis_advance(f), TAMIS_OK);
    assert_valid(f);
  }
  tamis_destroy(f);
}

TEST(what_was_synced_is_there_in_windows)
{
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  options.capacity = CAPACITY;
  options.window = WINDOW;
  options.window_renews = true;
  tamis_filter *f = open_shared(&options);
  size_t size;
  for (uint64_t period = 0; period < 3; period++)
    add_period(f, period);
  for (unsigned rounds = 0; rounds < 2; rounds++) { /* with either place */
    const uint64_t synced = epoch_period(epoch_read(&window_of(f)->state->epoch));
    checkpoints = checkpoints_of(f);
    assert_int_equal(tamis_sync(f), TAMIS_OK);
    unsigned char *then = file_bytes(&size);
    add_period(f, synced + 1);
    for (uint64_t key = synced * IN_PERIOD; key < (synced + 1) * IN_PERIOD; key += 3) /* renewed */
      assert_int_equal(tamis_add_unique_hash(f, hash_of(key)), TAMIS_PRESENT);
    add_period(f, synced + 2);
    assert_true(stats_of(f).evictions > 0);
    flushed = written = 0;
    assert_int_equal(tamis_sync(f), TAMIS_OK);
    /* The disk names the place that the memory names, before another is written: a sync before may
     * have been killed. */
    assert_int_equal(flushed, 1);
    unsigned char *now = file_bytes(&size);
    tamis_destroy(f);
    for (unsigned i = 0; i < TRIES; i++) {
      lose_power(then, now, size, i, is_newer_of_window, offsetof(struct window_state, boot));
      check_window(i % 2 ? synced + 2 : synced);
    }
    write_file(0, now, size);
    free(now);
    free(then);
    f = open_shared(NULL);
  }
  tamis_destroy(f);
  unlink(shared_path);
}

/* ---- cuckoo filters ---- */

/* Of keys that nobody has called since the first sync each copy is there.  A remove since then is undone, or
 * not, unless the second sync has returned. */
static void check_copies(bool returned)
{
  tamis_filter *f = open_shared(NULL);
  assert_valid(f);
  for (uint64_t key = 0; key < SYNCED; key++) {
    const uint64_t copies = 1 + key % 4, count = tamis_count_hash(f, hash_of(key));
    if (key % 3)
      assert_int_equal(count, copies);
    else
      assert_in_range(count, copies - 1, returned ? copies - 1 : copies);
    while (tamis_remove_hash(f, hash_of(key)) == TAMIS_OK)
      ;
    assert_int_equal(tamis_add_unique_hash(f, hash_of(key)), TAMIS_OK);
  }
  assert_valid(f);
  tamis_destroy(f);
}

TEST(what_was_synced_is_there_in_cuckoo_filters)
{
  size_t size;
  const tamis_options options = shared_cuckoo_options(ADDED);
  tamis_filter *f = open_shared(&options);
  for (uint64_t key = 0; key < SYNCED; key++)
    for (uint64_t copies = 0; copies < 1 + key % 4; copies++)
      assert_int_equal(tamis_add_hash(f, hash_of(key)), TAMIS_OK);
  checkpoints = checkpoints_of(f);
  assert_int_equal(tamis_sync(f), TAMIS_OK);
  unsigned char *then = file_bytes(&size);
  for (uint64_t key = 0; key < SYNCED; key += 3)
    assert_int_equal(tamis_remove_hash(f, hash_of(key)), TAMIS_OK);
  uint64_t last = SYNCED;
  while (tamis_add_hash(f, hash_of(last)) == TAMIS_OK)
    last++; /* entries move between pages */
  assert_true(stats_of(f).evictions > 0);
  for (uint64_t key = SYNCED; key < last; key += 2) /* there is room for the checkpoint */
    assert_int_equal(tamis_remove_hash(f, hash_of(key)), TAMIS_OK);
  assert_int_equal(tamis_sync(f), TAMIS_OK);
  unsigned char *now = file_bytes(&size);
  tamis_destroy(f);
  for (unsigned i = 0; i <= TRIES; i++) {
    lose_power(then, now, size, i, is_newer_of_window, offsetof(struct window_state, boot));
    check_copies(i == TRIES);
  }
  free(now);
  free(then);
  unlink(shared_path);
}

int main(void)
{
  return run_all_tests_between(set_up, tear_down);
}
