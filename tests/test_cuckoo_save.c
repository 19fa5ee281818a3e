/* SPDX-License-Identifier: MIT
 *
 * Saved, loaded and mapped cuckoo filters.
 */
#include "unit.h"

#include "cuckoo_unit.h"
#include "saved_unit.h"

#include "cuckoo/save.h"
#include "cuckoo/snapshot.h"
#include "cuckoo/unite_plan.h"

#include <stdio.h>

static const double rates[] = {0.03, 0.01, 0.001, 1e-4, 1e-6};
enum { RATES = sizeof rates / sizeof *rates };

/* Filters of all sorts: the i-th one, or NULL after the last. */
static tamis_filter *sort_of_filter(unsigned i)
{
  enum { SIZES = 4, SORTS = RATES * SIZES * 2 };
  static const uint64_t keys[] = {0, 500, 30000, 200000};
  if (i >= SORTS)
    return NULL;
  tamis_options options = options_for(1000, rates[i % RATES]);
  uint64_t n = keys[i / RATES % SIZES];
  options.growable = i / RATES / SIZES;
  if (!options.growable)
    options.capacity = n + 1000;
  tamis_filter *f = make_with(&options);
  add_range(f, 0, n);
  if (i % 2) /* copies, and joined segments */
    for (unsigned copy = 0; copy < 3; copy++)
      add_range(f, 0, n / 10);
  if (i % 3 == 0)
    remove_range(f, n / 2, n);
  return f;
}

/* ---- files that are kept ---- */

/* Filters of which files are kept in tests/saved: without a growth, with several generations, and
 * with copies. */
static const struct kept {
  const char *name;
  bool growable;
  uint64_t keys, copies;   /* of each of the first tenth of the keys */
  bool was_planned_larger; /* at the time when the file was written */
} kept[] = {{"fixed", false, 1000, 0, false},      {"fixed-copies", false, 1000, 5, false},
            {"small", true, 90, 5, false},         {"grown", true, 5000, 0, true},
            {"grown-copies", true, 5000, 5, true}, {"generations", true, 30000, 0, true}};
enum { KEPT_FILES = sizeof kept / sizeof *kept };

static tamis_filter *kept_filter(const struct kept *k)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = k->growable ? 100 : 1100;
  options.growable = k->growable;
  options.seed = 12345;
  options.stripes = 4;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  add_range(f, 0, k->keys);
  for (uint64_t copy = 0; copy < k->copies; copy++)
    add_range(f, 0, k->keys / 10);
  return f;
}

static void kept_path(const struct kept *k, char path[500])
{
  snprintf(path, 500, KEPT "/cuckoo-%s.tamis", k->name);
}

/* Files of the first version of the format, which were written on x86-64, load on every machine and
 * in every later version, and are saved to the same bytes.  (TAMIS_WRITE_KEPT=1 writes them.) */
static void files_that_are_kept_load_for_ever(void **state)
{
  (void) state;
  for (unsigned i = 0; i < KEPT_FILES; i++) {
    char path[500];
    kept_path(&kept[i], path);
    tamis_filter *f = kept_filter(&kept[i]), *loaded;
    if (getenv("TAMIS_WRITE_KEPT"))
      assert_int_equal(tamis_save_file(f, path), TAMIS_OK);
    assert_int_equal(tamis_load_file(NULL, path, &loaded), TAMIS_OK);
    assert_valid(loaded);
    for (uint64_t key = 0; key < kept[i].keys; key++)
      assert_true(tamis_contains_hash(loaded, key));
    assert_int_equal(stats_of(loaded).count, kept[i].keys + kept[i].keys / 10 * kept[i].copies);
    struct bytes bytes = saved_bytes(loaded), now = saved_bytes(f);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    unsigned char *data = malloc(bytes.size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, bytes.size + 1, file), bytes.size);
    assert_memory_equal(data, bytes.data, bytes.size);
    /* As long as plans are the same, and keys are put where they were put then, this machine makes
     * the same filter. */
    if (cuckoo_same_geometry(&cuckoo_of(f)->first.geometry, &cuckoo_of(loaded)->first.geometry)) {
      assert_int_equal(now.size, bytes.size);
      assert_memory_equal(now.data, bytes.data, bytes.size);
    } else {
      assert_true(kept[i].was_planned_larger);
    }
    fclose(file);
    free(data);
    free(bytes.data);
    free(now.data);
    tamis_destroy(f);
    tamis_destroy(loaded);
  }
}

