/* SPDX-License-Identifier: MIT
 *
 * The public functions as a careless caller uses them.
 */
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static tamis_options good_options(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000;
  return options;
}

static void *no_memory(void *context, size_t alignment, size_t size)
{
  (void) context, (void) alignment, (void) size;
  return NULL;
}

static void no_release(void *context, void *block, size_t alignment, size_t size)
{
  (void) context, (void) block, (void) alignment, (void) size;
}

static void assert_create_fails(const tamis_options *options, int result)
{
  tamis_filter *f = (tamis_filter *) options; /* anything but NULL */
  assert_int_equal(tamis_create(options, &f), result);
  assert_null(f);
  uint64_t bytes = 7;
  double fpp = 7;
  if (result == TAMIS_EINVAL || result == TAMIS_EUNSUPPORTED)
    assert_int_equal(tamis_bytes_for(options, &bytes), result);
  assert_true(result == TAMIS_EFULL || result == TAMIS_ENOMEM || bytes == 7);
  (void) tamis_fpp_for(options, 1000000, &fpp);
}

static void bad_options_are_refused(void **state)
{
  (void) state;
  tamis_options o;
  assert_create_fails(NULL, TAMIS_EINVAL);
  o = good_options();
  assert_int_equal(tamis_create(&o, NULL), TAMIS_EINVAL);

#define REFUSED(result, ...)         \
  do {                               \
    o = good_options();              \
    __VA_ARGS__;                     \
    assert_create_fails(&o, result); \
  } while (0)
  REFUSED(TAMIS_EINVAL, o.struct_size = 0);
  REFUSED(TAMIS_EINVAL, o.struct_size = sizeof o - 1);
  REFUSED(TAMIS_EINVAL, o.struct_size = 8);
  REFUSED(TAMIS_EINVAL, o.struct_size = SIZE_MAX);
  REFUSED(TAMIS_EINVAL, o.kind = (tamis_kind) 0);
  REFUSED(TAMIS_EINVAL, o.kind = (tamis_kind) 99);
  REFUSED(TAMIS_EINVAL, o.layout = (tamis_layout) 3);
  REFUSED(TAMIS_EINVAL, o.capacity = 0);
  REFUSED(TAMIS_EINVAL, o.capacity = UINT64_MAX);
  REFUSED(TAMIS_EINVAL, o.capacity = UINT64_C(1) << 60);
  REFUSED(TAMIS_EINVAL, o.fpp = 0);
  REFUSED(TAMIS_EINVAL, o.fpp = 1);
  REFUSED(TAMIS_EINVAL, o.fpp = -0.01);
  REFUSED(TAMIS_EINVAL, o.fpp = 1.5);
  REFUSED(TAMIS_EINVAL, o.fpp = (double) NAN);
  REFUSED(TAMIS_EINVAL, o.fpp = (double) INFINITY);
  REFUSED(TAMIS_EINVAL, o.stripes = 4097);
  REFUSED(TAMIS_EFULL, o.stripes = 4096, o.max_bytes = 1000); /* not for the stripes */
  REFUSED(TAMIS_EUNSUPPORTED, o.kind = TAMIS_CUCKOO, o.fpp = 1e-10);
  REFUSED(TAMIS_EUNSUPPORTED, o.kind = TAMIS_CUCKOO, o.growable = false, o.fpp = 1e-11);
  REFUSED(TAMIS_EINVAL, o.kind = TAMIS_CUCKOO, o.capacity = UINT64_C(1) << 60);
  REFUSED(TAMIS_EFULL, o.kind = TAMIS_CUCKOO, o.max_bytes = 1000);
  REFUSED(TAMIS_EUNSUPPORTED, o.fpp = 1e-18);
  REFUSED(TAMIS_EFULL, o.max_bytes = 1000);

  tamis_allocator half = {no_memory, NULL, NULL}, none = {no_memory, no_release, NULL};
  tamis_allocator other_half = {NULL, no_release, NULL};
  REFUSED(TAMIS_EINVAL, o.allocator = &half);
  REFUSED(TAMIS_EINVAL, o.allocator = &other_half);
  REFUSED(TAMIS_ENOMEM, o.allocator = &none);
#undef REFUSED
}

