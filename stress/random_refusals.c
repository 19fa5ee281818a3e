/* SPDX-License-Identifier: MIT
 *
 * Whether a refusal of stress-random has a reason.  At rest, keys are added until some are refused.
 * Then it is recomputed what the filter has left: places, bytes, and free lanes.
 *
 * A limit of bytes is judged by a twin that has none: the filter is saved and loaded again.  What
 * the twin takes to let the key in, the filter must not have had.
 */
#include "bloom/bloom.h"
#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "random.h"
#include "window/layers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- lanes ---- */

/* A graph of buckets, in which each entry leads to its other bucket. */
struct buckets {
  const struct cuckoo_geometry *cuckoo; /* NULL: a window */
  const struct segment *segment;
  const struct window_layer *layer;
  uint64_t first, count; /* bucket numbers */
  unsigned lanes;        /* of a bucket */
  bool thorough;         /* how it is searched: table/search.h */
};

/* Returns 0 for a free lane.  (At rest no lane of a window has a dead entry.) */
static uint64_t entry_at(const struct buckets *b, uint64_t bucket, unsigned lane)
{
  return b->cuckoo ? lane_get(&b->cuckoo->shape,
                              word_load(&segment_words(b->cuckoo, b->segment)[bucket]), lane)
                   : lane_get(&b->layer->geometry.shape.lane, window_load(b->layer, bucket), lane);
}

static uint64_t other_of(const struct buckets *b, uint64_t bucket, uint64_t entry)
{
  return b->cuckoo ? other_bucket(b->cuckoo, b->segment, (uint32_t) bucket, entry)
                   : window_other_bucket(&b->layer->geometry, bucket, entry);
}

static bool has_free_lane(const struct buckets *b, uint64_t bucket)
{
  for (unsigned lane = 0; lane < b->lanes; lane++)
    if (!entry_at(b, bucket, lane))
      return true;
  return false;
}

/* How many moves the longest path has that a search never misses: all that are so long are among as
 * many buckets as it looks at. */
static unsigned reach_of(const struct buckets *b)
{
  uint64_t most = b->thorough ? 512 : 256;
  unsigned moves = 0, further = b->lanes <= 3 ? 2 : 1;
  if (b->count < most / 2)
    most = b->count * 2;
  for (uint64_t level = 2, all = 2; all + level * b->lanes <= most; moves++) {
    level *= b->lanes;
    all += level;
  }
  return moves + (b->thorough ? further : 0);
}

/* How many moves it takes to have a free lane in one of a key's two buckets, if at most `most`; or
 * most + 1. */
static unsigned moves_to_room(const struct buckets *b, uint64_t lower, uint64_t upper,
                              unsigned most)
{
  uint64_t *queue = malloc(b->count * sizeof *queue), head = 0, tail = 0;
  unsigned char *distance = calloc(b->count, 1); /* and 1 more, if it was reached */
  unsigned moves = most + 1;
  queue[tail++] = lower, distance[lower - b->first] = 1;
  if (!distance[upper - b->first])
    queue[tail++] = upper, distance[upper - b->first] = 1;
  while (head < tail && moves > most) {
    uint64_t bucket = queue[head++];
    unsigned here = distance[bucket - b->first];
    if (has_free_lane(b, bucket))
      moves = here - 1;
    for (unsigned lane = 0; lane < b->lanes && here <= most && moves > most; lane++) {
      uint64_t other = other_of(b, bucket, entry_at(b, bucket, lane));
      if (!distance[other - b->first])
        queue[tail++] = other, distance[other - b->first] = (unsigned char) (here + 1);
    }
  }
  free(queue);
  free(distance);
  return moves;
}

/* Keys that find both buckets full are refused without a search of their own, once searches have
 * failed in a segment that is about as full as planned.  A few entries may have left since. */
