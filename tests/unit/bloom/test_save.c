/* SPDX-License-Identifier: MIT
 *
 * What is peculiar to saved Bloom filters; test_saved.c has what holds for all kinds.
 */
#include "saved_unit.h"

#include "bloom/bloom.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* ---- one of each ---- */

struct sort {
  tamis_layout layout;
  bool growable;
  double fpp;
};

static const struct sort sorts[] = {
    {TAMIS_LAYOUT_BLOCKED, true, 0.01},   {TAMIS_LAYOUT_BLOCKED, false, 0.01},
    {TAMIS_LAYOUT_BLOCKED, true, 0.5},    {TAMIS_LAYOUT_BLOCKED, false, 1e-6},
    {TAMIS_LAYOUT_BLOCKED, true, 1e-10},  {TAMIS_LAYOUT_CLASSIC, true, 0.01},
    {TAMIS_LAYOUT_CLASSIC, false, 0.001}, {TAMIS_LAYOUT_WORD, true, 0.01},
    {TAMIS_LAYOUT_WORD, false, 0.01},     {TAMIS_LAYOUT_WORD, false, 0.3},
    {BLOOM_LAYOUT_COUNTING, true, 0.01},  {BLOOM_LAYOUT_COUNTING, false, 0.001},
};
enum { SORTS = sizeof sorts / sizeof *sorts, SORTS_OF_BITS = SORTS - 2 };

static tamis_filter *create_with_seed(const struct sort *sort, uint64_t capacity, uint64_t seed)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  if (sort->layout == BLOOM_LAYOUT_COUNTING)
    options.kind = TAMIS_COUNTING_BLOOM;
  else
    options.layout = sort->layout;
  options.growable = sort->growable;
  options.fpp = sort->fpp;
  options.capacity = capacity;
  options.seed = seed;
  tamis_filter *f;
  assert_int_equal(tamis_create(&options, &f), TAMIS_OK);
  return f;
}

static tamis_filter *create(const struct sort *sort, uint64_t capacity)
{
  return create_with_seed(sort, capacity, 42);
}

static tamis_filter *create_with_keys(const struct sort *sort, uint64_t capacity, uint64_t keys)
{
  tamis_filter *f = create(sort, capacity);
  for (uint64_t key = 0; key < keys; key++)
    (void) tamis_add_hash(f, key);
  return f;
}

static size_t array_of(const tamis_filter *f)
{
  return const_bloom_of(f)->word_count * sizeof(word);
}

/* ---- files ---- */

static char path[64];

static int set_up(void **state)
{
  (void) state;
  snprintf(path, sizeof path, "/tmp/tamis-test-bloom-save-%ld", (long) getpid());
  return 0;
}

static int tear_down(void **state)
{
  (void) state;
  (void) unlink(path);
  return 0;
}

static tamis_filter *map_bytes(const struct bytes *b, bool check_all)
{
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(b->data, 1, b->size, file), b->size);
  assert_int_equal(fclose(file), 0);
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.check_all = check_all;
  tamis_filter *f = NULL;
  if (tamis_map_file(&options, path, &f) != TAMIS_OK)
    assert_null(f);
  return f;
}

/* ---- round trips ---- */

static void assert_same(const tamis_filter *a, const tamis_filter *b)
{
  for (uint64_t key = 0; key < 20000; key++)
    assert_int_equal(tamis_contains_hash(a, key), tamis_contains_hash(b, key));
  assert_same_figures(a, b, "loaded");
  assert_valid(b);
}

static void assert_same_bytes(const struct bytes *a, const tamis_filter *f)
{
  struct bytes b = saved_bytes(f);
  assert_int_equal(a->size, b.size);
  assert_memory_equal(a->data, b.data, a->size);
  free(b.data);
}

/* More than a MiB, so there are several chunks, and memory grows. */
static void a_large_filter_is_as_it_was(void **state)
{
  (void) state;
  tamis_filter *f = create_with_keys(&sorts[0], 6000000 / SCALE, 100000);
  struct bytes saved = saved_bytes(f);
  tamis_filter *g = load_bytes(&saved), *mapped = map_bytes(&saved, true);
  assert_same(f, g);
  assert_same(f, mapped);
  assert_same_bytes(&saved, g);
  saved.data[saved.size / 2] ^= 1; /* in the array */
  assert_int_equal(load_any(source_of(&saved), 0, NULL), TAMIS_ECORRUPT);
  assert_null(map_bytes(&saved, true));
  tamis_destroy(mapped);
  mapped = map_bytes(&saved, false); /* the caller's choice */
  assert_non_null(mapped);
  tamis_destroy(f);
  tamis_destroy(g);
  tamis_destroy(mapped);
  free(saved.data);
}

