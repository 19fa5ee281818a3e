/* SPDX-License-Identifier: MIT
 *
 * Files that are replaced whole.  The calls of the system that the library makes are wrapped: the
 * process ends before or after any of them, or in the middle of a write, or a call fails, is
 * interrupted, or does a part of its work.  (test_saved_power.c has the loss of power.)
 */
#include "saved_unit.h"
#include "shared_unit.h"
#include "wrapped_files.h"

/* ---- the system ---- */

enum what { NOTHING, DIE_BEFORE, DIE_AFTER, DIE_INSIDE, FAIL, WAIT };

static struct {
  bool armed;
  enum what what;
  unsigned at;      /* the call that it happens at, from 1 on */
  unsigned calls;   /* so far */
  bool interrupted; /* each call is, once */
  bool again;       /* this call has been */
  size_t most;      /* that a write or a read does at once; 0: all */
  int error;
  bool renamed;  /* the new file */
  bool standard; /* a write or a read had the number of a standard stream */
  bool no_locks, network;
  int ready[2], go[2]; /* pipes, of a call that waits */
} sys;

/* Whether the call goes on.  `may_be` says that it may be interrupted. */
static bool begin_call(bool may_be)
{
  if (!sys.armed)
    return true;
  if (sys.interrupted && may_be) {
    sys.again = !sys.again;
    if (sys.again) {
      errno = EINTR;
      return false;
    }
  }
  sys.calls++;
  if (sys.calls != sys.at)
    return true;
  if (sys.what == DIE_BEFORE)
    _exit(0);
  if (sys.what == WAIT) {
    char c = 0;
    (void) !__real_write(sys.ready[1], &c, 1);
    (void) !__real_read(sys.go[0], &c, 1);
  }
  errno = sys.error;
  return sys.what != FAIL;
}

/* What has become of a call. */
static ssize_t ended(ssize_t result)
{
  if (sys.armed && sys.calls == sys.at && sys.what == DIE_AFTER)
    _exit(0);
  return result;
}

static size_t part(size_t size)
{
  return sys.armed && sys.most && sys.most < size ? sys.most : size;
}

static bool begin_write(int fd, const void *data, size_t size)
{
  if (sys.armed && sys.what == DIE_INSIDE && sys.calls + 1 == sys.at) {
    (void) !__real_write(fd, data, size / 2);
    _exit(0);
  }
  return begin_call(true);
}

/* Another thread takes a new descriptor for a standard stream. */
static int mistaken(int fd)
{
  char c = 'x';
  if (fd >= 0 && fd <= STDERR_FILENO && __real_read(fd, &c, 1) < 0)
    (void) !__real_write(fd, &c, 1);
  return fd;
}

WRAP_CALL(int, open, (const char *path, int flags, ...), begin_call(true),
          mistaken(__real_open(path, flags)))
WRAP_CALL(int, openat, (int folder, const char *path, int flags, mode_t mode), begin_call(true),
          mistaken(__real_openat(folder, path, flags, mode)))
WRAP_CALL(ssize_t, write, (int fd, const void *data, size_t size), begin_write(fd, data, size),
          (sys.standard |= fd <= STDERR_FILENO, __real_write(fd, data, part(size))))
WRAP_CALL(ssize_t, read, (int fd, void *data, size_t size), begin_call(true),
          (sys.standard |= fd <= STDERR_FILENO, __real_read(fd, data, part(size))))
WRAP_CALL(int, fsync, (int fd), begin_call(true), __real_fsync(fd))
WRAP_CALL(int, renameat, (int from_folder, const char *from, int to_folder, const char *to),
          begin_call(true), (sys.renamed = true, __real_renameat(from_folder, from, to_folder, to)))
WRAP_CALL(int, flock, (int fd, int operation), begin_call(true),
          __real_flock(fd, operation) | -sys.no_locks)
WRAP_CALL(int, unlinkat, (int folder, const char *path, int flags), begin_call(false),
          __real_unlinkat(folder, path, flags))

/* A descriptor is closed even if the call says that it was interrupted. */
int __wrap_close(int fd)
{
  int result = __real_close(fd);
  return begin_call(true) ? (int) ended(result) : -1;
}

