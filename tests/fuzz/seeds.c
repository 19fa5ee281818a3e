/* SPDX-License-Identifier: MIT
 *
 * Writes the files that the corpus began with: small saved filters of every kind, layout, width and
 * stage of growth.
 *
 *   fuzz-seeds FOLDER
 */
#include "cuckoo/save.h"
#include "fuzz/hostile.h"
#include "fuzz/parts.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCKED TAMIS_LAYOUT_BLOCKED
#define CLASSIC TAMIS_LAYOUT_CLASSIC
#define WORD TAMIS_LAYOUT_WORD

struct seed {
  const char *name;
  tamis_kind kind;
  tamis_layout layout;
  uint64_t capacity;
  double fpp;
  bool growable;
  unsigned stripes;
  unsigned keys, copies; /* of every fourth key; 0: one of each */
  unsigned removed;      /* of the first keys */
  bool own_hash;
};

static const struct seed seeds[] = {
    {"bloom-blocked-empty", TAMIS_BLOOM, BLOCKED, 50, 0.01, true, 0, 0, 0, 0, false},
    {"bloom-blocked", TAMIS_BLOOM, BLOCKED, 100, 0.01, true, 1, 60, 0, 0, false},
    {"bloom-blocked-low", TAMIS_BLOOM, BLOCKED, 50, 1e-6, true, 2, 50, 0, 0, false},
    {"bloom-blocked-own", TAMIS_BLOOM, BLOCKED, 50, 0.1, true, 0, 20, 0, 0, true},
    {"bloom-blocked-full", TAMIS_BLOOM, BLOCKED, 20, 0.01, false, 4, 60, 0, 0, false},
    {"bloom-sections", TAMIS_BLOOM, BLOCKED, 20, 1e-9, false, 0, 10, 0, 0, false},
    {"bloom-classic", TAMIS_BLOOM, CLASSIC, 100, 0.01, true, 0, 60, 0, 0, false},
    {"bloom-classic-low", TAMIS_BLOOM, CLASSIC, 20, 1e-12, false, 0, 10, 0, 0, false},
    {"bloom-word", TAMIS_BLOOM, WORD, 50, 0.05, true, 0, 30, 0, 0, false},
    {"bloom-word-fixed", TAMIS_BLOOM, WORD, 50, 0.02, false, 0, 30, 0, 0, false},
    {"bloom-word-full", TAMIS_BLOOM, WORD, 20, 0.02, false, 0, 60, 0, 0, false},
    {"bloom-layers", TAMIS_BLOOM, BLOCKED, 20, 0.01, true, 1, 100, 0, 0, false},
    {"bloom-layers-sections", TAMIS_BLOOM, BLOCKED, 10, 1e-6, true, 0, 30, 0, 0, false},
    {"bloom-layers-classic", TAMIS_BLOOM, CLASSIC, 10, 0.1, true, 0, 30, 0, 0, false},
    {"bloom-layers-word", TAMIS_BLOOM, WORD, 20, 0.05, true, 0, 60, 0, 0, false},
    {"counting", TAMIS_COUNTING_BLOOM, BLOCKED, 50, 0.01, true, 0, 30, 3, 5, false},
    {"counting-fixed", TAMIS_COUNTING_BLOOM, BLOCKED, 30, 0.001, false, 2, 30, 0, 0, false},
    {"counting-stuck", TAMIS_COUNTING_BLOOM, BLOCKED, 20, 0.1, true, 0, 20, 20, 3, false},
    {"cuckoo-empty", TAMIS_CUCKOO, BLOCKED, 10, 0.01, true, 0, 0, 0, 0, false},
    {"cuckoo-2-lanes", TAMIS_CUCKOO, BLOCKED, 10, 4e-8, true, 1, 12, 0, 0, false},
    {"cuckoo-3-lanes", TAMIS_CUCKOO, BLOCKED, 10, 1e-5, true, 0, 12, 0, 0, false},
    {"cuckoo-4-lanes", TAMIS_CUCKOO, BLOCKED, 20, 0.001, true, 2, 20, 0, 0, false},
    {"cuckoo-5-lanes", TAMIS_CUCKOO, BLOCKED, 20, 0.005, true, 0, 20, 3, 0, false},
    {"cuckoo-6-lanes", TAMIS_CUCKOO, BLOCKED, 20, 0.02, true, 0, 20, 0, 0, false},
    {"cuckoo-8-lanes", TAMIS_CUCKOO, BLOCKED, 20, 0.2, true, 0, 20, 0, 0, false},
    {"cuckoo-own", TAMIS_CUCKOO, BLOCKED, 20, 0.01, true, 0, 20, 0, 0, true},
    {"cuckoo-copies", TAMIS_CUCKOO, BLOCKED, 20, 0.01, true, 0, 20, 40, 3, false},
    {"cuckoo-many-copies", TAMIS_CUCKOO, BLOCKED, 20, 0.001, true, 1, 20, 5000, 0, false},
    {"cuckoo-split", TAMIS_CUCKOO, BLOCKED, 60, 0.01, true, 0, 300, 0, 0, false},
    {"cuckoo-joined", TAMIS_CUCKOO, BLOCKED, 60, 0.01, true, 0, 500, 3, 450, false},
    {"cuckoo-generations-2", TAMIS_CUCKOO, BLOCKED, 1, 0.05, true, 0, 1500, 0, 1450, false},
    {"cuckoo-generations-3", TAMIS_CUCKOO, BLOCKED, 1, 0.1, true, 1, 1500, 0, 1000, false},
    {"cuckoo-generations-copies", TAMIS_CUCKOO, BLOCKED, 1, 0.1, true, 0, 1300, 3, 1200, false},
    {"cuckoo-roots", TAMIS_CUCKOO, BLOCKED, 2000, 0.01, true, 0, 5, 0, 0, false},
    {"cuckoo-fixed-empty", TAMIS_CUCKOO, BLOCKED, 10, 0.01, false, 0, 0, 0, 0, false},
    {"cuckoo-fixed-2-lanes", TAMIS_CUCKOO, BLOCKED, 10, 2e-9, false, 0, 10, 0, 0, false},
    {"cuckoo-fixed-4-lanes", TAMIS_CUCKOO, BLOCKED, 20, 1e-4, false, 1, 20, 0, 0, false},
    {"cuckoo-fixed-8-lanes", TAMIS_CUCKOO, BLOCKED, 50, 0.1, false, 0, 50, 0, 0, false},
    {"cuckoo-fixed-copies", TAMIS_CUCKOO, BLOCKED, 30, 0.01, false, 8, 30, 100, 5, false},
    {"cuckoo-fixed-full", TAMIS_CUCKOO, BLOCKED, 10, 0.01, false, 32, 300, 0, 0, false},
};

