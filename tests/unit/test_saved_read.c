/* SPDX-License-Identifier: MIT
 *
 * What a reader checks, number by number: in files of every kind, each number that a reader may not
 * ignore is changed, and all sums are made right again.  The sums are not what finds it.
 */
#include "parts_unit.h"

#include "cuckoo/save.h"
#include "kinds.h"
#include "window/save.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- a file and its parts ---- */

enum { MOST_BYTES = 1 << 15, MOST_STRETCHES = 128 };

struct stretch {
  size_t at;   /* of the head, or of an array */
  size_t size; /* of the payload, or of the array */
  bool array;
};

static struct saved {
  char name[64];
  unsigned char data[MOST_BYTES];
  size_t size;
  struct stretch stretches[MOST_STRETCHES];
  unsigned n;
  size_t trailer;
  bool cuckoo, counting, window, growable, can_be_mapped;
} file;

static size_t up(size_t x, size_t unit)
{
  return (x + unit - 1) & -unit;
}

static uint64_t number_at(const unsigned char *data, size_t at)
{
  return saved_get64(data + at);
}

/* Whether the block that describes an array of these bytes begins at its end. */
static bool ends_array(size_t begin, size_t end)
{
  return saved_get32(file.data + end) == SAVED_SUMS && number_at(file.data, end + 24) == begin &&
         number_at(file.data, end + 32) == end - begin;
}

static struct stretch next_stretch(size_t at)
{
  struct stretch stretch = {.at = at, .size = (size_t) number_at(file.data, at + 8)};
  if (saved_get32(file.data + at) && number_at(file.data, at + 16) < MOST_STRETCHES)
    return stretch;
  stretch =
      (struct stretch){.at = up(at, SAVED_ARRAY_ALIGNMENT), .size = SAVED_UNIT, .array = true};
  while (!ends_array(stretch.at, stretch.at + stretch.size))
    stretch.size += SAVED_UNIT;
  return stretch;
}

static void read_file(const char *folder, const char *name)
{
  char path[1000];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  snprintf(file.name, sizeof file.name, "%s", name);
  FILE *from = fopen(path, "rb");
  assert_non_null(from);
  file.size = fread(file.data, 1, sizeof file.data, from);
  fclose(from);
  assert_true(file.size < sizeof file.data);
  file.trailer = file.size - SAVED_UNIT;
  file.counting = saved_get32(file.data + 32) == TAMIS_COUNTING_BLOOM;
  file.window = number_at(file.data, 16) & SAVED_WINDOW;
  file.cuckoo = saved_get32(file.data + 32) == TAMIS_CUCKOO && !file.window;
  file.growable = saved_get32(file.data + 44);
  file.can_be_mapped = !file.window && (!file.cuckoo || !file.growable);
  file.n = 0;
  for (size_t at = SAVED_HEADER; at < file.trailer;) {
    struct stretch stretch = next_stretch(at);
    file.stretches[file.n++] = stretch;
    assert_true(file.n < MOST_STRETCHES);
    at = stretch.at + stretch.size;
    if (!stretch.array)
      at = up(at + SAVED_UNIT, SAVED_UNIT);
  }
}

/* Makes all sums right again, but for what the sums of an array say if they have been changed. */
static void seal(unsigned char *data)
{
  uint64_t digest = 0;
  saved_put64(data + SAVED_HEADER - 8, hash_sum(data, SAVED_HEADER - 8, 0));
  digest = saved_next_digest(digest, number_at(data, SAVED_HEADER - 8));
  for (unsigned i = 0; i < file.n; i++) {
    const struct stretch *stretch = &file.stretches[i];
    if (stretch->array) {
      const struct stretch *sums = stretch + 1;
      if (memcmp(data + stretch->at, file.data + stretch->at, stretch->size) != 0)
        saved_put64(data + sums->at + SAVED_UNIT, hash_sum(data + stretch->at, stretch->size, 0));
      continue;
    }
    uint64_t said = number_at(data, stretch->at + 8);
    size_t size = said < file.size - stretch->at - SAVED_UNIT ? (size_t) said : stretch->size;
    uint64_t sum = saved_block_sum(data + stretch->at, data + stretch->at + SAVED_UNIT, size);
    saved_put64(data + stretch->at + 56, sum);
    digest = saved_next_digest(digest, sum);
  }
  saved_put64(data + file.trailer + 48, digest);
  saved_put64(data + file.trailer + 56, hash_sum(data + file.trailer, 56, 0));
}

/* ---- what a reader must refuse: docs/format.md ---- */

