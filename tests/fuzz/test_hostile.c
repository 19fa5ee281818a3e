/* SPDX-License-Identifier: MIT
 *
 * Saved filters that were made to do harm: the files of the corpus, and changes of them.
 *
 *   test_hostile [--mutations N] [--keep FILE] [--record FILE] [--all-load] [--each] FOLDER|FILE...
 *
 * Every file is tried as it is, and then N changes of it (default 300), of which each may follow
 * another one.  --keep writes to a file what is tried, before it is: when the program ends, what has
 * failed is there, and can be tried again by itself (--mutations 0).  With --all-load each file
 * must load, but for those whose names begin with "found-".  --record writes all that is tried to a
 * file, each after its size and after the result of a load by default options that may take
 * RECORD_MOST bytes: for other runtimes, which must say the same.  With --each, every number and every
 * part of a file is changed by itself, and what loads is recorded.  The same is done in every run.
 */
#include "base/hash.h"
#include "fuzz/hostile.h"
#include "fuzz/mutate.h"
#include "saved_sums.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 18, RECORD_MOST = 1 << 25 };

struct run {
  unsigned long mutations;
  bool all_load, each;
  const char *keep;
  FILE *record;
  unsigned long files, tried, accepted;
};

/* What follows a filter makes it none, as in a file, which may have more behind a shared one. */
static void record(const struct run *r, const unsigned char *data, size_t size)
{
  struct source s = {.data = data, .size = size};
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.max_bytes = RECORD_MOST;
  tamis_filter *f;
  int result = tamis_load(&options, read_source, &s, &f);
  const bool live = size > 16 && data[16] & 4; /* required features: docs/reference/format.md */
  if (result == TAMIS_OK && s.at < size && !live)
    result = TAMIS_ECORRUPT;
  tamis_destroy(f);
  if (r->each && result != TAMIS_OK)
    return;
  const int32_t head[] = {(int32_t) size, result};
  if (fwrite(head, sizeof head, 1, r->record) != 1 || fwrite(data, 1, size, r->record) != size)
    exit(2);
}

static void try_each(void *context, const unsigned char *data, size_t size)
{
  struct run *r = context;
  r->tried++;
  record(r, data, size);
}

static int try(struct run *r, const unsigned char *data, size_t size)
{
  /* In a block of its own, so that a sanitizer finds what is read beyond it. */
  unsigned char *block = malloc(size ? size : 1);
  if (!block)
    exit(2);
  memcpy(block, data, size);
  if (r->keep) {
    FILE *file = fopen(r->keep, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file))
      exit(2);
  }
  if (r->record)
    record(r, data, size);
  int result = hostile_try(block, size);
  r->tried++;
  r->accepted += result == TAMIS_OK;
  free(block);
  return result;
}

static void try_file(struct run *r, const char *path)
{
  static unsigned char original[MOST], data[MOST];
  FILE *file = fopen(path, "rb");
  size_t all = file ? fread(original, 1, sizeof original, file) : 0, size = all;
  if (!file || ferror(file) || fclose(file)) {
    perror(path);
    exit(2);
  }
  uint64_t seed = hash_sum(original, all, 0); /* so that other files do not matter */
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  r->files++;
  const int result = try(r, original, all);
  if (r->all_load && result != TAMIS_OK && strncmp(name, "found-", 6) != 0) {
    (void) fprintf(stderr, "%s does not load: tests/compat/keep.py writes it anew\n", path);
    exit(1);
  }
  if (r->each)
    mutate_each(original, all, try_each, r);
  memcpy(data, original, all);
  for (unsigned long i = 1; i <= r->mutations; i++) {
    if (i % 4 == 1) {
      memcpy(data, original, all);
      size = all;
    }
    size = mutate_saved(data, size, sizeof data, seed + i, NULL);
    (void) try(r, data, size);
  }
}

static void try_path(struct run *r, const char *path)
{
  struct dirent **names;
  int n = scandir(path, &names, NULL, alphasort);
  if (n < 0) {
    try_file(r, path);
    return;
  }
  for (int i = 0; i < n; i++) {
    char file[PATH_MAX];
    (void) snprintf(file, sizeof file, "%s/%s", path, names[i]->d_name);
    if (names[i]->d_name[0] != '.')
      try_file(r, file);
    free(names[i]);
  }
  free(names);
}

int main(int argc, char **argv)
{
  struct run r = {.mutations = 300};
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--all-load"))
      r.all_load = true;
    else if (!strcmp(argv[i], "--each"))
      r.each = true;
    else if (!strcmp(argv[i], "--mutations") && i + 1 < argc)
      r.mutations = strtoul(argv[++i], NULL, 10);
    else if (!strcmp(argv[i], "--record") && i + 1 < argc)
      r.record =
          fopen(argv[++i], "wb"); /* NULL: it is not recorded, and whoever reads it sees that */
    else if (!strcmp(argv[i], "--keep") && i + 1 < argc)
      r.keep = argv[++i];
    else
      try_path(&r, argv[i]);
  }
  (void) printf("%lu files, %lu tried, %lu accepted\n", r.files, r.tried, r.accepted);
  return r.files && (!r.record || fclose(r.record) == 0) ? 0 : 2;
}
