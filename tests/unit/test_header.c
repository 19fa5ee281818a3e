/* SPDX-License-Identifier: MIT
 *
 * The sentences of tamis.h and of its fine print (docs/manual/details), one test for each that no
 * test of a part of the library holds.  Each is tried in every kind of filter that it speaks of.
 */
#include "unit.h"

#include "cuckoo/cuckoo.h"
#include "cuckoo/table.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- every kind ---- */

/* Those that count take no more than 14 copies of a key, and no rate below 1e-5.  Windows take none
 * below 2e-6 here. */
enum { KINDS = 6, WINDOWS = 8, CUCKOO_WINDOWS = 10, ALL_KINDS = 12, PERIODS = 4 };

static bool is_counting(unsigned kind)
{
  return kind >= KINDS && kind < WINDOWS;
}

static tamis_options options_of(unsigned kind, uint64_t capacity, double fpp)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = is_counting(kind)                                        ? TAMIS_COUNTING_BLOOM
                 : kind < 4 || (kind >= WINDOWS && kind < CUCKOO_WINDOWS) ? TAMIS_BLOOM
                                                                          : TAMIS_CUCKOO;
  options.layout = kind / 2 == 1 ? TAMIS_LAYOUT_CLASSIC : TAMIS_LAYOUT_BLOCKED;
  options.growable = kind % 2;
  options.capacity = capacity;
  options.window = kind < WINDOWS ? 0 : PERIODS;
  options.fpp = kind < KINDS ? fpp : fmax(fpp, is_counting(kind) ? 1e-5 : 2e-6);
  options.seed = 42;
  return options;
}

static tamis_filter *create(const tamis_options *options)
{
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(options, &f), TAMIS_OK);
  assert_non_null(f);
  return f;
}

static tamis_filter *create_kind(unsigned kind)
{
  tamis_options options = options_of(kind, 1000, 1e-6);
  return create(&options);
}

static bool removes(unsigned kind)
{
  return kind >= 4 && !(kind >= WINDOWS && kind < CUCKOO_WINDOWS);
}

/* ---- options ---- */

/* The word layout takes at most twice the bits of the blocked one, or is refused. */
static void a_word_filter_takes_at_most_twice_the_bits(void **state)
{
  (void) state;
  const double rates[] = {0.9, 0.3, 0.05, 0.01, 0.0025, 0.001, 3e-4, 1e-4, 1e-6, 1e-10};
  for (uint64_t capacity = 1; capacity <= 1000000; capacity *= 10)
    for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++)
      for (unsigned growable = 0; growable < 2; growable++) {
        tamis_options o = options_of(growable, capacity, rates[r]);
        tamis_filter *blocked = create(&o), *f;
        o.layout = TAMIS_LAYOUT_WORD;
        int result = tamis_create(&o, &f);
        uint64_t bytes;
        double fpp;
        assert_int_equal(tamis_bytes_for(&o, &bytes), result);
        if (result == TAMIS_OK) {
          assert_true(stats_of(f).bits <= 2 * stats_of(blocked).bits);
          assert_int_equal(stats_of(f).layout, TAMIS_LAYOUT_WORD);
          assert_int_equal(stats_of(f).bytes, bytes);
          assert_int_equal(tamis_fpp_for(&o, bytes, &fpp), TAMIS_OK);
          assert_true(fpp <= 1.01 * rates[r]);
          o.fpp = fpp;
          assert_int_equal(tamis_bytes_for(&o, &bytes), TAMIS_OK);
          assert_true(bytes <= stats_of(f).bytes);
          tamis_destroy(f);
        } else {
          assert_int_equal(result, TAMIS_EUNSUPPORTED);
          assert_true(rates[r] < 0.0025);
        }
        tamis_destroy(blocked);
      }
}

static void the_version_is_that_of_the_header(void **state)
{
  (void) state;
  char text[32];
  snprintf(text, sizeof text, "%d.%d.%d", TAMIS_VERSION_MAJOR, TAMIS_VERSION_MINOR,
           TAMIS_VERSION_PATCH);
  assert_string_equal(tamis_version(), text);
}