/* ---- saves and removes ---- */

/* An allocator that is never called with the snapshots' lock held, or the stripes of a segment. */
static const struct cuckoo *used;
static bool called_under_a_lock;

static void *allocate_without_locks(void *context, size_t alignment, size_t size)
{
  void *block = NULL;
  (void) context;
  called_under_a_lock |= used && stripe_held((struct stripe *) &used->snapshots_lock);
  return posix_memalign(&block, alignment, size) ? NULL : memset(block, 0xA5, size);
}

static void release_without_locks(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) alignment, (void) size;
  free(block);
}

/* More keys are removed between two pieces than there are notes for at first. */
static void many_removes_between_two_pieces(void **state)
{
  (void) state;
  const tamis_allocator allocator = {allocate_without_locks, release_without_locks, NULL};
  const uint64_t keys = 300000;
  tamis_options options = options_for(1000, 0.01);
  options.allocator = &allocator;
  tamis_filter *f = make_with(&options);
  add_range(f, 0, keys);
  used = const_cuckoo_of(f);
  assert_int_equal(cuckoo_generations(used), 2);
  uint64_t of_first = cuckoo_count(cuckoo_generation(used, 0), ENTRIES);
  assert_true(of_first > 4 * SNAPSHOT_HASHES);
  struct cuckoo_snapshot s;
  struct snapshot_piece piece;
  uint64_t noted = 0;
  assert_int_equal(tamis__snapshot_begin(&s, used), TAMIS_OK);
  do
    assert_int_equal(tamis__snapshot_next(&s, &piece), TAMIS_OK);
  while (piece.generation->number == 0);
  called_under_a_lock = false;
  remove_range(f, 0, keys);
  assert_false(called_under_a_lock);
  while (tamis__snapshot_next(&s, &piece) == TAMIS_OK)
    ;
  const uint64_t *hashes;
  for (size_t n; (n = tamis__snapshot_removed(&s, &hashes)) > 0;)
    noted += n;
  assert_int_equal(s.result, TAMIS_ABSENT);
  /* those with an entry in the first generation, but for the keys of the segment that has been
   * copied from the second one: these had become final */
  assert_in_range(noted, of_first * 7 / 10, of_first);
  tamis__snapshot_end(&s);
  used = NULL;
  tamis_destroy(f);
}

/* ---- round trips ---- */

static void assert_same(const tamis_filter *a, const tamis_filter *b)
{
  tamis_stats x = stats_of(a), y = stats_of(b);
  assert_same_contents(&x, &y);
  assert_int_equal(x.seed, y.seed);
  assert_int_equal(x.capacity, y.capacity);
  for (uint64_t i = 0; i < 210000; i += 7)
    assert_int_equal(tamis_contains_hash(a, i), tamis_contains_hash(b, i));
  for (uint64_t i = 0; i < 210000; i += i < 2000 ? 1 : 77)
    assert_int_equal(tamis_count_hash(a, i), tamis_count_hash(b, i));
}

static void a_loaded_filter_is_the_same(void **state)
{
  (void) state;
  tamis_filter *f;
  for (unsigned i = 0; (f = sort_of_filter(i)); i++) {
    struct bytes bytes = saved_bytes(f);
    tamis_filter *loaded = load_bytes(&bytes);
    assert_same(f, loaded);
    struct bytes again = saved_bytes(loaded);
    assert_int_equal(again.size, bytes.size);
    assert_memory_equal(again.data, bytes.data, bytes.size);
    free(again.data);
    free(bytes.data);
    tamis_destroy(loaded);
    tamis_destroy(f);
  }
}

