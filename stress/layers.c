/* SPDX-License-Identifier: MIT
 *
 * Question: does a Bloom filter that has grown far beyond its capacity keep its false-positive
 * rate, and what does that cost?
 *
 * Filters that were made for a thousand keys get many times as many, from one thread.  At each
 * doubling all keys must be in, and absent keys are looked up, in batches and by all threads, until
 * it is certain to four standard deviations that the rate is at most the one asked for, or that it
 * is not; or until --probes keys have been asked for.  A Bloom filter's rate is looked at when the
 * layer that holds the doubling is full and the next one has just been opened, as it is never
 * higher.
 *
 * Two other ways to grow are measured beside it.  One is a cuckoo filter.  The other is a chain of
 * Bloom filters that do not grow, as Almeida, Baquero, Preguica and Hutchison describe it
 *       ("Scalable
 * Bloom filters", Inf. Process. Lett. 101, 2007): filter i, from 0 on, is for 2^i times the first
 * capacity, at fpp / 2^(i + 1).  The chain is measured when its filters are full, which is one
 * capacity before the doubling.  From nine doublings on, a filter that grows must take fewer bits
 * than a chain of the same layout.
 *
 * Times are printed and not judged.
 */
#include "harness.h"
#include "tamis/tamis.h"

#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  CAPACITY = 1000,
  BATCH = 64,
  MOST_PARTS = 40,
  MOST_DOUBLINGS = 40,
  FEWER_BITS_FROM = 9 /* doublings on */
};

/* ---- filters that are compared ---- */

enum way { LAYERS, CHAIN, CUCKOO };

static const struct subject {
  const char *name;
  enum way way;
  tamis_layout layout;
} subjects[] = {
    {"Bloom, blocked", LAYERS, TAMIS_LAYOUT_BLOCKED},
    {"Bloom, classic", LAYERS, TAMIS_LAYOUT_CLASSIC},
    {"Bloom, word", LAYERS, TAMIS_LAYOUT_WORD},
    {"chain, blocked", CHAIN, TAMIS_LAYOUT_BLOCKED},
    {"chain, classic", CHAIN, TAMIS_LAYOUT_CLASSIC},
    {"cuckoo, growable", CUCKOO, TAMIS_LAYOUT_BLOCKED},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

/* One filter, or those of a chain from the first to the newest. */
struct filter {
  const struct subject *subject;
  double fpp;
  uint64_t seed, keys; /* 0, 1, 2, ... are in */
  tamis_filter *parts[MOST_PARTS];
  unsigned n;     /* 0: this layout does not have the rate */
  double highest; /* measured rate, in parts of fpp */
};

static tamis_filter *create(const struct filter *f, unsigned part)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  bool chain = f->subject->way == CHAIN;
  options.kind = f->subject->way == CUCKOO ? TAMIS_CUCKOO : TAMIS_BLOOM;
  options.layout = f->subject->layout;
  options.capacity = (uint64_t) CAPACITY << part;
  options.fpp = chain ? ldexp(f->fpp, -1 - (int) part) : f->fpp;
  options.growable = !chain;
  options.seed = f->seed;
  tamis_filter *filter;
  int result = tamis_create(&options, &filter);
  if (result == TAMIS_EUNSUPPORTED && options.layout == TAMIS_LAYOUT_WORD)
    return NULL;
  if (result != TAMIS_OK)
    error(2, 0, "cannot create: %s", tamis_strerror(result));
  return filter;
}

static struct filter begin(const struct subject *subject, double fpp, uint64_t seed)
{
  struct filter f = {.subject = subject, .fpp = fpp, .seed = seed};
  f.parts[0] = create(&f, 0);
  f.n = f.parts[0] != NULL;
  return f;
}

static void end(struct filter *f)
{
  while (f->n)
    tamis_destroy(f->parts[--f->n]);
}

static tamis_stats stats_of(const struct filter *f)
{
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(f->parts[f->n - 1], &stats);
  return stats;
}

static double bits_per_key(const struct filter *f)
{
  uint64_t bytes = 0;
  for (unsigned i = 0; i < f->n; i++) {
    tamis_stats stats = TAMIS_STATS_INIT;
    tamis_get_stats(f->parts[i], &stats);
    bytes += stats.bytes;
  }
  return 8 * (double) bytes / (double) f->keys;
}

