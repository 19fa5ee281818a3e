/* SPDX-License-Identifier: MIT
 *
 * System calls and requests for memory that fail in calls on files, one after the other, and disks that are
 * full.
 *
 * A scene is played again and again: in the N-th run the N-th system call or request fails, until none is
 * left.  After the failure the same call is made again, and succeeds.  No descriptor is left open, no lock is
 * held, all memory has come back, no file is left that was not there and that the next creation does not
 * remove, and the file opens again and has all keys whose add had returned.  A wait for a lock that was left
 * ends the test by an alarm.  In another test, the N-th call succeeds, but just before it somebody else has
 * created the file.
 */
#define IN_MEMORY true
#include "shared_unit.h"

#include "bloom/bloom.h"
#include "window/create.h"
#include "window/table.h"
#include "wrapped_files.h"

#include <sys/mount.h>
#include <sys/resource.h>
#include <time.h>

/* ---- the system ---- */

static struct {
  bool armed;
  unsigned calls, fail_at; /* the call that fails, from 1 on */
  int error;
  const char *comes; /* it succeeds, but this file has got the shared one's name before */
  bool came;
  bool full;             /* no space can be reserved */
  unsigned reservations; /* that were tried */
  bool refused;          /* the last one */
  uint64_t free;         /* if `now` is set: bytes that the file system has */
  int64_t now;           /* in seconds; 0: the real time and space */
  unsigned blocks;       /* of memory */
} sys;

/* Whether the call is made. */
static bool begin_call(void)
{
  if (!sys.armed || ++sys.calls != sys.fail_at)
    return true;
  if (sys.comes)
    sys.came = link(sys.comes, shared_path) == 0;
  errno = sys.error;
  return sys.comes;
}

#define WRAP(type, name, parameters, arguments)                \
  type __real_##name parameters;                               \
  type __wrap_##name parameters                                \
  {                                                            \
    return begin_call() ? __real_##name arguments : (type) -1; \
  }

