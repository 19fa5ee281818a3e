/* SPDX-License-Identifier: MIT
 *
 * The public calls that save and load, with any kind of filter.
 */
#include "base/compiler.h"
#include "bloom/bloom.h"
#include "cuckoo_unit.h"
#include "saved_unit.h"
#include "window/layers.h"

#include <dirent.h>
#include <math.h>
#include <stdatomic.h>

static tamis_filter *filter_of(uint64_t capacity, uint64_t seed)
{
  tamis_options options = seeded_options(TAMIS_BLOOM, capacity, 0.01, true);
  options.seed = seed;
  tamis_filter *f = make_with_options(&options);
  for (uint64_t key = 0; key < capacity; key++)
    assert_int_equal(tamis_add_hash(f, key * seed), TAMIS_OK);
  return f;
}

/* ---- every form of filter ---- */

/* Call number i on a filter.  Few keys have many copies, and some leave again. */
static int call(const struct form *form, tamis_filter *f, uint64_t i)
{
  uint64_t key = i / 3;
  if (form->options.window && i % 151 == 150)
    return tamis_advance(f);
  switch (i % 8) {
  case 0:
  case 1:
  case 2:
    return tamis_add_hash(f, key);
  case 3:
    return tamis_add_hash(f, key % 17);
  case 4:
    return tamis_remove_hash(f, 8 * (key / 16));
  case 5:
    return (int) tamis_count_hash(f, key / 2);
  default:
    return tamis_add_unique_hash(f, key / 2 * 3);
  }
}

/* Rates and sizes of all sorts: a filter has made so many calls. */
static tamis_options options_of_round(const struct form *form, unsigned round, uint64_t *calls)
{
  static const double rates[] = {0.03, 0.3, 1e-4, 0.05, 1e-9};
  static const uint64_t capacities[] = {1, 40, 300, SMALL(5000, 12000)};
  tamis_options o = form->options;
  o.fpp = rates[round % 5], o.capacity = capacities[round % 4];
  while (tamis_options_check(&o, NULL, 0) != TAMIS_OK)
    o.fpp = 2 * o.fpp < 0.9 ? 2 * o.fpp : 0.01;
  o.window_renews = o.window && round / 2 % 2;
  *calls = round % 7 * o.capacity * (o.growable ? 1 + round % 9 : 1);
  return o;
}

static tamis_filter *used_by(const struct form *form, const tamis_options *o, uint64_t calls)
{
  tamis_filter *f = make_with_options(o);
  for (uint64_t i = 0; i < calls; i++)
    (void) call(form, f, i);
  return f;
}

static void assert_same_bytes(const struct form *form, const struct bytes *a, const tamis_filter *f)
{
  if (!is_saved_as(f, a))
    fail_msg("%s: it is saved otherwise", form->name);
}

static bool may_be_mapped(const struct form *form)
{
  return !form->options.window && (form->options.kind != TAMIS_CUCKOO || !form->options.growable);
}

static const tamis_load_options usual = TAMIS_LOAD_OPTIONS_INIT;

/* How many bits are set, a filter of a fixed size has counted.  A mapped one counts them when it is
 * asked, and a larger one counts those of a sample. */
static bool has_all_counted(const struct form *form, const tamis_filter *mapped)
{
  enum { SAMPLE = SMALL(1 << 21, 1 << 17) };
  return form->options.kind != TAMIS_BLOOM || form->options.growable ||
         stats_of(mapped).bits <= SAMPLE;
}

static bool is_mapped(const char *file)
{
  char line[1000];
  bool found = false;
  FILE *maps = fopen("/proc/self/maps", "r");
  assert_non_null(maps);
  while (fgets(line, sizeof line, maps))
    found |= strstr(line, file) != NULL;
  (void) fclose(maps);
  return found;
}

