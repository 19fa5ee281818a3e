/* SPDX-License-Identifier: MIT
 *
 * tamis common: writes the lines of the last file that are in all others.
 *
 * Each file but the last has a stage with a filter of its own.  The lines of the first file all go
 * into the filter of its stage, and those of a further one only if the filter before holds them.
 * So a line is in the filter of a stage if it is in all files so far, or by mistake: it is a false
 * positive of that filter, or the filter before held it by mistake and the file contains it.  A
 * line of the last file that is not in all others is therefore written with a probability of at
 * most the sum of the rates of all filters, whatever the lines are.  (Union bound.)
 *
 * Two filters are needed at a time.  The hashes for all of them are made by one.
 */
#include "chain.h"
#include "commands.h"
#include "options.h"
#include "plan.h"
#include "report.h"
#include "summary.h"

#include <string.h>

static const struct argp_child children[] = {{&filter_argp, 0, NULL, 0},
                                             {&key_argp, 0, NULL, 0},
                                             {&run_argp, 0, NULL, 0},
                                             {&help_argp, 0, NULL, 0},
                                             {NULL, 0, NULL, 0}};

static const struct argp common_argp = {
    NULL,
    NULL,
    "A... B",
    "Write the lines of B that are also in A, in the order of B, as 'grep -Fxf A B' does.  "
    "With more files, write the lines of the last one that are in all others.\v"
    "One of the files may be -, which is standard input.  With several threads the lines "
    "come in any order.\n\n"
    "The answer is approximate in one direction only: each line of B that is in all other "
    "files is written, and any other line of B is written with a probability of at most "
    "RATE.  (If there are several files before B, each has a filter with an equal part of "
    "RATE, and these rates add up.)\n\n"
    "With --field, --regex, --json, --crlf or --ignore-case, a line of B is written, "
    "unchanged, if its key is the key of a line of A.  A line that has no such field, "
    "match or value is not written.\n\n"
    "The number of lines is estimated from a sample of A unless --capacity gives it; a "
    "pipe counts as 1M lines.\n\n"
    "With --memory the filters never take more than SIZE.  (If there are several files "
    "before B, two filters exist at a time, and each gets half of SIZE.)  The rate that is "
    "possible in SIZE is printed at the start.  For two files, it is also measured at the "
    "end, by looking up millions of random keys.  If A is a pipe, the filter is made for "
    "as many lines as SIZE holds at RATE (of a Bloom filter, the default is 1e-4 here; for "
    "half as many lines it is below 1e-6).  More lines than there is room for are an "
    "error, but not with kind counting.\n\n"
    "Examples:\n"
    "  tamis common known.txt today.txt > seen-before.txt\n"
    "  tamis common monday.txt tuesday.txt wednesday.txt > on-all-days.txt\n"
    "  tamis common --field 3 blocked.txt access.log > by-blocked-users.log\n"
    "  tamis common --memory 64M --threads 0 big.txt other.txt > in-both.txt\n"
    "  zcat blocked.gz | tamis common --capacity 50M - requests.txt",
    children,
    NULL,
    NULL};

/* ---- the stages ---- */

struct stage {
  struct shared_options options; /* with its part of the rate and of the memory */
  struct plan plan;
  struct chain chain;
  const struct chain *before; /* the filter of the stage before; NULL for the first file */
};

enum { LABEL_BYTES = 64 };

/* Adds lines of A, or those of a further file that the filter before holds, and chooses none. */
static bool add_lines(void *context, const uint64_t *hashes, size_t n, bool *chosen)
{
  struct stage *stage = context;
  uint64_t held[BATCH];
  size_t count = 0;
  if (stage->before != NULL) {
    chain_contains(stage->before, hashes, n, chosen);
    for (size_t i = 0; i < n; i++)
      if (chosen[i])
        held[count++] = hashes[i];
    hashes = held;
  } else {
    count = n;
  }
  memset(chosen, 0, n * sizeof *chosen);
  return count == 0 || chain_add_lines(&stage->chain, hashes, count);
}

static bool choose_present(void *context, const uint64_t *hashes, size_t n, bool *chosen)
{
  chain_contains(context, hashes, n, chosen);
  return true;
}

/* ---- the rate ---- */

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
  return rate < 1 ? (double) (b->lines - b->keyless - b->chosen) * rate / (1 - rate)
                  : (double) b->lines;
}

