/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include "estimate.h"
#include "numbers.h"
#include "report.h"

#include <inttypes.h>

/* How many times lower the rate of the denser form must be to make up for its drawbacks: the
 * classic layout reads a dozen cache lines for a key instead of one or a few, and a cuckoo filter
 * that does not grow fails when it is full. */
#define DENSER_MIN_GAIN 1.25

/* At this rate one of a hundred million lines is wrong on average.  A lower rate is not worth its
 * memory. */
#define MIN_FPP 1e-8

/* The rate of a Bloom filter that is full of an unknown number of lines.  With half as many, the
 * rate is below 1e-6; with twice as many, it is at most three times that of a filter planned for
 * them. */
#define UNKNOWN_BLOOM_FPP 1e-4

uint64_t capacity_for(const tamis_options *filter, uint64_t memory)
{
  tamis_options options = *filter;
  uint64_t low = 0, high = MAX_CAPACITY, bytes;
  while (low < high) {
    options.capacity = low + (high - low + 1) / 2;
    if (tamis_bytes_for(&options, &bytes) == TAMIS_OK && bytes <= memory)
      low = options.capacity;
    else
      high = options.capacity - 1;
  }
  return low;
}

uint64_t least_memory(const tamis_options *filter)
{
  uint64_t low = 1, high = UINT64_C(1) << 50;
  double rate;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (tamis_fpp_for(filter, middle, &rate) == TAMIS_OK)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

static bool cannot_put(const tamis_options *filter, const char *lines,
                       const struct shared_options *options, uint64_t enough)
{
  char size[FIGURE_BYTES];
  fail("cannot put %s into a %s filter of %s; --memory %" PRIu64 " is enough", lines,
       kind_name(filter->kind), bytes_figure(size, (double) options->memory),
       enough * options->filters);
  return false;
}

static tamis_layout densest_layout(const tamis_options *filter)
{
  return filter->kind == TAMIS_BLOOM ? TAMIS_LAYOUT_CLASSIC : TAMIS_LAYOUT_BLOCKED;
}

/* Sets the form of the filter, and the rate that `memory` allows it.  Each kind has a preferred
 * form: the blocked layout, which is faster, or a cuckoo filter that leaves half of the memory for
 * growth.  If that does not reach the wanted rate, the denser form is used where it is worth it:
 * the classic layout, or a cuckoo filter that does not grow.  False after fail(). */
static bool rate_for_memory(tamis_options *filter, const struct shared_options *options,
                            double wanted, double *rate)
{
  const uint64_t memory = options->memory;
  bool cuckoo = filter->kind == TAMIS_CUCKOO;
  int result = tamis_fpp_for(filter, cuckoo ? memory / 2 : memory, rate);
  if (result == TAMIS_OK && (*rate <= wanted || filter->kind == TAMIS_COUNTING_BLOOM))
    return true;

  tamis_options denser = *filter;
  double denser_rate;
  denser.growable = !cuckoo;
  denser.layout = densest_layout(filter);
  int denser_result = tamis_fpp_for(&denser, memory, &denser_rate);
  if (denser_result == TAMIS_OK && (result != TAMIS_OK || denser_rate * DENSER_MIN_GAIN < *rate)) {
    *filter = denser;
    *rate = denser_rate;
    result = TAMIS_OK;
  }
  if (result == TAMIS_OK)
    return true;
  char lines[FIGURE_BYTES];
  lines_figure(lines, (double) filter->capacity);
  uint64_t enough = least_memory(filter) * (cuckoo ? 2 : 1), of_denser = least_memory(&denser);
  return cannot_put(filter, lines, options, of_denser < enough ? of_denser : enough);
}

/* For a number of lines that is known or estimated; there are at most `most`. */
static bool plan_known(struct plan *plan, const struct shared_options *options, uint64_t most)
{
  tamis_options *filter = &plan->filter;
  const double asked = options->fpp;
  double rate;
  filter->growable = true; /* as far as the memory goes; a counting Bloom filter's rate rises */
  if (!rate_for_memory(filter, options, asked > 0 ? asked : default_fpp(options), &rate))
    return false;
  plan->holds = asked == 0 || rate <= asked;
  filter->fpp = asked > 0 && plan->holds ? asked : rate > MIN_FPP ? rate : MIN_FPP;
  /* At MIN_FPP a key may have another number of lines, and take more memory. */
  uint64_t bytes;
  if (tamis_bytes_for(filter, &bytes) == TAMIS_OK && bytes > options->memory)
    filter->layout = densest_layout(filter);
  if (filter->kind == TAMIS_CUCKOO)
    return true;
  /* Memory that is left over is used where the estimate may be too low. */
  uint64_t fitting = most > filter->capacity ? capacity_for(filter, options->memory) : 0;
  if (fitting > filter->capacity)
    filter->capacity = fitting < most ? fitting : most;
  return true;
}

/* The classic layout and the cuckoo filter that does not grow hold the most lines. */
static bool plan_unknown(struct plan *plan, const struct shared_options *options)
{
  tamis_options *filter = &plan->filter;
  uint64_t bytes;
  filter->growable = filter->kind != TAMIS_CUCKOO;
  filter->layout = densest_layout(filter);
  if (options->fpp == 0 && filter->kind != TAMIS_CUCKOO)
    filter->fpp = UNKNOWN_BLOOM_FPP;
  filter->capacity = capacity_for(filter, options->memory);
  plan->holds = true;
  if (filter->capacity > 0)
    return true;
  filter->capacity = 1;
  if (tamis_bytes_for(filter, &bytes) == TAMIS_OK)
    return cannot_put(filter, "any line", options, bytes);
  return true; /* chain_create says what is wrong with the rate */
}

bool plan_make(struct plan *plan, const struct shared_options *options, const struct input *inputs,
               size_t count)
{
  *plan = (struct plan){.filter = shared_filter(options)};
  bool unknown = options->memory > 0 && options->capacity == 0 && !inputs_sized(inputs, count);
  uint64_t most = options->capacity;
  plan->filter.max_bytes = options->memory;
  if (unknown)
    return plan_unknown(plan, options);
  plan->lines = options->capacity > 0 ? options->capacity
                                      : estimate_distinct(inputs, count, &options->keys, &most);
  plan->filter.capacity = plan->lines;
  return options->memory == 0 || plan_known(plan, options, most);
}

void plan_announce(const struct plan *plan, const struct shared_options *options)
{
  const tamis_options *filter = &plan->filter;
  char size[FIGURE_BYTES], lines[FIGURE_BYTES], part[FIGURE_BYTES];
  char taken[FIGURE_BYTES + sizeof ", which take  of it"] = "";
  uint64_t bytes;
  if (options->memory == 0 || options->quiet)
    return;
  bytes_figure(size, (double) options->memory);
  lines_figure(lines, (double) (plan->lines > 0 ? plan->lines : filter->capacity));
  if (tamis_bytes_for(filter, &bytes) == TAMIS_OK && bytes < options->memory / 10 * 9)
    snprintf(taken, sizeof taken, ", which take %s of it", bytes_figure(part, (double) bytes));
  if (plan->lines == 0)
    note("%s for up to %s%s: a false-positive rate of at most %.2g; more lines %s", size, lines,
         taken, filter->fpp, filter->kind == TAMIS_COUNTING_BLOOM ? "raise it" : "are an error");
  else if (plan->holds)
    note("%s for %s%s%s: a false-positive rate of %.2g", size,
         options->capacity > 0 ? "" : "about ", lines, taken, filter->fpp);
  else
    note("%s cannot hold %s%s at a rate of %.2g; it buys %.2g", size,
         options->capacity > 0 ? "" : "about ", lines, options->fpp, filter->fpp);
}

void plan_note_load(const struct plan *plan, const struct chain_figures *figures, const char *lines)
{
  const tamis_options *filter = &plan->filter;
  const bool takes_more = filter->growable || filter->kind == TAMIS_COUNTING_BLOOM;
  if (filter->kind != TAMIS_CUCKOO && takes_more && figures->fpp > 1.02 * filter->fpp)
    note("there were %s%.1f times the %s planned for, so the rate rose from %.2g to %.2g; %s",
         figures->fpp > 0.5 ? "over " : "", figures->load, lines, filter->fpp, figures->fpp,
         plan->lines > 0 ? "use --capacity to plan for them" : "use a larger --memory");
}
