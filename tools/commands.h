/* SPDX-License-Identifier: MIT
 *
 * The commands of the program.  Each takes its own part of the command line, argv[0] being the
 * command's name, and returns an exit status.
 */
#ifndef TAMIS_TOOL_COMMANDS_H
#define TAMIS_TOOL_COMMANDS_H

int dedup_main(int argc, char **argv);
int common_main(int argc, char **argv);

#endif