/* A number of the geometry of a generation. */
static bool is_out_of_range(unsigned i, uint64_t number, bool first)
{
  double rate = saved_to_double(number);
  uint64_t most_stripes = file.growable ? 16 : 32;
  switch (i) {
  case SAVED_WIDTH:
    return !number || number > 32 || !strchr("\10\11\12\14\20\25\40", (int) number);
  case SAVED_PAIR_BITS:
    return number > (file.growable ? 11 : 20);
  case SAVED_DEPTH_LIMIT:
    return number > (!file.growable ? 0 : first ? 7 : 9) || (file.growable && !number);
  case SAVED_STRIPES:
    return !number || number > most_stripes || (number & (number - 1));
  case SAVED_RATE:
    return !(rate > 0 && rate < 1);
  default:
    return first ? number : number >= 48;
  }
}

static uint64_t number_of_window(unsigned i)
{
  return number_at(file.data, SAVED_GEOMETRY_AT + (size_t) i * 8);
}

/* A number of a layer of a window.  Some other shapes, halves and capacities are as good. */
static bool is_wrong_in_window_layer(unsigned i, uint64_t was, uint64_t number)
{
  switch (i) {
  case SAVED_LAYER_SHAPE:
    return number >= WINDOW_SHAPES;
  case SAVED_LAYER_SEGMENTS:
    return true; /* they say how long the array is */
  case SAVED_LAYER_HALF:
    return number - was + 1 > 2;
  case SAVED_LAYER_CAPACITY: /* more than there are lanes */
    return !number || number > 16 * (uint64_t) file.size;
  default:
    return !number || number >= WINDOW_MOST_LAYERS;
  }
}

static bool is_wrong_in_window(unsigned i, uint64_t was, uint64_t number)
{
  switch (i) {
  case SAVED_WINDOW_PERIODS:
    return !number || number > 64;
  case SAVED_WINDOW_RENEWS:
    return number > 1;
  case SAVED_WINDOW_PERIOD:
    return number > was; /* the copies would have been made before */
  case SAVED_WINDOW_STAMP:
    return !number || number > number_of_window(SAVED_WINDOW_PERIODS) + 2;
  case SAVED_WINDOW_LAYERS: /* of a window that grows, some may have left meanwhile */
    return number < was || number >= (file.data[44] ? WINDOW_MOST_LAYERS : 2);
  case SAVED_WINDOW_GROWTHS:
    return number > INT32_MAX;
  case SAVED_WINDOW_FURTHER: /* of the cuckoo kind a figure */
    return saved_get32(file.data + 32) == TAMIS_BLOOM;
  default:
    return i >= SAVED_WINDOW_NUMBERS ||
           is_wrong_in_window_layer(i - SAVED_WINDOW_OLDEST, was, number);
  }
}

/* Only the shapes of three words, and of the classic layout, may have several sections. */
static bool is_wrong_in_bloom(unsigned i, uint64_t number)
{
  enum { PROBES = 1, BITS, LINES, SECTIONS, BLOOM = 6 };
  bool classic = number_at(file.data, SAVED_GEOMETRY_AT) == TAMIS_LAYOUT_CLASSIC;
  bool blocked = number_at(file.data, SAVED_GEOMETRY_AT) == TAMIS_LAYOUT_BLOCKED &&
                 number_at(file.data, SAVED_GEOMETRY_AT + 8 * PROBES) == 3 &&
                 number_at(file.data, SAVED_GEOMETRY_AT + 8 * BITS) == 3;
  uint64_t most = classic ? 32 : blocked ? 5 : 1;
  return i == LINES || i >= BLOOM || (i == SECTIONS && (!number || number > most)) ||
         (classic && i <= BITS);
}

static bool is_wrong_geometry(unsigned i, uint64_t was, uint64_t number)
{
  enum { FIRST_ROOTS = 6, COPIES = 9 };
  if (file.window)
    return is_wrong_in_window(i, was, number);
  if (!file.cuckoo)
    return is_wrong_in_bloom(i, number);
  return i < FIRST_ROOTS    ? is_out_of_range(i, number, true)
         : i == FIRST_ROOTS ? !number || number >> 48
         : i == COPIES      ? number > 1
                            : i > COPIES;
}

static bool is_wrong_in_header(size_t at, uint64_t was, uint64_t number)
{
  double fpp = saved_to_double(number);
  if (at >= SAVED_GEOMETRY_AT)
    return is_wrong_geometry((unsigned) (at - SAVED_GEOMETRY_AT) / 8, was, number);
  switch (at) {
  case 32: /* kind and hash function; a window may be of either kind */
    return !file.window || number >> 32 != was >> 32 ||
           ((uint32_t) number != TAMIS_BLOOM && (uint32_t) number != TAMIS_CUCKOO);
  case 64: /* capacity */
    return !number;
  case 72:
    return !(fpp > 0 && fpp < 1);
  case 40: /* mixing and `growable` */
    return (uint32_t) number != 1 || number >> 32 > 1;
  case 88: /* stripes and layout */
    return (uint32_t) number > 4096 || number >> 32 > 2 ||
           ((file.cuckoo || file.window) && number >> 32);
  default:
    return at < 24 || (at >= 32 && at < 64) || at >= SAVED_FIGURES_AT + SAVED_FIGURES * 8;
  }
}

