/* SPDX-License-Identifier: MIT */
#include "options.h"

#include "report.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEY_USAGE = 0x100, KEY_STATS };

/* Reads digits at *text, and moves *text behind them.  False: there is no digit, or the number
 * needs more than 64 bits. */
static bool read_digits(const char **text, uint64_t *value)
{
  char *end;
  if (**text < '0' || **text > '9')
    return false; /* strtoull would accept a sign and blanks */
  errno = 0;
  *value = strtoull(*text, &end, 10);
  *text = end;
  return errno == 0;
}

/* If *text is the n-th letter of "kMGT", multiplies *value by base^n and moves *text behind it.
 * False: the result needs more than 64 bits. */
static bool scale_by_suffix(const char **text, uint64_t base, uint64_t *value)
{
  static const char suffixes[] = "kMGT";
  const char *letter = **text == 'K' ? suffixes : **text == '\0' ? NULL : strchr(suffixes, **text);
  if (letter == NULL)
    return true;
  ++*text;
  for (const char *step = suffixes; step <= letter; step++)
    if (__builtin_mul_overflow(*value, base, value))
      return false;
  return true;
}

static uint64_t parse_capacity(const char *option, const char *text)
{
  const char *rest = text;
  uint64_t value;
  if (!read_digits(&rest, &value) || !scale_by_suffix(&rest, 1000, &value) || *rest != '\0' ||
      value < 1 || value > MAX_CAPACITY)
    usage_error("%s: '%s' is not a number of lines from 1 to 2^40, such as 500000 or 20M", option,
                text);
  return value;
}

uint64_t parse_memory(const char *option, const char *text)
{
  const char *rest = text;
  uint64_t value;
  bool good = read_digits(&rest, &value) && scale_by_suffix(&rest, 1024, &value) && value > 0;
  if (!good ||
      (*rest != '\0' && strcmp(rest, "B") != 0 && (strcmp(rest, "iB") != 0 || rest[-1] <= '9')))
    usage_error("%s: '%s' is not a size, such as 300000, 64M or 2GiB", option, text);
  return value;
}

static unsigned online_cores(void)
{
  cpu_set_t allowed; /* may be fewer than sysconf says, under taskset or in a container */
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
    return (unsigned) CPU_COUNT(&allowed);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : online > MAX_THREADS ? MAX_THREADS : (unsigned) online;
}

static unsigned parse_threads(const char *text)
{
  const char *rest = text;
  uint64_t value;
  if (!read_digits(&rest, &value) || *rest != '\0' || value > MAX_THREADS)
    usage_error("--threads: '%s' is not a number from 0 to %d", text, MAX_THREADS);
  return value == 0 ? online_cores() : (unsigned) value;
}

static double parse_fpp(const char *text)
{
  char *end;
  /* strtod would also accept blanks, signs, "nan", "inf" and hexadecimal numbers. */
  double value =
      text[strspn(text, "0123456789.eE+-")] == '\0' && text[0] != '+' ? strtod(text, &end) : -1;
  if (!(value > 0 && value < 1) || *end != '\0')
    usage_error("--fpp: '%s' is not a rate above 0 and below 1, such as 0.001 or 1e-6", text);
  return value;
}

static tamis_kind parse_kind(const char *text)
{
  if (strcmp(text, "bloom") == 0)
    return TAMIS_BLOOM;
  if (strcmp(text, "cuckoo") == 0)
    return TAMIS_CUCKOO;
  usage_error("--kind: '%s' is neither bloom nor cuckoo", text);
}

tamis_options shared_filter(const struct shared_options *options)
{
  tamis_options filter = TAMIS_OPTIONS_INIT;
  filter.kind = options->kind;
  filter.capacity = options->capacity;
  filter.fpp = options->fpp > 0 ? options->fpp : DEFAULT_FPP;
  filter.growable = options->kind == TAMIS_CUCKOO;
  return filter;
}

const char *kind_name(tamis_kind kind)
{
  return kind == TAMIS_CUCKOO ? "cuckoo" : "Bloom";
}

static error_t parse_shared(int key, char *argument, struct argp_state *state)
{
  struct shared_options *options = state->input;
  switch (key) {
  case ARGP_KEY_INIT:
    state->err_stream = options->discard;
    return 0;
  case 't':
    options->threads = parse_threads(argument);
    return 0;
  case 'c':
    options->capacity = parse_capacity("--capacity", argument);
    return 0;
  case 'p':
    options->fpp = parse_fpp(argument);
    return 0;
  case 'k':
    options->kind = parse_kind(argument);
    return 0;
  case 'o':
    options->output = argument;
    return 0;
  case 'q':
    options->quiet = true;
    return 0;
  case KEY_STATS:
    options->stats = true;
    return 0;
  case 'h':
    state->name = options->command;
    argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
    return 0;
  case KEY_USAGE:
    state->name = options->command;
    argp_state_help(state, stdout, ARGP_HELP_USAGE | ARGP_HELP_EXIT_OK);
    return 0;
  case 'V':
    printf("tamis %s\n", tamis_version());
    exit(EXIT_SUCCESS);
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option shared_entries[] = {
    {"threads", 't', "N", 0,
     "Use N threads (default 1, which keeps the order; 0: one for each core)", 0},
    {"capacity", 'c', "N", 0,
     "Expected number of distinct lines; k, M, G are powers of 1000 (default: estimated from a "
     "sample "
     "of each file; 1M for a pipe)",
     0},
    {"fpp", 'p', "RATE", 0, "Allowed rate of false positives (default 1e-6)", 0},
    {"kind", 'k', "KIND", 0,
     "Kind of filter: bloom (the default), or cuckoo, which grows by itself", 0},
    {"output", 'o', "FILE", 0, "Write to FILE instead of standard output", 0},
    {"stats", KEY_STATS, NULL, 0, "Print a summary on standard error at the end", 0},
    {"quiet", 'q', NULL, 0, "Print nothing on standard error but errors", 0},
    {NULL, 0, NULL, 0, NULL, -1},
    {"help", 'h', NULL, 0, "Print this help", -1},
    {"usage", KEY_USAGE, NULL, 0, "Print a short usage message", -1},
    {"version", 'V', NULL, 0, "Print the version", -1},
    {NULL, 0, NULL, 0, NULL, 0},
};

const struct argp shared_argp = {shared_entries, parse_shared, NULL, NULL, NULL, NULL, NULL};

void parse_command_line(const struct argp *argp, int argc, char **argv,
                        struct shared_options *shared, void *input)
{
  static char program[] = "tamis";
  argv[0] = program; /* getopt begins its messages with this name */
  argp_err_exit_status = 2;
  shared->discard = fopen("/dev/null", "w");
  if (shared->discard == NULL)
    shared->discard = stderr; /* an error then takes two lines */
  argp_parse(argp, argc, argv, ARGP_NO_HELP, NULL, input);
  if (shared->discard != stderr)
    fclose(shared->discard);
}
