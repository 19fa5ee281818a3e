/* SPDX-License-Identifier: MIT
 *
 * Question: how much memory does a filter take, and at which false-positive rate?
 *
 * Prints the tables of docs/space.md, as they stand there.  script/figures writes them into that
 * page.
 *
 *    stress-tables planned     sizes for 10^6 keys, by tamis_bytes_for
 *    stress-tables capacities  sizes for other numbers of keys, by tamis_bytes_for
 *    stress-tables full        filters with 10^6 keys, filled and measured
 *    stress-tables refused     how many keys filters take that may not grow
 *    stress-tables grown       cuckoo filters that have grown, measured
 *
 * The first two do not depend on chance.  Neither do the next two: seeds and keys are always the
 * same, and one thread adds them.  The memory of a filter that grows also depends on when readers
 * leave.
 */
#include "tamis/tamis.h"

#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the filters that are compared ---- */

static const struct subject {
  const char *name;
  tamis_kind kind;
  tamis_layout layout;
  bool growable;
} subjects[] = {
    {"Bloom, classic", TAMIS_BLOOM, TAMIS_LAYOUT_CLASSIC, false},
    {"Bloom, blocked", TAMIS_BLOOM, TAMIS_LAYOUT_BLOCKED, false},
    {"Bloom, word", TAMIS_BLOOM, TAMIS_LAYOUT_WORD, false},
    {"cuckoo, fixed", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, false},
    {"cuckoo, growable", TAMIS_CUCKOO, TAMIS_LAYOUT_BLOCKED, true},
};
enum { CLASSIC, BLOCKED, WORD, FIXED, GROWABLE, SUBJECTS };

static tamis_options options_for(const struct subject *subject, uint64_t capacity, double fpp)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = subject->kind;
  options.layout = subject->layout;
  options.growable = subject->growable;
  options.capacity = capacity;
  options.fpp = fpp;
  return options;
}

static double bits_per_key(uint64_t bytes, uint64_t keys)
{
  return 8 * (double) bytes / (double) keys;
}

/* As planned, everything included; NaN if there is no such filter. */
static double bits_for(const tamis_options *options, const char *name)
{
  uint64_t bytes;
  int result = tamis_bytes_for(options, &bytes);
  if (result == TAMIS_EUNSUPPORTED)
    return NAN;
  if (result != TAMIS_OK)
    error(2, 0, "no size for %s: %s", name, tamis_strerror(result));
  return bits_per_key(bytes, options->capacity);
}

static double planned_bits(const struct subject *subject, uint64_t capacity, double fpp)
{
  tamis_options options = options_for(subject, capacity, fpp);
  return bits_for(&options, subject->name);
}

static tamis_filter *create(const struct subject *subject, uint64_t capacity, double fpp,
                            uint64_t seed)
{
  tamis_options options = options_for(subject, capacity, fpp);
  options.seed = seed;
  tamis_filter *filter;
  int result = tamis_create(&options, &filter);
  if (result != TAMIS_OK)
    error(2, 0, "cannot create: %s", tamis_strerror(result));
  return filter;
}

static tamis_stats stats_of(const tamis_filter *filter)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(filter, &stats);
  return stats;
}

/* Keys are 0, 1, 2, ... */
static void add(tamis_filter *filter, uint64_t key)
{
  int result = tamis_add_hash(filter, key);
  if (result != TAMIS_OK)
    error(1, 0, "key %" PRIu64 ": %s", key, tamis_strerror(result));
}

/* ---- cells ---- */

/* Two digits at most, and "1e-6" where printf would say "1e-06". */
static const char *rate_text(double rate)
{
  static char text[32];
  const double least_plain = 0.001;
  snprintf(text, sizeof text, rate < least_plain ? "%.1e" : "%.2g", rate);
  char *zero = rate < least_plain ? strstr(text, ".0e") : NULL;
  if (zero)
    memmove(zero, zero + 2, strlen(zero + 2) + 1);
  char *exponent = strstr(text, "e-0");
  if (exponent)
    memmove(exponent + 2, exponent + 3, strlen(exponent + 3) + 1);
  return text;
}

