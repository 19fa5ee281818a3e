/* SPDX-License-Identifier: MIT
 *
 * A program that was built with this version's header, and a library of a later version whose
 * structs have more fields (CMakeLists.txt makes it): the library serves the program, and never
 * touches what the program's structs do not have.
 */
#include "unit.h"

enum { BEYOND = 64 };

static void assert_untouched(const unsigned char *beyond)
{
  for (unsigned i = 0; i < BEYOND; i++)
    assert_int_equal(beyond[i], 0xA5);
}

TEST(a_later_library_initialises_the_first_fields)
{
  struct {
    tamis_options options;
    unsigned char beyond[BEYOND];
  } o;
  struct {
    tamis_stats stats;
    unsigned char beyond[BEYOND];
  } s;
  memset(&o, 0xA5, sizeof o);
  memset(&s, 0xA5, sizeof s);
  tamis_options_init(&o.options);
  tamis_stats_init(&s.stats);
  assert_untouched(o.beyond);
  assert_untouched(s.beyond);
  assert_int_equal(o.options.struct_size, sizeof o.options);
  assert_int_equal(s.stats.struct_size, sizeof s.stats);

  o.options.capacity = 1000;
  tamis_filter *f;
  assert_int_equal(tamis_options_check(&o.options, NULL, 0), TAMIS_OK);
  assert_int_equal(tamis_create(&o.options, &f), TAMIS_OK);
  assert_int_equal(tamis_add(f, "k", 1), TAMIS_OK);
  assert_int_equal(tamis_get_stats(f, &s.stats), TAMIS_OK);
  assert_int_equal(s.stats.struct_size, sizeof s.stats);
  assert_int_equal(s.stats.count, 1);
  assert_untouched(s.beyond);
  tamis_destroy(f);
}

static int write_nothing(void *context, const void *data, size_t size)
{
  (void) context, (void) data, (void) size;
  return 1;
}

static int64_t read_nothing(void *context, void *data, size_t size)
{
  (void) context, (void) data, (void) size;
  return 0;
}

TEST(a_later_library_serves_those_who_load_and_compare)
{
  struct {
    tamis_load_options options;
    unsigned char beyond[BEYOND];
  } o;
  struct {
    tamis_similarity_stats stats;
    unsigned char beyond[BEYOND];
  } s;
  memset(&o, 0xA5, sizeof o);
  memset(&s, 0xA5, sizeof s);
  tamis_load_options_init(&o.options);
  tamis_similarity_stats_init(&s.stats);
  assert_untouched(o.beyond);
  assert_untouched(s.beyond);
  assert_int_equal(o.options.struct_size, sizeof o.options);
  assert_int_equal(s.stats.struct_size, sizeof s.stats);
  tamis_filter *f;
  assert_int_equal(tamis_load(&o.options, read_nothing, NULL, &f), TAMIS_ECORRUPT);
  o.options.struct_size--;
  assert_int_equal(tamis_load(&o.options, read_nothing, NULL, &f), TAMIS_EINVAL);
  f = make_filter(TAMIS_LAYOUT_BLOCKED, 100, 0.01);
  assert_int_equal(tamis_save(f, write_nothing, NULL), TAMIS_EIO);
  assert_int_not_equal(tamis_similarity(f, f, &s.stats), TAMIS_EINVAL);
  assert_untouched(s.beyond);
  tamis_destroy(f);
}

/* What an older struct lacks is zero, whatever stands behind it; smaller ones than the first are
 * refused. */
TEST(a_later_library_reads_the_first_fields)
{
  struct {
    tamis_options options;
    unsigned char beyond[BEYOND];
  } o = {.options = TAMIS_OPTIONS_INIT};
  memset(o.beyond, 0xA5, sizeof o.beyond);
  o.options.capacity = 1000;
  tamis_filter *f;
  assert_int_equal(tamis_create(&o.options, &f), TAMIS_OK);
  tamis_destroy(f);
  o.options.struct_size--;
  assert_int_equal(tamis_create(&o.options, &f), TAMIS_EINVAL);
  /* as a program that is newer still */
  o.options.struct_size = sizeof o;
  assert_int_equal(tamis_create(&o.options, &f), TAMIS_EUNSUPPORTED);
  memset(o.beyond, 0, sizeof o.beyond);
  assert_int_equal(tamis_create(&o.options, &f), TAMIS_OK);
  tamis_destroy(f);
}