/* What can be removed from one can be removed from the other; then both are empty. */
static void copies_are_as_many(void **state)
{
  (void) state;
  for (unsigned growable = 0; growable < 2; growable++) {
    tamis_options options = options_for(growable ? 100 : 5000, 0.001);
    options.growable = growable;
    tamis_filter *f = make_with(&options);
    for (uint64_t i = 0; i < 5000; i++)
      for (uint64_t copy = 0; copy <= i % 5 + (i % 100 == 0 ? 300 : 0); copy++)
        assert_int_equal(tamis_add_hash(f, i), TAMIS_OK);
    struct bytes bytes = saved_bytes(f);
    tamis_filter *loaded = load_bytes(&bytes);
    for (uint64_t i = 0; i < 5000; i++)
      for (uint64_t copy = 0; copy <= i % 5 + (i % 100 == 0 ? 300 : 0); copy++)
        assert_int_equal(tamis_remove_hash(loaded, i), TAMIS_OK);
    assert_int_equal(stats_of(loaded).count, 0);
    assert_valid(loaded);
    free(bytes.data);
    tamis_destroy(loaded);
    tamis_destroy(f);
  }
}

static void a_loaded_filter_goes_on_growing_and_shrinking(void **state)
{
  (void) state;
  tamis_options options = options_for(1000, 0.01);
  tamis_filter *f = make_with(&options);
  add_range(f, 0, 300000);
  struct bytes bytes = saved_bytes(f);
  tamis_filter *loaded = load_bytes(&bytes);
  assert_true(stats_of(loaded).generations > 1);
  add_range(loaded, 300000, 600000);
  assert_all_in(loaded, 0, 600000);
  assert_rate(loaded, 0.01, 1);
  assert_valid(loaded);
  assert_true(stats_of(loaded).growths > stats_of(f).growths);
  remove_range(loaded, 0, 600000);
  assert_int_equal(stats_of(loaded).count, 0);
  assert_valid(loaded);
  assert_true(stats_of(loaded).joins > stats_of(f).joins);
  free(bytes.data);
  tamis_destroy(loaded);
  tamis_destroy(f);
}

/* ---- limits ---- */

/* A load also needs a buffer for one block. */
static int load_within(const struct bytes *b, uint64_t limit)
{
  enum { BUFFER = 1 << 17 };
  struct counts counts = {0};
  tamis_allocator allocator = counting(&counts);
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.allocator = &allocator;
  options.max_bytes = limit;
  struct source source = source_of(b);
  tamis_filter *f;
  int result = tamis_load(&options, read_source, &source, &f);
  assert_true(counts.most <= limit + BUFFER);
  if (f) {
    assert_valid(f);
    assert_true(stats_of(f).bytes <= limit);
  }
  tamis_destroy(f);
  assert_int_equal(counts.blocks, 0);
  return result;
}

static void a_load_stays_within_max_bytes(void **state)
{
  (void) state;
  for (unsigned i = 1; i < 40; i += 5) {
    tamis_filter *f = sort_of_filter(i);
    struct bytes bytes = saved_bytes(f);
    uint64_t whole = stats_of(f).bytes;
    for (uint64_t limit = whole / 8; limit < 2 * whole; limit += whole / 8) {
      int result = load_within(&bytes, limit);
      assert_true(result == TAMIS_EFULL || (result == TAMIS_OK && limit > whole / 2));
    }
    assert_int_equal(load_within(&bytes, 2 * whole), TAMIS_OK);
    free(bytes.data);
    tamis_destroy(f);
  }
}

