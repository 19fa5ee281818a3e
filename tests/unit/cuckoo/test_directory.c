/* SPDX-License-Identifier: MIT
 *
 * The directory of a generation, and the arrays of its roots.
 */
#include "unit.h"

#include "cuckoo_unit.h"

/* ---- indices and stripes, in generations of few and of many roots, first ones and later ones ---- */

static void for_each_shape(void (*check)(struct generation *generation))
{
  for (unsigned roots = 1; roots <= 5; roots++)
    for (unsigned shift = 0; shift < 3; shift++)
      for (unsigned depth = 1; depth < 6; depth++)
        for (unsigned uneven_at = 0; uneven_at <= depth; uneven_at++) { /* depth: no split is */
          struct generation generation = {.number = 0};
          generation.geometry.first_roots = roots;
          generation.geometry.root_shift = (uint8_t) shift;
          generation.geometry.depth_limit = (uint8_t) depth;
          generation.geometry.uneven_at = (uint8_t) uneven_at;
          check(&generation);
        }
}

/* The number of an index in an array: the first bits without the class, which is the last bit. */
static uint64_t number_of(const struct cuckoo_geometry *g, uint64_t index, unsigned bits)
{
  const unsigned after = g->depth_limit - g->uneven_at; /* the bits from the class on */
  uint64_t path = index % (UINT64_C(1) << g->depth_limit);
  uint64_t class = after ? path >> (after - 1) & 1 : 0;
  if (after)
    path = path >> after << (after - 1) | path % (UINT64_C(1) << (after - 1));
  return (path << bits >> (g->depth_limit - (after > 0))) * 2 + class;
}

/* Each index leads to the entry that the first bits of a fingerprint, and the class, number in the array
 * of its root. */
static void check_indices(struct generation *generation)
{
  enum { MAX_ROOTS = 20, MAX_BITS = 5 };
  struct directory_array *arrays[MAX_ROOTS];
  static _Alignas(16) char segments[MAX_ROOTS][2 << MAX_BITS][16];
  static directory_entry words[MAX_ROOTS];
  const struct cuckoo_geometry *g = &generation->geometry;
  generation->directory = words;
  assert_true(cuckoo_roots(g) <= MAX_ROOTS);
  for (unsigned bits = 1; bits <= g->depth_limit; bits++) {
    for (uint64_t root = 0; root < cuckoo_roots(g); root++) {
      arrays[root] = aligned_alloc(_Alignof(struct directory_array), directory_array_bytes(bits));
      assert_non_null(arrays[root]);
      directory_init(&words[root], directory_value_of_array(arrays[root], bits));
      for (unsigned i = 0; i < 2U << bits; i++)
        directory_init(&arrays[root]->entry[i], segments[root][i]);
    }
    for (uint64_t i = 0; i < cuckoo_directory_size(g); i++)
      assert_ptr_equal(directory_at(generation, i),
                       segments[i >> g->depth_limit][number_of(g, i, bits)]);
    for (uint64_t root = 0; root < cuckoo_roots(g); root++)
      free(arrays[root]);
  }
}

static void indices_lead_to_the_array_of_their_root(void **state)
{
  (void) state;
  for_each_shape(check_indices);
}

/* The stripes of a segment are those of its children, and those of all segments of a root are the
 * root's.  A segment without children has one. */
static void check_stripes(struct generation *generation)
{
  struct cuckoo_growth growth;
  struct cuckoo c = {.growable = true, .growth = &growth};
  const struct cuckoo_geometry *g = &generation->geometry;
  for (uint64_t i = 0; i < cuckoo_directory_size(g); i++)
    for (unsigned depth = 0; depth <= g->depth_limit; depth++) {
      struct growth_stripes held = growth_stripes_of(&c, generation, i, depth);
      struct directory_range range = directory_range_of(g, i, depth);
      bool covered[GROWTH_STRIPES] = {false};
      assert_true(held.first >= growth.stripe &&
                  held.first + held.count <= growth.stripe + GROWTH_STRIPES);
      for (uint64_t j = range.first; j < range.first + range.count; j++) {
        struct growth_stripes one = growth_stripes_of(&c, generation, j, g->depth_limit);
        assert_int_equal(one.count, 1);
        assert_true(one.first >= held.first && one.first < held.first + held.count);
        covered[one.first - held.first] = true;
      }
      for (unsigned j = 0; j < held.count; j++)
        assert_true(covered[j]);
    }
}

static void a_segment_has_the_stripes_of_its_children(void **state)
{
  (void) state;
  for_each_shape(check_stripes);
}

/* ---- a filter of one root ---- */

static struct generation *first_of(tamis_filter *f)
{
  return cuckoo_generation(cuckoo_of(f), 0);
}

/* What the root leads to. */
struct view {
  unsigned bits;
  directory_value entry[2 << 9];
};

static void look(tamis_filter *f, struct view *view)
{
  struct generation *generation = first_of(f);
  directory_value root = directory_load(root_entry(generation, 0));
  const struct directory_array *array = directory_array_of(root, &view->bits);
  assert_in_range(generation->geometry.depth_limit, 1, 10);
  for (unsigned i = 0; i < 2U << view->bits; i++)
    view->entry[i] = array ? directory_load(&array->entry[i]) : root;
}

/* The k that the deepest segment needs, as the first split goes by the class. */
static unsigned bits_needed(const struct view *view)
{
  unsigned depth = 0;
  for (unsigned i = 0; i < 2U << view->bits; i++)
    depth = directory_depth(view->entry[i]) > depth ? directory_depth(view->entry[i]) : depth;
  return depth > 1 ? depth - 1 : depth;
}

