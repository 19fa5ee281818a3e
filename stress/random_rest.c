/* SPDX-License-Identifier: MIT
 *
 * What stress-random checks while no thread makes calls.
 *
 * Statistical bounds are wide enough that a correct library fails one of them about once in 10^9
 * times: six and a half standard deviations.
 */
#include "random.h"
#include "validate.h"

#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

static const double deviations = 6.5;

void require(struct run *run, bool good, const char *what, uint64_t value)
{
  if (!good)
    run_wrong(run, what, value);
}

int note_add(struct run *run, int result)
{
  atomic_fetch_add(&run->adds, 1);
  atomic_fetch_add(&run->refusals, result == TAMIS_EFULL || result == TAMIS_ENOMEM);
  return result;
}

/* ---- creation ---- */

/* While memory is refused by chance, a filter is created or nothing is kept. */
static bool try_to_create(struct run *run, const tamis_options *o)
{
  run->filter = NULL;
  atomic_store(&run->ledger.armed, true);
  int result = tamis_create(o, &run->filter);
  atomic_store(&run->ledger.armed, false);
  if (result == TAMIS_OK)
    return true;
  require(run, result == TAMIS_ENOMEM && !run->filter, "refused memory is not TAMIS_ENOMEM", 0);
  require(run, ledger_is_even(&run->ledger), "a failed creation keeps memory", 0);
  return false;
}

void create_and_check(struct run *run)
{
  struct configuration *c = &run->configuration;
  tamis_options o = c->options;
  tamis_allocator allocator = ledger_allocator(&run->ledger);
  if (c->memory != SYSTEM_MEMORY)
    o.allocator = &allocator;
  uint64_t needed = 0;
  require(run, tamis_bytes_for(&o, &needed) == TAMIS_OK, "no size is known", 0);
  if (o.max_bytes && o.max_bytes < needed) /* drawn without the allocator, which takes some bytes */
    o.max_bytes = c->options.max_bytes = needed;
  run->needed = needed;
  run->created = harness_nanoseconds();
  run->ledger.limit = o.max_bytes;
  if (c->memory != FAILING_MEMORY || !try_to_create(run, &o)) {
    int result = tamis_create(&o, &run->filter);
    if (result != TAMIS_OK)
      error(2, 0, "configuration %" PRIu64 ": cannot create a filter: %s", run->number,
            tamis_strerror(result));
  }
  tamis_stats s = stats_of(run->filter);
  require(run, s.kind != TAMIS_CUCKOO ? s.bytes == needed : s.bytes <= needed,
          "a new filter has another size than was said", s.bytes);
  require(run, s.count == 0 && s.growths == 0 && s.load == 0 && s.fpp_estimate == 0,
          "a new filter is not empty", s.count);
  if (keeps_all(run))
    require(run, s.layout == o.layout, "another layout than asked for", s.layout);
}

/* ---- counts ---- */

static uint64_t copies_in(const struct run *run)
{
  uint64_t copies = 0;
  for (uint64_t key = 0; key < run->all; key++)
    copies += run->copies[key];
  return copies;
}

/* A Bloom filter does not count keys that a false positive hid when they were added.  Each had its
 * chance at the rate of the filter at the time, which is at most that of the filter now.  (The rate
 * changes from filter to filter; the bound is wide.)  In a race another thread's add may hide a
 * key, too. */
static double most_hidden(const struct run *run, double in, double rate)
{
  double mean = 2 * rate * in + 16 * (double) run->configuration.threads;
  return mean + deviations * sqrt(mean);
}

/* Once something has been forgotten, copies of a forgotten key may be counted that the filter takes
 * for one of another key, and entries that renew for another key's sake.  The layers in which a key was
 * hidden may have left, so the rate of today says nothing: it was at most the promised one. */
static void check_count_in_window(struct run *run, const tamis_stats *s, uint64_t in)
{
  double hidden = most_hidden(run, (double) run->all, s->fpp);
  if (is_bloom(run)) {
    /* A key of an older layer that is added goes to the newest one, too. */
    require(run, (double) s->count <= (double) in * s->layers + hidden,
            "more keys are counted than are in", s->count);
    require(run, (double) s->count + hidden >= (double) in, "keys are not counted", s->count);
  } else {
    require(run, s->count >= in, "copies are not counted", s->count);
    require(run, s->count == in || atomic_load(&run->ended) > run->configuration.options.window,
            "the count is not exact", s->count);
  }
}

static void check_count(struct run *run)
{
  const tamis_options *o = &run->configuration.options;
  tamis_stats s = stats_of(run->filter);
  uint64_t in = copies_in(run);
  if (has_window(run)) {
    check_count_in_window(run, &s, in);
    return;
  }
  if (!is_bloom(run)) {
    require(run, s.count == in, "the count is not exact", s.count);
    return;
  }
  uint64_t most = in;
  if (o->growable) /* a key may be added to two layers while the later one is opened */
    most += run->configuration.threads * (s.layers - 1);
  if (!o->growable && o->capacity + 64 * run->configuration.threads < most)
    most = o->capacity + 64 * run->configuration.threads;
  require(run, s.count <= most, "more keys are counted than were let in", s.count);
  /* Keys that were refused had their chance to be hidden, too. */
  double offered = (double) (s.refused_adds ? run->all : in);
  require(run, (double) s.count + most_hidden(run, offered, s.fpp_estimate) >= (double) in,
          "keys are not counted", s.count);
}

