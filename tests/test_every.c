/* SPDX-License-Identifier: MIT
 *
 * Every length and every index of a batch, and every bit of a seed, in every kind of filter.
 */
#include "saved_unit.h"

#include "harness.h"

#include <string.h>

/* ---- the filters ---- */

static const struct shape {
  const char *name;
  tamis_kind kind;
  tamis_layout layout;
  bool growable;
  unsigned window;
} shapes[] = {
    {"bloom, blocked", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, false, 0},
    {"bloom, blocked, growable", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, true, 0},
    {"bloom, classic", TAMIS_BLOOM, TAMIS_LAYOUT_CLASSIC, false, 0},
    {"bloom, classic, growable", TAMIS_BLOOM, TAMIS_LAYOUT_CLASSIC, true, 0},
    {"bloom, word", TAMIS_BLOOM, TAMIS_LAYOUT_WORD, false, 0},
    {"bloom, word, growable", TAMIS_BLOOM, TAMIS_LAYOUT_WORD, true, 0},
    {"counting", TAMIS_COUNTING_BLOOM, TAMIS_LAYOUT_BLOCKED, false, 0},
    {"counting, growable", TAMIS_COUNTING_BLOOM, TAMIS_LAYOUT_BLOCKED, true, 0},
    {"cuckoo", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, false, 0},
    {"cuckoo, growable", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, true, 0},
    {"window", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, false, 3},
    {"window, growable", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, true, 3},
    {"cuckoo window", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, false, 3},
    {"cuckoo window, growable", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, true, 3},
};

enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static tamis_filter *make(const struct shape *s, uint64_t capacity, uint64_t seed)
{
  tamis_options o = TAMIS_OPTIONS_INIT;
  o.kind = s->kind, o.layout = s->layout, o.growable = s->growable, o.window = s->window;
  o.capacity = capacity, o.fpp = 0.01, o.seed = seed;
  tamis_filter *f;
  assert_int_equal(tamis_create(&o, &f), TAMIS_OK);
  return f;
}

static void assert_same(const struct shape *s, const tamis_filter *f, const tamis_filter *twin)
{
  struct bytes a = saved_bytes(f), b = saved_bytes(twin);
  if (stats_of(f).count != stats_of(twin).count || a.size != b.size ||
      memcmp(a.data, b.data, a.size) != 0)
    fail_msg("%s: batches leave another filter than single calls", s->name);
  free(a.data), free(b.data);
}

/* ---- every index of a batch ----
 *
 * One filter gets batches and its twin the same keys by single calls: so it is known of each index
 * what stands there.  The lengths go through all those up to past the groups that the library works
 * on, and the memory of the keys ends where the batch does. */

enum { LONG = 2 * FILTER_GROUP + FILTER_AHEAD + 3, LONGEST = 1100, GUARD = 8, UNTOUCHED = 77 };

/* Look-ups in a filter that grows are divided anew after so many keys. */
enum { READER_BATCH = 512 };

struct batch {
  const struct shape *shape;
  tamis_filter *f, *twin;
  size_t n;
  bool by_hash;
  uint64_t *numbers, *hashes;
  tamis_key *keys;
};

static struct batch begin_batch(const struct batch *of, size_t n, bool by_hash)
{
  struct batch b = *of;
  b.n = n, b.by_hash = by_hash;
  b.numbers = malloc(n * sizeof *b.numbers);
  b.hashes = malloc(n * sizeof *b.hashes);
  b.keys = malloc(n * sizeof *b.keys);
  return b;
}

static void put_key(struct batch *b, size_t i, uint64_t number)
{
  b->numbers[i] = number;
  b->keys[i] = (tamis_key){&b->numbers[i], sizeof number};
  b->hashes[i] = tamis_hash(b->f, &number, sizeof number);
}

static void end_batch(struct batch *b)
{
  free(b->numbers), free(b->hashes), free(b->keys);
}

static void wrong_at(const struct batch *b, const char *call, size_t i)
{
  fail_msg("%s, %s of %zu: another answer for key %zu than from a single call", b->shape->name,
           call, b->n, i);
}

