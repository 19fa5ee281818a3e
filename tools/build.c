/* SPDX-License-Identifier: MIT
 *
 * tamis build: saves a filter of the lines of some files.
 */
#include "access.h"
#include "chain.h"
#include "commands.h"
#include "live.h"
#include "numbers.h"
#include "options.h"
#include "plan.h"
#include "report.h"
#include "saved.h"
#include "summary.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_LIKE = 0x200, KEY_SEED, KEY_FIXED, MOST_PASSES = 4 };

struct build_options {
  struct shared_options shared;
  struct live_options live; /* its layout and seed are those of any filter */
  const char *like;
  bool fixed;
};

static const struct argp_child children[] = {{&live_argp, 0, NULL, 0},   {&access_argp, 0, NULL, 0},
                                             {&filter_argp, 0, NULL, 0}, {&key_argp, 0, NULL, 0},
                                             {&run_argp, 0, NULL, 0},    {&help_argp, 0, NULL, 0},
                                             {NULL, 0, NULL, 0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct build_options *options = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[0] = &options->live;
    return 0;
  case KEY_LIKE:
    options->like = argument;
    return 0;
  case KEY_SEED:
    options->live.seed = parse_seed("--seed", argument);
    return 0;
  case KEY_FIXED:
    options->fixed = true;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option entries[] = {
    {"fixed", KEY_FIXED, NULL, 0, "A cuckoo filter that does not grow, and can be mapped", 1},
    {"seed", KEY_SEED, "N", 0, "Seed of the hash function (default: a secret random one)", 1},
    {"like", KEY_LIKE, "LIST", 0,
     "Make a filter that fits the saved filter LIST, so that 'tamis merge' can unite them", 1},
    {NULL, 0, NULL, 0, NULL, 0}};

static const struct argp build_argp = {
    entries,
    parse,
    "[FILE...] -o LIST | --shared FILE",
    "Save a filter of all lines of the FILEs to LIST, for 'tamis query'.\v"
    "With no FILE, or if FILE is -, read standard input.\n\n"
    "The number of distinct lines is estimated from a sample of each file unless "
    "--capacity gives it.  If there are more lines, the files are read again, for a "
    "filter that is large enough.  A pipe cannot be read twice, so without --kind and "
    "--capacity its filter is a cuckoo filter, which grows.  It is an error if there are "
    "more lines than --memory allows, or than a --fixed filter has room for.  A filter of "
    "kind counting takes further lines, but its rate then rises.\n\n"
    "With --field, --regex, --json, --crlf or --ignore-case the keys of the lines are "
    "added.  A line that has no such field, match or value adds nothing.  LIST does not "
    "store these options, so give them to 'tamis query' again.\n\n"
    "LIST appears when it is complete and on the disk; until then, and after any error or "
    "signal, an old LIST stays as it was.  Only its owner can read a new LIST, because it "
    "holds the seed: whoever knows the seed can choose lines that collide.  (Other users "
    "of this computer can see a --seed on the command line.)\n\n"
    "With --shared, the lines are added to the filter in FILE, which other processes may "
    "use at the same time.  FILE is created if it is missing, as by 'tamis dedup "
    "--shared'.  The lines are on the disk when the command has ended.\n\n"
    "Examples:\n"
    "  tamis build known.txt -o known.tamis\n"
    "  zcat urls-*.gz | tamis build --fpp 1e-4 -o urls.tamis\n"
    "  tamis build --crlf --field 1 --delimiter : counts.txt -o hashes.tamis\n"
    "  tamis build --like monday.tamis tuesday.txt -o tuesday.tamis",
    children,
    NULL,
    NULL};

static bool add_lines(void *chain, const uint64_t *hashes, size_t n, bool *chosen)
{
  memset(chosen, 0, n * sizeof *chosen);
  return chain_add_lines(chain, hashes, n);
}

/* ---- which filter ---- */

/* Whether a cuckoo filter is one that grows: only the other kind can be mapped. */
static bool is_growing(const char *path, bool *growing)
{
  tamis_filter *filter;
  int result = tamis_map_file(NULL, path, &filter);
  tamis_destroy(filter);
  *growing = result == TAMIS_EUNSUPPORTED;
  if (result != TAMIS_OK && !*growing)
    tamis_destroy(saved_load(path, 0)); /* says why */
  return !failed();
}

/* Whether a filter with these options fits the saved one, a Bloom filter or a cuckoo filter that grows.  Tries a union
 * with an empty filter: a mapped Bloom filter is added to it, and it is added to a loaded cuckoo filter. */
static bool fits(const tamis_options *options, const char *path)
{
  tamis_filter *filter, *list = saved_map(path, false);
  bool good = false;
  if (list != NULL && tamis_create(options, &filter) == TAMIS_OK) {
    bool grows = options->kind == TAMIS_CUCKOO;
    good = tamis_merge(grows ? list : filter, grows ? filter : list) != TAMIS_EINVAL;
    tamis_destroy(filter);
  }
  tamis_destroy(list);
  return good;
}

/* A program may have saved a Bloom filter that refuses keys past its capacity.  (What is no file
 * can be read only once; 'tamis build' makes filters that grow.) */
static bool is_limited(const tamis_options *options, const char *path)
{
  struct stat status;
  tamis_options limited = *options;
  limited.growable = false;
  return stat(path, &status) == 0 && S_ISREG(status.st_mode) && fits(&limited, path);
}

static bool plan_like(struct plan *plan, const char *path)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  if (!saved_describe(path, &stats))
    return false;
  if (stats.parts > 1) {
    set_failure_status(EXIT_UNUSABLE);
    fail("'%s' has a window, so it forgets lines; a list that is built keeps them", path);
    return false;
  }
  *plan = (struct plan){.filter = TAMIS_OPTIONS_INIT, .lines = stats.capacity, .holds = true};
  plan->filter.kind = stats.kind;
  plan->filter.capacity = stats.capacity;
  plan->filter.fpp = stats.fpp;
  plan->filter.seed = stats.seed;
  plan->filter.layout = stats.layout;
  if (stats.kind == TAMIS_CUCKOO) {
    bool known = is_growing(path, &plan->filter.growable);
    if (known && plan->filter.growable && !fits(&plan->filter, path) && !failed()) {
      set_failure_status(EXIT_UNUSABLE);
      fail("'%s' is a shared cuckoo filter, or a copy of one; a list that is built is none", path);
    }
    return !failed();
  }
  plan->filter.growable = !is_limited(&plan->filter, path);
  return !failed();
}

static bool plan_filter(struct plan *plan, const struct build_options *options,
                        const struct inputs *inputs)
{
  if (options->like != NULL)
    return plan_like(plan, options->like);
  struct shared_options shared = options->shared;
  bool unknown = shared.capacity == 0 && !inputs_sized(inputs->files, inputs->count);
  if (!shared.kind_given && !options->live.layout_given && shared.memory == 0 &&
      (options->fixed || unknown))
    shared.kind = TAMIS_CUCKOO;
  if (!plan_make(plan, &shared, inputs->files, inputs->count))
    return false;
  plan->filter.seed = options->live.seed;
  if (shared.memory > 0)
    return true;
  plan->filter.layout = options->live.layout;
  plan->filter.growable = !options->fixed;
  return true;
}

/* ---- the run ---- */

struct run {
  const struct build_options *options;
  const struct inputs *inputs;
  struct plan plan;
  struct chain chain;
  struct pass pass;
};

/* After a first pass over files that can be read again: whether the filter should have been larger,
 * and how large.  Each pass gives a better estimate, and the number of lines is a limit. */
static bool is_too_small(struct run *run)
{
  const struct shared_options *shared = &run->options->shared;
  tamis_options *filter = &run->plan.filter;
  tamis_stats stats = TAMIS_STATS_INIT;
  if (run->options->like != NULL || run->chain.shared != NULL || shared->capacity > 0 ||
      shared->memory > 0 || filter->kind != TAMIS_BLOOM ||
      !inputs_sized(run->inputs->files, run->inputs->count) ||
      tamis_get_stats(chain_hasher(&run->chain), &stats) != TAMIS_OK || stats.load <= 1)
    return false;
  double lines = fmin(stats.estimated_count * 1.02 + 1000, (double) run->pass.done.lines);
  filter->capacity = (uint64_t) lines;
  run->plan.lines = filter->capacity;
  return true;
}

/* A file is opened anew for each pass; standard input is not. */
static void rewind_standard_input(const struct inputs *inputs)
{
  for (size_t i = 0; i < inputs->count; i++)
    if (inputs->files[i].path == NULL)
      (void) lseek(STDIN_FILENO, (off_t) inputs->files[i].start, SEEK_SET);
}

static void read_lines(struct run *run)
{
  const struct shared_options *shared = &run->options->shared;
  run->pass = (struct pass){.inputs = run->inputs->files,
                            .input_count = run->inputs->count,
                            .threads = shared->threads,
                            .keys = &shared->keys,
                            .hasher = chain_hasher(&run->chain),
                            .choose = add_lines,
                            .context = &run->chain,
                            .show_progress = progress_wanted(shared->quiet),
                            .progress = {.label = "build"}};
  pass_run(&run->pass);
}

/* Fills the filter, and a larger one if it was too small.  False after fail(). */
static bool fill(struct run *run)
{
  read_lines(run);
  for (int passes = 1; passes < MOST_PASSES && !failed() && is_too_small(run); passes++) {
    chain_destroy(&run->chain);
    if (!chain_create(&run->chain, &run->plan.filter, true))
      return false;
    rewind_standard_input(run->inputs);
    read_lines(run);
  }
  return !failed();
}

static void summarize(const struct run *run, const struct chain_figures *figures)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  char keys[KEYS_BYTES];
  summary_count("lines read", run->pass.done.lines);
  if (tamis_get_stats(chain_hasher(&run->chain), &stats) == TAMIS_OK)
    summary_row("distinct lines", "%s", keys_figure(keys, &stats));
  summary_speed(run->pass.done.bytes, run->pass.done.lines, run->pass.seconds);
  summary_filter(figures);
  summary_row("false-positive rate", "%.2g now, %.2g planned", figures->fpp, run->plan.filter.fpp);
}