/* The filters of which files are kept in tests/compat/saved, and their keys. */
static const struct {
  const char *name;
  struct sort sort;
} kept[] = {{"blocked", {TAMIS_LAYOUT_BLOCKED, false, 0.01}},
            {"blocked-growable", {TAMIS_LAYOUT_BLOCKED, true, 0.01}},
            {"sections", {TAMIS_LAYOUT_BLOCKED, false, 1e-9}},
            {"sections-growable", {TAMIS_LAYOUT_BLOCKED, true, 1e-6}},
            {"classic", {TAMIS_LAYOUT_CLASSIC, false, 0.001}},
            {"classic-growable", {TAMIS_LAYOUT_CLASSIC, true, 0.001}},
            {"word", {TAMIS_LAYOUT_WORD, false, 0.01}},
            {"word-growable", {TAMIS_LAYOUT_WORD, true, 0.01}},
            {"counting", {BLOOM_LAYOUT_COUNTING, false, 0.01}},
            {"counting-growable", {BLOOM_LAYOUT_COUNTING, true, 0.01}}};

static int key_of_kept(unsigned k, char key[32])
{
  return snprintf(key, 32, "key %u", k);
}

static void write_kept(const struct sort *sort, const char *name)
{
  char key[32];
  tamis_filter *f = create_with_seed(sort, 100, 12345);
  for (unsigned k = 0; k < 100; k++)
    assert_int_equal(tamis_add(f, key, (size_t) key_of_kept(k, key)), TAMIS_OK);
  assert_int_equal(tamis_save_file(f, name), TAMIS_OK);
  tamis_destroy(f);
}

/* Files of the first version of the format, which were written on x86-64, load on every machine and
 * in every later version, and are saved to the same bytes.  (TAMIS_WRITE_KEPT=1 writes them.) */
static void files_that_are_kept_load_for_ever(void **state)
{
  (void) state;
  for (unsigned i = 0; i < sizeof kept / sizeof *kept; i++) {
    char name[500], key[32];
    tamis_filter *f;
    snprintf(name, sizeof name, KEPT "/bloom-%s.tamis", kept[i].name);
    if (getenv("TAMIS_WRITE_KEPT"))
      write_kept(&kept[i].sort, name);
    assert_int_equal(tamis_load_file(NULL, name, &f), TAMIS_OK);
    assert_valid(f);
    for (unsigned k = 0; k < 100; k++) {
      assert_true(tamis_contains(f, key, (size_t) key_of_kept(k, key)));
    }
    assert_int_equal(stats_of(f).capacity, 100);
    assert_int_equal(stats_of(f).seed, 12345);
    FILE *file = fopen(name, "rb");
    assert_non_null(file);
    struct bytes bytes = {.data = malloc(1 << 16)};
    assert_non_null(bytes.data);
    bytes.size = fread(bytes.data, 1, 1 << 16, file);
    fclose(file);
    assert_same_bytes(&bytes, f);
    free(bytes.data);
    tamis_destroy(f);
  }
}

/* ---- capacity ---- */

/* Adds until it is full, and returns how many keys are in. */
static uint64_t fill(tamis_filter *f, uint64_t first, uint64_t *refused)
{
  for (uint64_t key = first;; key++) {
    int result = tamis_add_unique_hash(f, key);
    if (result == TAMIS_EFULL) {
      *refused = key;
      return stats_of(f).count;
    }
    assert_true(result == TAMIS_OK || result == TAMIS_PRESENT);
  }
}

static void a_loaded_filter_keeps_its_capacity(void **state)
{
  (void) state;
  enum { CAPACITY = 5000 };
  for (unsigned i = 0; i < SORTS; i++)
    for (uint64_t keys = 0; keys <= CAPACITY && !sorts[i].growable; keys += CAPACITY / 4) {
      uint64_t refused, refused_by_loaded;
      tamis_filter *f = create_with_keys(&sorts[i], CAPACITY, keys);
      struct bytes saved = saved_bytes(f);
      tamis_filter *g = load_bytes(&saved);
      assert_int_equal(fill(f, keys, &refused), fill(g, keys, &refused_by_loaded));
      assert_int_equal(refused, refused_by_loaded);
      assert_valid(g);
      tamis_destroy(f);
      tamis_destroy(g);
      free(saved.data);
    }
}

/* A filter of the word layout that became full while it was saved: the marks are not in the file,
 * and nothing that was in is missing. */
