/* SPDX-License-Identifier: MIT
 *
 * tamis size: what a filter takes, or what memory buys.
 */
#include "commands.h"
#include "options.h"
#include "plan.h"
#include "report.h"

#include <inttypes.h>
#include <stdlib.h>

enum { KEY_FIXED = 0x200 };

struct size_options {
  struct shared_options shared;
  tamis_layout layout;
  bool layout_given;
  bool fixed;
};

static const struct argp_child children[] = {{&filter_argp, 0, NULL, 0},
                                             {&window_argp, 0, NULL, 0},
                                             {&help_argp, 0, NULL, 0},
                                             {NULL, 0, NULL, 0}};

static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct size_options *options = state->input;
  switch (key) {
  case 'l':
    options->layout = parse_layout(argument);
    options->layout_given = true;
    return 0;
  case KEY_FIXED:
    options->fixed = true;
    return 0;
  case ARGP_KEY_ARG:
    usage_error("size takes no files; see 'tamis size --help'");
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option entries[] = {
    {"layout", 'l', "LAYOUT", 0,
     "Layout of a Bloom filter: blocked (the default), classic (smaller), or word (larger, and "
     "faster)",
     1},
    {"fixed", KEY_FIXED, NULL, 0, "A cuckoo filter, or a window, that does not grow", 1},
    {NULL, 0, NULL, 0, NULL, 0}};
static const struct argp size_argp = {
    entries,
    parse,
    NULL,
    "Print the memory of a filter for N keys at RATE, or what fits into SIZE bytes.\v"
    "With --capacity, print the memory.  With --memory, print the capacity.  With both, "
    "print the lowest rate.  With --capacity, --memory and --fpp, print all three.  While "
    "a cuckoo filter grows, it may take twice this memory.\n\n"
    "Examples:\n"
    "  tamis size --capacity 1G --fpp 1e-6\n"
    "  tamis size --memory 4G --fpp 0.001 --kind cuckoo\n"
    "  tamis size --memory 4G --capacity 1G --layout classic\n"
    "  tamis size --capacity 10M --fpp 0.001 --window 24",
    children,
    NULL,
    NULL};

static void check(const struct size_options *options)
{
  const struct shared_options *shared = &options->shared;
  bool cuckoo = shared->kind == TAMIS_CUCKOO;
  if (shared->capacity == 0 && shared->memory == 0)
    usage_error("size needs --capacity or --memory; see 'tamis size --help'");
  if (shared->kind != TAMIS_BLOOM && options->layout_given)
    usage_error("--layout is for Bloom filters");
  if (shared->window > 0 && shared->kind == TAMIS_COUNTING_BLOOM)
    usage_error("--window needs --kind bloom or cuckoo");
  if (shared->window > 0 && options->layout_given)
    usage_error("a filter with --window has no --layout");
  if (!cuckoo && shared->window == 0 && options->fixed)
    usage_error("--fixed is for cuckoo filters and windows");
}

static void fail_too_little(const tamis_options *filter, uint64_t memory, uint64_t enough)
{
  char size[FIGURE_BYTES];
  fail("%s is too little for a %s filter of %" PRIu64 " key%s; --memory %" PRIu64 " is enough",
       bytes_figure(size, (double) memory), kind_name(filter->kind), filter->capacity,
       filter->capacity == 1 ? "" : "s", enough);
}

/* A filter of a fixed size can have lower rates. */
static void refuse(const tamis_options *filter, int result)
{
  tamis_options fixed = *filter;
  uint64_t bytes;
  fixed.growable = false;
  if (filter->growable && tamis_bytes_for(&fixed, &bytes) == TAMIS_OK)
    fail("a rate of %.2g is lower than a %s filter that grows can give; use --fixed", filter->fpp,
         kind_name(filter->kind));
  else
    fail_to_create(filter, result, 0);
}

/* The bytes of the filter.  False after fail(). */
static bool take(const tamis_options *filter, uint64_t *bytes)
{
  int result = tamis_bytes_for(filter, bytes);
  if (result != TAMIS_OK)
    refuse(filter, result);
  return result == TAMIS_OK;
}

/* Sets the capacity that the memory buys.  False after fail(). */
static bool buy_capacity(tamis_options *filter, uint64_t memory)
{
  uint64_t bytes;
  filter->capacity = capacity_for(filter, memory);
  if (filter->capacity > 0)
    return true;
  filter->capacity = 1;
  if (take(filter, &bytes)) /* so the rate is possible */
    fail_too_little(filter, memory, bytes);
  return false;
}

/* Sets the rate that the memory buys.  False after fail(). */
static bool buy_rate(tamis_options *filter, uint64_t memory)
{
  int result = tamis_fpp_for(filter, memory, &filter->fpp);
  if (result == TAMIS_EFULL)
    fail_too_little(filter, memory, least_memory(filter));
  else if (result != TAMIS_OK)
    refuse(filter, result);
  return result == TAMIS_OK;
}

static void print_filter(const tamis_options *filter)
{
  char figure[FIGURE_BYTES];
  uint64_t bytes;
  if (!take(filter, &bytes))
    return;
  if (filter->window > 0)
    printf("kind          %s, window of %u period%s, %s\n", kind_name(filter->kind), filter->window,
           filter->window == 1 ? "" : "s", filter->growable ? "growing" : "fixed");
  else if (filter->kind == TAMIS_CUCKOO)
    printf("kind          cuckoo, %s\n", filter->growable ? "growing" : "fixed");
  else if (filter->kind == TAMIS_COUNTING_BLOOM)
    puts("kind          counting");
  else
    printf("kind          bloom, %s\n", layout_name(filter->layout));
  printf("capacity      %" PRIu64 " (%s)\n", filter->capacity,
         count_figure(figure, (double) filter->capacity));
  printf("fpp           %.3g\n", filter->fpp);
  printf("bytes         %" PRIu64 " (%s)\n", bytes, bytes_figure(figure, (double) bytes));
  printf("bits per key  %.4g\n", 8 * (double) bytes / (double) filter->capacity);
}

static void run(const struct shared_options *options, const tamis_options *asked)
{
  const uint64_t memory = options->memory;
  const bool all = memory > 0 && options->capacity > 0 && options->fpp > 0;
  tamis_options filter = *asked;
  if (memory == 0 || all)
    print_filter(asked);
  if (all)
    putchar('\n');
  if (memory > 0 && (options->capacity == 0 || all) && buy_capacity(&filter, memory))
    print_filter(&filter);
  if (all)
    putchar('\n');
  filter = *asked;
  if (memory > 0 && options->capacity > 0 && buy_rate(&filter, memory))
    print_filter(&filter);
}

int size_main(int argc, char **argv)
{
  struct size_options options = {.shared = SHARED_OPTIONS_INIT};
  parse_command_line(&size_argp, argc, argv, &options.shared, &options);
  check(&options);

  tamis_options filter = shared_filter(&options.shared);
  filter.layout = options.layout;
  filter.growable = !options.fixed;
  run(&options.shared, &filter);
  return finish();
}
