/* SPDX-License-Identifier: MIT
 *
 * Question: does a Bloom filter that is filled to its capacity keep the requested false-positive
 * rate, whatever the keys look like, and how many bits does it take?
 *
 * For each combination of options all threads fill a filter and look up keys that were never added.
 * The program fails if the measured rate exceeds 1.1 times the requested one by more than four
 * standard deviations of the measurement, or if a key that was added is missed.  (If the bits
 * beyond the first 2^32 stay unused, the rate shows it.)
 */
#include "create.h"
#include "harness.h"
#include "tamis/tamis.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 256, URL_LENGTH = 100 };

enum key_shape { RANDOM, SEQUENTIAL, URL, KEY_SHAPES };
static const char *const shape_names[] = {"random", "sequential", "url", NULL};

struct job {
  tamis_filter *filter;
  enum key_shape shape;
  uint64_t seed;
  uint64_t first, count; /* the keys first .. first + count - 1 */
  bool add;              /* otherwise look up */
};

/* A URL of 100 bytes.  Those of consecutive numbers mostly differ in one character. */
static void make_url(char url[URL_LENGTH], uint64_t i)
{
  static const char text[] = "https://www.example.org/catalogue/department/articles/listing/"
                             "item-0000000000000000/reviews/overview";
  _Static_assert(sizeof text == URL_LENGTH + 1, "a URL of 100 bytes");
  memcpy(url, text, URL_LENGTH);
  for (char *digit = url + strlen("https://www.example.org/catalogue/department/articles/listing/"
                                  "item-000000000000000");
       i; i >>= 4)
    *digit-- = "0123456789abcdef"[i & 15];
}

/* Adds a batch and returns how many keys were refused, or looks it up and returns how many were
 * found. */
static uint64_t run_batch(const struct job *job, uint64_t first, size_t n)
{
  uint64_t hashes[BATCH];
  static _Thread_local char urls[BATCH][URL_LENGTH];
  tamis_key keys[BATCH];
  for (size_t i = 0; i < n; i++) {
    hashes[i] = job->shape == RANDOM ? random_at(job->seed, first + i) : first + i;
    if (job->shape == URL) {
      make_url(urls[i], first + i);
      keys[i] = (tamis_key){urls[i], URL_LENGTH};
    }
  }
  if (!job->add)
    return job->shape == URL ? tamis_contains_many(job->filter, keys, n, NULL)
                             : tamis_contains_many_hash(job->filter, hashes, n, NULL);
  int result = job->shape == URL ? tamis_add_many(job->filter, keys, n, NULL)
                                 : tamis_add_many_hash(job->filter, hashes, n, NULL);
  return result == TAMIS_OK ? 0 : n;
}

static void work(struct worker *worker)
{
  const struct job *job = worker->arg;
  struct range range = harness_share(worker, job->count);
  for (uint64_t i = range.begin, n; i < range.end; i += n) {
    n = range.end - i < BATCH ? range.end - i : BATCH;
    worker->result += run_batch(job, job->first + i, n);
  }
}

struct settings {
  struct harness_settings shared;
  uint64_t max_probes, capacity;
  double fpp;
  int layout, shape; /* -1: all */
};

static uint64_t run(const struct settings *s, struct job job)
{
  struct worker workers[MAX_THREADS];
  harness_run(s->shared.threads, s->shared.seed, work, &job, workers);
  return harness_results(workers, s->shared.threads);
}

/* As the public layouts are numbered; and a Bloom filter that counts. */
enum { COUNTING = 3, LAYOUTS };
static const char *const layout_names[] = {"blocked", "classic", "word", "counting", NULL};

