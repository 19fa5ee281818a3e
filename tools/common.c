/* SPDX-License-Identifier: MIT
 *
 * tamis common: writes the lines of B that are also in A.
 */
#include "chain.h"
#include "commands.h"
#include "options.h"
#include "plan.h"
#include "report.h"
#include "summary.h"

#include <string.h>

struct common_options {
  struct shared_options shared;
  char **files;
};

static void set_files(struct common_options *options, char **files, int count)
{
  if (count != 2)
    usage_error("common takes two files, A and B, not %d; see 'tamis common --help'", count);
  if (strcmp(files[0], "-") == 0 && strcmp(files[1], "-") == 0)
    usage_error("only one of A and B can be standard input");
  options->files = files;
}

static const struct argp_child children[] = {{&filter_argp, 0, NULL, 0},
                                             {&run_argp, 0, NULL, 0},
                                             {&help_argp, 0, NULL, 0},
                                             {NULL, 0, NULL, 0}};
enum { CHILDREN = sizeof children / sizeof children[0] - 1 };

/* NOLINTNEXTLINE(readability-non-const-parameter): argp defines the type */
static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct common_options *options = state->input;
  (void) argument;
  switch (key) {
  case ARGP_KEY_INIT:
    for (int i = 0; i < CHILDREN; i++)
      state->child_inputs[i] = &options->shared;
    return 0;
  case ARGP_KEY_ARGS:
    set_files(options, state->argv + state->next, state->argc - state->next);
    return 0;
  case ARGP_KEY_NO_ARGS:
    set_files(options, NULL, 0);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp common_argp = {
    NULL,
    parse,
    "A B",
    "Write the lines of B that are also in A, in the order of B, as 'grep -Fxf A B' does.\v"
    "A or B may be -, which is standard input.  With several threads the lines come in any "
    "order.\n\n"
    "The answer is approximate in one direction only: each line of B that is in A is written, and "
    "a "
    "line of B that is not in A is written with a probability of at most RATE.\n\n"
    "The number of lines is estimated from a sample of A unless --capacity gives it; a pipe counts "
    "as 1M lines.\n\n"
    "With --memory the filter never takes more than SIZE.  The rate that this buys is printed "
    "before "
    "the start, and measured at the end by looking up millions of random keys.  If A is a pipe, "
    "the "
    "filter is made for as many lines as SIZE holds at RATE (default 1e-4 here; for half as many "
    "lines "
    "it is below 1e-6).  With more lines than expected, the rate of a Bloom filter rises; a cuckoo "
    "filter that has no room fails.\n\n"
    "Examples:\n"
    "  tamis common known.txt today.txt > seen-before.txt\n"
    "  tamis common --memory 64M --threads 0 big.txt other.txt > in-both.txt\n"
    "  zcat blocked.gz | tamis common --capacity 50M - requests.txt",
    children,
    NULL,
    NULL};

/* Adds the lines of A, and chooses none of them.  The adds to a cuckoo filter are unique, as it
 * would otherwise keep every copy of a line that A repeats. */
static bool add_lines(void *context, const uint64_t *hashes, size_t n, bool *chosen)
{
  struct chain *chain = context;
  int results[BATCH];
  chain_add(chain,
            chain->first.kind == TAMIS_CUCKOO ? tamis_add_unique_many_hash : tamis_add_many_hash,
            hashes, n, results);
  memset(chosen, 0, n * sizeof *chosen);
  return !failed();
}

static bool choose_present(void *context, const uint64_t *hashes, size_t n, bool *chosen)
{
  chain_contains(context, hashes, n, chosen);
  return true;
}

struct measurement {
  uint64_t asked;
  uint64_t found;
};

static uint64_t splitmix64(uint64_t *state)
{
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

/* Looks up random hashes.  One of them is the hash of a given line of A with a probability of
 * 2^-64, so every hash that is found is a false positive. */
static struct measurement measure_rate(const struct chain *chain)
{
  const uint64_t most = 4 << 20;
  const double deadline = now_seconds() + 0.3;
  struct measurement m = {0, 0};
  uint64_t state = 1, hashes[BATCH];
  bool found[BATCH];
  while (m.asked < most && (m.asked % (64 * BATCH) != 0 || now_seconds() < deadline)) {
    for (size_t i = 0; i < BATCH; i++)
      hashes[i] = splitmix64(&state);
    m.found += chain_contains(chain, hashes, BATCH, found);
    m.asked += BATCH;
  }
  return m;
}

/* The number of lines that were written by mistake.  Of x lines of B that are not in A, x * rate
 * are written; x is the number of lines that were not written plus these. */
static double expected_mistakes(const struct tally *b, double rate)
{
  return rate < 1 ? (double) (b->lines - b->chosen) * rate / (1 - rate) : (double) b->lines;
}

static void report_rate(const struct tally *b, const struct chain *chain,
                        const struct chain_figures *figures)
{
  struct measurement m = measure_rate(chain);
  double measured = m.asked > 0 ? (double) m.found / (double) m.asked : 0;
  summary_row("rate measured", "%.2g (%llu of %llu random keys)", measured,
              (unsigned long long) m.found, (unsigned long long) m.asked);
  summary_row("rate by formula", "%.2g", figures->fpp);
  /* With a hundred hits the measurement is right to within a tenth; with fewer the formula is
   * better. */
  double rate = m.found >= 100 ? measured : figures->fpp;
  summary_expected("written by mistake", "about", expected_mistakes(b, rate));
}

static void summarize(const struct common_options *options, const struct plan *plan,
                      const struct pass *a, const struct pass *b, const struct chain *chain)
{
  struct chain_figures figures = chain_get_figures(chain);
  summary_count("lines of A", a->done.lines);
  summary_count("lines of B", b->done.lines);
  summary_count("lines written", b->done.chosen);
  if (options->shared.stats) {
    summary_speed(a->done.bytes + b->done.bytes, a->done.lines + b->done.lines,
                  a->seconds + b->seconds);
    summary_filter(&figures);
  }
  report_rate(&b->done, chain, &figures);
  plan_note_load(plan, &figures, "lines of A");
}

static void run_passes(const struct common_options *options, const struct plan *plan,
                       const struct inputs *inputs, struct chain *chain, struct output *output)
{
  struct pass a = {.inputs = &inputs->files[0],
                   .input_count = 1,
                   .threads = options->shared.threads,
                   .hasher = chain_hasher(chain),
                   .choose = add_lines,
                   .context = chain,
                   .show_progress = progress_wanted(options->shared.quiet),
                   .progress = {.label = "reading A"}};
  struct pass b = a;
  b.inputs = &inputs->files[1];
  b.choose = choose_present;
  b.output = output;
  b.progress = (struct progress){.label = "looking up B", .chosen_name = " written"};
  pass_run(&a);
  if (!failed())
    pass_run(&b);
  output_close(output);
  bool wanted = options->shared.stats || (options->shared.memory > 0 && !options->shared.quiet);
  if (wanted && !failed())
    summarize(options, plan, &a, &b, chain);
}

static void run(const struct common_options *options, const struct inputs *inputs)
{
  struct plan plan;
  struct chain chain;
  struct output output;
  if (!plan_make(&plan, &options->shared, inputs->files, 1))
    return;
  if (chain_create(&chain, &plan.filter)) {
    plan_announce(&plan, &options->shared);
    if (output_open(&output, options->shared.output, inputs))
      run_passes(options, &plan, inputs, &chain, &output);
    else
      output_close(&output);
  }
  chain_destroy(&chain);
}

int common_main(int argc, char **argv)
{
  static char name[] = "tamis common";
  struct common_options options = {.shared = SHARED_OPTIONS_INIT};
  options.shared.command = name;
  parse_command_line(&common_argp, argc, argv, &options.shared, &options);

  struct inputs inputs;
  if (inputs_check(&inputs, options.files, 2) && output_check(options.shared.output, &inputs))
    run(&options, &inputs);
  inputs_free(&inputs);
  return finish();
}
