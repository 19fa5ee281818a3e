/* SPDX-License-Identifier: MIT */
#include "base/reals.h"

#include <math.h>

/* ln 2 in two parts.  The high part has 32 bits, so its product with an exponent is exact. */
static const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
static const double ln2 = 0x1.62e42fefa39efp-1, half_sqrt2 = 0x1.6a09e667f3bcdp-1;

/* For exp: above `highest` the result is infinite, and below `lowest` the result is 0. */
static const double highest = 709.79, lowest = -745.14;

/* Returns exp (x) - 1 for |x| <= ln 2 / 2 or a little more, by the power series. */
static double expm1_near_zero(double x)
{
  static const double inverse_factorials[] = {
      1 / 2.0,         1 / 6.0,          1 / 24.0,         1 / 120.0,     1 / 720.0,
      1 / 5040.0,      1 / 40320.0,      1 / 362880.0,     1 / 3628800.0, 1 / 39916800.0,
      1 / 479001600.0, 1 / 6227020800.0, 1 / 87178291200.0};
  double sum = 0;
  for (unsigned i = sizeof inverse_factorials / sizeof *inverse_factorials; i--;)
    sum = sum * x + inverse_factorials[i];
  return x + x * x * sum;
}

double real_exp(double x)
{
  if (!(x > lowest))
    return x <= lowest ? 0 : x;
  if (x > highest)
    return INFINITY;
  double power = rint(x / ln2);
  return ldexp(1 + expm1_near_zero(x - power * ln2_high - power * ln2_low), (int) power);
}

double real_expm1(double x)
{
  return fabs(x) < ln2 / 2 ? expm1_near_zero(x) : real_exp(x) - 1;
}

/* log (1 + x) for 1 + x from sqrt 2 / 2 to sqrt 2, by the series of 2 artanh (x / (2 + x)). */
static double log1p_near_zero(double x)
{
  double s = x / (2 + x), square = s * s, sum = 0;
  for (unsigned i = 23; i > 1; i -= 2)
    sum = sum * square + 1.0 / i;
  return 2 * s + 2 * s * (square * sum);
}

/* Returns m and sets *power so that x = m 2^*power, and m is from sqrt 2 / 2 to sqrt 2. */
static double split(double x, int *power)
{
  double m = frexp(x, power);
  if (m >= half_sqrt2)
    return m;
  *power -= 1;
  return 2 * m;
}

double real_log(double x)
{
  if (!(x > 0))
    return x == 0 ? -INFINITY : NAN;
  if (x == INFINITY)
    return x;
  int power;
  double m = split(x, &power);
  return power * ln2_high + (power * ln2_low + log1p_near_zero(m - 1));
}

double real_log1p(double x)
{
  if (fabs(x) < 0.25)
    return log1p_near_zero(x);
  double sum = 1 + x; /* the next line corrects the rounding error of this sum */
  return sum > 0 && sum < INFINITY ? real_log(sum) + (x - (sum - 1)) / sum : real_log(sum);
}

double real_log2(double x)
{
  if (!(x > 0) || x == INFINITY)
    return real_log(x);
  int power;
  double m = split(x, &power);
  return power + log1p_near_zero(m - 1) / ln2;
}

double real_power(double x, unsigned n)
{
  double power = 1;
  for (; n; n /= 2) {
    if (n % 2)
      power *= x;
    x *= x;
  }
  return power;
}

double real_factorial(unsigned n)
{
  double product = 1;
  for (unsigned i = 2; i <= n; i++)
    product *= i;
  return product;
}