/* All three calls that take options treat the sizes and the tails of the struct alike. */
static void assert_options(const tamis_options *options, int result)
{
  tamis_filter *f = NULL;
  uint64_t bytes = 7;
  double fpp = 7;
  assert_int_equal(tamis_create(options, &f), result);
  assert_true((f != NULL) == (result == TAMIS_OK));
  assert_int_equal(tamis_bytes_for(options, &bytes), result);
  assert_int_equal(tamis_fpp_for(options, 1 << 20, &fpp), result);
  assert_true((bytes != 7 && fpp != 7) == (result == TAMIS_OK));
  tamis_destroy(f);
}

static void structs_of_other_versions_are_told_by_their_size(void **state)
{
  (void) state;
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    struct {
      tamis_options known;
      unsigned char unknown[256];
    } options = {.known = options_of(kind, 1000, 0.001)};
    for (size_t size = 0; size < sizeof options.known; size++) {
      options.known.struct_size = size;
      assert_options(&options.known, TAMIS_EINVAL);
    }
    for (size_t tail = 1; tail <= sizeof options.unknown; tail++) {
      options.known.struct_size = sizeof options.known + tail;
      assert_options(&options.known, TAMIS_OK);
      options.unknown[tail - 1] = 1;
      assert_options(&options.known, TAMIS_EUNSUPPORTED);
      options.known.struct_size--; /* what is behind the struct is not looked at */
      assert_options(&options.known, TAMIS_OK);
      options.unknown[tail - 1] = 0;
    }
    options.known.struct_size = SIZE_MAX;
    assert_options(&options.known, TAMIS_EINVAL);
    static union {
      tamis_options known;
      unsigned char all[1 << 20];
    } absurd;
    absurd.known = options.known;
    absurd.known.struct_size = sizeof absurd;
    assert_options(&absurd.known, TAMIS_EINVAL);
    absurd.known.struct_size = 4097;
    assert_options(&absurd.known, TAMIS_EINVAL);
    absurd.known.struct_size = 4096; /* as the refusal says */
    assert_options(&absurd.known, TAMIS_OK);
  }
}

static void figures_of_other_versions_are_told_by_their_size(void **state)
{
  (void) state;
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    tamis_filter *f = create_kind(kind);
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
    stats.known.struct_size = sizeof stats;
    assert_int_equal(tamis_get_stats(f, &stats.known), TAMIS_OK);
    assert_int_equal(stats.known.struct_size, sizeof stats.known);
    assert_memory_equal(stats.unknown, before.unknown, sizeof stats.unknown);
    tamis_destroy(f);
  }
}

/* The lowest rates, with few keys and with 2^40. */
static void rates_are_taken_down_to_what_the_header_says(void **state)
{
  (void) state;
  const double lowest[KINDS] = {0, 0, 0, 0, 9.4e-10, 3e-8};
  uint64_t bytes;
  for (unsigned kind = 0; kind < KINDS; kind++)
    for (uint64_t capacity = 1; capacity <= UINT64_C(1) << 40; capacity <<= 13) {
      double hashes = 4 * (double) capacity * 0x1p-64;
      double rate = fmax(lowest[kind], hashes * 1.001);
      tamis_options o = options_of(kind, capacity, rate);
      int result = tamis_bytes_for(&o, &bytes);
      if (hashes > lowest[kind] / 100 && removes(kind)) {
        o.fpp = rate + hashes; /* the kind's own limit comes on top */
        result = tamis_bytes_for(&o, &bytes);
      }
      assert_int_equal(result, TAMIS_OK);
      o.fpp = lowest[kind] > hashes ? lowest[kind] * 0.98 : hashes * 0.999;
      assert_int_equal(tamis_bytes_for(&o, &bytes), TAMIS_EUNSUPPORTED);
    }
}

/* Those of windows rise with the number of periods. */
static void rates_of_windows_are_taken_down_to_what_the_header_says(void **state)
{
  (void) state;
  static const struct {
    unsigned periods;
    double fixed, growable;
  } lowest[] = {{1, 4e-9, 6e-8}, {64, 1.1e-7, 1.8e-6}};
  uint64_t bytes;
  for (unsigned kind = WINDOWS; kind < ALL_KINDS; kind++)
    for (unsigned i = 0; i < 2; i++) {
      tamis_options o = options_of(kind, 1000, 0.5);
      double rate = o.growable ? lowest[i].growable : lowest[i].fixed;
      o.window = lowest[i].periods;
      o.fpp = rate;
      assert_int_equal(tamis_bytes_for(&o, &bytes), TAMIS_OK);
      o.fpp = rate * 0.8; /* what is said is rounded */
      assert_int_equal(tamis_bytes_for(&o, &bytes), TAMIS_EUNSUPPORTED);
    }
}