/* The validation of Bloom filters takes it for granted that each key that has set bits is counted.
 * One that sets bits while another key's add sets the last that it lacks is not. */
static void check_structure(struct run *run)
{
  const char *reason = NULL;
  bool races = keeps_all(run) && run->configuration.threads > 1;
  if (!races && !filter_validate(run->filter, &reason))
    run_wrong(run, reason, 0);
}

static void check_figures(struct run *run)
{
  const tamis_options *o = &run->configuration.options;
  tamis_stats s = stats_of(run->filter);
  require(run, !o->max_bytes || s.bytes <= o->max_bytes, "more bytes than max_bytes", s.bytes);
  const char *ledger = atomic_load(&run->ledger.wrong);
  require(run, !ledger, ledger, atomic_load(&run->ledger.most_bytes));
  check_structure(run);
  check_each_figure(run);
}

/* ---- keys ---- */

/* Copies are counted, at least those that were added. */
static void look_for_all(struct run *run)
{
  const uint64_t most = is_bloom(run) ? 1 : stats_of(run->filter).count;
  unsigned char bytes[LONGEST_KEY];
  for (uint64_t key = 0; key < run->all; key++) {
    const size_t len = configuration_key(&run->configuration, key, bytes);
    const uint64_t count = tamis_count(run->filter, bytes, len);
    require(run, tamis_contains(run->filter, bytes, len) || !run->copies[key],
            "a key is missing at rest", key);
    require(run, count >= run->copies[key], "a copy is not counted at rest", key);
    require(run, count <= most, "more copies are counted than there are", key);
  }
}

/* ---- calls that change nothing ---- */

int call_on_key(struct run *run, uint64_t key,
                int call(tamis_filter *f, const void *key, size_t len))
{
  unsigned char bytes[LONGEST_KEY];
  return call(run->filter, bytes, configuration_key(&run->configuration, key, bytes));
}

static void check_calls_without_effect(struct run *run)
{
  tamis_stats before = stats_of(run->filter);
  for (uint64_t key = 0; key < run->all && key < 1000; key++)
    if (run->copies[key]) {
      if (is_bloom(run) || run->configuration.options.window_renews)
        window_note_add(run, key, window_call_begins(run));
      require(run, note_add(run, call_on_key(run, key, tamis_add_unique)) == TAMIS_PRESENT,
              "add_unique does not find a key", key);
      require(run, !is_bloom(run) || note_add(run, call_on_key(run, key, tamis_add)) == TAMIS_OK,
              "a Bloom filter refuses a key that is in", key);
    }
  tamis_stats after = stats_of(run->filter);
  /* A key of an older layer goes to the newest one of a Bloom window, too. */
  bool twice = is_bloom(run) && has_window(run) && after.layers > 1;
  require(run, (twice || before.count == after.count) && before.bits_set == after.bits_set,
          "a call without effect has changed the filter", after.count);
}

void check_at_rest(struct run *run)
{
  check_figures(run);
  check_count(run);
  look_for_all(run);
  check_calls_without_effect(run);
}

/* ---- removes ---- */

/* What threads competed for is removed here, the rest was. */
static void remove_rest(struct run *run)
{
  for (uint64_t key = 0; key < run->all; key++)
    for (; run->copies[key]; run->copies[key]--)
      require(run, call_on_key(run, key, tamis_remove) == TAMIS_OK, "a key cannot be removed", key);
}

/* What waits for readers is released soon.  A later generation keeps the words of its roots, and a few
 * empty segments stay. */
static void check_memory_comes_back(struct run *run)
{
  enum { LATER = 4 << 10, FEW = 8 << 10, MOST_SECONDS = 30 };
  double end = harness_seconds() + MOST_SECONDS;
  tamis_stats s = stats_of(run->filter);
  uint64_t most = 2 * run->needed + FEW + LATER * (uint64_t) (s.generations - 1);
  for (; s.bytes > most && harness_seconds() < end; s = stats_of(run->filter))
    usleep(1000);
  require(run, s.bytes <= most, "an empty filter keeps its memory", s.bytes);
}

void check_empty(struct run *run)
{
  remove_rest(run);
  tamis_stats s = stats_of(run->filter);
  require(run, s.count == 0 && s.occupancy == 0, "an empty filter holds keys", s.count);
  unsigned char bytes[LONGEST_KEY];
  for (uint64_t key = 0; key < run->all; key++) {
    size_t len = configuration_key(&run->configuration, key, bytes);
    require(run, !tamis_contains(run->filter, bytes, len), "an empty filter finds a key", key);
  }
  check_structure(run);
  if (run->configuration.options.growable && !has_window(run))
    check_memory_comes_back(run);
}
