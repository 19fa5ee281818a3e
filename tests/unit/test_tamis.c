/* SPDX-License-Identifier: MIT
 *
 * The public functions, as tamis.h and its fine print (docs/manual/details) describe them: the
 * sentences that no test of a part of the library holds, each in every form of filter, and what a
 * careless caller does.  test_planning.c has the plans, test_batches.c the batches, and
 * base/test_refusal.c what is refused.
 */
#include "saved_unit.h"

#include "harness.h"

#include <sys/resource.h>

/* At a rate at which no key of a small test is found by chance. */
static tamis_options options_of(const struct form *form)
{
  tamis_options options = form->options;
  options.fpp = 1e-6;
  while (tamis_options_check(&options, NULL, 0) == TAMIS_EUNSUPPORTED)
    options.fpp *= 1.5;
  return options;
}

static tamis_filter *create_form(const struct form *form)
{
  tamis_options options = options_of(form);
  return make_with_options(&options);
}

/* ---- versions ---- */

TEST(the_version_is_that_of_the_header)
{
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", TAMIS_VERSION_MAJOR, TAMIS_VERSION_MINOR,
           TAMIS_VERSION_PATCH);
  assert_string_equal(tamis_version(), text);
  assert_string_equal(text, "0.9.0");
}

TEST(results_have_names)
{
  for (int result = -5; result <= 3; result++) {
    const char *text = tamis_strerror(result);
    assert_non_null(text);
    assert_true(strlen(text) > 4 && !strchr(text, '\n'));
    for (int other = -5; other < result; other++)
      assert_true(strcmp(text, tamis_strerror(other)) != 0 || (other == -5 && result == 3));
  }
}

/* All three calls that take options treat the sizes and the tails of the struct alike. */
static int use_options(const void *options)
{
  tamis_filter *f = NULL;
  uint64_t bytes = 7;
  double fpp = 7;
  int result = tamis_create(options, &f);
  assert_true((f != NULL) == (result == TAMIS_OK));
  assert_int_equal(tamis_bytes_for(options, &bytes), result);
  assert_int_equal(tamis_fpp_for(options, 1 << 20, &fpp), result);
  assert_true((bytes != 7 && fpp != 7) == (result == TAMIS_OK));
  tamis_destroy(f);
  return result;
}

static struct bytes loadable;

static int use_load_options(const void *options)
{
  return try_load(&loadable, options);
}

static void check_sizes(const void *options, size_t known, int (*use)(const void *options))
{
  enum { MOST = 4096 }; /* as the refusal says */
  static union {
    size_t size;
    unsigned char all[1 << 20];
  } o;
  memcpy(&o, options, known);
#define ASSERT_RESULT(of_size, result) o.size = (of_size), assert_int_equal(use(&o), result)
  for (size_t size = 0; size < known; size++)
    ASSERT_RESULT(size, TAMIS_EINVAL);
  for (size_t size = known + 1; size <= known + 256; size++) {
    ASSERT_RESULT(size, TAMIS_OK);
    o.all[size - 1] = 1;
    ASSERT_RESULT(size, TAMIS_EUNSUPPORTED);
    ASSERT_RESULT(size - 1, TAMIS_OK); /* what is behind is not looked at */
    o.all[size - 1] = 0;
  }
  ASSERT_RESULT(MOST, TAMIS_OK);
  ASSERT_RESULT(MOST + 1, TAMIS_EINVAL);
  ASSERT_RESULT(sizeof o, TAMIS_EINVAL);
  ASSERT_RESULT(SIZE_MAX, TAMIS_EINVAL);
#undef ASSERT_RESULT
  memset(&o, 0, sizeof o);
}

/* Programs that were built with a header before this one know fewer fields, and with a later one
 * more. */