/* The array of a layer comes after its block. */
static uint64_t bits_set_after(const struct stretch *block)
{
  uint64_t bits = 0;
  for (size_t at = 0; at < block[1].size; at += 8)
    bits += (uint64_t) __builtin_popcountll(number_at(file.data, block[1].at + at));
  return bits;
}

/* Whether no layer has the shape that this block would have with another one of its numbers. */
static bool is_wrong_shape(size_t block, size_t at, uint64_t number)
{
  static const unsigned char pairs[][2] = {{1, 1}, {1, 2}, {1, 3}, {2, 2}, {2, 3}, {3, 3}, {4, 3}};
  uint64_t shape[5]; /* of which one is the number of lines */
  for (unsigned i = 0; i < 5; i++)
    shape[i] = at == SAVED_UNIT + i * 8 ? number : number_at(file.data, block + SAVED_UNIT + i * 8);
  bool possible =
      (shape[0] == TAMIS_LAYOUT_CLASSIC && shape[4] - 1 < 32 && shape[1] == 1 && shape[2] == 2) ||
      (shape[0] == TAMIS_LAYOUT_BLOCKED && shape[4] - 2 < 4 && shape[1] == 3 && shape[2] == 3);
  for (unsigned i = 0; i < sizeof pairs / sizeof *pairs && shape[0] == TAMIS_LAYOUT_BLOCKED; i++)
    possible |= shape[4] == 1 && shape[1] == pairs[i][0] && shape[2] == pairs[i][1];
  return !possible;
}

/* A number of a further layer of a Bloom filter.  *mapped: see must_be_found. */
static bool is_wrong_in_layer(const struct stretch *block, size_t at, uint64_t number, bool *mapped)
{
  const double rate = saved_to_double(number);
  const uint64_t lines = number_at(file.data, block->at + SAVED_UNIT + 24);
  *mapped = at != 32 || number > lines * 512;
  switch (at) {
  case 32: /* keys */
    return number > bits_set_after(block);
  case 40: /* what unions have brought */
    return number > lines * 512;
  case 56: /* the sum */
    return false;
  case SAVED_UNIT:
  case SAVED_UNIT + 8:
  case SAVED_UNIT + 16:
  case SAVED_UNIT + 32:
    return is_wrong_shape(block->at, at, number);
  case SAVED_UNIT + 40: /* keys that it is made for */
    return !number || number >> 50;
  case SAVED_UNIT + 48:
    return !(rate > 0 && rate < 1);
  default: /* its type, size and numbers; and lines, of which the array has as many */
    return true;
  }
}

/* A number in the head of a block, or in the payload. */
static bool is_wrong_in_block(uint32_t type, size_t at, uint64_t was, uint64_t number)
{
  const bool far = number - was + 1 > 2 && number < UINT64_C(1) << 40;
  const unsigned figure = (unsigned) (at - SAVED_UNIT) / 8;
  const double excess = saved_to_double(number), fpp = saved_to_double(number_at(file.data, 72));
  if (at >= SAVED_UNIT && type == SAVED_WINDOW_LAYER)
    return is_wrong_in_window_layer(figure, was, number);
  if (at >= SAVED_UNIT && type == SAVED_WINDOW_COPIED)
    return number < was || number > window_most_period;
  switch (at) {
  case 0:
    return !(number >> 31 & 1) || (type != SAVED_REMOVED && type != SAVED_LIMITS);
  case 24:
    return type != SAVED_LIMITS || !(excess >= 0 && excess < fpp);
  case 32: /* of a segment another root may be as good */
    return type != SAVED_SEGMENT || !far;
  case 40:
    return type != SAVED_SEGMENT || number > INT32_MAX;
  case 56:
    return false; /* the sum */
  default:
    return at < SAVED_UNIT                              ? true
           : type == SAVED_SUMS || type == SAVED_PLACES ? true
           : type == SAVED_GENERATION                   ? is_out_of_range(figure, number, false)
           : type == SAVED_LIMITS                       ? number > 9
                                                        : false;
  }
}

static bool is_wrong_in_trailer(size_t at, uint64_t was, uint64_t number)
{
  if (at < 24)
    return true;
  if (file.window) /* lanes, the last period, and further copies */
    return at < 48 && (at != 32 || number < was || number > window_most_period);
  if (at == 24 && file.counting) /* beside a stuck counter, any number of copies may be in */
    return number >> 62;
  if (at == 32 && !file.cuckoo) /* only a Bloom filter that is limited can be full */
    return number > !(file.growable || file.counting);
  return at < 48 && (file.cuckoo || number > INT32_MAX);
}

/* ---- changes ---- */

static int try_load(const unsigned char *data)
{
  struct source s = {.data = data, .size = file.size};
  return load_any(s, UINT64_C(64) << 20, NULL);
}

