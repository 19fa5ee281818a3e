/* SPDX-License-Identifier: MIT */
#include "linear.h"

#include "harness.h"
#include "tiny.h"

#include <error.h>
#include <string.h>

enum { OPENING_CLASSES = 16 };

/* ---- the filters of the variants ----
 *
 * Each number that a variant chooses follows from `random`. */

static const double cuckoo_rates[] = {0.05, 0.01, 0.001, 1e-6};

static int create_tiny(struct life *life, tamis_options *options, uint64_t random)
{
  static const uint64_t few_hashes[] = {50, 1000, 0, 0};
  options->capacity = 1;
  life->bystander_hashes = few_hashes[random % 4];
  life->peak = ((UINT64_C(16) << random / 4 % 8) + life->threads - 1) / life->threads;
  /* One filter in eight reaches a limit on its memory: then older generations take new keys. */
  if (random / 32 % 8 == 0)
    options->max_bytes = 16384 + random / 256 % (1 << 18);
  struct cuckoo_geometry g = tiny_geometry(life->number);
  int result;
  while ((result = tiny_create(options, &g, &life->filter)) == TAMIS_EFULL)
    options->max_bytes *= 2;
  return result;
}

/* The fingerprints are mostly longer than those of the second generation.  Then removes take
 * entries out of the first generation while adds put entries into the second, and a look-up must
 * not miss both. */
static int create_opening(struct life *life, tamis_options *options, uint64_t random)
{
  static const unsigned widths[] = {32, 21, 32, 12};
  struct cuckoo_geometry g = tiny_geometry(life->number);
  options->capacity = 1;
  g.shape = bucket_shape(widths[random % 4], true);
  g.fixed_shift = g.shape.shift;
  g.depth_limit = (uint8_t) (random / 4 % 2);
  life->classes = OPENING_CLASSES;
  life->peak = 2 * cuckoo_directory_size(&g) * cuckoo_lanes(&g) / life->threads + 1;
  life->rounds = 2;
  life->calls = (life->calls + 7) / 8;
  return tiny_create(options, &g, &life->filter);
}

static int create_grown(struct life *life, tamis_options *options, uint64_t random)
{
  static const uint64_t capacities[] = {1, 10, 100, 1000};
  options->capacity = capacities[random % 4];
  options->fpp = cuckoo_rates[random / 4 % 4];
  uint64_t peak = random / 16 % 4 ? 2000 : 40000;
  life->peak =
      peak / life->threads < MAX_HELD - MAX_BATCH ? peak / life->threads : MAX_HELD - MAX_BATCH;
  life->rounds = 4 + 6 * peak / life->calls; /* about one wave */
  return tamis_create(options, &life->filter);
}

static int create_fixed(struct life *life, tamis_options *options, uint64_t random)
{
  options->growable = false;
  options->capacity = UINT64_C(16) << random % 8;
  options->fpp = cuckoo_rates[random / 8 % 4];
  life->peak = options->capacity * 5 / 4 / life->threads + 1;
  life->rounds = 4 + 6 * options->capacity / life->calls;
  return tamis_create(options, &life->filter);
}

static int create_bloom(struct life *life, tamis_options *options, uint64_t random)
{
  /* By layout: so small that there are several layers in the end, and yet large enough for each key
   * to have a bit of its own in all of them. */
  static const struct {
    uint64_t capacity;
    double fpp;
  } small[] = {{64, 1e-6}, {128, 1e-4}, {64, 0.0025}};
  uint64_t all[MAX_CLASSES + BLOOM_BYSTANDERS];
  options->kind = TAMIS_BLOOM;
  options->layout = random % 2        ? TAMIS_LAYOUT_BLOCKED
                    : random / 16 % 2 ? TAMIS_LAYOUT_WORD
                                      : TAMIS_LAYOUT_CLASSIC;
  options->capacity = MAX_CLASSES + BLOOM_BYSTANDERS;
  options->fpp = random / 2 % 2 || options->layout == TAMIS_LAYOUT_WORD ? 0.01 : 1e-4;
  options->stripes = 1u << random / 4 % 4;
  if (random / 32 % 4) { /* it opens layers */
    options->capacity = small[options->layout].capacity;
    options->fpp = small[options->layout].fpp;
  }
  life->classes = MAX_CLASSES;
  life->peak = MAX_HELD;
  life->rounds = 1;
  if (!distinct_choose_bloom(options, life->seed, all, MAX_CLASSES + BLOOM_BYSTANDERS))
    error(2, 0, "found no keys for a Bloom filter: a bug of this program");
  memcpy(life->hashes, all, sizeof life->hashes);
  memcpy(life->bloom_bystanders, all + MAX_CLASSES, sizeof life->bloom_bystanders);
  return tamis_create(options, &life->filter);
}

/* Few lines, so that all calls meet.  One filter in four reaches its capacity. */
static int create_counting(struct life *life, tamis_options *options, uint64_t random)
{
  static const double rates[] = {0.1, 0.01, 0.001, 1e-4};
  options->kind = TAMIS_COUNTING_BLOOM;
  options->growable = random % 4;
  options->capacity = UINT64_C(16) << random / 4 % 4;
  options->fpp = rates[random / 16 % 4];
  options->stripes = 1u << random / 64 % 4;
  life->peak = options->capacity * 5 / 4 / life->threads + 1;
  return tamis_create(options, &life->filter);
}

