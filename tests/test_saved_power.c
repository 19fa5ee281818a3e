/* SPDX-License-Identifier: MIT
 *
 * Power that is lost while a file is replaced.  The calls of the system that the library makes are
 * wrapped and also made on a model of a file system, which has lost nothing but what was
 * synchronised.  Before and after each call, all that can be left is compared with the old file and
 * the new one.
 *
 *    data     of what has been written to a file since it was synchronised, any sectors may be
 *             there or not, and the file may have its old length or its new one
 *    names    of what has happened in a folder since it was synchronised (a name for a file, a name
 *             less; a rename is one of each), any steps may have been made or not
 *    failure  after a synchronisation that has failed, no later one makes the data safe (but for
 *             one that was interrupted)
 */
#include "saved_unit.h"
#include "wrapped_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the model ---- */

enum { SECTOR = 512, SECTORS = 16, FILE_BYTES = SECTOR * SECTORS, MOST_FILES = 8, MOST_STEPS = 8 };

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

static char folder[64], path[96];
static const char name[] = "list.tamis";
static struct bytes old_bytes, new_bytes;

static bool is(const struct content *c, const struct bytes *b)
{
  return c->size == b->size && memcmp(c->bytes, b->data, b->size) == 0;
}

/* What is left of a file if these sectors have been written. */
static void content_after(unsigned file, unsigned sectors, bool longer, struct content *out)
{
  const struct content *safe = &disk.files[file].safe, *now = &disk.files[file].now;
  out->size = longer ? now->size : safe->size;
  for (unsigned i = 0; i < SECTORS; i++)
    memcpy(out->bytes + (size_t) i * SECTOR,
           (sectors >> i & 1 ? now : safe)->bytes + (size_t) i * SECTOR, SECTOR);
}

static bool sector_is_safe(unsigned file, unsigned i)
{
  return memcmp(disk.files[file].safe.bytes + (size_t) i * SECTOR,
                disk.files[file].now.bytes + (size_t) i * SECTOR, SECTOR) == 0;
}

