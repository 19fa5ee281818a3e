/* SPDX-License-Identifier: MIT
 *
 * tamis dedup: writes each distinct line once.
 */
#include "access.h"
#include "chain.h"
#include "commands.h"
#include "interrupt.h"
#include "live.h"
#include "numbers.h"
#include "options.h"
#include "plan.h"
#include "report.h"
#include "state.h"
#include "summary.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { KEY_STATE = 0x200, KEY_SAVE_EVERY, KEY_RENEW, KEY_TTL, KEY_REPEATED };
enum { DEFAULT_SAVE_EVERY = 60 };

struct dedup_options {
  struct shared_options shared;
  struct live_options live;
  const char *state; /* NULL: nothing is remembered */
  double save_every; /* seconds; less than 0: not given */
  double ttl;        /* the same */
  bool repeated;     /* not the first lines are written, but the others */
};

static const struct argp_child children[] = {{&live_argp, 0, NULL, 0},   {&access_argp, 0, NULL, 0},
                                             {&filter_argp, 0, NULL, 0}, {&window_argp, 0, NULL, 0},
                                             {&key_argp, 0, NULL, 0},    {&run_argp, 0, NULL, 0},
                                             {&help_argp, 0, NULL, 0},   {NULL, 0, NULL, 0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct dedup_options *options = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &options->live;
    return 0;
  case KEY_STATE:
    options->state = argument;
    return 0;
  case KEY_SAVE_EVERY:
    options->save_every = parse_seconds("--save-every", argument);
    return 0;
  case KEY_TTL:
    options->ttl = parse_seconds("--ttl", argument);
    return 0;
  case KEY_RENEW:
    options->shared.renews = true;
    return 0;
  case KEY_REPEATED:
    options->repeated = true;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option entries[] = {
    {"renew", KEY_RENEW, NULL, 0,
     "With --window, count a line's age from when it was last read, not from when it was written",
     1},
    {"ttl", KEY_TTL, "SECONDS", 0,
     "With a window, drop the lines of this run for SECONDS, rounded up to periods, and not for G "
     "periods",
     1},
    {"repeated", KEY_REPEATED, NULL, 0,
     "Write the lines that would be dropped, each time they come, and drop the others", 1},
    {"state", KEY_STATE, "STATE", 0,
     "Drop lines that earlier runs with the saved filter STATE have seen, and add the lines "
     "of this run to STATE",
     1},
    {"save-every", KEY_SAVE_EVERY, "SECONDS", 0,
     "Also save STATE in this interval (default 60; 0: only at the end)", 1},
    {NULL, 0, NULL, 0, NULL, 0}};

static const struct argp dedup_argp = {
    entries,
    parse,
    "[FILE...]",
    "Write each distinct line of the FILEs once, in the order of first appearance.\v"
    "With no FILE, or if FILE is -, read standard input.  With several threads the lines "
    "come in any order.\n\n"
    "The answer is approximate in one direction only: without --window, a run writes no line "
    "twice, but a line is missing with a probability of at most RATE.  If there are more "
    "distinct lines than expected, the filter grows within the same RATE, but the rate of "
    "kind counting rises.  The expected number is estimated from a sample of each file "
    "unless --capacity gives it; a pipe counts as 1M lines.\n\n"
    "With --field, --regex, --json, --crlf or --ignore-case, lines with equal keys are "
    "equal.  Each line is written unchanged.  A line that has no such field, match or "
    "value is never dropped, and does not count as a repeat.  Give the same of these "
    "options to all runs with the same STATE or FILE.\n\n"
    "With --memory the filter never takes more than SIZE, and the rate that it can have in "
    "SIZE is printed.  If an input is a pipe, the filter is made for as many lines as SIZE "
    "holds at RATE (of a Bloom filter without --window, the default is 1e-4 here; for half "
    "as many lines it is below 1e-6).  More lines than there is room for are an error, but "
    "not with kind counting.\n\n"
    "With --window, a line that was written is dropped for at least G periods after it was "
    "read, however late periods end, and is written again when G + 1 periods have ended.  "
    "N is the number of distinct lines in that time; if more lines come, the filter "
    "grows.\n\n"
    "With --state, lines that earlier runs wrote are dropped, too.  If STATE is missing, "
    "it is created with a cuckoo filter, which grows, unless --kind says otherwise.  Later "
    "runs take the kind, the rate and the capacity from STATE.  RATE holds for all runs "
    "together.\n\n"
    "STATE gets a line after the line has been written.  So STATE never holds a line that "
    "has not been written, even after kill -9.  If the output is a file, STATE holds no "
    "line that has not reached the disk.  If a run ends early, the next run with the same "
    "input repeats the lines written since STATE was last saved, and drops no line that "
    "was not written.  (kill -9 may cut off the last line.  The next run writes it again, "
    "on a new line if it appends to the same file.)\n\n"
    "STATE is saved at the end, and every minute (--save-every) if the lines go to "
    "standard output, a pipe or a device.  With -o FILE it is saved only after FILE is "
    "complete.\n\n"
    "SIGINT, SIGTERM and SIGHUP end a run with STATE gently: lines that were read are "
    "written, STATE is saved, and the process ends by that signal.  A second signal ends "
    "the run at once.  (With -o FILE the first signal does, and FILE and STATE stay as "
    "they were.)  After an error, or if the reader of a pipe has gone, STATE stays as it "
    "was last saved.  A second run with the same STATE at the same time is refused.\n\n"
    "With --shared, all runs with FILE together write each line once, even if they run at "
    "the same time.  FILE is created if it is missing.  It has a Bloom filter, which grows "
    "until FILE has SIZE bytes (--memory), or holds 64 times as many lines as expected "
    "(64M at least; a third of it if RATE is above 0.001).  When it is full, runs end with an "
    "error.  Later runs take RATE and "
    "capacity from FILE.  With --window, FILE has room for N lines, and does not grow.  "
    "Its periods are numbered by the time of day, so all runs need the same --period.  If "
    "a clock was wrong once, see 'tamis window --help'.\n\n"
    "A line is added to FILE before it is written.  So no line is written twice, even "
    "after kill -9; but lines that the killed run had added and not written are missing.  "
    "If a signal or an error ends a run with --shared, the run first writes the lines that "
    "it has added; with -o, the output then appears.  At the end of a run, FILE and output "
    "are on the disk.\n\n"
    "Examples:\n"
    "  tamis dedup access.log > distinct.log\n"
    "  zcat urls-*.gz | tamis dedup --capacity 200M --fpp 1e-7 -o urls\n"
    "  tamis dedup --threads 0 --memory 4G *.txt > all.lines\n"
    "  tamis dedup --crlf --field 1 --delimiter : counts.txt > hashes.txt\n"
    "  tamis dedup --state seen.tamis today.txt -o new-today.txt\n"
    "  ls *.log | xargs -P 4 -n 1 tamis dedup --shared seen.shared >> distinct\n"
    "  tail -F app.log | tamis dedup --window 12 --period 300 > once-an-hour.log\n"
    "  tamis dedup --shared seen --window 12 --period 300 app.log >> once.log\n"
    "  tamis dedup --shared seen --ttl 900 --period 300 access.log >> once.log\n"
    "  crawl | tamis dedup --state seen.tamis >> frontier.txt",
    children,
    NULL,
    NULL};

struct run {
  const struct dedup_options *options;
  const struct inputs *inputs;
  struct plan plan;
  struct chain chain;
  struct output output;
  struct state state;
  tamis_filter *shared; /* NULL: no process shares it */
};

/* The new lines, or the others. */
static bool choose(void *context, const uint64_t *hashes, size_t n, bool *chosen)
{
  struct run *run = context;
  const bool repeated = run->options->repeated;
  int results[BATCH];
  bool good = true;
  chain_add(&run->chain, tamis_add_unique_many_hash, hashes, n, results);
  for (size_t i = 0; i < n; i++) {
    good = good && results[i] >= 0;
    chosen[i] = good && (results[i] != TAMIS_OK) == repeated;
  }
  return good;
}

static void summarize(const struct dedup_options *options, const struct plan *plan,
                      const struct pass *pass, const struct chain *chain)
{
  struct chain_figures figures = chain_get_figures(chain);
  double planned = plan->filter.fpp, rate = figures.fpp > planned ? figures.fpp : planned;
  uint64_t keyed = pass->done.lines - pass->done.keyless;
  uint64_t distinct =
      options->repeated ? keyed - pass->done.chosen : pass->done.chosen - pass->done.keyless;
  summary_count("lines read", pass->done.lines);
  summary_count(options->repeated ? "distinct dropped" : "distinct written", distinct);
  summary_count(options->repeated ? "duplicates written" : "duplicates dropped", keyed - distinct);
  if (!key_rule_is_plain(&options->shared.keys))
    summary_count("without a key", pass->done.keyless);
  if (options->shared.stats) {
    summary_speed(pass->done.bytes, pass->done.lines, pass->seconds);
    summary_filter(&figures);
  }
  summary_row("false-positive rate", "%.2g now, %.2g %s", figures.fpp, planned,
              options->shared.memory > 0 ? "planned" : "asked");
  if (rate < 1) /* of x distinct lines, x * rate are dropped, and the others are written */
    summary_expected(options->repeated ? "wrongly written" : "wrongly dropped", "at most about",
                     (double) distinct * rate / (1 - rate), keyed - distinct);
  plan_note_load(plan, &figures, "lines");
}

/* The first signal ends the pass, and not the process. */
static void pass_gently(struct pass *pass)
{
  int stop = interrupt_be_gentle();
  if (stop < 0) {
    fail("cannot prepare for a signal: %s", strerror(errno));
    return;
  }
  pass->stop = &stop;
  pass_run(pass); /* `stop` stays open, as the first signal may come while the state is saved */
}

/* What is in the filter would be lost if it was not in the output.  So that has its name after a
 * failure, too. */
static void pass_with_shared(struct run *run, struct pass *pass)
{
  run->output.durable = run->output.others = true;
  pass_gently(pass);
  run->output.keeps = pass->done.chosen > 0;
  if (!failed())
    live_sync(&run->options->live, run->shared);
}

/* An output that is replaced at the end is not there before it, so a signal ends the run at once,
 * and the state is saved only then. */
static void pass_with_state(struct run *run, struct pass *pass)
{
  const double shortest = 0.001; /* seconds */
  double every = run->options->save_every;
  bool in_place = !output_replaces(&run->output);
  if (!in_place && every > 0) {
    set_failure_status(EXIT_UNUSABLE);
    fail("--save-every: '%s' is there only at the end, and the state is saved after it",
         run->options->shared.output);
    return;
  }
  if (every < 0)
    every = DEFAULT_SAVE_EVERY;
  run->output.durable = true;
  state_begin(&run->state, chain_hasher(&run->chain), &run->output, in_place ? every : 0);
  pass->gate = &run->state.gate;
  pass->tick = state_tick;
  pass->tick_context = &run->state;
  pass->tick_every = every > 0 && every < shortest ? shortest : every;
  (in_place ? pass_gently : pass_run)(pass);
}

static const char *filter_name(const struct dedup_options *options)
{
  return options->live.path != NULL ? options->live.path : options->state;
}

static bool start_clock(struct run *run)
{
  const struct dedup_options *options = run->options;
  const char *name = filter_name(options);
  return chain_start_clock(&run->chain, options->live.period, name, options->shared.quiet) &&
         (options->ttl < 0 || chain_limit_lives(&run->chain, options->ttl, name));
}

static void dedup(struct run *run)
{
  const struct shared_options *shared = &run->options->shared;
  bool with_state = run->options->state != NULL, repeated = run->options->repeated;
  struct pass pass = {.inputs = run->inputs->files,
                      .input_count = run->inputs->count,
                      .threads = shared->threads,
                      .hasher = chain_hasher(&run->chain),
                      .choose = choose,
                      .context = run,
                      .keys = &shared->keys,
                      .takes_keyless = !repeated,
                      .output = &run->output,
                      .show_progress = progress_wanted(shared->quiet),
                      .progress = {.label = "dedup",
                                   .chosen_name = repeated ? " duplicates" : NULL,
                                   .other_name = repeated ? NULL : " duplicates"}};
  if (run->shared == NULL)
    plan_announce(&run->plan, shared);
  if (output_open(&run->output, shared->output, run->inputs) && start_clock(run)) {
    if (with_state)
      pass_with_state(run, &pass);
    else if (run->shared != NULL)
      pass_with_shared(run, &pass);
    else
      pass_run(&pass);
  }
  output_close(&run->output);
  if (with_state && !failed())
    state_end(&run->state);
  bool announced = shared->memory > 0 && !shared->quiet && run->shared == NULL;
  if ((shared->stats || announced) && !failed())
    summarize(run->options, &run->plan, &pass, &run->chain);
}

/* A filter that is there, with its rate and its capacity. */
static void take_filter(struct run *run, tamis_filter *filter)
{
  chain_adopt(&run->chain, filter, run->options->live.path);
  run->plan =
      (struct plan){.filter = run->chain.first, .lines = run->chain.first.capacity, .holds = true};
  dedup(run);
  chain_destroy(&run->chain);
}

static void begin(struct run *run)
{
  const struct dedup_options *options = run->options;
  struct shared_options shared = options->shared;
  if (options->state != NULL && !shared.kind_given && shared.window == 0)
    shared.kind = TAMIS_CUCKOO;
  if (!plan_make(&run->plan, &shared, run->inputs->files, run->inputs->count))
    return;
  if (options->state != NULL && shared.memory == 0)
    run->plan.filter.growable = true; /* one filter */
  if (chain_create(&run->chain, &run->plan.filter, false))
    dedup(run);
  chain_destroy(&run->chain);
}

static void begin_with_state(struct run *run)
{
  const struct dedup_options *options = run->options;
  if (state_open(&run->state, options->state, run->inputs, options->shared.output)) {
    tamis_filter *filter = NULL;
    if (run->state.exists)
      filter = state_load(&run->state, &options->shared);
    if (filter != NULL)
      take_filter(run, filter);
    else if (!run->state.exists)
      begin(run);
  }
  state_close(&run->state);
}

static void begin_shared(struct run *run)
{
  const struct dedup_options *options = run->options;
  run->shared = live_open(&options->live, &options->shared, run->inputs);
  if (run->shared != NULL)
    take_filter(run, run->shared);
}

static void check(const struct dedup_options *options)
{
  live_check(&options->live, &options->shared);
  if (options->live.path != NULL && options->state != NULL)
    usage_error("--shared and --state exclude each other: both remember the lines of earlier runs");
  if (options->live.path == NULL && options->live.layout_given)
    usage_error("--layout needs --shared");
  if (options->save_every >= 0 && options->state == NULL)
    usage_error("--save-every needs --state");
  if (access_given() != NULL && options->live.path == NULL && options->state == NULL)
    usage_error("--mode needs --state or --shared");
  if (options->shared.window > 0 && options->shared.kind == TAMIS_COUNTING_BLOOM)
    usage_error("--window needs --kind bloom or cuckoo");
  if (options->shared.renews && options->shared.window == 0)
    usage_error("--renew needs --window");
  const bool windowless =
      options->shared.window == 0 && options->state == NULL && options->live.path == NULL;
  if (windowless && (options->live.period >= 0 || options->ttl >= 0))
    usage_error("%s needs --window, or a --state or --shared with one",
                options->ttl >= 0 ? "--ttl" : "--period");
}

int dedup_main(int argc, char **argv)
{
  struct dedup_options options = {
      .shared = SHARED_OPTIONS_INIT, .live = LIVE_OPTIONS_INIT, .save_every = -1, .ttl = -1};
  parse_command_line(&dedup_argp, argc, argv, &options.shared, &options);
  check(&options);

  struct inputs inputs = {.filter = filter_name(&options)};
  struct run run = {.options = &options, .inputs = &inputs};
  if (inputs_check(&inputs, options.shared.files, options.shared.file_count) &&
      output_check(options.shared.output, &inputs))
    (options.live.path != NULL ? begin_shared
     : options.state != NULL   ? begin_with_state
                               : begin)(&run);
  inputs_free(&inputs);
  int status = finish();
  interrupt_end_if_asked();
  return status;
}