/* Nothing can be added or removed, and everything else is as it was. */
static void check_mapped(const struct form *form, const struct bytes *saved, const tamis_filter *f)
{
  struct bank bank = {0};
  tamis_load_options options = usual;
  tamis_filter *mapped;
  uint64_t keys[2] = {0, 12345678901};
  int results[2];
  for (unsigned check_all = 0; check_all < 2; check_all++) {
    options.max_bytes = 0, options.allocator = allocator_of(&bank), options.check_all = check_all;
    int result = map_source_with(options, source_of(saved), &mapped);
    assert_int_equal(result, may_be_mapped(form) ? TAMIS_OK : TAMIS_EUNSUPPORTED);
    if (!mapped)
      continue;
    assert_valid(mapped);
    assert_int_equal(stats_of(mapped).bytes, bank.bytes);
    if (has_all_counted(form, mapped)) {
      assert_same_figures(mapped, f, form->name);
      assert_same_bytes(form, saved, mapped);
    }
    for (uint64_t key = 0; key < 3000; key++)
      assert_int_equal(tamis_count_hash(mapped, key), tamis_count_hash(f, key));
    assert_int_equal(tamis_merge(mapped, f), TAMIS_EUNSUPPORTED);
    assert_int_equal(tamis_add_many_hash(mapped, keys, 2, results), TAMIS_EUNSUPPORTED);
    assert_int_equal(tamis_add_unique_many_hash(mapped, keys, 2, results), TAMIS_EUNSUPPORTED);
    for (unsigned i = 0; i < 2; i++) {
      assert_int_equal(results[i], TAMIS_EUNSUPPORTED);
      assert_int_equal(tamis_add_hash(mapped, keys[i]), TAMIS_EUNSUPPORTED);
      assert_int_equal(tamis_add_unique_hash(mapped, keys[i]), TAMIS_EUNSUPPORTED);
      assert_int_equal(tamis_remove_hash(mapped, keys[i]), TAMIS_EUNSUPPORTED);
    }
    options.max_bytes = bank.bytes; /* which has nothing of the file */
    tamis_destroy(mapped);
    assert_int_equal(map_source_with(options, source_of(saved), &mapped), TAMIS_OK);
    tamis_destroy(mapped);
    options.max_bytes--;
    assert_int_equal(map_source_with(options, source_of(saved), &mapped), TAMIS_EFULL);
    assert_int_equal(bank.bytes, 0);
    assert_false(is_mapped("/memfd:saved"));
  }
}

/* What a file says of its filter is what the loaded one says; of copies it does not say how much
 * memory they take, and nothing of what has happened since the filter was created. */
static void check_info(const struct form *form, const struct bytes *saved,
                       const tamis_filter *loaded)
{
  tamis_stats info = info_of(saved), stats = stats_of(loaded);
  assert_true(stats.bytes >= info.bytes && info.bytes >= stats.bytes / SMALL(2, 3));
  if (!form->removes)
    assert_int_equal(info.bytes, stats.bytes);
  if (stats.layers > 1) { /* how full each layer is stands in its words */
    info.fpp_estimate = stats.fpp_estimate, info.occupancy = stats.occupancy;
    info.estimated_count = stats.estimated_count, info.load = stats.load;
  }
  assert_true(fabs(info.fpp_estimate - stats.fpp_estimate) <= 1e-6 * stats.fpp_estimate);
  info.fpp_estimate = stats.fpp_estimate, info.bytes = stats.bytes;
  assert_memory_equal(&info, &stats, sizeof info);
}

/* A table that is full has marks which say so, and spare searches: they are not saved. */
static void goes_on_alike(const struct form *form, tamis_filter *f, tamis_filter *g, uint64_t from,
                          uint64_t calls)
{
  const bool has_marks = form->options.window || form->options.kind == TAMIS_CUCKOO;
  for (uint64_t i = from; i < from + calls; i++) {
    int of_f = call(form, f, i), of_g = call(form, g, i);
    if (of_f != of_g && has_marks && (of_f == TAMIS_EFULL || of_g == TAMIS_EFULL))
      return;
    if (of_f != of_g)
      fail_msg("%s: call %lu gives another result after a load", form->name, i);
  }
  assert_same_figures(f, g, form->name);
}

