/* SPDX-License-Identifier: MIT
 *
 * The files of filters that processes share: what is opened, what is refused and why, who creates
 * one of several processes, and what those leave that are killed.
 */
#define IN_MEMORY true
#include "base/saved.h"
#include "base/shared_file.h"
#include "shared_unit.h"

/* ---- options ---- */

static void assert_says(const tamis_options *options, int expected, const char *text)
{
  char why[400] = "nothing";
  tamis_filter *f = (tamis_filter *) why;
  unsigned descriptors = count_descriptors();
  assert_int_equal(tamis_shared_check(options, shared_path, why, sizeof why), expected);
  if (!strstr(why, text))
    fail_msg("\"%s\" does not say \"%s\"", why, text);
  assert_int_equal(tamis_open_shared(options, shared_path, &f), expected);
  if (expected != TAMIS_OK)
    assert_null(f);
  assert_int_equal(tamis_shared_check(options, shared_path, NULL, 0), expected);
  tamis_destroy(expected == TAMIS_OK ? f : NULL);
  assert_int_equal(count_descriptors(), descriptors);
}

static void *first_kib(void)
{
  static unsigned char bytes[1024];
  read_file(0, bytes, sizeof bytes);
  return bytes;
}

static uint64_t hash_anything(void *context, const void *key, size_t size, uint64_t seed)
{
  (void) context;
  return hash_sum(key, size, seed);
}

/* The statements change the options `o`. */
#define SAYS(expected, text, ...)    \
  do {                               \
    tamis_options o = original;      \
    __VA_ARGS__;                     \
    assert_says(&o, expected, text); \
  } while (0)

TEST_BETWEEN(options_that_contradict_are_named, set_up, tear_down)
{
  tamis_options original = shared_options(TAMIS_LAYOUT_BLOCKED, true);
  original.seed = 7;
  tamis_filter *f = open_shared(&original);
  assert_int_equal(tamis_add(f, "key", 3), TAMIS_OK);
  unsigned char before[1024];
  memcpy(before, first_kib(), sizeof before);
  SAYS(TAMIS_EINVAL, "kind", o.kind = TAMIS_CUCKOO);
  SAYS(TAMIS_EUNSUPPORTED, "kind", o.kind = TAMIS_COUNTING_BLOOM);
  SAYS(TAMIS_EINVAL, "capacity", o.capacity++);
  SAYS(TAMIS_EINVAL, "fpp", o.fpp = 0.002);
  SAYS(TAMIS_EINVAL, "growable", o.growable = false);
  SAYS(TAMIS_EINVAL, "max_bytes", o.max_bytes++);
  SAYS(TAMIS_EINVAL, "layout", o.layout = TAMIS_LAYOUT_CLASSIC);
  SAYS(TAMIS_EINVAL, "seed", o.seed = 8);
  SAYS(TAMIS_EUNSUPPORTED, "hash", o.hash = hash_anything);
  SAYS(TAMIS_EINVAL, "window", o.window = 2);
  assert_memory_equal(before, first_kib(), sizeof before);
  SAYS(TAMIS_OK, "", o.seed = o.max_bytes = 0); /* whatever the file has */
  assert_says(NULL, TAMIS_OK, "");
  assert_true(tamis_contains(f, "key", 3));
  tamis_destroy(f);
  unlink(shared_path);
  original = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  original.window = 4;
  tamis_destroy(open_shared(&original));
  SAYS(TAMIS_OK, "", o.layout = TAMIS_LAYOUT_CLASSIC); /* which means nothing */
  SAYS(TAMIS_EINVAL, "window is 5; the filter in the file has 4", o.window = 5);
  SAYS(TAMIS_EINVAL, "window", o.window = 0);
  SAYS(TAMIS_EINVAL, "window_renews", o.window_renews = true);
  SAYS(TAMIS_EINVAL, "capacity", o.capacity++);
  assert_int_equal(count_files(false), 1);
}

