/* SPDX-License-Identifier: MIT
 *
 * Question: how fast is the library, compared with what the machine can do, with other libraries,
 * and with itself built for a single thread?
 *
 * The bench compares figures of the same run only, as those of two runs, or of two machines, differ
 * for other reasons.
 */
#include "check.h"
#include "growth.h"
#include "measure.h"
#include "record.h"
#include "table.h"

#include <argp.h>
#include <error.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IN_LIST = 16, MAX_SUBJECTS = 24 };

enum size { DEFAULT, TINY, QUICK, FULL };

struct arguments {
  const char *command;
  const char *workloads[MAX_IN_LIST];
  unsigned workload_count;
  const char *subjects[MAX_SUBJECTS];
  unsigned subject_count;
  double threads[MAX_IN_LIST], keys[MAX_IN_LIST], fpp[MAX_IN_LIST];
  unsigned thread_count, key_count, fpp_count;
  double from;
  enum size size;
  struct settings settings;
  const char *csv, *json, *times, *rates, *calls, *quantiles, *other;
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
  KEY_QUANTILES,
  KEY_OTHER
};

static const struct argp_option options[] = {
    {"rounds", 'r', "N", 0, "Number of rounds, of which the median counts", 0},
    {"seconds", 'e', "X", 0, "Duration of one measurement", 0},
    {"cpu-time", 'c', NULL, 0,
     "Measures the time for which threads had a core, instead of the time that passed.  For a "
     "machine "
     "that is in use; time spent asleep does not count",
     0},
    {"csv", KEY_CSV, "FILE", 0, "table, run: writes the measurement of each round", 0},
    {"json", KEY_JSON, "FILE", 0,
     "Writes medians and quartiles, quantiles of single calls, and the machine", 0},
    {"other", KEY_OTHER, "FILE", 0,
     "Another build of libtamis.so, whose filters are the subjects other-...; table: adds the "
     "section `builds', which compares the two",
     0},
    {NULL, 0, NULL, 0, "table:", 1},
    {"quick", KEY_QUICK, NULL, 0, "Uses fewer keys and rounds: takes a minute or two", 1},
    {"full", KEY_FULL, NULL, 0, "Also measures 10^8 keys", 1},
    {"tiny", KEY_TINY, NULL, 0, "Uses very few keys, to test the bench", 1},
    {"markdown", KEY_MARKDOWN, NULL, 0, "Prints only the machine and the ratios, as Markdown", 1},
    {NULL, 0, NULL, 0, "run, growth, check (a LIST has commas):", 2},
    {"subjects", 's', "LIST", 0,
     "Subjects to measure; default: bloom,cuckoo,libbloom,libcuckoo,read", 2},
    {"threads", 't', "LIST", 0, "Numbers of threads; default: 1", 2},
    {"keys", 'n', "LIST", 0, "Numbers of keys; default: 1e6", 2},
    {"fpp", 'p', "LIST", 0, "False-positive probabilities; default: 0.01", 2},
    {"from", KEY_FROM, "N", 0,
     "Capacity of the filters (if larger than --keys, they are filled in part only); default of "
     "run: as --keys, of growth: 1000",
     2},
    {"times", KEY_TIMES, "FILE", 0, "growth: writes the longest calls over time, as CSV", 2},
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
  const char *parts[MAX_IN_LIST];
  unsigned n = split(state, text, parts, MAX_IN_LIST);
  for (unsigned i = 0; i < n; i++)
    list[i] = number(state, parts[i], least, most);
  return n;
}

