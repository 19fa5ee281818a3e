/* SPDX-License-Identifier: MIT
 *
 * tamis: the command-line program of the library, which uses only its public header.
 *
 * lines.c cuts the input into chunks, pass.c runs the threads that hash the lines, chain.c adds
 * them to the filters and looks them up, and output.c writes them.  dedup.c, common.c and query.c
 * choose what to write, and plan.c the filter for it.  saved.c reads and writes saved filters, and
 * state.c remembers what dedup has written.
 */
#include "commands.h"
#include "interrupt.h"
#include "report.h"
#include "version.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command {
  const char *name;
  int (*run)(int argc, char **argv);
} commands[] = {{"dedup", dedup_main}, {"common", common_main}, {"build", build_main},
                {"query", query_main}, {"info", info_main},     {"merge", merge_main},
                {"size", size_main},   {"index", index_main},   {"which", which_main},
                {"grep", grep_main},   {"window", window_main}};

static void print_help(void)
{
  puts("Usage: tamis COMMAND [OPTION...] [FILE...]\n"
       "Compares lines by means of an approximate-membership filter, which takes a few\n"
       "bytes for each distinct line, and errs with a small probability that you choose.\n"
       "\n"
       "  dedup    write each distinct line once; an error drops a line\n"
       "  common   write lines of the last file that all others have; an error adds one\n"
       "  build    save a filter of all lines\n"
       "  query    write the lines that are in a saved filter; an error adds a line\n"
       "  info     print the figures of saved filters\n"
       "  merge    unite saved filters\n"
       "  size     print the memory of a filter, or the lowest rate in some memory\n"
       "  index    save a filter of each of many files, which may be compressed\n"
       "  which    print the files of an index that may hold a key\n"
       "  grep     print the lines of indexed files that hold a key\n"
       "  window   correct the period of a shared window after a clock was wrong\n"
       "\n"
       "'tamis COMMAND --help' prints a command's options, --version what was built in.\n"
       "\n"
       "  tamis dedup access.log > distinct.log\n"
       "  tamis build known.txt -o known.tamis; tamis query known.tamis today.txt\n"
       "\n"
       "The exit status is 0 on success, 1 after an error, and 2 if the command line is\n"
       "wrong or a filter cannot be used; of query, which and grep it is as grep's.");
}

/* printf only fills a buffer, so a failure to write help or version shows at the end. */
static void flush_standard_output(void)
{
  if (fflush(stdout) == 0 && !ferror(stdout))
    return;
  if (errno == EPIPE && interrupt_by_closed_pipe())
    interrupt_end_by_closed_pipe();
  fprintf(stderr, "tamis: cannot write 'standard output': %s\n", strerror(errno));
  _exit(get_failure_status());
}

/* If standard error is closed, the next file that is opened would get its descriptor, and our
 * messages. */
static void occupy_standard_error(void)
{
  if (fcntl(STDERR_FILENO, F_GETFD) >= 0)
    return;
  int null = open("/dev/null", O_WRONLY);
  if (null < 0 || null == STDERR_FILENO)
    return;
  dup2(null, STDERR_FILENO);
  close(null);
}

static int run_command(int argc, char **argv)
{
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    if (strcmp(argv[0], commands[i].name) == 0)
      return commands[i].run(argc, argv);
  usage_error("no command '%s'; there are dedup, common, build, query, info, merge, size, index, "
              "which, grep and window, see 'tamis --help'",
              argv[0]);
}

static bool is_help(const char *word)
{
  return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

/* tamis help COMMAND */
static int run_help(char *command)
{
  static char option[] = "--help";
  char *arguments[] = {command, option, NULL};
  return run_command(2, arguments);
}

int main(int argc, char **argv)
{
  occupy_standard_error();
  interrupt_init();
  atexit(flush_standard_output);
  if (argc < 2)
    usage_error("a command is missing, such as dedup; see 'tamis --help'");
  if (is_help(argv[1])) {
    if (argc > 2 && argv[1][0] != '-' && !is_help(argv[2]))
      return run_help(argv[2]);
    print_help();
    return EXIT_SUCCESS;
  }
  if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
    version_print();
    return EXIT_SUCCESS;
  }
  return run_command(argc - 1, argv + 1);
}