/* A small filter takes as much memory as the one that was saved, and no less. */
static void a_small_filter_is_loaded_within_its_bytes(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 10; i++) {
    tamis_options options = options_for(i / 2 * 20 + 1, 0.01);
    options.growable = i % 2;
    tamis_filter *f = make_with(&options);
    struct bytes bytes = saved_bytes(f);
    uint64_t whole = stats_of(f).bytes, least = whole + sizeof(tamis_allocator);
    for (uint64_t limit = 1; limit < 2 * whole; limit++)
      assert_int_equal(load_within(&bytes, limit), limit < least ? TAMIS_EFULL : TAMIS_OK);
    tamis_filter *loaded = load_bytes(&bytes);
    assert_int_equal(stats_of(loaded).bytes, whole);
    assert_valid(loaded);
    add_range(loaded, 0, options.capacity);
    assert_valid(loaded);
    tamis_destroy(loaded);
    free(bytes.data);
    tamis_destroy(f);
  }
}

/* Whatever copies it has: a filter that has reached its limit is loaded within the same limit. */
static void a_filter_is_loaded_within_its_limit(void **state)
{
  (void) state;
  static const double of_rates[] = {0.1, 0.03, 0.001, 1e-6};
  uint64_t random = 1;
  for (unsigned i = 0; i < 80; i += is_long() ? 1 : 9) {
    tamis_options options = options_for(300u << i % 7, of_rates[i % 4]);
    options.growable = i / 4 % 2;
    assert_int_equal(tamis_bytes_for(&options, &options.max_bytes), TAMIS_OK);
    options.max_bytes += options.max_bytes * (i % 50) / 100;
    tamis_filter *f = make_with(&options), *loaded;
    for (uint64_t key = 0; key < 4 * options.capacity; key++) {
      random = random * UINT64_C(6364136223846793005) + 1442695040888963407U;
      uint64_t which = (random >> 33) % (1 + key / 3), copies = 1 + (random >> 20) % (1u << i % 10);
      for (uint64_t copy = 0; copy < copies; copy++)
        (void) tamis_add_hash(f, which);
      if (i % 3 == 0 && random >> 62)
        (void) tamis_remove_hash(f, which);
    }
    struct bytes bytes = saved_bytes(f);
    struct source source = source_of(&bytes);
    tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
    load.max_bytes = options.max_bytes;
    assert_int_equal(tamis_load(&load, read_source, &source, &loaded), TAMIS_OK);
    assert_int_equal(stats_of(loaded).count, stats_of(f).count);
    assert_true(stats_of(loaded).bytes <= options.max_bytes);
    assert_valid(loaded);
    tamis_destroy(loaded);
    source = source_of(&bytes);
    assert_int_equal(tamis_load(NULL, read_source, &source, &loaded), TAMIS_OK);
    assert_true(stats_of(loaded).bytes <= options.max_bytes);
    free(bytes.data);
    tamis_destroy(loaded);
    tamis_destroy(f);
  }
}

/* ---- damage ---- */

static tamis_filter *tiny_filter(bool growable)
{
  tamis_options options = options_for(40, 0.03);
  options.growable = growable;
  tamis_filter *f = make_with(&options);
  add_range(f, 0, 30);
  for (unsigned i = 0; i < 5; i++)
    add_range(f, 0, 3);
  return f;
}

static void truncations_and_flipped_bits_are_found(void **state)
{
  (void) state;
  for (unsigned growable = 0; growable < 2; growable++) {
    tamis_filter *f = tiny_filter(growable);
    struct bytes bytes = saved_bytes(f);
    assert_truncations_are_found(&bytes);
    assert_changes_are_found(&bytes);
    free(bytes.data);
    tamis_destroy(f);
  }
}

/* Each number of a part of the file, at its extremes, with right sums: a filter that is valid, or
 * none.  (What a filter without keys needs for its directory follows from its header alone: there
 * is a limit for that.)  Returns how many changes were accepted. */
