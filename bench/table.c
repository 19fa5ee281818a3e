/* SPDX-License-Identifier: MIT */
#include "table.h"

#include "growth.h"
#include "record.h"

#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* ---- rows ----
 *
 * A limit is what the library should keep on any machine of today.  So it asks for no less than what
 * the operation takes at least: an add of several words has an atomic instruction for each, two
 * generations are four buckets, and lines that two threads write travel between their cores.  Where
 * all depends on what fits in the cache, a row has no limit. */

enum bound { AT_MOST, AT_LEAST, NO_LIMIT };

struct row {
  char what[96];
  double value, limit;
  enum bound bound;
};

static struct {
  struct row rows[256];
  unsigned count;
} table;

__attribute__((format(printf, 4, 5))) static void add_row(double value, enum bound bound,
                                                          double limit, const char *format, ...)
{
  struct row *row = &table.rows[table.count];
  va_list arguments;
  if (table.count == sizeof table.rows / sizeof *table.rows)
    return;
  table.count++;
  *row = (struct row){.value = value, .limit = limit, .bound = bound};
  va_start(arguments, format);
  vsnprintf(row->what, sizeof row->what, format, arguments);
  va_end(arguments);
}

static bool met(const struct row *row)
{
  switch (row->bound) {
  case AT_MOST:
    return row->value <= row->limit;
  case AT_LEAST:
    return row->value >= row->limit;
  default:
    return true;
  }
}

static void print_row(const struct row *r, const char *limit, bool markdown)
{
  const char *verdict = r->bound == NO_LIMIT ? "" : met(r) ? "met" : "missed";
  if (!markdown)
    printf("%-80s %8.3g  %-16s %s\n", r->what, r->value, limit, verdict);
  else if (r->what[0] == ' ') /* belongs to the row before, but a table has no indentation */
    printf("| … %s | %.3g | %s | %s |\n", r->what + 2, r->value, limit, verdict);
  else
    printf("| %s | %.3g | %s | %s |\n", r->what, r->value, limit, verdict);
}

static void print_rows(bool markdown)
{
  static const char *const bounds[] = {"at most", "at least", ""};
  unsigned missed = 0;
  if (markdown)
    print_machine(stdout);
  if (markdown)
    printf("\n| what | measured | limit | |\n|---|--:|---|---|\n");
  else
    printf("\n%-80s %8s  %-16s\n", "what", "measured", "limit");
  for (const struct row *r = table.rows; r < table.rows + table.count; r++) {
    char limit[32] = "";
    if (r->bound != NO_LIMIT)
      snprintf(limit, sizeof limit, "%s %.4g", bounds[r->bound], r->limit);
    print_row(r, limit, markdown);
    missed += !met(r);
    record_ratio(r->what, r->value, bounds[r->bound], r->limit, met(r));
  }
  printf("\n%u missed\n", missed);
}

/* The text of a number; powers of ten as "10^6". */
static const char *power(uint64_t n)
{
  static char texts[4][24];
  static unsigned next;
  char *text = texts[next++ % 4];
  double exponent = log10((double) n);
  if (exponent == floor(exponent))
    snprintf(text, sizeof texts[0], "10^%.0f", exponent);
  else
    snprintf(text, sizeof texts[0], "%" PRIu64, n);
  return text;
}

/* The time of entry a divided by that of entry b. */
static double ratio(const struct experiment *x, unsigned a, unsigned b)
{
  return median_of(x, a) / median_of(x, b);
}

/* The settings with half the rounds, for workloads that take long. */
static struct settings half_the_rounds(const struct settings *settings)
{
  struct settings half = *settings;
  half.rounds = (settings->rounds + 1) / 2;
  return half;
}

/* ---- one thread, compared with the machine and with other libraries ---- */

