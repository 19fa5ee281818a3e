/* SPDX-License-Identifier: MIT
 *
 * tamis_options_check(): every reason for which options are refused, in words that help.
 */
#include "unit.h"

#include "base/refusal.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>

static tamis_options good_options(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000;
  return options;
}

/* What tamis_create() says.  It gets no memory, so TAMIS_ENOMEM is that nothing is wrong. */
static int created(tamis_options options)
{
  tamis_filter *f;
  if (!options.allocator)
    options.allocator = &without_memory;
  int result = tamis_create(&options, &f);
  assert_null(f);
  return result == TAMIS_ENOMEM ? TAMIS_OK : result;
}

static char why[400];

static void assert_refused(const tamis_options *o, int result, const char *field, const char *range)
{
  assert_int_equal(tamis_options_check(o, why, sizeof why), result);
  if (strncmp(why, field, strlen(field)) != 0 || !strstr(why, range) || strchr(why, '\n'))
    fail_msg("'%s' is not '%s ... %s'", why, field, range);
  uint64_t bytes = 7;
  if (o)
    assert_int_equal(created(*o), result);
  assert_int_equal(tamis_bytes_for(o, &bytes), result == TAMIS_EFULL ? TAMIS_OK : result);
  assert_true(result == TAMIS_EFULL || bytes == 7);
}

