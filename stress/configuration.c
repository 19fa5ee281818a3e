/* SPDX-License-Identifier: MIT */
#include "configuration.h"

#include "harness.h"

#include <error.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- random numbers ---- */

/* Log-uniform, from `least` to `most`. */
static uint64_t log_uniform(uint64_t *seed, uint64_t least, uint64_t most)
{
  double ratio = ((double) most + 1) / (double) least;
  uint64_t n = (uint64_t) ((double) least * pow(ratio, random_uniform(seed)));
  return n < least ? least : n > most ? most : n;
}

static bool one_in(uint64_t *seed, uint64_t n)
{
  return random_next(seed) % n == 0;
}

/* ---- hash functions of the user's ---- */

/* FNV-1a, with the seed in its first state.
 * Source: Fowler, Noll and Vo, "The FNV non-cryptographic hash algorithm" */
static uint64_t fnv_hash(void *context, const void *key, size_t len, uint64_t seed)
{
  const unsigned char *bytes = key;
  uint64_t hash = UINT64_C(0xCBF29CE484222325) ^ seed;
  (void) context;
  for (size_t i = 0; i < len; i++)
    hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
  return hash ^ hash >> 32;
}

/* The key's number, with which it begins: hashes are sequential. */
static uint64_t number_hash(void *context, const void *key, size_t len, uint64_t seed)
{
  const unsigned char *bytes = key;
  uint64_t number = 0;
  (void) context, (void) seed;
  for (size_t i = 0; i < len && i < sizeof number; i++)
    number |= (uint64_t) bytes[i] << 8 * i;
  return number;
}

/* ---- drawing ---- */

/* The lowest rate that the header allows. */
static double lowest_rate(const tamis_options *o)
{
  double hashes = 4 * (double) o->capacity * 0x1p-64 * (1 + 1e-9);
  double kind = o->kind == TAMIS_BLOOM ? 0 : o->growable ? 3e-8 : 9.4e-10;
  return fmax(hashes, kind);
}

/* The lowest rates are rare in use, and hard to measure: half of all are at least 1e-4. */
static double draw_rate(const tamis_options *o, uint64_t *seed)
{
  double lowest = one_in(seed, 2) ? lowest_rate(o) : 1e-4;
  double rate = exp(log(lowest) * (1 - random_uniform(seed)));
  return rate < lowest ? lowest : rate;
}

static uint64_t bytes_needed(const tamis_options *o)
{
  uint64_t bytes;
  int result = tamis_bytes_for(o, &bytes);
  if (result != TAMIS_OK)
    error(2, 0, "capacity %" PRIu64 ", fpp %.17g: %s", o->capacity, o->fpp, tamis_strerror(result));
  return bytes;
}

static void draw_filter(struct configuration *c, uint64_t *seed,
                        const struct configuration_limits *limits)
{
  tamis_options *o = &c->options;
  o->kind = one_in(seed, 2) ? TAMIS_BLOOM : TAMIS_CUCKOO;
  o->layout = one_in(seed, 2) ? TAMIS_LAYOUT_BLOCKED : TAMIS_LAYOUT_CLASSIC;
  o->growable = one_in(seed, 2);
  o->capacity = log_uniform(seed, 1, one_in(seed, 16) ? UINT64_C(1) << 28 : 1 << 17);
  o->fpp = draw_rate(o, seed);
  if (o->kind == TAMIS_BLOOM && o->fpp >= 0.0025 && o->capacity % 3 == 0)
    o->layout = TAMIS_LAYOUT_WORD;
  if (o->kind == TAMIS_BLOOM && o->layout == TAMIS_LAYOUT_BLOCKED && o->fpp >= 1.01e-5 &&
      o->capacity % 5 == 0)
    o->kind = TAMIS_COUNTING_BLOOM;
  o->stripes = one_in(seed, 2) ? 0 : (unsigned) log_uniform(seed, 1, 4096);
  o->seed = one_in(seed, 16) ? UINT64_MAX : one_in(seed, 16) ? 1 : random_next(seed) | 1;
  o->hash = one_in(seed, 2) ? NULL : one_in(seed, 2) ? fnv_hash : number_hash;
  while (bytes_needed(o) > limits->bytes && o->capacity > 1)
    o->capacity /= 2;
}

/* The lowest rate of a window is higher, and has no formula that this could check. */
static double lowest_rate_of_window(const tamis_options *o)
{
  uint64_t bytes;
  tamis_options trial = *o;
  trial.fpp = lowest_rate(o);
  while (trial.fpp < 1 && tamis_bytes_for(&trial, &bytes) != TAMIS_OK)
    trial.fpp *= 1.01;
  return trial.fpp;
}

