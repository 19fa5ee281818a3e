/* SPDX-License-Identifier: MIT
 *
 * The commands of the program.  Each gets its part of the command line, where argv[0] is the name
 * of the command, and returns an exit status.
 */
#ifndef TAMIS_TOOL_COMMANDS_H
#define TAMIS_TOOL_COMMANDS_H

enum {
  EXIT_NOTHING = 1, /* of query and grep: no line was written */
  EXIT_UNUSABLE = 2 /* a saved filter, or a command line, cannot be used; of query: any error */
};

int build_main(int argc, char **argv);
int query_main(int argc, char **argv);
int info_main(int argc, char **argv);
int merge_main(int argc, char **argv);
int dedup_main(int argc, char **argv);
int common_main(int argc, char **argv);
int size_main(int argc, char **argv);
int index_main(int argc, char **argv);
int which_main(int argc, char **argv);
int grep_main(int argc, char **argv);
int window_main(int argc, char **argv);

#endif