static void extreme_good_options_work(void **state)
{
  (void) state;
  const double rates[] = {0.999999, 0.5, 1e-15, 0};
  for (unsigned i = 0; i < 4; i++)
    for (int layout = 0; layout < 2; layout++) {
      tamis_options o = good_options();
      o.capacity = 1 + i;
      o.fpp = rates[i] > 0 ? rates[i] : 17 * 0x1p-64;
      o.layout = (tamis_layout) layout;
      o.stripes = i * 1000 + 1;
      tamis_filter *f;
      assert_int_equal(tamis_create(&o, &f), TAMIS_OK);
      assert_int_equal(tamis_add_unique(f, "k", 1), TAMIS_OK);
      assert_int_equal(tamis_add_unique(f, "k", 1), TAMIS_PRESENT);
      tamis_destroy(f);
    }
}

/* Options of a later version are longer, with fields that this library does not know. */
static void longer_options_may_only_be_zero(void **state)
{
  (void) state;
  struct {
    tamis_options known;
    uint64_t unknown;
  } later = {good_options(), 0};
  later.known.struct_size = sizeof later;
  tamis_filter *f;
  assert_int_equal(tamis_create(&later.known, &f), TAMIS_OK);
  tamis_destroy(f);
  for (unsigned bit = 0; bit < 64; bit++) {
    later.unknown = UINT64_C(1) << bit;
    assert_int_equal(tamis_create(&later.known, &f), TAMIS_EUNSUPPORTED);
  }
}

/* Figures of a later version are longer; this library leaves alone what it does not know. */
static void longer_figures_are_filled_as_far_as_known(void **state)
{
  (void) state;
  struct {
    tamis_stats known;
    uint64_t unknown[8];
  } later = {.known = TAMIS_STATS_INIT, .unknown = {7, 7, 7, 7, 7, 7, 7, 7}};
  later.known.struct_size = sizeof later;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.01);
  assert_int_equal(tamis_get_stats(f, &later.known), TAMIS_OK);
  assert_int_equal(later.known.struct_size, sizeof(tamis_stats));
  assert_int_equal(later.known.capacity, 1000);
  for (unsigned i = 0; i < 8; i++)
    assert_int_equal(later.unknown[i], 7);
  tamis_destroy(f);
}

/* A filter has as many stripes as were asked for; in a counting Bloom filter each has a cache line
 * of its own.  A Bloom filter has none. */
static void stripes_are_as_many_as_asked_for(void **state)
{
  (void) state;
  tamis_options o = good_options();
  uint64_t few, many;
  o.capacity = 1000000;
  o.stripes = 2;
  assert_int_equal(tamis_bytes_for(&o, &few), TAMIS_OK);
  o.stripes = 3000;
  assert_int_equal(tamis_bytes_for(&o, &many), TAMIS_OK);
  assert_int_equal(many, few);
  o.kind = TAMIS_COUNTING_BLOOM;
  o.stripes = 2;
  assert_int_equal(tamis_bytes_for(&o, &few), TAMIS_OK);
  o.stripes = 3000; /* a power of two */
  assert_int_equal(tamis_bytes_for(&o, &many), TAMIS_OK);
  assert_int_equal(many - few, (4096 - 2) * 64);
  o.kind = TAMIS_CUCKOO;
  assert_int_equal(tamis_bytes_for(&o, &many), TAMIS_OK);
  o.stripes = 2;
  assert_int_equal(tamis_bytes_for(&o, &few), TAMIS_OK);
  assert_true(many > few);
}