TEST(every_reason_has_words)
{
  tamis_options o;
  assert_refused(NULL, TAMIS_EINVAL, "options is NULL;", "must point");
#define REFUSED(result, field, range, ...)            \
  do {                                                \
    o = good_options();                               \
    __VA_ARGS__;                                      \
    assert_refused(&o, TAMIS_##result, field, range); \
  } while (0)
  char sizes[40];
  snprintf(sizes, sizeof sizes, "from %zu to 4096", sizeof o);
  REFUSED(EINVAL, "struct_size is 0;", sizes, o.struct_size = 0);
  REFUSED(EINVAL, "struct_size is 8;", "TAMIS_OPTIONS_INIT", o.struct_size = 8);
  REFUSED(EINVAL, "struct_size is 4097;", "tamis_options_init()", o.struct_size = 4097);
  REFUSED(EINVAL, "kind is 0;", "1 (TAMIS_BLOOM) or 2 (TAMIS_CUCKOO) or 3 (TAMIS_COUNTING_BLOOM)",
          o.kind = (tamis_kind) 0);
  REFUSED(EINVAL, "kind is 99;", "1 (TAMIS_BLOOM) or 2 (TAMIS_CUCKOO) or 3 (TAMIS_COUNTING_BLOOM)",
          o.kind = (tamis_kind) 99);
  REFUSED(EINVAL, "layout is 7;",
          "0 (TAMIS_LAYOUT_BLOCKED) or 1 (TAMIS_LAYOUT_CLASSIC) or 2 (TAMIS_LAYOUT_WORD)",
          o.layout = (tamis_layout) 7);
  REFUSED(EINVAL, "stripes is 4097;", "from 0 to 4096", o.stripes = 4097);
  REFUSED(EINVAL, "fpp is 0;", "above 0 and below 1", o.fpp = 0);
  REFUSED(EINVAL, "fpp is 1;", "above 0 and below 1", o.fpp = 1);
  REFUSED(EINVAL, "fpp is 1.0000000000000002;", "below 1", o.fpp = 1 + 0x1p-52);
  REFUSED(EINVAL, "fpp is -0.25;", "above 0 and below 1", o.fpp = -0.25);
  REFUSED(EINVAL, "fpp is inf;", "above 0 and below 1", o.fpp = (double) INFINITY);
  REFUSED(EINVAL, "fpp is nan;", "above 0 and below 1", o.fpp = (double) NAN);
  REFUSED(EINVAL, "capacity is 0;", "from 1 to ", o.capacity = 0);
  REFUSED(EINVAL, "capacity is 18446744073709551615;", "from 1 to ", o.capacity = UINT64_MAX);
  REFUSED(EINVAL, "capacity is 1152921504606846976;", "from 1 to ", o.kind = TAMIS_CUCKOO,
          o.capacity = UINT64_C(1) << 60);
  REFUSED(EUNSUPPORTED, "fpp is 1e-18;", "a Bloom filter for 1000 keys needs at least 2.17e-16",
          o.fpp = 1e-18);
  REFUSED(EUNSUPPORTED, "fpp is 0.0001;",
          "a Bloom filter of the word layout for 1000000 keys needs at least 0.000144",
          o.layout = TAMIS_LAYOUT_WORD, o.capacity = 1000000, o.fpp = 1e-4);
  REFUSED(EUNSUPPORTED, "fpp is 2.5e-08;",
          "a cuckoo filter that grows for 1000 keys needs at least 3e-08", o.kind = TAMIS_CUCKOO,
          o.fpp = 2.5e-8);
  REFUSED(EUNSUPPORTED, "fpp is 1e-11;", "that does not grow for 1000 keys needs at least 9.32e-10",
          o.kind = TAMIS_CUCKOO, o.growable = false, o.fpp = 1e-11);
  REFUSED(EUNSUPPORTED, "fpp is 1e-06;",
          "a counting Bloom filter for 1000 keys needs at least 1e-05",
          o.kind = TAMIS_COUNTING_BLOOM, o.fpp = 1e-6);
  REFUSED(EUNSUPPORTED, "layout is 1;", "of a counting Bloom filter it must be 0",
          o.kind = TAMIS_COUNTING_BLOOM, o.layout = TAMIS_LAYOUT_CLASSIC);
  /* Where no capacity would do, it is not the capacity that is to be mended. */
  REFUSED(EINVAL, "fpp is 1e-06;",
          "with this kind and layout it must be at least 1e-05, and below 1",
          o.kind = TAMIS_COUNTING_BLOOM, o.fpp = 1e-6, o.capacity = 0);
  REFUSED(EINVAL, "fpp is 1e-06;", "it must be at least 1e-05", o.kind = TAMIS_COUNTING_BLOOM,
          o.fpp = 1e-6, o.capacity = UINT64_MAX);
  REFUSED(EINVAL, "capacity is 0;", "from 1 to ", o.kind = TAMIS_COUNTING_BLOOM, o.fpp = 1e-5,
          o.capacity = 0);
  REFUSED(EINVAL, "fpp is 1e-06;", "with this kind and layout it must be at least ",
          o.layout = TAMIS_LAYOUT_WORD, o.fpp = 1e-6, o.capacity = 0);
  REFUSED(EINVAL, "capacity is 0;", "it must be at least 1", o.kind = TAMIS_COUNTING_BLOOM,
          o.layout = TAMIS_LAYOUT_CLASSIC, o.capacity = 0);
  REFUSED(EUNSUPPORTED, "layout is 1;", "of a counting Bloom filter it must be 0",
          o.kind = TAMIS_COUNTING_BLOOM, o.layout = TAMIS_LAYOUT_CLASSIC, o.capacity = UINT64_MAX);
  REFUSED(EFULL, "max_bytes is 1000;", "which these options need", o.max_bytes = 1000);
  REFUSED(EFULL, "max_bytes is 1;", "at least ", o.kind = TAMIS_CUCKOO, o.max_bytes = 1);
  REFUSED(EFULL, "max_bytes is 1000;", "at least ", o.stripes = 4096, o.max_bytes = 1000);
  REFUSED(EINVAL, "window is 65;", "from 0 to 64", o.window = 65);
  REFUSED(EINVAL, "window_renews is true;", "needs a window", o.window_renews = true);
  REFUSED(EUNSUPPORTED, "window is 3;", "(TAMIS_COUNTING_BLOOM) it must be 0",
          o.kind = TAMIS_COUNTING_BLOOM, o.window = 3);
  const tamis_allocator first_half = {no_memory, NULL, NULL},
                        second_half = {NULL, free_block, NULL};
  const tamis_allocator neither = {NULL, NULL, NULL};
  REFUSED(EINVAL, "allocator->release is NULL;", "both functions", o.allocator = &first_half);
  REFUSED(EINVAL, "allocator->allocate is NULL;", "both functions", o.allocator = &second_half);
  REFUSED(EINVAL, "allocator->allocate is NULL;", "both functions", o.allocator = &neither);
#undef REFUSED

  struct {
    tamis_options known;
    unsigned char unknown[16];
  } later = {.known = good_options()};
  later.known.struct_size = sizeof later;
  assert_int_equal(tamis_options_check(&later.known, why, sizeof why), TAMIS_OK);
  later.unknown[9] = 3;
  char byte[40];
  snprintf(byte, sizeof byte, "byte %zu of the options is 3", sizeof o + 9);
  assert_int_equal(tamis_options_check(&later.known, why, sizeof why), TAMIS_EUNSUPPORTED);
  assert_non_null(strstr(why, byte));
  assert_non_null(strstr(why, tamis_version()));
}

/* As much as there is room for, as snprintf() does. */
TEST(words_are_cut_to_their_room)
{
  tamis_options o = good_options();
  o.stripes = 5000;
  static const char words[] = "stripes is 5000; it must be from 0 to 4096";
  for (size_t size = 0; size <= sizeof words + 1; size++) {
    char room[sizeof words + 4];
    memset(room, '#', sizeof room);
    assert_int_equal(tamis_options_check(&o, room, size), TAMIS_EINVAL);
    size_t length = size == 0 ? 0 : size < sizeof words ? size - 1 : sizeof words - 1;
    assert_memory_equal(room, words, length);
    assert_true(size == 0 || room[length] == '\0');
    for (size_t i = size ? length + 1 : 0; i < sizeof room; i++)
      assert_int_equal(room[i], '#');
  }
  assert_int_equal(tamis_options_check(&o, NULL, 0), TAMIS_EINVAL);
  assert_int_equal(tamis_options_check(&o, NULL, 100), TAMIS_EINVAL);
  o.stripes = 0;
  char one = '#';
  assert_int_equal(tamis_options_check(&o, &one, 1), TAMIS_OK);
  assert_int_equal(one, '\0');
}

TEST(numbers_have_a_point_in_every_locale)
{
  const char *const numbers[][2] = {{"0,01", "0.01"},
                                    {"1,5e-08", "1.5e-08"},
                                    {"2\xd9\xab"
                                     "5",
                                     "2.5"},
                                    {"-1,5", "-1.5"},
                                    {"1e-08", "1e-08"},
                                    {"3", "3"},
                                    {"nan", "nan"},
                                    {"-inf", "-inf"}};
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    char text[20];
    strcpy(text, numbers[i][0]); /* NOLINT */
    tamis__use_a_point(text);
    assert_string_equal(text, numbers[i][1]);
  }
}