/* The folder is on a system whose locks count. */
int __wrap_fstatfs(int fd, struct statfs *system)
{
  if (!begin_call(false))
    return -1;
  ssize_t result = ended(__real_fstatfs(fd, system));
  system->f_type = sys.network ? 0x6969 /* NFS */ : 0xEF53;
  return (int) result;
}

/* ---- a folder, and filters ---- */

static char *const folder = shared_folder, *const path = shared_path;

enum { CAPACITY = 400000 }; /* half a MiB, so several writes if they are short */

static tamis_filter *filter_with(uint64_t key)
{
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, CAPACITY, 0.01);
  add_range(f, key, key + 100);
  return f;
}

static bool has(const tamis_filter *f, uint64_t key)
{
  for (uint64_t i = 0; i < 100; i++)
    if (!tamis_contains_hash(f, key + i))
      return false;
  return true;
}

enum { OLD = 1000, NEW = 2000 };

static tamis_filter *old, *new;

static int begin_saves(void **state)
{
  memset(&sys, 0, sizeof sys);
  old = filter_with(OLD), new = filter_with(NEW);
  return set_up(state);
}

static int end_saves(void **state)
{
  memset(&sys, 0, sizeof sys);
  tamis_destroy(old), tamis_destroy(new);
  return tear_down(state);
}

/* The key of the filter that the path leads to, which is whole; 0: there is none. */
static uint64_t what_is_there(void)
{
  tamis_filter *f;
  int result = tamis_load_file(NULL, path, &f);
  if (result == TAMIS_EIO && errno == ENOENT)
    return 0;
  assert_int_equal(result, TAMIS_OK);
  assert_true(has(f, OLD) != has(f, NEW));
  uint64_t key = has(f, OLD) ? OLD : NEW;
  tamis_destroy(f);
  return key;
}

/* What the system has refused is told by errno. */
static void assert_system_error(int result, int error)
{
  const int told = errno;
  assert_int_equal(result, TAMIS_EIO);
  assert_int_equal(told, error);
}

static void arm(enum what what, unsigned at, int error)
{
  sys.armed = true, sys.renamed = false;
  sys.what = what, sys.at = at, sys.error = error;
  sys.calls = 0, sys.most = SAVED_CHUNK / 4;
}

/* ---- what must hold ---- */

TEST_BETWEEN(a_file_is_replaced_by_one_for_its_owner, begin_saves, end_saves)
{
  mode_t mask = umask(0777);
  assert_int_equal(tamis_save_file(old, path), TAMIS_OK);
  umask(mask);
  struct stat status;
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_mode & 07777, 0600);
  assert_int_equal(what_is_there(), OLD);
  assert_int_equal(chmod(path, 0644), 0);
  int fd = open(path, O_RDONLY); /* who has it open keeps it */
  assert_int_equal(tamis_save_file(new, path), TAMIS_OK);
  assert_int_equal(what_is_there(), NEW);
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_mode & 07777, 0600);
  assert_int_equal(fstat(fd, &status), 0);
  assert_int_equal(status.st_nlink, 0);
  close(fd);
  assert_int_equal(count_files(false), 1);
}

/* A process has closed its standard streams, but a thread still prints and reads. */
TEST_BETWEEN(files_are_not_standard_streams, begin_saves, end_saves)
{
  tamis_filter *f;
  pid_t child = fork_child();
  if (child == 0) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
      close(fd);
    bool good = tamis_save_file(old, path) == TAMIS_OK && !sys.standard;
    good &= tamis_load_file(NULL, path, &f) == TAMIS_OK && !sys.standard;
    tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
    good &= tamis_open_shared(&options, NULL, &f) == TAMIS_OK && !sys.standard;
    _exit(good ? 0 : 1);
  }
  assert_int_equal(wait_for(child), 0);
  assert_int_equal(what_is_there(), OLD);
}