static void check_contains(const struct batch *b)
{
  unsigned char found[LONGEST + GUARD];
  memset(found, UNTOUCHED, sizeof found);
  size_t hits = b->by_hash ? tamis_contains_many_hash(b->f, b->hashes, b->n, (bool *) found)
                           : tamis_contains_many(b->f, b->keys, b->n, (bool *) found);
  size_t without = b->by_hash ? tamis_contains_many_hash(b->f, b->hashes, b->n, NULL)
                              : tamis_contains_many(b->f, b->keys, b->n, NULL);
  assert_int_equal(hits, without);
  for (size_t i = 0; i < b->n; hits -= found[i++])
    if (found[i] != tamis_contains(b->twin, &b->numbers[i], sizeof b->numbers[i]))
      wrong_at(b, "contains", i);
  assert_int_equal(hits, 0);
  for (size_t i = b->n; i < b->n + GUARD; i++)
    assert_int_equal(found[i], UNTOUCHED);
}

static void check_counts(const struct batch *b)
{
  uint64_t counts[LONGEST + GUARD];
  for (size_t i = 0; i < b->n + GUARD; i++)
    counts[i] = UNTOUCHED;
  uint64_t sum = b->by_hash ? tamis_count_many_hash(b->f, b->hashes, b->n, counts)
                            : tamis_count_many(b->f, b->keys, b->n, counts);
  uint64_t without = b->by_hash ? tamis_count_many_hash(b->f, b->hashes, b->n, NULL)
                                : tamis_count_many(b->f, b->keys, b->n, NULL);
  assert_int_equal(sum, without);
  for (size_t i = 0; i < b->n; sum -= counts[i++])
    if (counts[i] != tamis_count(b->twin, &b->numbers[i], sizeof b->numbers[i]))
      wrong_at(b, "count", i);
  assert_int_equal(sum, 0);
  for (size_t i = b->n; i < b->n + GUARD; i++)
    assert_int_equal(counts[i], UNTOUCHED);
}

static int add_batch(const struct batch *b, bool unique, int *results)
{
  if (unique)
    return b->by_hash ? tamis_add_unique_many_hash(b->f, b->hashes, b->n, results)
                      : tamis_add_unique_many(b->f, b->keys, b->n, results);
  return b->by_hash ? tamis_add_many_hash(b->f, b->hashes, b->n, results)
                    : tamis_add_many(b->f, b->keys, b->n, results);
}

/* Without an array for the results in one case of eight. */
static void check_adds(const struct batch *b, bool unique)
{
  int results[LONGEST + GUARD], first = TAMIS_OK;
  bool told = b->n % 8 != 5;
  for (size_t i = 0; i < b->n + GUARD; i++)
    results[i] = UNTOUCHED;
  int result = add_batch(b, unique, told ? results : NULL);
  for (size_t i = 0; i < b->n; i++) {
    int single =
        (unique ? tamis_add_unique : tamis_add)(b->twin, &b->numbers[i], sizeof b->numbers[i]);
    first = first == TAMIS_OK && single < 0 ? single : first;
    if (told && results[i] != single)
      wrong_at(b, unique ? "add_unique" : "add", i);
  }
  assert_int_equal(result, first);
  for (size_t i = told ? b->n : 0; i < b->n + GUARD; i++)
    assert_int_equal(results[i], UNTOUCHED);
}

/* About half of the keys are in, others at each length.  *next is the first number that was not
 * added yet. */
static void check_length(const struct batch *of, size_t n, bool by_hash, bool unique,
                         uint64_t *next)
{
  struct batch b = begin_batch(of, n, by_hash);
  uint64_t random = n * 4 + unique * 2 + by_hash;
  for (size_t i = 0; i < n; i++) {
    uint64_t drawn = random_next(&random);
    put_key(&b, i, *next && drawn % 2 ? drawn / 2 % *next : (*next)++);
  }
  check_contains(&b);
  check_adds(&b, unique);
  check_contains(&b);
  check_counts(&b);
  end_batch(&b);
}