static uint64_t own_context = 0x746D73; /* as in hostile.c */

static tamis_filter *make(const struct seed *seed)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = seed->kind;
  options.layout = seed->layout;
  options.capacity = seed->capacity;
  options.fpp = seed->fpp;
  options.growable = seed->growable;
  options.stripes = seed->stripes;
  options.seed = 42;
  if (seed->own_hash) {
    options.hash = hostile_own_hash;
    options.hash_context = &own_context;
  }
  tamis_filter *f = NULL;
  char why[256];
  if (tamis_create(&options, &f) != TAMIS_OK) {
    (void) tamis_options_check(&options, why, sizeof why);
    (void) fprintf(stderr, "%s: %s\n", seed->name, why);
    exit(1);
  }
  for (unsigned i = 0; i < seed->keys; i++)
    for (unsigned j = i % 4 || !seed->copies ? 1 : seed->copies; j > 0; j--)
      (void) tamis_add_hash(f, hostile_hash(i));
  for (unsigned i = 0; i < seed->removed; i++)
    (void) tamis_remove_hash(f, hostile_hash(i));
  return f;
}

static void save(const char *folder, const char *name, const tamis_filter *f)
{
  char path[PATH_MAX];
  (void) snprintf(path, sizeof path, "%s/%s.tamis", folder, name);
  int result = tamis_save_file(f, path);
  if (result == TAMIS_OK && !chmod(path, 0644))
    return;
  (void) fprintf(stderr, "%s: %s\n", path, tamis_strerror(result));
  exit(1);
}

/* A filter that another one has been united with: what that brought is counted apart, and limits
 * how a cuckoo filter may grow. */
static void united(const char *folder, const struct seed *one, const struct seed *more)
{
  tamis_filter *into = make(one), *from = make(more);
  if (tamis_merge(into, from) != TAMIS_OK)
    exit(1);
  save(folder, one->name, into);
  tamis_destroy(into);
  tamis_destroy(from);
}

static void all_united(const char *folder)
{
  const struct seed cuckoo[] = {
      {"cuckoo-united", TAMIS_CUCKOO, BLOCKED, 20, 0.05, true, 0, 100, 0, 0, false},
      {"more", TAMIS_CUCKOO, BLOCKED, 20, 0.05, true, 0, 150, 0, 100, false}};
  const struct seed bloom[] = {
      {"bloom-layers-united", TAMIS_BLOOM, BLOCKED, 20, 0.05, true, 0, 10, 0, 0, false},
      {"more", TAMIS_BLOOM, BLOCKED, 20, 0.05, true, 0, 60, 0, 0, false}};
  united(folder, &cuckoo[0], &cuckoo[1]);
  united(folder, &bloom[0], &bloom[1]);
}