TEST(a_loaded_filter_is_as_it_was)
{
  for (const struct form *form = NULL; (form = next_form(form));)
    for (unsigned round = 0; round < 35; round += SCALE == 1 ? 1 : 3) {
      uint64_t calls;
      tamis_options o = options_of_round(form, round, &calls);
      tamis_filter *f = used_by(form, &o, calls);
      struct bytes saved = saved_bytes(f);
      tamis_filter *g = load_bytes(&saved);
      assert_same_figures(f, g, form->name);
      assert_same_bytes(form, &saved, g);
      check_info(form, &saved, g);
      check_mapped(form, &saved, f);
      goes_on_alike(form, f, g, calls, 4 * o.capacity + 700);
      assert_valid(g);
      tamis_destroy(f), tamis_destroy(g);
      free(saved.data);
    }
}

/* One that was saved shortly before it is full, or just then, refuses what the saved one refuses. */
TEST(a_loaded_filter_keeps_its_capacity)
{
  enum { CAPACITY = 5000 };
  for (const struct form *form = NULL; (form = next_form(form));)
    for (uint64_t missing = 0; missing <= CAPACITY && !form->options.growable;
         missing = 3 * missing + 1) {
      tamis_options o = form->options;
      o.capacity = CAPACITY;
      tamis_filter *f = make_with_options(&o);
      uint64_t key = 0;
      while (stats_of(f).count < CAPACITY - missing && tamis_add_unique_hash(f, key) != TAMIS_EFULL)
        key++;
      tamis_filter *g = copy_of(f);
      for (unsigned i = 0; i < 2 * CAPACITY && o.kind != TAMIS_CUCKOO && !o.window; i++, key++)
        assert_int_equal(tamis_add_unique_hash(f, key), tamis_add_unique_hash(g, key));
      assert_same_figures(f, g, form->name);
      tamis_destroy(f), tamis_destroy(g);
    }
}

static tamis_filter *load_with_limit(const struct bytes *saved, const tamis_allocator *allocator,
                                     uint64_t max_bytes)
{
  tamis_filter *f;
  tamis_load_options options = usual;
  options.max_bytes = max_bytes, options.allocator = allocator;
  assert_int_equal(load_from(saved, &options, &f), TAMIS_OK);
  return f;
}

/* Within how many bytes a load succeeds. */
static void check_limits(const struct bytes *saved, uint64_t of_filter)
{
  struct bank bank = {0};
  tamis_filter *f = load_with_limit(saved, NULL, of_filter), *g;
  assert_true(stats_of(f).bytes <= of_filter);
  tamis_destroy(f);
  g = load_with_limit(saved, allocator_of(&bank), 0);
  const uint64_t bytes = stats_of(g).bytes;
  tamis_destroy(g);
  int last = TAMIS_EFULL;
  for (uint64_t i = 1; i <= 16; i++) {
    int result = load_any(source_of(saved), i * bytes / 8, NULL);
    assert_true(result == TAMIS_OK || (result == TAMIS_EFULL && last == TAMIS_EFULL && i < 9));
    last = result;
  }
  assert_int_equal(load_any(source_of(saved), bytes / 3, NULL), TAMIS_EFULL);
}

/* A filter that has reached its limit, whatever copies it has, is loaded within that limit. */
TEST(a_filter_is_loaded_within_its_limit)
{
  for (const struct form *form = NULL; (form = next_form(form));)
    for (unsigned round = 0; round < 20; round += SCALE == 1 ? 1 : 4) {
      uint64_t calls;
      tamis_options o = options_of_round(form, round, &calls);
      const uint64_t bytes = planned_bytes(&o);
      o.max_bytes = bytes + bytes * (round % 10) / 10 + 100;
      tamis_filter *f = used_by(form, &o, 12 * o.capacity);
      struct bytes saved = saved_bytes(f);
      beside_filter = form->options.kind == TAMIS_CUCKOO;
      check_limits(&saved, o.max_bytes);
      beside_filter = 0;
      tamis_destroy(f);
      free(saved.data);
    }
}

/* The limit need not leave room for what a load notes of segments: small builds have thousands. */
TEST(a_loaded_window_has_any_number_of_segments)
{
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_options o = form->options;
    if (!o.window)
      continue;
    o.capacity = 1000000, o.stripes = 1;
    o.max_bytes = planned_bytes(&o);
    tamis_filter *f = make_with_options(&o);
    struct bytes saved = saved_bytes(f);
    assert_int_equal(load_any(source_of(&saved), o.max_bytes, NULL), TAMIS_OK);
    tamis_destroy(f);
    free(saved.data);
  }
}

