/* SPDX-License-Identifier: MIT
 *
 * What the tests of filters that processes share have in common: a folder with one file, and options.
 */
#ifndef TAMIS_TESTS_SHARED_UNIT_H
#define TAMIS_TESTS_SHARED_UNIT_H

#include "filter_unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

/* ---- a folder ---- */

static char shared_folder[64], shared_path[96];

/* Tests that create many files do so in memory: on a disk, each of these waits. */
#ifndef IN_MEMORY
#define IN_MEMORY false
#endif

static inline int set_up(void **state)
{
  (void) state;
  const char *base = IN_MEMORY && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  snprintf(shared_folder, sizeof shared_folder, "%s/tamis-test-shared-%ld", base, (long) getpid());
  snprintf(shared_path, sizeof shared_path, "%s/shared.tamis", shared_folder);
  return mkdir(shared_folder, 0755);
}

/* Of a test that could wait for ever. */
static inline int set_up_with_alarm(void **state)
{
  alarm(4 * PATIENCE_SECONDS);
  return set_up(state);
}

/* How many entries the folder has; it removes them if told so. */
static inline unsigned count_files(bool removed)
{
  unsigned n = 0;
  DIR *d = opendir(shared_folder);
  assert_non_null(d);
  for (struct dirent *e; (e = readdir(d));) { /* NOLINT(concurrency-mt-unsafe) */
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
      continue;
    n++;
    if (removed)
      unlinkat(dirfd(d), e->d_name, 0);
  }
  closedir(d);
  return n;
}

static inline int tear_down(void **state)
{
  (void) state;
  count_files(true);
  return rmdir(shared_folder);
}

static inline unsigned count_descriptors(void)
{
  unsigned n = 0;
  for (int fd = 0; fd < 256; fd++)
    n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

/* ---- filters ---- */

/* Growable: of some six layers. */
static inline tamis_options shared_options(tamis_layout layout, bool growable)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.layout = layout;
  options.capacity = 1000;
  options.fpp = 0.001;
  options.growable = growable;
  options.max_bytes = growable ? 200000 : 0;
  return options;
}

static inline tamis_filter *open_shared(const tamis_options *options)
{
  tamis_filter *f = NULL;
  int result = tamis_open_shared(options, shared_path, &f);
  if (result != TAMIS_OK) {
    char why[300];
    (void) tamis_shared_check(options, shared_path, why, sizeof why);
    fail_msg("%d: %s", result, why);
  }
  return f;
}

/* The hash of a key. */
static inline uint64_t hash_of(uint64_t key)
{
  key = (key ^ key >> 31) * UINT64_C(0x7fb5d329728ea185);
  key = (key ^ key >> 27) * UINT64_C(0x81dadef4bc2dd44d);
  return key ^ key >> 33;
}

static inline void add_hashes(tamis_filter *f, uint64_t from, uint64_t n)
{
  for (uint64_t key = from; key < from + n; key++)
    assert_int_equal(tamis_add_hash(f, hash_of(key)), TAMIS_OK);
}

static inline void assert_has(const tamis_filter *f, uint64_t first, uint64_t n)
{
  for (uint64_t key = first; key < first + n; key++)
    assert_true(tamis_contains_hash(f, hash_of(key)));
}

/* ---- bytes of the file ---- */

static inline void read_file(uint64_t at, void *data, size_t size)
{
  int fd = open(shared_path, O_RDONLY);
  assert_int_equal(pread(fd, data, size, (off_t) at), size);
  close(fd);
}

static inline void write_file(uint64_t at, const void *data, size_t size)
{
  int fd = open(shared_path, O_WRONLY);
  assert_int_equal(pwrite(fd, data, size, (off_t) at), size);
  close(fd);
}

#endif