TEST_BETWEEN(a_file_has_the_access_that_is_asked_for, begin_saves, end_saves)
{
  struct stat status;
  const tamis_file_access access = {0644, getgid()}, wrong = {0, -1};
  mode_t mask = umask(0777);
  assert_int_equal(tamis_save_file_as(new, path, &access), TAMIS_OK);
  umask(mask);
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_mode & 07777, 0644);
  assert_int_equal(status.st_gid, getgid());
  assert_int_equal(tamis_save_file_as(old, path, &wrong), TAMIS_EINVAL);
  assert_int_equal(what_is_there(), NEW);
  assert_int_equal(tamis_save_file_as(old, path, NULL), TAMIS_OK);
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_mode & 07777, 0600);
  assert_int_equal(count_files(false), 1);
}

/* A child saves, and what happens at a call of it. */
static pid_t save_in_child(const tamis_filter *f, enum what what, unsigned at)
{
  pid_t child = fork_child();
  if (child)
    return child;
  arm(what, at, 0);
  int result = tamis_save_file(f, path);
  if (what == WAIT && sys.calls < at) /* it has not waited */
    (void) !__real_write(sys.ready[1], "", 1);
  _exit(result != TAMIS_OK ? 3 : sys.calls < at ? 1 : 2);
}

/* Whatever call the process is killed at, the old file is there, or the new one.  However often saves are killed,
 * there is at most one unfinished file, and none after a save that is not killed. */
TEST_BETWEEN(a_process_that_is_killed_leaves_a_whole_file, begin_saves, end_saves)
{
  unsigned left = 0;
  for (unsigned exists = 0; exists < 2; exists++)
    for (enum what what = DIE_BEFORE; what <= DIE_INSIDE; what++) {
      bool died = true, seen_new = false;
      for (unsigned at = 1; died; at++) {
        unlink(path);
        if (exists)
          assert_int_equal(tamis_save_file(old, path), TAMIS_OK);
        died = wait_for(save_in_child(new, what, at)) != 1;
        const uint64_t there = what_is_there();
        const unsigned files = count_files(false);
        assert_true(there == NEW || (died && there == (exists ? OLD : 0)));
        if (what != DIE_INSIDE) { /* which is not at every call */
          assert_true(!seen_new || there == NEW);
          seen_new |= there == NEW;
        }
        assert_in_range(files, 0, 2);
        left += files > (there != 0);
      }
      assert_int_equal(count_files(false), 1);
    }
  assert_true(left > 10);
}

/* Whatever call fails, the error is reported, the old file is there, and nothing beside it.  Only
 * the closing of the folder cannot fail in a way that matters; and when the folder could not be
 * synchronised, the new file is there. */
TEST_BETWEEN(a_call_that_fails_leaves_a_whole_file, begin_saves, end_saves)
{
  const int errors[] = {ENOSPC, EIO, EDQUOT};
  for (unsigned e = 0; e < 3; e++)
    for (unsigned at = 1;; at++) {
      assert_int_equal(tamis_save_file(old, path), TAMIS_OK);
      arm(FAIL, at, errors[e]);
      int result = tamis_save_file(new, path), error = errno;
      bool happened = sys.calls >= at;
      sys.armed = false;
      assert_true(result == TAMIS_OK || (result == TAMIS_EIO && error == errors[e]));
      assert_int_equal(what_is_there(), sys.renamed ? NEW : OLD);
      assert_int_equal(count_files(false), 1);
      assert_true(result != TAMIS_OK || sys.renamed);
      if (!happened)
        break;
    }
}

TEST_BETWEEN(calls_that_are_interrupted_or_short_are_repeated, begin_saves, end_saves)
{
  tamis_filter *f;
  const size_t most[] = {0, 1000, 4096, 65537};
  for (unsigned i = 0; i < 4; i++) {
    sys.armed = true;
    sys.interrupted = true;
    sys.most = most[i];
    assert_int_equal(tamis_save_file(new, path), TAMIS_OK);
    assert_int_equal(tamis_load_file(NULL, path, &f), TAMIS_OK);
    sys.armed = false;
    assert_true(has(f, NEW));
    assert_valid(f);
    tamis_destroy(f);
  }
}

