/* SPDX-License-Identifier: MIT
 *
 * The public calls that save and load, with any kind of filter.
 */
#include "saved_unit.h"

#include <stdio.h>
#include <unistd.h>

static tamis_filter *filter_of(uint64_t capacity, uint64_t seed)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = capacity;
  options.seed = seed;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  for (uint64_t key = 0; key < capacity; key++)
    assert_int_equal(tamis_add_hash(f, key * seed), TAMIS_OK);
  return f;
}

/* ---- streams ---- */

/* Several filters follow one another, and something else after them.  Reads bring any number of
 * bytes. */
static void exactly_the_bytes_of_a_filter_are_read(void **state)
{
  (void) state;
  enum { FILTERS = 3 };
  struct bytes stream = {0};
  const uint64_t capacities[FILTERS] = {100, 200000, 1};
  size_t ends[FILTERS];
  for (unsigned i = 0; i < FILTERS; i++) {
    tamis_filter *f = filter_of(capacities[i], i + 1);
    assert_int_equal(tamis_save(f, write_bytes, &stream), TAMIS_OK);
    ends[i] = stream.size;
    tamis_destroy(f);
  }
  assert_int_equal(write_bytes(&stream, "and more", 8), 0);
  const size_t most[] = {0, 1, 3, 61, 64, 4095, 4097, 100003};
  for (unsigned m = 0; m < sizeof most / sizeof *most; m++) {
    struct source s = source_of(&stream);
    s.most = most[m];
    for (unsigned i = 0; i < FILTERS; i++) {
      tamis_filter *f;
      assert_int_equal(tamis_load(NULL, read_source, &s, &f), TAMIS_OK);
      assert_int_equal(s.at, ends[i]);
      assert_valid(f);
      for (uint64_t key = 0; key < capacities[i]; key++)
        assert_true(tamis_contains_hash(f, key * (i + 1)));
      tamis_destroy(f);
    }
    tamis_filter *f;
    assert_int_equal(tamis_load(NULL, read_source, &s, &f), TAMIS_ECORRUPT);
    assert_int_equal(s.at, stream.size);
  }
  free(stream.data);
}

/* ---- functions that fail ---- */

static void a_write_that_fails_ends_the_save(void **state)
{
  (void) state;
  tamis_filter *f = filter_of(3000000 / SCALE, 1);
  struct bytes good = saved_bytes(f);
  for (unsigned at = 1; at <= good.calls; at++) {
    struct bytes b = {.fail_at = at};
    errno = 0;
    assert_int_equal(tamis_save(f, write_bytes, &b), TAMIS_EIO);
    assert_int_equal(errno, EDQUOT);
    assert_int_equal(b.calls, at); /* it is not called again */
    assert_true(b.size < good.size);
    assert_true(b.size == 0 || memcmp(b.data, good.data, b.size) == 0);
    free(b.data);
  }
  free(good.data);
  tamis_destroy(f);
}

static int64_t reads_too_much(void *context, void *data, size_t size)
{
  (void) context;
  memset(data, 0, size);
  return (int64_t) size + 1;
}

static void a_read_that_fails_ends_the_load(void **state)
{
  (void) state;
  tamis_filter *f = filter_of(1000000 / SCALE, 1), *g;
  struct bytes saved = saved_bytes(f);
  int result = TAMIS_EIO;
  for (unsigned at = 1; result == TAMIS_EIO; at++) {
    struct source s = source_of(&saved);
    s.fail_at = at;
    s.most = 100000;
    errno = 0;
    result = tamis_load(NULL, read_source, &s, &g);
    if (result == TAMIS_OK)
      break;
    assert_int_equal(errno, EDQUOT);
    assert_int_equal(s.calls, at);
    assert_null(g);
    s = source_of(&saved);
    s.fail_at = at;
    s.most = 100000;
    errno = 0;
    assert_int_equal(load_any(s, 0, NULL), TAMIS_EIO);
    assert_int_equal(errno, EDQUOT);
  }
  assert_int_equal(result, TAMIS_OK);
  tamis_destroy(g);
  assert_int_equal(tamis_load(NULL, reads_too_much, NULL, &g), TAMIS_EIO);
  struct source s = source_of(&saved);
  tamis_stats stats = TAMIS_STATS_INIT;
  s.fail_at = 1;
  assert_int_equal(tamis_saved_info(read_source, &s, &stats), TAMIS_EIO);
  free(saved.data);
  tamis_destroy(f);
}