static void bloom_lookups(uint64_t n, double fpp, const struct settings *settings)
{
  struct experiment x = experiment("Bloom filter, look-ups", n, fpp);
  static const char *const names[] = {"hit", "miss"};
  unsigned ours[2], theirs[2], bytes[2];
  unsigned call = add_machine_entry(&x, "call", 1, "bloom"),
           xxh3 = add_machine_entry(&x, "xxh3", 1, "bloom");
  unsigned read = add_machine_entry(&x, "read-call", 1, "bloom");
  add_machine_entry(&x, "keys", 1, "bloom");
  for (unsigned i = 0; i < 2; i++) {
    ours[i] = add_entry(&x, names[i], "bloom", 1);
    bytes[i] = add_entry(&x, i ? "miss-bytes" : "hit-bytes", "bloom", 1);
    theirs[i] = add_entry(&x, names[i], "libbloom", 1);
    add_entry(&x, names[i], "bloom-alone", 1);
  }
  experiment_run(&x, settings);
  for (unsigned i = 0; i < 2; i++) {
    add_row(ratio(&x, ours[i], call), NO_LIMIT, 0, "Bloom %s, fpp %g, n = %s: over an empty call",
            names[i], fpp, power(n));
    add_row(ratio(&x, ours[i], read), AT_MOST, 3, "  over a call that makes a random read");
    add_row(ratio(&x, theirs[i], ours[i]), AT_LEAST, 4, "  speed over libbloom's");
    add_row((median_of(&x, bytes[i]) - median_of(&x, ours[i])) / median_of(&x, xxh3), NO_LIMIT, 0,
            "  8-byte key: extra time over XXH3");
  }
}

static void bloom_adds(uint64_t n, double fpp, const struct settings *settings)
{
  struct experiment x = experiment("Bloom filter, adds", n, fpp);
  unsigned xxh3 = add_machine_entry(&x, "xxh3", 1, "bloom");
  unsigned blind = add_machine_entry(&x, "or-blind", 1, "bloom");
  add_machine_entry(&x, "or-any", 1, "bloom");
  unsigned ours = add_entry(&x, "insert", "bloom", 1),
           bytes = add_entry(&x, "insert-bytes", "bloom", 1);
  unsigned theirs = add_entry(&x, "insert", "libbloom", 1);
  add_entry(&x, "insert", "bloom-alone", 1);
  experiment_run(&x, settings);
  add_row(ratio(&x, theirs, ours), AT_LEAST, 5, "Bloom add, fpp %g, n = %s: speed over libbloom's",
          fpp, power(n));
  add_row(ratio(&x, ours, blind), NO_LIMIT, 0, "  over an OR on any word, without its old value");
  add_row((median_of(&x, bytes) - median_of(&x, ours)) / median_of(&x, xxh3), NO_LIMIT, 0,
          "  8-byte key: extra time over XXH3");
}

static void batches(uint64_t n, double fpp, const struct settings *settings)
{
  struct experiment x = experiment("batches of 64", n, fpp);
  unsigned one = add_machine_entry(&x, "read-ahead", 1, "bloom");
  unsigned two = add_machine_entry(&x, "read-two-ahead", 1, "cuckoo");
  unsigned bloom = add_entry(&x, "hit-batch", "bloom", 1);
  unsigned cuckoo = add_entry(&x, "hit-batch", "cuckoo", 1);
  add_entry(&x, "hit", "bloom", 1);
  add_entry(&x, "hit", "cuckoo", 1);
  experiment_run(&x, settings);
  add_row(ratio(&x, bloom, one), AT_MOST, 1.3,
          "batch of 64, fpp %g, n = %s: Bloom over a prefetched read", fpp, power(n));
  add_row(ratio(&x, cuckoo, two), AT_MOST, 2.5, "  cuckoo over two prefetched reads");
}

/* ---- the cost of concurrency ---- */

static void cuckoo_lookups(uint64_t n, double fpp, const struct settings *settings)
{
  struct experiment x = experiment("cuckoo filter, look-ups", n, fpp);
  static const char *const names[] = {"hit", "miss"};
  unsigned ours[2], alone[2];
  add_machine_entry(&x, "read-two", 1, "cuckoo");
  for (unsigned i = 0; i < 2; i++) {
    ours[i] = add_entry(&x, names[i], "cuckoo", 1);
    alone[i] = add_entry(&x, names[i], "cuckoo-alone", 1);
    add_entry(&x, names[i], "cuckoo-fixed", 1);
    add_entry(&x, names[i], "cuckoo-fixed-alone", 1);
  }
  experiment_run(&x, settings);
  for (unsigned i = 0; i < 2; i++)
    add_row(ratio(&x, ours[i], alone[i]), AT_MOST, 1.35,
            "cuckoo %s, fpp %g, n = %s: over the build without concurrency", names[i], fpp,
            power(n));
}

