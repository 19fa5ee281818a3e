/* SPDX-License-Identifier: MIT
 *
 * What the options of both programs have in common.
 */
#ifndef CONSUMERS_OPTIONS_H
#define CONSUMERS_OPTIONS_H

#include <argp.h>

/* The number that an option has; whatever else stands there ends the program with a message. */
double option_number(const char *text, double least, double most, struct argp_state *state);

#endif /* CONSUMERS_OPTIONS_H */