static void tell(const struct run *run)
{
  const struct shared_options *shared = &run->options->shared;
  struct chain_figures figures = chain_get_figures(&run->chain);
  if (shared->stats)
    summarize(run, &figures);
  if (!shared->quiet)
    plan_note_load(&run->plan, &figures, "lines");
}

static void build(struct run *run)
{
  const struct shared_options *shared = &run->options->shared;
  struct output output;
  plan_announce(&run->plan, shared);
  if (output_open_filter(&output, shared->output, run->inputs) && fill(run))
    saved_write(&output, chain_hasher(&run->chain));
  output_close(&output);
  if (!failed())
    tell(run);
}

static void build_saved(struct run *run)
{
  if (!plan_filter(&run->plan, run->options, run->inputs))
    return;
  if (chain_create(&run->chain, &run->plan.filter, true))
    build(run);
  chain_destroy(&run->chain);
}

static void build_shared(struct run *run)
{
  const struct build_options *options = run->options;
  tamis_filter *filter = live_open(&options->live, &options->shared, run->inputs);
  if (filter == NULL)
    return;
  chain_adopt(&run->chain, filter, options->live.path);
  run->plan.filter = run->chain.first;
  run->plan.lines = run->chain.first.capacity;
  if (chain_start_clock(&run->chain, options->live.period, options->live.path,
                        options->shared.quiet) &&
      fill(run) && live_sync(&options->live, filter))
    tell(run);
  chain_destroy(&run->chain);
}