static void a_mark_that_came_during_the_save_is_left_out(void **state)
{
  (void) state;
  enum { CAPACITY = 1000 };
  const struct sort sort = {TAMIS_LAYOUT_WORD, false, 0.01};
  tamis_filter *f = create_with_keys(&sort, CAPACITY, CAPACITY / 2);
  struct bloom *b = bloom_of(f);
  b->words[3] |= WORD_MARK; /* as if it had been set after `fullness` was read */
  struct bytes saved = saved_bytes(f);
  b->words[3] &= ~WORD_MARK;
  tamis_filter *g = load_bytes(&saved);
  assert_same(f, g);
  tamis_destroy(f);
  tamis_destroy(g);
  free(saved.data);
}

/* The write function adds keys, which is allowed; the part that it is called with is the first one
 * of two, so all words of the second come later. */
struct late {
  struct bytes bytes;
  tamis_filter *f;
  uint64_t next;
};

static int add_and_write(void *context, const void *data, size_t size)
{
  struct late *late = context;
  for (unsigned i = 0; i < 1000; i++)
    if (tamis_add_hash(late->f, late->next++) != TAMIS_OK)
      return 1;
  return write_bytes(&late->bytes, data, size);
}

/* No key is counted that is not in, or only in part. */
static void keys_are_counted_before_the_words(void **state)
{
  (void) state;

  for (unsigned i = 0; i < SORTS_OF_BITS; i++) {
    if (sorts[i].growable)
      continue;
    struct late late = {.f = create(&sorts[i], sorts[i].fpp > 0.1 ? 12000000 : 3000000),
                        .next = 1000};
    for (uint64_t key = 0; key < late.next; key++)
      assert_int_equal(tamis_add_hash(late.f, key), TAMIS_OK);
    uint64_t count = stats_of(late.f).count;
    assert_int_equal(tamis_save(late.f, add_and_write, &late), TAMIS_OK);
    assert_true(late.bytes.calls > 1 && stats_of(late.f).count > count);
    tamis_filter *g;
    struct source source = source_of(&late.bytes);
    assert_int_equal(tamis_load(NULL, read_source, &source, &g), TAMIS_OK);
    assert_int_equal(stats_of(g).count, count);
    for (uint64_t key = 0; key < 1000; key++)
      assert_true(tamis_contains_hash(g, key));
    assert_valid(g);
    tamis_destroy(g);
    tamis_destroy(late.f);
    free(late.bytes.data);
  }
}

/* ---- whatever the bytes are ---- */

/* Each of these is in a file whose sums are right, and none may be accepted. */
static void what_no_filter_has_is_refused(void **state)
{
  (void) state;
  tamis_filter *f = create_with_keys(&sorts[8], 100, 60);
  struct bytes saved = saved_bytes(f);
  size_t array = array_of(f), trailer = saved.size - SAVED_UNIT;
  const struct replaced numbers[] = {
      {8, (uint64_t) SAVED_HEADER << 32 | 2, TAMIS_EUNSUPPORTED}, /* version */
      {8, (uint64_t) SAVED_HEADER << 32, TAMIS_ECORRUPT},
      {16, 1, TAMIS_EUNSUPPORTED}, /* required features */
      {16, UINT64_C(1) << 63, TAMIS_EUNSUPPORTED},
      {24, 1, TAMIS_OK},                            /* optional features */
      {32, UINT64_C(1) << 32 | 99, TAMIS_ECORRUPT}, /* kind */
      {32, UINT64_C(3) << 32 | 1, TAMIS_ECORRUPT},  /* hash */
      {32, UINT64_C(2) << 32 | 1, TAMIS_EINVAL},
      {40, 2, TAMIS_ECORRUPT},                     /* mixing */
      {40, UINT64_C(1) << 32 | 1, TAMIS_ECORRUPT}, /* growable, in the marked layout */
      {48, 43, TAMIS_ECORRUPT},                    /* seed: the probe is another */
      {56, 1, TAMIS_ECORRUPT},                     /* probe */
      {64, 0, TAMIS_ECORRUPT},                     /* capacity */
      {72, 0, TAMIS_ECORRUPT},                     /* fpp */
      {72, UINT64_MAX, TAMIS_ECORRUPT},
      {88, UINT64_C(2) << 32 | 4097, TAMIS_ECORRUPT},
      {216, 1, TAMIS_ECORRUPT}, /* reserved */
      {248, 1, TAMIS_ECORRUPT},
      {256, 2, TAMIS_ECORRUPT}, /* layout */
      {256, UINT64_C(1) << 32 | 3, TAMIS_ECORRUPT},
      {264, 2, TAMIS_ECORRUPT}, /* probes */
      {272, 8, TAMIS_ECORRUPT}, /* bits of a probe */
      {272, 0, TAMIS_ECORRUPT},
      {280, array / 64 + 1, TAMIS_ECORRUPT}, /* lines */
      {280, array / 64 - 1, TAMIS_ECORRUPT},
      {280, 0, TAMIS_ECORRUPT},
      {288, 0, TAMIS_ECORRUPT}, /* sections */
      {288, 2, TAMIS_ECORRUPT},
      {288, UINT64_C(1) << 32 | 1, TAMIS_ECORRUPT},
      {296, 0, TAMIS_ECORRUPT}, /* most bits */
      {296, UINT64_C(0x7FF0000000000000), TAMIS_ECORRUPT},
      {304, 1, TAMIS_ECORRUPT}, /* what follows the geometry */
      {496, 1, TAMIS_ECORRUPT},
      {512, 1, TAMIS_ECORRUPT}, /* padding */
      {SAVED_ARRAY_ALIGNMENT - 8, 1, TAMIS_ECORRUPT},
      {SAVED_ARRAY_ALIGNMENT + 8, WORD_MARK, TAMIS_ECORRUPT},
      {trailer + 8, saved.size + 64, TAMIS_ECORRUPT},
      {trailer + 16, 2, TAMIS_ECORRUPT},
      {trailer + 24, stats_of(f).bits_set, TAMIS_OK}, /* keys */
      {trailer + 24, stats_of(f).bits_set + 1, TAMIS_ECORRUPT},
      {trailer + 32, 2, TAMIS_ECORRUPT},        /* full */
      {first_block(array), 16, TAMIS_ECORRUPT}, /* the type of the sums */
      {first_block(array) + 16, 1, TAMIS_ECORRUPT},
      {first_block(array) + 24, 0, TAMIS_ECORRUPT},
      {first_block(array) + 48, 1, TAMIS_ECORRUPT},
      {first_block(array) + 72, 1, TAMIS_ECORRUPT}, /* padding of the payload */
  };
  assert_replaced(&saved, array, numbers, sizeof numbers / sizeof *numbers);
  tamis_destroy(f);
  free(saved.data);
}