static int try_map(const unsigned char *data, bool check_all)
{
  int fd = memfd_create("saved", 0);
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.check_all = check_all;
  tamis_filter *f;
  assert_int_equal(write(fd, data, file.size), file.size);
  int result = tamis_map_file(&options, path_of(fd), &f);
  tamis_destroy(f);
  close(fd);
  return result;
}

static unsigned long tried;

/* Whether a change of the word at `at` must be found.  *mapped: even if not all is checked.  (Among
 * the numbers are, as doubles, 0.5, -0.5, 1, and no number.) */
typedef bool must_be_found(const struct stretch *stretch, size_t at, uint64_t was, uint64_t number,
                           bool *mapped);

static void try_word(const struct stretch *stretch, size_t at, must_be_found *must)
{
  static unsigned char data[MOST_BYTES];
  const uint64_t was = number_at(file.data, at);
  static const unsigned char flipped[] = {0, 6, 12, 31, 32, 40, 63};
  static const uint64_t numbers[] = {0,
                                     2,
                                     10,
                                     12,
                                     64,
                                     SAVED_CHUNK + 64,
                                     1U << 31,
                                     1ULL << 41,
                                     0x3FEULL << 52,
                                     0xBFEULL << 52,
                                     0x3FFULL << 52,
                                     0xFFFULL << 51,
                                     UINT64_MAX};
  enum { FLIPPED = sizeof flipped, NUMBERS = FLIPPED + sizeof numbers / 8 };
  for (unsigned i = 0; i < NUMBERS + 2; i++) {
    uint64_t number = was + (i == NUMBERS ? 1 : UINT64_MAX);
    if (i < NUMBERS)
      number = i < FLIPPED ? was ^ UINT64_C(1) << flipped[i] : numbers[i - FLIPPED];
    bool mapped = false;
    if (number == was || !must(stretch, at, was, number, &mapped))
      continue;
    memcpy(data, file.data, file.size);
    saved_put64(data + at, number);
    seal(data);
    tried++;
    if (try_load(data) == TAMIS_OK || (file.can_be_mapped && try_map(data, true) == TAMIS_OK) ||
        (mapped && try_map(data, false) == TAMIS_OK))
      fail_msg("%s: %#llx at %zu was taken", file.name, (unsigned long long) number, at);
  }
}

static bool must_in_header(const struct stretch *stretch, size_t at, uint64_t was, uint64_t number,
                           bool *mapped)
{
  (void) stretch;
  *mapped = file.can_be_mapped;
  return is_wrong_in_header(at, was, number);
}

static bool must_in_block(const struct stretch *stretch, size_t at, uint64_t was, uint64_t number,
                          bool *mapped)
{
  uint32_t type = saved_get32(file.data + stretch->at);
  if (!file.cuckoo && type == SAVED_KIND_BLOCKS)
    return is_wrong_in_layer(stretch, at - stretch->at, number, mapped);
  *mapped = type == SAVED_PLACES && (at - stretch->at < SAVED_UNIT ||
                                     number % SAVED_ARRAY_ALIGNMENT || number >= file.size);
  return is_wrong_in_block(type, at - stretch->at, was, number);
}

static bool must_in_trailer(const struct stretch *stretch, size_t at, uint64_t was, uint64_t number,
                            bool *mapped)
{
  (void) stretch;
  *mapped =
      file.can_be_mapped && (at - file.trailer < 16 || at - file.trailer == 40 || !file.cuckoo);
  return is_wrong_in_trailer(at - file.trailer, was, number);
}

/* Bits above the last lane of a bucket. */
static bool is_wrong_in_bucket(uint64_t was, uint64_t number)
{
  uint64_t width = number_at(file.data, SAVED_GEOMETRY_AT);
  return (was ^ number) == UINT64_C(1) << 63 && 64 % width;
}

static bool must_in_buckets(const struct stretch *stretch, size_t at, uint64_t was, uint64_t number,
                            bool *mapped)
{
  uint64_t buckets = UINT64_C(2) << number_at(file.data, SAVED_GEOMETRY_AT + 8);
  size_t first = file.growable ? stretch->at + SAVED_UNIT
                               : stretch->at + stretch->size - up(buckets * 8, SAVED_UNIT);
  *mapped = false;
  if (stretch->array && at == stretch->at + (SAVED_COPYING_AT & ~7U))
    return (uint32_t) number || number >> 63;
  return at >= first && at < first + buckets * 8 ? is_wrong_in_bucket(was, number) : stretch->array;
}

static void try_buckets(const struct stretch *stretch)
{
  size_t begin = stretch->at + (stretch->array ? 0 : SAVED_UNIT);
  uint32_t type = saved_get32(file.data + stretch->at);
  for (size_t at = 0; at < stretch->size && (stretch->array || type == SAVED_SEGMENT); at += 8)
    try_word(stretch, begin + at, must_in_buckets);
}

