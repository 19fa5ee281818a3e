/* SPDX-License-Identifier: MIT
 *
 * What a reader checks, number by number: in files of every kind, each number that a reader may not
 * ignore is changed, and all sums are made right again.  The sums are not what finds it.
 */
#include "saved_unit.h"

#include "cuckoo/counts.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- a file and its parts ---- */

enum { MOST_BYTES = 1 << 15, MOST_PARTS = 64 };

struct part {
  size_t at;   /* of the head, or of an array */
  size_t size; /* of the payload, or of the array */
  bool array;
};

static struct saved {
  char name[64];
  unsigned char data[MOST_BYTES];
  size_t size;
  struct part parts[MOST_PARTS];
  unsigned n;
  size_t trailer;
  bool cuckoo, growable;
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

static struct part next_part(size_t at)
{
  struct part part = {.at = at, .size = (size_t) number_at(file.data, at + 8)};
  if (saved_get32(file.data + at) && number_at(file.data, at + 16) < MOST_PARTS)
    return part;
  part = (struct part){.at = up(at, SAVED_ARRAY_ALIGNMENT), .size = SAVED_UNIT, .array = true};
  while (!ends_array(part.at, part.at + part.size))
    part.size += SAVED_UNIT;
  return part;
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
  file.cuckoo = saved_get32(file.data + 32) == TAMIS_CUCKOO;
  file.growable = saved_get32(file.data + 44);
  file.n = 0;
  for (size_t at = SAVED_HEADER; at < file.trailer;) {
    struct part part = next_part(at);
    file.parts[file.n++] = part;
    assert_true(file.n < MOST_PARTS);
    at = part.at + part.size;
    if (!part.array)
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
    const struct part *part = &file.parts[i];
    if (part->array) {
      const struct part *sums = part + 1;
      if (memcmp(data + part->at, file.data + part->at, part->size) != 0)
        saved_put64(data + sums->at + SAVED_UNIT, hash_sum(data + part->at, part->size, 0));
      continue;
    }
    uint64_t said = number_at(data, part->at + 8);
    size_t size = said < file.size - part->at - SAVED_UNIT ? (size_t) said : part->size;
    uint64_t sum = saved_block_sum(data + part->at, data + part->at + SAVED_UNIT, size);
    saved_put64(data + part->at + 56, sum);
    digest = saved_next_digest(digest, sum);
  }
  saved_put64(data + file.trailer + 48, digest);
  saved_put64(data + file.trailer + 56, hash_sum(data + file.trailer, 56, 0));
}

/* ---- what a reader must refuse: docs/format.md ---- */

static bool is_width(uint64_t width)
{
  return width == 8 || width == 9 || width == 10 || width == 12 || width == 16 || width == 21 ||
         width == 32;
}

/* A number of the geometry of a generation. */
static bool is_out_of_range(unsigned i, uint64_t number, bool first)
{
  double rate = saved_to_double(number);
  uint64_t most_stripes = file.growable ? 16 : 32;
  switch (i) {
  case SAVED_WIDTH:
    return !is_width(number);
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

static bool is_wrong_geometry(unsigned i, uint64_t number)
{
  enum { FIRST_ROOTS = 6, COPIES = 9, LINES = 3, BLOOM = 5 };
  if (!file.cuckoo)
    return i == LINES || i >= BLOOM;
  return i < FIRST_ROOTS    ? is_out_of_range(i, number, true)
         : i == FIRST_ROOTS ? !number || number >> 48
         : i == COPIES      ? number > 1
                            : i > COPIES;
}

static bool is_wrong_in_header(size_t at, uint64_t number)
{
  double fpp = saved_to_double(number);
  if (at >= SAVED_GEOMETRY_AT)
    return is_wrong_geometry((unsigned) (at - SAVED_GEOMETRY_AT) / 8, number);
  switch (at) {
  case 64: /* capacity */
    return !number;
  case 72:
    return !(fpp > 0 && fpp < 1);
  case 40: /* mixing and `growable` */
    return (uint32_t) number != 1 || number >> 32 > 1;
  case 88: /* stripes and layout */
    return (uint32_t) number > 4096 || number >> 32 > 2 || (file.cuckoo && number >> 32);
  default:
    return at < 24 || (at >= 32 && at < 64) || at >= SAVED_FIGURES_AT + SAVED_FIGURES * 8;
  }
}

/* A number in the head of a block, or in the payload. */
static bool is_wrong_in_block(uint32_t type, size_t at, uint64_t was, uint64_t number)
{
  const bool far = number - was + 1 > 2 && number < UINT64_C(1) << 40;
  const unsigned figure = (unsigned) (at - SAVED_UNIT) / 8;
  const double excess = saved_to_double(number), fpp = saved_to_double(number_at(file.data, 72));
  switch (at) {
  case 0:
    return !(number >> 31 & 1) || (type != SAVED_REMOVED && type != SAVED_LIMITS);
  case 24:
    return type != SAVED_LIMITS || !(excess >= 0 && excess < fpp);
  case 32: /* of a segment another root may be as good */
    return type != SAVED_SEGMENT || !far;
  case 40:
    return (type != SAVED_SEGMENT && type != SAVED_COUNTS) || number > INT32_MAX;
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

static bool is_wrong_in_trailer(size_t at, uint64_t number)
{
  if (at < 24)
    return true;
  return at < 48 && (file.cuckoo || number > INT32_MAX || (at == 32 && number > 1));
}

/* ---- changes ---- */

static const char *path_of(int fd)
{
  static char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return path;
}

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

/* Whether a change of the word at `at` must be found.  *mapped: even if not all is checked. */
typedef bool must_be_found(const struct part *part, size_t at, uint64_t was, uint64_t number,
                           bool *mapped);

static void try_word(const struct part *part, size_t at, must_be_found *must)
{
  static unsigned char data[MOST_BYTES];
  const uint64_t was = number_at(file.data, at);
  const uint64_t numbers[] = {was ^ 1,
                              was + 1,
                              was - 1,
                              was ^ UINT64_C(1) << 6,
                              was ^ UINT64_C(1) << 12,
                              was ^ UINT64_C(1) << 31,
                              was ^ UINT64_C(1) << 32,
                              was ^ UINT64_C(1) << 40,
                              was ^ UINT64_C(1) << 63,
                              0,
                              2,
                              10,
                              12,
                              64,
                              SAVED_CHUNK + 64,
                              INT32_MAX + UINT64_C(1),
                              UINT64_C(1) << 41,
                              UINT64_C(0x7FF8000000000000), /* no number */
                              UINT64_MAX};
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    bool mapped = false;
    if (numbers[i] == was || !must(part, at, was, numbers[i], &mapped))
      continue;
    memcpy(data, file.data, file.size);
    saved_put64(data + at, numbers[i]);
    seal(data);
    tried++;
    if (try_load(data) == TAMIS_OK || (!file.growable && try_map(data, true) == TAMIS_OK) ||
        (mapped && try_map(data, false) == TAMIS_OK))
      fail_msg("%s: %#llx at %zu was taken", file.name, (unsigned long long) numbers[i], at);
  }
}

static bool must_in_header(const struct part *part, size_t at, uint64_t was, uint64_t number,
                           bool *mapped)
{
  (void) part, (void) was;
  *mapped = !file.growable;
  return is_wrong_in_header(at, number);
}

static bool must_in_block(const struct part *part, size_t at, uint64_t was, uint64_t number,
                          bool *mapped)
{
  uint32_t type = saved_get32(file.data + part->at);
  *mapped = type == SAVED_PLACES &&
            (at - part->at < SAVED_UNIT || number % SAVED_ARRAY_ALIGNMENT || number >= file.size);
  return is_wrong_in_block(type, at - part->at, was, number);
}

static bool must_in_trailer(const struct part *part, size_t at, uint64_t was, uint64_t number,
                            bool *mapped)
{
  (void) part, (void) was;
  *mapped = !file.growable && (at - file.trailer < 16 || at - file.trailer == 40);
  return is_wrong_in_trailer(at - file.trailer, number);
}

static void try_file(void)
{
  assert_int_equal(try_load(file.data), TAMIS_OK);
  for (size_t at = 0; at < SAVED_HEADER - 8; at += 8)
    try_word(NULL, at, must_in_header);
  for (unsigned i = 0; i < file.n; i++)
    for (size_t at = 0; !file.parts[i].array && at < SAVED_UNIT + file.parts[i].size; at += 8)
      try_word(&file.parts[i], file.parts[i].at + at, must_in_block);
  for (size_t at = 0; at < SAVED_UNIT - 16; at += 8)
    try_word(NULL, file.trailer + at, must_in_trailer);
}

static int is_tried(const struct dirent *entry)
{
  const char *name = entry->d_name;
  return name[0] != '.' && strncmp(name, "found-", 6) != 0 && !strstr(name, "-own");
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_number_that_matters_is_checked),
  };
  return cmocka_run_group_tests_name("saved_read", tests, NULL, NULL);
}