/* Most keys are in the newest filters. */
static bool find(const struct filter *f, uint64_t key)
{
  bool found = false;
  for (unsigned i = f->n; i > 0 && !found; i--)
    found = tamis_contains_hash(f->parts[i - 1], key);
  return found;
}

/* How many of n keys are found: at most a batch, which is overwritten. */
static size_t find_many(const struct filter *f, uint64_t *keys, size_t n)
{
  bool found[BATCH];
  size_t missing = n;
  for (unsigned i = f->n; i > 0 && missing; i--) {
    size_t left = 0;
    tamis_contains_many_hash(f->parts[i - 1], keys, missing, found);
    for (size_t j = 0; j < missing; j++) {
      keys[left] = keys[j];
      left += !found[j];
    }
    missing = left;
  }
  return n - missing;
}

/* Returns what the newest filter answers; the older ones of a chain hide keys. */
static int add(struct filter *f, uint64_t key)
{
  if (f->subject->way != CHAIN)
    return tamis_add_hash(f->parts[0], key);
  if (find(f, key))
    return TAMIS_OK;
  int result = tamis_add_hash(f->parts[f->n - 1], key);
  if (result != TAMIS_EFULL || f->n == MOST_PARTS)
    return result;
  f->parts[f->n] = create(f, f->n);
  return tamis_add_hash(f->parts[f->n++], key);
}

static void fill(struct filter *f, uint64_t keys)
{
  for (; f->keys < keys; f->keys++) {
    int result = add(f, f->keys);
    if (result != TAMIS_OK)
      error(1, 0, "%s, key %" PRIu64 ": %s", f->subject->name, f->keys, tamis_strerror(result));
  }
}

/* Adds keys until a further layer is there.  False: it does not come.  (Keys that are hidden do not
 * count.) */
static bool open_layer(struct filter *f)
{
  unsigned layers = stats_of(f).layers;
  uint64_t step = f->keys / 1024 + 1, most = f->keys + f->keys / 2;
  while (stats_of(f).layers == layers && f->keys < most)
    fill(f, f->keys + step);
  return stats_of(f).layers > layers;
}

/* ---- what is judged ---- */

/* Of a number with the Poisson distribution, whether its mean is certainly below or above `mean`,
 * if it came out as `hits`: to four standard deviations of that mean, which are then exact. */
static bool is_below(double hits, double mean)
{
  return mean - 4 * sqrt(mean) >= hits;
}

static bool is_above(double hits, double mean)
{
  return mean + 4 * sqrt(mean) < hits;
}

struct settings {
  struct harness_settings shared;
  uint64_t keys, probes;
  double fpp; /* 0: four rates */
  bool markdown;
};

struct probing {
  const struct filter *filter;
  uint64_t first, n;
  bool present;
};

static void look_up(struct worker *worker)
{
  const struct probing *p = worker->arg;
  struct range range = harness_share(worker, p->n);
  uint64_t keys[BATCH] = {0};
  for (uint64_t i = range.begin, n; i < range.end; i += n) {
    n = range.end - i < BATCH ? range.end - i : BATCH;
    for (uint64_t j = 0; j < n; j++)
      keys[j] = p->present ? i + j : (UINT64_C(1) << 60) + p->first + i + j;
    worker->result += find_many(p->filter, keys, n);
  }
}

static uint64_t look_up_by_all(const struct settings *s, struct probing probing)
{
  struct worker workers[MAX_THREADS];
  harness_run(s->shared.threads, s->shared.seed, look_up, &probing, workers);
  return harness_results(workers, s->shared.threads);
}

/* False: the rate is certainly too high. */
static bool measure_rate(const struct settings *s, struct filter *f)
{
  enum { FIRST = 1 << 16, ENOUGH = 16 };
  uint64_t probes = 0, hits = 0;
  double mean;
  do {
    struct probing more = {.filter = f, .first = probes, .n = probes ? probes / 2 : FIRST};
    hits += look_up_by_all(s, more);
    probes += more.n;
    mean = f->fpp * (double) probes;
  } while (probes < s->probes && !is_below((double) hits, mean) && !is_above((double) hits, mean));
  if (mean >= ENOUGH)
    f->highest = fmax(f->highest, (double) hits / mean);
  return !is_above((double) hits, mean);
}

