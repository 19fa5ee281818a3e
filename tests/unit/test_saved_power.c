/* SPDX-License-Identifier: MIT
 *
 * Power that is lost while a file is replaced, or while one that processes share is created, changed
 * and synchronised.  The calls of the system that the library makes are wrapped, and a model of a file
 * system keeps what was synchronised.  Before and after each call, all that can be left is looked at:
 * it is the old file or the new one; or a shared file opens, and has all keys that were synchronised.
 *
 *    data     of what has been written to a file since it was synchronised, any sectors may be
 *             there or not, and the file may have its old length or its new one (where many sectors
 *             differ: each alone, all but each, and some subsets)
 *    names    of what has happened in a folder since it was synchronised (a name for a file, a name
 *             less; a rename is one of each), any steps may have been made or not
 *    failure  after a synchronisation that has failed, no later one makes the data safe (but for
 *             one that was interrupted)
 */
#define IN_MEMORY true
#include "saved_unit.h"
#include "shared_unit.h"
#include "wrapped_files.h"

#include "bloom/bloom.h"
#include "window/table.h"

#include <fcntl.h>
#include <sys/stat.h>

/* ---- the model ---- */

enum { SECTOR = 512, SECTORS = 512, FILE_BYTES = SECTOR * SECTORS, MOST_FILES = 8, MOST_STEPS = 8 };
enum { ALL_SUBSETS = 6, SOME_SUBSETS = 40 };

struct content {
  unsigned char bytes[FILE_BYTES];
  size_t size;
};

/* Files have numbers; 0 is none. */
struct step {
  char name[64];
  unsigned file;
};

static struct disk {
  struct {
    struct content safe, now;
    bool in_doubt;
  } files[MOST_FILES];
  unsigned n;
  unsigned safe; /* the file that the path leads to */
  struct step steps[MOST_STEPS];
  unsigned steps_n;
} disk;

static char path[96];
static const char name[] = "list.tamis";
static struct bytes old_bytes, new_bytes;

static bool is(const struct content *c, const struct bytes *b)
{
  return c->size == b->size && memcmp(c->bytes, b->data, b->size) == 0;
}

/* Sectors that may have been written or not. */
struct doubt {
  unsigned n, at[SECTORS];
};

static void sectors_in_doubt(unsigned file, struct doubt *out)
{
  out->n = 0;
  for (unsigned i = 0; i < SECTORS; i++)
    if (memcmp(disk.files[file].safe.bytes + (size_t) i * SECTOR,
               disk.files[file].now.bytes + (size_t) i * SECTOR, SECTOR) != 0)
      out->at[out->n++] = i;
}

static unsigned subsets_of(const struct doubt *d)
{
  return d->n <= ALL_SUBSETS ? 1u << d->n : 2 * d->n + SOME_SUBSETS;
}

static bool is_written(const struct doubt *d, unsigned subset, unsigned i)
{
  if (d->n <= ALL_SUBSETS)
    return subset >> i & 1;
  if (subset < 2 * d->n)
    return (i == subset / 2) == subset % 2;
  return hash_of((uint64_t) subset * SECTORS + i) % 2;
}

/* What is left of a file if these sectors have been written. */
static const struct content *content_after(unsigned file, const struct doubt *d, unsigned subset,
                                           bool longer)
{
  static struct content left;
  left = disk.files[file].safe;
  for (unsigned i = 0; i < d->n; i++)
    if (is_written(d, subset, i))
      memcpy(left.bytes + (size_t) d->at[i] * SECTOR,
             disk.files[file].now.bytes + (size_t) d->at[i] * SECTOR, SECTOR);
  left.size = longer ? disk.files[file].now.size : left.size;
  return &left;
}

/* The test's: whether what is left of a file will do.  `done`: the save has succeeded. */
static bool (*will_do)(const struct content *left, bool done);

static bool is_old_or_new(const struct content *left, bool done)
{
  return is(left, &new_bytes) || (!done && is(left, &old_bytes));
}

static bool file_is_whole(unsigned file, bool done)
{
  static struct doubt d;
  sectors_in_doubt(file, &d);
  const bool longer = disk.files[file].now.size != disk.files[file].safe.size;
  for (unsigned subset = 0; subset < subsets_of(&d); subset++)
    for (unsigned i = 0; i <= longer; i++)
      if (!will_do(content_after(file, &d, subset, i), done))
        return false;
  return true;
}

