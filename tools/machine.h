/* SPDX-License-Identifier: MIT */
#ifndef TAMIS_TOOL_MACHINE_H
#define TAMIS_TOOL_MACHINE_H

/* Prints what of the machine chooses code and sizes in the library, in lines like those of version_print().
 * Nothing in them says whose machine it is. */
void machine_print(void);

#endif
