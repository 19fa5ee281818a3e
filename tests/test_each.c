/* SPDX-License-Identifier: MIT
 *
 * One key in many filters: the answers are those of single calls, for every kind, number, seed and
 * form of filter, and while filters grow.
 */
#include "shared_unit.h"

#include "base/each.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MOST = 5 * EACH_BLOCK + 3, KEYS = 200, UNTOUCHED = 77 };

static const struct form {
  tamis_kind kind;
  tamis_layout layout;
  double fpp;
  bool growable;
  unsigned window;
} forms[] = {
    {TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 0.3, true, 0},
    {TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 0.1, true, 0},
    {TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 0.01, true, 0},
    {TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 0.01, false, 0},
    {TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 0.001, true, 0},
    {TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 1e-7, true, 0},
    {TAMIS_BLOOM, TAMIS_LAYOUT_CLASSIC, 0.01, true, 0},
    {TAMIS_BLOOM, TAMIS_LAYOUT_WORD, 0.01, true, 0},
    {TAMIS_BLOOM, TAMIS_LAYOUT_WORD, 0.01, false, 0},
    {TAMIS_COUNTING_BLOOM, TAMIS_LAYOUT_BLOCKED, 0.01, true, 0},
    {TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, 0.01, true, 0},
    {TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, 0.01, false, 0},
    {TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 0.01, true, 3},
    {TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, 0.01, false, 3},
};

enum { FORMS = sizeof forms / sizeof forms[0] };

static uint64_t own_hash(void *context, const void *key, size_t len, uint64_t seed)
{
  uint64_t first = 0;
  memcpy(&first, key, len < sizeof first ? len : sizeof first);
  return (first + seed + *(const uint64_t *) context) * UINT64_C(0x9E3779B97F4A7C15);
}

static uint64_t contexts[2] = {1, 2};

static tamis_filter *make_for(const struct form *form, uint64_t seed, uint64_t *context,
                              uint64_t capacity)
{
  tamis_options o = TAMIS_OPTIONS_INIT;
  o.kind = form->kind, o.layout = form->layout, o.fpp = form->fpp, o.growable = form->growable;
  o.window = form->window, o.seed = seed, o.capacity = capacity;
  if (context)
    o.hash = own_hash, o.hash_context = context;
  tamis_filter *f = NULL;
  assert_int_equal(tamis_create(&o, &f), TAMIS_OK);
  return f;
}

static tamis_filter *make(const struct form *form, uint64_t seed, uint64_t *context)
{
  return make_for(form, seed, context, KEYS);
}

/* Every third number, beginning with the filter's, is a key of it. */
static void fill(tamis_filter *f, uint64_t first, uint64_t n)
{
  for (uint64_t i = 0; i < n; i++) {
    uint64_t key = first + 3 * i;
    assert_int_equal(tamis_add(f, &key, sizeof key), TAMIS_OK);
  }
}

static void destroy(tamis_filter **filters, size_t n)
{
  for (size_t i = 0; i < n; i++)
    tamis_destroy(filters[i]);
}

static void assert_answers(tamis_filter *const *filters, size_t n, uint64_t key)
{
  unsigned char found[MOST + 1];
  memset(found, UNTOUCHED, sizeof found);
  size_t hits = tamis_contains_each((const tamis_filter *const *) filters, n, &key, sizeof key,
                                    (bool *) found);
  assert_int_equal(
      tamis_contains_each((const tamis_filter *const *) filters, n, &key, sizeof key, NULL), hits);
  for (size_t i = 0; i < n; hits -= found[i++])
    if (found[i] != tamis_contains(filters[i], &key, sizeof key))
      fail_msg("filter %zu of %zu, key %d: another answer than from a single call", i, n,
               (int) key);
  assert_int_equal(hits, 0);
  assert_int_equal(found[n], UNTOUCHED);
}

static void assert_answers_of_all(tamis_filter *const *filters, size_t n)
{
  for (uint64_t key = 0; key < 60; key++)
    assert_answers(filters, n, key);
}

/* ---- tests ---- */

static void every_number_of_filters_of_every_form(void **state)
{
  (void) state;
  tamis_filter *filters[MOST];
  for (size_t form = 0; form < FORMS; form++) {
    for (size_t i = 0; i < MOST; i++)
      fill(filters[i] = make(&forms[form], 42, NULL), i % 3, 20);
    for (size_t n = 0; n <= MOST; n++)
      assert_answers(filters, n, n);
    assert_answers_of_all(filters, MOST);
    destroy(filters, MOST);
  }
}

static void filters_that_have_grown(void **state)
{
  (void) state;
  tamis_filter *filters[MOST];
  for (size_t form = 0; form < FORMS; form++) {
    if (!forms[form].growable)
      continue;
    for (size_t i = 0; i < MOST; i++)
      fill(filters[i] = make(&forms[form], 42, NULL), i % 3, i % 2 ? 20 : KEYS * (1 + i % 5));
    assert_answers_of_all(filters, MOST);
    destroy(filters, MOST);
  }
}