static void a_filter_has_the_layout_that_it_asks_for(void **state)
{
  (void) state;
  const double rates[] = {0.9, 1e-8, 0.99e-8, 1e-12};
  for (unsigned i = 0; i < 4; i++)
    for (unsigned kind = 0; kind < 4; kind++) {
      tamis_options o = options_of(kind, 1000, rates[i]);
      tamis_filter *f = create(&o);
      assert_int_equal(stats_of(f).layout, o.layout);
      tamis_destroy(f);
    }
}

static void a_limit_of_bytes_counts_everything(void **state)
{
  (void) state;
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    tamis_options o = options_of(kind, 10000, 0.001);
    tamis_filter *f = NULL;
    uint64_t bytes, again;
    assert_int_equal(tamis_bytes_for(&o, &bytes), TAMIS_OK);
    o.max_bytes = bytes - 1;
    assert_int_equal(tamis_bytes_for(&o, &again), TAMIS_OK); /* ignores the limit */
    assert_int_equal(again, bytes);
    assert_int_equal(tamis_create(&o, &f), TAMIS_EFULL);
    assert_null(f);
    o.max_bytes = bytes;
    f = create(&o);
    assert_true(stats_of(f).bytes <= bytes);
    tamis_destroy(f);
  }
}

/* ---- sizes beyond 2^32 ---- */

static void sizes_go_to_2_to_40_keys(void **state)
{
  (void) state;
  const double rates[] = {0.3, 0.01, 1e-4, 1e-6};
  for (unsigned kind = 0; kind < KINDS; kind++)
    for (unsigned r = 0; r < 4; r++)
      for (uint64_t capacity = UINT64_C(1) << 28; capacity <= UINT64_C(1) << 40; capacity <<= 6) {
        tamis_options small = options_of(kind, capacity / 8, rates[r]);
        tamis_options o = options_of(kind, capacity, rates[r]);
        uint64_t bytes, part, again;
        double fpp;
        assert_int_equal(tamis_bytes_for(&small, &part), TAMIS_OK);
        assert_int_equal(tamis_bytes_for(&o, &bytes), TAMIS_OK);
        double ratio = (double) bytes / (double) part;
        assert_true(ratio > 7.5 && ratio < 8.5); /* nothing wraps, and nothing is rounded up */
        assert_int_equal(tamis_fpp_for(&o, bytes, &fpp), TAMIS_OK);
        assert_true(fpp <= rates[r] * 1.01);
        o.fpp = fpp;
        assert_int_equal(tamis_bytes_for(&o, &again), TAMIS_OK);
        assert_true(again <= bytes);
        /* No rate at all is to be had for a few bytes. */
        double none = 7;
        assert_int_equal(tamis_fpp_for(&o, bytes % (UINT64_C(1) << 20), &none), TAMIS_EFULL);
        assert_true(none == 7);
      }
}

/* A sanitizer's allocator touches what it hands out. */
#ifndef TAMIS_SLOW
static void filters_of_several_gigabytes_are_whole(void **state)
{
  (void) state;
  if (!is_long())
    skip();
  for (unsigned kind = 0; kind < KINDS; kind++) {
    tamis_options o = options_of(kind, UINT64_C(1300000000), 1e-6);
    uint64_t bytes;
    assert_int_equal(tamis_bytes_for(&o, &bytes), TAMIS_OK);
    assert_true(bytes > UINT64_C(1) << 32);
    tamis_filter *f = NULL;
    o.max_bytes = bytes - 1;
    assert_int_equal(tamis_create(&o, &f), TAMIS_EFULL);
    o.max_bytes = bytes & UINT32_MAX;
    assert_int_equal(tamis_create(&o, &f), TAMIS_EFULL);
    o.max_bytes = bytes;
    f = create(&o);
    for (uint64_t i = 0; i < 20; i++) {
      assert_int_equal(tamis_add_unique_hash(f, i), TAMIS_OK);
      assert_true(tamis_contains_hash(f, i));
    }
    tamis_stats s = stats_of(f);
    assert_int_equal(s.count, 20);
    assert_int_equal(s.capacity, o.capacity);
    assert_true(kind >= 4 || (s.bytes == bytes && s.bits > UINT64_C(1) << 32));
    for (uint64_t i = 0; i < 20 && removes(kind); i++)
      assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
    tamis_destroy(f);
  }
}