/* Sliding windows, some keys of which have been forgotten. */
static void windows(const char *folder)
{
  static const struct {
    const char *name;
    unsigned window, periods, keys; /* that are added in each period */
    uint64_t capacity;
    double fpp;
    bool growable;
    unsigned copies; /* of the last key of each period; 0: it is of the Bloom kind */
  } all[] = {{"window-empty", 4, 2, 0, 20, 0.01, false, 0},
             {"window-2-lanes", 64, 3, 4, 10, 1e-5, false, 0},
             {"window-2-of-4-lanes", 8, 12, 3, 20, 0.001, false, 0},
             {"window-8-lanes", 1, 4, 20, 40, 0.4, false, 0},
             {"window-grown", 3, 5, 20, 5, 0.01, true, 0},
             {"window-cuckoo", 8, 12, 3, 20, 0.001, false, 3},
             {"window-cuckoo-grown", 3, 5, 20, 5, 0.01, true, 300}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    tamis_options options = TAMIS_OPTIONS_INIT;
    options.kind = all[i].copies ? TAMIS_CUCKOO : TAMIS_BLOOM;
    options.window = all[i].window;
    options.capacity = all[i].capacity;
    options.fpp = all[i].fpp;
    options.growable = all[i].growable;
    options.seed = 42;
    tamis_filter *f = NULL;
    if (tamis_create(&options, &f) != TAMIS_OK)
      exit(1);
    for (unsigned j = 0; j < all[i].periods * all[i].keys; j++) {
      if (j && j % all[i].keys == 0)
        (void) tamis_advance(f);
      unsigned copies = j % all[i].keys + 1 == all[i].keys ? all[i].copies : 1;
      for (unsigned k = 0; k < (copies ? copies : 1); k++)
        (void) tamis_add_hash(f, hostile_hash(j));
    }
    save(folder, all[i].name, f);
    tamis_destroy(f);
  }
}

static size_t read_file(const char *path, unsigned char *to, size_t room)
{
  FILE *file = fopen(path, "rb");
  size_t size = file ? fread(to, 1, room, file) : 0;
  if (!file || fclose(file))
    exit(1);
  return size;
}

/* As a save writes it while keys are removed, from this one on: they are to be removed from what
 * the file holds. */
static void with_removed(const char *folder, const char *name, uint64_t first)
{
  static struct parts parts;
  static unsigned char data[1 << 16];
  char path[PATH_MAX];
  (void) snprintf(path, sizeof path, "%s/%s.tamis", folder, name);
  if (!parts_split(&parts, data, read_file(path, data, sizeof data)) || parts.n == PARTS)
    exit(1);
  const struct hash_keys keys = hash_keys_from_seed(42);
  struct part *part = &parts.part[parts.n++];
  *part = (struct part){.kind = PART_BLOCK, .type = SAVED_REMOVED, .size = 64, .said = 64};
  part->data = parts_room(&parts, part->size);
  for (size_t i = 0; i < part->size / 8; i++)
    saved_put64(part->data + i * 8, hash_mix(&keys, hostile_hash(first + i)));
  (void) snprintf(path, sizeof path, "%s/%s-removed.tamis", folder, name);
  FILE *file = fopen(path, "wb");
  size_t size = parts_join(&parts, REPAIR_ALL, data, sizeof data);
  if (!file || !size || fwrite(data, 1, size, file) != size || fclose(file))
    exit(1);
}

/* Files of filters that processes share. */
static void live(const char *folder)
{
  static const struct {
    const char *name;
    bool growable;
    tamis_layout layout;
    uint64_t keys;
  } all[] = {{"bloom-live", false, TAMIS_LAYOUT_BLOCKED, 40},
             {"bloom-live-full", false, TAMIS_LAYOUT_WORD, 70},
             {"bloom-live-layers", true, TAMIS_LAYOUT_CLASSIC, 150}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char path[PATH_MAX];
    tamis_options options = TAMIS_OPTIONS_INIT;
    tamis_filter *f;
    (void) snprintf(path, sizeof path, "%s/%s.tamis", folder, all[i].name);
    options.capacity = 50;
    options.fpp = 0.05;
    options.seed = 42;
    options.growable = all[i].growable;
    options.layout = all[i].layout;
    options.max_bytes = all[i].growable ? 1 << 15 : 0;
    if (tamis_open_shared(&options, path, &f) != TAMIS_OK)
      exit(1);
    for (uint64_t key = 0; key < all[i].keys; key++)
      (void) tamis_add_unique_hash(f, hostile_hash(key));
    tamis_destroy(f);
  }
}

int main(int argc, char **argv)
{
  if (argc != 2) {
    (void) fputs("usage: fuzz-seeds FOLDER\n", stderr);
    return 2;
  }
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
    tamis_filter *f = make(&seeds[i]);
    save(argv[1], seeds[i].name, f);
    tamis_destroy(f);
  }
  all_united(argv[1]);
  windows(argv[1]);
  live(argv[1]);
  with_removed(argv[1], "cuckoo-split", 0);
  with_removed(argv[1], "cuckoo-generations-2", 1450);
  return 0;
}