/* One key is in and all others are not, and then the other way round. */
static void check_index(const struct batch *of, size_t n, size_t at, uint64_t *next)
{
  struct batch b = begin_batch(of, n, at % 2);
  uint64_t absent = UINT64_C(1) << 40;
  for (size_t i = 0; i < b.n; i++)
    put_key(&b, i, i == at ? at % *next : absent + i);
  check_contains(&b);
  check_counts(&b);
  for (size_t i = 0; i < b.n; i++)
    put_key(&b, i, i == at ? (*next)++ : i);
  check_contains(&b);
  check_adds(&b, true);
  end_batch(&b);
}

/* Of a filter that has room, and of one that is full or has grown much. */
static void check_batches(const struct shape *s, uint64_t capacity)
{
  struct batch b = {.shape = s, .f = make(s, capacity, 42), .twin = make(s, capacity, 42)};
  static const size_t longer[] = {READER_BATCH - 1, READER_BATCH, READER_BATCH + 1, LONGEST};
  uint64_t next = 0;
  for (size_t n = 0; n <= LONG; n += SCALE)
    for (unsigned i = 0; i < 2; i++)
      check_length(&b, n, (n + i) % 2, i, &next);
  for (size_t i = 0; i < 4 * sizeof longer / sizeof *longer; i++)
    check_length(&b, longer[i / 4], i % 2, i / 2 % 2, &next);
  for (size_t at = 0; at < LONG; at += SCALE)
    check_index(&b, LONG, at, &next);
  for (size_t at = READER_BATCH - 1; at <= READER_BATCH; at++)
    check_index(&b, LONGEST, at, &next);
  assert_same(s, b.f, b.twin);
  tamis_destroy(b.f), tamis_destroy(b.twin);
}

static void every_index_of_a_batch(void **state)
{
  (void) state;
  for (const struct shape *s = shapes; s < shapes + SHAPES; s++) {
    check_batches(s, 8000);
    check_batches(s, 40);
  }
}

/* ---- every bit of a seed ---- */

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
  struct source source = source_of(saved), again = source;
  tamis_stats info = TAMIS_STATS_INIT;
  assert_int_equal(tamis_saved_info(read_source, &source, &info), TAMIS_OK);
  assert_int_equal(info.seed, seed);
  tamis_filter *f;
  assert_int_equal(tamis_load(NULL, read_source, &again, &f), TAMIS_OK);
  assert_int_equal(stats_of(f).seed, seed);
  return f;
}

/* Filters whose seeds differ have unlike hashes and places, and do not go together. */
static void assert_unlike(const struct shape *s, tamis_filter *f, tamis_filter *other)
{
  unsigned hits = 0;
  tamis_filter *both = NULL;
  tamis_similarity_stats similarity = TAMIS_SIMILARITY_STATS_INIT;
  for (size_t i = 0; i < KEYS; i++) {
    tamis_key key = key_at(i);
    uint64_t hash = tamis_hash(f, key.data, key.len);
    if (hash == tamis_hash(other, key.data, key.len))
      fail_msg("%s: a key of %zu bytes has one hash with two seeds", s->name, key.len);
    hits += tamis_contains_hash(other, hash); /* what the hash is mixed with differs, too */
  }
  assert_in_range(hits, 0, KEYS / 8);
  assert_int_equal(tamis_merge(f, other), TAMIS_EINVAL);
  assert_int_equal(tamis_merge(other, f), TAMIS_EINVAL);
  assert_true(tamis_intersect(f, other, &both) < 0 && !both);
  assert_true(tamis_similarity(f, other, &similarity) < 0);
}

/* A filter with these keys, by one batch or by single calls. */
static tamis_filter *filled(const struct shape *s, uint64_t seed, bool batch)
{
  tamis_filter *f = make(s, 2 * KEYS, seed);
  tamis_key keys[KEYS];
  for (size_t i = 0; i < KEYS; i++)
    keys[i] = key_at(i);
  if (batch)
    assert_int_equal(tamis_add_unique_many(f, keys, KEYS, NULL), TAMIS_OK);
  for (size_t i = 0; i < KEYS && !batch; i++)
    assert_true(tamis_add_unique(f, keys[i].data, keys[i].len) >= 0);
  return f;
}