TEST(structs_of_other_versions_are_told_by_their_size)
{
  tamis_options o = TAMIS_OPTIONS_INIT;
  tamis_load_options load;
  o.capacity = 1000;
  check_sizes(&o, sizeof o, use_options);
  memset(&load, 0xA5, sizeof load);
  tamis_load_options_init(&load);
  assert_int_equal(load.struct_size, sizeof load);
  tamis_filter *f = make_with_options(&o);
  loadable = saved_bytes(f);
  check_sizes(&load, sizeof load, use_load_options);
  load.allocator = &(tamis_allocator){bank_allocate, NULL, NULL};
  assert_int_equal(use_load_options(&load), TAMIS_EINVAL);
  free(loadable.data);
  tamis_destroy(f);
}

TEST(figures_of_other_versions_are_told_by_their_size)
{
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_filter *f = create_form(form);
    struct {
      tamis_stats known;
      unsigned char unknown[64];
    } stats, before;
    memset(&stats, 0x77, sizeof stats);
    for (size_t size = 0; size < sizeof stats.known; size++) {
      stats.known.struct_size = size;
      before = stats;
      assert_int_equal(tamis_get_stats(f, &stats.known), TAMIS_EINVAL);
      assert_memory_equal(&stats, &before, sizeof stats);
    }
    for (size_t size = sizeof stats.known; size <= sizeof stats; size++) {
      stats.known.struct_size = size;
      assert_int_equal(tamis_get_stats(f, &stats.known), TAMIS_OK);
      assert_int_equal(stats.known.struct_size, sizeof stats.known);
      assert_int_equal(stats.known.capacity, 1000);
      assert_memory_equal(stats.unknown, before.unknown, sizeof stats.unknown);
    }
    tamis_destroy(f);
  }
}

/* ---- sizes ---- */

static uint64_t bytes_with(tamis_kind kind, unsigned stripes)
{
  tamis_options o = seeded_options(kind, 1000000, 0.01, true);
  o.stripes = stripes;
  return planned_bytes(&o);
}

/* A filter has as many stripes as were asked for; in a counting Bloom filter each has a cache line
 * of its own.  A Bloom filter has none. */
TEST(stripes_are_as_many_as_asked_for)
{
  assert_int_equal(bytes_with(TAMIS_BLOOM, 3000), bytes_with(TAMIS_BLOOM, 2));
  uint64_t few = bytes_with(TAMIS_COUNTING_BLOOM, 2); /* and 3000 are a power of two */
  assert_int_equal(bytes_with(TAMIS_COUNTING_BLOOM, 3000) - few, (4096 - 2) * 64);
  assert_true(bytes_with(TAMIS_CUCKOO, 3000) > bytes_with(TAMIS_CUCKOO, 2));
}

/* A sanitizer's allocator takes more address space, and touches what it hands out. */
#ifndef TAMIS_SLOW
TEST(more_memory_than_there_is)
{
  tamis_options o = TAMIS_OPTIONS_INIT;
  o.capacity = UINT64_C(1) << 42; /* about 5 TB */
  tamis_filter *f;
  struct rlimit before, small;
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  small = before;
  small.rlim_cur = UINT64_C(1) << 40;
  assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
  assert_int_equal(tamis_create(&o, &f), TAMIS_ENOMEM);
  assert_null(f);
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

TEST(filters_of_several_gigabytes_are_whole)
{
  if (!is_long())
    skip();
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_options o = options_of(form);
    if (form->options.window || form->options.kind == TAMIS_COUNTING_BLOOM)
      continue;
    o.capacity = UINT64_C(1300000000);
    const uint64_t bytes = planned_bytes(&o);
    if (bytes < UINT64_C(1) << 32)
      continue;
    tamis_filter *f = NULL;
    o.max_bytes = bytes & UINT32_MAX;
    assert_int_equal(tamis_create(&o, &f), TAMIS_EFULL);
    o.max_bytes = bytes;
    f = make_with_options(&o);
    for (uint64_t i = 0; i < 20; i++) {
      assert_int_equal(tamis_add_unique_hash(f, i), TAMIS_OK);
      assert_true(tamis_contains_hash(f, i));
    }
    tamis_stats s = stats_of(f);
    assert_int_equal(s.count, 20);
    assert_true(form->removes || (s.bytes == bytes && s.bits > UINT64_C(1) << 32));
    remove_range(f, 0, form->removes ? 20 : 0);
    tamis_destroy(f);
  }
}

