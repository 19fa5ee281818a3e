/* SPDX-License-Identifier: MIT */
#include "chain.h"

#include "commands.h"
#include "numbers.h"
#include "options.h"
#include "report.h"

#include <errno.h>
#include <string.h>

/* The keys that the next level has to answer for, and their positions in the batch. */
struct rest {
  uint64_t hashes[BATCH];
  size_t positions[BATCH];
  size_t count;
};

/* The share of a level in the requested rate: 6 / pi^2 / (i + 1)^2.  These sum to 1 over all
 * levels.  (So would halves, but after a dozen levels they lead to rates that 64-bit hashes cannot
 * give.) */
static double share_of_level(unsigned level)
{
  double i = level + 1;
  return 0.6079271 / (i * i);
}

/* Small levels grow by a factor of four, since every level takes time for each new key; large ones
 * by two, since they take memory. */
static uint64_t capacity_of_level(uint64_t first, unsigned level)
{
  uint64_t capacity = first;
  for (unsigned i = 0; i < level && capacity < MAX_CAPACITY; i++)
    capacity *= capacity < (uint64_t) 2 << 20 ? 4 : 2;
  return capacity < MAX_CAPACITY ? capacity : MAX_CAPACITY;
}

/* Whether nothing but a random seed is lacking. */
static bool lacks_seed(const tamis_options *options, int result)
{
  tamis_options with_seed = *options;
  with_seed.seed = 1;
  return result == TAMIS_EUNSUPPORTED && options->seed == 0 &&
         tamis_options_check(options, NULL, 0) == result &&
         tamis_options_check(&with_seed, NULL, 0) == TAMIS_OK;
}

void fail_to_create(const tamis_options *options, int result, unsigned level)
{
  char lines[FIGURE_BYTES];
  double lowest;
  lines_figure(lines, (double) options->capacity);
  if (lacks_seed(options, result))
    fail("cannot get a random seed for a filter: the system call getrandom fails, as in a sandbox "
         "that forbids it; only 'tamis build --seed' does without");
  else if (result == TAMIS_EUNSUPPORTED &&
           tamis_fpp_for(options, UINT64_MAX, &lowest) == TAMIS_OK && options->fpp < lowest)
    fail("a rate of %.2g for %s is lower than a %s filter can give (%.2g)%s", options->fpp, lines,
         kind_name(options->kind), lowest,
         level > 0 ? "; a --capacity from the start may help" : "");
  else if (result == TAMIS_ENOMEM && options->max_bytes > 0)
    fail("cannot allocate a filter within %s: %s", bytes_figure(lines, (double) options->max_bytes),
         tamis_strerror(result));
  else {
    char why[160];
    bool refused = tamis_options_check(options, why, sizeof why) == result;
    fail("cannot create a %s filter for %s at a rate of %.2g: %s", kind_name(options->kind), lines,
         options->fpp, refused ? why : tamis_strerror(result));
  }
}

static tamis_filter *create_level(const struct chain *chain, unsigned level)
{
  tamis_options options = chain->first;
  tamis_filter *filter;
  options.capacity = capacity_of_level(options.capacity, level);
  if (!chain->single)
    options.fpp *= share_of_level(level);
  int result = tamis_create(&options, &filter);
  if (result != TAMIS_OK)
    fail_to_create(&options, result, level);
  return filter; /* NULL after an error */
}

static void init(struct chain *chain, const tamis_options *first, bool single)
{
  for (unsigned i = 0; i < CHAIN_LEVELS; i++)
    atomic_init(&chain->level[i], NULL);
  pthread_mutex_init(&chain->lock, NULL);
  chain->first = *first;
  chain->shared = NULL;
  chain->clock.period = 0;
  chain->ends = false;
  chain->single = single || first->growable || first->max_bytes > 0;
}

bool chain_create(struct chain *chain, const tamis_options *options, bool single)
{
  init(chain, options, single);
  tamis_filter *filter = create_level(chain, 0);
  atomic_store_explicit(&chain->level[0], filter, memory_order_release);
  return filter != NULL;
}

