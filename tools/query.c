/* SPDX-License-Identifier: MIT
 *
 * tamis query: writes the lines that are in a saved filter.
 */
#include "chain.h"
#include "commands.h"
#include "options.h"
#include "report.h"
#include "saved.h"
#include "summary.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_CHECK = 0x200 };

struct query_options {
  struct shared_options shared;
  bool absent;
  bool check;
};

static const struct argp_child children[] = {
    {&key_argp, 0, NULL, 0}, {&run_argp, 0, NULL, 0}, {&help_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

/* NOLINTNEXTLINE(readability-non-const-parameter): argp defines the type */
static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct query_options *options = state->input;
  (void) argument;
  switch (key) {
  case 'v':
    options->absent = true;
    return 0;
  case KEY_CHECK:
    options->check = true;
    return 0;
  case ARGP_KEY_END:
    if (options->shared.file_count == 0)
      usage_error("query takes a saved filter, and files; see 'tamis query --help'");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option entries[] = {
    {"invert-match", 'v', NULL, 0, "Write the lines that are not in the filter", 1},
    {"check", KEY_CHECK, NULL, 0, "Read all of LIST first, to see that it is not damaged", 1},
    {NULL, 0, NULL, 0, NULL, 0}};

static const struct argp query_argp = {
    entries,
    parse,
    "LIST [FILE...]",
    "Write the lines of the FILEs that are in the saved filter LIST, in their order.\v"
    "With no FILE, or if FILE is -, read standard input.  With several threads the lines "
    "come in any order.\n\n"
    "The answer is approximate in one direction only: each line that was added to the "
    "filter is written, and any other line is written with the probability that 'tamis "
    "info LIST' shows.  (With -v, no line that was added is written.)\n\n"
    "With --field, --regex, --json, --crlf or --ignore-case, a line is written, unchanged, "
    "if its key is in LIST, which was built of such keys.  A line that has no such field, "
    "match or value is not in LIST.\n\n"
    "LIST is mapped if that is possible: it then takes no time to load, and all processes "
    "that map it share its memory.  Do not change a file that is in use: replace it, as "
    "'tamis build' does.  A damaged file that is mapped may lead to wrong answers, unless "
    "--check finds the damage.  A cuckoo filter that grows, a window, a pipe, and standard input "
    "(-) "
    "are loaded, and loading always checks them.\n\n"
    "The exit status is 0 if a line was written, 1 if none was, and 2 after an error.\n\n"
    "Examples:\n"
    "  tamis query known.tamis today.txt > seen-before.txt\n"
    "  tail -f access.log | tamis query -v known.tamis\n"
    "  tamis query --field 2 users.tamis access.log\n"
    "  tamis query --threads 0 blocked.tamis requests-*.log -o hits",
    children,
    NULL,
    NULL};

struct question {
  const tamis_filter *filter;
  bool absent;
};

static bool choose(void *context, const uint64_t *hashes, size_t n, bool *chosen)
{
  const struct question *question = context;
  tamis_contains_many_hash(question->filter, hashes, n, chosen);
  for (size_t i = 0; i < n; i++)
    chosen[i] = chosen[i] != question->absent;
  return true;
}

static void summarize(const struct query_options *options, const struct pass *pass,
                      const tamis_filter *filter)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  summary_count("lines read", pass->done.lines);
  summary_count("lines written", pass->done.chosen);
  summary_speed(pass->done.bytes, pass->done.lines, pass->seconds);
  if (tamis_get_stats(filter, &stats) != TAMIS_OK)
    return;
  double rate = stats.fpp_estimate;
  uint64_t chosen = pass->done.chosen, others = pass->done.lines - chosen;
  uint64_t absent = options->absent ? chosen : others, present = options->absent ? others : chosen;
  summary_row("false-positive rate", "%.2g", rate);
  if (rate < 1) /* of x lines that are not in, x * rate are taken for some that are */
    summary_expected(options->absent ? "wrongly left out" : "written by mistake", "about",
                     (double) (absent - pass->done.keyless) * rate / (1 - rate), present);
}

/* Whether a line was written. */
static bool run(const struct query_options *options, const struct inputs *inputs)
{
  const struct shared_options *shared = &options->shared;
  tamis_filter *filter = saved_map(options->shared.files[0], options->check);
  struct question question = {filter, options->absent};
  struct output output;
  struct pass pass = {.inputs = inputs->files,
                      .input_count = inputs->count,
                      .threads = shared->threads,
                      .hasher = filter,
                      .choose = choose,
                      .context = &question,
                      .keys = &shared->keys,
                      .takes_keyless = options->absent,
                      .output = &output,
                      .show_progress = progress_wanted(shared->quiet),
                      .progress = {.label = "query", .chosen_name = " written"}};
  if (filter == NULL)
    return false;
  saved_watch_files();
  if (output_open(&output, shared->output, inputs))
    pass_run(&pass);
  output_close(&output);
  if (shared->stats && !failed())
    summarize(options, &pass, filter);
  tamis_destroy(filter);
  return pass.done.chosen > 0;
}

static void check_standard_input(const struct query_options *options)
{
  bool used = strcmp(options->shared.files[0], "-") == 0;
  if (used && options->shared.file_count == 1)
    usage_error("LIST is standard input, so query needs a FILE");
  for (size_t i = 1; used && i < options->shared.file_count; i++)
    if (strcmp(options->shared.files[i], "-") == 0)
      usage_error("only one of LIST and FILE can be standard input");
}

/* LIST is not replaced by lines, and lines are not appended to it. */
static bool check_output(const char *list, const char *output)
{
  struct stat status;
  const bool standard = strcmp(list, "-") == 0;
  struct input input = {.path = standard ? NULL : list};
  if ((standard ? fstat(STDIN_FILENO, &status) : stat(list, &status)) != 0)
    return true; /* which is an error later */
  input.device = status.st_dev;
  input.inode = status.st_ino;
  return output_check(output, &(struct inputs){.files = &input, .count = 1});
}

int query_main(int argc, char **argv)
{
  struct query_options options = {.shared = SHARED_OPTIONS_INIT};
  bool found = false;
  parse_command_line(&query_argp, argc, argv, &options.shared, &options);
  check_standard_input(&options);
  set_failure_status(EXIT_UNUSABLE);

  struct inputs inputs = {.filter = options.shared.files[0]};
  if (inputs_check(&inputs, options.shared.files + 1, options.shared.file_count - 1) &&
      output_check(options.shared.output, &inputs) &&
      check_output(options.shared.files[0], options.shared.output))
    found = run(&options, &inputs);
  inputs_free(&inputs);
  int status = finish();
  return status == EXIT_SUCCESS && !found ? EXIT_NOTHING : status;
}