static void cell_bits(double bits)
{
  if (isnan(bits))
    printf(" – |");
  else
    printf(" %.*f |", bits < 100 ? 2 : 0, bits);
}

/* Asks for keys that were never added until a thousand are found, or `most` are asked for. */
static double measured_rate(const tamis_filter *filter, uint64_t most, uint64_t *hits)
{
  enum { BATCH = 1000, ENOUGH_HITS = 1000 };
  uint64_t hashes[BATCH], probes = 0;
  for (*hits = 0; probes < most && *hits < ENOUGH_HITS; probes += BATCH) {
    for (uint64_t i = 0; i < BATCH; i++)
      hashes[i] = (UINT64_C(1) << 60) + probes + i;
    *hits += tamis_contains_many_hash(filter, hashes, BATCH, NULL);
  }
  return (double) *hits / (double) probes;
}

/* A rate that is too low to be measured is the one that the filter itself expects. */
static void cell_rate(const tamis_filter *filter, uint64_t most_probes)
{
  enum { FEW = 20 };
  uint64_t hits;
  double rate = measured_rate(filter, most_probes, &hits);
  if (hits < FEW)
    printf(" (%s) |", rate_text(stats_of(filter).fpp_estimate));
  else
    printf(" %s |", rate_text(rate));
}

static void cell_keys(uint64_t keys)
{
  unsigned power = 0;
  uint64_t rest = keys;
  for (; rest % 10 == 0; rest /= 10)
    power++;
  if (rest == 1 && power > 2)
    printf("| 10^%u |", power);
  else
    printf("| %" PRIu64 " |", keys);
}

/* ---- planned sizes ---- */

static void planned(void)
{
  const double rates[] = {0.3, 0.1, 0.05, 0.03, 0.01, 0.001, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9};
  const uint64_t keys = 1000000;
  puts("| fpp | textbook | Bloom, classic | Bloom, blocked | blocked ÷ classic | Bloom, word | "
       "cuckoo, fixed | cuckoo, growable |\n|--:|--:|--:|--:|--:|--:|--:|--:|");
  for (unsigned i = 0; i < sizeof rates / sizeof *rates; i++) {
    double classic = planned_bits(&subjects[CLASSIC], keys, rates[i]);
    double blocked = planned_bits(&subjects[BLOCKED], keys, rates[i]);
    printf("| %s |", rate_text(rates[i]));
    cell_bits(-log(rates[i]) / (M_LN2 * M_LN2));
    cell_bits(classic);
    cell_bits(blocked);
    cell_bits(blocked / classic);
    cell_bits(planned_bits(&subjects[WORD], keys, rates[i]));
    cell_bits(planned_bits(&subjects[FIXED], keys, rates[i]));
    cell_bits(planned_bits(&subjects[GROWABLE], keys, rates[i]));
    putchar('\n');
  }
}