void chain_adopt(struct chain *chain, tamis_filter *filter, const char *shared)
{
  tamis_options first = TAMIS_OPTIONS_INIT;
  tamis_stats stats = TAMIS_STATS_INIT;
  (void) tamis_get_stats(filter, &stats);
  first.kind = stats.kind;
  first.capacity = stats.capacity;
  first.fpp = stats.fpp;
  init(chain, &first, true);
  chain->shared = shared;
  atomic_store_explicit(&chain->level[0], filter, memory_order_release);
}

bool chain_start_clock(struct chain *chain, double period, const char *name, bool quiet)
{
  const tamis_filter *filter = chain_hasher(chain);
  tamis_stats stats = TAMIS_STATS_INIT;
  bool good = clock_begin(&chain->clock, filter, period, chain->shared != NULL, name);
  if (good && !quiet && tamis_get_stats(filter, &stats) == TAMIS_OK &&
      clock_is_behind(&chain->clock, &stats))
    note("'%s': " CLOCK_BEHIND, name);
  return good;
}

/* A decimal number of periods may be a little more than their product. */
bool chain_limit_lives(struct chain *chain, double seconds, const char *name)
{
  const double little = 1 + 1e-12, period = chain->clock.period;
  tamis_stats stats = TAMIS_STATS_INIT;
  (void) tamis_get_stats(chain_hasher(chain), &stats);
  chain->ends = true;
  chain->periods = 0;
  while (chain->periods < stats.parts && chain->periods * period * little < seconds)
    chain->periods++;
  if (period > 0 && chain->periods < stats.parts)
    return true;
  set_failure_status(EXIT_UNUSABLE);
  if (period > 0)
    fail("--ttl: a window of %u period%s of %g second%s is shorter", stats.parts - 1,
         stats.parts == 2 ? "" : "s", period, period == 1 ? "" : "s");
  else
    fail("'%s' has no window, so it has no --ttl", name);
  return false;
}

/* ORDER chain.level.load (acquire)
 *   pairs with     chain.level.publish (release) in get_or_create_level()
 *   makes visible  the filter that tamis_create filled in
 *   if weakened    a thread uses a filter whose fields are not set yet */
static tamis_filter *level_at(const struct chain *chain, unsigned level)
{
  if (level == CHAIN_LEVELS)
    return NULL;
  return atomic_load_explicit(&chain->level[level], memory_order_acquire);
}

void chain_destroy(struct chain *chain)
{
  for (unsigned i = 0; i < CHAIN_LEVELS; i++)
    tamis_destroy(level_at(chain, i));
  pthread_mutex_destroy(&chain->lock);
}

const tamis_filter *chain_hasher(const struct chain *chain)
{
  return level_at(chain, 0);
}

static tamis_filter *get_or_create_level(struct chain *chain, unsigned level)
{
  tamis_filter *filter = level_at(chain, level);
  if (filter != NULL)
    return filter;
  if (level == CHAIN_LEVELS) {
    fail("more distinct lines than %d filters can hold", CHAIN_LEVELS);
    return NULL;
  }
  pthread_mutex_lock(&chain->lock);
  filter = level_at(chain, level); /* another thread may have created it meanwhile */
  if (filter == NULL) {
    filter = create_level(chain, level);
    /* ORDER chain.level.publish (release)
     *   pairs with     chain.level.load (acquire) in level_at()
     *   makes visible  the filter that tamis_create filled in
     *   if weakened    a thread uses a filter whose fields are not set yet */
    atomic_store_explicit(&chain->level[level], filter, memory_order_release);
  }
  pthread_mutex_unlock(&chain->lock);
  return filter;
}

static void fail_to_add(const struct chain *chain, int result)
{
  char lines[FIGURE_BYTES];
  tamis_stats stats = TAMIS_STATS_INIT;
  (void) tamis_get_stats(chain_hasher(chain), &stats);
  if (result == TAMIS_EFULL && clock_is_behind(&chain->clock, &stats))
    fail("'%s' is full: " CLOCK_BEHIND, chain->shared);
  else if (result == TAMIS_EFULL && chain->shared != NULL)
    fail("'%s' is full; begin another shared filter with a larger --capacity or --memory",
         chain->shared);
  else if (result == TAMIS_EFULL)
    fail("more distinct lines than fit into a %s filter made for %s at a rate of %.2g; "
         "use --capacity to plan for them",
         kind_name(chain->first.kind), lines_figure(lines, (double) chain->first.capacity),
         chain->first.fpp);
  else if (result == TAMIS_EIO)
    fail("cannot write '%s': %s", chain->shared, strerror(errno));
  else
    fail("cannot add a line to the filter: %s", tamis_strerror(result));
}

