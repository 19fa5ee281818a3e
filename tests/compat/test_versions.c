/* SPDX-License-Identifier: MIT
 *
 * A program that was built with this version's header, and a library of a later version whose
 * structs have more fields (CMakeLists.txt makes it): the library serves the program, and never
 * touches what the program's structs do not have.
 */
#include "unit.h"

enum { BEYOND = 64 };

/* A struct of the program's, and what is none of it. */
#define WITH_BEYOND(type)         \
  struct {                        \
    type own;                     \
    unsigned char beyond[BEYOND]; \
  }

static void assert_untouched(const unsigned char *beyond)
{
  for (unsigned i = 0; i < BEYOND; i++)
    assert_int_equal(beyond[i], 0xA5);
}

#define INITIALISE(all, init)                                   \
  do {                                                          \
    memset(&(all), 0xA5, sizeof(all));                          \
    init(&(all).own);                                           \
    assert_untouched((all).beyond);                             \
    assert_int_equal((all).own.struct_size, sizeof((all).own)); \
  } while (0)

TEST(a_later_library_initialises_the_first_fields)
{
  WITH_BEYOND(tamis_options) o;
  WITH_BEYOND(tamis_stats) s;
  INITIALISE(o, tamis_options_init);
  INITIALISE(s, tamis_stats_init);

  o.own.capacity = 1000;
  tamis_filter *f;
  assert_int_equal(tamis_options_check(&o.own, NULL, 0), TAMIS_OK);
  assert_int_equal(tamis_create(&o.own, &f), TAMIS_OK);
  assert_int_equal(tamis_add(f, "k", 1), TAMIS_OK);
  assert_int_equal(tamis_get_stats(f, &s.own), TAMIS_OK);
  assert_int_equal(s.own.struct_size, sizeof s.own);
  assert_int_equal(s.own.count, 1);
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
  WITH_BEYOND(tamis_load_options) o;
  WITH_BEYOND(tamis_similarity_stats) s;
  INITIALISE(o, tamis_load_options_init);
  INITIALISE(s, tamis_similarity_stats_init);
  tamis_filter *f;
  assert_int_equal(tamis_load(&o.own, read_nothing, NULL, &f), TAMIS_ECORRUPT);
  o.own.struct_size--;
  assert_int_equal(tamis_load(&o.own, read_nothing, NULL, &f), TAMIS_EINVAL);
  f = make_filter(TAMIS_LAYOUT_BLOCKED, 100, 0.01);
  assert_int_equal(tamis_save(f, write_nothing, NULL), TAMIS_EIO);
  assert_int_not_equal(tamis_similarity(f, f, &s.own), TAMIS_EINVAL);
  assert_untouched(s.beyond);
  tamis_destroy(f);
}

/* What an older struct lacks is zero, whatever stands behind it; smaller ones than the first are
 * refused. */
TEST(a_later_library_reads_the_first_fields)
{
  WITH_BEYOND(tamis_options) o = {.own = TAMIS_OPTIONS_INIT};
  memset(o.beyond, 0xA5, sizeof o.beyond);
  o.own.capacity = 1000;
  tamis_filter *f;
  assert_int_equal(tamis_create(&o.own, &f), TAMIS_OK);
  tamis_destroy(f);
  o.own.struct_size--;
  assert_int_equal(tamis_create(&o.own, &f), TAMIS_EINVAL);
  /* as a program that is newer still */
  o.own.struct_size = sizeof o;
  assert_int_equal(tamis_create(&o.own, &f), TAMIS_EUNSUPPORTED);
  memset(o.beyond, 0, sizeof o.beyond);
  assert_int_equal(tamis_create(&o.own, &f), TAMIS_OK);
  tamis_destroy(f);
}