TEST_BETWEEN(options_of_a_new_file_are_checked, set_up, tear_down)
{
  const tamis_options original = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  SAYS(TAMIS_EINVAL, "max_bytes", o.growable = true);
  SAYS(TAMIS_EFULL, "max_bytes", o.growable = true,
       o.max_bytes = 100); /* the first layer is larger */
  SAYS(TAMIS_EINVAL, "capacity", o.capacity = 0);
  SAYS(TAMIS_EINVAL, "struct_size", o.struct_size = 3);
  SAYS(TAMIS_EUNSUPPORTED, "growable", o.window = 4, o.growable = true, o.max_bytes = 1 << 20);
  SAYS(TAMIS_EUNSUPPORTED, "(TAMIS_CUCKOO) with a window; a filter that processes share must be",
       o.window = 4, o.kind = TAMIS_CUCKOO);
  SAYS(TAMIS_EUNSUPPORTED, "or without a window of kind 2 (TAMIS_CUCKOO)",
       o.kind = TAMIS_COUNTING_BLOOM);
  SAYS(TAMIS_EUNSUPPORTED, "a cuckoo filter that processes share has a fixed size",
       o.kind = TAMIS_CUCKOO, o.growable = true, o.fpp = 1e-8);
  SAYS(TAMIS_EUNSUPPORTED, "a cuckoo filter that processes share for 1000 keys needs at least",
       o.kind = TAMIS_CUCKOO, o.fpp = 1e-9);
  SAYS(TAMIS_EFULL, "max_bytes", o.window = 4, o.max_bytes = 100);
  assert_says(NULL, TAMIS_EIO, "no options");
  assert_int_equal(tamis_open_shared(&original, shared_path, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_open_shared_fd(&original, 0, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_shared_check(&original, shared_path, NULL, 0), TAMIS_OK);
  assert_int_equal(tamis_shared_check(&original, NULL, NULL, 0), TAMIS_OK);
  assert_int_equal(tamis_shared_check(NULL, NULL, NULL, 0), TAMIS_EINVAL);
  assert_int_equal(tamis_open_shared(NULL, NULL, &(tamis_filter *){NULL}), TAMIS_EINVAL);
  assert_int_equal(count_files(false), 0);
}

/* ---- what is no shared filter ---- */

static void assert_refused(int expected, int error)
{
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  const tamis_options *const wanted[] = {&options, NULL};
  unsigned descriptors = count_descriptors();
  for (unsigned i = 0; i < 2; i++) {
    tamis_filter *f = (tamis_filter *) &options;
    char why[400] = "";
    errno = 0;
    int result = tamis_open_shared(wanted[i], shared_path, &f);
    if (result != expected || (error && errno != error))
      fail_msg("%d instead of %d, errno %d", result, expected, errno);
    assert_null(f);
    assert_int_equal(tamis_shared_check(wanted[i], shared_path, why, sizeof why), expected);
    assert_non_null(strstr(why, shared_path));
  }
  assert_int_equal(count_descriptors(), descriptors);
}

static void write_anew(const void *data, size_t size)
{
  unlink(shared_path);
  int fd = open(shared_path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  assert_int_equal(write(fd, data, size), size);
  close(fd);
}

TEST_BETWEEN(no_regular_file_is_refused, set_up, tear_down)
{
  const struct {
    const char *leads_to; /* NULL: a queue */
    int error;
  } links[] = {{NULL, ENODEV},
               {"/", EISDIR},
               {"/dev/null", ENODEV},
               {shared_path, ELOOP},
               {"/nonexistent/folder/file", ENOENT}};
  for (unsigned i = 0; i < sizeof links / sizeof *links; i++) {
    assert_int_equal(
        links[i].leads_to ? symlink(links[i].leads_to, shared_path) : mkfifo(shared_path, 0600), 0);
    assert_refused(TAMIS_EIO, links[i].error);
    unlink(shared_path);
  }
  static const char name[] = "/proc/self/comm"; /* regular, empty, and can be written */
  const struct {
    const char *path, *why;
    int error;
  } paths[] = {{"", "an empty path cannot be created: No such file or directory", ENOENT},
               {name, "/proc/self/comm cannot be written: Operation not supported", EOPNOTSUPP}};
  char why[200], before[64] = "", after[64] = "";
  int fd = open(name, O_RDONLY);
  (void) !read(fd, before, sizeof before - 1);
  for (unsigned i = 0; i < 2; i++) {
    tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
    tamis_filter *f;
    assert_int_equal(tamis_open_shared(&options, paths[i].path, &f), TAMIS_EIO);
    assert_int_equal(errno, paths[i].error);
    assert_int_equal(tamis_shared_check(&options, paths[i].path, why, sizeof why), TAMIS_EIO);
    assert_string_equal(why, paths[i].why);
  }
  (void) !pread(fd, after, sizeof after - 1, 0);
  close(fd);
  assert_string_equal(before, after);
  /* The open and the check give the same reason if the path and the options are wrong. */
  tamis_options limitless = shared_options(TAMIS_LAYOUT_BLOCKED, true);
  limitless.max_bytes = 0;
  tamis_filter *f;
  assert_int_equal(tamis_open_shared(&limitless, "/nonexistent/file", &f), TAMIS_EINVAL);
  assert_int_equal(tamis_shared_check(&limitless, "/nonexistent/file", NULL, 0), TAMIS_EINVAL);
  assert_int_equal(count_files(false), 0);
}

TEST_BETWEEN(files_of_others_are_left_alone, set_up, tear_down)
{
  enum { SIZE = 70000 };
  static unsigned char there[SIZE];
  const size_t sizes[] = {1, 8, 511, 512, 513, 4096, SIZE};
  for (unsigned way = 0; way < 3; way++)
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      static unsigned char data[SIZE];
      memset(data, way == 1 ? 'x' : 0, sizeof data);
      if (way == 2) /* as an image of a disk begins */
        data[sizes[i] - 1] = 1;
      write_anew(data, sizes[i]);
      assert_refused(TAMIS_ECORRUPT, 0);
      read_file(0, there, sizes[i]);
      assert_memory_equal(there, data, sizes[i]);
    }
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.001);
  assert_int_equal(tamis_save_file(f, shared_path), TAMIS_OK);
  tamis_destroy(f);
  assert_refused(TAMIS_EUNSUPPORTED, 0);
  assert_int_equal(tamis_load_file(NULL, shared_path, &f), TAMIS_OK);
  tamis_destroy(f);
}

/* Each byte of the header, and of the blocks after it; and each length. */
TEST_BETWEEN(damage_is_found, set_up, tear_down)
{
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, true);
  enum { BYTES = 512 + 3 * 128 };
  static unsigned char good[BYTES];
  tamis_filter *f = NULL;
  struct stat status;
  tamis_destroy(open_shared(&options));
  read_file(0, good, BYTES);
  for (unsigned at = 0; at < BYTES; at++)
    for (unsigned bit = 0; bit < 8; bit += 7) {
      unsigned char bad = good[at] ^ (unsigned char) (1 << bit);
      write_file(at, &bad, 1);
      for (unsigned way = 0; way < 2; way++) {
        int result =
            way ? tamis_load_file(NULL, shared_path, &f) : tamis_open_shared(NULL, shared_path, &f);
        assert_true(result == TAMIS_ECORRUPT || result == TAMIS_EUNSUPPORTED);
        assert_null(f);
      }
      write_file(at, &good[at], 1);
    }
  assert_int_equal(stat(shared_path, &status), 0);
  for (off_t size = 8; size < status.st_size + 4096; size += size < 600 ? 8 : 4000) {
    if (size == status.st_size)
      continue;
    assert_int_equal(truncate(shared_path, status.st_size), 0);
    write_file(0, good, BYTES);
    assert_int_equal(truncate(shared_path, size), 0);
    assert_int_equal(tamis_open_shared(NULL, shared_path, &f), TAMIS_ECORRUPT);
  }
}