/* The bytes beyond the first 2^32 count, and so does their number. */
static void keys_are_longer_than_4_gigabytes(void **state)
{
  (void) state;
  enum { TAIL = 8192 };
  if (!is_long())
    skip();
  const size_t four_gigabytes = (size_t) 1 << 32, size = four_gigabytes + TAIL;
  unsigned char *key =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(key != MAP_FAILED);
  tamis_filter *f = create_kind(1);
  uint64_t whole = tamis_hash(f, key, size);
  assert_int_not_equal(whole, tamis_hash(f, key, TAIL));
  assert_int_not_equal(whole, tamis_hash(f, key, size - 1));
  key[four_gigabytes + 5000] = 1;
  assert_int_not_equal(whole, tamis_hash(f, key, size));
  assert_int_equal(tamis_add(f, key, size), TAMIS_OK);
  assert_true(tamis_contains(f, key, size));
  assert_false(tamis_contains_hash(f, whole));
  tamis_destroy(f);
  munmap(key, size);
}

static void batches_are_longer_than_2_to_32_keys(void **state)
{
  (void) state;
  const size_t n = ((size_t) 1 << 32) + 3;
  if (!is_long())
    skip();
  uint64_t *zeroes =
      mmap(NULL, n * sizeof *zeroes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(zeroes != MAP_FAILED);
  for (unsigned kind = 1; kind < ALL_KINDS; kind += 2) {
    tamis_filter *f = create_kind(kind);
    assert_int_equal(tamis_add_hash(f, 0), TAMIS_OK);
    assert_true(tamis_contains_many_hash(f, zeroes, n, NULL) == n);
    tamis_destroy(f);
  }
  munmap(zeroes, n * sizeof *zeroes);
}
#endif

/* ---- keys ---- */

static void any_bytes_and_any_hash_are_keys(void **state)
{
  (void) state;
  const uint64_t hashes[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63};
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    tamis_filter *f = create_kind(kind);
    for (unsigned i = 0; i < 4; i++) {
      assert_int_equal(tamis_count_hash(f, hashes[i]), 0);
      assert_int_equal(tamis_add_unique_hash(f, hashes[i]), TAMIS_OK);
      assert_true(tamis_contains_hash(f, hashes[i]));
      assert_int_equal(tamis_count_hash(f, hashes[i]), 1);
    }
    assert_false(tamis_contains(f, NULL, 0));
    assert_int_equal(tamis_count(f, NULL, 0), 0);
    assert_int_equal(tamis_add_unique(f, NULL, 0), TAMIS_OK);
    assert_int_equal(tamis_count(f, NULL, 0), 1);
    assert_int_equal(tamis_count(f, NULL, 1), 0);
    assert_int_equal(tamis_add_unique(f, "", 0), TAMIS_PRESENT);
    assert_true(tamis_contains(f, "anything", 0));
    assert_false(tamis_contains(f, "\0", 1));
    tamis_key keys[] = {{NULL, 0}, {NULL, 1}};
    bool found[2];
    assert_int_equal(tamis_contains_many(f, keys, 2, found), 1);
    assert_true(found[0] && !found[1]); /* an invalid key is not the empty one */
    if (removes(kind)) {
      assert_int_equal(tamis_remove(f, NULL, 0), TAMIS_OK);
      assert_int_equal(tamis_remove(f, NULL, 0), TAMIS_ABSENT);
      for (unsigned i = 0; i < 4; i++)
        assert_int_equal(tamis_remove_hash(f, hashes[i]), TAMIS_OK);
      assert_int_equal(stats_of(f).count, 0);
    }
    tamis_destroy(f);
  }
}