static bool is_about_full(const struct buckets *b, double full, double deviation)
{
  uint64_t used = b->count / 512 + 1;
  for (uint64_t i = 0; i < b->count; i++)
    for (unsigned lane = 0; lane < b->lanes; lane++)
      used += entry_at(b, b->first + i, lane) != 0;
  double load = (double) used / ((double) b->count * b->lanes);
  return load >= 7.0 / 8 * (full - 6 * deviation);
}

/* What a key finds: its buckets, and how full they may be. */
struct sight {
  struct buckets buckets;
  uint64_t lower, upper;
  double full, deviation; /* the load with which a table is full */
  bool marked;            /* others may have marked it as full, however full it is */
  bool lacks_memory;      /* moves may need some */
};

/* Where copies are counted, a move may need memory for the counts, which max_bytes refuses. */
static struct sight sight_in_cuckoo(const tamis_filter *f, unsigned generation, uint64_t hash)
{
  const struct cuckoo *c = const_cuckoo_of(f);
  struct bucket_pair pair = pair_find(cuckoo_generation(c, generation), hash_mix(&f->keys, hash));
  const struct cuckoo_geometry *g = &pair.generation->geometry;
  struct sight s = {.buckets = {.cuckoo = g,
                                .segment = pair.segment,
                                .count = cuckoo_buckets(g),
                                .lanes = g->shape.lanes,
                                .thorough = !g->shape.ages},
                    .lower = pair.lower,
                    .upper = pair.upper,
                    .full = cuckoo_geometry_full_load(g),
                    .deviation = cuckoo_geometry_full_deviation(g),
                    .lacks_memory = pair.segment && has_duplicates(pair.segment) && c->max_bytes};
  s.marked = s.lacks_memory;
  return s;
}

static bool has_counts(const struct window_layer *layer)
{
  for (unsigned i = 0; layer->planes && i < WINDOW_PLANES; i++)
    if (plane_counts(&layer->planes[i].counts))
      return true;
  return false;
}

/* In the newest layer, to which new keys go.  Marks are shared by several segments. */
static struct sight sight_in_window(const tamis_filter *f, uint64_t hash)
{
  const struct window *w = const_window_of(f);
  const struct window_layer *layer = window_newest(w, epoch_before(&w->state->epoch));
  const struct window_geometry *g = &layer->geometry;
  struct window_place place = window_place_of(g, window_mixed(w, hash), g->segments > 1);
  uint64_t count = window_segment_buckets(g);
  bool lacks_memory = w->max_bytes && has_counts(layer);
  return (struct sight){.buckets = {.layer = layer,
                                    .first = place.lower / count * count,
                                    .count = count,
                                    .lanes = g->shape.lane.lanes,
                                    .thorough = true},
                        .lower = place.lower,
                        .upper = place.upper,
                        .full = window_geometry_full_lanes(g) / (double) window_lanes(g),
                        .marked = g->segments > 1 || lacks_memory,
                        .lacks_memory = lacks_memory};
}

static const char missed[] = "refused though moves make room";

static const char *fault_in(const struct sight *s)
{
  const struct buckets *b = &s->buckets;
  unsigned reach = reach_of(b), moves = moves_to_room(b, s->lower, s->upper, reach);
  if (moves == 0)
    return "refused though a lane is free";
  return moves > reach || s->marked || is_about_full(b, s->full, s->deviation) ? NULL : missed;
}

/* In all generations. */
static const char *fault_in_cuckoo(const tamis_filter *f, uint64_t hash)
{
  const char *fault = NULL;
  for (unsigned i = 0; i < cuckoo_generations(const_cuckoo_of(f)) && !fault; i++) {
    struct sight sight = sight_in_cuckoo(f, i, hash);
    fault = sight.buckets.segment ? fault_in(&sight) : NULL;
  }
  return fault;
}

static const char *fault_in_window(const tamis_filter *f, uint64_t hash)
{
  struct sight sight = sight_in_window(f, hash);
  return fault_in(&sight);
}