static void *pages_of(size_t size)
{
  void *pages =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(pages != MAP_FAILED);
  return pages;
}

/* The bytes beyond the first 2^32 count, and so does their number; and a batch has more than 2^32
 * keys. */
TEST(keys_and_batches_are_longer_than_2_to_32)
{
  enum { TAIL = 8192 };
  if (!is_long())
    skip();
  const size_t four_gigabytes = (size_t) 1 << 32, size = four_gigabytes + TAIL;
  unsigned char *key = pages_of(8 * size);
  tamis_filter *f = create_form(next_form(NULL));
  uint64_t whole = tamis_hash(f, key, size);
  assert_int_not_equal(whole, tamis_hash(f, key, TAIL));
  assert_int_not_equal(whole, tamis_hash(f, key, size - 1));
  key[four_gigabytes + 5000] = 1;
  assert_int_not_equal(whole, tamis_hash(f, key, size));
  assert_int_equal(tamis_add(f, key, size), TAMIS_OK);
  assert_true(tamis_contains(f, key, size));
  assert_false(tamis_contains_hash(f, whole));
  tamis_destroy(f);
  key[four_gigabytes + 5000] = 0;
  const uint64_t *zeroes = (const uint64_t *) (const void *) key;
  for (const struct form *form = NULL; (form = next_form(form));) {
    f = create_form(form);
    assert_int_equal(tamis_add_hash(f, 0), TAMIS_OK);
    assert_true(tamis_contains_many_hash(f, zeroes, four_gigabytes + 3, NULL) ==
                four_gigabytes + 3);
    tamis_destroy(f);
  }
  munmap(key, 8 * size);
}
#endif

/* ---- keys ---- */

/* An invalid key is not the empty one. */
TEST(any_bytes_and_any_hash_are_keys)
{
  const uint64_t hashes[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63};
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_filter *f = create_form(form);
    for (unsigned i = 0; i < 4; i++) {
      assert_int_equal(tamis_count_hash(f, hashes[i]), 0);
      assert_int_equal(tamis_add_unique_hash(f, hashes[i]), TAMIS_OK);
      assert_true(tamis_contains_hash(f, hashes[i]));
      assert_int_equal(tamis_count_hash(f, hashes[i]), 1);
    }
    assert_false(tamis_contains(f, NULL, 0));
    assert_int_equal(tamis_count(f, NULL, 0), 0);
    assert_int_equal(tamis_add_unique(f, NULL, 0), TAMIS_OK);
    assert_int_equal(tamis_add_unique(f, "", 0), TAMIS_PRESENT);
    assert_true(tamis_contains(f, "anything", 0));
    assert_false(tamis_contains(f, "\0", 1));
    const tamis_key keys[] = {{NULL, 0}, {NULL, 1}, {"", 0}};
    bool found[3];
    uint64_t counts[3];
    assert_int_equal(tamis_contains_many(f, keys, 3, found), 2);
    assert_true(found[0] && !found[1] && found[2]);
    assert_int_equal(tamis_count_many(f, keys, 3, counts), 2);
    assert_true(counts[0] == 1 && counts[1] == 0 && counts[2] == 1);
    if (form->removes) {
      assert_int_equal(tamis_remove(f, NULL, 0), TAMIS_OK);
      assert_int_equal(tamis_remove(f, NULL, 0), TAMIS_ABSENT);
    }
    assert_int_equal(tamis_add(f, "a\0b", 3), TAMIS_OK);
    assert_true(tamis_contains(f, "a\0b", 3));
    assert_false(tamis_contains(f, "a\0c", 3) || tamis_contains(f, "a", 1));
    uint64_t hash = tamis_hash(f, "a\0b", 3); /* a call by key is the call by its hash */
    assert_int_equal(tamis_add_unique_hash(f, hash), TAMIS_PRESENT);
    assert_true(tamis_count(f, "a\0b", 3) == 1 && tamis_count_hash(f, hash) == 1);
    if (form->removes)
      assert_int_equal(tamis_remove_hash(f, hash), TAMIS_OK);
    assert_int_equal(tamis_contains(f, "a\0b", 3), !form->removes);
    tamis_destroy(f);
  }
}

