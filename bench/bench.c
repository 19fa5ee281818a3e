/* SPDX-License-Identifier: MIT
 *
 * Question: how fast is it, next to what the machine can do, to what others do, and to what it
 * would do if it served one thread only?
 *
 * Everything is compared within one run, as figures from two runs, let alone two machines, say
 * little.
 */
#include "check.h"
#include "growth.h"
#include "measure.h"
#include "record.h"
#include "table.h"

#include <argp.h>
#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IN_LIST = 16, MOST_SUBJECTS = 24 };

enum size { DEFAULT, TINY, QUICK, FULL };

struct arguments {
  const char *command;
  const char *workloads[MOST_IN_LIST];
  unsigned workload_count;
  const char *subjects[MOST_SUBJECTS];
  unsigned subject_count;
  double threads[MOST_IN_LIST], keys[MOST_IN_LIST], fpp[MOST_IN_LIST];
  unsigned thread_count, key_count, fpp_count;
  double from;
  enum size size;
  struct settings settings;
  const char *csv, *json, *times, *rates, *calls, *quantiles;
  bool markdown;
};

/* ---- the command line ---- */

enum {
  KEY_TINY = 256,
  KEY_QUICK,
  KEY_FULL,
  KEY_MARKDOWN,
  KEY_CSV,
  KEY_JSON,
  KEY_FROM,
  KEY_TIMES,
  KEY_RATES,
  KEY_CALLS,
  KEY_QUANTILES
};

static const struct argp_option options[] = {
    {"rounds", 'r', "N", 0, "Rounds, of which the median counts", 0},
    {"seconds", 'e', "X", 0, "Duration of one measurement", 0},
    {"cpu-time", 'c', NULL, 0,
     "Counts the time that threads had a core, as if they had had one all the time: for a machine "
     "that "
     "does other things as well; time spent asleep is then not seen",
     0},
    {"csv", KEY_CSV, "FILE", 0, "table, run: writes what each round measured", 0},
    {"json", KEY_JSON, "FILE", 0,
     "Writes medians and quartiles, quantiles of single calls, and what the machine is", 0},
    {NULL, 0, NULL, 0, "table:", 1},
    {"quick", KEY_QUICK, NULL, 0, "Fewer keys and rounds: a minute or two", 1},
    {"full", KEY_FULL, NULL, 0, "10^8 keys too", 1},
    {"tiny", KEY_TINY, NULL, 0, "A few keys, to see that it works", 1},
    {"markdown", KEY_MARKDOWN, NULL, 0,
     "Prints the machine and the ratios, as Markdown, and no more", 1},
    {NULL, 0, NULL, 0, "run, growth, check (a LIST has commas):", 2},
    {"subjects", 's', "LIST", 0, "What is measured; default: bloom,cuckoo,libbloom,libcuckoo,read",
     2},
    {"threads", 't', "LIST", 0, "Numbers of threads; default: 1", 2},
    {"keys", 'n', "LIST", 0, "Numbers of keys; default: 1e6", 2},
    {"fpp", 'p', "LIST", 0, "False-positive probabilities; default: 0.01", 2},
    {"from", KEY_FROM, "N", 0,
     "Keys that filters are made for (more than --keys: they are filled in part only); default of "
     "run: as --keys, of growth: 1000",
     2},
    {"times", KEY_TIMES, "FILE", 0, "growth: writes a time line of the longest calls, as CSV", 2},
    {"rates", KEY_RATES, "FILE", 0, "growth: writes bits per key and rates, as CSV", 2},
    {"calls", KEY_CALLS, "FILE", 0, "growth: writes a histogram of single calls, as CSV", 2},
    {"quantiles", KEY_QUANTILES, "FILE", 0, "growth: writes quantiles of single calls, as CSV", 2},
    {0}};

static unsigned split(struct argp_state *state, char *text, const char **list, unsigned room)
{
  unsigned n = 0;
  for (char *rest, *part = strtok_r(text, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
    if (n == room)
      argp_error(state, "too many in a list: %s", part);
    list[n++] = part;
  }
  return n;
}

static double number(struct argp_state *state, const char *text, double least, double most)
{
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || !(value >= least && value <= most))
    argp_error(state, "not a number from %g to %g: %s", least, most, text);
  return value;
}

static unsigned numbers(struct argp_state *state, char *text, double *list, double least,
                        double most)
{
  const char *parts[MOST_IN_LIST];
  unsigned n = split(state, text, parts, MOST_IN_LIST);
  for (unsigned i = 0; i < n; i++)
    list[i] = number(state, parts[i], least, most);
  return n;
}