/* ---- names ---- */

/* A new file is for its owner, who may let others into an empty one. */
TEST_BETWEEN(a_file_has_the_mode_that_its_owner_gives, set_up, tear_down)
{
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  const mode_t masks[] = {0, 022, 0777};
  for (unsigned i = 0; i < 4; i++) {
    struct stat status;
    unlink(shared_path);
    mode_t mask = umask(masks[i % 3]);
    if (i == 3)
      write_anew("", 0);
    assert_int_equal(i == 3 ? chmod(shared_path, 0660) : 0, 0);
    tamis_destroy(open_shared(&options));
    umask(mask);
    assert_int_equal(stat(shared_path, &status), 0);
    assert_int_equal(status.st_mode & 07777, i == 3 ? 0660 : 0600);
    assert_int_equal(status.st_nlink, 1);
  }
  assert_int_equal(count_files(false), 1);
}

/* `access` counts for the file that the call creates, whatever the umask is. */
TEST_BETWEEN(a_created_file_has_the_access_that_is_asked_for, set_up, tear_down)
{
  tamis_file_access access = {0660, getgid()};
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  options.access = &access;
  struct stat status;
  unlink(shared_path);
  mode_t mask = umask(0777);
  assert_int_equal(tamis_shared_check(&options, shared_path, NULL, 0), TAMIS_OK);
  tamis_destroy(open_shared(&options));
  access.mode = 0604; /* too late */
  tamis_destroy(open_shared(&options));
  umask(mask);
  assert_int_equal(stat(shared_path, &status), 0);
  assert_int_equal(status.st_mode & 07777, 0660);
  assert_int_equal(status.st_gid, getgid());
  const tamis_file_access wrong[] = {{0, -1},    {0060, -1}, {01600, -1},
                                     {0400, -1}, {0600, -2}, {0600, UINT32_MAX}};
  for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    tamis_filter *f;
    options.access = &wrong[i];
    assert_int_equal(tamis_open_shared(&options, shared_path, &f), TAMIS_EINVAL);
    assert_says(&options, TAMIS_EINVAL, "the mode must be from 0600 to 0777");
  }
}