WRAP(ssize_t, pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
WRAP(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
WRAP(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
WRAP(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
WRAP(int, getentropy, (void *data, size_t size), (data, size))
WRAP(int, openat, (int at, const char *path, int flags, mode_t mode), (at, path, flags, mode))
WRAP(int, fstat, (int fd, struct stat *out), (fd, out))
WRAP(int, stat, (const char *path, struct stat *out), (path, out))
WRAP(int, ftruncate, (int fd, off_t size), (fd, size))
WRAP(int, fsync, (int fd), (fd))
WRAP(int, msync, (void *at, size_t size, int flags), (at, size, flags))
WRAP(int, flock, (int fd, int operation), (fd, operation))
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags))
WRAP(int, renameat, (int from, const char *name, int to, const char *new), (from, name, to, new))
WRAP(int, linkat, (int from, const char *name, int to, const char *new, int flags),
     (from, name, to, new, flags))
WRAP(void *, mmap, (void *at, size_t size, int access, int flags, int fd, off_t from),
     (at, size, access, flags, fd, from))

int __wrap_open(const char *path, int flags, ...)
{
  va_list more;
  va_start(more, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
  va_end(more);
  return begin_call() ? __real_open(path, flags, mode) : -1;
}

/* The descriptor is closed in any case. */
int __wrap_close(int fd)
{
  int result = __real_close(fd);
  return begin_call() ? result : -1;
}

int __real_fcntl(int fd, int command, ...);

/* A lock that exists can be given back. */
int __wrap_fcntl(int fd, int command, ...)
{
  va_list more;
  va_start(more, command);
  void *argument = va_arg(more, void *);
  va_end(more);
  const bool unlocks = command == F_OFD_SETLK && ((struct flock *) argument)->l_type == F_UNLCK;
  return unlocks || begin_call() ? __real_fcntl(fd, command, argument) : -1;
}

int __real_fallocate(int fd, int mode, off_t at, off_t size);

int __wrap_fallocate(int fd, int mode, off_t at, off_t size)
{
  sys.reservations++;
  errno = ENOSPC;
  sys.refused = sys.full || !begin_call();
  return sys.refused ? -1 : __real_fallocate(fd, mode, at, size);
}

int __wrap_fstatfs(int fd, struct statfs *system)
{
  int result = begin_call() ? __real_fstatfs(fd, system) : -1;
  if (sys.now) {
    system->f_frsize = 1;
    system->f_bfree = sys.free;
  }
  return result;
}

int __real_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
  int result = __real_clock_gettime(clock, now);
  if (sys.now)
    now->tv_sec = sys.now;
  return result;
}

static void *allocate(void *unused, size_t alignment, size_t size)
{
  (void) unused;
  void *block = begin_call() ? aligned_alloc(alignment, (size + alignment - 1) & -alignment) : NULL;
  sys.blocks += block != NULL;
  return block;
}

static void release(void *unused, void *block, size_t alignment, size_t size)
{
  (void) unused, (void) alignment, (void) size;
  sys.blocks--;
  free(block);
}

static const tamis_allocator allocator = {allocate, release, NULL};

/* ---- what a scene has ---- */

static tamis_options options;
static tamis_filter *f, *made, *other; /* `f`: opened before the call; `made`: by the call */
static uint64_t keys;                  /* whose add has returned: from 0 on */
static char saved_path[sizeof shared_path + 8];

static void add_keys(tamis_filter *to, uint64_t n)
{
  for (keys = 0; keys < n; keys++)
    assert_true(tamis_add_hash(to, hash_of(keys)) >= 0);
}

static void assert_has_keys(const tamis_filter *of)
{
  assert_has(of, 0, keys);
  assert_valid(of);
}

/* How many keys go into the first layer: the next one opens another. */
static uint64_t keys_of_first_layer(void)
{
  static uint64_t n;
  if (n)
    return n;
  tamis_filter *first = open_shared(&options);
  while (stats_of(first).layers == 1)
    assert_true(tamis_add_hash(first, hash_of(n++)) >= 0);
  tamis_destroy(first);
  assert_int_equal(unlink(shared_path), 0);
  return --n;
}

static void begin_options(bool window)
{
  options = shared_options(TAMIS_LAYOUT_BLOCKED, !window);
  options.window = window ? 2 : 0;
  options.seed = 12345;
  options.allocator = &allocator;
}

static void prepare_nothing(void)
{
}

static void prepare_empty(void)
{
  close(open(shared_path, O_WRONLY | O_CREAT | O_EXCL, 0600));
}

static void prepare_file(void)
{
  tamis_filter *first = open_shared(&options);
  add_keys(first, 500);
  tamis_destroy(first);
}

/* As after a start of the machine.  (A tally and the state of a window begin at the same place.) */
static void prepare_start(void)
{
  const uint64_t boot = 42;
  prepare_file();
  write_file(4096 + (options.window ? offsetof(struct window_state, boot)
                                    : offsetof(struct bloom_tally, boot)),
             &boot, sizeof boot);
}

static void prepare_handle(void)
{
  prepare_file();
  f = open_shared(NULL);
}

static void prepare_full_layer(void)
{
  const uint64_t n = keys_of_first_layer();
  f = open_shared(&options);
  add_keys(f, n);
}

/* Locks the file as a process does that may only read the file. */
static int lock_as_reader(void)
{
  int reader = open(shared_path, O_RDONLY | O_CLOEXEC);
  struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
  assert_int_equal(fcntl(reader, F_OFD_SETLK, &lock), 0);
  return reader;
}

/* A handle has no name while somebody who reads has locked the file. */
static void prepare_nameless(void)
{
  prepare_file();
  int reader = lock_as_reader();
  f = open_shared(NULL);
  close(reader);
  assert_false(owner_has_name(&window_of(f)->owner));
}

static void prepare_other(void)
{
  prepare_full_layer();
  other = make_with_options(&options);
  add_hashes(other, 100000, 6000);
}

static void prepare_saved(void)
{
  prepare_handle();
  assert_int_equal(tamis_save_file(f, saved_path), TAMIS_OK);
}

static int call_open(void)
{
  return tamis_open_shared(&options, shared_path, &made);
}

static int call_open_memory(void)
{
  return tamis_open_shared(&options, NULL, &made);
}

static int call_open_descriptor(void)
{
  int fd = __real_open(shared_path, O_RDWR);
  int result = tamis_open_shared_fd(&options, fd, &made), error = errno;
  __real_close(fd);
  errno = error;
  return result;
}

static int call_check(void)
{
  return tamis_shared_check(&options, shared_path, NULL, 0);
}

static int call_add(void)
{
  return tamis_add_unique_hash(f, hash_of(keys));
}

static int call_add_many(void)
{
  uint64_t hashes[20];
  int results[20];
  for (uint64_t i = 0; i < 20; i++)
    hashes[i] = hash_of(keys - 10 + i);
  int result = tamis_add_unique_many_hash(f, hashes, 20, results);
  for (unsigned i = 0; i < 20; i++)
    assert_int_equal(tamis_contains_hash(f, hashes[i]), results[i] >= 0);
  return result;
}

static int call_merge(void)
{
  return tamis_merge(f, other);
}

static int call_sync(void)
{
  return tamis_sync(f);
}

static int call_save(void)
{
  return tamis_save_file(f, saved_path);
}

static int call_load(void)
{
  return tamis_load_file(NULL, saved_path, &made);
}

static int call_map(void)
{
  return tamis_map_file(NULL, saved_path, &made);
}

static int call_load_live(void)
{
  return tamis_load_file(NULL, shared_path, &made);
}

enum { OF_BOTH, OF_BLOOM, OF_WINDOW };

struct scene {
  const char *name;
  void (*prepare)(void);
  int (*call)(void);
  bool has_file; /* before the call */
  int of;        /* this kind only */
};

static const struct scene scenes[] = {
    {"create", prepare_nothing, call_open, false, OF_BOTH},
    {"memory", prepare_nothing, call_open_memory, false, OF_BOTH},
    {"fill", prepare_empty, call_open, true, OF_BOTH},
    {"fill a descriptor", prepare_empty, call_open_descriptor, true, OF_BOTH},
    {"open", prepare_file, call_open, true, OF_BOTH},
    {"open a descriptor", prepare_file, call_open_descriptor, true, OF_BOTH},
    {"open after a start", prepare_start, call_open, true, OF_BOTH},
    {"check what is not there", prepare_nothing, call_check, false, OF_BOTH},
    {"check what is empty", prepare_empty, call_check, true, OF_BOTH},
    {"check", prepare_file, call_check, true, OF_BOTH},
    {"add to a new layer", prepare_full_layer, call_add, true, OF_BLOOM},
    {"add many to a new layer", prepare_full_layer, call_add_many, true, OF_BLOOM},
    {"unite", prepare_other, call_merge, true, OF_BLOOM},
    {"get a name", prepare_nameless, call_add, true, OF_WINDOW},
    {"sync", prepare_handle, call_sync, true, OF_BOTH},
    {"save", prepare_handle, call_save, true, OF_BOTH},
    {"save again", prepare_saved, call_save, true, OF_BOTH},
    {"load", prepare_saved, call_load, true, OF_BOTH},
    {"map", prepare_saved, call_map, true, OF_BLOOM},
    {"load a live file", prepare_handle, call_load_live, true, OF_BOTH},
};

/* ---- what holds after a failure ---- */

static bool is_locked(void)
{
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  int fd = open(shared_path, O_RDWR);
  assert_int_equal(fcntl(fd, F_OFD_GETLK, &lock), 0);
  close(fd);
  return lock.l_type != F_UNLCK;
}

static void assert_no_lock_in_file(const tamis_filter *of)
{
  const struct window *w = const_window_of(of);
  assert_false(owned_held(&w->state->advancing) || owned_held(&w->state->saving) ||
               owned_held(&w->state->syncing));
  for (uint64_t i = 0; i <= w->stripes.mask; i++)
    assert_false(owned_held(&w->stripes.all[i].lock));
}

/* A write to what is not reserved ends the process when the disk is full. */
static void assert_reserved(const tamis_filter *of)
{
  struct stat status;
  assert_int_equal(stat(shared_path, &status), 0);
  assert_true((uint64_t) status.st_blocks * 512 >= stats_of(of).bits / 8);
}

/* A call that has failed has made nothing; the same call succeeds now. */
static void call_again(const struct scene *scene, int result)
{
  struct stat status;
  const bool exists = stat(shared_path, &status) == 0;
  if (result < 0) /* a file that is there is empty, or whole: its opening may have failed */
    assert_true(!made && exists >= scene->has_file && (exists == scene->has_file || !f));
  if (result < 0 && exists && status.st_size)
    assert_int_equal(tamis_shared_check(NULL, shared_path, NULL, 0), TAMIS_OK);
  if (scene->call == call_check)
    assert_int_equal(exists, scene->has_file);
  tamis_destroy(made);
  made = NULL;
  sys.now = 1; /* a refusal of space is long ago */
  sys.free = 1 << 30;
  result = scene->call();
  sys.now = 0;
  if (result < 0)
    fail_msg("%s: after call %u has failed: %d, errno %d", scene->name, sys.fail_at, result, errno);
  if (made)
    assert_has_keys(made);
  tamis_destroy(made);
  made = NULL;
}

static void end_scene(const struct scene *scene, int result, unsigned descriptors)
{
  call_again(scene, result);
  if (f) {
    assert_has_keys(f);
    assert_reserved(f);
    if (options.window)
      assert_no_lock_in_file(f);
  }
  tamis_destroy(f);
  tamis_destroy(other);
  f = other = NULL;
  assert_int_equal(count_descriptors(), descriptors);
  assert_int_equal(sys.blocks, 0);
  if (access(shared_path, F_OK) == 0 && scene->call != call_check) {
    assert_false(is_locked());
    tamis_filter *again = open_shared(NULL);
    assert_has_keys(again);
    tamis_destroy(again);
  }
  unlink(saved_path);
  unlink(shared_path);
  tamis_destroy(
      open_shared(&options)); /* removes what is left, as if its creator had been killed */
  unlink(shared_path);
  if (count_files(false))
    fail_msg("%s: call %u leaves a file", scene->name, sys.fail_at);
}

/* False: no call was left to fail. */
static bool play(const struct scene *scene, unsigned at, int error)
{
  keys = 0;
  alarm(PATIENCE_SECONDS);
  const unsigned descriptors = count_descriptors();
  scene->prepare();
  sys.calls = sys.refused = 0;
  sys.fail_at = at;
  sys.error = error;
  sys.armed = true;
  const int result = scene->call();
  sys.armed = false;
  if (sys.refused && result >= 0)
    fail_msg("%s: goes on without space", scene->name);
  if (result < 0 && result != TAMIS_EIO && result != TAMIS_ENOMEM)
    fail_msg("%s: call %u fails: %d", scene->name, at, result);
  end_scene(scene, result, descriptors);
  return sys.calls >= at;
}

static void play_all(bool window)
{
  begin_options(window);
  static const int errors[] = {EIO, ENOSPC, EINTR};
  for (unsigned i = 0; i < sizeof scenes / sizeof *scenes; i++)
    for (unsigned e = 0; e < 3; e++) {
      const struct scene *scene = &scenes[i];
      unsigned at = 1;
      if (scene->of != (window ? OF_BLOOM : OF_WINDOW))
        while (play(scene, at, errors[e]))
          at++;
      if (e == 0)
        print_message("%s: %u calls\n", scene->name, at - 1);
    }
}

static int begin_test(void **state)
{
  alarm(PATIENCE_SECONDS);
  int result = set_up(state);
  snprintf(saved_path, sizeof saved_path, "%s.saved", shared_path);
  return result;
}

TEST_BETWEEN(each_call_may_fail_with_bloom_filters, begin_test, tear_down)
{
  play_all(false);
}

TEST_BETWEEN(each_call_may_fail_with_windows, begin_test, tear_down)
{
  play_all(true);
}

/* After a restart of the machine, the first call mends the file, under the file's lock. */
TEST_BETWEEN(a_start_is_noted_under_the_lock, begin_test, tear_down)
{
  uint64_t boot;
  begin_options(false);
  prepare_start();
  int reader = lock_as_reader();
  assert_int_equal(call_open(), TAMIS_EIO);
  assert_int_equal(errno, EAGAIN);
  close(reader);
  assert_int_equal(call_open(), TAMIS_OK);
  read_file(4096 + offsetof(struct bloom_tally, boot), &boot, sizeof boot);
  assert_int_equal(boot, tamis__shared_file_boot());
  tamis_destroy(made);
  made = NULL;
}

/* A process with the descriptor cannot shrink memory that other processes have mapped. */
TEST_BETWEEN(shared_memory_keeps_its_size, begin_test, tear_down)
{
  begin_options(true);
  assert_int_equal(call_open_memory(), TAMIS_OK);
  assert_int_equal(ftruncate(window_of(made)->shared->file.fd, 0), -1);
  assert_int_equal(errno, EPERM);
  tamis_destroy(made);
  made = NULL;
}

/* ---- another process ---- */

/* Another file comes before any of the calls: it stays, and is the one that is opened. */
TEST_BETWEEN(a_file_that_comes_meanwhile_stays, begin_test, tear_down)
{
  unsigned came = 0;
  begin_options(false);
  sys.fail_at = sys.calls = 0;
  for (sys.comes = saved_path; sys.calls >= sys.fail_at; unlink(shared_path), unlink(saved_path)) {
    other = open_shared(&options);
    assert_int_equal(rename(shared_path, saved_path), 0);
    sys.calls = sys.came = 0;
    sys.fail_at++;
    sys.armed = true;
    int result = call_open();
    sys.armed = false;
    if (result != TAMIS_OK)
      fail_msg("call %u: %d, errno %d", sys.fail_at, result, errno);
    assert_int_equal(tamis_add_unique_hash(other, hash_of(1)), TAMIS_OK);
    if (tamis_contains_hash(made, hash_of(1)) != sys.came)
      fail_msg("call %u: the file that has come is %s", sys.fail_at,
               sys.came ? "replaced" : "open");
    came += sys.came;
    tamis_destroy(made), tamis_destroy(other);
  }
  made = other = NULL;
  sys.comes = NULL;
  assert_true(came > 1);
}

/* ---- space ---- */

/* After a refusal the file system is asked again when more is free, or in another second. */
TEST_BETWEEN(a_full_disk_is_asked_seldom, begin_test, tear_down)
{
  enum { TRIES = 1000, BATCH = 20 };
  begin_options(false);
  prepare_full_layer();
  uint64_t hashes[BATCH];
  int results[BATCH];
  for (uint64_t i = 0; i < BATCH; i++) /* half of them are in */
    hashes[i] = hash_of(i % 2 ? i : keys + i);
  sys.full = true;
  sys.now = 5;
  sys.free = 100;
  sys.reservations = 0;
  for (uint64_t i = 0; i < TRIES; i++) {
    assert_int_equal(call_add(), TAMIS_EIO);
    assert_int_equal(errno, ENOSPC);
  }
  assert_int_equal(tamis_add_unique_many_hash(f, hashes, BATCH, results), TAMIS_EIO);
  for (unsigned i = 0; i < BATCH; i++)
    assert_int_equal(results[i], i % 2 ? TAMIS_PRESENT : TAMIS_EIO);
  assert_int_equal(sys.reservations, 1);
  sys.free = 200; /* too little */
  assert_int_equal(call_add(), TAMIS_EIO);
  assert_int_equal(sys.reservations, 1);
  sys.now++;
  assert_int_equal(call_add(), TAMIS_EIO);
  assert_int_equal(call_add(), TAMIS_EIO);
  assert_int_equal(sys.reservations, 2);
  sys.free = 1 << 20;
  sys.full = false;
  assert_int_equal(call_add(), TAMIS_OK);
  assert_int_equal(sys.reservations, 3);
  sys.now = 0;
  tamis_destroy(f);
  f = NULL;
}

/* A small disk is filled: by adds, a union, checkpoints and creations.  No process dies by SIGBUS. */
static int fill_disk(void)
{
  char why[300];
  begin_options(false);
  options.max_bytes = 4 << 20;
  prepare_other();
  int result = TAMIS_OK;
  for (uint64_t key = keys; result != TAMIS_EIO; key++)
    result = tamis_add_hash(f, hash_of(key));
  assert_int_equal(errno, ENOSPC);
  for (uint64_t key = 0; key < 200000; key++)
    (void) tamis_add_hash(other, hash_of(key << 20));
  (void) tamis_merge(f, other);
  for (uint64_t key = 0; key < 100; key++)
    (void) tamis_add_hash(f, hash_of(key << 21));
  assert_has_keys(f);
  snprintf(shared_path, sizeof shared_path, "%s/second", shared_folder);
  begin_options(true);
  options.capacity = 1000000;
  assert_int_equal(call_open(), TAMIS_EIO);
  assert_int_equal(errno, ENOSPC);
  assert_int_equal(tamis_shared_check(&options, shared_path, why, sizeof why), TAMIS_EIO);
  assert_non_null(strstr(why, "second cannot be written: No space left on device"));
  assert_int_equal(count_files(false), 1);
  assert_int_equal(mount("none", shared_folder, "tmpfs", MS_REMOUNT, "size=8m"), 0);
  const unsigned layers = stats_of(f).layers;
  for (uint64_t key = 0; stats_of(f).layers == layers; key++)
    assert_int_equal(tamis_add_hash(f, hash_of(key << 22)), TAMIS_OK);
  return 0;
}

TEST_BETWEEN(nobody_dies_on_a_full_disk, begin_test, tear_down)
{
  enum { SKIPPED = 77 };
  pid_t child = fork_child();
  if (child == 0)
    _exit(unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
                  mount("none", shared_folder, "tmpfs", 0, "size=200k")
              ? SKIPPED
              : fill_disk());
  const int status = wait_for(child);
  if (status == SKIPPED)
    skip();
  assert_int_equal(status, 0);
}

/* Files may not be so long: an error, and no signal. */
static int call_with_limit(void)
{
  char why[300];
  enum { LIMIT = 3000 };
  for (unsigned window = 0; window < 2; window++) {
    begin_options(window);
    options.capacity = 8000; /* a saved file is not packed, so it is longer than the limit */
    snprintf(shared_path, sizeof shared_path, "%s/shared", shared_folder);
    prepare_handle();
    const struct rlimit limit = {LIMIT, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(call_sync(), window ? TAMIS_EIO : TAMIS_OK);
    assert_int_equal(call_save(), TAMIS_EIO);
    assert_int_equal(errno, EFBIG);
    assert_true(call_load_live() == (window ? TAMIS_EIO : TAMIS_OK));
    assert_int_equal(call_open_memory(), TAMIS_EIO);
    assert_int_equal(errno, EFBIG);
    shared_path[strlen(shared_path) - 1] = '\0'; /* another one */
    assert_int_equal(call_open(), TAMIS_EIO);
    assert_int_equal(errno, EFBIG);
    assert_int_equal(tamis_shared_check(&options, shared_path, why, sizeof why), TAMIS_EIO);
    assert_non_null(strstr(why, "cannot be written: File too large"));
    prepare_empty();
    assert_int_equal(call_open(), TAMIS_EIO);
    struct stat status;
    assert_true(stat(shared_path, &status) == 0 && status.st_size == 0);
    assert_int_equal(count_files(true), 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
  }
  return 0;
}

TEST_BETWEEN(a_limit_is_an_error, begin_test, tear_down)
{
  pid_t child = fork_child();
  if (child == 0)
    _exit(call_with_limit());
  assert_int_equal(wait_for(child), 0);
}