/* Where the path leads if these steps have been made. */
static unsigned file_after(unsigned steps)
{
  unsigned file = disk.safe;
  for (unsigned i = 0; i < disk.steps_n; i++)
    if (steps >> i & 1 && strcmp(disk.steps[i].name, name) == 0)
      file = disk.steps[i].file;
  return file;
}

static bool had_old;

/* Power may be lost now: what is wrong then.  `done`: the save has succeeded. */
static const char *loss(bool done)
{
  bool tried[MOST_FILES] = {false};
  for (unsigned steps = 0; steps < 1u << disk.steps_n; steps++) {
    unsigned file = file_after(steps);
    if (tried[file])
      continue;
    tried[file] = true;
    if (!file && (had_old || done))
      return "there is no file";
    if (file && !file_is_whole(file, done))
      return "the file is neither the old one nor the new one, or has lost keys";
  }
  return NULL;
}

static void lose_power(bool done)
{
  const char *wrong = loss(done);
  if (wrong)
    fail_msg("power is lost: %s", wrong);
}

/* In a child, which may open filters in the midst of a call that opens one. */
static void lose_power_in_child(void)
{
  pid_t child = fork_child();
  if (child == 0)
    _exit(loss(false) ? 1 : 0);
  if (wait_for(child))
    fail_msg("power is lost: the file does not open, or has lost keys");
}

/* ---- the system ---- */

enum { MOST_FDS = 1024, FOLDER = MOST_FILES };

static struct {
  bool armed;
  unsigned calls, fail_at; /* the call that fails, from 1 on */
  int error;
  size_t most;              /* that a write does at once; 0: all */
  unsigned files[MOST_FDS]; /* what a descriptor leads to */
} sys;

static void make_step(const char *of, unsigned file)
{
  if (!sys.armed)
    return;
  assert_in_range(disk.steps_n, 0, MOST_STEPS - 1);
  struct step *step = &disk.steps[disk.steps_n++];
  snprintf(step->name, sizeof step->name, "%s", of);
  step->file = file;
}

/* The file that a name leads to while there is power. */
static unsigned file_of_name(const char *of)
{
  unsigned file = strcmp(of, name) == 0 ? disk.safe : 0;
  for (unsigned i = 0; i < disk.steps_n; i++)
    if (strcmp(disk.steps[i].name, of) == 0)
      file = disk.steps[i].file;
  return file;
}

/* Reads what is in the open files now, whoever has written it. */
static void look_at_files(void)
{
  for (int fd = 0; fd < MOST_FDS; fd++)
    if (sys.files[fd] && sys.files[fd] != FOLDER) {
      char link[40];
      (void) snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
      struct content *now = &disk.files[sys.files[fd]].now;
      int again = __real_open(link, O_RDONLY | O_CLOEXEC);
      memset(now->bytes, 0, now->size);
      ssize_t size = pread(again, now->bytes, FILE_BYTES, 0);
      assert_in_range(size, 0, FILE_BYTES - 1);
      now->size = (size_t) size;
      __real_close(again);
    }
}

/* Whether the call is made. */
static bool begin_call(void)
{
  if (!sys.armed)
    return true;
  sys.armed = false;
  look_at_files();
  if (will_do == is_old_or_new)
    lose_power(false);
  else
    lose_power_in_child();
  sys.armed = true;
  if (++sys.calls != sys.fail_at)
    return true;
  errno = sys.error;
  return false;
}

static int ended(ssize_t result)
{
  return (int) result;
}

static int opened_file(int fd, const char *opened, int flags)
{
  if (!sys.armed || fd < 0)
    return fd;
  assert_in_range(fd, 0, MOST_FDS - 1);
  const char *slash = strrchr(opened, '/');
  const char *of = slash ? slash + 1 : opened;
  unsigned file = flags & O_DIRECTORY ? (unsigned) FOLDER : file_of_name(of);
  if (!file && flags & O_CREAT) {
    file = ++disk.n;
    assert_in_range(file, 1, MOST_FILES - 1);
    make_step(of, file);
  }
  sys.files[fd] = file;
  return fd;
}

ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t at);
int __real_ftruncate(int fd, off_t size);
int __real_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags);