static void every_bit_of_a_seed(void **state)
{
  (void) state;
  const uint64_t seed = UINT64_C(0x5DEECE66D2B89A71);
  for (const struct shape *s = shapes; s < shapes + SHAPES; s++) {
    tamis_filter *f = filled(s, seed, true);
    for (unsigned bit = 0; bit<64; bit += SCALE> 1 ? 7 : 1) {
      uint64_t other_seed = seed ^ UINT64_C(1) << bit;
      tamis_filter *batch = filled(s, other_seed, true), *single = filled(s, other_seed, false);
      tamis_filter *empty = make(s, 2 * KEYS, other_seed);
      assert_same(s, batch, single);
      assert_unlike(s, f, batch);
      struct bytes saved = saved_bytes(batch);
      tamis_filter *same = loaded(&saved, other_seed);
      for (size_t i = 0; i < KEYS; i++) {
        tamis_key key = key_at(i);
        assert_true(tamis_contains(same, key.data, key.len));
        assert_int_equal(tamis_hash(same, key.data, key.len), tamis_hash(batch, key.data, key.len));
      }
      assert_unlike(s, f, same);
      assert_int_equal(tamis_merge(empty, same), TAMIS_OK);
      free(saved.data);
      tamis_destroy(batch), tamis_destroy(single), tamis_destroy(same), tamis_destroy(empty);
    }
    tamis_destroy(f);
  }
}

static uint64_t seed_as_hash(void *context, const void *key, size_t len, uint64_t seed)
{
  (void) context, (void) key, (void) len;
  return seed;
}

static void a_users_hash_gets_every_bit_of_the_seed(void **state)
{
  (void) state;
  for (unsigned bit = 0; bit < 64; bit++) {
    tamis_options o = TAMIS_OPTIONS_INIT;
    o.capacity = 10, o.seed = UINT64_C(1) << bit, o.hash = seed_as_hash;
    tamis_filter *f;
    assert_int_equal(tamis_create(&o, &f), TAMIS_OK);
    assert_int_equal(tamis_hash(f, "key", 3), o.seed);
    const tamis_key keys[] = {{"key", 3}, {NULL, 0}};
    assert_int_equal(tamis_add_many(f, keys, 1, NULL), TAMIS_OK);
    assert_true(tamis_contains_hash(f, o.seed));
    assert_int_equal(tamis_contains_many(f, keys, 2, NULL), 2);
    tamis_destroy(f);
  }
}

static uint64_t hash_without_seed(void *context, const void *key, size_t len, uint64_t seed)
{
  (void) context, (void) key, (void) seed;
  return len;
}

/* What a hash is mixed with follows from the seed in any case. */
static void seeds_that_a_users_hash_ignores_are_compared(void **state)
{
  (void) state;
  for (unsigned bit = 0; bit < 64; bit++) {
    tamis_options o = TAMIS_OPTIONS_INIT;
    tamis_filter *f, *other;
    o.capacity = 10, o.seed = UINT64_C(0x5DEECE66D2B89A71), o.hash = hash_without_seed;
    assert_int_equal(tamis_create(&o, &f), TAMIS_OK);
    o.seed ^= UINT64_C(1) << bit;
    assert_int_equal(tamis_create(&o, &other), TAMIS_OK);
    assert_int_equal(tamis_merge(f, other), TAMIS_EINVAL);
    tamis_destroy(f), tamis_destroy(other);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_index_of_a_batch),
      cmocka_unit_test(every_bit_of_a_seed),
      cmocka_unit_test(a_users_hash_gets_every_bit_of_the_seed),
      cmocka_unit_test(seeds_that_a_users_hash_ignores_are_compared),
  };
  return cmocka_run_group_tests_name("every", tests, NULL, NULL);
}