static void try_file(void)
{
  assert_int_equal(try_load(file.data), TAMIS_OK);
  for (size_t at = 0; at < SAVED_HEADER - 8; at += 8)
    try_word(NULL, at, must_in_header);
  for (unsigned i = 0; i < file.n; i++)
    for (size_t at = 0; !file.stretches[i].array && at < SAVED_UNIT + file.stretches[i].size;
         at += 8)
      try_word(&file.stretches[i], file.stretches[i].at + at, must_in_block);
  for (unsigned i = 0; file.cuckoo && i < file.n; i++)
    try_buckets(&file.stretches[i]);
  for (size_t at = 0; at < SAVED_UNIT - 16; at += 8)
    try_word(NULL, file.trailer + at, must_in_trailer);
}

static int is_tried(const struct dirent *entry)
{
  const char *name = entry->d_name;
  return name[0] != '.' && strncmp(name, "found-", 6) != 0 && !strstr(name, "-own") &&
         !strstr(name, "-live");
}

static void every_number_that_matters_is_checked(void **state)
{
  (void) state;
  struct dirent **names;
  int n = scandir(CORPUS, &names, is_tried, alphasort);
  assert_in_range(n, 20, 100);
  for (int i = 0; i < n; i++) {
    read_file(CORPUS, names[i]->d_name);
    try_file();
    free(names[i]);
  }
  free(names);
  assert_in_range(tried, 20000, UINT32_MAX);
}

/* ---- parts that are out of place ---- */

static void split_file(const char *saved)
{
  char file_name[64];
  snprintf(file_name, sizeof file_name, "%s.tamis", saved);
  read_file(CORPUS, file_name);
  assert_true(parts_split(&parts, file.data, file.size) && parts.has_trailer);
}

/* The first part of this type, or its number. */
static unsigned find(uint32_t type)
{
  unsigned i = 0;
  while (i < parts.n && (parts.part[i].kind != PART_BLOCK || parts.part[i].type != type))
    i++;
  assert_true(i < parts.n);
  return i;
}

static void set_depth(struct part *part, unsigned depth)
{
  part->meanings[0] = (uint32_t) part->meanings[0] | (uint64_t) depth << 32;
}

static unsigned depth_of(const struct part *part)
{
  return (unsigned) (part->meanings[0] >> 32);
}

/* What is wrong with a segment is not found by its counts. */
static void split_without_counts(const char *saved)
{
  split_file(saved);
  for (unsigned i = parts.n; i-- > 0;)
    if (parts.part[i].kind == PART_BLOCK && parts.part[i].type == SAVED_COUNTS)
      drop(i);
}

static void segments_tile_each_root(void **state)
{
  (void) state;
  const char *const names[] = {"cuckoo-split", "cuckoo-joined"};
  for (unsigned i = 0; i < 2; i++) {
    split_without_counts(names[i]);
    const unsigned n = parts.n;
    assert_int_equal(load_joined(REPAIR_ALL), TAMIS_OK);
    for (unsigned j = 0; j < n; j++) {
      split_without_counts(names[i]);
      drop(j);
      assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
      split_without_counts(names[i]);
      insert(j, parts.part[j]);
      assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
      split_without_counts(names[i]);
      insert(j, parts.part[(j + 1) % n]);
      drop((j + 1) % n + ((j + 1) % n >= j));
      assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
      split_without_counts(names[i]);
      set_depth(&parts.part[j], depth_of(&parts.part[j]) + 1);
      assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
    }
  }
}

/* A larger segment follows a smaller one, where it cannot stand. */
static void segments_are_aligned(void **state)
{
  (void) state;
  split_without_counts("cuckoo-joined");
  unsigned swapped = 0;
  for (unsigned j = 0; j + 1 < parts.n; j++) {
    struct part *larger = &parts.part[j], *smaller = larger + 1;
    if (depth_of(larger) >= depth_of(smaller))
      continue;
    struct part first = *smaller, second = *larger;
    first.meanings[1] = larger->meanings[1];
    uint64_t limit = number_at(parts.header, SAVED_GEOMETRY_AT + 8 * SAVED_DEPTH_LIMIT);
    second.meanings[1] = first.meanings[1] + (UINT64_C(1) << (limit - depth_of(smaller)));
    *larger = first;
    *smaller = second;
    assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
    split_without_counts("cuckoo-joined");
    swapped++;
  }
  assert_in_range(swapped, 1, UINT32_MAX);
}

/* A root that is not complete before another one, or before the next generation. */
static void roots_are_complete(void **state)
{
  (void) state;
  const char *const name = "cuckoo-generations-copies";
  split_without_counts(name);
  const unsigned generation = find(SAVED_GENERATION), n = parts.n;
  assert_in_range(generation, 1, n - 3);
  for (unsigned j = generation + 1; j < n; j++) {
    set_depth(&parts.part[j], depth_of(&parts.part[j]) + 1);
    assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
    split_without_counts(name);
  }
  assert_in_range(depth_of(&parts.part[generation - 1]), 1, 7);
  drop(generation - 1);
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
}

