/* SPDX-License-Identifier: MIT
 *
 * What a reader refuses, and how much memory it takes, where that takes more than one change of a file:
 * compat.allowed has each number and each part by itself.  All sums are right.
 */
#include "fuzz/parts.h"
#include "saved_unit.h"

#include "bloom/bloom.h"
#include "cuckoo/save.h"
#include "kinds.h"
#include "window/save.h"

/* ---- a file and its parts ---- */

static struct {
  unsigned char data[1 << 15];
  size_t size;
} file;

static struct parts parts;

static unsigned char joined[1 << 19];

static struct source join_with(unsigned repair)
{
  size_t size = parts_join(&parts, repair, joined, sizeof joined);
  assert_true(size > 0);
  return (struct source){.data = joined, .size = size};
}

static int load_joined(unsigned repair)
{
  return load_any(join_with(repair), UINT64_C(64) << 20, NULL);
}

static int map_joined(unsigned repair, bool check_all, tamis_filter **out)
{
  return map_source(join_with(repair), check_all, out);
}

static void insert(unsigned at, struct part part)
{
  memmove(&parts.part[at + 1], &parts.part[at], (parts.n++ - at) * sizeof *parts.part);
  parts.part[at] = part;
}

static void drop(unsigned at)
{
  memmove(&parts.part[at], &parts.part[at + 1], (--parts.n - at) * sizeof *parts.part);
}

static size_t up(size_t x, size_t unit)
{
  return (x + unit - 1) & -unit;
}

static uint64_t number_at(const unsigned char *data, size_t at)
{
  return saved_get64(data + at);
}