static void more_memory_than_there_is(void **state)
{
  (void) state;
  tamis_options o = good_options();
  o.capacity = UINT64_C(1) << 42; /* about 5 TB */
  tamis_filter *f;
  struct rlimit before, small;
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  small = before;
  small.rlim_cur = UINT64_C(1) << 40;
  assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
  assert_int_equal(tamis_create(&o, &f), TAMIS_ENOMEM);
  assert_null(f);
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
#else
  (void) o, (void) f, (void) small;
#endif
}

static void null_arguments_are_refused(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.01);
  tamis_key keys[2] = {{"a", 1}, {NULL, 1}};
  uint64_t hashes[2] = {1, 2};
  bool found[2] = {true, true};
  int results[2] = {77, 77};
  tamis_stats stats = TAMIS_STATS_INIT;

  tamis_destroy(NULL);
  uint64_t counts[2] = {77, 77};
  assert_int_equal(tamis_add(NULL, "k", 1), TAMIS_EINVAL);
  assert_int_equal(tamis_add(f, NULL, 1), TAMIS_EINVAL);
  assert_int_equal(tamis_add_hash(NULL, 1), TAMIS_EINVAL);
  assert_int_equal(tamis_add_unique(NULL, "k", 1), TAMIS_EINVAL);
  assert_int_equal(tamis_add_unique(f, NULL, 1), TAMIS_EINVAL);
  assert_int_equal(tamis_add_unique_hash(NULL, 1), TAMIS_EINVAL);
  assert_false(tamis_contains(NULL, "k", 1));
  assert_false(tamis_contains(f, NULL, 1));
  assert_false(tamis_contains_hash(NULL, 1));
  assert_int_equal(tamis_count(NULL, "k", 1), 0);
  assert_int_equal(tamis_count(f, NULL, 1), 0);
  assert_int_equal(tamis_count_hash(NULL, 1), 0);
  assert_int_equal(tamis_remove(NULL, "k", 1), TAMIS_EINVAL);
  assert_int_equal(tamis_remove(f, NULL, 1), TAMIS_EINVAL);
  assert_int_equal(tamis_remove_hash(NULL, 1), TAMIS_EINVAL);
  assert_int_equal(tamis_hash(NULL, "k", 1), 0);
  assert_int_equal(tamis_hash(f, NULL, 1), 0);

  assert_int_equal(tamis_contains_many(NULL, keys, 1, found), 0);
  assert_int_equal(tamis_contains_many(f, NULL, 1, found), 0);
  assert_int_equal(tamis_contains_many_hash(NULL, hashes, 1, found), 0);
  assert_int_equal(tamis_contains_many_hash(f, NULL, 1, found), 0);
  assert_int_equal(tamis_count_many(NULL, keys, 1, counts), 0);
  assert_int_equal(tamis_count_many(f, NULL, 1, counts), 0);
  assert_int_equal(tamis_count_many_hash(NULL, hashes, 1, counts), 0);
  assert_int_equal(tamis_count_many_hash(f, NULL, 1, counts), 0);
  assert_int_equal(tamis_count_many(f, NULL, 0, NULL), 0);
  assert_int_equal(tamis_count_many(f, NULL, 0, counts), 0);
  assert_int_equal(tamis_count_many(f, keys, 0, counts), 0);
  assert_int_equal(tamis_count_many_hash(f, NULL, 0, counts), 0);
  assert_int_equal(tamis_count_many_hash(f, hashes, 0, NULL), 0);
  assert_true(counts[0] == 77 && counts[1] == 77);
  assert_int_equal(tamis_add_many(NULL, keys, 1, results), TAMIS_EINVAL);
  assert_int_equal(tamis_add_many(f, NULL, 1, results), TAMIS_EINVAL);
  assert_int_equal(tamis_add_many(f, keys, 2, results), TAMIS_EINVAL);
  assert_int_equal(tamis_add_unique_many(f, keys, 2, results), TAMIS_EINVAL);
  assert_int_equal(tamis_add_many_hash(f, NULL, 1, results), TAMIS_EINVAL);
  assert_int_equal(tamis_add_unique_many_hash(NULL, hashes, 1, results), TAMIS_EINVAL);
  assert_int_equal(results[0], 77);
  assert_int_equal(stats_of(f).bits_set, 0); /* not even the good key of the bad batch */

  assert_int_equal(tamis_get_stats(NULL, &stats), TAMIS_EINVAL);
  assert_int_equal(tamis_get_stats(f, NULL), TAMIS_EINVAL);
  stats.struct_size = 3;
  stats.capacity = 12;
  assert_int_equal(tamis_get_stats(f, &stats), TAMIS_EINVAL);
  assert_int_equal(stats.capacity, 12);

  assert_int_equal(tamis_add(f, "a", 1), TAMIS_OK);
  assert_int_equal(tamis_contains_many(f, keys, 2, found), 1);
  assert_int_equal(tamis_contains_many(f, keys, 2, NULL), 1);
  assert_true(found[0] && !found[1]);

  assert_int_equal(tamis_add_many(f, NULL, 0, NULL), TAMIS_OK);
  assert_int_equal(tamis_add_unique_many_hash(f, NULL, 0, NULL), TAMIS_OK);
  assert_int_equal(tamis_contains_many(f, NULL, 0, NULL), 0);
  tamis_destroy(f);
}