/* Arrays and tables of several chunks, which are copied while they grow.  A bit that is wrong in the midst
 * is found, but not in a file that the caller wants to be mapped unchecked. */
TEST(large_filters_are_as_they_were)
{
  const uint64_t keys = 20000 / SCALE;
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_options o = form->options;
    o.capacity = (o.kind == TAMIS_BLOOM ? 1800000 : 700000) / SCALE;
    tamis_filter *f = used_by(form, &o, keys), *mapped = NULL;
    struct bytes saved = saved_bytes(f);
    tamis_filter *g = load_bytes(&saved);
    assert_same_figures(f, g, form->name);
    assert_same_bytes(form, &saved, g);
    goes_on_alike(form, f, g, keys, keys);
    tamis_destroy(g);
    if (form->options.kind == TAMIS_BLOOM && !o.window && !o.layout)
      check_limits(&saved, stats_of(f).bytes);
    saved.data[saved.size / 2] ^= 1;
    assert_int_equal(load_any(source_of(&saved), 0, NULL), TAMIS_ECORRUPT);
    if (may_be_mapped(form)) {
      assert_int_equal(map_source(source_of(&saved), true, &mapped), TAMIS_ECORRUPT);
      assert_int_equal(map_source(source_of(&saved), false, &mapped), TAMIS_OK);
    }
    tamis_destroy(mapped);
    tamis_destroy(f);
    free(saved.data);
  }
}

/* Files of the first version of the format, which were written on x86-64, load on every machine and in every
 * later version, and are saved to the same bytes.  (compat.reader asks for their keys.) */
TEST(files_that_are_kept_load_for_ever)
{
  struct dirent **names;
  int n = scandir(KEPT, &names, NULL, alphasort);
  assert_in_range(n, 2 + 20, 100);
  for (int i = 0; i < n; free(names[i++])) {
    char name[1000];
    tamis_filter *f;
    (void) snprintf(name, sizeof name, KEPT "/%s", names[i]->d_name);
    if (names[i]->d_name[0] == '.')
      continue;
    assert_int_equal(tamis_load_file(NULL, name, &f), TAMIS_OK);
    assert_valid(f);
    struct bytes again = saved_bytes(f);
    unsigned char *data = malloc(again.size + 1);
    FILE *file = fopen(name, "rb");
    assert_true(data && file);
    assert_int_equal(fread(data, 1, again.size + 1, file), again.size);
    assert_memory_equal(data, again.data, again.size);
    (void) fclose(file);
    free(data);
    free(again.data);
    tamis_destroy(f);
  }
  free(names);
}

/* The sum over all sums is that of another file: else, each part is as it was written. */
TEST(a_part_of_another_file_is_found)
{
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 100, 0.01);
  struct bytes one = saved_bytes(f);
  assert_int_equal(tamis_add_hash(f, 1), TAMIS_OK);
  struct bytes other = saved_bytes(f);
  unsigned char *trailer = other.data + other.size - SAVED_UNIT;
  assert_int_equal(one.size, other.size);
  memcpy(trailer + 48, one.data + one.size - 16, 8);
  saved_put64(trailer + 56, hash_sum(trailer, 56, 0));
  assert_int_equal(load_any(source_of(&other), 0, NULL), TAMIS_ECORRUPT);
  free(one.data), free(other.data);
  tamis_destroy(f);
}

TEST(memory_that_is_refused_leaves_nothing)
{
  for (const struct form *form = NULL; (form = next_form(form));)
    for (unsigned fail_at = 1, result = TAMIS_OK + 1; result; fail_at++) {
      struct bank bank = {.fail_at = fail_at};
      tamis_load_options options = usual;
      tamis_filter *f = used_by(form, &form->options, 6000), *g;
      struct bytes saved = saved_bytes(f);
      options.allocator = allocator_of(&bank);
      int loaded = load_from(&saved, &options, &g);
      assert_true(loaded == TAMIS_OK || loaded == TAMIS_ENOMEM);
      result = loaded != TAMIS_OK;
      tamis_destroy(f), tamis_destroy(g);
      assert_int_equal(bank.blocks, 0);
      free(saved.data);
    }
}