WRAP_CALL(int, open, (const char *opened, int flags, ...), begin_call(),
          opened_file(__real_open(opened, flags, 0600), opened, flags))
WRAP_CALL(int, openat, (int at, const char *opened, int flags, mode_t mode), begin_call(),
          opened_file(__real_openat(at, opened, flags, mode), opened, flags))
WRAP_CALL(ssize_t, write, (int fd, const void *data, size_t size), begin_call(),
          __real_write(fd, data, sys.armed &&sys.most &&sys.most < size ? sys.most : size))
WRAP_CALL(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), begin_call(),
          __real_pwrite(fd, data, size, at))
WRAP_CALL(int, ftruncate, (int fd, off_t size), begin_call(), __real_ftruncate(fd, size))
WRAP_CALL(int, flock, (int fd, int operation), begin_call(), __real_flock(fd, operation))
WRAP_CALL(int, fstatfs, (int fd, struct statfs *system), begin_call(), __real_fstatfs(fd, system))
WRAP_CALL(int, linkat,
          (int from_folder, const char *from, int to_folder, const char *to, int flags),
          begin_call(),
          (make_step(to, file_of_name(from)),
           __real_linkat(from_folder, from, to_folder, to, flags)))
WRAP_CALL(int, renameat, (int from_folder, const char *from, int to_folder, const char *to),
          begin_call(),
          (make_step(to, file_of_name(from)), make_step(from, 0),
           __real_renameat(from_folder, from, to_folder, to)))
WRAP_CALL(int, unlinkat, (int at, const char *removed, int flags), begin_call(),
          (make_step(removed, 0), __real_unlinkat(at, removed, flags)))

int __wrap_fsync(int fd)
{
  unsigned file = sys.armed ? sys.files[fd] : 0;
  if (!begin_call()) {
    if (file != FOLDER)
      disk.files[file].in_doubt |= errno != EINTR;
    return -1;
  }
  if (sys.armed && file == FOLDER) {
    disk.safe = file_after(UINT32_MAX);
    disk.steps_n = 0;
  } else if (sys.armed && !disk.files[file].in_doubt) {
    disk.files[file].safe = disk.files[file].now;
  }
  return __real_fsync(fd);
}

int __wrap_close(int fd)
{
  if (sys.armed)
    sys.files[fd] = 0;
  int result = __real_close(fd);
  return begin_call() ? result : -1;
}

/* ---- saves ---- */

static tamis_filter *old_filter, *new_filter;

/* It is full, so its file has many sectors though it is packed. */
static tamis_filter *filter_from(uint64_t first, struct bytes *in_file)
{
  enum { CAPACITY = 3500 };
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, CAPACITY, 0.01);
  add_hashes(f, first, CAPACITY);
  *in_file = packed_bytes(f);
  assert_in_range(in_file->size, 8 * SECTOR, 12 * SECTOR);
  return f;
}

static int begin_saves(void **state)
{
  int result = set_up(state);
  snprintf(path, sizeof path, "%s/%s", shared_folder, name);
  will_do = is_old_or_new;
  old_filter = filter_from(10000, &old_bytes);
  new_filter = filter_from(20000, &new_bytes);
  return result;
}

static int end_saves(void **state)
{
  free(old_bytes.data);
  free(new_bytes.data);
  tamis_destroy(old_filter);
  tamis_destroy(new_filter);
  return tear_down(state);
}

/* Nothing is in the folder, or the old file. */
static void begin(bool exists)
{
  memset(&sys, 0, sizeof sys);
  memset(&disk, 0, sizeof disk);
  unlink(path);
  had_old = exists;
  if (!exists)
    return;
  assert_int_equal(tamis_save_file(old_filter, path), TAMIS_OK);
  disk.safe = disk.n = 1;
  memcpy(disk.files[1].safe.bytes, old_bytes.data, old_bytes.size);
  disk.files[1].safe.size = old_bytes.size;
  disk.files[1].now = disk.files[1].safe;
}

/* Saves the new filter.  Returns whether there were so many calls that one of them failed. */
static bool save_and_lose_power(unsigned fail_at, int error, size_t most)
{
  sys.fail_at = fail_at;
  sys.error = error;
  sys.most = most;
  sys.armed = true;
  int result = tamis_save_file(new_filter, path);
  sys.armed = false;
  lose_power(result == TAMIS_OK);
  assert_true(fail_at || result == TAMIS_OK);
  return fail_at && sys.calls >= fail_at;
}