static void sizes_are_exact(void **state)
{
  (void) state;
  const struct {
    const char *saved;
    uint32_t type;
    int more; /* bytes; -1: none are left */
  } sizes[] = {{"cuckoo-split", SAVED_SEGMENT, -8},
               {"cuckoo-split", SAVED_SEGMENT, -1},
               {"cuckoo-generations-2", SAVED_GENERATION, 8},
               {"cuckoo-generations-2", SAVED_GENERATION, -8},
               {"cuckoo-split-removed", SAVED_REMOVED, -1},
               {"cuckoo-split-removed", SAVED_REMOVED, -4},
               {"cuckoo-united", SAVED_LIMITS, 8},
               {"cuckoo-united", SAVED_LIMITS, -1},
               {"cuckoo-fixed-copies", SAVED_PLACES, 8}};
  for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    split_file(sizes[i].saved);
    struct part *part = &parts.part[find(sizes[i].type)];
    unsigned char *data = parts_room(&parts, part->size + 8);
    memset(data, 0, part->size + 8);
    memcpy(data, part->data, part->size);
    part->data = data;
    part->size = sizes[i].more == -1 ? 0 : part->size + (size_t) (ptrdiff_t) sizes[i].more;
    part->said = part->size;
    assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
  }
}

/* More blocks than there can be, or than may follow. */
static void blocks_too_many_are_found(void **state)
{
  (void) state;
  split_file("cuckoo-generations-2");
  unsigned first = find(SAVED_GENERATION), most = 23;
  while (parts.n > first + 1)
    drop(parts.n - 1);
  for (unsigned i = 1; i < most; i++) {
    insert(first + i, parts.part[first]);
    parts.part[first + i].meanings[0] = i + 1;
  }
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_OK);
  insert(parts.n, parts.part[first]);
  parts.part[parts.n - 1].meanings[0] = most + 1;
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
  split_file("cuckoo-united");
  insert(parts.n, parts.part[find(SAVED_LIMITS)]);
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
  split_file("cuckoo-copies");
  insert(find(SAVED_COUNTS), parts.part[find(SAVED_COUNTS)]);
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
  const char *const names[] = {"cuckoo-fixed-copies", "bloom-blocked"};
  for (unsigned i = 0; i < 2; i++) {
    split_file(names[i]);
    insert(parts.n, (struct part){.kind = PART_BLOCK, .type = SAVED_SEGMENT, .data = joined});
    assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
    tamis_filter *f;
    for (unsigned all = 0; all < 2; all++)
      assert_int_equal(map_joined(REPAIR_ALL, all, &f), TAMIS_ECORRUPT);
  }
}

/* ---- duplicate counts ---- */

enum { AN_EMPTY_LANE = 1 << 20 };

/* The first lane from `lane` on that is in use, or that is empty. */
static uint64_t lane_from(const unsigned char *words, uint64_t lane, bool in_use)
{
  const unsigned width = (unsigned) number_at(file.data, SAVED_GEOMETRY_AT), lanes = 64 / width;
  const struct lane_shape s = lane_shape(width, lanes, false);
  while (!lane_get(&s, number_at(words, lane / lanes * 8), (unsigned) (lane % lanes)) == in_use)
    lane++;
  return lane;
}

/* Replaces all counts by these: pairs of lanes that are skipped (0: up to the next one in use) and a
 * count, which is 0 at the end. */
static void put_counts(bool growable, const uint64_t *numbers)
{
  split_file(growable ? "cuckoo-copies" : "cuckoo-fixed-copies");
  struct part *part = &parts.part[find(SAVED_COUNTS)];
  const size_t bytes = (size_t) (16 << number_at(file.data, SAVED_GEOMETRY_AT + 8));
  const unsigned char *words = part[-1].data + (growable ? 0 : part[-1].size - up(bytes, 64));
  unsigned char *end = part->data = parts_room(&parts, 256);
  for (uint64_t next = 0, lane; numbers[1]; numbers += 2, next = lane + 1) {
    lane = numbers[0] == AN_EMPTY_LANE ? lane_from(words, next, false)
           : numbers[0]                ? next + numbers[0]
                                       : lane_from(words, next, true);
    end = number_put(number_put(end, lane - next), numbers[1]);
  }
  part->size = part->said = (size_t) (end - part->data);
}