/* The sum over all sums is that of another file: else, each part is as it was written. */
static void a_part_of_another_file_is_found(void **state)
{
  (void) state;
  tamis_filter *f = create_with_keys(&sorts[0], 100, 60), *g = create_with_keys(&sorts[0], 100, 50);
  struct bytes one = saved_bytes(f), other = saved_bytes(g);
  unsigned char *trailer = other.data + other.size - SAVED_UNIT;
  assert_int_equal(one.size, other.size);
  memcpy(trailer + 48, one.data + one.size - 16, 8);
  saved_put64(trailer + 56, hash_sum(trailer, 56, 0));
  assert_int_equal(load_any(source_of(&other), 0, NULL), TAMIS_ECORRUPT);
  free(one.data);
  free(other.data);
  tamis_destroy(f);
  tamis_destroy(g);
}

/* As many bits are set as before. */
static void words_that_have_changed_places_are_found(void **state)
{
  (void) state;
  tamis_filter *f = create_with_keys(&sorts[0], 100, 60);
  struct bytes saved = saved_bytes(f);
  unsigned char *words = saved.data + SAVED_ARRAY_ALIGNMENT;
  for (size_t i = 0; i < 8; i++) {
    unsigned char byte = words[i];
    words[i] = words[i + 8];
    words[i + 8] = byte;
  }
  assert_int_equal(load_any(source_of(&saved), 0, NULL), TAMIS_ECORRUPT);
  tamis_filter *mapped = map_bytes(&saved, true);
  assert_null(mapped);
  free(saved.data);
  tamis_destroy(f);
}

/* Optional blocks, which a later version may add, are passed over. */
static void optional_blocks_are_passed_over(void **state)
{
  (void) state;
  for (unsigned optional = 0; optional < 2; optional++) {
    tamis_filter *f = create_with_keys(&sorts[0], 100, 60);
    struct bytes saved = saved_bytes(f);
    size_t trailer = saved.size - SAVED_UNIT;
    saved.size += 2 * SAVED_UNIT;
    saved.data = realloc(saved.data, saved.size);
    assert_non_null(saved.data);
    unsigned char *block = saved.data + trailer;
    memmove(block + 2 * SAVED_UNIT, block, SAVED_UNIT);
    memset(block, 0, 2 * SAVED_UNIT);
    saved_put32(block, 77 | (optional ? SAVED_OPTIONAL : 0));
    saved_put64(block + 8, 5);
    saved_put64(block + 16, 1);
    memcpy(block + SAVED_UNIT, "later", 5);
    saved_put64(block + 2 * SAVED_UNIT + 8, saved.size);
    saved_put64(block + 2 * SAVED_UNIT + 16, 2);
    assert_true(repair(&saved, array_of(f)));
    assert_int_equal(load_any(source_of(&saved), 0, NULL), optional ? TAMIS_OK : TAMIS_ECORRUPT);
    tamis_destroy(f);
    free(saved.data);
  }
}

