/* SPDX-License-Identifier: MIT
 *
 * The sample is a number of blocks, spread over all files as if these were one.  It yields
 *   density  lines per byte, from which the number of all lines follows
 *   local    distinct lines of each block, summed up: without repeats nearby (a sorted file)
 *   global   distinct lines of all blocks together: also without repeats far apart (a log)
 * A sample of s lines drawn from D equally frequent ones has D (1 - exp(-s/D)) distinct ones on
 * average.  Solved for D with s = local, this is a lower bound, since rare lines are not in the
 * sample where frequencies differ.  An upper bound is all lines without the repeats nearby.  The
 * result is the geometric mean of both bounds, which is closer to the truth than the worse one.
 * Where keys are not whole lines, a line without a key does not count.
 */
#include "estimate.h"

#include <tamis/tamis.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  BLOCKS = 64,
  BLOCK_BYTES = 64 << 10,
  BLOCK_LINES = 1500,      /* the most lines of a block: adding them takes the time */
  UNSIZED_LINES = 1000000, /* for an input of unknown size */
  MARGIN_LINES = 1000
};

struct sample {
  double density; /* the sum over the blocks that hold a whole line */
  uint64_t dense_blocks;
  uint64_t lines;
  uint64_t local;
  uint64_t global;
  uint64_t blocks;
  tamis_filter *seen_local;
  tamis_filter *seen_global;
  struct key_finder finder;
};

static tamis_filter *sample_filter(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  tamis_filter *filter;
  options.capacity = BLOCKS * BLOCK_LINES;
  options.fpp = 1e-3;
  return tamis_create(&options, &filter) == TAMIS_OK ? filter : NULL;
}

/* For the local count, the number of the block is part of the key, so that blocks share no
 * lines. */
static bool count_key(void *context, const char *line, size_t size)
{
  struct sample *sample = context;
  uint64_t hash = tamis_hash(sample->seen_global, line, size);
  uint64_t hash_here = hash ^ sample->blocks * 0x9e3779b97f4a7c15;
  sample->lines++;
  if (tamis_add_unique_hash(sample->seen_local, hash_here) == TAMIS_OK)
    sample->local++;
  if (tamis_add_unique_hash(sample->seen_global, hash) == TAMIS_OK)
    sample->global++;
  return true;
}

/* Counts the first whole lines of a block, which begins within a line except at the start of a
 * file. */
static void count_block(struct sample *sample, char *data, size_t length, bool at_start)
{
  char *end = data + length, *newline;
  sample->blocks++;
  if (!at_start) {
    newline = memchr(data, '\n', length);
    data = newline == NULL ? end : newline + 1;
  }
  const char *first = data;
  uint64_t before = sample->lines;
  int lines = 0;
  for (; lines < BLOCK_LINES; lines++) {
    newline = memchr(data, '\n', (size_t) (end - data));
    if (newline == NULL)
      break;
    key_finder_each(&sample->finder, data, (size_t) (newline - data), count_key, sample);
    data = newline + 1;
  }
  if (lines == 0)
    return;
  sample->density += (double) (sample->lines - before) / (double) (data - first);
  sample->dense_blocks++;
}

/* The start of block i: a random position in its part of the files, so that two similar files are
 * not sampled at the same positions.  If the sample is the whole input, the blocks are adjacent. */
static uint64_t block_start(uint64_t i, uint64_t distance)
{
  uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15;
  return i * distance + (mixed >> 32) % (distance - BLOCK_BYTES + 1);
}

/* Ignores errors, which the pass over the input reports. */
static void sample_at(struct sample *sample, const struct input *input, uint64_t at, char *buffer)
{
  int fd = input_open(input);
  if (fd < 0)
    return;
  ssize_t got = pread(fd, buffer, BLOCK_BYTES, (off_t) (input->start + at));
  if (got > 0)
    count_block(sample, buffer, (size_t) got, at == 0);
  input_close(input, fd);
}

static void sample_all(struct sample *sample, const struct input *input, uint64_t bytes,
                       char *buffer)
{
  uint64_t distance = bytes / BLOCKS < BLOCK_BYTES ? BLOCK_BYTES : bytes / BLOCKS;
  uint64_t behind = 0; /* bytes of the files before *input */
  for (uint64_t i = 0; i < BLOCKS; i++) {
    uint64_t at = block_start(i, distance);
    if (at >= bytes)
      return;
    while (at - behind >= input->bytes)
      behind += input++->bytes;
    sample_at(sample, input, at - behind, buffer);
  }
}

/* D with D (1 - exp(-drawn / D)) = distinct, by bisection; `most` if that is no smaller. */
static double solve_distinct(double drawn, double distinct, double most)
{
  double low = distinct, high = most;
  if (-expm1(-drawn / high) * high <= distinct)
    return most;
  for (int step = 0; step < 60; step++) {
    double middle = (low + high) / 2;
    if (-expm1(-drawn / middle) * middle < distinct)
      low = middle;
    else
      high = middle;
  }
  return high;
}

static double distinct_in(const struct sample *sample, uint64_t bytes, double *upper)
{
  *upper = 1;
  if (sample->lines == 0)
    return 1; /* the lines are so long that none ended in the sample */
  double all = (double) bytes * sample->density / (double) sample->dense_blocks;
  *upper = all;
  if (sample->local == 0 || sample->global == 0)
    return all; /* the filters could not allocate memory */
  double most = all * (double) sample->local / (double) sample->lines;
  *upper = most;
  double estimate =
      sqrt(most * solve_distinct((double) sample->local, (double) sample->global, most));
  /* Half as much again, since a low estimate costs more than a high one: it leads to a second
   * filter, through which every new line then goes too. */
  return fmin(most, 1.5 * estimate);
}

static double estimate_sized(const struct input *inputs, uint64_t bytes,
                             const struct key_rule *keys, double *upper)
{
  struct sample sample = {.seen_local = sample_filter(), .seen_global = sample_filter()};
  char *buffer = malloc(BLOCK_BYTES), why[256];
  double lines = *upper = UNSIZED_LINES;
  bool ready = key_finder_init(&sample.finder, keys, why, sizeof why);
  if (sample.seen_local != NULL && sample.seen_global != NULL && buffer != NULL && ready) {
    sample_all(&sample, inputs, bytes, buffer);
    lines = distinct_in(&sample, bytes, upper);
  }
  free(buffer);
  if (ready)
    key_finder_free(&sample.finder);
  tamis_destroy(sample.seen_local);
  tamis_destroy(sample.seen_global);
  return lines;
}

static uint64_t with_margin(double lines, uint64_t unsized_lines)
{
  return (uint64_t) (lines * 1.1) + MARGIN_LINES + unsized_lines;
}

uint64_t estimate_distinct(const struct input *inputs, size_t count, const struct key_rule *keys,
                           uint64_t *most)
{
  uint64_t bytes = 0, unsized_lines = 0;
  for (size_t i = 0; i < count; i++) {
    bytes += inputs[i].bytes;
    if (!inputs[i].sized)
      unsized_lines = UNSIZED_LINES;
  }
  double lines = 0, upper = 0;
  if (bytes > 0)
    lines = estimate_sized(inputs, bytes, keys, &upper);
  *most = with_margin(upper, unsized_lines);
  return with_margin(lines, unsized_lines);
}