static void check(const struct build_options *options)
{
  const struct shared_options *shared = &options->shared;
  bool cuckoo = shared->kind == TAMIS_CUCKOO;
  live_check(&options->live, shared);
  if ((shared->output == NULL) == (options->live.path == NULL))
    usage_error("build needs -o FILE, or --shared FILE");
  if (options->live.period >= 0 && options->live.path == NULL)
    usage_error("--period needs --shared");
  if (options->live.path != NULL && (options->like != NULL || options->fixed))
    usage_error("--shared is for Bloom filters that grow, so --like and --fixed cannot be");
  if (options->like != NULL &&
      (shared->capacity > 0 || shared->fpp > 0 || shared->memory > 0 || shared->kind_given ||
       options->live.layout_given || options->fixed || options->live.seed != 0))
    usage_error("--like decides the form of the filter, so no other option can");
  if (shared->kind != TAMIS_BLOOM && options->live.layout_given)
    usage_error("--layout is for Bloom filters");
  if (options->fixed && shared->kind_given && !cuckoo)
    usage_error("--fixed is for cuckoo filters");
  if (options->live.layout_given && options->fixed)
    usage_error("--layout is for Bloom filters, --fixed is for cuckoo filters");
  if (shared->memory > 0 && !options->live.path && (options->live.layout_given || options->fixed))
    usage_error("--memory decides the form of the filter, so --layout and --fixed cannot");
}

int build_main(int argc, char **argv)
{
  struct build_options options = {.shared = SHARED_OPTIONS_INIT, .live = LIVE_OPTIONS_INIT};
  parse_command_line(&build_argp, argc, argv, &options.shared, &options);
  check(&options);

  struct inputs inputs = {.filter = options.like};
  struct run run = {.options = &options, .inputs = &inputs};
  if (inputs_check(&inputs, options.shared.files, options.shared.file_count) &&
      output_check(options.shared.output, &inputs))
    (options.live.path != NULL ? build_shared : build_saved)(&run);
  inputs_free(&inputs);
  return finish();
}