/* Few buckets, so that entries are moved all the time. */
static int create_shared(struct life *life, tamis_options *options, uint64_t random)
{
  options->growable = false;
  options->capacity = UINT64_C(16) << random % 6;
  options->fpp = cuckoo_rates[random / 8 % 4];
  options->stripes = 1u << random / 32 % 4;
  life->peak = options->capacity * 5 / 4 / life->threads + 1;
  return tamis_open_shared(options, NULL, &life->filter);
}

/* As small as the counting ones.  Layers are opened when few periods end, and leave when many
 * do. */
static int create_window(struct life *life, tamis_options *options, uint64_t random)
{
  static const double rates[] = {0.01, 0.001, 1e-4, 1e-5};
  static const unsigned windows[] = {1, 1, 2, 3, 5, 12, 30, 64};
  options->kind = life->variant == WINDOW ? TAMIS_BLOOM : TAMIS_CUCKOO;
  options->growable = random % 4;
  options->capacity = UINT64_C(16) << random / 4 % 4;
  options->fpp = rates[random / 16 % 4];
  options->stripes = 1u << random / 64 % 4;
  options->window = life->window = windows[random / 256 % 8];
  options->window_renews = life->renews = random / 2048 % 2;
  life->bystander_hashes = random / 4096 % 2 ? 0 : 400;
  if (life->variant == WINDOW_CUCKOO) {
    life->ends_are_rare = random / 8192 % 2;
    life->peak = options->capacity * (life->ends_are_rare ? 64 : 1) / life->threads + 1;
    if (random / 16384 % 8 == 0) /* copies are refused now and then */
      (void) tamis_bytes_for(options, &options->max_bytes);
    if (options->max_bytes)
      options->max_bytes += random / 131072 % 4096;
  }
  return tamis_create(options, &life->filter);
}

int life_create(struct life *life)
{
  static int (*const create[])(struct life *, tamis_options *, uint64_t random) = {
      create_tiny,     create_opening, create_grown,  create_fixed, create_bloom,
      create_counting, create_shared,  create_window, create_window};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.seed = life->seed;
  life->rounds = 8; /* of most variants */
  int result = create[life->variant](life, &options, random_at(life->seed, 1));
  if (result != TAMIS_OK)
    return result;
  if (life->variant != BLOOM) { /* whose keys are chosen before */
    life->distinct = distinct_of(life->filter);
    distinct_choose(&life->distinct, life->seed, life->hashes, life->classes);
  }
  /* The waves fall to zero, or stay near the peak, where most entries are moved. */
  life->trough = life->peak * (uint64_t[]){0, 2, 6, 7}[random_at(life->seed, 2) % 4] / 8;
  return TAMIS_OK;
}

/* ---- the calls of a round ---- */

struct mix life_mix(const struct life *life, uint64_t random)
{
  /* Weights of add, add_unique, contains, remove, count and advance.  In this order, the mixes keep
   * about one copy or none, act like a lock, keep many copies, keep few, and mostly read. */
  static const struct mix mixes[] = {{.calls = {20, 10, 30, 30, 10}},
                                     {.calls = {0, 35, 20, 35, 10}},
                                     {.calls = {40, 10, 10, 30, 10}},
                                     {.calls = {10, 10, 15, 60, 5}},
                                     {.calls = {5, 5, 60, 10, 20}}};
  static const struct mix bloom_mixes[] = {
      {.calls = {0, 60, 30, 0, 10}}, {.calls = {20, 40, 40, 0}}, {.calls = {30, 10, 40, 0, 20}}};
  /* There are many more removes than plain adds: hardly ever has a class as many copies that its
   * counters are stuck. */
  static const struct mix counting_mixes[] = {{.calls = {5, 20, 30, 35, 10}},
                                              {.calls = {0, 35, 20, 35, 10}},
                                              {.calls = {5, 15, 15, 60, 5}},
                                              {.calls = {1, 9, 60, 10, 20}}};
  static const struct mix window_mixes[] = {{.calls = {50, 400, 350, 0, 180, 20}},
                                            {.calls = {250, 250, 250, 0, 150, 100}},
                                            {.calls = {0, 300, 250, 0, 100, 350}},
                                            {.calls = {100, 200, 450, 0, 245, 5}}};
  static const struct mix window_cuckoo_mixes[] = {{.calls = {150, 200, 250, 250, 130, 20}},
                                                   {.calls = {200, 150, 200, 200, 100, 150}},
                                                   {.calls = {50, 250, 200, 200, 100, 200}},
                                                   {.calls = {0, 300, 250, 300, 145, 5}}};
  struct mix mix = life->variant == BLOOM           ? bloom_mixes[random % 3]
                   : life->variant == COUNTING      ? counting_mixes[random % 4]
                   : life->variant == WINDOW        ? window_mixes[random % 4]
                   : life->variant == WINDOW_CUCKOO ? window_cuckoo_mixes[random % 4]
                                                    : mixes[random % 5];
  if (life->ends_are_rare)
    mix.calls[HISTORY_ADVANCE] = mix.calls[HISTORY_ADVANCE] / 64 + 1;
  mix.class_percent = (unsigned[]){30, 60, 90}[random / 16 % 3];
  mix.hot_percent = (unsigned[]){0, 50, 90}[random / 64 % 3];
  mix.batch_percent = (unsigned[]){0, 5, 30}[random / 256 % 3];
  mix.hot = (unsigned) (random / 1024 % life->classes);
  return mix;
}
