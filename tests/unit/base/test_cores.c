/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/cores.h"

#include <limits.h>
#include <sys/stat.h>

/* The number of cores decides within the limits. */
TEST(limits_are_kept_on_any_machine)
{
  assert_int_equal(tamis__power_of_two_per_core(1u << 20, 2, 64), 64);
  assert_int_equal(tamis__power_of_two_per_core(0, 4, 64), 4);
  assert_int_equal(tamis__power_of_two_per_core(1u << 20, 8, 8), 8);
  assert_int_equal(tamis__power_of_two_per_core(UINT_MAX, 1, 1u << 31), 1u << 31);
}

/* taskset, cpusets and Kubernetes' static policy all show in the mask. */
TEST(cores_are_those_of_the_affinity_mask)
{
  cpu_set_t before, fewer;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  unsigned quota = tamis__quota_cores("/proc/self/cgroup", "/sys/fs/cgroup");
  unsigned cores = 0;
  CPU_ZERO(&fewer);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &before))
      continue;
    CPU_SET(cpu, &fewer);
    cores++;
    assert_int_equal(sched_setaffinity(0, sizeof fewer, &fewer), 0);
    unsigned n = tamis__power_of_two_per_core(1, 1, 1u << 20), used = cores < quota ? cores : quota;
    assert_true(n >= used && n < 2 * used);
  }
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* ---- control groups, as files of a test ---- */

static char root[200], membership[220];

static int make_root(void **state)
{
  (void) state;
  const char *folder = getenv("TMPDIR"); /* NOLINT(concurrency-mt-unsafe) */
  snprintf(root, sizeof root, "%.150s/tamis-cores-XXXXXX", folder ? folder : "/tmp");
  if (!mkdtemp(root))
    return -1;
  snprintf(membership, sizeof membership, "%s/membership", root);
  return 0;
}

static int remove_root(void **state)
{
  (void) state;
  char command[300];
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  return system(command); /* NOLINT */
}

static void put(const char *name, const char *text, size_t length)
{
  char path[500];
  snprintf(path, sizeof path, "%s/%s", root, name);
  for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = '\0';
    mkdir(path, 0700);
  }
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, length, file), length);
  assert_int_equal(fclose(file), 0);
}

static void write_file(const char *name, const char *text)
{
  put(name, text, strlen(text));
}

static unsigned quota(void)
{
  return tamis__quota_cores(membership, root);
}

TEST_BETWEEN(the_least_quota_of_all_groups_counts, make_root, remove_root)
{
  assert_int_equal(quota(), UINT_MAX); /* no files at all */
  write_file("membership", "0::/a/b\n");
  assert_int_equal(quota(), UINT_MAX);
  write_file("cpu.max", "800000 100000\n");
  assert_int_equal(quota(), 8);
  write_file("a/cpu.max", "250000 100000\n"); /* rounded up */
  assert_int_equal(quota(), 3);
  write_file("a/b/cpu.max", "max 100000\n");
  assert_int_equal(quota(), 3);
  write_file("a/b/cpu.max", "1000 100000\n");
  assert_int_equal(quota(), 1);
  write_file("membership", "0::/\n");
  assert_int_equal(quota(), 8);
  write_file("membership", "0::/not/seen/from/inside\n");
  assert_int_equal(quota(), 8);
  write_file("membership", "0::/../a\n");
  assert_int_equal(quota(), 8);
}

/* None of this is a quota, and nothing fails. */
TEST_BETWEEN(nonsense_sets_no_limit, make_root, remove_root)
{
  write_file("membership", "0::/\n");
  static const char *const texts[] = {
      "",        "\n",       "max",    "max max", "100000",
      "100000 ", "100000 0", "0 1000", "-5 1000", "5 -1000",
      " 5 1000", "5x 1000",  "0x10 1", "1e5 1",   "99999999999999999999999 1",
      "%s%n 1"};
  for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
    write_file("cpu.max", texts[i]);
    assert_int_equal(quota(), UINT_MAX);
  }
  put("cpu.max", "\0\0\0 5 1", 8);
  assert_int_equal(quota(), UINT_MAX);
  static char lines[20000];
  memset(lines, 'a', sizeof lines);
  put("cpu.max", lines, sizeof lines);
  assert_int_equal(quota(), UINT_MAX);
  memset(lines, '9', sizeof lines);
  put("cpu.max", lines, sizeof lines);
  assert_int_equal(quota(), UINT_MAX);

  write_file("cpu.max", "300000 100000");
  assert_int_equal(quota(), 3);
  put("membership", lines, sizeof lines);
  assert_int_equal(quota(), UINT_MAX);
  static const char *const memberships[] = {
      "", ":", "::", "0:", "\n\n\n", "0:cpu", "cpu:cpu:cpu:cpu"};
  for (unsigned i = 0; i < sizeof memberships / sizeof *memberships; i++) {
    write_file("membership", memberships[i]);
    unsigned cores = quota(); /* two of these name the root */
    assert_true(cores == UINT_MAX || cores == 3);
  }
  for (size_t length = 10; length < sizeof lines; length = length * 3 / 2) {
    memset(lines, '/', sizeof lines); /* folders upon folders */
    memcpy(lines, "0::", 3);
    put("membership", lines, length);
    (void) quota();
    memset(lines + 3, 'g', sizeof lines - 3);
    put("membership", lines, length);
    (void) quota();
  }

  /* a folder, and a pipe that nobody writes to */
  char path[300];
  write_file("membership", "0::/\n");
  snprintf(path, sizeof path, "%s/cpu.max", root);
  unlink(path);
  assert_int_equal(mkdir(path, 0700), 0);
  assert_int_equal(quota(), UINT_MAX);
  rmdir(path);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(quota(), UINT_MAX);
}
