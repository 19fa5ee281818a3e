/* SPDX-License-Identifier: MIT
 *
 * Searches the executions of small situations for one that breaks a promise.
 */
#include "fixture.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *argp_program_version = "test_model";

static const struct shape *const shapes[] = {cuckoo_shapes, snapshot_shapes, bloom_shapes,
                                             window_shapes, NULL};

enum { LIST = 1, ACQ_REL = 2 };

static const struct argp_option options[] = {
    {"search", 's', "full|bound|random", 0, "Instead of the shape's own search", 0},
    {"bound", 'b', "N", 0, "Preemptions in an execution (bound)", 0},
    {"executions", 'n', "N", 0, "How many (random), at most how many (full, bound)", 0},
    {"acq-rel", ACQ_REL, NULL, 0, "Only with seq_cst accesses taken for acquire and release", 0},
    {"list", LIST, NULL, 0, "Names and questions", 0},
    {0},
};

struct arguments {
  const char *names[64];
  unsigned n;
  const char *search;
  long bound, executions;
  bool acq_rel;
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
  case ACQ_REL:
    a->acq_rel = true;
    return 0;
  case LIST:
    for (const struct shape *const *table = shapes; *table; table++)
      for (const struct shape *shape = *table; shape->name; shape++)
        printf("%-24s %s\n", shape->name, shape->question);
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

static struct model_effort effort_of(const struct shape *shape, bool acq_rel,
                                     const struct arguments *a)
{
  struct model_effort effort = acq_rel ? shape->acq_rel : shape->effort;
  if (a->search)
    effort.search = *a->search == 'f' ? MODEL_FULL : *a->search == 'b' ? MODEL_BOUND : MODEL_RANDOM;
  if (effort.search == MODEL_NEVER)
    effort.search = MODEL_BOUND;
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

static void describe(const struct model_effort *effort, char what[64])
{
  if (effort->search == MODEL_FULL)
    snprintf(what, 64, "all");
  else if (effort->search == MODEL_BOUND)
    snprintf(what, 64, "all with up to %u preemptions", effort->bound);
  else
    snprintf(what, 64, "at random");
}

static bool check_with(const struct shape *shape, bool acq_rel, const struct arguments *a)
{
  struct model_effort effort = effort_of(shape, acq_rel, a);
  const clock_t begin = clock();
  struct model_report report = model_check(shape, &effort, acq_rel);
  char what[64];
  describe(&effort, what);
  printf("%-24s %-8s %9llu executions, %s%s, %.2f s of CPU time\n", shape->name,
         acq_rel ? "acq-rel" : "", (unsigned long long) report.executions, what,
         report.exhaustive || effort.search == MODEL_RANDOM ? "" : " (not to the end)",
         (double) (clock() - begin) / CLOCKS_PER_SEC);
  if (shape->grace)
    printf("%-33s %9llu of them release memory\n", "", (unsigned long long) report.with_release);
  if (!report.good)
    printf("FAILED: %s%s\n", shape->name, acq_rel ? " (acq-rel)" : "");
  fflush(stdout);
  return report.good;
}

static bool check(const struct shape *shape, const struct arguments *a)
{
  if (a->acq_rel)
    return check_with(shape, true, a);
  return check_with(shape, false, a) &&
         (shape->acq_rel.search == MODEL_NEVER || check_with(shape, true, a));
}

static const struct shape *shape_of_name(const char *name)
{
  for (const struct shape *const *table = shapes; *table; table++)
    for (const struct shape *shape = *table; shape->name; shape++)
      if (strcmp(shape->name, name) == 0)
        return shape;
  return NULL;
}

int main(int argc, char **argv)
{
  struct arguments a = {.bound = -1, .executions = -1};
  const struct argp argp = {
      .options = options,
      .parser = parse,
      .args_doc = "[SHAPE...]",
      .doc =
          "Searches the executions of small situations (all of them, or those named) for one that "
          "breaks a promise; docs/internals/model.md."};
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  bool good = true;
  for (unsigned i = 0; i < a.n; i++) {
    const struct shape *shape = shape_of_name(a.names[i]);
    if (!shape) {
      fprintf(stderr, "no shape '%s'; see --list\n", a.names[i]);
      return 2;
    }
    good &= check(shape, &a);
  }
  for (const struct shape *const *table = shapes; *table && a.n == 0; table++)
    for (const struct shape *shape = *table; shape->name; shape++)
      good &= check(shape, &a);
  return !good;
}