static void a_call_by_key_is_the_call_by_its_hash(void **state)
{
  (void) state;
  tamis_filter *other = create_kind(0);
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    tamis_filter *f = create_kind(kind);
    uint64_t hash = tamis_hash(f, "key", 3);
    assert_int_equal(hash, tamis_hash(other, "key", 3)); /* the same seed */
    assert_int_equal(tamis_add(f, "key", 3), TAMIS_OK);
    assert_true(tamis_contains_hash(f, hash));
    assert_true(tamis_count(f, "key", 3) == 1 && tamis_count_hash(f, hash) == 1);
    assert_int_equal(tamis_add_unique_hash(f, hash), TAMIS_PRESENT);
    if (removes(kind))
      assert_int_equal(tamis_remove_hash(f, hash), TAMIS_OK);
    assert_int_equal(tamis_contains(f, "key", 3), !removes(kind));
    tamis_destroy(f);
  }
  tamis_destroy(other);
}

static uint64_t hash_of_first_byte(void *context, const void *key, size_t len, uint64_t seed)
{
  assert_non_null(key);
  ++*(unsigned *) context;
  return seed + (len ? *(const unsigned char *) key : 1000);
}

static void a_users_hash_gets_context_and_seed(void **state)
{
  (void) state;
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    unsigned calls = 0;
    tamis_options o = options_of(kind, 1000, 1e-6);
    o.hash = hash_of_first_byte;
    o.hash_context = &calls;
    tamis_filter *f = create(&o);
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
    assert_int_equal(tamis_add_hash(f, 42 + 'a'), TAMIS_OK);
    assert_int_equal(tamis_count(f, "az", 2), removes(kind) ? 2 : 1);
    assert_int_equal(calls, 10 + 1 + 1);
    tamis_destroy(f);
  }
}

static void seeds_are_fresh_unless_given(void **state)
{
  (void) state;
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    tamis_options o = options_of(kind, 1000, 0.01);
    o.seed = 0;
    tamis_filter *a = create(&o), *b = create(&o);
    assert_int_not_equal(stats_of(a).seed, 0);
    assert_int_not_equal(stats_of(a).seed, stats_of(b).seed);
    tamis_destroy(a);
    tamis_destroy(b);
    o.seed = UINT64_MAX;
    a = create(&o);
    assert_true(stats_of(a).seed == UINT64_MAX);
    tamis_destroy(a);
  }
}

/* ---- copies ---- */

static void a_cuckoo_filter_holds_each_copy(void **state)
{
  (void) state;
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    if (is_counting(kind))
      continue;
    tamis_filter *f = create_kind(kind);
    for (unsigned n = 1; n <= 40; n++) {
      assert_int_equal(tamis_add_hash(f, 7), TAMIS_OK);
      assert_int_equal(stats_of(f).count, removes(kind) ? n : 1);
    }
    for (unsigned n = 40; n > 0 && removes(kind); n--) {
      assert_true(tamis_contains_hash(f, 7));
      assert_int_equal(tamis_remove_hash(f, 7), TAMIS_OK);
      assert_int_equal(stats_of(f).count, n - 1);
    }
    if (removes(kind)) {
      assert_int_equal(tamis_remove_hash(f, 7), TAMIS_ABSENT);
      assert_false(tamis_contains_hash(f, 7));
      assert_int_equal(tamis_add_unique_hash(f, 7), TAMIS_OK);
    } else {
      assert_int_equal(tamis_remove_hash(f, 7), TAMIS_EUNSUPPORTED);
      assert_int_equal(tamis_remove_hash(f, 8), TAMIS_EUNSUPPORTED);
      assert_true(tamis_contains_hash(f, 7));
    }
    tamis_destroy(f);
  }
}

/* ---- memory ---- */

struct account {
  tamis_allocator allocator;
  size_t bytes;
  pthread_t caller;
};

static void *account_allocate(void *context, size_t alignment, size_t size)
{
  struct account *account = context;
  void *block = NULL;
  assert_true(alignment > 0 && (alignment & (alignment - 1)) == 0);
  assert_true(pthread_equal(account->caller, pthread_self()));
  assert_int_equal(posix_memalign(&block, alignment, size), 0);
  memset(block, 0xEE, size);
  account->bytes += size;
  return block;
}