static void forms_seeds_and_gaps_are_mixed(void **state)
{
  (void) state;
  tamis_filter *filters[MOST];
  for (size_t step = 1; step <= 3; step++) {
    for (size_t i = 0; i < MOST; i++) {
      filters[i] = i % 7 == 3 ? NULL : make(&forms[i * step % FORMS], 42 + i / 3 % 2, NULL);
      if (filters[i])
        fill(filters[i], i % 3, 20);
    }
    assert_answers_of_all(filters, MOST);
    destroy(filters, MOST);
  }
}

/* All but one filter of a block are alike.  (Words of filters of one form are alike, too.) */
static tamis_filter *make_other(const struct form *usual, unsigned what, bool is_other)
{
  struct form wide = *usual;
  wide.fpp = 0.2;
  switch (what) {
  case 0:
    return make(usual, 42 + is_other, NULL);
  case 1:
    return make(is_other ? &wide : usual, 42, NULL);
  case 2:
    return make(usual, 42, is_other ? &contexts[0] : NULL);
  case 3:
    return make(usual, 42, &contexts[is_other]);
  case 4:
    return is_other ? NULL : make(usual, 42, NULL);
  case 5:
    return make_for(usual, 42, NULL, is_other ? 100 * KEYS : KEYS);
  default:
    return make(&forms[is_other], 42, NULL);
  }
}

static void one_filter_of_a_block_is_another(void **state)
{
  (void) state;
  static const struct form usual[] = {{TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 0.01, true, 0},
                                      {TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, 0.01, true, 0},
                                      {TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, 0.01, false, 0}};
  for (unsigned form = 0; form < 3; form++)
    for (unsigned what = 0; what < 7; what++)
      for (size_t other = 0; other < 2 * EACH_BLOCK; other++) {
        tamis_filter *filters[2 * EACH_BLOCK];
        for (size_t i = 0; i < 2 * EACH_BLOCK; i++) {
          filters[i] = make_other(&usual[form], what, i == other);
          if (filters[i])
            fill(filters[i], i % 3, 20);
        }
        assert_answers_of_all(filters, 2 * EACH_BLOCK);
        destroy(filters, 2 * EACH_BLOCK);
      }
}

static void filters_that_are_mapped_and_shared(void **state)
{
  (void) state;
  tamis_filter *filters[MOST];
  for (size_t i = 0; i < MOST; i++) {
    static const struct form bloom = {TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 0.01, true, 0};
    static const struct form cuckoo = {TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, 0.01, false, 0};
    tamis_options o = TAMIS_OPTIONS_INIT;
    o.capacity = KEYS, o.seed = 42, o.max_bytes = 1 << 20;
    if (i % 4 == 3) {
      assert_int_equal(tamis_open_shared(&o, NULL, &filters[i]), TAMIS_OK);
      fill(filters[i], i % 3, i % 8 == 3 ? 20 : 3 * KEYS);
      continue;
    }
    tamis_filter *f = make(i % 4 == 2 ? &cuckoo : &bloom, 42, NULL);
    fill(f, i % 3, i % 4 == 1 ? 3 * KEYS : 20);
    assert_int_equal(tamis_save_file(f, shared_path), TAMIS_OK);
    tamis_destroy(f);
    assert_int_equal(tamis_map_file(NULL, shared_path, &filters[i]), TAMIS_OK);
    assert_int_equal(unlink(shared_path), 0);
  }
  assert_answers_of_all(filters, MOST);
  destroy(filters, MOST);
}

static void a_hash_is_one_in_all(void **state)
{
  (void) state;
  tamis_filter *filters[MOST];
  bool found[MOST];
  for (size_t i = 0; i < MOST; i++)
    fill(filters[i] = make(&forms[i % FORMS], 42, NULL), i % 3, 20);
  for (uint64_t key = 0; key < 60; key++) {
    uint64_t hash = tamis_hash(filters[0], &key, sizeof key);
    size_t hits =
        tamis_contains_each_hash((const tamis_filter *const *) filters, MOST, hash, found);
    for (size_t i = 0; i < MOST; hits -= found[i++])
      assert_int_equal(found[i], tamis_contains(filters[i], &key, sizeof key));
    assert_int_equal(hits, 0);
  }
  destroy(filters, MOST);
}