static void counts_are_limited(void **state)
{
  (void) state;
  const uint64_t most = (UINT64_C(1) << 53) - 1;
  const uint64_t good[] = {0, most, 0, 0}, one_more[] = {0, most, 0, 1, 0, 0},
                 many_more[] = {0, most, 0, most, 0, most, 0, 0}, large[] = {0, most + 1, 0, 0},
                 beyond[] = {10000, 1, 0, 0}, empty[] = {AN_EMPTY_LANE, 1, 0, 0};
  tamis_filter *f;
  for (unsigned growable = 0; growable < 2; growable++) {
    put_counts(growable, good);
    assert_int_equal(load_joined(REPAIR_ALL), TAMIS_OK);
    const uint64_t *const bad[] = {one_more, many_more, large, beyond, empty};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
      for (unsigned counted = 0; counted < 2; counted++) {
        unsigned repair = counted ? (unsigned) REPAIR_ALL : REPAIR_ALL & ~(unsigned) REPAIR_COUNTS;
        put_counts(growable, bad[i]);
        if (!counted)
          saved_put64(parts.trailer + 32, 0);
        assert_int_equal(load_joined(repair), TAMIS_ECORRUPT);
        if (!growable)
          assert_int_equal(map_joined(repair, true, &f), TAMIS_ECORRUPT);
      }
  }
  /* What has not been checked when it was mapped is checked when it is used. */
  put_counts(false, large);
  assert_int_equal(map_joined(REPAIR_ALL, false, &f), TAMIS_OK);
  struct bytes none = {.data = NULL};
  assert_int_equal(tamis_save(f, write_bytes, &none), TAMIS_ECORRUPT);
  free(none.data);
  tamis_destroy(f);
}

/* A number in more bytes than it needs. */
static void numbers_are_written_in_one_way(void **state)
{
  (void) state;
  const uint64_t one[] = {0, 5, 0, 0};
  put_counts(true, one);
  struct part *part = &parts.part[find(SAVED_SEGMENT)];
  part->data[part->size - 1] |= 0x80;
  part->data[part->size] = 0;
  part->said = ++part->size;
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
}

/* ---- layers of a window ---- */

/* A window of two layers, in which no period has ended. */
static void split_window(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 20;
  options.fpp = 0.001;
  options.window = 8;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  for (uint64_t key = 0; stats_of(f).layers < 2; key++)
    assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
  struct bytes bytes = saved_bytes(f);
  tamis_destroy(f);
  assert_true(parts_split(&parts, bytes.data, bytes.size) && parts.has_trailer);
  assert_int_equal(saved_get64(parts.header + SAVED_GEOMETRY_AT + 8 * SAVED_WINDOW_LAYERS), 2);
  free(bytes.data);
}

static int load_with_layer_number(unsigned number, uint64_t value)
{
  split_window();
  saved_put64(parts.part[find(SAVED_WINDOW_LAYER)].data + 8 * (size_t) number, value);
  return load_joined(REPAIR_ALL);
}

/* Each has an index of its own. */
static void layers_of_a_window_differ(void **state)
{
  (void) state;
  const size_t first = SAVED_GEOMETRY_AT + 8 * SAVED_WINDOW_OLDEST;
  split_window();
  uint64_t index = saved_get64(parts.header + first + 8 * SAVED_LAYER_INDEX);
  assert_int_equal(load_with_layer_number(SAVED_LAYER_INDEX, index + 2), TAMIS_OK);
  assert_int_equal(load_with_layer_number(SAVED_LAYER_INDEX, index), TAMIS_ECORRUPT);
  split_window();
  saved_put32(parts.header + 44, 0); /* it does not grow */
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
}

/* No segment was copied before the one before it, nor after the end of the save. */
static void copies_of_a_window_are_in_order(void **state)
{
  (void) state;
  static const struct {
    uint64_t first, second, end;
    int expected;
  } tries[] = {{0, 0, 0, TAMIS_OK},       {1, 1, 1, TAMIS_OK},       {1, 2, 3, TAMIS_OK},
               {2, 1, 2, TAMIS_ECORRUPT}, {2, 1, 1, TAMIS_ECORRUPT}, {1, 2, 1, TAMIS_ECORRUPT},
               {2, 2, 1, TAMIS_ECORRUPT}};
  for (unsigned i = 0; i < sizeof tries / sizeof *tries; i++) {
    split_window();
    unsigned first = find(SAVED_WINDOW_COPIED), second = first + 1;
    while (parts.part[second].kind != PART_BLOCK || parts.part[second].type != SAVED_WINDOW_COPIED)
      second++;
    saved_put64(parts.part[first].data, tries[i].first);
    saved_put64(parts.part[second].data, tries[i].second);
    saved_put64(parts.trailer + 32, tries[i].end);
    assert_int_equal(load_joined(REPAIR_ALL), tries[i].expected);
  }
}

/* ---- the rest ---- */

/* The header's seed is 0, and the probe follows. */
static void a_seed_of_zero_is_none(void **state)
{
  (void) state;
  split_file("bloom-blocked");
  struct tamis_filter head = {.keys = hash_keys_from_seed(0)};
  saved_put64(parts.header + 48, 0);
  saved_put64(parts.header + 56, filter_probe(&head));
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
}