static void add_positional(struct arguments *a, struct argp_state *state, const char *text)
{
  if (!a->command)
    a->command = text;
  else if (a->workload_count == MAX_IN_LIST)
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
    a->subject_count = split(state, text, a->subjects, MAX_SUBJECTS);
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
  case KEY_OTHER:
    a->other = text;
    return 0;
  case KEY_MARKDOWN:
    a->markdown = true;
    return 0;
  case ARGP_KEY_ARG:
    add_positional(a, state, text);
    return 0;
  case ARGP_KEY_NO_ARGS:
    argp_usage(state);
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

/* ---- the commands ---- */

static void set_defaults(struct arguments *a)
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

static const struct subject *require_subject(const char *name)
{
  const struct subject *subject = subject_find(name);
  if (!subject)
    error(2, 0, "no such subject: %s", name);
  return subject;
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

/* The first filter that is measured; the machine's arrays are as large as that. */
static const char *first_filter(const struct arguments *a)
{
  for (unsigned i = 0; i < a->subject_count; i++) {
    const struct subject *s = subject_find(a->subjects[i]);
    if (s && s->bytes)
      return a->subjects[i];
  }
  return "bloom";
}

static void add_subject(struct experiment *x, const struct arguments *a, const struct workload *w,
                        const struct subject *s, unsigned threads)
{
  if (!subject_can(s, w->call) || (threads > 1 && !s->concurrent))
    return;
  if (s->is_machine)
    add_machine_entry(x, s->name, threads, first_filter(a));
  else
    add_entry_for(x, w->name, s->name, threads, a->from > 0 ? (uint64_t) a->from : x->keys);
}

static void run_one(const struct arguments *a, const char *workload, double keys, double fpp)
{
  struct experiment x = experiment(workload, (uint64_t) keys, fpp);
  const struct workload *w = workload_find(workload);
  if (!w)
    error(2, 0, "no such workload: %s", workload);
  for (unsigned t = 0; t < a->thread_count; t++) {
    for (unsigned i = 0; i < a->subject_count; i++) {
      const struct subject *s = require_subject(a->subjects[i]);
      add_subject(&x, a, w, s, (unsigned) a->threads[t]);
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
  return name ? open_for_writing(name) : NULL;
}

static void close_csv(FILE *file, const char *name)
{
  if (file)
    close_written(file, name);
}

static void run_growth(const struct arguments *a)
{
  const struct subject *subjects[MAX_SUBJECTS];
  struct growth_times times[MAX_SUBJECTS];
  unsigned n = 0;
  if (a->csv)
    error(2, 0, "growth writes --times, --calls, --quantiles and --rates, not --csv");
  for (unsigned i = 0; i < a->subject_count; i++) {
    const struct subject *s = require_subject(a->subjects[i]);
    if (!s->is_machine)
      subjects[n++] = s;
  }
  struct growth g = {.from = a->from > 0 ? (uint64_t) a->from : 1000,
                     .to = (uint64_t) a->keys[0],
                     .rounds = a->settings.rounds ? a->settings.rounds : 1,
                     .cpu_time = a->settings.cpu_time,
                     .times = open_csv(a->times),
                     .rates = open_csv(a->rates),
                     .calls = open_csv(a->calls),
                     .quantiles = open_csv(a->quantiles)};
  growth_write_headers(&g);
  for (unsigned p = 0; p < a->fpp_count; p++) {
    g.fpp = a->fpp[p];
    if (p == 0) /* the times are measured at the first rate only */
      growth_times(&g, subjects, n, times);
    for (unsigned i = 0; i < n && g.rates; i++)
      if (subjects[i]->bytes_now)
        growth_rates(&g, subjects[i]);
  }
  close_csv(g.times, a->times);
  close_csv(g.rates, a->rates);
  close_csv(g.calls, a->calls);
  close_csv(g.quantiles, a->quantiles);
}

static void run_table(const struct arguments *a)
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
  chosen.builds = a->other;
  table_run(&sizes[a->size], &chosen, a->markdown, a->workloads, a->workload_count);
}

int main(int argc, char **argv)
{
  struct arguments a = {0};
  const struct argp argp = {.options = options,
                            .parser = parse,
                            .args_doc = "table [SECTION...]\nrun WORKLOAD...\ngrowth\ncheck\nlist",
                            .doc = "Compares filters with the machine, with other data structures, "
                                   "and with themselves built for one thread; `list' "
                                   "prints subjects, workloads and sections."};
  argp_err_exit_status = 2;
  argp_parse(&argp, argc, argv, 0, NULL, &a);
  set_defaults(&a);
  (void) cores(); /* before pin() restricts them */
  if (strcmp(a.command, "list") == 0)
    return list();
  if (a.other)
    subject_set_other(a.other);
  record_open(a.csv, a.json);
  unsigned wrong = 0;
  if (strcmp(a.command, "table") == 0)
    run_table(&a);
  else if (strcmp(a.command, "run") == 0)
    run(&a);
  else if (strcmp(a.command, "growth") == 0)
    run_growth(&a);
  else if (strcmp(a.command, "check") == 0)
    wrong = check_subjects((uint64_t) a.keys[0]);
  else
    error(2, 0, "no such command: %s", a.command);
  record_close();
  return wrong || record_wrong() ? EXIT_FAILURE : EXIT_SUCCESS;
}
