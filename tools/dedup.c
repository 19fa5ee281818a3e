/* SPDX-License-Identifier: MIT
 *
 * tamis dedup: writes each distinct line once.
 */
#include "chain.h"
#include "commands.h"
#include "options.h"
#include "plan.h"
#include "report.h"
#include "summary.h"

struct dedup_options {
  struct shared_options shared;
  char **files;
  size_t file_count;
};

static const struct argp_child children[] = {{&filter_argp, 0, NULL, 0},
                                             {&run_argp, 0, NULL, 0},
                                             {&help_argp, 0, NULL, 0},
                                             {NULL, 0, NULL, 0}};
enum { CHILDREN = sizeof children / sizeof children[0] - 1 };

/* NOLINTNEXTLINE(readability-non-const-parameter): argp defines the type */
static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct dedup_options *options = state->input;
  (void) argument;
  switch (key) {
  case ARGP_KEY_INIT:
    for (int i = 0; i < CHILDREN; i++)
      state->child_inputs[i] = &options->shared;
    return 0;
  case ARGP_KEY_ARGS:
    options->files = state->argv + state->next;
    options->file_count = (size_t) (state->argc - state->next);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp dedup_argp = {
    NULL,
    parse,
    "[FILE...]",
    "Write each distinct line of the FILEs once, in the order of first appearance.\v"
    "With no FILE, or if FILE is -, read standard input.  With several threads the lines come in "
    "any "
    "order.\n\n"
    "The answer is approximate in one direction only: no line is written twice, and a line is "
    "missing with a probability of at most RATE.  If there are more distinct lines than "
    "expected, further filters are added, or the cuckoo filter grows, within the same RATE.  The "
    "expected number is estimated from a sample of each file unless --capacity gives it; a pipe "
    "counts as 1M lines.\n\n"
    "With --memory the filter never takes more than SIZE, and the rate that this buys is printed.  "
    "If "
    "an input is a pipe, the filter is made for as many lines as SIZE holds at RATE (default 1e-4 "
    "here; for half as many lines it is below 1e-6).  With more lines than expected, the rate of a "
    "Bloom filter rises; a cuckoo filter that has no room fails.\n\n"
    "Examples:\n"
    "  tamis dedup access.log > distinct.log\n"
    "  zcat urls-*.gz | tamis dedup --capacity 200M --fpp 1e-9 -o urls\n"
    "  tamis dedup --threads 0 --memory 4G *.txt > all.lines",
    children,
    NULL,
    NULL};

static bool choose_new(void *context, const uint64_t *hashes, size_t n, bool *chosen)
{
  int results[BATCH];
  bool good = true;
  chain_add(context, tamis_add_unique_many_hash, hashes, n, results);
  for (size_t i = 0; i < n; i++) {
    good = good && results[i] >= 0;
    chosen[i] = good && results[i] == TAMIS_OK;
  }
  return good;
}

static void summarize(const struct dedup_options *options, const struct plan *plan,
                      const struct pass *pass, const struct chain *chain)
{
  struct chain_figures figures = chain_get_figures(chain);
  double planned = plan->filter.fpp, rate = figures.fpp > planned ? figures.fpp : planned;
  summary_count("lines read", pass->done.lines);
  summary_count("distinct written", pass->done.chosen);
  summary_count("duplicates dropped", pass->done.lines - pass->done.chosen);
  if (options->shared.stats) {
    summary_speed(pass->done.bytes, pass->done.lines, pass->seconds);
    summary_filter(&figures);
  }
  summary_row("false-positive rate", "%.2g now, %.2g %s", figures.fpp, planned,
              options->shared.memory > 0 ? "planned" : "asked");
  if (rate < 1) /* of x distinct lines, x * rate are dropped, and the others are written */
    summary_expected("wrongly dropped", "at most about",
                     (double) pass->done.chosen * rate / (1 - rate));
  plan_note_load(plan, &figures, "lines");
}

static void run(const struct dedup_options *options, const struct inputs *inputs)
{
  const struct shared_options *shared = &options->shared;
  struct plan plan;
  struct chain chain;
  struct output output;
  struct pass pass = {.inputs = inputs->files,
                      .input_count = inputs->count,
                      .threads = shared->threads,
                      .choose = choose_new,
                      .context = &chain,
                      .output = &output,
                      .show_progress = progress_wanted(shared->quiet),
                      .progress = {.label = "dedup", .other_name = " duplicates"}};
  if (!plan_make(&plan, shared, inputs->files, inputs->count))
    return;
  if (chain_create(&chain, &plan.filter)) {
    plan_announce(&plan, shared);
    if (output_open(&output, shared->output, inputs)) {
      pass.hasher = chain_hasher(&chain);
      pass_run(&pass);
    }
    output_close(&output);
    if ((shared->stats || (shared->memory > 0 && !shared->quiet)) && !failed())
      summarize(options, &plan, &pass, &chain);
  }
  chain_destroy(&chain);
}

int dedup_main(int argc, char **argv)
{
  static char name[] = "tamis dedup";
  struct dedup_options options = {.shared = SHARED_OPTIONS_INIT};
  options.shared.command = name;
  parse_command_line(&dedup_argp, argc, argv, &options.shared, &options);

  struct inputs inputs;
  if (inputs_check(&inputs, options.files, options.file_count) &&
      output_check(options.shared.output, &inputs))
    run(&options, &inputs);
  inputs_free(&inputs);
  return finish();
}