TEST(a_filter_that_removes_holds_each_copy)
{
  for (const struct form *form = NULL; (form = next_form(form));) {
    const unsigned most = form->options.kind == TAMIS_COUNTING_BLOOM ? 14 : 40;
    tamis_filter *f = create_form(form);
    for (unsigned n = 1; n <= most; n++) {
      assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
      assert_int_equal(stats_of(f).count, form->removes ? n : 1);
      assert_int_equal(tamis_count_hash(f, 7), form->removes ? n : 1);
    }
    for (unsigned n = most; n > 0 && form->removes; n--) {
      assert_true(tamis_contains_hash(f, 7));
      assert_int_equal(tamis_remove_hash(f, 7), TAMIS_OK);
      assert_int_equal(stats_of(f).count, n - 1);
    }
    for (uint64_t key = 7; key < 9; key++)
      assert_int_equal(tamis_remove_hash(f, key),
                       form->removes ? TAMIS_ABSENT : TAMIS_EUNSUPPORTED);
    assert_int_equal(tamis_contains_hash(f, 7), !form->removes);
    assert_int_equal(tamis_advance(f), form->options.window ? TAMIS_OK : TAMIS_EUNSUPPORTED);
    tamis_destroy(f);
  }
}

static uint64_t hash_of_first_byte(void *context, const void *key, size_t len, uint64_t seed)
{
  assert_non_null(key);
  ++*(unsigned *) context;
  return seed + (len ? *(const unsigned char *) key : 1000);
}

TEST(a_users_hash_gets_context_and_seed)
{
  for (const struct form *form = NULL; (form = next_form(form));) {
    unsigned calls = 0;
    tamis_options o = options_of(form);
    o.hash = hash_of_first_byte;
    o.hash_context = &calls;
    tamis_filter *f = make_with_options(&o);
    assert_int_equal(tamis_add(f, "ab", 2), TAMIS_OK);
    assert_true(tamis_contains(f, "ac", 2));
    assert_int_equal(tamis_hash(f, NULL, 0), 42 + 1000);
    tamis_key keys[] = {{NULL, 0}, {"b", 1}};
    assert_int_equal(tamis_add_unique_many(f, keys, 2, NULL), TAMIS_OK);
    assert_int_equal(tamis_contains_many(f, keys, 2, NULL), 2);
    assert_int_equal(calls, 3 + 2 + 2);
    /* A hash of the caller's own is not hashed again. */
    assert_int_equal(tamis_count(f, "az", 2), 1);
    assert_int_equal(tamis_count_many(f, keys, 2, NULL), 2);
    assert_int_equal(calls, 7 + 1 + 2);
    assert_int_equal(tamis_count_hash(f, tamis_hash(f, "a", 1)), 1);
    assert_int_equal(tamis_count_hash(f, 42 + 'a'), 1);
    assert_int_equal(calls, 10 + 1);
    tamis_destroy(f);
  }
}