/* Fills one filter and looks up absent keys in it. */
static bool measure(const struct settings *s, uint64_t capacity, double fpp, int layout,
                    enum key_shape shape)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = capacity;
  options.fpp = fpp;
  if (layout == COUNTING)
    options.kind = TAMIS_COUNTING_BLOOM;
  else
    options.layout = (tamis_layout) layout;
  options.seed = s->shared.seed;
  options.growable = false;
  if (layout >= TAMIS_LAYOUT_WORD && tamis_options_check(&options, NULL, 0) == TAMIS_EUNSUPPORTED)
    return true; /* too low a rate for one word, or for a line of counters */

  tamis_filter *filter = create_filter(&options);
  struct job job = {filter, shape, s->shared.seed, 0, capacity, true};
  uint64_t refused = run(s, job);
  job.add = false;
  uint64_t lost = capacity - run(s, job);
  uint64_t absent_keys = (uint64_t) fmin((double) s->max_probes, fmax(1e6, 400 / fpp));
  job.first = capacity;
  job.count = absent_keys;
  uint64_t hits = run(s, job);

  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(filter, &stats);
  tamis_destroy(filter);

  double bound = 1.1 * fpp * (double) absent_keys;
  bool good = (double) hits <= bound + 4 * sqrt(bound) && lost == 0 && refused == 0;
  double per_key = (double) stats.bits / (double) capacity / (layout == COUNTING ? 4 : 1);
  double textbook = -log(fpp) / (M_LN2 * M_LN2);
  printf("%-8s %-10s %11" PRIu64 " %8g  %9.3g %6.3f  %8.3f %6.3f  %6.3f %s\n", layout_names[layout],
         shape_names[shape], capacity, fpp, (double) hits / (double) absent_keys,
         (double) hits / (double) absent_keys / fpp, per_key, per_key / textbook,
         (double) stats.estimated_count / (double) capacity,
         good      ? ""
         : lost    ? "FALSE NEGATIVES"
         : refused ? "REFUSED"
                   : "RATE");
  fflush(stdout);
  return good;
}

static const double all_rates[] = {0.3, 0.05, 0.01, 0.001, 1e-4, 1e-6};
static const uint64_t all_capacities[] = {1, 10, 1000, 1000000};

static bool measure_selected(const struct settings *s)
{
  bool good = true;
  for (unsigned c = 0; c < sizeof all_capacities / sizeof *all_capacities; c++)
    for (unsigned r = 0; r < sizeof all_rates / sizeof *all_rates; r++)
      for (int layout = 0; layout < LAYOUTS; layout++)
        for (int shape = 0; shape < KEY_SHAPES; shape++) {
          if ((s->layout >= 0 && s->layout != layout) || (s->shape >= 0 && s->shape != shape) ||
              (s->fpp > 0 && r > 0) || (s->capacity && c > 0))
            continue;
          good &= measure(s, s->capacity ? s->capacity : all_capacities[c],
                          s->fpp > 0 ? s->fpp : all_rates[r], layout, (enum key_shape) shape);
        }
  return good;
}

int main(int argc, char **argv)
{
  struct settings s = {.shared.threads = 2, .max_probes = 100000000, .layout = -1, .shape = -1};
  const struct harness_option options[] = {
      {"capacity", 'n', "Number of keys (default: 1, 10, 1000 and 1000000 in turn)",
       .number = &s.capacity},
      {"fpp", 'p', "Requested rate (default: six rates from 0.3 to 1e-6)", .rate = &s.fpp},
      {"layout", 'l', "Layout: blocked, classic, word or counting (default: all)",
       .choice = &s.layout, .choice_names = layout_names},
      {"keys", 'k', "Sort of keys: random, sequential or url (default: all)", .choice = &s.shape,
       .choice_names = shape_names},
      {"probes", 'q', "At most this many absent keys to look up (default: 10^8)",
       .number = &s.max_probes},
      {0}};
  harness_parse("Measures the false-positive rate of full Bloom filters.", options, argc, argv,
                &s.shared);
  printf("%-8s %-10s %11s %8s  %9s %6s  %8s %6s  %6s\n", "layout", "keys", "capacity", "fpp",
         "measured", "/fpp", "bits/key", "/text", "est/n");
  return harness_verdict(&s.shared, measure_selected(&s));
}