/* Keys that are to be removed take memory beside the filter, but no more than it may take. */
static void removed_keys_stay_within_the_limit(void **state)
{
  (void) state;
  enum { HASHES = 4000, BLOCKS = 6, LIMIT = 1 << 17 };
  split_file("cuckoo-split-removed");
  struct part *part = &parts.part[find(SAVED_REMOVED)];
  part->data = parts_room(&parts, HASHES * 8);
  memset(part->data, 7, HASHES * 8);
  part->size = part->said = HASHES * 8;
  for (unsigned i = 1; i < BLOCKS; i++)
    insert(parts.n, *part);
  struct source s = join_with(REPAIR_ALL);
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  tamis_filter *f;
  assert_int_equal(load_any(s, 0, NULL), TAMIS_ECORRUPT); /* they are not in */
  options.max_bytes = LIMIT;
  assert_int_equal(tamis_load(&options, read_source, &s, &f), TAMIS_EFULL);
}

/* In a mapped file, the places are found by the trailer. */
static void parts_are_aligned(void **state)
{
  (void) state;
  enum { SHIFT = 8 };
  read_file(CORPUS, "cuckoo-fixed-copies.tamis");
  size_t places = (size_t) number_at(file.data, file.trailer + 40);
  memcpy(joined, file.data, places);
  memset(joined + places, 0, SHIFT);
  memcpy(joined + places + SHIFT, file.data + places, file.size - places);
  file.trailer += SHIFT;
  file.size += SHIFT;
  saved_put64(joined + file.trailer + 8, file.size);
  saved_put64(joined + file.trailer + 40, places + SHIFT);
  saved_put64(joined + file.trailer + 56, hash_sum(joined + file.trailer, 56, 0));
  assert_int_equal(try_map(joined, false), TAMIS_ECORRUPT);
}

/* The sums of an array are in as few blocks as possible. */
static void sums_are_in_one_block(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1300000, 0.01);
  struct bytes bytes = saved_bytes(f);
  tamis_destroy(f);
  size_t trailer = bytes.size - SAVED_UNIT, sums = trailer - (size_t) 2 * SAVED_UNIT;
  size_t rest = (size_t) number_at(bytes.data, sums + 8) - 8;
  assert_in_range(rest, 8, SAVED_UNIT - 8);
  bytes.data = realloc(bytes.data, bytes.size += (size_t) 2 * SAVED_UNIT);
  assert_non_null(bytes.data);
  memmove(bytes.data + trailer + (size_t) 2 * SAVED_UNIT, bytes.data + trailer, SAVED_UNIT);
  trailer += (size_t) 2 * SAVED_UNIT;
  unsigned char *first = bytes.data + sums, *second = first + (size_t) 2 * SAVED_UNIT;
  memcpy(second, first, (size_t) 2 * SAVED_UNIT);
  memset(second + SAVED_UNIT, 0, SAVED_UNIT);
  memcpy(second + SAVED_UNIT, first + SAVED_UNIT + 8, rest);
  memset(first + SAVED_UNIT + 8, 0, rest);
  saved_put64(first + 8, 8);
  saved_put64(second + 8, rest);
  saved_put64(second + 16, 1);
  saved_put64(second + 40, 1);
  saved_put64(bytes.data + trailer + 8, bytes.size);
  saved_put64(bytes.data + trailer + 16, 2);
  uint64_t digest = saved_next_digest(0, number_at(bytes.data, SAVED_HEADER - 8));
  for (unsigned i = 0; i < 2; i++) {
    unsigned char *block = i ? second : first;
    uint64_t sum = saved_block_sum(block, block + SAVED_UNIT, i ? rest : 8);
    saved_put64(block + 56, sum);
    digest = saved_next_digest(digest, sum);
  }
  saved_put64(bytes.data + trailer + 48, digest);
  saved_put64(bytes.data + trailer + 56, hash_sum(bytes.data + trailer, 56, 0));
  assert_int_equal(load_any(source_of(&bytes), 0, NULL), TAMIS_ECORRUPT);
  free(bytes.data);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_number_that_matters_is_checked),
      cmocka_unit_test(segments_tile_each_root),
      cmocka_unit_test(segments_are_aligned),
      cmocka_unit_test(roots_are_complete),
      cmocka_unit_test(sizes_are_exact),
      cmocka_unit_test(blocks_too_many_are_found),
      cmocka_unit_test(counts_are_limited),
      cmocka_unit_test(numbers_are_written_in_one_way),
      cmocka_unit_test(layers_of_a_window_differ),
      cmocka_unit_test(copies_of_a_window_are_in_order),
      cmocka_unit_test(a_seed_of_zero_is_none),
      cmocka_unit_test(removed_keys_stay_within_the_limit),
      cmocka_unit_test(parts_are_aligned),
      cmocka_unit_test(sums_are_in_one_block),
  };
  return cmocka_run_group_tests_name("saved_read", tests, NULL, NULL);
}