static void cuckoo_adds(uint64_t n, double fpp, bool with_others, const struct settings *settings)
{
  struct experiment x = experiment("cuckoo filter, adds", n, fpp);
  unsigned ours = add_entry(&x, "insert", "cuckoo", 1);
  unsigned alone = add_entry(&x, "insert", "cuckoo-alone", 1), theirs = 0;
  add_entry(&x, "insert", "cuckoo-fixed", 1);
  add_entry(&x, "insert", "cuckoo-fixed-alone", 1);
  if (with_others) {
    add_entry(&x, "remove", "cuckoo", 1);
    add_entry(&x, "remove", "cuckoo-alone", 1);
    theirs = add_entry(&x, "insert", "libcuckoo", 1);
  }
  experiment_run(&x, settings);
  add_row(ratio(&x, ours, alone), AT_MOST, 1.5,
          "cuckoo add, fpp %g, n = %s: over the build without concurrency", fpp, power(n));
  if (with_others)
    add_row(ratio(&x, theirs, ours), AT_LEAST, 2.5, "  speed over libcuckoo's");
}

/* A filter that may grow, and has not, compared with one that may not.  At these rates both have
 * entries of 16 bits. */
static void growable_lookups(uint64_t n, double limit, const struct settings *settings)
{
  struct experiment x = experiment("cuckoo filter that may grow", n, 0.01);
  static const char *const names[] = {"hit", "miss"};
  unsigned growable[2], fixed[2];
  for (unsigned i = 0; i < 2; i++) {
    growable[i] = add_entry(&x, names[i], "cuckoo", 1);
    fixed[i] = add_entry_at(&x, names[i], "cuckoo-fixed", 1, 0.001);
  }
  experiment_run(&x, settings);
  for (unsigned i = 0; i < 2; i++)
    add_row(ratio(&x, growable[i], fixed[i]), AT_MOST, limit,
            "growable cuckoo %s, n = %s: over a fixed one of the same width", names[i], power(n));
}

/* A window of four periods, compared with a Bloom filter that keeps everything.  There is no limit
 * where only one of them may fit in the cache. */
static void window_lookups(uint64_t n, double fpp, enum bound bound,
                           const struct settings *settings)
{
  struct experiment x = experiment("window, look-ups", n, fpp);
  static const char *const names[] = {"hit", "miss"}, *const windows[] = {"window", "window-fixed"};
  unsigned window[2][2], plain[2];
  for (unsigned i = 0; i < 2; i++) {
    plain[i] = add_entry(&x, names[i], "bloom", 1);
    for (unsigned j = 0; j < 2; j++)
      window[i][j] = add_entry(&x, names[i], windows[j], 1);
  }
  experiment_run(&x, settings);
  for (unsigned i = 0; i < 2; i++) {
    add_row(ratio(&x, window[i][0], plain[i]), bound, 2,
            "window %s, fpp %g, n = %s: over a Bloom filter without a window", names[i], fpp,
            power(n));
    add_row(ratio(&x, window[i][1], plain[i]), bound, 2, "  the same, not growable");
  }
}

static void against_libcuckoo(uint64_t n, const struct settings *settings)
{
  struct experiment x = experiment("cuckoo filter and libcuckoo, look-ups", n, 0.01);
  static const char *const names[] = {"hit", "miss"};
  unsigned ours[2][2], theirs[2][2];
  for (unsigned i = 0; i < 4; i++) {
    ours[i / 2][i % 2] = add_entry(&x, names[i / 2], "cuckoo", 1 + i % 2);
    theirs[i / 2][i % 2] = add_entry(&x, names[i / 2], "libcuckoo", 1 + i % 2);
  }
  experiment_run(&x, settings);
  for (unsigned i = 0; i < 4; i++)
    add_row(ratio(&x, theirs[i / 2][i % 2], ours[i / 2][i % 2]), AT_LEAST, 3,
            "cuckoo %s, n = %s, %u thread%s: speed over libcuckoo's", names[i / 2], power(n),
            1 + i % 2, i % 2 ? "s" : "");
}

/* ---- threads ---- */

enum { CROWD = 16 };

/* The speed of two threads over that of one, and of a crowd over that of two.  A limit of 0:
 * none. */
