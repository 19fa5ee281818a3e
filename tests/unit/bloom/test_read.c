/* SPDX-License-Identifier: MIT
 *
 * What a reader of Bloom filters checks, part by part; test_saved_read.c has each number by itself.
 */
#include "parts_unit.h"

#include "bloom/bloom.h"

static void split_file(const char *name)
{
  static unsigned char data[1 << 16];
  char path[1000];
  snprintf(path, sizeof path, "%s/%s.tamis", CORPUS, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(data, 1, sizeof data, file);
  fclose(file);
  assert_true(parts_split(&parts, data, size) && parts.has_trailer);
}

static uint64_t number_at(const unsigned char *data, size_t at)
{
  return saved_get64(data + at);
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

/* Each layer stands once, in its place, with its array; and the header says how many there are. */
static void layers_follow_each_other(void **state)
{
  (void) state;
  const char *const names[] = {"bloom-layers", "bloom-layers-classic", "bloom-layers-word"};
  for (unsigned i = 0; i < 3; i++) {
    split_file(names[i]);
    const unsigned n = parts.n;
    tamis_filter *f;
    assert_in_range(n, 5, 64);
    assert_int_equal(load_joined(REPAIR_ALL), TAMIS_OK);
    for (unsigned change = 0; change < 4; change++)
      for (unsigned j = 0; j < n; j++) {
        unsigned next = (j + 1) % n;
        split_file(names[i]);
        struct part moved = parts.part[j];
        if (change != 1) /* one is missing */
          drop(j);
        if (change == 1 || change == 2) /* doubled; or at the end */
          insert(change == 1 ? j : parts.n, moved);
        if (change == 3 && j != n - 1) /* after the next one */
          insert(next, moved);
        if ((change == 2 || change == 3) && j == n - 1)
          continue;
        int result = load_joined(REPAIR_ALL);
        if (result != TAMIS_ECORRUPT)
          fail_msg("%s, change %u of part %u: %d", names[i], change, j, result);
        for (unsigned all = 0; all < 2; all++)
          assert_int_equal(map_joined(REPAIR_ALL, all, &f), TAMIS_ECORRUPT);
      }
    split_file(names[i]); /* a layer more; the header must say so */
    append_layer();
    for (unsigned further = n / 2; further < n / 2 + 3; further++) {
      saved_put64(parts.header + SAVED_GEOMETRY_AT + 48, further);
      assert_int_equal(load_joined(REPAIR_ALL), further == n / 2 + 1 ? TAMIS_OK : TAMIS_ECORRUPT);
    }
  }
}

/* A filter has 64 layers at most; and one only, if it does not grow or counts. */
static void not_all_filters_have_layers(void **state)
{
  (void) state;
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
  saved_put32(parts.header + 44, 0); /* it does not grow */
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
static void later_layers_have_two_layouts(void **state)
{
  (void) state;
  for (uint64_t layout = 0; layout <= BLOOM_LAYOUT_COUNTING; layout++) {
    split_file("bloom-layers");
    const uint64_t shape[] = {layout, 1, layout == TAMIS_LAYOUT_CLASSIC ? 2 : 1};
    for (unsigned i = 0; i < 3; i++)
      saved_put64(parts.part[1].data + (size_t) i * 8, shape[i]);
    assert_int_equal(load_joined(REPAIR_ALL),
                     layout <= TAMIS_LAYOUT_CLASSIC ? TAMIS_OK : TAMIS_ECORRUPT);
  }
}

/* ---- words and counters ---- */

/* A filter or a layer without lines, in a file that is right in all else: there is the padding
 * before an array, and neither words nor sums. */
static void arrays_have_lines(void **state)
{
  (void) state;
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
static void a_rest_is_a_part_of_the_counters(void **state)
{
  (void) state;
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layers_follow_each_other),
      cmocka_unit_test(not_all_filters_have_layers),
      cmocka_unit_test(later_layers_have_two_layouts),
      cmocka_unit_test(arrays_have_lines),
      cmocka_unit_test(a_rest_is_a_part_of_the_counters),
  };
  return cmocka_run_group_tests_name("bloom_read", tests, NULL, NULL);
}
