/* SPDX-License-Identifier: MIT
 *
 * The commands of the program.  Each gets its part of the command line, where argv[0] is the name
 * of the command, and returns an exit status.
 */
#ifndef TAMIS_TOOL_COMMANDS_H
#define TAMIS_TOOL_COMMANDS_H

int dedup_main(int argc, char **argv);
int common_main(int argc, char **argv);
int size_main(int argc, char **argv);

#endif