static void the_empty_key_is_a_key(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 1e-6);
  assert_false(tamis_contains(f, NULL, 0));
  assert_int_equal(tamis_add_unique(f, NULL, 0), TAMIS_OK);
  assert_int_equal(tamis_add_unique(f, "", 0), TAMIS_PRESENT);
  assert_true(tamis_contains(f, "anything", 0));
  assert_false(tamis_contains(f, "\0", 1));
  tamis_destroy(f);
}

static void keys_are_bytes(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 1e-6);
  assert_int_equal(tamis_add(f, "a\0b", 3), TAMIS_OK);
  assert_true(tamis_contains(f, "a\0b", 3));
  assert_false(tamis_contains(f, "a\0c", 3));
  assert_false(tamis_contains(f, "a", 1));
  char *long_key = calloc(1, 10000000);
  assert_non_null(long_key);
  assert_int_equal(tamis_add(f, long_key, 10000000), TAMIS_OK);
  assert_true(tamis_contains(f, long_key, 10000000));
  long_key[9999999] = 1;
  assert_false(tamis_contains(f, long_key, 10000000));
  free(long_key);
  tamis_destroy(f);
}

static void a_key_is_its_hash(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 1e-6);
  assert_int_equal(tamis_add(f, "key", 3), TAMIS_OK);
  assert_true(tamis_contains_hash(f, tamis_hash(f, "key", 3)));
  assert_int_equal(tamis_add_unique_hash(f, tamis_hash(f, "key", 3)), TAMIS_PRESENT);
  assert_int_equal(tamis_add_hash(f, tamis_hash(f, "other", 5)), TAMIS_OK);
  assert_true(tamis_contains(f, "other", 5));
  tamis_filter *same_seed = make_filter(TAMIS_LAYOUT_CLASSIC, 10, 0.5);
  assert_int_equal(tamis_hash(f, "key", 3), tamis_hash(same_seed, "key", 3));
  tamis_destroy(same_seed);
  tamis_destroy(f);
}

/* A filter without a seed gets a fresh one each time; with one it is the same filter again. */
static void seeds(void **state)
{
  (void) state;
  tamis_options o = good_options();
  tamis_filter *a, *b;
  assert_int_equal(tamis_create(&o, &a), TAMIS_OK);
  assert_int_equal(tamis_create(&o, &b), TAMIS_OK);
  assert_int_not_equal(stats_of(a).seed, 0);
  assert_int_not_equal(stats_of(a).seed, stats_of(b).seed);
  assert_int_not_equal(tamis_hash(a, "key", 3), tamis_hash(b, "key", 3));
  tamis_destroy(b);
  o.seed = stats_of(a).seed;
  assert_int_equal(tamis_create(&o, &b), TAMIS_OK);
  assert_int_equal(tamis_hash(a, "key", 3), tamis_hash(b, "key", 3));
  tamis_destroy(a);
  tamis_destroy(b);
}