static void scaling(const char *workload, uint64_t n, double limit, double limit_of_crowd,
                    const struct settings *settings)
{
  static const char *const kinds[] = {"bloom", "cuckoo"};
  struct experiment x = experiment("threads", n, 0.01);
  unsigned ours[2][3];
  bool can[2];
  for (unsigned i = 0; i < 2; i++) {
    can[i] = subject_can(subject_find(kinds[i]), workload_find(workload)->call);
    for (unsigned t = 0; can[i] && t < 3; t++)
      ours[i][t] = add_entry(&x, workload, kinds[i], t < 2 ? t + 1 : CROWD);
  }
  experiment_run(&x, settings);
  for (unsigned i = 0; i < 2; i++) {
    if (!can[i])
      continue;
    add_row(ratio(&x, ours[i][0], ours[i][1]), limit > 0 ? AT_LEAST : NO_LIMIT, limit,
            "%s, %s, n = %s: 2 threads over 1", kinds[i], workload, power(n));
    add_row(ratio(&x, ours[i][1], ours[i][2]), limit_of_crowd > 0 ? AT_LEAST : NO_LIMIT,
            limit_of_crowd, "  %d threads over 2", CROWD);
  }
}

/* The speed of a filter for one thread that threads share through a lock. */
static void behind_locks(const char *workload, uint64_t n, const struct settings *settings)
{
  static const char *const locked[] = {"libbloom-mutex", "libbloom-rwlock"};
  struct experiment x = experiment("libbloom behind a lock", n, 0.01);
  unsigned bare = add_entry(&x, workload, "libbloom", 1),
           ours = add_entry(&x, workload, "bloom", 2);
  unsigned one[2], two[2];
  for (unsigned i = 0; i < 2; i++) {
    one[i] = add_entry(&x, workload, locked[i], 1);
    two[i] = add_entry(&x, workload, locked[i], 2);
  }
  experiment_run(&x, settings);
  for (unsigned i = 0; i < 2; i++) {
    add_row(ratio(&x, bare, two[i]), NO_LIMIT, 0,
            "%s, %s, n = %s: speed of 2 threads over 1 on bare libbloom", locked[i], workload,
            power(n));
    add_row(ratio(&x, one[i], two[i]), NO_LIMIT, 0, "  2 threads over 1 behind the same lock");
    add_row(ratio(&x, two[i], ours), NO_LIMIT, 0, "  speed of bloom over it, 2 threads each");
  }
}

/* ---- filters that are not full ---- */

/* Look-ups in filters for n keys, of which only a part is in. */
static void fill(uint64_t n, unsigned percent, const struct settings *settings)
{
  static const char *const kinds[] = {"bloom", "cuckoo"};
  static const char *const yardsticks[] = {"read", "read-two"};
  static const char *const names[] = {"hit", "miss"};
  struct experiment x = experiment("filled in part", n, 0.01);
  unsigned read[2], lookups[2][2];
  for (unsigned i = 0; i < 2; i++) /* arrays as large as filters for n keys */
    read[i] = add_machine_entry(&x, yardsticks[i], 1, kinds[i]);
  x.keys = n * percent / 100;
  for (unsigned i = 0; i < 4; i++)
    lookups[i / 2][i % 2] = add_entry_for(&x, names[i % 2], kinds[i / 2], 1, n);
  experiment_run(&x, settings);
  for (unsigned i = 0; i < 4; i++)
    add_row(ratio(&x, lookups[i / 2][i % 2], read[i / 2]), NO_LIMIT, 0,
            "%s %s, %u %% of %s keys in: over %s", kinds[i / 2], names[i % 2], percent, power(n),
            i / 2 ? "two random reads" : "a random read");
}

/* The word layout over the blocked one, whose rates are the same. */
static void word_layout(uint64_t n, const struct settings *settings)
{
  static const char *const names[] = {"hit", "miss", "hit-batch", "insert", "unique"};
  enum { NAMES = sizeof names / sizeof *names };
  struct experiment x = experiment("the word layout", n, 0.01);
  unsigned word[NAMES], blocked[NAMES];
  for (unsigned i = 0; i < NAMES; i++) {
    word[i] = add_entry(&x, names[i], "bloom-word", 1);
    blocked[i] = add_entry(&x, names[i], "bloom", 1);
  }
  unsigned adds = add_entry(&x, "insert", "bloom-word", 2),
           bare = add_machine_entry(&x, "word-filter", 2, "bloom-word");
  x.entries[bare].workload = workload_find("insert"); /* into an array without bits */
  unsigned same = add_entry(&x, "unique-same", "bloom-word", 2),
           set = add_entry(&x, "unique-same", "set-mutex", 2);
  experiment_run(&x, settings);
  for (unsigned i = 0; i < NAMES; i++)
    add_row(ratio(&x, word[i], blocked[i]), NO_LIMIT, 0, "word layout, %s, n = %s: over blocked",
            names[i], power(n));
  add_row(ratio(&x, bare, adds), AT_LEAST, 0.85,
          "  insert, 2 threads: speed over a bare filter of one word a key");
  add_row(ratio(&x, set, same), AT_LEAST, 1,
          "  unique-same, 2 threads: speed over a set behind a mutex");
}