TEST(null_arguments_are_refused)
{
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.01), *none = NULL;
  const tamis_key keys[] = {{"a", 1}, {NULL, 1}};
  const uint64_t hashes[] = {1, 2};
  bool found[] = {true, true};
  int results[] = {77, 77};
  uint64_t counts[] = {77, 77}, bytes;
  tamis_options o = TAMIS_OPTIONS_INIT;
  tamis_stats stats = {.struct_size = sizeof stats, .capacity = 12};
  double fpp;
  tamis_destroy(NULL);
  for (unsigned i = 0; i < 2; i++) { /* no filter; an invalid key */
    tamis_filter *g = i ? f : NULL;
    const char *key = i ? NULL : "k";
    assert_int_equal(tamis_add(g, key, 1), TAMIS_EINVAL);
    assert_int_equal(tamis_add_unique(g, key, 1), TAMIS_EINVAL);
    assert_int_equal(tamis_remove(g, key, 1), TAMIS_EINVAL);
    assert_false(tamis_contains(g, key, 1));
    assert_int_equal(tamis_count(g, key, 1) + tamis_hash(g, key, 1), 0);
    /* no filter; no keys */
    const tamis_key *list = i ? NULL : keys;
    const uint64_t *of_hashes = i ? NULL : hashes;
    assert_int_equal(tamis_contains_many(g, list, 1, found), 0);
    assert_int_equal(tamis_contains_many_hash(g, of_hashes, 1, found), 0);
    assert_int_equal(tamis_count_many(g, list, 1, counts), 0);
    assert_int_equal(tamis_count_many_hash(g, of_hashes, 1, counts), 0);
    assert_int_equal(tamis_add_many(g, list, 1, results), TAMIS_EINVAL);
    assert_int_equal(tamis_add_unique_many(g, list, 1, results), TAMIS_EINVAL);
    assert_int_equal(tamis_add_many_hash(g, of_hashes, 1, results), TAMIS_EINVAL);
    assert_int_equal(tamis_add_unique_many_hash(g, of_hashes, 1, results), TAMIS_EINVAL);
    assert_int_equal(tamis_get_stats(i ? f : NULL, i ? NULL : &stats), TAMIS_EINVAL);
  }
  assert_int_equal(tamis_add_hash(none, 1), TAMIS_EINVAL);
  assert_int_equal(tamis_add_unique_hash(none, 1), TAMIS_EINVAL);
  assert_int_equal(tamis_remove_hash(none, 1), TAMIS_EINVAL);
  assert_int_equal(tamis_advance(none), TAMIS_EINVAL);
  for (unsigned i = 0; i < 2; i++) { /* no filter; no window */
    const int expected = i ? TAMIS_EUNSUPPORTED : TAMIS_EINVAL;
    assert_int_equal(tamis_advance_to(i ? f : NULL, 0), expected);
    assert_int_equal(tamis_set_period(i ? f : NULL, 0), expected);
  }
  assert_false(tamis_contains_hash(none, 1) || tamis_count_hash(none, 1));
  /* Of a batch with one bad key not even the good one is added. */
  assert_int_equal(tamis_add_many(f, keys, 2, results), TAMIS_EINVAL);
  assert_int_equal(tamis_add_unique_many(f, keys, 2, results), TAMIS_EINVAL);
  assert_int_equal(stats_of(f).bits_set, 0);
  /* No keys are none, wherever they would be. */
  assert_int_equal(tamis_add_many(f, NULL, 0, NULL), TAMIS_OK);
  assert_int_equal(tamis_add_unique_many_hash(f, NULL, 0, NULL), TAMIS_OK);
  assert_int_equal(tamis_contains_many(f, NULL, 0, NULL), 0);
  assert_int_equal(tamis_count_many(f, NULL, 0, counts), 0);
  assert_int_equal(tamis_count_many_hash(f, hashes, 0, NULL), 0);
  assert_true(counts[0] == 77 && counts[1] == 77 && results[0] == 77 && stats.capacity == 12);
  assert_int_equal(tamis_add(f, "a", 1), TAMIS_OK);
  assert_int_equal(tamis_contains_many(f, keys, 2, NULL), 1);
  o.capacity = 1000;
  assert_int_equal(tamis_create(&o, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_bytes_for(&o, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_bytes_for(NULL, &bytes), TAMIS_EINVAL);
  assert_int_equal(tamis_fpp_for(&o, 100000, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_fpp_for(NULL, 100000, &fpp), TAMIS_EINVAL);
  tamis_destroy(f);
}

/* ---- memory ---- */

TEST(the_allocator_struct_is_copied)
{
  for (const struct form *form = NULL; (form = next_form(form));) {
    struct bank bank = {0};
    tamis_options o = form->options;
    o.capacity = 100, o.fpp = 0.03; /* for two generations */
    o.allocator = allocator_of(&bank);
    tamis_filter *f = make_with_options(&o);
    memset(&bank.allocator, 0, sizeof bank.allocator);
    memset(&o, 0xEE, sizeof o);
    for (uint64_t i = 0; i < 20000; i++)
      (void) tamis_add_hash(f, i);
    uint64_t bytes = stats_of(f).bytes; /* may release some */
    assert_int_equal(bank.bytes, bytes);
    tamis_destroy(f);
    assert_int_equal(bank.bytes, 0);
  }
}

/* ---- memory that comes cleared ---- */

enum { LARGE = 20000 };

/* The large block that was allocated last has a mark in its midst: who clears the block wipes that out. */
static void *allocate_marked(void *mark, size_t alignment, size_t size)
{
  unsigned char *block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  memset(block, size < LARGE ? 0x5A : 0, size);
  if (size >= LARGE)
    *(*(unsigned char **) mark = block + size / 2) = 1;
  return block;
}

/* Adds keys until there is a large block, if there is none, and says whether that was left as it came. */
static bool was_left_alone(tamis_filter *f, unsigned char **mark)
{
  for (uint64_t key = 0; !*mark; key++)
    assert_true(tamis_add_hash(f, key) >= 0);
  const bool left = **mark & 1;
  **mark &= 0xFE; /* which it has to be for what follows */
  *mark = NULL;
  return left;
}

/* The words of a filter, and of a layer that is opened later, also by a filter that was loaded.  (A cuckoo filter
 * has none that are so large: cuckoo/test_generation.c.) */
TEST(blocks_may_come_cleared)
{
  const size_t sizes[] = {0, LARGE, ((size_t) 1 << 32) + 1};
  unsigned char *mark = NULL;
  const tamis_allocator allocator = {allocate_marked, free_block, &mark};
  for (const struct form *form = NULL; (form = next_form(form));)
    for (unsigned i = 0; i < 3; i++) {
      tamis_options o = form->options;
      tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
      o.capacity = 30000, o.allocator = load.allocator = &allocator;
      o.cleared_from = load.cleared_from = sizes[i];
      if (o.kind == TAMIS_CUCKOO && !o.window)
        continue;
      tamis_filter *f = make_with_options(&o), *again;
      assert_int_equal(was_left_alone(f, &mark), i == 1);
      struct bytes saved = saved_bytes(f);
      assert_int_equal(load_from(&saved, &load, &again), TAMIS_OK);
      mark = NULL;
      if (o.growable && o.kind != TAMIS_COUNTING_BLOOM) {
        assert_int_equal(was_left_alone(f, &mark), i == 1);
        assert_int_equal(was_left_alone(again, &mark), i == 1);
      }
      free(saved.data);
      tamis_destroy(f), tamis_destroy(again);
    }
}

/* Without an allocator the size says nothing: malloc() gives memory back that was in use. */
TEST(blocks_of_malloc_are_cleared)
{
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_options o = form->options;
    tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
    void *used[16];
    o.capacity = 20000, o.cleared_from = load.cleared_from = 1;
    for (unsigned i = 0; i < 16; i++) { /* also of the size of a cuckoo filter's segments */
      const size_t size = i % 2 ? 40000 : planned_bytes(&o);
      assert_int_equal(posix_memalign(&used[i], 64, size), 0);
      memset(used[i], 0xFF, size);
    }
    for (unsigned i = 0; i < 16; i++)
      free(used[i]);
    tamis_filter *f = make_with_options(&o), *again;
    struct bytes saved = saved_bytes(f);
    assert_int_equal(load_from(&saved, &load, &again), TAMIS_OK);
    tamis_filter *both[] = {f, again};
    for (unsigned i = 0; i < 2; i++) {
      const tamis_stats stats = stats_of(both[i]);
      assert_true(stats.count == 0 && stats.bits_set == 0 && stats.occupancy <= 0);
      assert_valid(both[i]);
      tamis_destroy(both[i]);
    }
    free(saved.data);
  }
}

/* ---- every bit of a seed ---- */

static tamis_filter *make(const struct form *form, uint64_t seed)
{
  tamis_options o = form->options;
  o.seed = seed;
  return make_with_options(&o);
}

/* XXH3 has a way of its own for each range of lengths, and here there is one for long keys. */
static const size_t lengths[] = {0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1000};
enum { LENGTHS = sizeof lengths / sizeof *lengths, KEYS = 96, BYTES = 1000 + KEYS };

static const unsigned char *bytes_of_keys(void)
{
  static unsigned char bytes[BYTES];
  for (size_t i = 0; i < BYTES; i++)
    bytes[i] = (unsigned char) (random_at(3, i) & 0xFF);
  return bytes;
}

/* Key number i: bytes from i on, so that no two are equal, but for the empty one. */
static tamis_key key_at(size_t i)
{
  return (tamis_key){bytes_of_keys() + i, lengths[i % LENGTHS]};
}

static tamis_filter *loaded(const struct bytes *saved, uint64_t seed)
{
  tamis_filter *f;
  assert_int_equal(info_of(saved).seed, seed);
  assert_int_equal(load_from(saved, NULL, &f), TAMIS_OK);
  assert_int_equal(stats_of(f).seed, seed);
  return f;
}

/* Filters whose seeds differ have unlike hashes and places, and do not go together. */
static void assert_unlike(const struct form *form, tamis_filter *f, tamis_filter *other)
{
  unsigned hits = 0;
  tamis_filter *both = NULL;
  tamis_similarity_stats similarity = TAMIS_SIMILARITY_STATS_INIT;
  for (size_t i = 0; i < KEYS; i++) {
    tamis_key key = key_at(i);
    uint64_t hash = tamis_hash(f, key.data, key.len);
    if (hash == tamis_hash(other, key.data, key.len))
      fail_msg("%s: a key of %zu bytes has one hash with two seeds", form->name, key.len);
    hits += tamis_contains_hash(other, hash); /* what the hash is mixed with differs, too */
  }
  assert_in_range(hits, 0, KEYS / 8);
  assert_int_equal(tamis_merge(f, other), TAMIS_EINVAL);
  assert_int_equal(tamis_merge(other, f), TAMIS_EINVAL);
  assert_true(tamis_intersect(f, other, &both) < 0 && !both);
  assert_true(tamis_similarity(f, other, &similarity) < 0);
}

static void assert_options(const tamis_filter *f, const tamis_options *wanted)
{
  tamis_options got = TAMIS_OPTIONS_INIT;
  assert_int_equal(tamis_get_options(f, &got), TAMIS_OK);
  assert_int_equal(got.struct_size, sizeof got);
  assert_int_equal(got.kind, wanted->kind);
  assert_int_equal(got.capacity, wanted->capacity);
  assert_true(got.fpp == wanted->fpp && got.growable == wanted->growable);
  assert_int_equal(got.max_bytes, wanted->max_bytes);
  assert_int_equal(got.seed, stats_of(f).seed);
  assert_int_equal(got.layout, wanted->layout);
  assert_int_equal(got.stripes, wanted->stripes);
  assert_true(got.window == wanted->window && got.window_renews == wanted->window_renews);
  assert_true(got.hash == wanted->hash && got.hash_context == wanted->hash_context);
  assert_true(!got.allocator == !wanted->allocator);
  assert_int_equal(got.cleared_from, wanted->cleared_from);
}

/* An empty filter that fits can be made of them, also of those of a filter that was loaded. */
TEST(a_filter_says_its_options)
{
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_options options = options_of(form), got = TAMIS_OPTIONS_INIT;
    tamis_filter *f = create_form(form), *like, *again;
    assert_options(f, &options);
    assert_int_equal(tamis_get_options(f, &got), TAMIS_OK);
    like = make_with_options(&got);
    assert_int_equal(tamis_merge(like, f), TAMIS_OK);
    assert_int_equal(stats_of(like).count, 0);
    struct bytes saved = saved_bytes(f);
    tamis_load_options load = TAMIS_LOAD_OPTIONS_INIT;
    load.hash = options.hash;
    load.hash_context = options.hash_context;
    assert_int_equal(load_from(&saved, &load, &again), TAMIS_OK);
    options.allocator = NULL;
    options.cleared_from = 0;
    assert_options(again, &options);
    got.struct_size = offsetof(tamis_options, access); /* smaller than any version's */
    got.capacity = 7;
    assert_int_equal(tamis_get_options(again, &got), TAMIS_EINVAL);
    assert_int_equal(tamis_get_options(again, NULL), TAMIS_EINVAL);
    assert_int_equal(tamis_get_options(NULL, &got), TAMIS_EINVAL);
    assert_int_equal(got.capacity, 7);
    tamis_destroy(f), tamis_destroy(like), tamis_destroy(again);
    free(saved.data);
  }
}