TEST_BETWEEN(reads_that_fail_are_reported, begin_saves, end_saves)
{
  tamis_filter *f;
  assert_int_equal(tamis_save_file(new, path), TAMIS_OK);
  for (unsigned map = 0; map < 2; map++)
    for (unsigned at = 1;; at++) {
      arm(FAIL, at, EIO);
      int result = (map ? tamis_map_file : tamis_load_file)(NULL, path, &f), error = errno;
      sys.armed = false;
      if (result == TAMIS_OK) { /* the call that fails is that of close(), or there was none */
        tamis_destroy(f);
        if (sys.calls < at)
          break;
        continue;
      }
      assert_int_equal(result, TAMIS_EIO);
      assert_int_equal(error, EIO);
      assert_null(f);
    }
}

/* A save stands still at each call in turn while another one comes and goes.  What it writes is not
 * taken away, and it is whole in the end. */
TEST_BETWEEN(a_file_that_is_being_written_is_no_leftover, begin_saves, end_saves)
{
  assert_int_equal(pipe(sys.ready) | pipe(sys.go), 0);
  int end = 0;
  bool beside = false;
  for (unsigned at = 1; end != 1; at++) {
    char c = 0;
    unlink(path);
    pid_t child = save_in_child(new, WAIT, at);
    assert_int_equal(read(sys.ready[0], &c, 1), 1);
    bool renamed = what_is_there() == NEW;
    assert_int_equal(tamis_save_file(old, path), TAMIS_OK);
    assert_int_equal(what_is_there(), OLD);
    beside |= count_files(false) == 2;
    assert_int_equal(write(sys.go[1], &c, 1), 1);
    end = wait_for(child);
    if (end == 1)
      assert_int_equal(read(sys.go[0], &c, 1), 1); /* it has not waited */
    assert_in_range(end, 1, 2);
    assert_int_equal(what_is_there(), renamed ? OLD : NEW);
    assert_int_equal(count_files(false), 1);
  }
  assert_true(beside);
  for (unsigned i = 0; i < 2; i++) {
    close(sys.ready[i]);
    close(sys.go[i]);
  }
}

/* Makes an entry of the folder whose name is one of an unfinished file. */
static int make_beside(const char *more, int flags)
{
  char beside[128];
  snprintf(beside, sizeof beside, "%s.tamis-unfinished-%s", path, more);
  int fd = __real_open(beside, flags | O_CREAT | O_RDWR, 0600);
  assert_true(fd >= 0);
  return fd;
}

/* Only files of one's own that nobody has locked are leftovers, and no link is followed. */
TEST_BETWEEN(what_is_not_a_leftover_stays, begin_saves, end_saves)
{
  char beside[128];
  int locked = make_beside("0", 0), leftover = make_beside("2", 0);
  assert_int_equal(__real_flock(locked, LOCK_EX), 0);
  snprintf(beside, sizeof beside, "%s.tamis-unfinished-1", path);
  assert_int_equal(symlink("shared.tamis.tamis-unfinished-2", beside), 0);
  snprintf(beside, sizeof beside, "%s.tamis-unfinished-3", path);
  assert_int_equal(mkfifo(beside, 0600), 0);
  if (geteuid() == 0)
    assert_int_equal(fchown(make_beside("4", 0), 65534, 65534), 0);
  unsigned before = count_files(false);
  assert_int_equal(tamis_save_file(new, path), TAMIS_OK);
  assert_int_equal(count_files(false), before); /* one more, one less */
  struct stat status;
  assert_int_equal(fstat(leftover, &status), 0);
  assert_int_equal(status.st_nlink, 0);
  assert_int_equal(fstat(locked, &status), 0);
  assert_int_equal(status.st_nlink, 1);
  close(locked);
  close(leftover);
}

/* Without locks that all can see, nothing is taken for a leftover, and saves are as good. */
TEST_BETWEEN(without_locks_nothing_is_a_leftover, begin_saves, end_saves)
{
  close(make_beside("0", 0));
  for (unsigned i = 0; i < 2; i++) {
    sys.network = i == 0;
    sys.no_locks = i == 1;
    unlink(path);
    assert_int_equal(tamis_save_file(new, path), TAMIS_OK);
    assert_int_equal(what_is_there(), NEW);
    assert_int_equal(count_files(false), 2);
  }
}

