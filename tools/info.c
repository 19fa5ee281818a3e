/* SPDX-License-Identifier: MIT
 *
 * tamis info: the figures of saved filters.
 */
#include "clock.h"
#include "commands.h"
#include "json.h"
#include "machine.h"
#include "options.h"
#include "report.h"
#include "saved.h"
#include "summary.h"
#include "version.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { KEY_JSON = 0x200, KEY_CHECK, KEY_SEED, KEY_REPORT };

struct info_options {
  struct shared_options shared;
  bool json;
  bool check;
  bool seed;
  bool report;
  double period; /* seconds; less than 0: not given */
};

static const struct argp_child children[] = {
    {&help_argp, 0, NULL, 0}, {&period_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

/* NOLINTNEXTLINE(readability-non-const-parameter): argp defines the type */
static error_t parse(int key, char *argument, struct argp_state *state)
{
  struct info_options *options = state->input;
  (void) argument;
  switch (key) {
  case ARGP_KEY_INIT:
    state->child_inputs[1] = &options->period;
    return 0;
  case KEY_JSON:
    options->json = true;
    return 0;
  case KEY_CHECK:
    options->check = true;
    return 0;
  case KEY_SEED:
    options->seed = true;
    return 0;
  case KEY_REPORT:
    options->report = true;
    return 0;
  case ARGP_KEY_END:
    if (options->report && (options->json || options->check || options->seed))
      usage_error("--report goes with no other option");
    if (!options->report && options->shared.file_count == 0)
      usage_error("info takes saved filters; see 'tamis info --help'");
    return 0;
  default:
    return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_option entries[] = {
    {"json", KEY_JSON, NULL, 0, "Print one line of JSON for each file", 1},
    {"check", KEY_CHECK, NULL, 0, "Read each file to its end, to check that it is not damaged", 1},
    {"show-seed", KEY_SEED, NULL, 0,
     "Print the seed, which is a secret: whoever knows it can choose lines that collide", 1},
    {"report", KEY_REPORT, NULL, 0,
     "Print what a bug report needs to say about this program, the machine and each LIST "
     "(there may be none): no seeds, no names, no lines",
     1},
    {NULL, 0, NULL, 0, NULL, 0}};

static const struct argp info_argp = {
    entries,
    parse,
    "LIST...",
    "Print the figures of saved filters.\v"
    "The figures are read from the beginning of each file; they are those of the time when "
    "the save began.  Only --check reads the whole file.  With - for LIST, read standard "
    "input.\n\n"
    "If processes share the file (tamis dedup --shared), the figures are the present ones, "
    "with the bytes that are reserved and the most that the file can get.  For a window "
    "they include the running period, and when it begins by the clock, with periods of 60 "
    "seconds unless --period is given.\n\n"
    "Lines are distinct lines, without those that were false positives when they were "
    "added.  After a union of Bloom filters, and for kind counting, their number is an "
    "estimate, with its standard deviation; with several layers it is an upper bound, "
    "because a line may be in more than one layer.  With several layers, 'fpp now' is the "
    "rate for which the layers were planned.  A filter of kind cuckoo or counting "
    "counts copies: a line that was added twice counts twice, even if each filter of a "
    "union had it once.  (The commands add a line to a cuckoo filter once.)  In --json, "
    "count is this number, united_count the part of it that came from unions, and "
    "estimated_count an estimate from the bits.\n\n"
    "The exit status is 0 on success, and 2 if a file is damaged, or is not a saved "
    "filter.  --report reads each file to its end, and says whether it is one of these; "
    "the status is then 0.\n\n"
    "Examples:\n"
    "  tamis info known.tamis\n"
    "  tamis info --check *.tamis\n"
    "  tamis info --json known.tamis | jq .fpp_estimate\n"
    "  tamis info --period 300 recent\n"
    "  tamis info --report known.tamis",
    children,
    NULL,
    NULL};

/* The size of the file; 0 if it has none. */
static uint64_t file_size(const char *path)
{
  struct stat status;
  bool known = strcmp(path, "-") != 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode);
  return known ? (uint64_t) status.st_size : 0;
}

/* What the disk has reserved for it. */
static uint64_t file_reserved(const char *path)
{
  enum { BLOCK = 512 };
  struct stat status;
  return stat(path, &status) == 0 ? (uint64_t) status.st_blocks * BLOCK : 0;
}

/* ---- text ---- */

/* The lines that all layers of a Bloom filter were made for: each further one has room for as many
 * as all before it. */
static double room_of_layers(const tamis_stats *stats)
{
  return stats->layers > 1 ? ldexp((double) stats->capacity, (int) stats->layers - 1)
                           : (double) stats->capacity;
}

/* A cuckoo filter cannot tell copies of a line from lines that collide. */
static void print_count(const tamis_stats *stats)
{
  char figure[FIGURE_BYTES], keys[KEYS_BYTES];
  if (stats->kind != TAMIS_BLOOM)
    printf("copies        %" PRIu64 " (%s)\n", stats->count,
           count_figure(figure, (double) stats->count));
  if (stats->kind != TAMIS_CUCKOO)
    printf("lines         %s\n", keys_figure(keys, stats));
}

static void print_reserved(const char *path, uint64_t most)
{
  char figure[FIGURE_BYTES], limit[FIGURE_BYTES];
  uint64_t reserved = file_reserved(path);
  reserved = reserved < most ? reserved : most; /* the disk reserves whole blocks */
  printf("bytes         %" PRIu64 " (%s), of at most %" PRIu64 " (%s)\n", reserved,
         bytes_figure(figure, (double) reserved), most, bytes_figure(limit, (double) most));
}

/* The file of a window does not say how long its periods are. */
static void print_period(double period, const tamis_stats *stats)
{
  const struct clock clock = clock_of_day(period);
  const double begin = (double) stats->period * clock.period, last = 253402300800; /* year 10000 */
  const time_t seconds = (time_t) (begin < last ? begin : last);
  struct tm time;
  char date[FIGURE_BYTES] = "";
  if (begin < last && gmtime_r(&seconds, &time) != NULL)
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &time);
  printf("period        %" PRIu64 ", which begins %s with --period %g\n", stats->period,
         date[0] != '\0' ? date : "after the year 9999", clock.period);
  if (clock_is_behind(&clock, stats))
    printf("clock         in period %" PRIu64
           ", so nothing is forgotten; 'tamis window --help' says what to do\n",
           clock_period(&clock));
}

static void print_text(const struct info_options *options, const char *path,
                       const tamis_stats *stats)
{
  char figure[FIGURE_BYTES];
  bool cuckoo = stats->kind == TAMIS_CUCKOO;
  uint64_t size = file_size(path);
  bool live = saved_is_live(path);
  if (options->shared.file_count > 1 && !options->report)
    printf("file          %s\n", path);
  bool bloom = stats->kind == TAMIS_BLOOM, window = stats->parts > 1;
  printf("kind          %s%s%s\n", kind_word(stats->kind), bloom ? ", " : "",
         bloom ? layout_name(stats->layout) : "");
  if (live)
    puts("shared        by processes");
  print_count(stats);
  printf("capacity      %" PRIu64 " (%s)\n", stats->capacity,
         count_figure(figure, (double) stats->capacity));
  printf("load          %.3g\n", stats->load);
  printf("fpp           %.3g\n", stats->fpp);
  printf("fpp now       %.3g\n", stats->fpp_estimate);
  if (live)
    print_reserved(path, size);
  else if (size > 0)
    printf("bytes         %" PRIu64 " (%s)\n", size, bytes_figure(figure, (double) size));
  if (window)
    printf("window        %u period%s\n", stats->parts - 1, stats->parts == 2 ? "" : "s");
  if (window && live)
    print_period(options->period, stats);
  if (cuckoo && !window)
    printf("generations   %u\n", stats->generations);
  else if (window)
    printf("bits per key  %.4g\n", (double) stats->bits / (double) stats->capacity);
  else
    printf(bloom ? "bits per key  %u set of %.4g\n" : "counters      %u of a key, of %.4g\n",
           stats->bits_per_key, (double) stats->bits / (bloom ? 1 : 4) / room_of_layers(stats));
  if (bloom && stats->layers > 1)
    printf("layers        %u\n", stats->layers);
  if (options->seed)
    printf("seed          0x%016" PRIx64 "\n", stats->seed);
  if (options->check)
    puts("checked       all of the file");
}

/* ---- JSON ---- */

/* The length of the UTF-8 sequence at `text`; 0 if there is none. */
static size_t sequence_length(const char *text)
{
  const unsigned char *t = (const unsigned char *) text;
  size_t length = t[0] < 0x80 ? 1 : t[0] < 0xc2 ? 0 : t[0] < 0xe0 ? 2 : t[0] < 0xf0 ? 3 : 4;
  bool outside = t[0] > 0xf4 || (t[0] == 0xe0 && t[1] < 0xa0) || (t[0] == 0xed && t[1] > 0x9f) ||
                 (t[0] == 0xf0 && t[1] < 0x90) || (t[0] == 0xf4 && t[1] > 0x8f);
  for (size_t i = 1; i < length; i++)
    if ((t[i] & 0xc0) != 0x80) /* also at the end of the string */
      return 0;
  return outside ? 0 : length;
}

static void print_string(const char *text)
{
  putchar('"');
  while (*text != '\0') {
    size_t length = sequence_length(text);
    if (length == 0)
      fputs("\\ufffd", stdout);
    else if ((unsigned char) *text < ' ' || *text == 0x7f)
      printf("\\u%04x", (unsigned) *text);
    else
      printf("%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", (int) length, text);
    text += length > 0 ? length : 1;
  }
  putchar('"');
}

static void print_number(const char *name, double value)
{
  char text[FIGURE_BYTES] = "null"; /* JSON has no infinity */
  if (isfinite(value))
    json_write_real(text, sizeof text, value);
  printf(", \"%s\": %s", name, text);
}

static void print_integer(const char *name, uint64_t value)
{
  printf(", \"%s\": %" PRIu64, name, value);
}

static void print_json(const struct info_options *options, const char *path,
                       const tamis_stats *stats)
{
  bool cuckoo = stats->kind == TAMIS_CUCKOO, bloom = stats->kind == TAMIS_BLOOM,
       window = stats->parts > 1;
  printf("{\"file\": ");
  print_string(path);
  printf(", \"kind\": \"%s\"", kind_word(stats->kind));
  if (bloom)
    printf(", \"layout\": \"%s\"", layout_name(stats->layout));
  print_integer("count", stats->count);
  print_number("estimated_count", stats->estimated_count);
  print_integer("capacity", stats->capacity);
  print_number("load", stats->load);
  print_number("fpp", stats->fpp);
  print_number("fpp_estimate", stats->fpp_estimate);
  if (file_size(path) > 0)
    print_integer("file_bytes", file_size(path));
  if (saved_is_live(path)) {
    printf(", \"shared\": true");
    print_integer("reserved_bytes", file_reserved(path));
  }
  if (window) {
    print_integer("window", stats->parts - 1);
    print_integer("period", stats->period);
    print_integer("bits", stats->bits);
  } else if (cuckoo) {
    print_integer("generations", stats->generations);
    print_integer("segments", stats->segments);
    print_integer("growths", stats->growths);
    print_integer("joins", stats->joins);
    print_integer("fingerprint_bits", stats->fingerprint_bits);
    print_number("occupancy", stats->occupancy);
  } else {
    print_integer("bits", stats->bits);
    print_integer("bits_set", stats->bits_set);
    print_integer(bloom ? "bits_per_key" : "counters_per_key", stats->bits_per_key);
    if (bloom) {
      print_integer("layers", stats->layers);
      print_integer("united_count", stats->united_count);
    }
  }
  if (options->seed) /* a string, as many programs read numbers as floating point */
    printf(", \"seed\": \"0x%016" PRIx64 "\"", stats->seed);
  if (options->check)
    printf(", \"checked\": true");
  puts("}");
}

/* ---- the report of a bug ---- */

static const char *state_of_file(const struct saved_report *report)
{
  switch (report->checked) {
  case TAMIS_OK:
    return "whole, all sums are right";
  case TAMIS_EIO:
    return report->error == ESPIPE ? "not a regular file" : strerror(report->error);
  case TAMIS_EINVAL:
    return "not checked, as it has a hash function of its own";
  case TAMIS_EUNSUPPORTED:
    return "needs a later version";
  default:
    return tamis_strerror(report->checked);
  }
}

static void print_header(const struct saved_report *report)
{
  printf("format        version %" PRIu32 ", features 0x%" PRIx64 "\n", report->version,
         report->features);
  printf("options       %s, hash %" PRIu32 ", stripes %" PRIu32 ", max_bytes %" PRIu64 "\n",
         report->growable ? "growable" : "not growable", report->hash, report->stripes,
         report->max_bytes);
}

/* A file has a number in place of its name. */
static void report_file(const struct info_options *options, size_t i)
{
  const char *path = options->shared.files[i];
  tamis_stats stats = TAMIS_STATS_INIT;
  struct saved_report report;
  saved_examine(path, &stats, &report);
  printf("\nfile          %zu\nstate         %s\n", i + 1, state_of_file(&report));
  if (report.magic)
    print_header(&report);
  if (report.described == TAMIS_OK)
    print_text(options, path, &stats);
  else
    printf("bytes         %" PRIu64 "\n", file_size(path));
  if (report.described == TAMIS_OK && stats.segments > 0)
    printf("segments      %" PRIu64 ", fingerprints of %u bits\n", stats.segments,
           stats.fingerprint_bits);
}

static void print_report(const struct info_options *options)
{
  saved_watch_files();
  puts("```");
  version_print();
  machine_print();
  for (size_t i = 0; i < options->shared.file_count; i++)
    report_file(options, i);
  puts("```");
}

/* Standard input can be read only once: its figures are then those of the filter. */
static bool find_figures(const struct info_options *options, const char *path, tamis_stats *stats)
{
  struct stat status;
  bool once = strcmp(path, "-") == 0 || (stat(path, &status) == 0 && !S_ISREG(status.st_mode));
  if (!options->check || !once) {
    if (!saved_describe(path, stats) || !options->check)
      return !failed();
  }
  tamis_filter *filter = saved_map(path, true);
  if (filter != NULL && once)
    (void) tamis_get_stats(filter, stats);
  tamis_destroy(filter);
  return filter != NULL;
}

static void run(const struct info_options *options)
{
  bool printed = false;
  for (size_t i = 0; i < options->shared.file_count; i++) {
    tamis_stats stats = TAMIS_STATS_INIT;
    bool found = find_figures(options, options->shared.files[i], &stats);
    if (found && printed && !options->json)
      putchar('\n');
    if (found)
      (options->json ? print_json : print_text)(options, options->shared.files[i], &stats);
    printed |= found;
    go_on();
  }
}

int info_main(int argc, char **argv)
{
  struct info_options options = {.shared = SHARED_OPTIONS_INIT, .period = -1};
  parse_command_line(&info_argp, argc, argv, &options.shared, &options);
  for (size_t i = 0; i < options.shared.file_count && options.report; i++)
    if (strcmp(options.shared.files[i], "-") == 0)
      usage_error("--report takes files, and not standard input");
  (options.report ? print_report : run)(&options);
  return finish();
}