static void capacities(void)
{
  const uint64_t numbers[] = {100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
  /* The word layout does not have the lower rate. */
  static const struct {
    unsigned subject;
    double fpp;
  } columns[] = {{CLASSIC, 0.01}, {BLOCKED, 0.01}, {WORD, 0.01},  {FIXED, 0.01},   {GROWABLE, 0.01},
                 {CLASSIC, 1e-6}, {BLOCKED, 1e-6}, {FIXED, 1e-6}, {GROWABLE, 1e-6}};
  enum { COLUMNS = sizeof columns / sizeof *columns };
  printf("| capacity |");
  for (unsigned i = 0; i < COLUMNS; i++)
    printf(" %s, %s |", subjects[columns[i].subject].name, rate_text(columns[i].fpp));
  printf("\n|--:|");
  for (unsigned i = 0; i < COLUMNS; i++)
    printf("--:|");
  putchar('\n');
  for (unsigned n = 0; n < sizeof numbers / sizeof *numbers; n++) {
    cell_keys(numbers[n]);
    for (unsigned i = 0; i < COLUMNS; i++)
      cell_bits(planned_bits(&subjects[columns[i].subject], numbers[n], columns[i].fpp));
    putchar('\n');
  }
}

/* Sliding windows: those that do not grow, of each number of periods, and those that do. */
static void windows(void)
{
  const double rates[] = {0.1, 0.03, 0.01, 0.003, 0.001, 1e-4, 1e-5, 1e-6, 1e-7};
  const unsigned periods[] = {1, 2, 4, 8, 16, 24, 64};
  enum { PERIODS = sizeof periods / sizeof *periods };
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000000;
  printf("| fpp |");
  for (unsigned i = 0; i < PERIODS; i++)
    printf(" %u, fixed | growable |", periods[i]);
  printf("\n|--:|");
  for (unsigned i = 0; i < 2 * PERIODS; i++)
    printf("--:|");
  putchar('\n');
  for (unsigned r = 0; r < sizeof rates / sizeof *rates; r++) {
    printf("| %s |", rate_text(rates[r]));
    options.fpp = rates[r];
    for (unsigned i = 0; i < 2 * PERIODS; i++) {
      options.window = periods[i / 2];
      options.growable = i % 2;
      cell_bits(bits_for(&options, "a window"));
    }
    putchar('\n');
  }
}

/* ---- full filters ---- */

static void full_row(const struct subject *subject, uint64_t keys, double fpp)
{
  tamis_filter *filter = create(subject, keys, fpp, 1);
  for (uint64_t i = 0; i < keys; i++)
    add(filter, i);
  tamis_stats stats = stats_of(filter);
  double load = subject->kind == TAMIS_BLOOM ? (double) stats.bits_set / (double) stats.bits
                                             : stats.occupancy;
  printf("| %s | %s |", subject->name, rate_text(fpp));
  cell_rate(filter, 400000000);
  printf(" %.1f %% |", 100 * load);
  cell_bits(bits_per_key(stats.bytes, keys));
  putchar('\n');
  tamis_destroy(filter);
}

static void full(void)
{
  const uint64_t keys = 1000000;
  const double bloom[] = {0.3, 0.1, 0.05, 0.01, 0.001, 1e-4, 1e-6, 0};
  const double word[] = {0.3, 0.1, 0.05, 0.01, 0.001, 0};
  const double fixed[] = {0.03, 0.01, 0.001, 1e-4, 1e-6, 1e-9, 0};
  const double growable[] = {0.03, 0.01, 0.001, 1e-4, 1e-6, 0};
  const double *const rates[] = {bloom, bloom, word, fixed, growable};
  puts("| filter | fpp asked | rate measured | load | bits per key |\n"
       "|---|--:|--:|--:|--:|");
  for (unsigned s = 0; s < SUBJECTS; s++)
    for (const double *rate = rates[s]; *rate > 0; rate++)
      full_row(&subjects[s], keys, *rate);
}

/* ---- filters that may not grow ---- */

/* How many keys, by capacity, have been offered when the first one is refused. */
static double refused_at(const struct subject *subject, uint64_t capacity, double fpp,
                         uint64_t seed)
{
  tamis_filter *filter = create(subject, capacity, fpp, seed);
  uint64_t offered = 0;
  while (tamis_add_hash(filter, offered) == TAMIS_OK)
    offered++;
  tamis_destroy(filter);
  return (double) offered / (double) capacity;
}

static void cell_refused(const struct subject *subject, uint64_t capacity, double fpp)
{
  enum { SEEDS = 100, MOST_KEYS = 10000000 };
  double least = INFINITY, most = 0;
  for (uint64_t seed = 1; seed <= SEEDS && seed * capacity <= MOST_KEYS; seed++) {
    double at = refused_at(subject, capacity, fpp, seed);
    least = fmin(least, at);
    most = fmax(most, at);
  }
  printf(" %.3f to %.3f |", least, most);
}

static void refused(void)
{
  static const struct {
    unsigned subject;
    double fpp;
  } rows[] = {{BLOCKED, 0.3}, {BLOCKED, 0.1}, {BLOCKED, 0.01}, {BLOCKED, 0.001}, {WORD, 0.1},
              {WORD, 0.01},   {FIXED, 0.03},  {FIXED, 0.01},   {FIXED, 0.001},   {FIXED, 1e-6}};
  const uint64_t capacities_of[] = {1000, 10000, 100000, 1000000};
  enum { CAPACITIES = sizeof capacities_of / sizeof *capacities_of };
  puts("| filter | fpp asked | capacity 10^3 | 10^4 | 10^5 | 10^6 |\n|---|--:|--:|--:|--:|--:|");
  for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
    printf("| %s | %s |", subjects[rows[i].subject].name, rate_text(rows[i].fpp));
    for (unsigned c = 0; c < CAPACITIES; c++)
      cell_refused(&subjects[rows[i].subject], capacities_of[c], rows[i].fpp);
    putchar('\n');
  }
}