static bool complain(const struct filter *f, bool good, const char *what)
{
  if (!good)
    printf("%s, fpp %g, %" PRIu64 " keys: %s\n", f->subject->name, f->fpp, f->keys, what);
  return good;
}

/* Hidden keys are not counted, and there are as many of them as the rate allows. */
static bool good_count(const struct filter *f)
{
  uint64_t count = stats_of(f).count;
  return count <= f->keys && !is_above((double) (f->keys - count), f->fpp * (double) f->keys);
}

static bool judge(const struct settings *s, struct filter *f, bool opened)
{
  uint64_t found = look_up_by_all(s, (struct probing){.filter = f, .n = f->keys, .present = true});
  bool good = complain(f, found == f->keys, "FALSE NEGATIVES");
  good &= complain(f, opened, "NO FURTHER LAYER");
  good &= complain(f, measure_rate(s, f), "RATE");
  good &= complain(f, f->subject->way == CHAIN || good_count(f), "COUNT");
  return good;
}

static bool good_sizes(const struct filter *all, const double *bits, unsigned doublings)
{
  bool good = true;
  for (unsigned i = 0; i < SUBJECTS; i++)
    for (unsigned j = 0; j < SUBJECTS; j++)
      if (doublings >= FEWER_BITS_FROM && subjects[i].way == LAYERS && subjects[j].way == CHAIN &&
          subjects[i].layout == subjects[j].layout)
        good &= complain(&all[i], bits[i] < bits[j], "MORE BITS THAN A CHAIN");
  return good;
}

/* ---- times ---- */

/* "1e-6", where printf would say "1e-06". */
static const char *rate_text(double rate)
{
  static char text[32];
  snprintf(text, sizeof text, "%g", rate);
  char *exponent = strstr(text, "e-0");
  if (exponent)
    memmove(exponent + 2, exponent + 3, strlen(exponent + 3) + 1);
  return text;
}

enum { TIME_ROUNDS = 7, TIMED = 200000 };
enum timed { HIT, MISS, HIT_IN_A_BATCH, MISS_IN_A_BATCH, TIMES };