static const size_t parts[] = {0, 700, 1024};
enum { PARTS = sizeof parts / sizeof *parts };

TEST_BETWEEN(the_file_is_whole_whenever_power_is_lost, begin_saves, end_saves)
{
  for (unsigned exists = 0; exists < 2; exists++)
    for (unsigned i = 0; i < PARTS; i++) {
      begin(exists);
      save_and_lose_power(0, 0, parts[i]);
      assert_in_range(sys.calls, 7, 100);
    }
}

/* A call fails, and then power is lost, or before that. */
TEST_BETWEEN(the_file_is_whole_when_a_call_has_failed, begin_saves, end_saves)
{
  const int errors[] = {EIO, ENOSPC, EINTR};
  for (unsigned exists = 0; exists < 2; exists++)
    for (unsigned e = 0; e < 3; e++) {
      bool failed = true;
      for (unsigned at = 1; failed; at++) {
        begin(exists);
        failed = save_and_lose_power(at, errors[e], 700);
      }
    }
}

/* ---- files that processes share ---- */

static struct {
  tamis_options options;
  uint64_t synced; /* keys, from 0 on */
  bool opened;     /* the creation has returned */
} live;

/* As after a start of the machine, when the number of the last one is in the file. */
static bool opens_with_all_keys(const struct content *left, bool done)
{
  (void) done;
  const uint64_t boot = 42;
  if (left->size ==
      sizeof SAVED_UNFINISHED - 1) /* its length comes with its bytes, unlike one that is set */
    return true;
  int fd = __real_open(shared_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  assert_int_equal(__real_pwrite(fd, left->bytes, left->size, 0), left->size);
  if (!memcmp(left->bytes, SAVED_MAGIC, sizeof SAVED_MAGIC - 1))
    __real_pwrite(fd, &boot, sizeof boot,
                  4096 + (off_t) (live.options.window ? offsetof(struct window_state, boot)
                                                      : offsetof(struct bloom_tally, boot)));
  __real_close(fd);
  tamis_filter *f = NULL;
  bool whole = tamis_open_shared(had_old && !live.opened ? &live.options : NULL, shared_path, &f) ==
               TAMIS_OK;
  for (uint64_t key = 0; key < live.synced && whole; key++)
    whole = tamis_contains_hash(f, hash_of(key));
  if (whole)
    assert_valid(f);
  tamis_destroy(f);
  return whole;
}

/* It is created, or filled where it is (`exists`), and synchronised three times. */
static void share_and_lose_power(bool exists)
{
  enum { IN_ROUND = 40, ROUNDS = 3 };
  memset(&sys, 0, sizeof sys);
  memset(&disk, 0, sizeof disk);
  unlink(path);
  live.synced = live.opened = false;
  had_old = exists;
  if (exists) {
    __real_close(__real_open(path, O_RDWR | O_CREAT | O_EXCL, 0600));
    disk.safe = disk.n = 1;
  }
  tamis_filter *f = NULL;
  sys.armed = true;
  assert_int_equal(tamis_open_shared(&live.options, path, &f), TAMIS_OK);
  live.opened = !exists; /* what is filled in place is safe with the first call to tamis_sync() */
  had_old = true;
  for (uint64_t round = 1; round <= ROUNDS; round++) {
    add_hashes(f, live.synced, IN_ROUND);
    assert_int_equal(tamis_sync(f), TAMIS_OK);
    live.opened = true;
    live.synced = round * IN_ROUND;
  }
  (void) begin_call();
  sys.armed = false;
  tamis_destroy(f);
}

TEST_BETWEEN(a_shared_file_keeps_what_was_synced, begin_saves, end_saves)
{
  for (unsigned i = 0; i < 6; i++) {
    live.options = shared_options(TAMIS_LAYOUT_BLOCKED, i / 2 == 1);
    live.options.capacity = i / 2 == 1 ? 50 : 300;
    live.options.max_bytes = i / 2 == 1 ? 30000 : 0;
    live.options.window = i / 2 == 2 ? 3 : 0;
    live.options.stripes = live.options.window ? 1 : 0;
    will_do = opens_with_all_keys;
    share_and_lose_power(i % 2);
  }
}