static void hot_keys_rows(uint64_t n, const struct settings *settings)
{
  static const char *const names[] = {"unique-one", "unique-same", "unique-zipf"};
  static const char *const kinds[] = {"bloom", "cuckoo"};
  static const unsigned threads[] = {2, CROWD};
  struct experiment x = experiment("hot keys", n, 0.01);
  unsigned ours[2][3][2], set[3][2];
  for (unsigned w = 0; w < 3; w++) {
    for (unsigned t = 0; t < 2; t++) {
      set[w][t] = add_entry(&x, names[w], "set-mutex", threads[t]);
      for (unsigned k = 0; k < 2; k++)
        ours[k][w][t] = add_entry(&x, names[w], kinds[k], threads[t]);
    }
  }
  experiment_run(&x, settings);
  for (unsigned w = 0; w < 3; w++)
    for (unsigned t = 0; t < 2; t++)
      for (unsigned k = 0; k < 2; k++)
        add_row(ratio(&x, set[w][t], ours[k][w][t]), w == 2 ? NO_LIMIT : AT_LEAST, 1,
                "%s, %s, %u threads: speed over a set behind a mutex", kinds[k], names[w],
                threads[t]);
}

/* ---- growth ---- */

static void growth(uint64_t to, const struct settings *settings)
{
  enum { FROM = 10000 };
  struct experiment x = experiment("growth", to, 0.001);
  unsigned grown = add_entry_for(&x, "insert", "cuckoo", 1, FROM);
  unsigned right = add_entry(&x, "insert", "cuckoo", 1);
  unsigned hit_grown = add_entry_for(&x, "hit", "cuckoo", 1, FROM);
  unsigned hit_right = add_entry(&x, "hit", "cuckoo", 1);
  unsigned miss_grown = add_entry_for(&x, "miss", "cuckoo", 1, FROM);
  unsigned miss_right = add_entry(&x, "miss", "cuckoo", 1);
  unsigned batch_grown = add_entry_for(&x, "hit-batch", "cuckoo", 1, FROM);
  const struct settings half = half_the_rounds(settings);
  experiment_run(&x, &half);

  const struct subject *subjects[] = {subject_find("cuckoo"), subject_find("libcuckoo")};
  const struct growth g = {.from = FROM,
                           .to = to,
                           .fpp = 0.001,
                           .rounds = half.rounds,
                           .cpu_time = settings->cpu_time,
                           .quiet = settings->quiet};
  struct growth_times times[2];
  growth_times(&g, subjects, 2, times);
  const struct growth_bits bits = growth_rates(&g, subjects[0]);

  add_row(ratio(&x, grown, right), AT_MOST, 1.6,
          "growth from %s to %s, fpp 0.001: mean add, over the right size", power(FROM), power(to));
  add_row(times[1].longest / times[0].longest, AT_LEAST, 200,
          "  libcuckoo's longest call over the longest here");
  add_row(1e-3 * times[0].p9999, AT_MOST, 20, "  99.99th percentile of the adds, in microseconds");
  add_row(1e-6 * times[0].longest, AT_MOST, 0.5, "  the longest add, in milliseconds");
  add_row(ratio(&x, hit_grown, hit_right), AT_MOST, 1.6, "  hits after it, over the right size");
  add_row(ratio(&x, miss_grown, miss_right), AT_MOST, 1.6,
          "  misses after it, over the right size");
  add_row(ratio(&x, batch_grown, hit_grown), AT_MOST, 0.5,
          "  hits after it, in batches over single calls");
  add_row(bits.last, AT_MOST, 30, "  bits per key after it");
  add_row(bits.most, AT_MOST, 38, "  bits per key at most");
}

/* ---- two builds ---- */