static void split_file(const char *name)
{
  char path[1000];
  snprintf(path, sizeof path, "%s/%s.tamis", CORPUS, name);
  FILE *from = fopen(path, "rb");
  assert_non_null(from);
  file.size = fread(file.data, 1, sizeof file.data, from);
  fclose(from);
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

/* A larger segment follows a smaller one, where it cannot stand. */
TEST(segments_are_aligned)
{
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

/* More blocks than there can be, or than may follow. */
TEST(blocks_too_many_are_found)
{
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

TEST(counts_are_limited)
{
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
TEST(numbers_are_written_in_one_way)
{
  const uint64_t one[] = {0, 5, 0, 0};
  put_counts(true, one);
  struct part *part = &parts.part[find(SAVED_SEGMENT)];
  part->data[part->size - 1] |= 0x80;
  part->data[part->size] = 0;
  part->said = ++part->size;
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
}

/* ---- layers ---- */

/* Puts a layer after all others, which is like the last one but for its number. */
static void append_layer(void)
{
  struct part block = parts.part[parts.n - 2], array = parts.part[parts.n - 1];
  block.meanings[0]++;
  insert(parts.n, block);
  insert(parts.n, array);
  unsigned char *further = parts.header + SAVED_GEOMETRY_AT + 48;
  saved_put64(further, number_at(further, 0) + 1);
}

/* A filter has 64 layers at most; and one only, if it does not grow or counts. */
TEST(not_all_filters_have_layers)
{
  static unsigned char bytes[1 << 13];
  split_file("bloom-layers");
  struct part block = parts.part[1], array = parts.part[2];
  memcpy(bytes, block.data, block.size);
  memcpy(bytes + block.size, array.data, array.size);
  block.data = bytes;
  array.data = bytes + block.size;
  for (unsigned layers = parts.n / 2 + 1; layers <= 65; layers++) {
    assert_int_equal(load_joined(REPAIR_ALL), layers < 65 ? TAMIS_OK : TAMIS_ECORRUPT);
    append_layer();
  }
  split_file("bloom-layers");
  saved_put32(parts.header + 44, 0); /* it does not grow, and has a limit of keys */
  saved_put64(parts.header + SAVED_GEOMETRY_AT + 40, 10);
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
  const char *const names[] = {"bloom-blocked", "counting"};
  for (unsigned i = 0; i < 2; i++) {
    split_file(names[i]);
    insert(1, block);
    insert(2, array);
    saved_put64(parts.header + 16, SAVED_LAYERS);
    saved_put64(parts.header + SAVED_GEOMETRY_AT + 48, 1);
    assert_int_equal(load_joined(REPAIR_ALL), i == 0 ? TAMIS_OK : TAMIS_EUNSUPPORTED);
  }
}

/* The layers after the first one are blocked or classic: shapes that other layouts have are
 * refused. */
TEST(later_layers_have_two_layouts)
{
  for (uint64_t layout = 0; layout <= BLOOM_LAYOUT_COUNTING; layout++) {
    split_file("bloom-layers");
    const uint64_t shape[] = {layout, 1, layout == TAMIS_LAYOUT_CLASSIC ? 2 : 1};
    for (unsigned i = 0; i < 3; i++)
      saved_put64(parts.part[1].data + (size_t) i * 8, shape[i]);
    assert_int_equal(load_joined(REPAIR_ALL),
                     layout <= TAMIS_LAYOUT_CLASSIC ? TAMIS_OK : TAMIS_ECORRUPT);
  }
}

/* A window of two layers, in which no period has ended. */
static void split_window(void)
{
  tamis_options options = seeded_options(TAMIS_BLOOM, 20, 0.001, true);
  options.window = 8;
  tamis_filter *f = make_with_options(&options);
  for (uint64_t key = 0; stats_of(f).layers < 2; key++)
    assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
  struct bytes bytes = saved_bytes(f);
  tamis_destroy(f);
  assert_true(parts_split(&parts, bytes.data, bytes.size) && parts.has_trailer);
  assert_int_equal(saved_get64(parts.header + SAVED_GEOMETRY_AT + 8 * SAVED_WINDOW_LAYERS), 2);
  free(bytes.data);
}

/* No segment was copied before the one before it, nor after the end of the save. */
TEST(copies_of_a_window_are_in_order)
{
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

TEST(windows_of_the_bloom_kind_have_no_counts)
{
  split_file("window-cuckoo");
  saved_put32(parts.header + 32, TAMIS_BLOOM);
  saved_put64(parts.header + SAVED_GEOMETRY_AT + 8 * SAVED_WINDOW_FURTHER, 0);
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
  drop(find(SAVED_COUNTS));
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_OK);
}

/* ---- the rest ---- */

/* A filter or a layer without lines, in a file that is right in all else: there is the padding
 * before an array, and neither words nor sums. */
TEST(arrays_have_lines)
{
  static unsigned char zeros[SAVED_ARRAY_ALIGNMENT];
  const char *const names[] = {"bloom-blocked-empty", "counting", "bloom-layers"};
  for (unsigned i = 0; i < 3; i++) {
    split_file(names[i]);
    unsigned at = parts.n - 1; /* of the array */
    drop(at);
    if (at) {
      parts.part[at - 1].meanings[1] = 0; /* keys */
      saved_put64(parts.part[at - 1].data + 24, 0);
    } else {
      saved_put64(parts.header + SAVED_GEOMETRY_AT + 24, 0);
      memset(parts.trailer + 24, 0, 24);
    }
    size_t end = join_with(REPAIR_ALL).size - SAVED_UNIT;
    insert(at, (struct part){
                   .kind = PART_REST, .data = zeros, .size = -end & (SAVED_ARRAY_ALIGNMENT - 1)});
    assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
  }
}

/* A rest that is larger than the sum of all counters, and a number of copies that makes up for
 * it. */
TEST(a_rest_is_a_part_of_the_counters)
{
  split_file("counting");
  uint64_t of_key = number_at(parts.header, SAVED_GEOMETRY_AT + 8) *
                    number_at(parts.header, SAVED_GEOMETRY_AT + 16),
           sum = number_at(parts.trailer, 24) * of_key + number_at(parts.trailer, 40), more = 1;
  while (-more % of_key)
    more++;
  assert_true(-more / of_key < UINT64_C(1) << 62);
  saved_put64(parts.trailer + 24, -more / of_key);
  saved_put64(parts.trailer + 40, sum + more);
  assert_int_equal(load_joined(REPAIR_ALL & ~(unsigned) REPAIR_COUNTS), TAMIS_ECORRUPT);
}

/* The header's seed is 0, and the probe follows. */
TEST(a_seed_of_zero_is_none)
{
  split_file("bloom-blocked");
  struct tamis_filter head = {.keys = hash_keys_from_seed(0)};
  saved_put64(parts.header + 48, 0);
  saved_put64(parts.header + 56, filter_probe(&head));
  assert_int_equal(load_joined(REPAIR_ALL), TAMIS_ECORRUPT);
}

/* The block of an array's sums names the array's place and size.  Sums of another array are refused. */
TEST(sums_are_those_of_their_array)
{
  tamis_filter *f;
  for (unsigned i = 0; i <= SAVED_MEANINGS; i++) {
    split_file("bloom-blocked");
    struct source s = join_with(REPAIR_ALL);
    unsigned char *trailer = joined + s.size - SAVED_UNIT, *block = trailer - 2 * SAVED_UNIT;
    assert_int_equal(saved_get32(block), SAVED_SUMS);
    if (i < SAVED_MEANINGS)
      block[24 + i * 8] ^= SAVED_UNIT;
    const uint64_t sum = saved_block_sum(block, block + SAVED_UNIT, 8),
                   digest = saved_next_digest(0, number_at(joined, SAVED_HEADER - 8));
    saved_put64(block + 56, sum);
    saved_put64(trailer + 48, saved_next_digest(digest, sum));
    saved_put64(trailer + 56, hash_sum(trailer, 56, 0));
    const int expected = i < SAVED_MEANINGS ? TAMIS_ECORRUPT : TAMIS_OK;
    assert_int_equal(load_any(s, 0, NULL), expected);
    assert_int_equal(map_source(s, false, &f), expected);
    tamis_destroy(f);
  }
}

/* Keys that are to be removed take memory beside the filter, but no more than it may take. */
TEST(removed_keys_stay_within_the_limit)
{
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

/* In a mapped file that is not checked, the trailer says where the places are, and these where the
 * segments are. */
TEST(places_are_always_checked)
{
  enum { SHIFT = 8 };
  const unsigned repair = REPAIR_ALL & ~(unsigned) REPAIR_COUNTS;
  const uint64_t places[] = {0, 64, 4096 + 64, 1 << 20, UINT64_C(1) << 63, UINT64_MAX};
  tamis_filter *f;
  for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
    split_file("cuckoo-fixed-copies");
    saved_put64(parts.part[find(SAVED_PLACES)].data, places[i]);
    const int expected = places[i] ? TAMIS_ECORRUPT : TAMIS_OK; /* the header may lie there */
    assert_int_equal(map_joined(repair, false, &f), expected);
    tamis_destroy(f);
    saved_put64(parts.trailer + 40, places[i] + 1);
    assert_int_equal(map_joined(repair, false, &f), TAMIS_ECORRUPT);
  }
  split_file("cuckoo-fixed-copies"); /* whole, but no multiple of a unit */
  const size_t trailer = file.size - SAVED_UNIT,
               begin = (size_t) number_at(file.data, trailer + 40);
  memcpy(joined, file.data, begin);
  memset(joined + begin, 0, SHIFT);
  memcpy(joined + begin + SHIFT, file.data + begin, file.size - begin);
  unsigned char *moved = joined + trailer + SHIFT;
  saved_put64(moved + 8, file.size + SHIFT);
  saved_put64(moved + 40, begin + SHIFT);
  saved_put64(moved + 56, hash_sum(moved, 56, 0));
  assert_int_equal(
      map_source((struct source){.data = joined, .size = file.size + SHIFT}, false, &f),
      TAMIS_ECORRUPT);
}
