/* SPDX-License-Identifier: MIT
 *
 * Who may open the file that a run writes a filter to: --mode and --group.
 */
#ifndef TAMIS_TOOL_ACCESS_H
#define TAMIS_TOOL_ACCESS_H

#include <tamis/tamis.h>

#include <argp.h>

/* Parses both options; they have no input. */
extern const struct argp access_argp;

/* What the options say; NULL if neither is given. */
const tamis_file_access *access_given(void);

#endif