/* A group that the process may not give its files to leaves no file. */
TEST_BETWEEN(a_group_of_others_is_refused, set_up, tear_down)
{
  const bool root = !geteuid();
  const gid_t groups[] = {1, 2};
  const tamis_file_access access = {0640, groups[getegid() == groups[0]]};
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  options.access = &access;
  tamis_filter *f = NULL;
  char why[300];
  unlink(shared_path);
  assert_int_equal(chmod(shared_folder, 0777), 0);
  assert_int_equal(root ? seteuid(65534) : 0, 0);
  errno = 0;
  const int result = tamis_open_shared(&options, shared_path, &f), error = errno;
  const int checked = tamis_shared_check(&options, shared_path, why, sizeof why);
  assert_int_equal(root ? seteuid(0) : 0, 0);
  assert_int_equal(result, TAMIS_EIO);
  assert_int_equal(error, EPERM);
  assert_int_equal(checked, TAMIS_EIO);
  assert_non_null(strstr(why, "cannot be given the mode and the group"));
  assert_int_equal(count_files(false), 0);
}

TEST_BETWEEN(links_are_followed, set_up, tear_down)
{
  char link[sizeof shared_path + 8];
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  tamis_filter *a, *b = NULL;
  snprintf(link, sizeof link, "%s.link", shared_path);
  assert_int_equal(symlink("shared.tamis", link), 0);
  assert_int_equal(tamis_open_shared(&options, link, &a), TAMIS_OK); /* creates what it leads to */
  assert_int_equal(tamis_open_shared(NULL, shared_path, &b), TAMIS_OK);
  assert_int_equal(tamis_add(a, "key", 3), TAMIS_OK);
  assert_true(tamis_contains(b, "key", 3));
  struct stat status;
  assert_int_equal(lstat(link, &status), 0);
  assert_true(S_ISLNK(status.st_mode));
  assert_int_equal(count_files(false), 2);
  tamis_destroy(a);
  tamis_destroy(b);
}