static tamis_filter *filled(const struct form *form, uint64_t seed)
{
  tamis_filter *f = make(form, seed);
  tamis_key keys[KEYS];
  for (size_t i = 0; i < KEYS; i++)
    keys[i] = key_at(i);
  assert_int_equal(tamis_add_unique_many(f, keys, KEYS, NULL), TAMIS_OK);
  return f;
}

TEST(every_bit_of_a_seed)
{
  const uint64_t seed = UINT64_C(0x5DEECE66D2B89A71);
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_filter *f = filled(form, seed);
    for (unsigned bit = 0; bit<64; bit += SCALE> 1 ? 7 : 1) {
      uint64_t other_seed = seed ^ UINT64_C(1) << bit;
      tamis_filter *other = filled(form, other_seed), *empty = make(form, other_seed);
      assert_unlike(form, f, other);
      struct bytes saved = saved_bytes(other);
      tamis_filter *same = loaded(&saved, other_seed);
      for (size_t i = 0; i < KEYS; i++) {
        tamis_key key = key_at(i);
        assert_true(tamis_contains(same, key.data, key.len));
        assert_int_equal(tamis_hash(same, key.data, key.len), tamis_hash(other, key.data, key.len));
      }
      assert_unlike(form, f, same);
      assert_int_equal(tamis_merge(empty, same), TAMIS_OK);
      free(saved.data);
      tamis_destroy(other), tamis_destroy(same), tamis_destroy(empty);
    }
    tamis_destroy(f);
  }
}