/* ---- a save under fire ---- */

enum { WRITERS = 4, FIRE_KEYS = 100000 / SCALE };

struct fire {
  tamis_filter *f;
  _Atomic uint64_t added[WRITERS]; /* keys whose add has returned */
  atomic_bool bad;
};

struct fire_thread {
  struct fire *fire;
  unsigned number;
};

static uint64_t key_of(unsigned writer, uint64_t i)
{
  return i * WRITERS + writer;
}

static void *add_keys(void *argument)
{
  const struct fire_thread *t = argument;
  for (uint64_t i = 0; i < FIRE_KEYS; i++) {
    if (tamis_add_hash(t->fire->f, key_of(t->number, i)) != TAMIS_OK)
      t->fire->bad = true;
    atomic_store_explicit(&t->fire->added[t->number], i + 1, memory_order_release);
  }
  return NULL;
}

static uint64_t keys_in_fire(struct fire *fire, uint64_t added[WRITERS])
{
  uint64_t all = 0;
  for (unsigned i = 0; i < WRITERS; i++) {
    added[i] = atomic_load_explicit(&fire->added[i], memory_order_acquire);
    all += added[i];
  }
  return all;
}

static void check_snapshot(const tamis_filter *g, const uint64_t added[WRITERS], uint64_t after)
{
  for (unsigned writer = 0; writer < WRITERS; writer++)
    for (uint64_t i = 0; i < added[writer]; i++)
      assert_true(tamis_contains_hash(g, key_of(writer, i)));
  assert_true(stats_of(g).count <= after + WRITERS);
  assert_valid(g);
}

/* A key that was in before the save began is in what is loaded, and nothing else: the bits are
 * those of the filter at the end, or fewer. */
static void saves_under_fire_have_all_keys(void **state)
{
  (void) state;
  for (unsigned i = 0; i < SORTS; i++) {
    struct fire fire = {.f = create(&sorts[i], (uint64_t) WRITERS * FIRE_KEYS + 1000)};
    struct fire_thread threads[WRITERS];
    pthread_t handles[WRITERS];
    uint64_t before[WRITERS], after[WRITERS], all = 0;
    for (unsigned t = 0; t < WRITERS; t++) {
      threads[t] = (struct fire_thread){&fire, t};
      assert_int_equal(pthread_create(&handles[t], NULL, add_keys, &threads[t]), 0);
    }
    while (all < (uint64_t) WRITERS * FIRE_KEYS) {
      all = keys_in_fire(&fire, before);
      struct bytes saved = saved_bytes(fire.f);
      uint64_t until = keys_in_fire(&fire, after);
      tamis_filter *g;
      struct source source = source_of(&saved);
      assert_int_equal(tamis_load(NULL, read_source, &source, &g), TAMIS_OK);
      check_snapshot(g, before, until);
      const struct bloom *now = bloom_of(fire.f), *then = bloom_of(g);
      for (uint64_t w = 0; i < SORTS_OF_BITS && w < now->word_count; w++)
        assert_int_equal(word_load(&then->words[w]) & ~word_load(&now->words[w]), 0);
      tamis_destroy(g);
      free(saved.data);
    }
    for (unsigned t = 0; t < WRITERS; t++)
      pthread_join(handles[t], NULL);
    assert_false(fire.bad);
    tamis_destroy(fire.f);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_large_filter_is_as_it_was, set_up, tear_down),
      cmocka_unit_test(files_that_are_kept_load_for_ever),
      cmocka_unit_test(a_loaded_filter_keeps_its_capacity),
      cmocka_unit_test(a_mark_that_came_during_the_save_is_left_out),
      cmocka_unit_test(keys_are_counted_before_the_words),
      cmocka_unit_test(what_no_filter_has_is_refused),
      cmocka_unit_test(a_part_of_another_file_is_found),
      cmocka_unit_test_setup_teardown(words_that_have_changed_places_are_found, set_up, tear_down),
      cmocka_unit_test(optional_blocks_are_passed_over),
      TEST_WITH_THREADS(saves_under_fire_have_all_keys),
  };
  return cmocka_run_group_tests_name("bloom_save", tests, NULL, NULL);
}