/* ---- places ---- */

/* Either as many keys have been counted, or as many have set bits. */
static const char *fault_in_bloom(const tamis_filter *f)
{
  tamis_stats s = stats_of(f);
  bool bits = s.kind == TAMIS_BLOOM && s.estimated_count >= (double) s.capacity - 1;
  return s.count >= s.capacity || bits ? NULL : "refused though a place is free";
}

/* ---- bytes ---- */

/* The bytes that a twin without a limit takes for a moment, to let the key in.  *result is what it
 * says. */
static uint64_t bytes_of_next_step(struct run *run, uint64_t hash, int *result)
{
  struct ledger ledger = {0};
  tamis_allocator allocator = ledger_allocator(&ledger);
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.max_bytes = UINT64_MAX / 2;
  options.allocator = &allocator;
  options.hash = run->configuration.options.hash;
  struct saved saved = {0};
  tamis_filter *twin = NULL;
  run->ledger.limit = 0; /* a save takes memory beside what max_bytes counts */
  require(run,
          tamis_save(run->filter, saved_write, &saved) == TAMIS_OK &&
              tamis_load(&options, saved_read, &saved, &twin) == TAMIS_OK,
          "a full filter cannot be saved and loaded", 0);
  run->ledger.limit = run->configuration.options.max_bytes;
  free(saved.data);
  uint64_t before = atomic_load(&ledger.bytes);
  atomic_store(&ledger.most_bytes, before);
  *result = twin ? tamis_add_unique_hash(twin, hash) : TAMIS_EINVAL;
  uint64_t most = atomic_load(&ledger.most_bytes);
  tamis_destroy(twin);
  return most - before;
}

/* The twin may have its counts of copies in less memory, and has no locks to spare. */
static const char *fault_in_bytes(struct run *run, uint64_t hash)
{
  const tamis_options *o = &run->configuration.options;
  int result;
  uint64_t step = bytes_of_next_step(run, hash, &result), bytes = stats_of(run->filter).bytes;
  if (result != TAMIS_OK || step == 0) /* it does not grow either */
    return result == TAMIS_OK || result == TAMIS_EFULL || result == TAMIS_PRESENT
               ? NULL
               : "a twin refuses what it should not";
  return bytes + step > o->max_bytes ? NULL : "refused though max_bytes has room for the next step";
}

/* ---- refusals ---- */

/* Why the refusal of a key that is not in is wrong; NULL: it is right. */
static const char *fault_in_refusal(struct run *run, uint64_t hash)
{
  const tamis_options *o = &run->configuration.options;
  const char *fault = NULL;
  if (has_window(run))
    fault = fault_in_window(run->filter, hash);
  else if (o->kind == TAMIS_CUCKOO)
    fault = fault_in_cuckoo(run->filter, hash);
  else if (!o->growable)
    fault = fault_in_bloom(run->filter);
  if (!fault && o->growable && run->twins) {
    run->twins--;
    fault = fault_in_bytes(run, hash);
  }
  return fault;
}

/* What waits for readers counts as bytes for a while. */
static void judge_refusal(struct run *run, uint64_t key, uint64_t hash, int *result)
{
  enum { MOST_SECONDS = 30 };
  double end = harness_seconds() + MOST_SECONDS;
  const char *fault = fault_in_refusal(run, hash);
  bool waits = run->configuration.options.kind == TAMIS_CUCKOO && !has_window(run) &&
               run->configuration.options.growable;
  while (fault && waits && harness_seconds() < end) {
    usleep(1000);
    *result = note_add(run, tamis_add_unique_hash(run->filter, hash));
    fault = *result == TAMIS_EFULL ? fault_in_refusal(run, hash) : NULL;
  }
  if (fault)
    run_wrong(run, fault, key);
}

/* ---- figures of one add ---- */