static uint64_t length_hash(void *context, const void *key, size_t len, uint64_t seed)
{
  assert_non_null(key);
  ++*(unsigned *) context;
  return len + seed;
}

static void a_users_hash_is_used(void **state)
{
  (void) state;
  unsigned calls = 0;
  tamis_options o = good_options();
  o.seed = 1000;
  o.hash = length_hash;
  o.hash_context = &calls;
  tamis_filter *f;
  assert_int_equal(tamis_create(&o, &f), TAMIS_OK);
  assert_int_equal(tamis_hash(f, "abc", 3), 1003);
  assert_int_equal(tamis_add(f, "abc", 3), TAMIS_OK);
  assert_true(tamis_contains(f, "xyz", 3)); /* same length, same key */
  assert_int_equal(calls, 3);
  /* an empty key is one of no bytes, not NULL */
  assert_int_equal(tamis_hash(f, NULL, 0), 1000);
  assert_int_equal(tamis_add(f, NULL, 0), TAMIS_OK);
  assert_true(tamis_contains(f, "", 0));
  tamis_destroy(f);
}

static void a_bloom_filter_cannot_remove(void **state)
{
  (void) state;
  tamis_filter *f = make_filter(TAMIS_LAYOUT_BLOCKED, 1000, 0.01);
  tamis_add(f, "k", 1);
  assert_int_equal(tamis_remove(f, "k", 1), TAMIS_EUNSUPPORTED);
  assert_int_equal(tamis_remove_hash(f, 1), TAMIS_EUNSUPPORTED);
  assert_true(tamis_contains(f, "k", 1));
  tamis_destroy(f);
}

