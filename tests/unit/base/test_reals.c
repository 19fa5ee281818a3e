/* SPDX-License-Identifier: MIT
 *
 * The exponentials and logarithms of plans: next to those of libm, and to the bit.
 */
#include "unit.h"

#include "base/hash.h"
#include "base/reals.h"

#include <math.h>

/* How far off a result may be, in units of its last place: libm's own error is below one. */
static const double most_units = 3;

static void assert_near(double actual, double expected)
{
  if (actual == expected || (isnan(actual) && isnan(expected)))
    return;
  double unit = nextafter(fabs(expected), INFINITY) - fabs(expected);
  if (fabs(actual - expected) > most_units * unit)
    fail_msg("%a instead of %a", actual, expected);
}

/* A number of any sign from 2^-powers to 2^powers, by exact arithmetic. */
static double draw(uint64_t i, unsigned powers)
{
  uint64_t hash = hash_spread(i + 1);
  double part = 1 + (double) (hash >> 12) * 0x1p-52;
  return ldexp(i % 2 ? -part : part, (int) (hash % (2 * powers)) - (int) powers);
}

TEST(they_are_those_of_libm)
{
  for (uint64_t i = 0; i < 200000; i++) {
    double any = draw(i, 60), moderate = fmod(draw(i, 9), 700);
    assert_near(real_exp(moderate), exp(moderate));
    assert_near(real_expm1(any < 700 ? any : 1 / any), expm1(any < 700 ? any : 1 / any));
    assert_near(real_log(fabs(any)), log(fabs(any)));
    assert_near(real_log2(fabs(any)), log2(fabs(any)));
    if (any > -1)
      assert_near(real_log1p(any), log1p(any));
  }
  for (int power = -1022; power < 1024; power++)
    assert_true(real_log2(ldexp(1, power)) == power);
  assert_near(real_power(0.7, 13), pow(0.7, 13));
  assert_true(real_power(0.7, 0) == 1 && real_factorial(0) == 1 && real_factorial(10) == 3628800);
  assert_near(real_factorial(49), tgamma(50));
}

TEST(they_have_the_same_ends)
{
  static const double ends[] = {0.0,   -0.0,   1,      -1,       710,      -746,
                                1e300, -1e300, 5e-324, INFINITY, -INFINITY};
  for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++) {
    assert_near(real_exp(ends[i]), exp(ends[i]));
    assert_near(real_expm1(ends[i]), expm1(ends[i]));
    assert_near(real_log(ends[i]), log(ends[i]));
    assert_near(real_log1p(ends[i]), log1p(ends[i]));
  }
  assert_true(isnan(real_exp(NAN)) && isnan(real_log(NAN)) && isnan(real_log1p(NAN)));
}

/* Sums of the bits of many results, which every machine has. */
TEST(they_are_the_same_everywhere)
{
  uint64_t sum = 0;
  for (uint64_t i = 0; i < 20000; i++) {
    double x = draw(i, 8), results[] = {real_exp(x), real_expm1(x), real_log(fabs(x)),
                                        real_log1p(fabs(x)), real_log2(fabs(x))};
    for (unsigned j = 0; j < sizeof results / sizeof *results; j++) {
      uint64_t bits;
      memcpy(&bits, &results[j], sizeof bits);
      sum = hash_spread(sum ^ bits) + i;
    }
  }
  assert_int_equal(sum, UINT64_C(0x41c4bba599c86f41));
}