/* ---- paths ---- */

TEST_BETWEEN(paths_that_lead_nowhere_are_reported, begin_saves, end_saves)
{
  tamis_filter *g;
  char other[200], name[300];
  int (*const loads[])(const tamis_load_options *, const char *,
                       tamis_filter **) = {tamis_load_file, tamis_map_file};
  snprintf(other, sizeof other, "%s/none/shared.tamis", folder);
  for (unsigned i = 0; i < 2; i++) {
    assert_system_error(loads[i](NULL, other, &g), ENOENT);
    assert_null(g);
    assert_system_error(loads[i](NULL, folder, &g), i ? ENODEV : EISDIR);
    assert_int_equal(loads[i](NULL, NULL, &g), TAMIS_EINVAL);
    assert_int_equal(loads[i](NULL, path, NULL), TAMIS_EINVAL);
    assert_int_equal(loads[i](NULL, "/dev/null", &g), i ? TAMIS_EIO : TAMIS_ECORRUPT);
  }
  snprintf(name, sizeof name, "%s/fifo", folder);
  assert_int_equal(mkfifo(name, 0600), 0);
  assert_system_error(tamis_map_file(NULL, name, &g), ENODEV); /* and waits for no writer */
  unlink(name);
  assert_system_error(tamis_save_file(new, other), ENOENT);
  assert_system_error(tamis_save_file(new, folder), EISDIR);
  assert_system_error(tamis_save_file(new, ""), ENOENT);
  assert_system_error(tamis_save_file(new, "/dev/full"), ENOSPC);
  struct stat status;
  assert_int_equal(stat("/dev/full", &status), 0);
  assert_true(S_ISCHR(status.st_mode));
  assert_int_equal(tamis_save_file(new, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_save_file(NULL, path), TAMIS_EINVAL);
  memset(name, 'n', sizeof name);
  name[255] = '\0';
  snprintf(other, sizeof other, "%s/", folder);
  char *longest = malloc(strlen(other) + 256);
  assert_non_null(longest);
  strcpy(longest, other);
  strcat(longest, name); /* a name as long as names may be */
  assert_int_equal(tamis_save_file(new, longest), TAMIS_OK);
  assert_int_equal(tamis_load_file(NULL, longest, &g), TAMIS_OK);
  tamis_destroy(g);
  free(longest);
}

TEST_BETWEEN(a_link_stays_and_its_file_is_replaced, begin_saves, end_saves)
{
  char link[100], second[100];
  snprintf(link, sizeof link, "%s/link", folder);
  snprintf(second, sizeof second, "%s/second", folder);
  assert_int_equal(symlink("shared.tamis", link), 0);
  assert_int_equal(symlink(link, second), 0);
  for (unsigned i = 0; i < 2; i++) { /* to a file that does not exist yet, and to one that does */
    assert_int_equal(tamis_save_file(new, second), TAMIS_OK);
    assert_int_equal(what_is_there(), NEW);
    struct stat status;
    assert_int_equal(lstat(second, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(count_files(false), 3);
  }
  unlink(link);
  assert_int_equal(symlink("link", link), 0);
  assert_system_error(tamis_save_file(new, second), ELOOP);
}

TEST_BETWEEN(nothing_may_follow_in_a_file, begin_saves, end_saves)
{
  tamis_filter *g;
  assert_int_equal(tamis_save_file(new, path), TAMIS_OK);
  int fd = open(path, O_WRONLY | O_APPEND);
  assert_int_equal(write(fd, "", 1), 1);
  close(fd);
  assert_int_equal(tamis_load_file(NULL, path, &g), TAMIS_ECORRUPT);
  assert_null(g);
  assert_int_equal(tamis_map_file(NULL, path, &g), TAMIS_ECORRUPT);
  assert_null(g);
  for (off_t size = 0; size < 8192; size += 61) {
    assert_int_equal(truncate(path, size), 0);
    assert_int_equal(tamis_map_file(NULL, path, &g), TAMIS_ECORRUPT);
    assert_null(g);
  }
}