static void builds(const char *kind, uint64_t n, const struct settings *settings)
{
  static const char *const names[] = {"hit",          "miss",   "hit-batch", "insert",
                                      "insert-batch", "unique", "remove"};
  enum { NAMES = sizeof names / sizeof *names };
  struct experiment x = experiment("two builds", n, 0.01);
  char other[32];
  unsigned ours[NAMES], theirs[NAMES];
  snprintf(other, sizeof other, "other-%s", kind);
  for (unsigned i = 0; i < NAMES; i++) {
    if (!subject_can(subject_find(kind), workload_find(names[i])->call))
      continue;
    ours[i] = add_entry(&x, names[i], kind, 1);
    theirs[i] = add_entry(&x, names[i], other, 1);
  }
  experiment_run(&x, settings);
  for (unsigned i = 0; i < NAMES; i++)
    if (subject_can(subject_find(kind), workload_find(names[i])->call))
      add_row(ratio(&x, ours[i], theirs[i]), NO_LIMIT, 0, "%s, %s, n = %s: over the other build",
              kind, names[i], power(n));
}

/* ---- creation ---- */

static double seconds_to_touch(size_t bytes)
{
  const size_t page = 4096;
  char *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED)
    return NAN;
  double began = now();
  (void) madvise(block, bytes, MADV_HUGEPAGE); /* as the library does */
  for (size_t i = 0; i < bytes; i += page)
    ((volatile char *) block)[i] = 0;
  double seconds = now() - began;
  munmap(block, bytes);
  return seconds;
}

static double seconds_to_create(const struct subject *subject, size_t bytes)
{
  struct spec spec = {.capacity = 1000000, .fpp = 0.01};
  uint64_t of_a_million = subject->bytes(subject, &spec);
  spec.capacity = (uint64_t) (1e6 * (double) bytes / (double) of_a_million);
  double began = now();
  void *state = subject->create(subject, &spec);
  double seconds = now() - began;
  subject->destroy(subject, state);
  return seconds;
}

static void creation(size_t bytes, const struct settings *settings)
{
  static const char *const names[] = {"bloom", "cuckoo", "cuckoo-fixed"};
  enum { KINDS = sizeof names / sizeof *names };
  struct series touch = {0}, create[KINDS] = {0};
  for (unsigned round = 0; round < settings->rounds; round++) {
    touch.ns[touch.rounds++] = 1e9 * seconds_to_touch(bytes);
    for (unsigned i = 0; i < KINDS; i++)
      create[i].ns[create[i].rounds++] = 1e9 * seconds_to_create(subject_find(names[i]), bytes);
  }
  if (!settings->quiet)
    printf("\ncreation, %zu MB: touching the pages %.3g ms\n", bytes / 1000000,
           1e-6 * series_quartile(&touch, 2));
  for (unsigned i = 0; i < KINDS; i++) {
    if (!settings->quiet)
      printf("  %-20s %.3g ms\n", names[i], 1e-6 * series_quartile(&create[i], 2));
    add_row(series_quartile(&create[i], 2) / series_quartile(&touch, 2), AT_MOST, 1,
            "%s, creation of %zu MB: over touching its pages once", names[i], bytes / 1000000);
  }
}

/* ---- sections ---- */

static void section_lookups(const struct table_sizes *sizes, const struct settings *settings)
{
  bloom_lookups(sizes->small, 0.01, settings);
  bloom_lookups(sizes->small, 0.001, settings);
}

static void section_adds(const struct table_sizes *sizes, const struct settings *settings)
{
  bloom_adds(sizes->small, 0.01, settings);
  bloom_adds(sizes->small, 0.001, settings);
}

static void section_word(const struct table_sizes *sizes, const struct settings *settings)
{
  word_layout(sizes->small, settings);
}

static void section_batches(const struct table_sizes *sizes, const struct settings *settings)
{
  batches(sizes->medium, 0.01, settings);
  batches(sizes->medium, 0.001, settings);
  if (sizes->large)
    batches(sizes->large, 0.01, settings);
}

static void section_alone(const struct table_sizes *sizes, const struct settings *settings)
{
  const struct settings half = half_the_rounds(settings);
  cuckoo_lookups(sizes->small, 0.01, settings);
  cuckoo_lookups(sizes->small, 0.001, settings);
  cuckoo_lookups(sizes->medium, 0.01, settings);
  cuckoo_adds(sizes->small, 0.01, true, settings);
  cuckoo_adds(sizes->small, 0.001, true, settings);
  cuckoo_adds(sizes->medium, 0.01, false, &half);
}