/* ---- descriptors ---- */

TEST_BETWEEN(descriptors_stay_the_callers, set_up, tear_down)
{
  tamis_options options = shared_options(TAMIS_LAYOUT_WORD, true);
  options.seed = 42; /* with which the last key is not found by chance */
  for (unsigned way = 0; way < 3; way++) {
    int fd = way == 0   ? memfd_create("test", MFD_CLOEXEC)
             : way == 1 ? open(shared_path, O_RDWR | O_CREAT | O_EXCL, 0600)
                        : open(shared_folder, O_RDWR | O_TMPFILE, 0600);
    assert_true(fd >= 0);
    if (way == 1)
      unlink(shared_path);
    unsigned descriptors = count_descriptors();
    tamis_filter *a = NULL, *b = NULL;
    assert_int_equal(tamis_open_shared_fd(NULL, fd, &a), TAMIS_EIO); /* it is empty */
    assert_int_equal(tamis_open_shared_fd(&options, fd, &a), TAMIS_OK);
    assert_int_equal(tamis_open_shared_fd(NULL, fd, &b), TAMIS_OK);
    add_hashes(a, 0, 5000);
    assert_true(stats_of(b).layers > 1);
    assert_int_equal(tamis_add_unique(a, "key", 3), TAMIS_OK);
    assert_int_equal(tamis_add_unique(b, "key", 3), TAMIS_PRESENT);
    assert_int_equal(stats_of(a).seed, stats_of(b).seed);
    assert_valid(a);
    tamis_destroy(a);
    tamis_destroy(b);
    assert_int_equal(count_descriptors(), descriptors);
    char magic[8];
    assert_int_equal(pread(fd, magic, sizeof magic, 0), 8);
    assert_memory_equal(magic, SAVED_MAGIC, 8);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    assert_int_equal(tamis_open_shared_fd(&options, fd, &a), TAMIS_OK);
    close(fd);
    assert_true(tamis_contains(a, "key", 3)); /* it has its own */
    assert_int_equal(tamis_sync(a), TAMIS_OK);
    tamis_destroy(a);
  }
}

TEST_BETWEEN(bad_descriptors_are_refused, set_up, tear_down)
{
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  int ends[2], closed = dup(0);
  assert_int_equal(pipe(ends), 0);
  close(closed);
  const struct {
    int fd, result, error;
  } bad[] = {{-1, TAMIS_EINVAL, 0},
             {closed, TAMIS_EIO, EBADF},
             {ends[0], TAMIS_EIO, ENODEV},
             {ends[1], TAMIS_EIO, ENODEV}};
  for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
    tamis_filter *f = (tamis_filter *) &options;
    errno = 0;
    assert_int_equal(tamis_open_shared_fd(&options, bad[i].fd, &f), bad[i].result);
    assert_int_equal(errno, bad[i].error);
    assert_null(f);
  }
  close(ends[0]);
  close(ends[1]);
}

/* Its file cannot be opened again, and pwrite() to the descriptor would write to the file's end. */
TEST_BETWEEN(a_descriptor_that_appends_is_refused, set_up, tear_down)
{
  const bool root = geteuid() == 0;
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, false);
  tamis_filter *f;
  int fd = open(shared_path, O_RDWR | O_CREAT | O_APPEND, 0);
  assert_int_equal(root ? seteuid(65534) : 0, 0);
  const int result = tamis_open_shared_fd(&options, fd, &f), error = errno;
  assert_int_equal(root ? seteuid(0) : 0, 0);
  assert_int_equal(result, TAMIS_EIO);
  assert_int_equal(error, EACCES);
  assert_int_equal(lseek(fd, 0, SEEK_END), 0);
  close(fd);
}