/* Whether all that can be left of a file is the old file or the new one, or even the new one. */
static bool file_is_whole(unsigned file, bool done)
{
  unsigned all = 0;
  for (unsigned i = 0; i < SECTORS; i++)
    all |= sector_is_safe(file, i) ? 0 : 1u << i;
  /* all subsets of `all` */
  for (unsigned sectors = all;; sectors = (sectors - 1) & all) {
    for (unsigned longer = 0; longer < 2; longer++) {
      struct content left;
      content_after(file, sectors, longer, &left);
      if (!is(&left, &new_bytes) && (done || !is(&left, &old_bytes)))
        return false;
    }
    if (!sectors)
      return true;
  }
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

/* Power may be lost now.  `done`: the save has succeeded. */
static void lose_power(bool done)
{
  bool tried[MOST_FILES] = {false};
  for (unsigned steps = 0; steps < 1u << disk.steps_n; steps++) {
    unsigned file = file_after(steps);
    if (tried[file])
      continue;
    tried[file] = true;
    if (!file && (had_old || done))
      fail_msg("power is lost: there is no file");
    if (file && !file_is_whole(file, done))
      fail_msg("power is lost: the file is neither the old one nor the new one");
  }
}

static void make_step(const char *of, unsigned file)
{
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

/* ---- the system ---- */

enum { MOST_FDS = 1024, FOLDER = MOST_FILES };

static struct {
  bool armed;
  unsigned calls, fail_at; /* the call that fails, from 1 on */
  int error;
  size_t most;              /* that a write does at once; 0: all */
  unsigned files[MOST_FDS]; /* what a descriptor leads to */
  off_t at[MOST_FDS];
} sys;

/* Whether the call is made. */
static bool begin_call(void)
{
  if (!sys.armed)
    return true;
  lose_power(false);
  if (++sys.calls != sys.fail_at)
    return true;
  errno = sys.error;
  return false;
}

static void opened_file(int fd, const char *opened, int flags)
{
  if (!sys.armed || fd < 0)
    return;
  assert_in_range(fd, 0, MOST_FDS - 1);
  const char *slash = strrchr(opened, '/');
  const char *of = slash ? slash + 1 : opened;
  unsigned file = flags & O_DIRECTORY ? (unsigned) FOLDER : file_of_name(of);
  if (!file && flags & O_CREAT) {
    file = ++disk.n;
    assert_in_range(file, 1, MOST_FILES - 1);
    make_step(of, file);
  }
  if (file && file != FOLDER && flags & O_TRUNC)
    disk.files[file].now = (struct content){.size = 0};
  sys.files[fd] = file;
  sys.at[fd] = 0;
}

int __wrap_open(const char *opened, int flags, ...)
{
  if (!begin_call())
    return -1;
  int fd = __real_open(opened, flags, 0600);
  opened_file(fd, opened, flags);
  return fd;
}

int __wrap_openat(int at, const char *opened, int flags, mode_t mode)
{
  if (!begin_call())
    return -1;
  int fd = __real_openat(at, opened, flags, mode);
  opened_file(fd, opened, flags);
  return fd;
}

ssize_t __wrap_write(int fd, const void *data, size_t size)
{
  if (!begin_call())
    return -1;
  ssize_t n = __real_write(fd, data, sys.armed && sys.most && sys.most < size ? sys.most : size);
  if (sys.armed && n > 0) {
    struct content *now = &disk.files[sys.files[fd]].now;
    size_t begin = (size_t) sys.at[fd], end = begin + (size_t) n;
    assert_in_range(end, 1, FILE_BYTES);
    memcpy(now->bytes + begin, data, (size_t) n);
    now->size = now->size > end ? now->size : end;
    sys.at[fd] += n;
  }
  return n;
}

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

int __wrap_renameat(int from_folder, const char *from, int to_folder, const char *to)
{
  if (!begin_call())
    return -1;
  if (sys.armed) {
    make_step(to, file_of_name(from));
    make_step(from, 0);
  }
  return __real_renameat(from_folder, from, to_folder, to);
}

int __wrap_close(int fd)
{
  int result = __real_close(fd);
  return begin_call() ? result : -1;
}

int __wrap_flock(int fd, int operation)
{
  return begin_call() ? __real_flock(fd, operation) : -1;
}

int __wrap_fstatfs(int fd, struct statfs *system)
{
  return begin_call() ? __real_fstatfs(fd, system) : -1;
}

int __wrap_unlinkat(int at, const char *removed, int flags)
{
  if (!begin_call())
    return -1;
  if (sys.armed)
    make_step(removed, 0);
  return __real_unlinkat(at, removed, flags);
}

/* ---- saves ---- */

static tamis_filter *old_filter, *new_filter;

static tamis_filter *filter_with(uint64_t key)
{
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 100, 0.01);
  assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
  return f;
}

static int set_up(void **state)
{
  (void) state;
  snprintf(folder, sizeof folder, "/tmp/tamis-test-saved-power-%ld", (long) getpid());
  snprintf(path, sizeof path, "%s/%s", folder, name);
  old_filter = filter_with(1000);
  new_filter = filter_with(2000);
  old_bytes = saved_bytes(old_filter);
  new_bytes = saved_bytes(new_filter);
  return mkdir(folder, 0755);
}

static int tear_down(void **state)
{
  (void) state;
  free(old_bytes.data);
  free(new_bytes.data);
  tamis_destroy(old_filter);
  tamis_destroy(new_filter);
  unlink(path);
  return rmdir(folder);
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

static void the_file_is_whole_whenever_power_is_lost(void **state)
{
  (void) state;
  for (unsigned exists = 0; exists < 2; exists++)
    for (unsigned i = 0; i < PARTS; i++) {
      begin(exists);
      save_and_lose_power(0, 0, parts[i]);
      assert_in_range(sys.calls, 7, 100);
    }
}

/* A call fails, and then power is lost, or before that. */
static void the_file_is_whole_when_a_call_has_failed(void **state)
{
  (void) state;
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_file_is_whole_whenever_power_is_lost, set_up, tear_down),
      cmocka_unit_test_setup_teardown(the_file_is_whole_when_a_call_has_failed, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("saved_power", tests, NULL, NULL);
}
