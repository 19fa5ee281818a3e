/* SPDX-License-Identifier: MIT
 *
 * Searches the executions of small situations for one that breaks a promise.
 */
#include "shapes.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *argp_program_version = "test_model";

enum { LIST = 1 };

static const struct argp_option options[] = {
    {"search", 's', "full|bound|random", 0, "In place of the shape's own way to search", 0},
    {"bound", 'b', "N", 0, "Preemptions in an execution (bound)", 0},
    {"executions", 'n', "N", 0, "How many (random), at most how many (full, bound)", 0},
    {"list", LIST, NULL, 0, "Names and questions", 0},
    {0},
};

struct arguments {
  const char *names[64];
  unsigned n;
  const char *search;
  long bound, executions;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
  struct arguments *a = state->input;
  switch (key) {
  case 's':
    a->search = arg;
    return 0;
  case 'b':
    a->bound = atol(arg);
    return 0;
  case 'n':
    a->executions = atol(arg);
    return 0;
  case LIST:
    for (size_t i = 0; i < shape_count; i++)
      printf("%-24s %s\n", shapes[i].name, shapes[i].question);
    exit(0);
  case ARGP_KEY_ARG:
    if (a->n == 64)
      argp_error(state, "too many shapes");
    a->names[a->n++] = arg;
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static double seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

static struct model_effort effort_for(const struct shape *shape, const struct arguments *a)
{
  struct model_effort effort = shape->effort;
  if (a->search)
    effort.search = *a->search == 'f' ? MODEL_FULL : *a->search == 'b' ? MODEL_BOUND : MODEL_RANDOM;
  if (effort.search == MODEL_BOUND && !effort.bound)
    effort.bound = 2;
  if (effort.search == MODEL_RANDOM && !effort.executions)
    effort.executions = 100000;
  if (a->bound >= 0)
    effort.bound = (unsigned) a->bound;
  if (a->executions >= 0)
    effort.executions = (uint64_t) a->executions;
  return effort;
}

static bool check(const struct shape *shape, const struct arguments *a)
{
  struct model_effort effort = effort_for(shape, a);
  double begin = seconds();
  struct model_report report = model_check(shape, &effort);
  char what[64];
  if (effort.search == MODEL_FULL)
    snprintf(what, sizeof what, "all");
  else if (effort.search == MODEL_BOUND)
    snprintf(what, sizeof what, "all with up to %u preemptions", effort.bound);
  else
    snprintf(what, sizeof what, "at random");
  printf("%-24s %9llu executions, %s%s, %.2f s of CPU time\n", shape->name,
         (unsigned long long) report.executions, what,
         report.exhaustive || effort.search == MODEL_RANDOM ? "" : " (given up)",
         seconds() - begin);
  if (shape->grace)
    printf("%-24s %9llu of them release memory\n", "", (unsigned long long) report.with_release);
  if (!report.good)
    printf("FAILED: %s\n", shape->name);
  fflush(stdout);
  return report.good;
}

int main(int argc, char **argv)
{
  struct arguments a = {.bound = -1, .executions = -1};
  const struct argp argp = {options,
                            parse,
                            "[SHAPE...]",
                            "Searches the executions of small situations (all of them, or those "
                            "named) for one that breaks a promise; docs/model.md.",
                            NULL,
                            NULL,
                            NULL};
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  bool good = true;
  for (unsigned i = 0; i < a.n; i++) {
    size_t j = 0;
    while (j < shape_count && strcmp(shapes[j].name, a.names[i]) != 0)
      j++;
    if (j == shape_count) {
      fprintf(stderr, "no shape '%s'; see --list\n", a.names[i]);
      return 2;
    }
    good &= check(&shapes[j], &a);
  }
  for (size_t i = 0; i < shape_count && a.n == 0; i++)
    good &= check(&shapes[i], &a);
  return !good;
}