static void a_save_takes_little_memory(void **state)
{
  (void) state;
  struct counts counts = {0};
  struct bytes b = {0};
  tamis_allocator allocator = counting(&counts);
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000;
  options.allocator = &allocator;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  size_t before = counts.now;
  assert_int_equal(tamis_save(f, write_bytes, &b), TAMIS_OK);
  assert_int_equal(counts.now, before);
  assert_in_range(counts.most - before, 1, ((size_t) 4 << 20) - 1); /* beside the filter */
  free(b.data);
  tamis_destroy(f);
}

/* ---- arguments ---- */

static void arguments_are_checked(void **state)
{
  (void) state;
  tamis_filter *f = filter_of(100, 1), *g = f;
  struct bytes saved = saved_bytes(f);
  struct source s = source_of(&saved);
  tamis_stats stats = TAMIS_STATS_INIT;
  assert_int_equal(tamis_save(NULL, write_bytes, &saved), TAMIS_EINVAL);
  assert_int_equal(tamis_save(f, NULL, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_load(NULL, NULL, NULL, &g), TAMIS_EINVAL);
  assert_null(g);
  assert_int_equal(tamis_load(NULL, read_source, &s, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_saved_info(NULL, NULL, &stats), TAMIS_EINVAL);
  assert_int_equal(tamis_saved_info(read_source, &s, NULL), TAMIS_EINVAL);
  stats.struct_size = 8;
  assert_int_equal(tamis_saved_info(read_source, &s, &stats), TAMIS_EINVAL);
  assert_int_equal(s.at, 0);
  tamis_load_options_init(NULL);
  free(saved.data);
  tamis_destroy(f);
}

static int load_with(const tamis_load_options *options, const struct bytes *saved)
{
  tamis_filter *f = (tamis_filter *) 1;
  struct source s = source_of(saved);
  int result = tamis_load(options, read_source, &s, &f);
  assert_true((f != NULL) == (result == TAMIS_OK));
  tamis_destroy(f);
  return result;
}

static void load_options_are_told_by_their_size(void **state)
{
  (void) state;
  struct {
    tamis_load_options known;
    unsigned char unknown[64];
  } options = {.known = TAMIS_LOAD_OPTIONS_INIT};
  tamis_load_options initial;
  tamis_filter *f = filter_of(100, 1);
  struct bytes saved = saved_bytes(f);
  memset(&initial, 0xA5, sizeof initial);
  tamis_load_options_init(&initial);
  assert_int_equal(initial.struct_size, sizeof initial);
  assert_int_equal(load_with(&initial, &saved), TAMIS_OK);
  for (size_t size = 0; size < sizeof options.known; size++) {
    options.known.struct_size = size;
    assert_int_equal(load_with(&options.known, &saved), TAMIS_EINVAL);
  }
  for (size_t tail = 1; tail <= sizeof options.unknown; tail++) {
    options.known.struct_size = sizeof options.known + tail;
    assert_int_equal(load_with(&options.known, &saved), TAMIS_OK);
    options.unknown[tail - 1] = 1;
    assert_int_equal(load_with(&options.known, &saved), TAMIS_EUNSUPPORTED);
    options.unknown[tail - 1] = 0;
  }
  options.known.struct_size = SIZE_MAX;
  assert_int_equal(load_with(&options.known, &saved), TAMIS_EINVAL);
  static union {
    tamis_load_options known;
    unsigned char all[4097];
  } large;
  large.known = options.known;
  large.known.struct_size = 4097;
  assert_int_equal(load_with(&large.known, &saved), TAMIS_EINVAL);
  large.known.struct_size = 4096;
  assert_int_equal(load_with(&large.known, &saved), TAMIS_OK);
  initial.allocator = &(tamis_allocator){count_allocate, NULL, NULL};
  assert_int_equal(load_with(&initial, &saved), TAMIS_EINVAL);
  free(saved.data);
  tamis_destroy(f);
}

/* ---- hash functions ---- */

static uint64_t own_hash(void *context, const void *key, size_t len, uint64_t seed)
{
  uint64_t hash = seed ^ *(const uint64_t *) context;
  for (size_t i = 0; i < len; i++)
    hash = (hash ^ ((const unsigned char *) key)[i]) * UINT64_C(0x100000001B3);
  return hash;
}

static void a_filter_is_loaded_with_its_own_hash_function_only(void **state)
{
  (void) state;
  uint64_t secret = 1234567, other = 7654321;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 100;
  options.hash = own_hash;
  options.hash_context = &secret;
  tamis_filter *own, *plain = filter_of(100, 1), *g;
  assert_int_equal(tamis_create(&options, &own), TAMIS_OK);
  assert_int_equal(tamis_add(own, "key", 3), TAMIS_OK);
  struct bytes saved = saved_bytes(own), saved_plain = saved_bytes(plain);
  tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
  assert_int_equal(load_with(&load, &saved), TAMIS_EINVAL);
  load.hash = own_hash;
  load.hash_context = &other;
  assert_int_equal(load_with(&load, &saved), TAMIS_EINVAL);
  assert_int_equal(load_with(&load, &saved_plain), TAMIS_EINVAL);
  load.hash_context = &secret;
  struct source s = source_of(&saved);
  assert_int_equal(tamis_load(&load, read_source, &s, &g), TAMIS_OK);
  assert_true(tamis_contains(g, "key", 3));
  assert_false(tamis_contains(g, "another", 7));
  tamis_destroy(g);
  /* The figures need no hash function. */
  tamis_stats stats = TAMIS_STATS_INIT;
  s = source_of(&saved);
  assert_int_equal(tamis_saved_info(read_source, &s, &stats), TAMIS_OK);
  assert_int_equal(stats.count, 1);
  free(saved.data);
  free(saved_plain.data);
  tamis_destroy(own);
  tamis_destroy(plain);
}

/* ---- the limit that is saved ---- */

static void assert_limit_is_saved(tamis_kind kind, unsigned window, bool growable)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = kind;
  options.window = window;
  options.growable = growable;
  options.capacity = 1000;
  options.max_bytes = 12345678;
  tamis_filter *f, *g;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  struct bytes saved = saved_bytes(f);
  assert_int_equal(saved_get64(saved.data + 80), 12345678);
  tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
  for (unsigned i = 0; i < 2; i++) {
    load.max_bytes = i ? 7654321 : 0;
    struct source s = source_of(&saved);
    assert_int_equal(tamis_load(&load, read_source, &s, &g), TAMIS_OK);
    struct bytes again = saved_bytes(g);
    assert_int_equal(saved_get64(again.data + 80), i ? 7654321 : 12345678);
    free(again.data);
    tamis_destroy(g);
  }
  free(saved.data);
  tamis_destroy(f);
}

static void the_limit_of_a_filter_is_saved(void **state)
{
  (void) state;
  for (int growable = 0; growable < 2; growable++) {
    assert_limit_is_saved(TAMIS_BLOOM, 0, growable);
    assert_limit_is_saved(TAMIS_BLOOM, 3, growable);
    assert_limit_is_saved(TAMIS_CUCKOO, 0, growable);
    assert_limit_is_saved(TAMIS_CUCKOO, 3, growable);
    assert_limit_is_saved(TAMIS_COUNTING_BLOOM, 0, growable);
  }
}

/* ---- several filters ---- */

static void filters_that_do_not_fit_together_are_refused(void **state)
{
  (void) state;
  tamis_filter *a = filter_of(100, 1), *b = filter_of(100, 2), *out = a;
  tamis_similarity_stats stats;
  tamis_similarity_stats_init(NULL);
  memset(&stats, 0xA5, sizeof stats);
  tamis_similarity_stats_init(&stats);
  assert_int_equal(stats.struct_size, sizeof stats);
  assert_int_equal(tamis_merge(NULL, b), TAMIS_EINVAL);
  assert_int_equal(tamis_merge(a, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_merge(a, a), TAMIS_EINVAL);
  assert_int_equal(tamis_merge(a, b), TAMIS_EINVAL); /* another seed */
  assert_int_equal(tamis_intersect(a, b, &out), TAMIS_EINVAL);
  assert_null(out);
  assert_int_equal(tamis_intersect(a, NULL, &out), TAMIS_EINVAL);
  assert_int_equal(tamis_intersect(NULL, b, &out), TAMIS_EINVAL);
  assert_int_equal(tamis_intersect(a, b, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_similarity(a, b, &stats), TAMIS_EINVAL);
  assert_int_equal(tamis_similarity(NULL, b, &stats), TAMIS_EINVAL);
  assert_int_equal(tamis_similarity(a, NULL, &stats), TAMIS_EINVAL);
  assert_int_equal(tamis_similarity(a, a, NULL), TAMIS_EINVAL);
  stats.struct_size--;
  assert_int_equal(tamis_similarity(a, a, &stats), TAMIS_EINVAL);
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 100;
  options.seed = 1;
  tamis_filter *cuckoo;
  assert_int_equal(tamis_create(&options, &cuckoo), TAMIS_OK);
  assert_int_equal(tamis_merge(a, cuckoo), TAMIS_EINVAL);
  tamis_destroy(cuckoo);
  tamis_destroy(a);
  tamis_destroy(b);
}

/* ---- files that were mapped unchecked ---- */

static const char path[] = "test_saved.tamis";

static void write_file(const struct bytes *b)
{
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(b->data, 1, b->size, file), b->size);
  assert_int_equal(fclose(file), 0);
}

static void add_copies(tamis_filter *f, uint64_t first, uint64_t n)
{
  for (uint64_t key = first; key < first + n; key++)
    for (unsigned copies = 0; copies <= key % 16 / 8 * 20; copies++)
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
}

/* The mapped filter is saved to the bytes of its file or, if they are damaged, not at all. */
static int save_mapped(const tamis_filter *f, const struct bytes *whole)
{
  struct bytes again = {0};
  int result = tamis_save(f, write_bytes, &again);
  if (result == TAMIS_OK) {
    assert_int_equal(again.size, whole->size);
    assert_memory_equal(again.data, whole->data, whole->size);
  } else {
    assert_int_equal(result, TAMIS_ECORRUPT);
    assert_int_equal(again.size, 0);
  }
  free(again.data);
  return result;
}

/* Whatever comes from the mapped filter, what is saved can be loaded. */
static void save_union(tamis_filter *into, const tamis_filter *mapped)
{
  (void) tamis_merge(into, mapped);
  struct bytes b = saved_bytes(into);
  tamis_destroy(load_bytes(&b));
  free(b.data);
  tamis_destroy(into);
}

static void damage(tamis_filter *(*make)(unsigned), unsigned shape)
{
  tamis_filter *f = make(shape), *mapped;
  add_copies(f, 0, 400);
  struct bytes b = saved_bytes(f);
  unsigned found = 0;
  write_file(&b);
  assert_int_equal(tamis_map_file(NULL, path, &mapped), TAMIS_OK);
  assert_int_equal(save_mapped(mapped, &b), TAMIS_OK);
  tamis_destroy(mapped);
  for (size_t at = 0; at < b.size; at += 59) {
    unsigned char was = b.data[at];
    b.data[at] ^= (unsigned char) (at % 2 ? 0xff : 1 << at / 2 % 8);
    write_file(&b);
    b.data[at] = was;
    if (tamis_map_file(NULL, path, &mapped) != TAMIS_OK)
      continue;
    assert_int_equal(save_mapped(mapped, &b), TAMIS_ECORRUPT);
    found++;
    tamis_filter *into = make(shape);
    add_copies(into, 1000, 100);
    save_union(into, mapped);
    tamis_destroy(mapped);
  }
  assert_true(found > 5);
  tamis_destroy(f);
  free(b.data);
  unlink(path);
}

static tamis_filter *make_to_map(unsigned shape)
{
  static const struct {
    tamis_kind kind;
    tamis_layout layout;
    bool growable;
  } shapes[] = {{TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, false},
                {TAMIS_BLOOM, TAMIS_LAYOUT_CLASSIC, true},
                {TAMIS_BLOOM, TAMIS_LAYOUT_WORD, false},
                {TAMIS_BLOOM, TAMIS_LAYOUT_WORD, true},
                {TAMIS_COUNTING_BLOOM, TAMIS_LAYOUT_BLOCKED, false},
                {TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, false}};
  if (shape == sizeof shapes / sizeof *shapes)
    return NULL;
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = shapes[shape].kind;
  options.layout = shapes[shape].layout;
  options.growable = shapes[shape].growable;
  options.capacity = shapes[shape].growable ? 200 : 8000; /* it has layers */
  options.seed = 7;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  return f;
}

static void what_was_mapped_unchecked_is_saved_whole_or_not_at_all(void **state)
{
  (void) state;
  tamis_filter *f;
  for (unsigned shape = 0; (f = make_to_map(shape)) != NULL; shape++) {
    tamis_destroy(f);
    damage(make_to_map, shape);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exactly_the_bytes_of_a_filter_are_read),
      cmocka_unit_test(a_write_that_fails_ends_the_save),
      cmocka_unit_test(a_read_that_fails_ends_the_load),
      cmocka_unit_test(a_save_takes_little_memory),
      cmocka_unit_test(arguments_are_checked),
      cmocka_unit_test(load_options_are_told_by_their_size),
      cmocka_unit_test(a_filter_is_loaded_with_its_own_hash_function_only),
      cmocka_unit_test(the_limit_of_a_filter_is_saved),
      cmocka_unit_test(filters_that_do_not_fit_together_are_refused),
      cmocka_unit_test(what_was_mapped_unchecked_is_saved_whole_or_not_at_all),
  };
  return cmocka_run_group_tests_name("saved", tests, NULL, NULL);
}
