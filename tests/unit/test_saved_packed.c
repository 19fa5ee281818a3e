/* SPDX-License-Identifier: MIT
 *
 * Packed files: small filters are saved without their runs of zeros.  Other tests look at the bytes before
 * (saved_bytes() unpacks them).
 */
#include "saved_unit.h"

static bool is_packed(const struct bytes *b)
{
  return memcmp(b->data, SAVED_PACKED, 8) == 0;
}

static tamis_filter *make_bloom(uint64_t capacity, bool full)
{
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, capacity, 0.01);
  add_range(f, 0, full ? capacity : 0);
  return f;
}

TEST(ten_keys_take_256_bytes_beyond_their_words)
{
  for (uint64_t capacity = 1; capacity <= 1000; capacity = capacity * 3 + 1)
    for (unsigned full = 0; full < 2; full++) {
      tamis_filter *f = make_bloom(capacity, full);
      struct bytes b = packed_bytes(f);
      const size_t words = (size_t) stats_of(f).bits / 8;
      assert_true(is_packed(&b) && b.size <= words + words / 128 + 256);
      tamis_destroy(f);
      free(b.data);
    }
}

/* In every form of filter: what was packed is loaded, and read to its last byte and no further. */
TEST(a_packed_filter_is_whole)
{
  unsigned packed = 0;
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_filter *f = make_with_options(&form->options), *loaded, *mapped;
    for (uint64_t i = 0; i < 9; i++)
      (void) tamis_add_hash(f, i);
    struct bytes b = packed_bytes(f), before = saved_bytes(f);
    assert_int_equal(is_packed(&b), before.size <= SAVED_PACKED_MOST);
    struct source s = source_of(&b);
    s.size += 5; /* the bytes behind it are not read */
    b.data = realloc(b.data, s.size);
    s.data = b.data;
    tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
    options.hash = form->options.hash;
    options.hash_context = form->options.hash_context;
    assert_int_equal(tamis_load(&options, read_source, &s, &loaded), TAMIS_OK);
    assert_int_equal(s.at, b.size);
    assert_true(is_saved_as(loaded, &before));
    for (unsigned check = 0; check < 2; check++) {
      options.check_all = check;
      const int result = map_source_with(options, source_of(&b), &mapped);
      assert_true(result == TAMIS_OK || result == TAMIS_EUNSUPPORTED);
      assert_true(result != TAMIS_OK || is_saved_as(mapped, &before));
      tamis_destroy(mapped);
    }
    const tamis_stats info = info_of(&b);
    assert_true(info.count == stats_of(f).count && info.capacity == stats_of(f).capacity);
    packed += is_packed(&b);
    tamis_destroy(f), tamis_destroy(loaded);
    free(b.data), free(before.data);
  }
  assert_true(packed > 5);
}

/* The largest file that is packed, and the next one, which is not. */
TEST(large_files_are_not_packed)
{
  bool was_packed = true;
  unsigned changes = 0;
  for (uint64_t capacity = 100; capacity < 20000; capacity += 100) {
    tamis_filter *f = make_bloom(capacity, false);
    struct bytes b = packed_bytes(f), before = saved_bytes(f);
    assert_int_equal(is_packed(&b), before.size <= SAVED_PACKED_MOST);
    assert_true(is_packed(&b) || (b.size == before.size && b.size % SAVED_UNIT == 0));
    changes += is_packed(&b) != was_packed;
    was_packed = is_packed(&b);
    tamis_destroy(load_bytes(&b));
    tamis_destroy(f);
    free(b.data), free(before.data);
  }
  assert_true(!was_packed && changes == 1);
}

static int load_and_map(const unsigned char *data, size_t size)
{
  tamis_filter *f;
  const struct source s = {.data = data, .size = size};
  const int result = load_any(s, 0, &f);
  tamis_destroy(f);
  assert_true((map_source(s, true, &f) == TAMIS_OK) == (result == TAMIS_OK));
  tamis_destroy(f);
  (void) map_source(s, false, &f);
  tamis_destroy(f);
  return result;
}

TEST(damage_is_found)
{
  tamis_filter *f = make_bloom(10, true);
  struct bytes b = packed_bytes(f);
  unsigned char *changed = malloc(b.size);
  for (size_t size = 0; size < b.size; size++) /* cut */
    assert_int_equal(load_and_map(b.data, size), TAMIS_ECORRUPT);
  for (size_t at = 0; at < b.size; at++)
    for (unsigned bit = 0; bit < 8; bit++) {
      memcpy(changed, b.data, b.size);
      changed[at] ^= (unsigned char) (1 << bit);
      assert_true(load_and_map(changed, b.size) < 0);
    }
  free(changed), free(b.data);
  tamis_destroy(f);
}

/* Packs bytes as no save does: all as they are, or as zeros. */
static struct bytes pack(const struct bytes *from, size_t zeros)
{
  struct bytes b = {0};
  (void) write_bytes(&b, SAVED_PACKED, 8);
  for (size_t at = 0, n; at < from->size; at += n) {
    n = from->size - at < 100 ? from->size - at : 100;
    const unsigned char run = (unsigned char) (n - 1);
    (void) write_bytes(&b, &run, 1);
    (void) write_bytes(&b, from->data + at, n);
  }
  for (; zeros; zeros -= zeros < 32768 ? zeros : 32768) {
    const size_t n = (zeros < 32768 ? zeros : 32768) - 1;
    const unsigned char run[2] = {(unsigned char) (128 | n >> 8), (unsigned char) n};
    (void) write_bytes(&b, run, 2);
  }
  return b;
}

static void assert_packed_result(const struct bytes *from, size_t zeros, int expected)
{
  struct bytes b = pack(from, zeros);
  tamis_filter *f;
  assert_int_equal(load_any(source_of(&b), 0, &f), expected);
  tamis_destroy(f);
  assert_int_equal(map_source(source_of(&b), false, &f), expected);
  tamis_destroy(f);
  free(b.data);
}

TEST(what_no_save_packs)
{
  tamis_filter *f = make_bloom(10, true), *large = make_bloom(100000, false);
  struct bytes b = saved_bytes(f), twice = pack(&b, 0), of_large = saved_bytes(large);
  assert_packed_result(&b, 0, TAMIS_OK);
  assert_packed_result(&twice, 0, TAMIS_ECORRUPT);
  assert_packed_result(&of_large, 0, TAMIS_ECORRUPT);
  const struct bytes nothing = {.data = b.data}, header = {.data = b.data, .size = SAVED_HEADER};
  assert_packed_result(&nothing, 1 << 14, TAMIS_ECORRUPT);
  assert_packed_result(&header, 1 << 30, TAMIS_ECORRUPT);
  saved_put64(b.data + 16, SAVED_LIVE);
  saved_put64(b.data + SAVED_HEADER - 8, hash_sum(b.data, SAVED_HEADER - 8, 0));
  assert_packed_result(&b, 0, TAMIS_ECORRUPT);
  tamis_destroy(f), tamis_destroy(large);
  free(b.data), free(twice.data), free(of_large.data);
}

/* A run that goes on behind the trailer. */
TEST(a_run_ends_with_the_filter)
{
  tamis_filter *f = make_bloom(10, true);
  struct bytes b = saved_bytes(f);
  (void) write_bytes(&b, "x", 1);
  assert_packed_result(&b, 0, TAMIS_ECORRUPT);
  tamis_destroy(f);
  free(b.data);
}