static void several_keys_have_a_row_each(void **state)
{
  (void) state;
  enum { FILTERS = 11, MANY = 2 * FILTER_GROUP + 3 };
  tamis_filter *filters[FILTERS];
  uint64_t numbers[MANY];
  tamis_key keys[MANY];
  static unsigned char found[MANY * FILTERS + 1];
  for (size_t i = 0; i < FILTERS; i++) {
    filters[i] = i == 4 ? NULL : make(&forms[i % FORMS], 42 + (i > 7), NULL);
    if (!filters[i])
      continue;
    fill(filters[i], i % 3, 40);
    assert_int_equal(tamis_add(filters[i], NULL, 0), TAMIS_OK);
  }
  for (size_t k = 0; k < MANY; k++)
    numbers[k] = k, keys[k] = (tamis_key){&numbers[k], sizeof numbers[k]};
  keys[5] = (tamis_key){NULL, 3};
  keys[6] = (tamis_key){NULL, 0};
  for (size_t n = 0; n <= MANY; n++) {
    memset(found, UNTOUCHED, sizeof found);
    size_t hits = tamis_contains_each_many((const tamis_filter *const *) filters, FILTERS, keys, n,
                                           (bool *) found);
    assert_int_equal(
        tamis_contains_each_many((const tamis_filter *const *) filters, FILTERS, keys, n, NULL),
        hits);
    for (size_t k = 0; k < n; k++)
      for (size_t i = 0; i < FILTERS; hits -= found[k * FILTERS + i++])
        assert_int_equal(found[k * FILTERS + i],
                         tamis_contains(filters[i], keys[k].data, keys[k].len));
    assert_int_equal(hits, 0);
    assert_int_equal(found[n * FILTERS], UNTOUCHED);
  }
  destroy(filters, FILTERS);
}

static void invalid_arguments_find_nothing(void **state)
{
  (void) state;
  tamis_filter *f = make(&forms[2], 42, NULL);
  const tamis_filter *filters[3] = {f, NULL, f};
  const tamis_key key = {"x", 1};
  bool found[3] = {true, true, true};
  assert_int_equal(tamis_add(f, "x", 1), TAMIS_OK);
  assert_int_equal(tamis_add(f, NULL, 0), TAMIS_OK);
  assert_int_equal(tamis_contains_each(filters, 3, NULL, 1, found), 0);
  assert_false(found[0] || found[1] || found[2]);
  assert_int_equal(tamis_contains_each(filters, 3, NULL, 0, found), 2);
  assert_true(found[0] && !found[1] && found[2]);
  assert_int_equal(tamis_contains_each(NULL, 3, "x", 1, found), 0);
  assert_false(found[0] || found[1] || found[2]);
  assert_int_equal(tamis_contains_each(NULL, 0, "x", 1, NULL), 0);
  assert_int_equal(tamis_contains_each(filters, 0, "x", 1, found), 0);
  assert_int_equal(tamis_contains_each_hash(NULL, 3, 1, found), 0);
  assert_int_equal(tamis_contains_each_many(filters, 3, NULL, 1, found), 0);
  assert_int_equal(tamis_contains_each_many(filters, 3, &key, 0, found), 0);
  assert_int_equal(tamis_contains_each_many(filters, 3, &key, 1, found), 2);
  tamis_destroy(f);
}

/* A thread adds each key to a filter of its own first, and then to the common ones, which grow all
 * the time; another one asks for keys whose add has returned. */
enum { COMMON = 2 * EACH_BLOCK, ADDED = 60000 / SCALE };

static struct {
  tamis_filter *filters[COMMON];
  _Atomic uint64_t added;
} growing;

static void *add_to_all(void *unused)
{
  (void) unused;
  for (uint64_t key = 0; key < ADDED; key++) {
    for (size_t i = 0; i < COMMON; i++)
      if (tamis_add(growing.filters[i], &key, sizeof key) != TAMIS_OK)
        return &growing;
    atomic_store_explicit(&growing.added, key + 1, memory_order_release);
  }
  return NULL;
}

static void keys_are_found_while_filters_grow(void **state)
{
  (void) state;
  static const struct form kinds[] = {{TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, 0.01, true, 0},
                                      {TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, 0.01, true, 0}};
  pthread_t thread;
  void *failed;
  bool found[COMMON];
  size_t missed = 0;
  for (size_t i = 0; i < COMMON; i++)
    growing.filters[i] = make(&kinds[i >= EACH_BLOCK && i % 2], 42, NULL);
  atomic_store_explicit(&growing.added, 0, memory_order_relaxed);
  assert_int_equal(pthread_create(&thread, NULL, add_to_all, NULL), 0);
  for (uint64_t n = 0, asked = 0; n < ADDED; asked += 7919) {
    n = atomic_load_explicit(&growing.added, memory_order_acquire);
    uint64_t key = n ? asked % 2 ? n - 1 : asked % n : 0;
    if (n)
      missed += COMMON - tamis_contains_each((const tamis_filter *const *) growing.filters, COMMON,
                                             &key, sizeof key, found);
  }
  assert_int_equal(pthread_join(thread, &failed), 0);
  assert_null(failed);
  assert_int_equal(missed, 0);
  destroy(growing.filters, COMMON);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_number_of_filters_of_every_form),
      cmocka_unit_test(filters_that_have_grown),
      cmocka_unit_test(forms_seeds_and_gaps_are_mixed),
      cmocka_unit_test(one_filter_of_a_block_is_another),
      cmocka_unit_test_setup_teardown(filters_that_are_mapped_and_shared, set_up, tear_down),
      cmocka_unit_test(a_hash_is_one_in_all),
      cmocka_unit_test(several_keys_have_a_row_each),
      cmocka_unit_test(invalid_arguments_find_nothing),
      TEST_WITH_THREADS(keys_are_found_while_filters_grow),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
