/* SPDX-License-Identifier: MIT
 *
 * Layer 0: exponentials and logarithms whose results have the same bits on every machine.
 *
 * A geometry is computed with real numbers, and must come out the same in a replica, after a
 * restart, and for the next layer.  The last bits of libm's results differ between libraries, and
 * even between processors.  The functions here use only additions, multiplications and divisions of
 * IEEE 754, which every machine rounds alike.  (The build contracts no two of them to one:
 * CMakeLists.txt.)  The error is below two units in the last place.
 *
 * From libm, plans use only functions that IEEE 754 defines to the last bit: sqrt, floor, ceil,
 * round, rint, fmin, fmax, ldexp, frexp, nextafter.
 */
#ifndef TAMIS_LIB_BASE_REALS_H
#define TAMIS_LIB_BASE_REALS_H

double real_exp(double x);
double real_expm1(double x);
double real_log(double x);
double real_log1p(double x);
double real_log2(double x); /* exact if x is a power of two */
double real_power(double x, unsigned n);
double real_factorial(unsigned n);

#endif /* TAMIS_LIB_BASE_REALS_H */
