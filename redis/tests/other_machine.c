/* SPDX-License-Identifier: MIT
 *
 * Another machine, for LD_PRELOAD: it has exponentials and logarithms that are much worse, and 64
 * cores.
 */
#include <dlfcn.h>
#include <sched.h>
#include <string.h>

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *mask)
{
  (void) pid;
  memset(mask, 0, size);
  for (size_t i = 0; i < 64; i++)
    CPU_SET_S(i, size, mask);
  return 0;
}

#define LARGER 1.001

#define ONE(name)                               \
  double name(double x);                        \
  double name(double x)                         \
  {                                             \
    double (*real)(double);                     \
    *(void **) &real = dlsym(RTLD_NEXT, #name); \
    return real(x) * LARGER;                    \
  }                                             \
  double name(double x)

ONE(exp);
ONE(exp2);
ONE(expm1);
ONE(log);
ONE(log2);
ONE(log1p);
ONE(tgamma);
ONE(lgamma);

double pow(double x, double y);
double pow(double x, double y)
{
  double (*real)(double, double);
  *(void **) &real = dlsym(RTLD_NEXT, "pow");
  return real(x, y) * LARGER;
}