/* ---- filters that have grown ---- */

static const struct grown {
  uint64_t capacity;
  double fpp;
} growns[] = {{1000, 0.01}, {1000, 0.001}, {1000, 1e-6}, {100000, 0.001}};
enum { GROWNS = sizeof growns / sizeof *growns };

/* Looks at the memory between two doublings; and keys asked for after each. */
enum { SAMPLES = 512, PROBES = 10000000 };

/* Two cells: bits per key, least and most, between `from` keys and `to`; and the rate then. */
static void grow_cells(tamis_filter *filter, uint64_t from, uint64_t to)
{
  double least = INFINITY, most = 0;
  uint64_t period = to - from < SAMPLES ? 1 : (to - from) / SAMPLES;
  for (uint64_t n = from; n < to; n++) {
    add(filter, n);
    if (n % period == 0) {
      double bits = bits_per_key(stats_of(filter).bytes, n + 1);
      least = fmin(least, bits);
      most = fmax(most, bits);
    }
  }
  printf(" %.0f to %.0f |", least, most);
  cell_rate(filter, PROBES);
}

static void grown_head(tamis_filter *filters[GROWNS])
{
  printf("| keys, by capacity |");
  for (unsigned i = 0; i < GROWNS; i++) {
    filters[i] = create(&subjects[GROWABLE], growns[i].capacity, growns[i].fpp, 1);
    for (uint64_t n = 0; n < growns[i].capacity; n++)
      add(filters[i], n);
    printf(" fpp %s, capacity %" PRIu64 ": bits per key | rate |", rate_text(growns[i].fpp),
           growns[i].capacity);
  }
  printf("\n|--:|");
  for (unsigned i = 0; i < 2 * GROWNS; i++)
    printf("--:|");
  putchar('\n');
}

static void grown(void)
{
  enum { DOUBLINGS = 13 };
  const uint64_t most_keys = 13000000;
  tamis_filter *filters[GROWNS];
  grown_head(filters);
  for (unsigned doubling = 1; doubling <= DOUBLINGS; doubling++) {
    printf("| %u to %u |", 1u << (doubling - 1), 1u << doubling);
    for (unsigned i = 0; i < GROWNS; i++) {
      uint64_t to = growns[i].capacity << doubling;
      if (to <= most_keys)
        grow_cells(filters[i], to / 2, to);
      else
        printf(" – | – |");
    }
    putchar('\n');
    fflush(stdout);
  }
  printf("| generations |");
  for (unsigned i = 0; i < GROWNS; i++) {
    printf(" %u | |", stats_of(filters[i]).generations);
    tamis_destroy(filters[i]);
  }
  putchar('\n');
}

int main(int argc, char **argv)
{
  static const struct {
    const char *name;
    void (*print)(void);
  } tables[] = {{"planned", planned}, {"capacities", capacities}, {"windows", windows},
                {"full", full},       {"refused", refused},       {"grown", grown}};
  for (unsigned i = 0; i < sizeof tables / sizeof *tables; i++)
    if (argc == 2 && strcmp(argv[1], tables[i].name) == 0) {
      tables[i].print();
      return EXIT_SUCCESS;
    }
  fputs("usage: stress-tables planned | capacities | windows | full | refused | grown\n", stderr);
  return 2;
}
