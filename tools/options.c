/* SPDX-License-Identifier: MIT */
#include "options.h"

#include "numbers.h"
#include "report.h"
#include "version.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_USAGE = 0x100, KEY_STATS, KEY_CRLF, KEY_POINTER };

static struct shared_options *parsed; /* what the command line gives comes here */
static char command[32];              /* the name that --help shows, such as "tamis dedup" */

static unsigned online_cores(void)
{
  cpu_set_t allowed; /* may be fewer than sysconf says, under taskset or in a container */
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    return (unsigned) CPU_COUNT(&allowed);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : online > MAX_THREADS ? MAX_THREADS : (unsigned) online;
}

static tamis_kind parse_kind(const char *text)
{
  if (strcmp(text, "bloom") == 0)
    return TAMIS_BLOOM;
  if (strcmp(text, "cuckoo") == 0)
    return TAMIS_CUCKOO;
  if (strcmp(text, "counting") == 0)
    return TAMIS_COUNTING_BLOOM;
  usage_error("--kind: '%s' is neither bloom nor cuckoo nor counting", text);
}

tamis_options shared_filter(const struct shared_options *options)
{
  tamis_options filter = TAMIS_OPTIONS_INIT;
  filter.kind = options->kind;
  filter.capacity = options->capacity;
  filter.window = options->window;
  filter.window_renews = options->renews;
  filter.fpp = options->fpp > 0 ? options->fpp : default_fpp(options);
  filter.growable = options->kind == TAMIS_CUCKOO || options->window > 0;
  return filter;
}

const char *kind_name(tamis_kind kind)
{
  return kind == TAMIS_CUCKOO           ? "cuckoo"
         : kind == TAMIS_COUNTING_BLOOM ? "counting Bloom"
                                        : "Bloom";
}

const char *kind_word(tamis_kind kind)
{
  return kind == TAMIS_CUCKOO ? "cuckoo" : kind == TAMIS_COUNTING_BLOOM ? "counting" : "bloom";
}

static const char *const layouts[] = {[TAMIS_LAYOUT_BLOCKED] = "blocked",
                                      [TAMIS_LAYOUT_CLASSIC] = "classic",
                                      [TAMIS_LAYOUT_WORD] = "word"};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

tamis_layout parse_layout(const char *text)
{
  for (unsigned i = 0; i < LAYOUTS; i++)
    if (strcmp(text, layouts[i]) == 0)
      return (tamis_layout) i;
  usage_error("--layout: '%s' is neither blocked nor classic nor word", text);
}

const char *layout_name(tamis_layout layout)
{
  return (unsigned) layout < LAYOUTS ? layouts[layout] : "unknown";
}