static void positional(struct arguments *a, struct argp_state *state, const char *text)
{
  if (!a->command)
    a->command = text;
  else if (a->workload_count == MOST_IN_LIST)
    argp_error(state, "too many workloads");
  else
    a->workloads[a->workload_count++] = text;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
  static const double most_keys = 1e9;
  struct arguments *a = state->input;
  switch (key) {
  case 'r':
    a->settings.rounds = (unsigned) number(state, text, 1, MAX_ROUNDS);
    return 0;
  case 'e':
    a->settings.seconds = number(state, text, 1e-4, 1000);
    return 0;
  case 'c':
    a->settings.cpu_time = true;
    return 0;
  case 's':
    a->subject_count = split(state, text, a->subjects, MOST_SUBJECTS);
    return 0;
  case 't':
    a->thread_count = numbers(state, text, a->threads, 1, MAX_THREADS);
    return 0;
  case 'n':
    a->key_count = numbers(state, text, a->keys, 1000, most_keys);
    return 0;
  case 'p':
    a->fpp_count = numbers(state, text, a->fpp, 1e-8, 0.5);
    return 0;
  case KEY_FROM:
    a->from = number(state, text, 1000, most_keys);
    return 0;
  case KEY_TINY:
    a->size = TINY;
    return 0;
  case KEY_QUICK:
    a->size = QUICK;
    return 0;
  case KEY_FULL:
    a->size = FULL;
    return 0;
  case KEY_CSV:
    a->csv = text;
    return 0;
  case KEY_JSON:
    a->json = text;
    return 0;
  case KEY_TIMES:
    a->times = text;
    return 0;
  case KEY_RATES:
    a->rates = text;
    return 0;
  case KEY_CALLS:
    a->calls = text;
    return 0;
  case KEY_QUANTILES:
    a->quantiles = text;
    return 0;
  case KEY_MARKDOWN:
    a->markdown = true;
    return 0;
  case ARGP_KEY_ARG:
    positional(a, state, text);
    return 0;
  case ARGP_KEY_NO_ARGS:
    argp_usage(state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* ---- the commands ---- */

static void defaults(struct arguments *a)
{
  static const char *const subjects[] = {"bloom", "cuckoo", "libbloom", "libcuckoo", "read"};
  if (!a->subject_count) {
    a->subject_count = sizeof subjects / sizeof *subjects;
    memcpy(a->subjects, subjects, sizeof subjects);
  }
  if (!a->thread_count)
    a->threads[a->thread_count++] = 1;
  if (!a->key_count)
    a->keys[a->key_count++] = 1e6;
  if (!a->fpp_count)
    a->fpp[a->fpp_count++] = 0.01;
}

static int list(void)
{
  const struct subject *s;
  printf("subjects\n");
  for (unsigned n = 0; (s = subject_number(n)); n++)
    printf("  %-20s %s\n", s->name, s->what);
  printf("workloads\n");
  for (const struct workload *w = workloads; w->name; w++)
    printf("  %-20s %s\n", w->name, w->what);
  printf("sections of the table\n");
  for (unsigned n = 0; table_section(n); n++)
    printf("  %s\n", table_section(n));
  return EXIT_SUCCESS;
}

/* The machine's arrays are as large as the first filter that is measured. */
static const char *filter_of(const struct arguments *a)
{
  for (unsigned i = 0; i < a->subject_count; i++) {
    const struct subject *s = subject_find(a->subjects[i]);
    if (s && s->bytes)
      return a->subjects[i];
  }
  return "bloom";
}

static void add_to(struct experiment *x, const struct arguments *a, const struct workload *w,
                   const struct subject *s, unsigned threads)
{
  if (!subject_can(s, w->call) || (threads > 1 && !s->concurrent))
    return;
  if (s->passive)
    with_array(x, s->name, threads, filter_of(a));
  else
    with_capacity(x, w->name, s->name, threads, a->from > 0 ? (uint64_t) a->from : x->keys);
}

static void run_one(const struct arguments *a, const char *workload, double keys, double fpp)
{
  struct experiment x = experiment(workload, (uint64_t) keys, fpp);
  const struct workload *w = workload_find(workload);
  if (!w)
    error(2, 0, "no such workload: %s", workload);
  for (unsigned t = 0; t < a->thread_count; t++) {
    for (unsigned i = 0; i < a->subject_count; i++) {
      const struct subject *s = subject_find(a->subjects[i]);
      if (!s)
        error(2, 0, "no such subject: %s", a->subjects[i]);
      add_to(&x, a, w, s, (unsigned) a->threads[t]);
    }
  }
  experiment_run(&x, &a->settings);
}

static void run(struct arguments *a)
{
  if (!a->settings.rounds)
    a->settings.rounds = 5;
  if (!(a->settings.seconds > 0))
    a->settings.seconds = 0.2;
  for (unsigned w = 0; w < a->workload_count; w++)
    for (unsigned k = 0; k < a->key_count; k++)
      for (unsigned p = 0; p < a->fpp_count; p++)
        run_one(a, a->workloads[w], a->keys[k], a->fpp[p]);
}

static FILE *open_csv(const char *name)
{
  FILE *file = name ? fopen(name, "w") : NULL;
  if (name && !file)
    error(2, errno, "%s", name);
  return file;
}

static void close_csv(FILE *file, const char *name)
{
  int bad = file ? ferror(file) : 0;
  if (file && (fclose(file) || bad))
    error(2, errno, "%s", name);
}

static void grow(const struct arguments *a)
{
  const struct subject *subjects[MOST_SUBJECTS];
  double longest[MOST_SUBJECTS];
  unsigned n = 0;
  if (a->csv)
    error(2, 0, "growth writes --times, --calls, --quantiles and --rates, not --csv");
  for (unsigned i = 0; i < a->subject_count; i++) {
    const struct subject *s = subject_find(a->subjects[i]);
    if (!s)
      error(2, 0, "no such subject: %s", a->subjects[i]);
    if (!s->passive)
      subjects[n++] = s;
  }
  struct growth g = {.from = a->from > 0 ? (uint64_t) a->from : 1000,
                     .to = (uint64_t) a->keys[0],
                     .rounds = a->settings.rounds ? a->settings.rounds : 1,
                     .times = open_csv(a->times),
                     .rates = open_csv(a->rates),
                     .calls = open_csv(a->calls),
                     .quantiles = open_csv(a->quantiles)};
  growth_heads(&g);
  for (unsigned p = 0; p < a->fpp_count; p++) {
    g.fpp = a->fpp[p];
    if (p == 0) /* the rate makes no difference to the others */
      growth_times(&g, subjects, n, longest);
    for (unsigned i = 0; i < n && g.rates; i++)
      if (subjects[i]->bytes_now)
        growth_rates(&g, subjects[i]);
  }
  close_csv(g.times, a->times);
  close_csv(g.rates, a->rates);
  close_csv(g.calls, a->calls);
  close_csv(g.quantiles, a->quantiles);
}

static void table(const struct arguments *a)
{
  static const struct table_sizes sizes[] = {[DEFAULT] = {1000000, 10000000, 0, 1000000000},
                                             [TINY] = {2000, 20000, 0, 1000000},
                                             [QUICK] = {200000, 2000000, 0, 1000000000},
                                             [FULL] = {1000000, 10000000, 100000000, 1000000000}};
  static const struct settings settings[] = {
      [DEFAULT] = {.rounds = 5, .seconds = 0.2},
      [TINY] = {.rounds = 1, .seconds = 0.001, .quiet = true},
      [QUICK] = {.rounds = 3, .seconds = 0.05},
      [FULL] = {.rounds = 9, .seconds = 0.4}};
  struct settings chosen = a->settings, usual = settings[a->size];
  chosen.rounds = chosen.rounds ? chosen.rounds : usual.rounds;
  chosen.seconds = chosen.seconds > 0 ? chosen.seconds : usual.seconds;
  chosen.quiet = usual.quiet || a->markdown;
  table_run(&sizes[a->size], &chosen, a->markdown, a->workloads, a->workload_count);
}

int main(int argc, char **argv)
{
  struct arguments a = {0};
  const struct argp argp = {
      .options = options,
      .parser = parse,
      .args_doc = "table [SECTION...]\nrun WORKLOAD...\ngrowth\ncheck\nlist",
      .doc =
          "Measures filters next to the machine, to other structures, and to themselves built for "
          "one thread; `list' says what there is."};
  argp_err_exit_status = 2;
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  defaults(&a);
  (void) cores(); /* before any thread is kept on one */
  if (strcmp(a.command, "list") == 0)
    return list();
  record_open(a.csv, a.json);
  unsigned wrong = 0;
  if (strcmp(a.command, "table") == 0)
    table(&a);
  else if (strcmp(a.command, "run") == 0)
    run(&a);
  else if (strcmp(a.command, "growth") == 0)
    grow(&a);
  else if (strcmp(a.command, "check") == 0)
    wrong = check_subjects((uint64_t) a.keys[0]);
  else
    error(2, 0, "no such command: %s", a.command);
  record_close();
  return wrong || record_wrong() ? EXIT_FAILURE : EXIT_SUCCESS;
}