/* ---- several processes ---- */

/* Memory that children write their results to. */
static void *shared_memory(size_t size)
{
  void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(at != MAP_FAILED);
  return at;
}

enum { PROCESSES = 8 };

struct start {
  _Atomic unsigned ready, winners;
  uint64_t seeds[PROCESSES];
};

/* Opens it at the same moment as the others, and adds a key. */
static void open_at_once(struct start *start, unsigned number, int fd)
{
  tamis_options options = shared_options(TAMIS_LAYOUT_BLOCKED, true);
  tamis_filter *f = NULL;
  tamis_stats s = TAMIS_STATS_INIT;
  start->ready++;
  while (start->ready < PROCESSES)
    sched_yield();
  int result = fd < 0 ? tamis_open_shared(&options, shared_path, &f)
                      : tamis_open_shared_fd(&options, fd, &f);
  if (result != TAMIS_OK)
    _exit(10 - result);
  start->winners += tamis_add_unique_hash(f, hash_of(1)) == TAMIS_OK;
  (void) tamis_get_stats(f, &s);
  start->seeds[number] = s.seed;
  _exit(!tamis_contains_hash(f, hash_of(1)));
}

/* By its name; or `fd`, an inherited descriptor. */
static void start_at_once(int fd)
{
  struct start *start = shared_memory(sizeof *start);
  pid_t children[PROCESSES];
  for (unsigned i = 0; i < PROCESSES; i++) {
    children[i] = fork_child();
    if (children[i] == 0)
      open_at_once(start, i, fd);
  }
  for (unsigned i = 0; i < PROCESSES; i++)
    assert_int_equal(wait_for(children[i]), 0);
  assert_int_equal(start->winners, 1);
  for (unsigned i = 1; i < PROCESSES; i++)
    assert_int_equal(start->seeds[i], start->seeds[0]);
  munmap(start, sizeof *start);
}

/* Or fills one that is empty, or memory. */
TEST_BETWEEN(one_of_many_processes_creates_the_file, set_up, tear_down)
{
  for (unsigned round = 0; round < 6 + 30 / SCALE; round++) {
    int fd = round % 3 ? -1 : memfd_create("test", MFD_CLOEXEC);
    unlink(shared_path);
    if (round % 3 == 2)
      write_anew("", 0);
    start_at_once(fd);
    assert_int_equal(count_files(false), round % 3 ? 1 : 0);
    close(fd);
  }
}

/* Somebody was killed while he filled the file, whose options were others. */
TEST_BETWEEN(unfinished_files_are_filled_anew, set_up, tear_down)
{
  const size_t sizes[] = {8, 9, 512, 4096, 300000};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    static char data[300000];
    memset(data, 0xFF, sizeof data);
    memcpy(data, SAVED_UNFINISHED, 8);
    write_anew(data, sizes[i]);
    tamis_filter *f = (tamis_filter *) data;
    assert_int_equal(tamis_load_file(NULL, shared_path, &f), TAMIS_ECORRUPT);
    assert_int_equal(tamis_open_shared(NULL, shared_path, &f), TAMIS_EIO);
    tamis_options options = shared_options(TAMIS_LAYOUT_WORD, false);
    assert_int_equal(tamis_shared_check(&options, shared_path, NULL, 0), TAMIS_OK);
    f = open_shared(&options);
    assert_int_equal(stats_of(f).bits_set, 0);
    assert_int_equal(tamis_add_unique_hash(f, 1), TAMIS_OK);
    assert_valid(f);
    tamis_destroy(f);
  }
}
