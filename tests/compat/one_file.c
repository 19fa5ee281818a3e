/* SPDX-License-Identifier: MIT
 *
 * A program on the library as one file: what is left out is refused with a reason, and the rest works.  It is
 * compiled with the defines of the library (check_one_file.sh), as C and as C++.
 */
#include <stdio.h>
#include <string.h>
#include <tamis/tamis.h>

#ifdef TAMIS_WITHOUT_CUCKOO_GROWTH
enum { HAS_GROWTH = 0 };
#else
enum { HAS_GROWTH = 1 };
#endif
#ifdef TAMIS_WITHOUT_WINDOWS
enum { HAS_WINDOWS = 0 };
#else
enum { HAS_WINDOWS = 1 };
#endif

static int failed;

static void check(bool holds, const char *what)
{
  if (!holds)
    printf("%s\n", what);
  failed |= !holds;
}

/* Keeps what is saved. */
static char saved[1 << 20];
static size_t saved_size;

static int keep(void *context, const void *data, size_t size)
{
  (void) context;
  if (size > sizeof saved - saved_size)
    return -1;
  memcpy(saved + saved_size, data, size);
  saved_size += size;
  return 0;
}

struct source {
  size_t at;
};

static int64_t give(void *context, void *data, size_t size)
{
  struct source *from = (struct source *) context;
  size_t left = saved_size - from->at, n = size < left ? size : left;
  memcpy(data, saved + from->at, n);
  from->at += n;
  return (int64_t) n;
}

static void write_saved(const char *path)
{
  FILE *file = fopen(path, "wb");
  check(file && fwrite(saved, 1, saved_size, file) == saved_size && fclose(file) == 0, "no file");
}

/* What has grown elsewhere is refused here, if it is to be. */
static void load_file(const char *path, bool expected)
{
  FILE *file = fopen(path, "rb");
  saved_size = file ? fread(saved, 1, sizeof saved, file) : 0;
  if (file)
    fclose(file);
  struct source from = {0};
  tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
  tamis_filter *f;
  int result = tamis_load(&load, give, &from, &f);
  check(result == (expected ? TAMIS_OK : TAMIS_EUNSUPPORTED),
        "not the result that is expected of a filter that has grown");
  if (result == TAMIS_OK)
    tamis_destroy(f);
}

static void fill(tamis_filter *f, unsigned n)
{
  for (unsigned key = 0; key < n; key++)
    check(tamis_add_unique(f, &key, sizeof key) >= 0, "an add is refused");
}

static unsigned hits(const tamis_filter *f, unsigned n)
{
  unsigned found = 0;
  for (unsigned key = 0; key < n; key++)
    found += tamis_contains(f, &key, sizeof key);
  return found;
}

/* A filter is there or refused, as it should be; if it is there, it keeps its keys, grows, and comes back from
 * what is saved. */
static void try_filter(tamis_kind kind, bool growable, unsigned window, bool expected)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = kind;
  options.capacity = 1000;
  options.fpp = 1e-4;
  options.growable = growable;
  options.window = window;
  const unsigned n = growable ? 20000 : 1000;
  tamis_filter *f, *loaded;
  int result = tamis_create(&options, &f);
  check(result == (expected ? TAMIS_OK : TAMIS_EUNSUPPORTED), "not the result that is expected");
  if (result != TAMIS_OK) {
    char why[300];
    check(tamis_options_check(&options, why, sizeof why) == result, "another reason");
    check(strlen(why) > 10, "no reason");
    return;
  }
  fill(f, n);
  check(hits(f, n) == n, "a key is missing");
  struct source from = {0};
  saved_size = 0;
  check(tamis_save(f, keep, NULL) == TAMIS_OK, "it is not saved");
  tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
  check(tamis_load(&load, give, &from, &loaded) == TAMIS_OK, "it is not loaded");
  check(hits(loaded, n) == n, "a key is missing after the load");
  tamis_destroy(loaded);
  tamis_destroy(f);
}

/* A library that has such filters puts one into the file, and each library loads it. */
static void pass_on(const char *path, tamis_kind kind, unsigned window)
{
  const bool expected = HAS_GROWTH && (!window || HAS_WINDOWS);
  if (expected) {
    try_filter(kind, true, window, true);
    write_saved(path);
  }
  load_file(path, expected);
}

/* The arguments: none, or the names of three files. */
int main(int argc, char **argv)
{
  for (int growable = 0; growable < 2; growable++) {
    try_filter(TAMIS_BLOOM, growable, 0, true);
    try_filter(TAMIS_COUNTING_BLOOM, false, 0, true);
    try_filter(TAMIS_CUCKOO, growable, 0, !growable || HAS_GROWTH);
    try_filter(TAMIS_BLOOM, growable, 4, HAS_WINDOWS && (!growable || HAS_GROWTH));
    try_filter(TAMIS_CUCKOO, growable, 4, HAS_WINDOWS && (!growable || HAS_GROWTH));
  }
  if (argc == 4) {
    pass_on(argv[1], TAMIS_CUCKOO, 0);
    pass_on(argv[2], TAMIS_BLOOM, 4);
    pass_on(argv[3], TAMIS_CUCKOO, 4);
  }
  return failed;
}
