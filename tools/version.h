/* SPDX-License-Identifier: MIT */
#ifndef TAMIS_TOOL_VERSION_H
#define TAMIS_TOOL_VERSION_H

/* Prints the version, and in further lines what was built in: what a report of a bug should say. */
void version_print(void);

#endif