static void report_rate(const struct tally *b, const struct chain *chain, double formula)
{
  double rate = formula;
  if (chain != NULL) {
    struct measurement m = measure_rate(chain);
    double measured = m.asked > 0 ? (double) m.found / (double) m.asked : 0;
    summary_row("rate measured", "%.2g (%llu of %llu random keys)", measured,
                (unsigned long long) m.found, (unsigned long long) m.asked);
    /* With a hundred hits the measurement is right to within a tenth; with fewer the formula is
     * better. */
    rate = m.found >= 100 ? measured : formula;
  }
  summary_row("rate by formula", "%.2g", formula);
  summary_expected("written by mistake", chain != NULL ? "about" : "at most about",
                   expected_mistakes(b, rate), b->chosen);
}

/* ---- the run ---- */

struct run {
  const struct shared_options *options;
  const struct inputs *inputs;
  tamis_filter *hasher; /* NULL for two files, where the only filter is it */
  struct output output;
  bool opened;
  double rate;       /* of all stages so far, by formula */
  struct tally read; /* in all stages so far */
  double seconds;
  struct chain_figures figures; /* of the largest stage */
};

/* What the progress line says; of two files these are A and B. */
static const char *label_for(const struct run *run, char label[LABEL_BYTES], const char *what,
                             size_t file)
{
  size_t count = run->inputs->count;
  if (count == 2)
    snprintf(label, LABEL_BYTES, "%s %s", what, file == 0 ? "A" : "B");
  else
    snprintf(label, LABEL_BYTES, "%s file %zu of %zu", what, file + 1, count);
  return label;
}

static struct pass new_pass(const struct run *run, const struct chain *chain, size_t file)
{
  return (struct pass){.inputs = &run->inputs->files[file],
                       .input_count = 1,
                       .threads = run->options->threads,
                       .keys = &run->options->keys,
                       .hasher = run->hasher != NULL ? run->hasher : chain_hasher(chain),
                       .show_progress = progress_wanted(run->options->quiet)};
}

/* A stage gets an equal part of the rate.  There are two filters at a time, so it gets half of the
 * memory. */
static bool plan_stage(struct run *run, struct stage *stage, size_t file)
{
  struct shared_options *options = &stage->options;
  size_t stages = run->inputs->count - 1;
  *options = *run->options;
  if (stages > 1) {
    options->filters = 2;
    options->memory = (options->memory + 1) / 2; /* 0 is no limit */
    if (options->fpp == 0 && options->memory == 0)
      options->fpp = default_fpp(options);
    options->fpp /= (double) stages;
  }
  return plan_make(&stage->plan, options, &run->inputs->files[file], 1);
}

/* What the filter before holds, with what it holds by mistake, is at most in this one too. */
static void limit_capacity(const struct run *run, struct stage *stage)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  const tamis_filter *filter = stage->before != NULL ? chain_hasher(stage->before) : NULL;
  if (filter == NULL || run->options->memory > 0 || run->options->capacity > 0 ||
      chain_get_figures(stage->before).levels > 1 || tamis_get_stats(filter, &stats) != TAMIS_OK)
    return;
  uint64_t most = stats.count + stats.count / 10 + 1000;
  if (stage->plan.filter.capacity > most)
    stage->plan.filter.capacity = stage->plan.lines = most;
}

static bool begin_stage(struct run *run, struct stage *stage, const struct stage *before,
                        size_t file)
{
  stage->before = before != NULL ? &before->chain : NULL;
  if (!plan_stage(run, stage, file))
    return false;
  limit_capacity(run, stage);
  if (!chain_create(&stage->chain, &stage->plan.filter, false)) {
    chain_destroy(&stage->chain);
    return false;
  }
  plan_announce(&stage->plan, &stage->options);
  return true;
}

static void note_pass(struct run *run, const struct pass *pass)
{
  run->read.bytes += pass->done.bytes;
  run->read.lines += pass->done.lines;
  run->seconds += pass->seconds;
}

static bool wants_summary(const struct run *run)
{
  const struct shared_options *shared = run->options;
  return shared->stats || (shared->memory > 0 && !shared->quiet);
}

static void note_load(const struct stage *stage, const struct chain_figures *figures,
                      const char *name)
{
  char lines[FIGURE_BYTES + 256];
  snprintf(lines, sizeof lines, "lines of %.255s", name);
  plan_note_load(&stage->plan, figures, lines);
}