static double nanoseconds_of(const struct filter *f, enum timed what, uint64_t seed)
{
  uint64_t keys[BATCH] = {0}, found = 0;
  bool hit = what == HIT || what == HIT_IN_A_BATCH;
  uint64_t began = harness_nanoseconds();
  for (uint64_t i = 0; i < TIMED; i += BATCH) {
    for (uint64_t j = 0; j < BATCH; j++) {
      uint64_t random = random_next(&seed);
      keys[j] = hit ? random % f->keys : random | UINT64_C(1) << 60;
    }
    if (what >= HIT_IN_A_BATCH)
      found += find_many(f, keys, BATCH);
    else
      for (uint64_t j = 0; j < BATCH; j++)
        found += find(f, keys[j]);
  }
  uint64_t took = harness_nanoseconds() - began;
  return (double) took / TIMED + (found > 2 * TIMED); /* what is found is needed */
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

/* The medians of several rounds, in which the filters take turns. */
static void print_times(const struct filter *all, uint64_t seed)
{
  static const char *const names[] = {"hit", "miss", "hit in a batch", "miss in a batch"};
  double times[SUBJECTS][TIMES][TIME_ROUNDS];
  for (unsigned round = 0; round < TIME_ROUNDS; round++)
    for (unsigned i = 0; i < SUBJECTS; i++)
      for (enum timed what = 0; what < TIMES && all[i].n; what++)
        times[i][what][round] = nanoseconds_of(&all[i], what, random_at(seed, round));
  for (enum timed what = 0; what < TIMES; what++) {
    printf("| %s | %s, ns |", rate_text(all->fpp), names[what]);
    for (unsigned i = 0; i < SUBJECTS; i++) {
      qsort(times[i][what], all[i].n ? TIME_ROUNDS : 0, sizeof(double), compare);
      if (all[i].n)
        printf(" %.0f |", times[i][what][TIME_ROUNDS / 2]);
      else
        printf(" – |");
    }
    putchar('\n');
  }
}

/* ---- the table ---- */

static void print_head(void)
{
  printf("| fpp | keys |");
  for (unsigned i = 0; i < SUBJECTS; i++)
    printf(" %s |", subjects[i].name);
  printf("\n|--:|--:|");
  for (unsigned i = 0; i < SUBJECTS; i++)
    printf("--:|");
  putchar('\n');
}

/* A page has only some of the doublings. */
static bool is_printed(const struct settings *s, unsigned doublings)
{
  const unsigned selected[] = {0, 3, 6, 10, 13};
  bool printed = !s->markdown;
  for (unsigned i = 0; i < sizeof selected / sizeof *selected; i++)
    printed |= doublings == selected[i];
  return printed;
}

static void print_bits(const struct filter *all, const double *bits, uint64_t keys)
{
  printf("| %s | %" PRIu64 " |", rate_text(all->fpp), keys);
  for (unsigned i = 0; i < SUBJECTS; i++)
    if (bits[i] > 0)
      printf(" %.*f |", bits[i] < 100 ? 1 : 0, bits[i]);
    else
      printf(" – |");
  putchar('\n');
  fflush(stdout);
}

static void print_rates(const struct filter *all)
{
  printf("| %s | highest rate ÷ fpp |", rate_text(all->fpp));
  for (unsigned i = 0; i < SUBJECTS; i++)
    if (all[i].highest > 0) /* or too low to be measured */
      printf(" %.2g |", all[i].highest);
    else
      printf(" – |");
  putchar('\n');
}

/* Brings all filters to so many keys, and judges them. */
static bool double_keys(const struct settings *s, struct filter *all, unsigned doublings)
{
  uint64_t keys = (uint64_t) CAPACITY << doublings;
  double bits[SUBJECTS] = {0};
  bool good = true;
  for (unsigned i = 0; i < SUBJECTS; i++) {
    struct filter *f = &all[i];
    bool chain = subjects[i].way == CHAIN, opened = true;
    if (!f->n || (chain && !doublings))
      continue;
    fill(f, chain ? keys - CAPACITY : keys);
    bits[i] = bits_per_key(f);
    if (subjects[i].way == LAYERS)
      opened = open_layer(f);
    good &= judge(s, f, opened);
  }
  good &= good_sizes(all, bits, doublings);
  if (is_printed(s, doublings))
    print_bits(all, bits, keys);
  return good;
}

static bool grow(const struct settings *s, double fpp)
{
  struct filter all[SUBJECTS];
  bool good = true;
  for (unsigned i = 0; i < SUBJECTS; i++)
    all[i] = begin(&subjects[i], fpp, s->shared.seed);
  for (unsigned doublings = 0; (uint64_t) CAPACITY << doublings <= s->keys && good; doublings++)
    good &= double_keys(s, all, doublings);
  print_rates(all);
  if (!s->markdown)
    print_times(all, s->shared.seed);
  for (unsigned i = 0; i < SUBJECTS; i++)
    end(&all[i]);
  return good;
}

int main(int argc, char **argv)
{
  const double rates[] = {0.1, 0.01, 0.001, 1e-6};
  struct settings s = {.keys = 10000000, .probes = 50000000, .shared.threads = 2};
  const struct harness_option options[] = {
      {"keys", 'n', "At most so many keys (default: 10^7)", .number = &s.keys, .least = CAPACITY},
      {"fpp", 'p', "Requested rate (default: 0.1, 0.01, 0.001 and 1e-6)", .rate = &s.fpp},
      {"probes", 'q', "At most so many absent keys at each doubling (default: 5 * 10^7)",
       .number = &s.probes, .least = 1},
      {"markdown", 'm', "Print the table of docs/space.md, and nothing else", .flag = &s.markdown},
      {0}};
  harness_parse("Grows Bloom filters, and looks at their rates and sizes.", options, argc, argv,
                &s.shared);
  bool good = true;
  print_head();
  for (unsigned i = 0; i < sizeof rates / sizeof *rates; i++)
    if (s.fpp <= 0 || i == 0)
      good &= grow(&s, s.fpp > 0 ? s.fpp : rates[i]);
  return s.markdown && good ? 0 : harness_verdict(&s.shared, good);
}