static unsigned try_numbers(const struct bytes *b, size_t begin, size_t end)
{
  struct bytes changed = {.data = malloc(b->size), .size = b->size};
  unsigned accepted = 0;
  assert_non_null(changed.data);
  for (size_t at = begin; at < end; at += 8)
    for (unsigned i = 0; i < EXTREMES + 64; i++) {
      memcpy(changed.data, b->data, b->size);
      uint64_t was = saved_get64(b->data + at);
      saved_put64(changed.data + at,
                  i < EXTREMES ? extremes[i] : was ^ UINT64_C(1) << (i - EXTREMES));
      if (saved_get64(changed.data + at) == was)
        continue;
      (void) repair(&changed, 0);
      accepted += load_within(&changed, UINT64_C(64) << 20) == TAMIS_OK;
    }
  free(changed.data);
  return accepted;
}

static void extremes_do_no_harm(void **state)
{
  (void) state;
  tamis_filter *f = tiny_filter(true);
  struct bytes bytes = saved_bytes(f);
  size_t last = bytes.size - SAVED_UNIT;
  assert_true(try_numbers(&bytes, 8, SAVED_HEADER - 8) > 0);
  (void) try_numbers(&bytes, SAVED_HEADER, last);
  assert_int_equal(try_numbers(&bytes, last + 24, last + 48), 0);
  free(bytes.data);
  tamis_destroy(f);
}

/* No filter of this library saves that. */
static void a_filter_without_segments_takes_keys(void **state)
{
  (void) state;
  tamis_filter *f = tiny_filter(true);
  struct bytes bytes = saved_bytes(f);
  unsigned char *block = bytes.data + SAVED_HEADER;
  assert_int_equal(saved_get32(block), SAVED_SEGMENT);
  size_t size = bytes.size - SAVED_HEADER - SAVED_UNIT; /* with its counts */
  bytes.size -= size;
  memmove(block, block + size, bytes.size - SAVED_HEADER);
  unsigned char *trailer = bytes.data + bytes.size - SAVED_UNIT;
  for (unsigned i = 0; i < SAVED_TOTALS; i++)
    saved_put64(trailer + 24 + (size_t) i * 8, 0);
  saved_put64(trailer + 8, bytes.size);
  saved_put64(trailer + 16, 0); /* blocks */
  (void) repair(&bytes, 0);
  tamis_filter *loaded = load_bytes(&bytes);
  assert_int_equal(stats_of(loaded).segments, 0);
  add_range(loaded, 0, 1000);
  assert_all_in(loaded, 0, 1000);
  assert_valid(loaded);
  tamis_destroy(loaded);
  free(bytes.data);
  tamis_destroy(f);
}

/* Segments of any size are claimed, and do not follow (load_any() counts). */
static void a_segment_is_not_asked_for_before_it_comes(void **state)
{
  (void) state;
  tamis_filter *f = tiny_filter(false);
  struct bytes bytes = saved_bytes(f);
  unsigned char *geometry = bytes.data + SAVED_GEOMETRY_AT;
  saved_put64(geometry + (size_t) SAVED_FIRST_ROOTS * 8, 1);
  for (uint64_t pair_bits = 10; pair_bits <= 20; pair_bits++) {
    saved_put64(geometry + (size_t) SAVED_PAIR_BITS * 8, pair_bits);
    (void) repair(&bytes, 0);
    assert_int_equal(load_any(source_of(&bytes), 0, NULL), TAMIS_ECORRUPT);
    /* as many bytes as the first MiB takes do not bring the rest of 16 MiB, either */
    struct bytes longer = {.data = calloc(1, bytes.size + (1 << 21)),
                           .size = bytes.size + (1 << 21)};
    memcpy(longer.data, bytes.data, SAVED_HEADER);
    assert_int_equal(load_any(source_of(&longer), 0, NULL), TAMIS_ECORRUPT);
    free(longer.data);
  }
  free(bytes.data);
  tamis_destroy(f);
}

/* A directory that is far too large for the capacity is not asked for. */
static void roots_beyond_the_capacity_are_refused(void **state)
{
  (void) state;
  tamis_filter *f = tiny_filter(true);
  struct bytes bytes = saved_bytes(f);
  unsigned char *roots = bytes.data + SAVED_GEOMETRY_AT + (size_t) SAVED_FIRST_ROOTS * 8;
  for (uint64_t n = saved_get64(roots) * 32; n < UINT64_C(1) << 24; n *= 8) {
    saved_put64(roots, n);
    (void) repair(&bytes, 0);
    assert_int_equal(load_any(source_of(&bytes), 0, NULL), TAMIS_ECORRUPT);
  }
  free(bytes.data);
  tamis_destroy(f);
}