static void sizes_are_told_beforehand(void **state)
{
  (void) state;
  const uint64_t capacities[] = {1, 1000, 12345678};
  for (unsigned c = 0; c < 3; c++)
    for (int layout = 0; layout < 3; layout++) {
      tamis_options o = good_options();
      o.layout = (tamis_layout) layout;
      o.capacity = capacities[c];
      o.fpp = 0.003;
      uint64_t bytes;
      assert_int_equal(tamis_bytes_for(&o, NULL), TAMIS_EINVAL);
      assert_int_equal(tamis_bytes_for(&o, &bytes), TAMIS_OK);
      tamis_filter *f;
      o.max_bytes = bytes;
      assert_int_equal(tamis_create(&o, &f), TAMIS_OK);
      assert_int_equal(stats_of(f).bytes, bytes);
      tamis_destroy(f);
      o.max_bytes = bytes - 1;
      assert_int_equal(tamis_create(&o, &f), TAMIS_EFULL);

      /* and in reverse: the rate that these bytes buy fits, a lower one does not */
      double fpp;
      o.max_bytes = 0;
      assert_int_equal(tamis_fpp_for(&o, bytes, &fpp), TAMIS_OK);
      assert_true(fpp <= 0.003 * 1.01);
      uint64_t bytes_again;
      o.fpp = fpp;
      assert_int_equal(tamis_bytes_for(&o, &bytes_again), TAMIS_OK);
      assert_true(bytes_again <= bytes);
      o.fpp = fpp / 1.03;
      int result = tamis_bytes_for(&o, &bytes_again);
      assert_true(result == TAMIS_EUNSUPPORTED || bytes_again > bytes || capacities[c] == 1);
    }
  /* Rates are not monotone in bytes: a key has another number of lines below some of them, and at
   * the lowest rates a first layer is planned for the whole rate instead of its share. */
  for (uint64_t capacity = 1000; capacity <= UINT64_C(1) << 33; capacity *= 100)
    for (double rate = 0.9; rate > 1e-17; rate /= rate > 1e-9 ? 3.7 : 1.3) {
      tamis_options o = good_options();
      uint64_t bytes;
      double fpp;
      o.capacity = capacity;
      o.fpp = rate;
      int result = tamis_bytes_for(&o, &bytes);
      if (result == TAMIS_EUNSUPPORTED)
        continue;
      assert_int_equal(result, TAMIS_OK);
      assert_int_equal(tamis_fpp_for(&o, bytes, &fpp), TAMIS_OK);
      assert_true(fpp <= rate * 1.01);
    }
  /* Nor are they where the shape or, in the classic layout, the number of sections changes. */
  for (unsigned layout = 0; layout < 2; layout++)
    for (double rate = 0.002; rate < 0.99; rate *= 1.003) {
      tamis_options o = good_options();
      uint64_t bytes, again;
      double fpp;
      o.layout = (tamis_layout) layout;
      o.capacity = 6673;
      o.fpp = rate;
      assert_int_equal(tamis_bytes_for(&o, &bytes), TAMIS_OK);
      assert_int_equal(tamis_fpp_for(&o, bytes, &fpp), TAMIS_OK);
      assert_true(fpp <= rate * 1.01);
      o.fpp = fpp;
      assert_int_equal(tamis_bytes_for(&o, &again), TAMIS_OK);
      assert_true(again <= bytes);
    }
  /* Too many keys for the lowest rates in any address space, but not for all. */
  tamis_options many = good_options();
  double rate;
  many.capacity = UINT64_C(1) << 45;
  assert_int_equal(tamis_fpp_for(&many, UINT64_C(1) << 47, &rate), TAMIS_OK);
  assert_true(rate > 1e-8 && rate < 0.01);
  many.capacity = UINT64_MAX;
  assert_int_equal(tamis_fpp_for(&many, UINT64_MAX, &rate), TAMIS_EINVAL);

  tamis_options o = good_options();
  double fpp = 7;
  o.fpp = (double) NAN; /* is ignored */
  assert_int_equal(tamis_fpp_for(&o, 100000, &fpp), TAMIS_OK);
  assert_true(fpp < 0.01);
  fpp = 7;
  assert_int_equal(tamis_fpp_for(&o, 10, &fpp), TAMIS_EFULL);
  assert_true(fpp == 7);
  assert_int_equal(tamis_fpp_for(&o, 100000, NULL), TAMIS_EINVAL);
  assert_int_equal(tamis_fpp_for(NULL, 100000, &fpp), TAMIS_EINVAL);
  assert_int_equal(tamis_bytes_for(&o, NULL), TAMIS_EINVAL);
}

static void results_have_names(void **state)
{
  (void) state;
  for (int result = -5; result <= 3; result++) {
    const char *text = tamis_strerror(result);
    assert_non_null(text);
    assert_true(strlen(text) > 4 && !strchr(text, '\n'));
    for (int other = -5; other < result; other++)
      assert_true(strcmp(text, tamis_strerror(other)) != 0 || (other == -5 && result == 3));
  }
  assert_string_equal(tamis_version(), "0.9.0");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_options_are_refused),
      cmocka_unit_test(extreme_good_options_work),
      cmocka_unit_test(longer_options_may_only_be_zero),
      cmocka_unit_test(longer_figures_are_filled_as_far_as_known),
      cmocka_unit_test(stripes_are_as_many_as_asked_for),
      cmocka_unit_test(more_memory_than_there_is),
      cmocka_unit_test(null_arguments_are_refused),
      cmocka_unit_test(the_empty_key_is_a_key),
      cmocka_unit_test(keys_are_bytes),
      cmocka_unit_test(a_key_is_its_hash),
      cmocka_unit_test(seeds),
      cmocka_unit_test(a_users_hash_is_used),
      cmocka_unit_test(a_bloom_filter_cannot_remove),
      cmocka_unit_test(sizes_are_told_beforehand),
      cmocka_unit_test(results_have_names),
  };
  return cmocka_run_group_tests_name("tamis", tests, NULL, NULL);
}