/* Each bit, and each number at its extremes. */
static size_t array_of(const tamis_filter *f, const struct form *form)
{
  if (form->options.window)
    return window_bytes(&const_window_of(f)->first.geometry);
  return form->options.kind == TAMIS_CUCKOO ? 0 : const_bloom_of(f)->word_count * sizeof(word);
}

/* What the block of an array's sums says of the array, with right sums. */
static void assert_sums_are_of_the_array(const struct bytes *b, size_t array)
{
  for (size_t at = 16; array && at < 56; at += 8)
    for (unsigned byte = 0; byte < 8; byte += 5) {
      b->data[first_block(array) + at + byte] ^= 1;
      (void) repair(b, array);
      assert_int_equal(load_any(source_of(b), 0, NULL), TAMIS_ECORRUPT);
      b->data[first_block(array) + at + byte] ^= 1;
      (void) repair(b, array);
    }
}

TEST(every_change_of_a_file_is_found)
{
  unsigned accepted = 0;
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_options o = form->options;
    o.capacity = 20;
    tamis_filter *f = used_by(form, &o, 60);
    struct bytes saved = saved_bytes(f);
    size_t array = array_of(f, form), end = first_block(array);
    assert_changes_are_found(&saved, SCALE == 1 ? 7 : 61);
    assert_truncations_are_found(&saved, SCALE);
    assert_sums_are_of_the_array(&saved, array);
    beside_filter = form->options.kind == TAMIS_CUCKOO;
    accepted += try_extremes(&saved, array, 8, SAVED_HEADER - 8);
    (void) try_extremes(&saved, array, end, saved.size);
    if (array)
      (void) try_extremes(&saved, array, SAVED_ARRAY_ALIGNMENT, SAVED_ARRAY_ALIGNMENT + 64);
    beside_filter = 0;
    if (!accepted)
      fail_msg("%s", form->name); /* those that change nothing, or only figures */
    tamis_destroy(f);
    free(saved.data);
  }
}

/* ---- streams ---- */

/* Several filters follow one another, and something else after them.  Reads bring any number of
 * bytes. */