static void account_release(void *context, void *block, size_t alignment, size_t size)
{
  struct account *account = context;
  (void) alignment;
  account->bytes -= size;
  free(block);
}

static void the_allocator_struct_is_copied(void **state)
{
  (void) state;
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    struct account account = {{account_allocate, account_release, &account}, 0, pthread_self()};
    tamis_options o = options_of(kind, 100, 0.001);
    o.allocator = &account.allocator;
    tamis_filter *f = create(&o);
    memset(&account.allocator, 0, sizeof account.allocator);
    memset(&o, 0xEE, sizeof o);
    for (uint64_t i = 0; i < 20000; i++)
      (void) tamis_add_hash(f, i);
    tamis_stats s = stats_of(f);
    assert_int_equal(account.bytes, s.bytes);
    assert_true(kind != 5 || s.growths > 0);
    tamis_destroy(f);
    assert_int_equal(account.bytes, 0);
  }
}

/* ---- figures ---- */

static void figures_are_as_asked_and_agree(void **state)
{
  (void) state;
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    if (is_counting(kind))
      continue;
    tamis_options o = options_of(kind, 5000, 0.002);
    tamis_filter *f = create(&o);
    for (uint64_t i = 0; i < 4000; i++)
      assert_true(tamis_add_unique_hash(f, i) >= 0);
    tamis_stats s = stats_of(f);
    assert_int_equal(s.kind, o.kind);
    assert_int_equal(s.capacity, 5000);
    assert_int_equal(s.seed, 42);
    assert_true(s.fpp == 0.002);
    assert_int_equal(s.growths, 0);
    assert_true(s.count > 3980 && s.count <= 4000);
    assert_true(fabs(s.load - s.estimated_count / 5000) < 1e-12);
    if (kind >= WINDOWS) {
      assert_true(s.estimated_count == (double) s.count);
      assert_true(s.bits > 0 && s.occupancy > 0 && s.occupancy <= 1);
      assert_true(s.parts == PERIODS + 1 && s.layers == 1 && s.segments == 0);
    } else if (removes(kind)) {
      assert_true(s.estimated_count == (double) s.count);
      assert_true(s.segments > 0 && s.generations == 1 && s.joins == 0);
      assert_true(s.fingerprint_bits >= 7 && s.occupancy > 0 && s.occupancy <= 1);
      assert_int_equal(s.bits, 0);
    } else {
      assert_true(fabs(s.estimated_count - 4000) < 200);
      assert_true(s.bits_set <= s.count * s.bits_per_key && s.bits_set < s.bits);
      assert_int_equal(s.layout, o.layout);
      assert_int_equal(s.segments, 0);
    }
    assert_true(s.fpp_estimate > 0 && s.fpp_estimate <= 2 * 0.002);
    tamis_destroy(f);
  }
}

/* ---- capacity ---- */

static void a_filter_that_may_not_grow_takes_its_capacity(void **state)
{
  (void) state;
  for (unsigned kind = 0; kind < ALL_KINDS; kind++)
    for (uint64_t capacity = 1; capacity < 40000; capacity = capacity * 7 + 3) {
      tamis_options o = options_of(kind, capacity, 0.01);
      tamis_filter *f = create(&o);
      uint64_t n = 0, most = 20 * capacity + 20000;
      int result = TAMIS_OK;
      for (; n < most && result >= 0; n++) {
        result = tamis_add_unique_hash(f, n);
        assert_true(result >= 0 || n >= capacity);
      }
      assert_int_equal(result < 0 ? result : TAMIS_OK, o.growable ? TAMIS_OK : TAMIS_EFULL);
      n--;
      if (!o.growable) { /* nothing has changed */
        assert_false(tamis_contains_hash(f, n));
        if (kind < KINDS && !removes(kind)) {
          assert_int_equal(tamis_add_unique_hash(f, n), TAMIS_EFULL); /* it is final */
          assert_true(stats_of(f).count >= capacity);
        }
        for (uint64_t i = 0; i < n && removes(kind) && result == TAMIS_EFULL; i++) {
          if (tamis_contains_hash(f, i))
            assert_int_equal(tamis_remove_hash(f, i), TAMIS_OK);
          result = tamis_add_hash(f, n); /* removes make room again */
        }
        for (unsigned i = 0; i <= o.window && kind >= WINDOWS && !removes(kind); i++) {
          assert_int_equal(tamis_add_hash(f, n), TAMIS_EFULL);
          assert_int_equal(tamis_advance(f), TAMIS_OK);
        }
        if (kind >= WINDOWS && !removes(kind)) /* ends of periods do */
          result = tamis_add_hash(f, n);
        assert_int_equal(result, removes(kind) || kind >= WINDOWS ? TAMIS_OK : TAMIS_EFULL);
      }
      tamis_destroy(f);
    }
}