static error_t parse_filter(int key, char *argument, struct argp_state *state)
{
  (void) state;
  switch (key) {
  case 'c':
    parsed->capacity = parse_capacity("--capacity", argument);
    return 0;
  case 'p':
    parsed->fpp = parse_fpp("--fpp", argument);
    return 0;
  case 'm':
    parsed->memory = parse_memory("--memory", argument);
    return 0;
  case 'k':
    parsed->kind = parse_kind(argument);
    parsed->kind_given = true;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static error_t parse_window_option(int key, char *argument, struct argp_state *state)
{
  (void) state;
  if (key != 'w')
    return ARGP_ERR_UNKNOWN;
  parsed->window = parse_window("--window", argument);
  return 0;
}

static void set_mode(struct key_rule *rule, enum key_mode mode)
{
  if (rule->mode != KEY_LINE)
    usage_error("give one of --field and --regex and --json, once");
  rule->mode = mode;
}

static void set_delimiter(struct key_rule *rule, const char *text)
{
  if (strlen(text) != 1 || *text == '\n')
    usage_error("--delimiter: '%s' is not one byte", text);
  rule->delimited = true;
  rule->delimiter = *text;
}

/* A wrong expression is found before a file is read. */
static void check_keys(const struct key_rule *rule)
{
  struct key_finder finder;
  char why[256];
  if (rule->delimited && rule->mode != KEY_FIELD)
    usage_error("--delimiter needs --field");
  if (!key_finder_init(&finder, rule, why, sizeof why))
    usage_error("%s: %s", rule->mode == KEY_VALUE ? "--json" : "--regex", why);
  key_finder_free(&finder);
}

static error_t parse_keys(int key, char *argument, struct argp_state *state)
{
  (void) state;
  struct key_rule *rule = &parsed->keys;
  switch (key) {
  case 'f':
    set_mode(rule, KEY_FIELD);
    rule->field = parse_field("--field", argument);
    return 0;
  case 'd':
    set_delimiter(rule, argument);
    return 0;
  case 'e':
    set_mode(rule, KEY_REGEX);
    rule->regex = argument;
    return 0;
  case KEY_POINTER:
    set_mode(rule, KEY_VALUE);
    rule->regex = argument;
    return 0;
  case 'i':
    rule->ignore_case = true;
    return 0;
  case KEY_CRLF:
    rule->crlf = true;
    return 0;
  case ARGP_KEY_END:
    check_keys(rule);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static error_t parse_run(int key, char *argument, struct argp_state *state)
{
  (void) state;
  unsigned threads;
  switch (key) {
  case 't':
    threads = parse_threads("--threads", argument);
    parsed->threads = threads > 0 ? threads : online_cores();
    return 0;
  case KEY_STATS:
    parsed->stats = true;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* NOLINTNEXTLINE(readability-non-const-parameter): argp defines the type */
static error_t parse_output(int key, char *argument, struct argp_state *state)
{
  (void) state;
  switch (key) {
  case 'o':
    parsed->output = argument;
    return 0;
  case 'q':
    parsed->quiet = true;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* NOLINTNEXTLINE(readability-non-const-parameter): argp defines the type */
static error_t parse_help(int key, char *argument, struct argp_state *state)
{
  (void) argument;
  switch (key) {
  case ARGP_KEY_INIT:
    state->err_stream = parsed->discard;
    return 0;
  case ARGP_KEY_ARGS:
    parsed->files = state->argv + state->next;
    parsed->file_count = (size_t) (state->argc - state->next);
    return 0;
  case 'h':
    state->name = command;
    argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
    return 0;
  case KEY_USAGE:
    state->name = command;
    argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
    return 0;
  case 'V':
    version_print();
    exit(EXIT_SUCCESS);
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option filter_entries[] = {
    {"capacity", 'c', "N", 0,
     "Number of distinct lines: 500000, 1.5M, 2e9; k, M, G are powers of 1000", 1},
    {"fpp", 'p', "RATE", 0, "Allowed rate of false positives (default 1e-6)", 1},
    {"memory", 'm', "SIZE", 0,
     "Limit of the filter's memory: 300000, 1.5G; K, M, G are powers of 1024", 1},
    {"kind", 'k', "KIND", 0,
     "Kind of filter: bloom (the default), cuckoo, which grows by itself, or counting, a Bloom "
     "filter "
     "for programs that remove keys (default RATE 1e-4)",
     1},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp_option window_entries[] = {
    {"window", 'w', "G", 0,
     "Forget what is older than G periods, 1 to 64: a sliding window, of kind bloom or cuckoo "
     "(default RATE 1e-5)",
     1},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp_option key_entries[] = {
    {"field", 'f', "N", 0, "The key of a line is its Nth field; blanks separate fields, as for awk",
     1},
    {"delimiter", 'd', "C", 0, "Each byte C separates two fields, as for cut", 1},
    {"regex", 'e', "REGEX", 0,
     "The key is what REGEX, an extended one, matches in a line, or what its first group does", 1},
    {"json", KEY_POINTER, "POINTER", 0,
     "The key is the value at POINTER, such as /user/id, of a line in JSON: a string, a number or "
     "a boolean",
     1},
    {"ignore-case", 'i', NULL, 0, "Keys that differ in the case of the letters A to Z are equal",
     1},
    {"crlf", KEY_CRLF, NULL, 0, "A carriage return at the end of a line is no part of its key", 1},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp_option run_entries[] = {
    {"threads", 't', "N", 0,
     "Use N threads (default 1, which keeps the order; 0: one for each core)", 2},
    {"stats", KEY_STATS, NULL, 0, "Print a summary on standard error at the end", 2},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp_option output_entries[] = {
    {"output", 'o', "FILE", 0, "Write to FILE, which is replaced when all is written", 2},
    {"quiet", 'q', NULL, 0, "Print nothing on standard error but errors", 2},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp_option help_entries[] = {
    {"help", 'h', NULL, 0, "Print this help", -1},
    {"usage", KEY_USAGE, NULL, 0, "Print a short usage message", -1},
    {"version", 'V', NULL, 0, "Print the version", -1},
    {NULL, 0, NULL, 0, NULL, 0},
};

const struct argp filter_argp = {filter_entries, parse_filter, NULL, NULL, NULL, NULL, NULL};
const struct argp window_argp = {window_entries, parse_window_option, NULL, NULL, NULL, NULL, NULL};
const struct argp key_argp = {key_entries, parse_keys, NULL, NULL, NULL, NULL, NULL};
const struct argp output_argp = {output_entries, parse_output, NULL, NULL, NULL, NULL, NULL};
static const struct argp_child run_children[] = {{&output_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};
const struct argp run_argp = {run_entries, parse_run, NULL, NULL, run_children, NULL, NULL};
const struct argp help_argp = {help_entries, parse_help, NULL, NULL, NULL, NULL, NULL};

void parse_command_line(const struct argp *argp, int argc, char **argv,
                        struct shared_options *shared, void *input)
{
  parsed = shared;
  static char program[64]; /* getopt begins its messages with this */
  snprintf(command, sizeof command, "tamis %s", argv[0]);
  snprintf(program, sizeof program, "tamis: see '%s --help'", command);
  argv[0] = program;
  argp_err_exit_status = 2;
  shared->discard = fopen("/dev/null", "w");
  if (shared->discard == NULL)
    shared->discard = stderr; /* an error then takes two lines */
  argp_parse(argp, argc, argv, ARGP_NO_HELP, NULL, input);
  if (shared->discard != stderr)
    fclose(shared->discard);
}