/* ---- figures ---- */

/* Those of a saved filter are those of the loaded one; but what only the loaded one knows is left
 * out of `bytes`. */
static void figures_are_those_of_the_loaded_filter(void **state)
{
  (void) state;
  tamis_filter *f;
  for (unsigned i = 0; (f = sort_of_filter(i)); i++) {
    struct bytes bytes = saved_bytes(f);
    struct source source = source_of(&bytes);
    tamis_filter *g = load_bytes(&bytes);
    tamis_stats info = TAMIS_STATS_INIT, loaded = stats_of(g);
    assert_int_equal(tamis_saved_info(read_source, &source, &info), TAMIS_OK);
    assert_int_equal(info.struct_size, loaded.struct_size);
    assert_same_contents(&info, &loaded);
    assert_int_equal(info.capacity, loaded.capacity);
    assert_true(info.fpp == loaded.fpp);
    assert_true(fabs(info.fpp_estimate / fmax(loaded.fpp_estimate, 1e-300) - 1) < 1e-6 ||
                info.fpp_estimate == loaded.fpp_estimate);
    assert_true(info.estimated_count == loaded.estimated_count && info.load == loaded.load);
    assert_int_equal(info.kind, loaded.kind);
    assert_int_equal(info.layout, loaded.layout);
    assert_int_equal(info.seed, loaded.seed);
    assert_int_equal(info.joins, loaded.joins);
    assert_int_equal(info.fingerprint_bits, loaded.fingerprint_bits);
    assert_int_equal(info.bits | info.bits_set | info.bits_per_key, 0);
    bool copies = cuckoo_count(cuckoo_generation(const_cuckoo_of(g), 0), DUPLICATES) > 0;
    if (!copies && loaded.generations == 1 && loaded.bytes < 2 << 20) /* no slabs */
      assert_int_equal(info.bytes, loaded.bytes);
    else
      assert_in_range(info.bytes, loaded.bytes * 3 / 4, loaded.bytes);
    free(bytes.data);
    tamis_destroy(f);
    tamis_destroy(g);
  }
}

/* A directory that is not needed any more, in a filter that has shrunk to one segment, is not there
 * after a load, and no file speaks of it. */
static void figures_are_without_a_directory_of_one_segment(void **state)
{
  (void) state;
  tamis_options options = options_for(100, 0.01);
  tamis_filter *f = make_with(&options);
  for (uint64_t n = 0; n < 200; n++)
    assert_int_equal(tamis_add_hash(f, n), TAMIS_OK);
  remove_range(f, 0, 200);
  assert_non_null(generation_others(&cuckoo_of(f)->first));
  assert_int_equal(stats_of(f).segments, 1);
  struct bytes bytes = saved_bytes(f);
  struct source source = source_of(&bytes);
  tamis_filter *loaded = load_bytes(&bytes);
  tamis_stats info = TAMIS_STATS_INIT;
  assert_int_equal(tamis_saved_info(read_source, &source, &info), TAMIS_OK);
  assert_int_equal(info.bytes, stats_of(loaded).bytes);
  struct bytes again = saved_bytes(loaded);
  assert_int_equal(again.size, bytes.size);
  assert_memory_equal(again.data, bytes.data, bytes.size);
  free(again.data);
  free(bytes.data);
  tamis_destroy(loaded);
  tamis_destroy(f);
}

/* ---- mapped filters ---- */

static const char path[] = "test_cuckoo_save.tamis";