static uint64_t hash_without_seed(void *context, const void *key, size_t len, uint64_t seed)
{
  (void) key;
  *(uint64_t *) context = seed;
  return len;
}

/* It gets every bit of the seed; and whatever it makes of that, the seed says what its hashes are
 * mixed with. */
TEST(seeds_that_a_users_hash_ignores_are_compared)
{
  for (unsigned bit = 0; bit < 64; bit++) {
    tamis_options o = seeded_options(TAMIS_BLOOM, 10, 0.01, true);
    tamis_filter *f, *other;
    uint64_t got = 0;
    o.seed = UINT64_C(0x5DEECE66D2B89A71);
    o.hash = hash_without_seed, o.hash_context = &got;
    f = make_with_options(&o);
    o.seed ^= UINT64_C(1) << bit;
    other = make_with_options(&o);
    (void) tamis_hash(other, "key", 3);
    assert_int_equal(got, o.seed);
    const tamis_key keys[] = {{"key", 3}};
    got = 0, (void) tamis_contains_many(other, keys, 1, NULL);
    assert_int_equal(got, o.seed);
    assert_int_equal(stats_of(other).seed, o.seed);
    assert_int_equal(tamis_merge(f, other), TAMIS_EINVAL);
    tamis_destroy(f), tamis_destroy(other);
  }
}

TEST(seeds_are_fresh_unless_given)
{
  for (const struct form *form = NULL; (form = next_form(form));) {
    tamis_filter *a = make(form, 0), *b = make(form, 0);
    assert_int_not_equal(stats_of(a).seed, 0);
    assert_int_not_equal(stats_of(a).seed, stats_of(b).seed);
    tamis_destroy(a), tamis_destroy(b);
  }
}