/* Passes the key at `position` in the batch on to the next level if this one was full. */
static void pass_on_if_full(const struct chain *chain, struct rest *rest, uint64_t hash,
                            size_t position, int result)
{
  if (result >= 0)
    return;
  if (result != TAMIS_EFULL || chain->single) {
    fail_to_add(chain, result);
    return;
  }
  rest->hashes[rest->count] = hash;
  rest->positions[rest->count++] = position;
}

static int add_to_first(const struct chain *chain, chain_add_call *add, const uint64_t *hashes,
                        size_t n, int *results)
{
  tamis_filter *filter = level_at(chain, 0);
  return chain->ends ? tamis_add_unique_for_many_hash(filter, hashes, n, chain->periods, results)
                     : add(filter, hashes, n, results);
}

void chain_add(struct chain *chain, chain_add_call *add, const uint64_t *hashes, size_t n,
               int *results)
{
  clock_end_periods(&chain->clock, level_at(chain, 0));
  if (add_to_first(chain, add, hashes, n, results) == TAMIS_OK)
    return;

  struct rest rest;
  rest.count = 0;
  for (size_t i = 0; i < n; i++)
    pass_on_if_full(chain, &rest, hashes[i], i, results[i]);
  for (unsigned level = 1; rest.count > 0; level++) {
    tamis_filter *filter = get_or_create_level(chain, level);
    if (filter == NULL)
      return;
    int answers[BATCH];
    size_t asked = rest.count;
    add(filter, rest.hashes, asked, answers);
    rest.count = 0; /* refilled in place: a key never moves to an index that is still to be read */
    for (size_t i = 0; i < asked; i++) {
      results[rest.positions[i]] = answers[i];
      pass_on_if_full(chain, &rest, rest.hashes[i], rest.positions[i], answers[i]);
    }
  }
}

bool chain_add_lines(struct chain *chain, const uint64_t *hashes, size_t n)
{
  int results[BATCH];
  chain_add(chain,
            chain->first.kind == TAMIS_CUCKOO ? tamis_add_unique_many_hash : tamis_add_many_hash,
            hashes, n, results);
  return !failed();
}

static void pass_on_if_absent(struct rest *rest, uint64_t hash, size_t position, bool found)
{
  if (found)
    return;
  rest->hashes[rest->count] = hash;
  rest->positions[rest->count++] = position;
}

size_t chain_contains(const struct chain *chain, const uint64_t *hashes, size_t n, bool *found)
{
  size_t total = tamis_contains_many_hash(level_at(chain, 0), hashes, n, found);
  if (total == n || level_at(chain, 1) == NULL)
    return total;

  struct rest rest;
  rest.count = 0;
  for (size_t i = 0; i < n; i++)
    pass_on_if_absent(&rest, hashes[i], i, found[i]);
  const tamis_filter *filter;
  for (unsigned level = 1; rest.count > 0 && (filter = level_at(chain, level)) != NULL; level++) {
    bool answers[BATCH];
    size_t asked = rest.count;
    total += tamis_contains_many_hash(filter, rest.hashes, asked, answers);
    rest.count = 0;
    for (size_t i = 0; i < asked; i++) {
      found[rest.positions[i]] = answers[i];
      pass_on_if_absent(&rest, rest.hashes[i], rest.positions[i], answers[i]);
    }
  }
  return total;
}

struct chain_figures chain_get_figures(const struct chain *chain)
{
  struct chain_figures figures = {0};
  double none_claims = 1; /* the probability that no level claims to hold an absent key */
  const tamis_filter *filter;
  while ((filter = level_at(chain, figures.levels)) != NULL) {
    tamis_stats stats = TAMIS_STATS_INIT;
    if (tamis_get_stats(filter, &stats) != TAMIS_OK)
      break;
    if (figures.levels == 0)
      figures.load = stats.load;
    figures.bytes += stats.bytes;
    figures.growths += stats.growths;
    none_claims *= 1 - stats.fpp_estimate;
    figures.levels++;
  }
  figures.fpp = 1 - none_claims;
  return figures;
}