/* A key that finds a lane is the reason for no search and no move.  One that finds none, and is in
 * all the same, is the reason for moves, unless the table has grown or copies have been counted. */
static void require_moves(struct run *run, const tamis_stats *old, const struct sight *sight,
                          bool lane, int result)
{
  tamis_stats s = stats_of(run->filter);
  bool moved = s.evictions != old->evictions, searched = s.failed_searches != old->failed_searches;
  bool grown = s.growths != old->growths || s.occupancy <= old->occupancy;
  if (result == TAMIS_OK && lane)
    require(run, !moved && !searched, "moves are counted where a lane was free", s.evictions);
  if (result == TAMIS_OK && !lane && !grown)
    require(run, moved, "moves are not counted", s.evictions);
  if (result == TAMIS_EFULL && !sight->lacks_memory)
    require(run, !moved, "moves are counted where none make room", s.evictions);
  /* A search of its own does not miss a path. */
  unsigned reach = reach_of(&sight->buckets);
  if (result == TAMIS_EFULL && searched && !sight->lacks_memory)
    require(run, moves_to_room(&sight->buckets, sight->lower, sight->upper, reach) > reach, missed,
            s.failed_searches);
}

/* ---- all ---- */

static int add_and_check(struct run *run, uint64_t hash)
{
  if (run->configuration.options.kind != TAMIS_CUCKOO && !has_window(run))
    return note_add(run, tamis_add_unique_hash(run->filter, hash));
  tamis_stats old = stats_of(run->filter);
  bool one = has_window(run) ? old.layers == 1 : old.generations == 1;
  struct sight sight =
      has_window(run) ? sight_in_window(run->filter, hash) : sight_in_cuckoo(run->filter, 0, hash);
  one = one && (sight.buckets.layer || sight.buckets.segment);
  bool lane = one && !moves_to_room(&sight.buckets, sight.lower, sight.upper, 0);
  int result = note_add(run, tamis_add_unique_hash(run->filter, hash));
  if (one)
    require_moves(run, &old, &sight, lane, result);
  return result;
}

/* Adds one more key.  Whether it is refused. */
static bool add_spare(struct run *run)
{
  uint64_t key = run->all++;
  unsigned char bytes[LONGEST_KEY];
  size_t len = configuration_key(&run->configuration, key, bytes);
  uint64_t hash = tamis_hash(run->filter, bytes, len);
  window_note_add(run, key, window_call_begins(run));
  int result = add_and_check(run, hash);
  bool refused = result == TAMIS_EFULL;
  if (refused)
    judge_refusal(run, key, hash, &result);
  require(run, result == TAMIS_OK || result == TAMIS_PRESENT || result == TAMIS_EFULL,
          tamis_strerror(result), key);
  run->copies[key] = result == TAMIS_OK || (result == TAMIS_PRESENT && keeps_all(run));
  return refused;
}

/* Below its capacity, a filter that does not grow refuses none, unless max_bytes leaves no memory to
 * count copies. */
static void require_capacity(struct run *run)
{
  const tamis_options *o = &run->configuration.options;
  uint64_t keys = 0;
  for (uint64_t key = 0; key < run->all; key++)
    keys += run->copies[key] > 0;
  bool copies = o->kind == TAMIS_COUNTING_BLOOM || (o->kind == TAMIS_CUCKOO && o->max_bytes);
  require(run, o->growable || copies || keys >= o->capacity, "refused before its capacity", keys);
}

void check_refusals(struct run *run)
{
  enum { ENOUGH = 40, TWINS = 3 };
  const tamis_options *o = &run->configuration.options;
  unsigned refused = 0;
  run->twins = TWINS;
  if (o->growable && (!o->max_bytes || o->kind == TAMIS_COUNTING_BLOOM))
    return; /* none are refused */
  while (run->spare && refused < ENOUGH) {
    run->spare--;
    refused += add_spare(run);
  }
  if (refused)
    require_capacity(run);
}
