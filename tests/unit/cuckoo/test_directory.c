/* SPDX-License-Identifier: MIT
 *
 * The directory of a generation, and the arrays of its roots.
 */
#include "unit.h"

#include "cuckoo_unit.h"

/* In generations of few and of many roots, first ones and later ones. */
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(indices_lead_to_the_array_of_their_root),
      cmocka_unit_test(a_segment_has_the_stripes_of_its_children),
  };
  return cmocka_run_group_tests_name("cuckoo_directory", tests, NULL, NULL);
}