static void a_mapped_filter_is_the_same(void **state)
{
  (void) state;
  for (unsigned i = 0; i < 4 * RATES; i++) {
    tamis_filter *f = sort_of_filter(i), *mapped, *loaded;
    struct bytes bytes = saved_bytes(f);
    assert_int_equal(tamis_save_file(f, path), TAMIS_OK);
    for (unsigned check = 0; check < 2; check++) {
      tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
      options.check_all = check;
      assert_int_equal(tamis_map_file(&options, path, &mapped), TAMIS_OK);
      assert_same(f, mapped);
      assert_valid(mapped);
      assert_int_equal(tamis_add_hash(mapped, 1), TAMIS_EUNSUPPORTED);
      assert_int_equal(tamis_remove_hash(mapped, 1), TAMIS_EUNSUPPORTED);
      struct bytes again = saved_bytes(mapped); /* with all counts */
      loaded = load_bytes(&again);
      assert_same(f, loaded);
      assert_int_equal(again.size, bytes.size);
      assert_memory_equal(again.data, bytes.data, bytes.size);
      free(again.data);
      tamis_destroy(loaded);
      tamis_destroy(mapped);
    }
    free(bytes.data);
    tamis_destroy(f);
  }
  remove(path);
}

static void a_mapped_filter_counts_all_its_memory(void **state)
{
  (void) state;
  for (uint64_t capacity = 10; capacity < 100000; capacity *= 20) {
    struct counts counts = {0};
    tamis_allocator allocator = counting(&counts);
    tamis_options options = options_for(capacity, 0.01);
    options.growable = false;
    tamis_filter *f = make_with(&options), *mapped;
    assert_int_equal(tamis_save_file(f, path), TAMIS_OK);
    tamis_load_options load_options = TAMIS_LOAD_OPTIONS_INIT;
    load_options.allocator = &allocator;
    for (int below = 0; below < 2; below++) {
      int result = tamis_map_file(&load_options, path, &mapped);
      assert_int_equal(result, below ? TAMIS_EFULL : TAMIS_OK);
      if (!below)
        assert_int_equal(stats_of(mapped).bytes, counts.now);
      load_options.max_bytes = counts.now - 1;
      tamis_destroy(mapped);
      assert_int_equal(counts.now, 0);
    }
    tamis_destroy(f);
  }
  remove(path);
}

static void a_filter_that_grows_cannot_be_mapped(void **state)
{
  (void) state;
  tamis_filter *f = tiny_filter(true), *mapped = f;
  assert_int_equal(tamis_save_file(f, path), TAMIS_OK);
  assert_int_equal(tamis_map_file(NULL, path, &mapped), TAMIS_EUNSUPPORTED);
  assert_null(mapped);
  remove(path);
  tamis_destroy(f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(files_that_are_kept_load_for_ever),
      cmocka_unit_test(a_loaded_filter_is_the_same),
      cmocka_unit_test(many_removes_between_two_pieces),
      cmocka_unit_test(copies_are_as_many),
      cmocka_unit_test(a_loaded_filter_goes_on_growing_and_shrinking),
      cmocka_unit_test(a_load_stays_within_max_bytes),
      cmocka_unit_test(a_small_filter_is_loaded_within_its_bytes),
      cmocka_unit_test(a_filter_is_loaded_within_its_limit),
      cmocka_unit_test(a_filter_without_segments_takes_keys),
      cmocka_unit_test(truncations_and_flipped_bits_are_found),
      cmocka_unit_test(extremes_do_no_harm),
      cmocka_unit_test(a_segment_is_not_asked_for_before_it_comes),
      cmocka_unit_test(roots_beyond_the_capacity_are_refused),
      cmocka_unit_test(figures_are_those_of_the_loaded_filter),
      cmocka_unit_test(figures_are_without_a_directory_of_one_segment),
      cmocka_unit_test(a_mapped_filter_is_the_same),
      cmocka_unit_test(a_mapped_filter_counts_all_its_memory),
      cmocka_unit_test(a_filter_that_grows_cannot_be_mapped),
  };
  return cmocka_run_group_tests_name("cuckoo_save", tests, NULL, NULL);
}