TEST(exactly_the_bytes_of_a_filter_are_read)
{
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

TEST(a_write_that_fails_ends_the_save)
{
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

/* The load of each read of a saved filter in turn fails. */
static void each_read_fails(tamis_filter *f)
{
  struct bytes saved = saved_bytes(f);
  tamis_filter *g = NULL;
  for (unsigned at = 1; !g; at++) {
    struct source s = source_of(&saved);
    s.fail_at = at;
    s.most = 100000;
    errno = 0;
    const int result = tamis_load(NULL, read_source, &s, &g);
    assert_int_equal(result, g ? TAMIS_OK : TAMIS_EIO);
    assert_int_equal(g ? 0 : errno, g ? 0 : EDQUOT);
    assert_int_equal(s.calls, g ? at - 1 : at);
  }
  tamis_destroy(g), tamis_destroy(f);
  free(saved.data);
}

TEST(a_read_that_fails_ends_the_load)
{
  tamis_filter *g;
  each_read_fails(filter_of(1000000 / SCALE, 1));
  for (const struct form *form = NULL; (form = next_form(form));)
    each_read_fails(used_by(form, &form->options, 20000));
  assert_int_equal(tamis_load(NULL, reads_too_much, NULL, &g), TAMIS_EIO);
  struct source s = {.fail_at = 1};
  tamis_stats stats = TAMIS_STATS_INIT;
  assert_int_equal(tamis_saved_info(read_source, &s, &stats), TAMIS_EIO);
}

/* A load takes memory only as bytes arrive, with and without a limit, whatever size the file claims. */
TEST(a_file_that_is_cut_takes_little_memory)
{
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, (uint64_t) 4 * SAVED_CHUNK, 0.01), *g;
  struct bytes saved = saved_bytes(f);
  const uint64_t bytes = stats_of(f).bytes;
  for (unsigned limited = 0; limited < 2; limited++) {
    struct bank bank = {0};
    tamis_load_options options = usual;
    struct source s = source_of(&saved);
    s.size = first_block(SAVED_UNIT);
    options.allocator = allocator_of(&bank);
    options.max_bytes = limited ? 2 * bytes : 0;
    assert_int_equal(tamis_load(&options, read_source, &s, &g), TAMIS_ECORRUPT);
    assert_in_range(bank.most_bytes, 1, bytes / 2);
    assert_int_equal(bank.blocks, 0);
  }
  free(saved.data);
  tamis_destroy(f);
}

/* Beside the filter; and a save that fails holds nothing. */
TEST(a_save_takes_little_memory)
{
  for (const struct form *form = NULL; (form = next_form(form));) {
    struct bank bank = {0};
    struct bytes b = {.fail_at = 1};
    tamis_options o = form->options;
    o.allocator = allocator_of(&bank);
    tamis_filter *f = used_by(form, &o, 6000);
    const size_t before = bank.bytes;
    bank.most_bytes = before;
    errno = 0;
    assert_int_equal(tamis_save(f, write_bytes, &b), TAMIS_EIO);
    assert_int_equal(errno, EDQUOT);
    assert_int_equal(tamis_save(f, write_bytes, &b), TAMIS_OK);
    assert_in_range(bank.bytes, 1, before); /* what waited for readers may have gone */
    assert_in_range(bank.most_bytes - before, 1, ((size_t) 5 << 20) - 1);
    for (uint64_t i = 0; i < 300; i++)
      (void) call(form, f, i);
    tamis_destroy(f);
    free(b.data);
  }
}

/* ---- arguments ---- */

TEST(arguments_are_checked)
{
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

/* ---- hash functions ---- */

static uint64_t own_hash(void *context, const void *key, size_t len, uint64_t seed)
{
  uint64_t hash = seed ^ *(const uint64_t *) context;
  for (size_t i = 0; i < len; i++)
    hash = (hash ^ ((const unsigned char *) key)[i]) * UINT64_C(0x100000001B3);
  return hash;
}

TEST(a_filter_is_loaded_with_its_own_hash_function_only)
{
  uint64_t secret = 1234567, other = 7654321;
  tamis_options options = seeded_options(TAMIS_BLOOM, 100, 0.01, true);
  options.hash = own_hash;
  options.hash_context = &secret;
  tamis_filter *own = make_with_options(&options), *plain = filter_of(100, 1), *g;
  assert_int_equal(tamis_add(own, "key", 3), TAMIS_OK);
  struct bytes saved = saved_bytes(own), saved_plain = saved_bytes(plain);
  tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
  assert_int_equal(try_load(&saved, &load), TAMIS_EINVAL);
  load.hash = own_hash;
  load.hash_context = &other;
  assert_int_equal(try_load(&saved, &load), TAMIS_EINVAL);
  assert_int_equal(try_load(&saved_plain, &load), TAMIS_EINVAL);
  load.hash_context = &secret;
  assert_int_equal(load_from(&saved, &load, &g), TAMIS_OK);
  assert_true(tamis_contains(g, "key", 3));
  assert_false(tamis_contains(g, "another", 7));
  tamis_destroy(g);
  assert_int_equal(info_of(&saved).count, 1); /* the figures need no hash function */
  free(saved.data);
  free(saved_plain.data);
  tamis_destroy(own);
  tamis_destroy(plain);
}

/* ---- the limit that is saved ---- */

TEST(the_limit_of_a_filter_is_saved)
{
  for (const struct form *form = NULL; (form = next_form(form));)
    for (unsigned i = 0; i < 2; i++) {
      tamis_options options = form->options;
      tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
      options.max_bytes = 12345678;
      load.max_bytes = i ? 7654321 : 0;
      tamis_filter *f = make_with_options(&options), *g;
      struct bytes saved = saved_bytes(f);
      assert_int_equal(load_from(&saved, &load, &g), TAMIS_OK);
      struct bytes again = saved_bytes(g);
      assert_int_equal(saved_get64(saved.data + 80), 12345678);
      assert_int_equal(saved_get64(again.data + 80), i ? 7654321 : 12345678);
      free(again.data), free(saved.data);
      tamis_destroy(f), tamis_destroy(g);
    }
}

/* ---- files that were mapped unchecked ---- */

static void add_copies(tamis_filter *f, uint64_t first, uint64_t n)
{
  for (uint64_t key = first; key < first + n; key++)
    for (unsigned copies = 0; copies <= key % 16 / 8 * 20; copies++)
      assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
}

/* The mapped filter is saved to the bytes of its file or, if they are damaged, not at all. */
static void save_mapped(const tamis_filter *f, const struct bytes *whole, int expected)
{
  struct bytes again = {0};
  assert_int_equal(tamis_save(f, write_bytes, &again), expected);
  unpack_bytes(&again);
  assert_int_equal(again.size, expected == TAMIS_OK ? whole->size : 0);
  assert_memory_equal(again.data, whole->data, again.size);
  free(again.data);
}

/* Whatever comes from the mapped filter, its own keys stay, and what is saved can be loaded. */
static void unite_with_damaged(const tamis_options *o, const tamis_filter *mapped)
{
  tamis_filter *into = make_with_options(o);
  add_copies(into, 1000, 100);
  int result = tamis_merge(into, mapped);
  assert_true(result == TAMIS_OK || result == TAMIS_ECORRUPT || result == TAMIS_EFULL ||
              result == TAMIS_EUNSUPPORTED);
  assert_all_in(into, 1000, 1100);
  assert_valid(into);
  tamis_destroy(copy_of(into));
  tamis_destroy(into);
}

TEST(what_was_mapped_unchecked_is_saved_whole_or_not_at_all)
{
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_options o = form->options;
    o.capacity = o.growable ? 200 : 8000; /* it has layers */
    tamis_filter *f = make_with_options(&o), *mapped;
    add_copies(f, 0, 400);
    struct bytes b = saved_bytes(f);
    unsigned found = 0;
    for (size_t at = 0; at < b.size && may_be_mapped(form); at += at ? 59 : 60) {
      const unsigned char was = b.data[at];
      b.data[at] ^= (unsigned char) (!at ? 0 : at % 2 ? 0xff : 1 << at / 2 % 8);
      const int result = map_source(source_of(&b), false, &mapped);
      if (result == TAMIS_OK) {
        save_mapped(mapped, &b, at ? TAMIS_ECORRUPT : TAMIS_OK);
        unite_with_damaged(&o, mapped);
        found += at > 0;
      }
      tamis_destroy(mapped);
      b.data[at] = was;
    }
    assert_true(found > 5 || !may_be_mapped(form));
    tamis_destroy(f);
    free(b.data);
  }
}

/* ---- saves under fire ---- */

enum { WRITERS = 2, FIRE_KEYS = 20000 / SCALE, RENEWED = 3000 / SCALE, MOST_ADVANCES = 15 };

struct fire {
  tamis_filter *f;
  _Atomic uint64_t added; /* keys of this writer whose add has returned */
  unsigned number;
  bool bad;
  pthread_t thread;
};

static uint64_t key_of(unsigned writer, uint64_t i)
{
  return i * WRITERS + writer;
}

static uint64_t renewed_key_of(unsigned writer, uint64_t i)
{
  return (UINT64_C(1) << 40) + key_of(writer, i % RENEWED);
}

/* Beside keys that stay, some are removed and added again, and periods end. */
static void *add_keys(void *fire)
{
  struct fire *w = fire;
  for (uint64_t i = 0; i < FIRE_KEYS; i++) {
    w->bad |= tamis_add_hash(w->f, key_of(w->number, i)) != TAMIS_OK;
    atomic_store_explicit(&w->added, i + 1, memory_order_release);
    if (i >= RENEWED)
      (void) tamis_remove_hash(w->f, renewed_key_of(w->number, i));
    w->bad |= tamis_add_hash(w->f, renewed_key_of(w->number, i)) != TAMIS_OK;
    if (i % (FIRE_KEYS / MOST_ADVANCES) == 0)
      (void) tamis_advance(w->f);
  }
  return NULL;
}

/* Each key is in once at most, and nothing else is. */
static void check_copies(tamis_filter *g, const struct fire fire[WRITERS])
{
  for (unsigned w = 0; w < WRITERS; w++) {
    const uint64_t added = atomic_load_explicit(&fire[w].added, memory_order_acquire);
    for (uint64_t i = 0; i <= added; i++)
      (void) tamis_remove_hash(g, key_of(w, i));
    for (uint64_t i = 0; i < RENEWED && i <= added; i++)
      (void) tamis_remove_hash(g, renewed_key_of(w, i));
  }
  assert_int_equal(stats_of(g).count, 0);
  assert_valid(g);
}

/* A key that was in before the save began is in what is loaded, and none is counted that is not in. */
static void check_save_under_fire(struct fire fire[WRITERS], bool each_copy, bool *done)
{
  uint64_t before[WRITERS], all = 0;
  for (unsigned w = 0; w < WRITERS; w++)
    before[w] = atomic_load_explicit(&fire[w].added, memory_order_acquire);
  tamis_filter *g = copy_of(fire->f);
  for (unsigned w = 0; w < WRITERS; w++)
    for (uint64_t i = 0; i < before[w]; i++)
      if (!tamis_contains_hash(g, key_of(w, i)))
        fail_msg("key %lu of %lu is missing", i, before[w]);
  for (unsigned w = 0; w < WRITERS; w++)
    all += atomic_load_explicit(&fire[w].added, memory_order_acquire);
  assert_true(stats_of(g).count <= all + (RENEWED + 2) * WRITERS);
  if (each_copy)
    check_copies(g, fire);
  *done = all == (uint64_t) WRITERS * FIRE_KEYS;
  tamis_destroy(g);
}

/* At a rate at which a cuckoo filter confuses no keys.  One that grows opens a second generation when
 * a part of the keys is in, and those that are renewed go there. */
static tamis_filter *make_for_fire(const struct form *form)
{
  tamis_options o = form->options;
  const bool is_cuckoo = o.kind == TAMIS_CUCKOO && !o.window;
  o.capacity =
      is_cuckoo && o.growable ? 4000 / SCALE : (uint64_t) WRITERS * (FIRE_KEYS + RENEWED) + 2000;
  o.window = o.window ? 2 * WRITERS * MOST_ADVANCES : 0;
  o.fpp = is_cuckoo ? 1e-7 : o.layout == TAMIS_LAYOUT_WORD ? 0.01 : 0.001;
  if (!is_cuckoo || !o.growable)
    return make_with_options(&o);
  struct cuckoo_geometry g = planned_geometry(o.capacity, o.fpp);
  g.depth_limit = 1;
  return make_with_geometry(&o, &g);
}

static void save_under_fire(const struct form *form, bool each_copy)
{
  struct fire fire[WRITERS] = {{.f = make_for_fire(form)}};
  for (unsigned w = 0; w < WRITERS; w++) {
    fire[w].f = fire->f, fire[w].number = w;
    assert_int_equal(pthread_create(&fire[w].thread, NULL, add_keys, &fire[w]), 0);
  }
  for (bool done = false; !done;)
    check_save_under_fire(fire, each_copy, &done);
  for (unsigned w = 0; w < WRITERS; w++) {
    pthread_join(fire[w].thread, NULL);
    assert_false(fire[w].bad);
  }
  assert_true(stats_of(fire->f).generations == 2 || !each_copy || !form->options.growable);
  assert_valid(fire->f);
  tamis_destroy(fire->f);
}

TEST_WITH_THREADS(a_loaded_filter_has_all_keys_under_fire)
{
  for (const struct form *form = NULL; (form = next_form(form));) {
    const bool each_copy = form->options.kind == TAMIS_CUCKOO && !form->options.window;
    beside_filter = form->options.kind == TAMIS_CUCKOO;
    for (unsigned round = 0; round < (each_copy ? 20 / SCALE : 1); round++)
      save_under_fire(form, each_copy);
    beside_filter = 0;
  }
}
