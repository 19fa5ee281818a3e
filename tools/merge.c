/* SPDX-License-Identifier: MIT
 *
 * tamis merge: unites saved filters.
 */
#include "access.h"
#include "commands.h"
#include "options.h"
#include "report.h"
#include "saved.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_BYTES = 96 };

static const struct argp_child children[] = {{&output_argp, 0, NULL, 0},
                                             {&help_argp, 0, NULL, 0},
                                             {&access_argp, 0, NULL, 0},
                                             {NULL, 0, NULL, 0}};

static const struct argp merge_argp = {
    NULL,
    NULL,
    "LIST LIST... -o FILE",
    "Write the union of saved filters to FILE: it has all lines of all filters.\v"
    "The filters must fit together: they must have the same kind, layout, seed, rate, "
    "capacity and window, and all or none must be --fixed.  'tamis build --like LIST' makes "
    "filters that fit.  The rate of a Bloom "
    "filter may rise if the union holds more lines than its capacity.  FILE may be one of "
    "the LISTs.\n\n"
    "The exit status is 0 on success, 1 after an error, and 2 if the command line is "
    "wrong, or a LIST is damaged, or does not fit.\n\n"
    "Examples:\n"
    "  tamis build --capacity 50M monday.txt -o monday.tamis\n"
    "  tamis build --like monday.tamis tuesday.txt -o tuesday.tamis\n"
    "  tamis merge monday.tamis tuesday.tamis -o both.tamis",
    children,
    NULL,
    NULL};

/* How they differ, unless that is a secret or needs no words. */
static const char *values_of(char text[VALUES_BYTES], const tamis_options *a,
                             const tamis_options *b)
{
  text[0] = '\0';
  if (a->kind != b->kind)
    snprintf(text, VALUES_BYTES, " (%s, not %s)", kind_word(b->kind), kind_word(a->kind));
  else if (a->window != b->window)
    snprintf(text, VALUES_BYTES, " (%u period%s, not %u)", b->window, b->window == 1 ? "" : "s",
             a->window);
  else if (a->layout != b->layout)
    snprintf(text, VALUES_BYTES, " (%s, not %s)", layout_name(b->layout), layout_name(a->layout));
  else if (a->capacity != b->capacity)
    snprintf(text, VALUES_BYTES, " (%" PRIu64 ", not %" PRIu64 ")", b->capacity, a->capacity);
  else if (a->fpp != b->fpp)
    snprintf(text, VALUES_BYTES, " (%.15g, not %.15g)", b->fpp, a->fpp);
  else if (a->growable != b->growable)
    snprintf(text, VALUES_BYTES, a->growable ? " (fixed, not growing)" : " (growing, not fixed)");
  return text;
}

/* Says in what respect the filters differ. */
static void fail_to_fit(const char *first, const char *other, const tamis_options *a,
                        const tamis_options *b)
{
  const char *differs = a->kind != b->kind           ? "the kind"
                        : a->window != b->window     ? "the window"
                        : a->layout != b->layout     ? "the layout"
                        : a->capacity != b->capacity ? "the capacity"
                        : a->fpp != b->fpp           ? "the rate"
                        : a->growable != b->growable ? "the growth"
                        : a->seed != b->seed         ? "the seed"
                                                     : "the size";
  char values[VALUES_BYTES];
  set_failure_status(EXIT_UNUSABLE);
  fail("'%s' does not fit '%s', from which %s differs%s; build one --like the other", other, first,
       differs, values_of(values, a, b));
}

static bool add_one(tamis_filter *into, const char *first, const char *path)
{
  tamis_options a = TAMIS_OPTIONS_INIT, b = TAMIS_OPTIONS_INIT;
  tamis_filter *from = saved_map(path, true);
  if (from == NULL)
    return false;
  int result = tamis_merge(into, from);
  if (result == TAMIS_EINVAL && tamis_get_options(into, &a) == TAMIS_OK &&
      tamis_get_options(from, &b) == TAMIS_OK)
    fail_to_fit(first, path, &a, &b);
  else if (result == TAMIS_EFULL)
    fail("'%s' has no room for what is in '%s'", first, path);
  else if (result != TAMIS_OK)
    fail("cannot unite '%s' and '%s': %s", first, path, tamis_strerror(result));
  tamis_destroy(from);
  return result == TAMIS_OK;
}

static void note_rate(const tamis_filter *filter)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  if (tamis_get_stats(filter, &stats) == TAMIS_OK && stats.kind != TAMIS_CUCKOO &&
      stats.fpp_estimate > 1.02 * stats.fpp)
    note("the union holds about %.1f times the lines planned for, so the rate rose from %.2g to "
         "%.2g",
         stats.load, stats.fpp, stats.fpp_estimate);
}

/* Opens the output, which may be one of the LISTs, but not what a killed run has left of it. */
static bool open_output(const struct shared_options *options, struct output *output)
{
  struct inputs lists = {.files = calloc(options->file_count, sizeof *lists.files),
                         .count = options->file_count};
  if (lists.files == NULL)
    lists.count = 0;
  for (size_t i = 0; i < lists.count; i++)
    lists.files[i].path = options->files[i];
  bool good = output_open_filter(output, options->output, &lists);
  inputs_free(&lists);
  return good;
}

static void run(const struct shared_options *options)
{
  const char *first = options->files[0];
  tamis_filter *into = saved_load(first, 0);
  for (size_t i = 1; into != NULL && i < options->file_count; i++)
    if (!add_one(into, first, options->files[i]))
      break;
  if (!failed()) {
    struct output output;
    if (open_output(options, &output))
      saved_write(&output, into);
    output_close(&output);
  }
  if (!failed() && !options->quiet)
    note_rate(into);
  tamis_destroy(into);
}

static void check(const struct shared_options *options)
{
  unsigned standard = 0;
  if (options->file_count < 2)
    usage_error("merge takes two saved filters at least; see 'tamis merge --help'");
  if (options->output == NULL)
    usage_error("merge needs -o FILE");
  for (size_t i = 0; i < options->file_count; i++)
    standard += strcmp(options->files[i], "-") == 0;
  if (standard > 1)
    usage_error("only one LIST can be standard input");
}

int merge_main(int argc, char **argv)
{
  struct shared_options options = SHARED_OPTIONS_INIT;
  parse_command_line(&merge_argp, argc, argv, &options, NULL);
  check(&options);
  run(&options);
  return finish();
}
