/* SPDX-License-Identifier: MIT
 *
 * tamis common: writes the lines of B that are also in A.
 */
#include "chain.h"
#include "commands.h"
#include "estimate.h"
#include "options.h"
#include "report.h"
#include "summary.h"

#include <string.h>

/* How many times lower the rate of the denser form must be to make up for its drawbacks: the
 * classic layout reads a dozen cache lines for a key instead of one, and a cuckoo filter that does
 * not grow fails when it is full. */
#define DENSER_MIN_GAIN 1.25

enum { KEY_MEMORY = 'm' };

/* At this rate one of a hundred million lines is wrong on average.  A lower rate is not worth its
 * memory. */
#define MIN_FPP 1e-8

struct common_options {
  struct shared_options shared;
  uint64_t memory; /* 0: not given */
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

static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct common_options *options = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &options->shared;
    return 0;
  case KEY_MEMORY:
    options->memory = parse_memory("--memory", argument);
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

static const struct argp_option entries[] = {
    {"memory", KEY_MEMORY, "SIZE", 0,
     "Limit the filter to SIZE bytes, and print the rate that this allows; K, M, G are powers of "
     "1024",
     0},
    {NULL, 0, NULL, 0, NULL, 0}};
static const struct argp_child children[] = {{&shared_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};
static const struct argp common_argp = {
    entries,
    parse,
    "A B",
    "Write the lines of B that are also in A, in the order of B, as 'grep -Fxf A B' does.\v"
    "A or B may be -, which is standard input.  With several threads the lines come in any "
    "order.\n\n"
    "The answer is approximate in one direction only: each line of B that is in A is written, and "
    "a "
    "line of B that is not in A is written with a probability of at most RATE.\n\n"
    "With --memory the filter never takes more than SIZE.  The rate follows from that; it is "
    "printed "
    "before the start, and measured at the end by looking up millions of random keys.  If A has "
    "more "
    "distinct lines than expected, the rate of a Bloom filter rises; a cuckoo filter grows until "
    "the "
    "memory is used up, and then the command fails.\n\n"
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

/* Sets the form of the filter, and the rate that `memory` allows it.  Each kind has a preferred
 * form: the blocked layout, which is faster, or a cuckoo filter that leaves half of the memory for
 * growth.  If that does not reach the wanted rate, the denser form is used where it is worth it:
 * the classic layout, or a cuckoo filter that does not grow.  False after fail(). */
static bool rate_for_memory(tamis_options *filter, uint64_t memory, double wanted, double *rate)
{
  bool cuckoo = filter->kind == TAMIS_CUCKOO;
  int result = tamis_fpp_for(filter, cuckoo ? memory / 2 : memory, rate);
  if (result == TAMIS_OK && *rate <= wanted)
    return true;

  tamis_options denser = *filter;
  double denser_rate;
  denser.growable = !cuckoo;
  denser.layout = TAMIS_LAYOUT_CLASSIC;
  int denser_result = tamis_fpp_for(&denser, memory, &denser_rate);
  if (denser_result == TAMIS_OK && (result != TAMIS_OK || denser_rate * DENSER_MIN_GAIN < *rate)) {
    *filter = denser;
    *rate = denser_rate;
    result = TAMIS_OK;
  }
  if (result == TAMIS_OK)
    return true;
  char size[FIGURE_BYTES], lines[FIGURE_BYTES];
  fail("cannot put %s lines into a %s filter of %s: %s",
       count_figure(lines, (double) filter->capacity), kind_name(filter->kind),
       bytes_figure(size, (double) memory), tamis_strerror(denser_result));
  return false;
}

static void announce_plan(const struct common_options *options, const tamis_options *filter,
                          bool holds)
{
  char size[FIGURE_BYTES], lines[FIGURE_BYTES];
  const char *expected = options->shared.capacity > 0 ? "" : "about ";
  bytes_figure(size, (double) options->memory);
  count_figure(lines, (double) filter->capacity);
  if (holds)
    note("%s for %s%s lines: a false-positive rate of %.2g", size, expected, lines, filter->fpp);
  else
    note("%s cannot hold %s%s lines at a rate of %.2g; it buys %.2g", size, expected, lines,
         options->shared.fpp, filter->fpp);
}

/* Sets the filter's form and rate to what the memory allows, and tells the user.  False after
 * fail(). */
static bool plan_memory(const struct common_options *options, tamis_options *filter)
{
  const double asked = options->shared.fpp;
  double rate;
  filter->max_bytes = options->memory;
  filter->growable = true; /* a Bloom filter's rate may rise, its memory may not */
  if (!rate_for_memory(filter, options->memory, asked > 0 ? asked : DEFAULT_FPP, &rate))
    return false;
  bool holds = asked == 0 || rate <= asked;
  filter->fpp = asked > 0 && holds ? asked : rate > MIN_FPP ? rate : MIN_FPP;
  /* A rate below MIN_FPP implies the classic layout.  At MIN_FPP the blocked one may take more
   * memory. */
  uint64_t bytes;
  if (tamis_bytes_for(filter, &bytes) == TAMIS_OK && bytes > options->memory)
    filter->layout = TAMIS_LAYOUT_CLASSIC;
  if (!options->shared.quiet)
    announce_plan(options, filter, holds);
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

static void summarize(const struct common_options *options, const struct pass *a,
                      const struct pass *b, const struct chain *chain)
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
  if (chain->first.kind == TAMIS_BLOOM && chain->first.growable && figures.load > 1.02)
    note("A has %.1f times the expected lines, so the rate rose from %.2g; use --capacity to plan "
         "for them",
         figures.load, chain->first.fpp);
}

static void run_passes(const struct common_options *options, const struct inputs *inputs,
                       struct chain *chain, struct output *output)
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
  bool wanted = options->shared.stats || (options->memory > 0 && !options->shared.quiet);
  if (wanted && !failed())
    summarize(options, &a, &b, chain);
}

static void run(const struct common_options *options, const struct inputs *inputs)
{
  tamis_options filter = shared_filter(&options->shared);
  struct chain chain;
  struct output output;
  if (filter.capacity == 0)
    filter.capacity = estimate_distinct(inputs->files, 1);
  if (options->memory > 0 && !plan_memory(options, &filter))
    return;
  if (chain_create(&chain, &filter)) {
    if (output_open(&output, options->shared.output, inputs))
      run_passes(options, inputs, &chain, &output);
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
