/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <stdlib.h>

double option_number(const char *text, double least, double most, struct argp_state *state)
{
  char *end;
  errno = 0;
  double value = strtod(text, &end);
  if (errno != 0 || end == text || *end != 0 || !(value >= least && value <= most))
    argp_error(state, "%s is not a number from %g to %g", text, least, most);
  return value;
}