/* Does nothing where localedef cannot make a locale with a comma. */
TEST(bounds_are_the_same_in_every_locale)
{
  char folder[] = "/tmp/tamis-locale-XXXXXX", command[120];
  tamis_options o = good_options();
  o.layout = TAMIS_LAYOUT_WORD, o.fpp = 1e-9, o.capacity = 0;
  assert_int_equal(tamis_options_check(&o, why, sizeof why), TAMIS_EINVAL);
  assert_non_null(mkdtemp(folder));
  snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de >/dev/null 2>&1", folder);
  const bool made = system(command) == 0; /* NOLINT */
  setenv("LOCPATH", folder, 1);
  if (made && setlocale(LC_NUMERIC, "de")) {
    char here[sizeof why];
    assert_int_equal(tamis_options_check(&o, here, sizeof here), TAMIS_EINVAL);
    assert_string_equal(here, why);
    setlocale(LC_NUMERIC, "C");
  }
  unsetenv("LOCPATH");
  snprintf(command, sizeof command, "rm -rf %s", folder);
  assert_int_equal(system(command), 0); /* NOLINT */
}

/* The functions give what the macros give, in a struct whatever its contents were. */
TEST(functions_initialise_as_the_macros_do)
{
  struct {
    tamis_options options;
    unsigned char after_options[64];
    tamis_stats stats;
    unsigned char after_stats[64];
  } all;
  memset(&all, 0xA5, sizeof all);
  tamis_options_init(&all.options), tamis_stats_init(&all.stats);
  tamis_options_init(NULL), tamis_stats_init(NULL);
  const tamis_options *o = &all.options, macro = TAMIS_OPTIONS_INIT;
  assert_true(o->struct_size == sizeof macro && o->kind == macro.kind && o->fpp == macro.fpp);
  assert_true(o->growable == macro.growable && o->layout == macro.layout);
  assert_true(!o->capacity && !o->max_bytes && !o->seed && !o->stripes && !o->window);
  assert_true(!o->hash && !o->hash_context && !o->allocator && !o->cleared_from && !o->access);
  assert_int_equal(all.stats.struct_size, sizeof(tamis_stats));
  assert_true(all.stats.count == 0 && all.stats.segments == 0 && all.stats.occupancy == 0);
  for (unsigned i = 0; i < 64; i++)
    assert_true(all.after_options[i] == 0xA5 && all.after_stats[i] == 0xA5);
}