/* ---- counts ---- */

static void counts_are_the_copies_that_are_in(void **state)
{
  (void) state;
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    tamis_options options = options_of(kind, 20000, 1e-6);
    tamis_filter *f = create(&options);
    for (uint64_t key = 0; key < 300; key++) {
      for (unsigned copies = 0; copies < key % 3; copies++)
        assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
      assert_int_equal(tamis_count_hash(f, key), removes(kind) ? key % 3 : key % 3 > 0);
    }
    tamis_destroy(f);
  }
}

/* An invalid key is not the empty one. */
static void an_invalid_key_has_no_copies(void **state)
{
  (void) state;
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    tamis_filter *f = create_kind(kind);
    assert_int_equal(tamis_add(f, NULL, 0), TAMIS_OK);
    tamis_key keys[] = {{NULL, 0}, {NULL, 1}, {"", 0}};
    uint64_t counts[3];
    assert_int_equal(tamis_count_many(f, keys, 3, counts), 2);
    assert_true(counts[0] == 1 && counts[1] == 0 && counts[2] == 1);
    tamis_destroy(f);
  }
}

/* ---- processes ---- */

static void after_a_fork_the_child_has_a_copy_of_its_own(void **state)
{
  (void) state;
  for (unsigned kind = 0; kind < ALL_KINDS; kind++) {
    tamis_filter *f = create_kind(kind);
    assert_int_equal(tamis_add_hash(f, 1), TAMIS_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
      bool good = tamis_contains_hash(f, 1) && tamis_add_unique_hash(f, 2) == TAMIS_OK &&
                  tamis_contains_hash(f, 2);
      _exit(!good);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(tamis_contains_hash(f, 2));
    tamis_destroy(f);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_word_filter_takes_at_most_twice_the_bits),
      cmocka_unit_test(the_version_is_that_of_the_header),
      cmocka_unit_test(structs_of_other_versions_are_told_by_their_size),
      cmocka_unit_test(figures_of_other_versions_are_told_by_their_size),
      cmocka_unit_test(rates_are_taken_down_to_what_the_header_says),
      cmocka_unit_test(rates_of_windows_are_taken_down_to_what_the_header_says),
      cmocka_unit_test(a_filter_has_the_layout_that_it_asks_for),
      cmocka_unit_test(a_limit_of_bytes_counts_everything),
      cmocka_unit_test(sizes_go_to_2_to_40_keys),
#ifndef TAMIS_SLOW
      cmocka_unit_test(filters_of_several_gigabytes_are_whole),
      cmocka_unit_test(keys_are_longer_than_4_gigabytes),
      cmocka_unit_test(batches_are_longer_than_2_to_32_keys),
#endif
      cmocka_unit_test(any_bytes_and_any_hash_are_keys),
      cmocka_unit_test(a_call_by_key_is_the_call_by_its_hash),
      cmocka_unit_test(a_users_hash_gets_context_and_seed),
      cmocka_unit_test(seeds_are_fresh_unless_given),
      cmocka_unit_test(a_cuckoo_filter_holds_each_copy),
      cmocka_unit_test(the_allocator_struct_is_copied),
      cmocka_unit_test(figures_are_as_asked_and_agree),
      cmocka_unit_test(a_filter_that_may_not_grow_takes_its_capacity),
      cmocka_unit_test(counts_are_the_copies_that_are_in),
      cmocka_unit_test(an_invalid_key_has_no_copies),
      cmocka_unit_test(after_a_fork_the_child_has_a_copy_of_its_own),
  };
  return cmocka_run_group_tests_name("header", tests, NULL, NULL);
}