static void section_growable(const struct table_sizes *sizes, const struct settings *settings)
{
  growable_lookups(sizes->small, 1.25, settings);
  growable_lookups(sizes->medium, 1.5, settings);
}

static void section_windows(const struct table_sizes *sizes, const struct settings *settings)
{
  window_lookups(sizes->small, 0.01, AT_MOST, settings);
  window_lookups(sizes->small, 0.001, AT_MOST, settings);
  window_lookups(sizes->medium, 0.01, NO_LIMIT, settings);
  window_lookups(sizes->medium, 0.001, NO_LIMIT, settings);
}

static void section_builds(const struct table_sizes *sizes, const struct settings *settings)
{
  static const char *const kinds[] = {"bloom", "bloom-classic", "cuckoo", "cuckoo-fixed"};
  const struct settings half = half_the_rounds(settings);
  for (unsigned i = 0; settings->builds && i < sizeof kinds / sizeof *kinds; i++) {
    builds(kinds[i], sizes->small, settings);
    builds(kinds[i], sizes->medium, &half);
  }
}

static void section_libcuckoo(const struct table_sizes *sizes, const struct settings *settings)
{
  against_libcuckoo(sizes->small, settings);
}

static void section_threads(const struct table_sizes *sizes, const struct settings *settings)
{
  const struct settings half = half_the_rounds(settings);
  const struct {
    uint64_t keys;
    double add, mix;
    const struct settings *settings;
  } limits[] = {{sizes->medium, 1.8, 1.8, &half}, {sizes->small, 1.5, 1.4, settings}};
  for (unsigned i = 0; i < 2; i++) {
    scaling("hit", limits[i].keys, 1.9, 0.9, settings);
    scaling("insert", limits[i].keys, limits[i].add, 0.9, limits[i].settings);
    scaling("mix", limits[i].keys, limits[i].mix, 0.9, limits[i].settings);
  }
  if (sizes->large) /* takes too long otherwise */
    scaling("unique", sizes->medium, 0, 0.9, &half);
  scaling("unique", sizes->small, 0, 0.9, settings);
  scaling("remove", sizes->small, 0, 0, settings);
}

static void section_locks(const struct table_sizes *sizes, const struct settings *settings)
{
  const struct settings half = half_the_rounds(settings); /* locks are slow */
  behind_locks("hit", sizes->small, &half);
  behind_locks("insert", sizes->small, &half);
  behind_locks("mix", sizes->small, &half);
}

static void section_fill(const struct table_sizes *sizes, const struct settings *settings)
{
  static const unsigned percents[] = {25, 50, 75, 95};
  for (unsigned i = 0; i < sizeof percents / sizeof *percents; i++)
    fill(sizes->small, percents[i], settings);
}

static void section_hot(const struct table_sizes *sizes, const struct settings *settings)
{
  hot_keys_rows(sizes->small, settings);
}

static void section_growth(const struct table_sizes *sizes, const struct settings *settings)
{
  growth(sizes->medium, settings);
}

static void section_creation(const struct table_sizes *sizes, const struct settings *settings)
{
  creation(sizes->bytes, settings);
}

static const struct section {
  const char *name;
  void (*run)(const struct table_sizes *sizes, const struct settings *settings);
} all_sections[] = {
    {"lookups", section_lookups},   {"adds", section_adds},       {"word", section_word},
    {"batches", section_batches},   {"fill", section_fill},       {"alone", section_alone},
    {"growable", section_growable}, {"windows", section_windows}, {"libcuckoo", section_libcuckoo},
    {"builds", section_builds},     {"threads", section_threads}, {"locks", section_locks},
    {"hot", section_hot},           {"growth", section_growth},   {"creation", section_creation}};

enum { SECTIONS = sizeof all_sections / sizeof *all_sections };

const char *table_section(unsigned n)
{
  return n < SECTIONS ? all_sections[n].name : NULL;
}

static const struct section *section_find(const char *name)
{
  for (unsigned i = 0; i < SECTIONS; i++)
    if (strcmp(all_sections[i].name, name) == 0)
      return &all_sections[i];
  error(2, 0, "no such section: %s", name);
  return NULL;
}

void table_run(const struct table_sizes *sizes, const struct settings *settings, bool markdown,
               const char *const *sections, unsigned n)
{
  for (unsigned i = 0; i < (n ? n : SECTIONS); i++)
    (n ? section_find(sections[i]) : &all_sections[i])->run(sizes, settings);
  print_rows(markdown);
}