/* Reads a file into the filter of its stage. */
static void fill_stage(struct run *run, struct stage *stage, size_t file)
{
  char label[LABEL_BYTES];
  struct pass pass = new_pass(run, &stage->chain, file);
  pass.choose = add_lines;
  pass.context = stage;
  pass.progress = (struct progress){.label = label_for(run, label, "reading", file)};
  pass_run(&pass);
  note_pass(run, &pass);
  if (failed() || !wants_summary(run))
    return;
  struct chain_figures figures = chain_get_figures(&stage->chain);
  run->rate += figures.fpp;
  if (figures.bytes >= run->figures.bytes)
    run->figures = figures;
  if (run->inputs->count > 2)
    note_load(stage, &figures, run->inputs->files[file].name);
}

static void summarize(const struct run *run, const struct stage *stage, const struct pass *b)
{
  bool two = run->inputs->count == 2;
  summary_count(two ? "lines of A" : "lines of the others", run->read.lines - b->done.lines);
  summary_count(two ? "lines of B" : "lines of the last", b->done.lines);
  summary_count("lines written", b->done.chosen);
  if (run->options->stats) {
    summary_speed(run->read.bytes, run->read.lines, run->seconds);
    summary_filter(&run->figures);
  }
  report_rate(&b->done, two ? &stage->chain : NULL, run->rate < 1 ? run->rate : 1);
  if (two)
    plan_note_load(&stage->plan, &run->figures, "lines of A");
}

/* Looks up the last file in the filter of the stage before it. */
static void look_up(struct run *run, struct stage *stage, size_t file)
{
  char label[LABEL_BYTES];
  struct pass pass = new_pass(run, &stage->chain, file);
  pass.choose = choose_present;
  pass.context = &stage->chain;
  pass.output = &run->output;
  pass.progress = (struct progress){.label = label_for(run, label, "looking up", file),
                                    .chosen_name = " written"};
  pass_run(&pass);
  note_pass(run, &pass);
  output_close(&run->output);
  run->opened = false;
  if (wants_summary(run) && !failed())
    summarize(run, stage, &pass);
}

/* An output that cannot be written is found before a file is read. */
static bool open_output(struct run *run)
{
  run->opened = true;
  return output_open(&run->output, run->options->output, run->inputs);
}

/* Each stage needs only the one before it, so two of them take turns. */
static void run_stages(struct run *run)
{
  struct stage stages[2], *before = NULL;
  size_t last = run->inputs->count - 1;
  for (size_t file = 0; file < last && !failed(); file++) {
    struct stage *stage = &stages[file % 2];
    bool begun = begin_stage(run, stage, before, file);
    if (begun && (run->opened || open_output(run)))
      fill_stage(run, stage, file);
    if (before != NULL)
      chain_destroy(&before->chain);
    before = begun ? stage : NULL;
  }
  if (before != NULL && !failed())
    look_up(run, before, last);
  if (run->opened)
    output_close(&run->output);
  if (before != NULL)
    chain_destroy(&before->chain);
}

/* Of two files, the only filter makes the hashes. */
static bool create_hasher(struct run *run)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1;
  if (run->inputs->count == 2)
    return true;
  int result = tamis_create(&options, &run->hasher);
  if (result != TAMIS_OK)
    fail_to_create(&options, result, 0);
  return result == TAMIS_OK;
}

static void check(const struct shared_options *options)
{
  unsigned standard = 0;
  if (options->file_count < 2)
    usage_error("common takes two files or more, not %zu; see 'tamis common --help'",
                options->file_count);
  for (size_t i = 0; i < options->file_count; i++)
    standard += strcmp(options->files[i], "-") == 0;
  if (standard > 1)
    usage_error("only one of the files can be standard input");
}

int common_main(int argc, char **argv)
{
  struct shared_options options = SHARED_OPTIONS_INIT;
  parse_command_line(&common_argp, argc, argv, &options, NULL);
  check(&options);

  struct inputs inputs = {.filter = NULL};
  struct run run = {.options = &options, .inputs = &inputs};
  if (inputs_check(&inputs, options.files, options.file_count) &&
      output_check(options.output, &inputs) && create_hasher(&run))
    run_stages(&run);
  tamis_destroy(run.hasher);
  inputs_free(&inputs);
  return finish();
}