/* One filter in three that can have a window has one.  The rest of the configuration is what it
 * would be without. */
static void draw_window(tamis_options *o, uint64_t seed, const struct configuration_limits *limits)
{
  uint64_t random = random_at(seed, 1);
  if (o->kind == TAMIS_COUNTING_BLOOM || o->layout == TAMIS_LAYOUT_WORD || !one_in(&random, 3))
    return;
  o->window = (unsigned) log_uniform(&random, 1, 64);
  o->window_renews = one_in(&random, 2);
  o->fpp = fmax(o->fpp, lowest_rate_of_window(o));
  while (bytes_needed(o) > limits->bytes && o->capacity > 1)
    o->capacity /= 2;
}

/* Nothing, just enough, or a part more. */
static uint64_t draw_max_bytes(const tamis_options *o, uint64_t *seed)
{
  uint64_t needed = bytes_needed(o);
  if (one_in(seed, 2))
    return 0;
  return one_in(seed, 2) ? needed : needed + log_uniform(seed, 1, 3 * needed);
}

struct configuration configuration_draw(uint64_t seed, const struct configuration_limits *limits)
{
  struct configuration c = {.options = TAMIS_OPTIONS_INIT};
  tamis_options *o = &c.options;
  draw_filter(&c, &seed, limits);
  draw_window(o, seed, limits);
  o->max_bytes = draw_max_bytes(o, &seed);
  c.memory = one_in(&seed, 4) ? SYSTEM_MEMORY : one_in(&seed, 3) ? FAILING_MEMORY : LEDGER_MEMORY;
  c.threads = log_uniform(&seed, 1, limits->threads < 16 ? limits->threads : 16);
  c.keys = o->capacity;
  /* (Counters that are full of copies never become empty again.) */
  if (o->growable &&
      o->kind != TAMIS_COUNTING_BLOOM) /* from half of the capacity to a thousand times as much */
    c.keys = log_uniform(&seed, (o->capacity + 1) / 2, o->capacity * 1000);
  c.keys = c.keys < limits->keys ? c.keys : log_uniform(&seed, limits->keys / 4, limits->keys);
  c.calls = log_uniform(&seed, 16, 16 + limits->keys / c.threads);
  c.longest_key = (unsigned) log_uniform(&seed, 1, LONGEST_KEY + 1) - 1;
  c.longest_batch = (unsigned) log_uniform(&seed, 1, LONGEST_BATCH);
  c.seed = random_next(&seed);
  return c;
}

/* ---- keys ---- */

static size_t bytes_of_number(uint64_t i)
{
  size_t n = 0;
  for (; i; i >>= 8)
    n++;
  return n;
}

/* A key begins with its number, and bytes that follow from it fill it up. */
size_t configuration_key(const struct configuration *c, uint64_t i, unsigned char *bytes)
{
  uint64_t fill = random_at(c->seed, i);
  size_t least = bytes_of_number(i), len = fill % (c->longest_key + 1);
  len = len < least ? least : len;
  for (size_t at = 0; at < len; at++)
    bytes[at] = (unsigned char) (at < sizeof i ? i >> 8 * at : fill >> 8 * (at % 8));
  return len;
}

/* ---- messages ---- */

void configuration_print(const struct configuration *c)
{
  static const char *const memory[] = {"system", "ledger", "failing"};
  const tamis_options *o = &c->options;
  printf("%s, %s, window %u%s, capacity %" PRIu64 ", fpp %.17g, max_bytes %" PRIu64
         ", stripes %u, seed %" PRIu64 ", hash %s, memory %s; %" PRIu64 " threads, %" PRIu64
         " keys of at most %u bytes, %" PRIu64 " calls, batches of at most %u\n",
         o->kind == TAMIS_CUCKOO             ? "cuckoo"
         : o->kind == TAMIS_COUNTING_BLOOM   ? "Bloom, counting"
         : o->layout == TAMIS_LAYOUT_CLASSIC ? "Bloom, classic"
         : o->layout == TAMIS_LAYOUT_WORD    ? "Bloom, word"
                                             : "Bloom, blocked",
         o->growable ? "growable" : "fixed", o->window, o->window_renews ? " (renewed)" : "",
         o->capacity, o->fpp, o->max_bytes, o->stripes, o->seed,
         o->hash == fnv_hash      ? "FNV"
         : o->hash == number_hash ? "number"
                                  : "default",
         memory[c->memory], c->threads, c->keys, c->longest_key, c->calls, c->longest_batch);
}