/* Between the two views one segment has split: the array is as large as before or twice as large, and
 * leads elsewhere for the keys of this segment only. */
static void assert_one_has_split(const struct view *before, const struct view *after)
{
  unsigned doubled = after->bits - before->bits;
  directory_value split = NULL;
  assert_in_range(doubled, 0, 1);
  for (unsigned i = 0; i < 2U << after->bits; i++) {
    directory_value old = before->entry[(i / 2 >> doubled) * 2 + i % 2], new = after->entry[i];
    if (old == new)
      continue;
    assert_true(!split || split == old);
    assert_int_equal(directory_depth(new), directory_depth(old) + 1);
    split = old;
  }
  assert_non_null(split);
}

/* An array is as large as its deepest segments need, while the filter grows and while it shrinks. */
static void arrays_double_and_halve(void **state)
{
  (void) state;
  enum { N = 10000 };
  tamis_filter *f = make(100, 0.01);
  struct view view, before;
  unsigned doubled = 0, halved = 0;
  look(f, &before);
  for (uint64_t key = 0; key < N; key++, before = view) {
    uint64_t growths = stats_of(f).growths;
    assert_int_equal(tamis_add_hash(f, key), TAMIS_OK);
    look(f, &view);
    assert_int_equal(view.bits, bits_needed(&view));
    if (stats_of(f).growths == growths + 1)
      assert_one_has_split(&before, &view);
    doubled += view.bits == before.bits + 1;
  }
  assert_in_range(doubled, 6, 9);
  assert_int_equal(view.bits, doubled);
  for (uint64_t key = 0; key < N; key++, before = view) {
    assert_int_equal(tamis_remove_hash(f, key), TAMIS_OK);
    look(f, &view);
    assert_int_equal(view.bits, bits_needed(&view));
    halved += view.bits < before.bits;
    if (key % 100 == 0)
      assert_valid(f);
  }
  assert_in_range(halved, 1, doubled);
  tamis_destroy(f);
}

/* When the last siblings have joined, the root's word leads to the segment, and the array's memory
 * comes back. */
static void the_last_join_brings_back_the_word_of_the_root(void **state)
{
  (void) state;
  struct bank bank = {0};
  const tamis_allocator allocator = {bank_allocate, bank_release, &bank};
  tamis_options options = options_for(100, 0.01);
  options.allocator = &allocator;
  tamis_filter *f = make_with(&options);
  const uint64_t segment = cuckoo_segment_bytes(&first_of(f)->geometry);
  const uint64_t least = bank.bytes + sizeof(struct cuckoo_growth) + segment;
  for (unsigned round = 0; round < 3; round++) {
    struct view view;
    add_range(f, 0, 150);
    look(f, &view);
    assert_in_range(view.bits, 1, 2);
    remove_range(f, 0, 150);
    look(f, &view);
    assert_int_equal(view.bits, 0);
    assert_int_equal(directory_segment(view.entry[0])->depth, 0);
    assert_valid(f);
    double end = harness_seconds() + PATIENCE_SECONDS;
    while (stats_of(f).bytes > least && harness_seconds() < end)
      usleep(1000);
    assert_true(stats_of(f).bytes <= least);
    assert_bytes(f, &bank);
  }
  tamis_destroy(f);
  assert_int_equal(bank.blocks, 0);
}

/* The next key from *key on of a class. */
static uint64_t next_key(tamis_filter *f, bool class, uint64_t *key)
{
  const struct cuckoo_geometry *g = &first_of(f)->geometry;
  while (cuckoo_address(g, hash_mix(&f->keys, *key)).class != class)
    ++*key;
  return (*key)++;
}

/* Small siblings join, however deep the segments of other keys are. */
static void siblings_are_found_in_an_array_of_any_size(void **state)
{
  (void) state;
  tamis_filter *f = make(100, 0.01);
  const uint64_t half = cuckoo_directory_size(&first_of(f)->geometry) / 2;
  uint64_t deep = 0;
  for (unsigned bits = 2; bits <= 6; bits++) {
    struct view view;
    uint64_t key = 1000000, n = 0;
    static uint64_t shallow[1000];
    do {
      assert_int_equal(tamis_add_hash(f, next_key(f, 0, &deep)), TAMIS_OK);
      look(f, &view);
    } while (view.bits < bits);
    while (directory_depth(directory_at(first_of(f), half)) < 2) {
      assert_true(n < 1000);
      shallow[n] = next_key(f, 1, &key);
      assert_int_equal(tamis_add_hash(f, shallow[n++]), TAMIS_OK);
    }
    look(f, &view);
    assert_int_equal(view.bits, bits);
    while (n > 0)
      assert_int_equal(tamis_remove_hash(f, shallow[--n]), TAMIS_OK);
    look(f, &view);
    assert_int_equal(view.bits, bits);
    assert_int_equal(directory_depth(directory_at(first_of(f), half)), 1);
    assert_valid(f);
  }
  for (uint64_t key = 0; key < deep;)
    assert_true(tamis_contains_hash(f, next_key(f, 0, &key)));
  tamis_destroy(f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(indices_lead_to_the_array_of_their_root),
      cmocka_unit_test(a_segment_has_the_stripes_of_its_children),
      cmocka_unit_test(arrays_double_and_halve),
      cmocka_unit_test(the_last_join_brings_back_the_word_of_the_root),
      cmocka_unit_test(siblings_are_found_in_an_array_of_any_size),
  };
  return cmocka_run_group_tests_name("cuckoo_directory", tests, NULL, NULL);
}
