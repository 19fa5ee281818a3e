/* SPDX-License-Identifier: MIT
 *
 * Question: does every guarantee hold in every configuration?
 *
 * Each round draws a configuration from everything that is legal (configuration.h), creates the
 * filter, and uses it in phases (random.h).  The threads judge each answer, and between the phases
 * all that must hold at rest is checked:
 *
 *    A  a key that is in is found          E  growth, and max_bytes at every moment
 *    B  one winner                         F  copies are counted exactly and all removed
 *    C  a refused call changes nothing,    H  memory comes back, by its size and alignment, and is
 *       none is refused too early             overwritten, so that a late reader misses its key
 *    J  what a window has forgotten is gone, and comes back as new
 *
 * Each figure of tamis_stats is judged (random_figures.c).  (unit/test_planning.c has measured rates,
 * unit/test_full_filters.c the reasons of refusals, and unit/test_batches.c what batches return.)
 *
 * The configuration of round K follows from the seed and K.  A failed one can be replayed by
 * itself, with --seed and --only.
 *
 * stress-random-hooked is the same program with a library whose threads pause now and then between
 * the steps of a call.
 */
#include "random.h"

#include "pauses.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAUSE_PERIOD = 40, ONE_LONG_IN = 32, MAX_LINES = 8, MOST_CONTESTED = 2000 };

struct settings {
  struct harness_settings shared;
  uint64_t keys, megabytes, only;
};

void run_wrong(struct run *run, const char *what, uint64_t key)
{
  if (atomic_fetch_add(&run->wrong, 1) < MAX_LINES)
    fprintf(stderr, "configuration %" PRIu64 ": %s (%" PRIu64 ")\n", run->number, what, key);
}

static uint64_t at_most(uint64_t n, uint64_t most)
{
  return n < most ? n : most;
}

static void prepare(struct run *run, const struct settings *s, uint64_t number)
{
  const struct configuration_limits limits = {
      .bytes = s->megabytes << 20, .keys = s->keys, .threads = s->shared.threads};
  memset(run, 0, sizeof *run);
  run->number = number;
  run->configuration = configuration_draw(random_at(s->shared.seed, number), &limits);
  const struct configuration *c = &run->configuration;
  uint64_t random = c->seed;
  run->contested = at_most(c->keys * (random_next(&random) % 3) / 4, MOST_CONTESTED);
  run->all = c->keys;
  if (!c->options.growable || c->options.max_bytes) /* something to be refused */
    run->all += 64 + at_most(c->keys / 2, MOST_CONTESTED);
  run->most_copies = 1 + (unsigned) (random_next(&random) % 4 ? random_next(&random) % 6 : 300);
  if (c->options.kind == TAMIS_COUNTING_BLOOM && run->most_copies > 2)
    run->most_copies = 2;
  run->ledger.seed = random_next(&random);
  run->ledger.odds = 2 + random_next(&random) % 8;
  run->ledger.yields = random_next(&random) % 2;
  run->copies = harness_zeroes(run->all, sizeof *run->copies);
  run->won = harness_zeroes(run->all, sizeof *run->won);
  run->refused = harness_zeroes(run->all, sizeof *run->refused);
  run->earliest = harness_zeroes(run->all, sizeof *run->earliest);
  run->latest = harness_zeroes(run->all, sizeof *run->latest);
}

/* Between two phases: as many periods end as may, at most. */
static void let_periods_end(struct run *run, uint64_t most)
{
  if (!has_window(run))
    return;
  window_end_periods(run, random_at(run->configuration.seed, run->phase) % (most + 1));
  check_at_rest(run);
  window_renew_all(run);
}

static void play(struct run *run)
{
  const struct configuration *c = &run->configuration;
  bool removes = c->options.kind != TAMIS_BLOOM;
  create_and_check(run);
  run_phase(run, FILL);
  check_at_rest(run);
  if (run->all > c->keys) {
    let_periods_end(run, 0);
    run_phase(run, BRINK);
    check_at_rest(run);
  }
  let_periods_end(run, c->options.window + 1);
  run_phase(run, MIX);
  check_at_rest(run);
  let_periods_end(run, c->options.window + 1);
  if (removes) {
    run_phase(run, DRAIN);
    check_at_rest(run);
  }
  if (has_window(run))
    window_forget_all(run);
  if (removes || has_window(run))
    check_empty(run);
  tamis_destroy(run->filter);
  if (!ledger_is_even(&run->ledger))
    run_wrong(run, "memory is left after tamis_destroy", run->ledger.bytes);
}

static bool run_round(const struct settings *s, uint64_t number)
{
  static struct run run;
  prepare(&run, s, number);
  play(&run);
  if (run.wrong) {
    configuration_print(&run.configuration);
    printf("this configuration alone: --seed %" PRIu64 " --only %" PRIu64 "\n", s->shared.seed,
           number);
  }
  free(run.copies);
  free((void *) run.won);
  free((void *) run.refused);
  free((void *) run.earliest);
  free((void *) run.latest);
  return run.wrong == 0;
}

int main(int argc, char **argv)
{
  struct settings s = {
      .keys = 60000, .megabytes = 32, .only = UINT64_MAX, .shared = {.threads = 16, .rounds = 100}};
  const struct harness_option options[] = {
      {"keys", "Keys in a filter at most (default: 60000)", .number = &s.keys, .least = 64},
      {"memory", "MiB of a filter at most (default: 32)", .number = &s.megabytes, .least = 1},
      {"only", "Number of the one configuration to be tried", .number = &s.only},
      {0}};
  harness_parse("Checks random configurations, with at most --threads threads, for wrong answers.",
                options, argc, argv, &s.shared);
  pauses_install(PAUSE_PERIOD, ONE_LONG_IN);
  bool good = true;
  uint64_t round = 0;
  if (s.only != UINT64_MAX)
    good = run_round(&s, s.only);
  else
    for (; harness_more(&s.shared, round); round++)
      good &= run_round(&s, round);
  printf("%" PRIu64 " configurations\n", s.only != UINT64_MAX ? 1 : round);
  return harness_verdict(&s.shared, good);
}
