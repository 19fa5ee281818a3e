/* SPDX-License-Identifier: MIT
 *
 * What stress-random knows of periods, in a filter with a window.
 */
#include "random.h"

#include <math.h>

/* ---- while threads make calls ---- */

uint64_t window_call_begins(const struct run *run)
{
  return atomic_load(&run->ended);
}

void window_note_add(struct run *run, uint64_t key, uint64_t began)
{
  raise_to(&run->earliest[key], began);
  raise_to(&run->latest[key], atomic_load(&run->begun));
}

static void advance(struct run *run)
{
  atomic_fetch_add(&run->begun, 1);
  require(run, tamis_advance(run->filter) == TAMIS_OK, "a period does not end", 0);
  atomic_fetch_add(&run->ended, 1);
}

void window_end_period(struct run *run)
{
  if (atomic_fetch_sub(&run->ends_left, 1) > 0)
    advance(run);
}

/* ---- while no thread does ---- */

/* A plain add renews a key.  Of the cuckoo kind it adds a copy, too, for which there may be no
 * memory; then the copies are removed. */
static void renew(struct run *run, uint64_t key)
{
  window_note_add(run, key, window_call_begins(run));
  if (run->configuration.options.window_renews) {
    require(run, note_add(run, call_on_key(run, key, tamis_add_unique)) == TAMIS_PRESENT,
            "a key is not there to be renewed", key);
    return;
  }
  int result = note_add(run, call_on_key(run, key, tamis_add));
  if (is_bloom(run)) {
    require(run, result == TAMIS_OK, "a key that is in cannot be renewed", key);
    return;
  }
  uint64_t surplus = result == TAMIS_OK ? 1 : run->copies[key];
  require(run, result == TAMIS_OK || run->configuration.options.max_bytes,
          "a copy is refused without a limit", key);
  for (uint64_t i = 0; i < surplus; i++)
    require(run, call_on_key(run, key, tamis_remove) == TAMIS_OK, "a copy cannot be removed", key);
  if (result != TAMIS_OK)
    run->copies[key] = 0;
}

void window_renew_all(struct run *run)
{
  for (uint64_t key = 0; key < run->all; key++)
    if (run->copies[key])
      renew(run, key);
}

/* Those of which it is not known in which period they were added. */
static void renew_doubtful(struct run *run)
{
  for (uint64_t key = 0; key < run->all; key++)
    if (run->copies[key] && run->earliest[key] != run->latest[key])
      renew(run, key);
}

struct tally {
  uint64_t forgotten, found;
};

/* What follows from the end of a period for a key that is in. */
static void judge(struct run *run, uint64_t key, struct tally *tally)
{
  unsigned char bytes[LONGEST_KEY];
  uint64_t age = run->ended - run->latest[key], window = run->configuration.options.window;
  if (age < window)
    return;
  bool found =
      tamis_contains(run->filter, bytes, configuration_key(&run->configuration, key, bytes));
  if (age == window) {
    require(run, found, "a key is forgotten in its last period", key);
    return;
  }
  run->copies[key] = 0;
  atomic_store(&run->won[key], 0);
  tally->forgotten++;
  tally->found += found;
}

/* How many keys that are not in are found, but not by a new filter with the keys that are in. */
static uint64_t found_wrongly(const struct run *run)
{
  tamis_options options = run->configuration.options;
  unsigned char bytes[LONGEST_KEY];
  uint64_t wrong = 0;
  options.allocator = NULL;
  tamis_filter *other = create_filter(&options);
  for (uint64_t key = 0; key < run->all; key++)
    if (run->copies[key])
      (void) tamis_add(other, bytes, configuration_key(&run->configuration, key, bytes));
  for (uint64_t key = 0; key < run->all; key++) {
    const size_t len = configuration_key(&run->configuration, key, bytes);
    wrong += !run->copies[key] && tamis_contains(run->filter, bytes, len) &&
             !tamis_contains(other, bytes, len);
  }
  tamis_destroy(other);
  return wrong;
}

void window_end_periods(struct run *run, uint64_t periods)
{
  static const double deviations = 6.5;
  struct tally tally = {0};
  renew_doubtful(run);
  double fpp = run->configuration.options.fpp;
  for (; periods; periods--) {
    advance(run);
    for (uint64_t key = 0; key < run->all; key++)
      if (run->copies[key])
        judge(run, key, &tally);
  }
  /* Others that are still in may be taken for them.  A full filter takes only keys that others
   * hide, and so finds more of them: those that a new filter with the others finds, too. */
  double most = fmin(1, 4 * fpp) * (double) tally.forgotten;
  require(run,
          (double) tally.found <= most + deviations * sqrt(most) + 8 || found_wrongly(run) == 0,
          "forgotten keys are found, far more than the rate allows", tally.found);
}

/* Nothing is refused until there are as many keys as the capacity, or as ever before. */
static void fill_again(struct run *run)
{
  const tamis_options *o = &run->configuration.options;
  uint64_t keys = run->configuration.keys < o->capacity ? run->configuration.keys : o->capacity,
           wins = 0;
  for (uint64_t key = 0; key < keys; key++) {
    int result = note_add(run, call_on_key(run, key, tamis_add_unique));
    require(run, result >= 0, "there is no room for a new window", key);
    wins += result == TAMIS_OK;
  }
  const tamis_stats s = stats_of(run->filter);
  /* So may one that was hidden by a key of an older layer. */
  require(run, s.count == wins || (is_bloom(run) && s.count > wins && s.count <= keys),
          "not each winner is counted", s.count);
}

void window_forget_all(struct run *run)
{
  for (int again = 0; again < 2; again++) {
    window_end_periods(run, run->configuration.options.window + 1);
    for (uint64_t key = 0; key < run->all; key++)
      require(run, !run->copies[key], "a key outlives the window: a bug of this program", key);
    const tamis_stats s = stats_of(run->filter);
    require(run, s.count == 0, "something is left when all is forgotten", s.count);
    if (!again)
      fill_again(run);
  }
}
