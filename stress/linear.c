/* SPDX-License-Identifier: MIT
 *
 * Question: do all calls take effect at one instant each, between call and return, while everything
 * else happens?
 *
 * Threads make random calls on a few keys, the *classes*, and note for each when it was invoked, when
 * it returned, and what it answered.  After each round every class's history is checked (history.h).
 * The filter confuses no class with any other key (apart.h), so the answers must be exact: those of a
 * number of copies, without any tolerance for false positives.
 *
 * Meanwhile each thread adds and removes keys of its own, *bystanders*, in waves: these make entries
 * move, segments split and join, generations open, and copies be counted.  They may be confused among
 * each other, so what is checked of them is less: a bystander that is in is found, and can be removed.
 *
 *    life    a filter from creation to its last key: the variant, the classes, how high the waves go
 *    round   some thousand calls, of a mix that changes from round to round; then all threads stop,
 *            the histories are checked, and so are counts and structure.  The copies that are left are
 *            those that the next round begins with.
 *
 *    tiny     cuckoo, degenerate first generation (tiny.h)
 *    opening  the same, but the second generation opens soon; short lives, as that happens once in each
 *    grown    cuckoo, from a small capacity on
 *    fixed    cuckoo that does not grow, filled past capacity
 *    bloom    both layouts; a life is one round, as a key can appear once only
 *
 * The seed replays keys and calls, but not how the threads meet.  stress-linear-hooked is the same
 * program with a library whose threads pause now and then between the steps of a call.
 */
#include "apart.h"
#include "bloom/bloom.h"
#include "cuckoo/cuckoo.h"
#include "harness.h"
#include "history.h"
#include "pauses.h"
#include "stamp.h"
#include "tiny.h"

#include <errno.h>
#include <error.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum variant { TINY, OPENING, GROWN, FIXED, BLOOM, VARIANTS };
static const char *const variant_names[] = {"tiny",  "opening", "grown", "fixed",
                                            "bloom", "all",     NULL};
/* Of each 8 operations so many. */
static const uint64_t variant_shares[] = {2, 2, 1, 2, 1};

enum {
  MOST_CLASSES = 64,
  CUCKOO_CLASSES = 6,
  OPENING_CLASSES = 16,
  BYSTANDER = MOST_CLASSES, /* not a class */
  MOST_BATCH = 16,
  MOST_HELD = 1 << 16,    /* bystanders of one thread */
  BLOOM_BYSTANDERS = 192, /* of all threads */
  PAUSE_PERIOD = 64,      /* places between steps of calls */
  YIELD_PERIOD = 64,      /* threads outnumber cores: so that all of them get to meet */
  OUTCOMES = 3            /* no, yes, failed */
};

struct settings {
  struct harness_settings shared;
  uint64_t calls;
  int variant; /* VARIANTS: all */
};

struct entry {
  struct history_op op;
  uint32_t class;
};

/* What a thread has done and found; only its own until the round is over. */
struct hand {
  _Alignas(64) struct run *run;
  struct worker *worker; /* counts the calls */
  unsigned index;
  uint64_t seed;
  /* The round's calls on classes, as they were made and sorted by class. */
  struct entry *entries;
  size_t n;
  struct history_op *sorted;
  size_t begin[MOST_CLASSES + 1];
  /* Bystanders that are in, and the wave that they are on. */
  uint64_t *held;
  size_t held_n;
  bool rising;
  uint64_t fresh; /* number of the next one */
  /* Findings. */
  uint64_t wrong;
  struct history_checker *checker;
  struct history_op *history; /* of one class, all threads' */
  uint64_t tally[HISTORY_CALLS][OUTCOMES];
  uint64_t overlapping, most_sets, bystander_calls;
};

struct life {
  enum variant variant;
  uint64_t seed, rounds; /* still to go */
  uint64_t calls;        /* in a round, over all threads */
  tamis_filter *filter;
  struct apart apart;
  unsigned classes;
  uint64_t hashes[MOST_CLASSES];
  uint64_t copies[MOST_CLASSES];
  uint64_t peak;     /* bystanders that each thread adds before it removes ... */
  uint64_t trough;   /* ... until so many are left */
  uint64_t distinct; /* bystanders' hashes; 0: any */
  uint64_t bloom_bystanders[BLOOM_BYSTANDERS];
};

/* What changes from round to round. */
struct mix {
  unsigned calls[HISTORY_CALLS]; /* weights */
  unsigned class_percent;        /* calls on classes, the others on bystanders */
  unsigned hot_percent;          /* of those, on one class */
  unsigned batch_percent;
  unsigned hot;
};

struct variant_totals {
  uint64_t lives, rounds, operations, bystander_calls, overlapping, splits, joins, generations,
      most_generations, most_sets;
  uint64_t tally[HISTORY_CALLS][OUTCOMES];
};

struct run {
  const struct settings *settings;
  struct life life;
  struct mix mix;
  struct hand *hands;
  unsigned threads, batch; /* the most calls of a batch */
  uint64_t seed, lives, rounds, operations;
  double until;
  struct variant_totals totals[VARIANTS];
  uint64_t wrong;
  bool stop;
  pthread_barrier_t barrier;
  struct stamps stamps;
  _Alignas(64) _Atomic unsigned ready;
};

/* ---- what to call ---- */

struct request {
  uint64_t hash;
  uint32_t class; /* or BYSTANDER */
  size_t held;    /* a bystander's place among those held */
};

static bool percent(struct hand *hand, unsigned n)
{
  return random_next(&hand->seed) % 100 < n;
}

/* A class.  In a Bloom filter each changes once only: all threads go through them in step. */
static struct request class_request(struct hand *hand)
{
  const struct run *run = hand->run;
  const struct life *life = &run->life;
  uint64_t random = random_next(&hand->seed);
  uint32_t class = (uint32_t) (random % life->classes);
  if (life->variant == BLOOM) {
    uint64_t expected = life->calls / run->threads * run->mix.class_percent / 100 + 1;
    uint64_t step = hand->n * life->classes / expected + random % 2;
    class = (uint32_t) (step < life->classes ? step : class);
  } else if (percent(hand, run->mix.hot_percent)) {
    class = run->mix.hot;
  }
  return (struct request){life->hashes[class], class, 0};
}

static bool is_class(const struct life *life, uint64_t hash)
{
  uint64_t name = apart_name(&life->apart, hash);
  for (unsigned i = 0; i < life->classes; i++)
    if (name == apart_name(&life->apart, life->hashes[i]))
      return true;
  return false;
}

static struct request fresh_bystander(struct hand *hand)
{
  const struct life *life = &hand->run->life;
  struct request request = {.class = BYSTANDER};
  if (life->variant == BLOOM) {
    request.hash = life->bloom_bystanders[hand->fresh++ % BLOOM_BYSTANDERS];
    return request;
  }
  do {
    uint64_t random = random_at(life->seed ^ hand->index, hand->fresh++);
    request.hash = life->distinct ? random_at(life->seed, random % life->distinct) : random;
  } while (is_class(life, request.hash));
  return request;
}

static struct request held_bystander(struct hand *hand)
{
  size_t held = (size_t) (random_next(&hand->seed) % hand->held_n);
  return (struct request){hand->held[held], BYSTANDER, held};
}

static struct request bystander_request(struct hand *hand, enum history_call call)
{
  bool adds = call == HISTORY_ADD || call == HISTORY_ADD_UNIQUE;
  if (adds && hand->held_n + MOST_BATCH <= MOST_HELD)
    return fresh_bystander(hand);
  if (adds)
    return class_request(hand);
  return hand->held_n ? held_bystander(hand) : class_request(hand);
}

static enum history_call class_call(struct hand *hand)
{
  const unsigned *weights = hand->run->mix.calls;
  unsigned sum = 0;
  for (unsigned i = 0; i < HISTORY_CALLS; i++)
    sum += weights[i];
  unsigned left = (unsigned) (random_next(&hand->seed) % sum);
  enum history_call call = HISTORY_ADD;
  while (left >= weights[call])
    left -= weights[call++];
  return call;
}

/* With the wave, mostly. */
static enum history_call bystander_call(struct hand *hand)
{
  const struct life *life = &hand->run->life;
  uint64_t random = random_next(&hand->seed);
  if (hand->held_n <= life->trough)
    hand->rising = true;
  if (hand->held_n >= life->peak)
    hand->rising = false;
  bool add = random % 16 ? hand->rising : !hand->rising;
  if (hand->held_n && (random / 16 % 4 == 0 || (!add && life->variant == BLOOM)))
    return HISTORY_CONTAINS;
  if (hand->held_n && !add && life->variant != BLOOM)
    return HISTORY_REMOVE;
  return random / 64 % 4 == 0 ? HISTORY_ADD_UNIQUE : HISTORY_ADD;
}

/* ---- calling ---- */

static void call_one(tamis_filter *f, enum history_call call, uint64_t hash, int *result)
{
  switch (call) {
  case HISTORY_ADD:
    *result = tamis_add_hash(f, hash);
    break;
  case HISTORY_ADD_UNIQUE:
    *result = tamis_add_unique_hash(f, hash);
    break;
  case HISTORY_CONTAINS:
    *result = tamis_contains_hash(f, hash);
    break;
  default:
    *result = tamis_remove_hash(f, hash);
  }
}

static void call_many(tamis_filter *f, enum history_call call, const uint64_t *hashes, size_t n,
                      int *results)
{
  bool found[MOST_BATCH];
  switch (call) {
  case HISTORY_ADD:
    tamis_add_many_hash(f, hashes, n, results);
    break;
  case HISTORY_ADD_UNIQUE:
    tamis_add_unique_many_hash(f, hashes, n, results);
    break;
  default:
    tamis_contains_many_hash(f, hashes, n, found);
    for (size_t i = 0; i < n; i++)
      results[i] = found[i];
  }
}

static void bystander_wrong(struct hand *hand, const char *what, uint64_t hash)
{
  if (hand->wrong++ == 0)
    fprintf(stderr, "thread %u: a bystander that is in %s: hash %" PRIu64 "\n", hand->index, what,
            hash);
}

static void note_bystander(struct hand *hand, const struct request *request, enum history_call call,
                           int result)
{
  hand->bystander_calls++;
  if (call == HISTORY_CONTAINS && !result)
    bystander_wrong(hand, "was missed", request->hash);
  if (call == HISTORY_REMOVE) {
    if (result != TAMIS_OK)
      bystander_wrong(hand, "could not be removed", request->hash);
    hand->held[request->held] = hand->held[--hand->held_n];
  }
  if (call == HISTORY_ADD || call == HISTORY_ADD_UNIQUE) {
    if (result == TAMIS_OK)
      hand->held[hand->held_n++] = request->hash;
    else if (result < 0)
      hand->rising = false;
  }
}

static unsigned outcome_of(enum history_call call, int result)
{
  if (result < 0)
    return 2;
  return call == HISTORY_CONTAINS ? result != 0 : result == TAMIS_OK;
}

static void note(struct hand *hand, const struct request *request, const struct history_op *op)
{
  if (request->class == BYSTANDER) {
    note_bystander(hand, request, op->call, op->result);
    return;
  }
  hand->tally[op->call][outcome_of(op->call, op->result)]++;
  hand->entries[hand->n++] = (struct entry){*op, request->class};
}

/* One call, or a batch of one kind. */
static size_t take_turn(struct hand *hand)
{
  struct run *run = hand->run;
  struct request requests[MOST_BATCH];
  uint64_t hashes[MOST_BATCH];
  int results[MOST_BATCH];
  bool mine = percent(hand, run->mix.class_percent);
  enum history_call call = mine ? class_call(hand) : bystander_call(hand);
  size_t n = 1;
  if (call != HISTORY_REMOVE && percent(hand, run->mix.batch_percent))
    n += random_next(&hand->seed) % run->batch;
  for (size_t i = 0; i < n; i++, mine = percent(hand, run->mix.class_percent)) {
    requests[i] = mine ? class_request(hand) : bystander_request(hand, call);
    hashes[i] = requests[i].hash;
  }
  uint64_t began = call_begins(hand->worker);
  struct history_op op = {.invoked = stamp_invoked(&run->stamps),
                          .thread = (uint16_t) hand->index,
                          .call = (uint8_t) call};
  if (n == 1)
    call_one(run->life.filter, call, hashes[0], &results[0]);
  else
    call_many(run->life.filter, call, hashes, n, results);
  op.returned = stamp_returned(&run->stamps);
  call_ends(hand->worker, began);
  for (size_t i = 0; i < n; i++) {
    op.result = (int8_t) results[i];
    note(hand, &requests[i], &op);
  }
  return n;
}

/* All begin at once: a barrier wakes one thread after the other. */
static void begin_together(struct run *run)
{
  atomic_fetch_add(&run->ready, 1);
  while (atomic_load(&run->ready) % run->threads)
    sched_yield();
}

static void sort_by_class(struct hand *hand)
{
  memset(hand->begin, 0, sizeof hand->begin);
  for (size_t i = 0; i < hand->n; i++)
    hand->begin[hand->entries[i].class + 1]++;
  for (unsigned class = 0; class < MOST_CLASSES; class ++)
    hand->begin[class + 1] += hand->begin[class];
  size_t next[MOST_CLASSES];
  memcpy(next, hand->begin, sizeof next);
  for (size_t i = 0; i < hand->n; i++)
    hand->sorted[next[hand->entries[i].class]++] = hand->entries[i].op;
}

static void play(struct hand *hand)
{
  struct run *run = hand->run;
  uint64_t calls = run->life.calls / run->threads + 1;
  hand->n = 0;
  begin_together(run);
  pauses_on(random_next(&hand->seed), run->rounds);
  for (uint64_t done = 0; done < calls && hand->wrong == 0;) {
    done += take_turn(hand);
    if (random_next(&hand->seed) % YIELD_PERIOD == 0)
      sched_yield();
  }
  pauses_off();
  sort_by_class(hand);
}

/* ---- checking ---- */

static void explain(struct hand *hand, unsigned class, const struct history *h)
{
  const struct run *run = hand->run;
  const struct life *life = &run->life;
  flockfile(stderr);
  fprintf(stderr,
          "not linearizable: class %u of %u, hash %" PRIu64
          ", variant %s, filter with seed %" PRIu64 ", round %" PRIu64 "\n",
          class, life->classes, life->hashes[class], variant_names[life->variant], life->seed,
          run->rounds);
  history_explain(stderr, hand->checker, h);
  funlockfile(stderr);
}

/* The calls of all threads, and a last look when all is quiet. */
static void check_class(struct hand *hand, unsigned class)
{
  struct run *run = hand->run;
  size_t n = 0;
  for (unsigned t = 0; t < run->threads; t++) {
    const struct hand *other = &run->hands[t];
    size_t more = other->begin[class + 1] - other->begin[class];
    if (more)
      memcpy(&hand->history[n], &other->sorted[other->begin[class]], more * sizeof *hand->history);
    n += more;
  }
  struct history_op last = {.thread = (uint16_t) hand->index,
                            .call = HISTORY_CONTAINS,
                            .invoked = stamp_invoked(&run->stamps)};
  last.result = tamis_contains_hash(run->life.filter, run->life.hashes[class]);
  last.returned = stamp_returned(&run->stamps);
  hand->history[n++] = last;
  struct history h = {hand->history, n, run->life.copies[class]};
  struct history_verdict verdict = history_check(hand->checker, &h);
  hand->overlapping += verdict.overlapping;
  hand->most_sets = verdict.most_sets > hand->most_sets ? verdict.most_sets : hand->most_sets;
  if (verdict.good) {
    run->life.copies[class] = history_copies_after(&h);
  } else {
    hand->wrong++;
    explain(hand, class, &h);
  }
}

static void check_classes(struct hand *hand)
{
  const struct run *run = hand->run;
  for (unsigned class = hand->index; class < run->life.classes; class += run->threads)
    check_class(hand, class);
}

/* ---- between rounds: one thread ---- */

static void complain(struct run *run, const char *what, uint64_t is, uint64_t should_be)
{
  fprintf(stderr, "%s: %" PRIu64 ", should be %" PRIu64 " (%s filter with seed %" PRIu64 ")\n",
          what, is, should_be, variant_names[run->life.variant], run->life.seed);
  run->wrong++;
}

static void add_up(struct run *run)
{
  struct variant_totals *totals = &run->totals[run->life.variant];
  totals->rounds++;
  for (unsigned t = 0; t < run->threads; t++) {
    struct hand *hand = &run->hands[t];
    run->wrong += hand->wrong;
    totals->operations += hand->n;
    run->operations += hand->n;
    totals->bystander_calls += hand->bystander_calls;
    totals->overlapping += hand->overlapping;
    if (hand->most_sets > totals->most_sets)
      totals->most_sets = hand->most_sets;
    for (unsigned i = 0; i < HISTORY_CALLS * OUTCOMES; i++)
      totals->tally[i / OUTCOMES][i % OUTCOMES] += hand->tally[i / OUTCOMES][i % OUTCOMES];
    memset(hand->tally, 0, sizeof hand->tally);
    hand->bystander_calls = hand->overlapping = hand->most_sets = 0;
  }
}

/* The count and the structure, while nobody calls. */
static void check_whole(struct run *run)
{
  const struct life *life = &run->life;
  const char *reason = NULL;
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(life->filter, &stats);
  uint64_t count = 0;
  for (unsigned i = 0; i < life->classes; i++)
    count += life->variant == BLOOM ? life->copies[i] > 0 : life->copies[i];
  if (life->variant == BLOOM) {
    /* A key that several add at once counts at most once; bystanders count as well. */
    if (stats.count > count + BLOOM_BYSTANDERS)
      complain(run, "count of keys", stats.count, count + BLOOM_BYSTANDERS);
    if (!filter_validate(life->filter, &reason))
      complain(run, reason, 1, 0);
    return;
  }
  for (unsigned t = 0; t < run->threads; t++)
    count += run->hands[t].held_n;
  if (stats.count != count)
    complain(run, "count of keys", stats.count, count);
  if (!filter_validate(life->filter, &reason))
    complain(run, reason, 1, 0);
}

/* Every copy can be taken out, and not one more. */
static void drain(struct run *run)
{
  struct life *life = &run->life;
  for (unsigned i = 0; i < life->classes; i++) {
    uint64_t taken = 0;
    while (taken <= life->copies[i] && tamis_remove_hash(life->filter, life->hashes[i]) == TAMIS_OK)
      taken++;
    if (taken != life->copies[i])
      complain(run, "copies of a class in the end", taken, life->copies[i]);
    life->copies[i] = 0;
  }
  for (unsigned t = 0; t < run->threads; t++)
    for (struct hand *hand = &run->hands[t]; hand->held_n; hand->held_n--)
      if (tamis_remove_hash(life->filter, hand->held[hand->held_n - 1]) != TAMIS_OK)
        complain(run, "bystanders that cannot be removed in the end", 1, 0);
}

static void end_life(struct run *run)
{
  struct life *life = &run->life;
  struct variant_totals *totals = &run->totals[life->variant];
  if (life->variant != BLOOM && !run->wrong) {
    if (!apart_holds(&life->apart, life->filter))
      error(2, 0, "the classes were not apart: a fault of this program");
    drain(run);
    check_whole(run);
  }
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(life->filter, &stats);
  if (life->variant != BLOOM) {
    totals->generations += stats.generations - 1;
    totals->splits += stats.growths - (stats.generations - 1);
    totals->joins += stats.joins;
    if (stats.generations > totals->most_generations)
      totals->most_generations = stats.generations;
  }
  totals->lives++;
  tamis_destroy(life->filter);
  life->filter = NULL;
}

/* ---- lives ---- */

/* The variant that is most behind its share, or the one that was asked for. */
static enum variant next_variant(const struct run *run)
{
  if (run->settings->variant != VARIANTS)
    return (enum variant) run->settings->variant;
  enum variant next = TINY;
  for (enum variant v = 0; v < VARIANTS; v++)
    if (run->totals[v].operations * variant_shares[next] <
        run->totals[next].operations * variant_shares[v])
      next = v;
  return next;
}

static int create_tiny(struct run *run, tamis_options *options)
{
  struct life *life = &run->life;
  uint64_t random = random_at(life->seed, 1);
  static const uint64_t few[] = {50, 1000, 0, 0};
  options->capacity = 1;
  life->distinct = few[random % 4];
  life->peak = ((UINT64_C(16) << random / 4 % 8) + run->threads - 1) / run->threads;
  life->rounds = 8;
  /* One in eight may not take more memory at some point: then older generations get new keys. */
  if (random / 32 % 8 == 0)
    options->max_bytes = 16384 + random / 256 % (1 << 18);
  struct cuckoo_geometry g = tiny_geometry(run->lives);
  int result;
  while ((result = tiny_create(options, &g, &life->filter)) == TAMIS_EFULL)
    options->max_bytes *= 2;
  return result;
}

/* Mostly with fingerprints longer than those of the second generation: then removes take entries of
 * the first one while adds put theirs into the second, and look-ups must not slip between them. */
static int create_opening(struct run *run, tamis_options *options)
{
  static const unsigned widths[] = {32, 21, 32, 12};
  struct life *life = &run->life;
  uint64_t random = random_at(life->seed, 1);
  struct cuckoo_geometry g = tiny_geometry(run->lives);
  options->capacity = 1;
  g.shape = bucket_shape(widths[random % 4], true);
  g.depth_limit = (unsigned) (random / 4 % 2);
  life->classes = OPENING_CLASSES;
  life->peak = 2 * cuckoo_directory_size(&g) * cuckoo_lanes(&g) / run->threads + 1;
  life->rounds = 2;
  life->calls = (run->settings->calls + 7) / 8;
  return tiny_create(options, &g, &life->filter);
}

static int create_grown(struct run *run, tamis_options *options)
{
  static const double rates[] = {0.05, 0.01, 0.001, 1e-6};
  static const uint64_t capacities[] = {1, 10, 100, 1000};
  struct life *life = &run->life;
  uint64_t random = random_at(life->seed, 1);
  options->capacity = capacities[random % 4];
  options->fpp = rates[random / 4 % 4];
  uint64_t peak = random / 16 % 4 ? 2000 : 40000;
  life->peak =
      peak / run->threads < MOST_HELD - MOST_BATCH ? peak / run->threads : MOST_HELD - MOST_BATCH;
  life->rounds = 4 + 6 * peak / run->settings->calls; /* up and down once, about */
  return tamis_create(options, &life->filter);
}

static int create_fixed(struct run *run, tamis_options *options)
{
  static const double rates[] = {0.05, 0.01, 0.001, 1e-6};
  struct life *life = &run->life;
  uint64_t random = random_at(life->seed, 1);
  options->growable = false;
  options->capacity = UINT64_C(16) << random % 8;
  options->fpp = rates[random / 8 % 4];
  life->peak = options->capacity * 5 / 4 / run->threads + 1;
  life->rounds = 4 + 6 * options->capacity / run->settings->calls;
  return tamis_create(options, &life->filter);
}

static int create_bloom(struct run *run, tamis_options *options)
{
  struct life *life = &run->life;
  uint64_t random = random_at(life->seed, 1), all[MOST_CLASSES + BLOOM_BYSTANDERS];
  options->kind = TAMIS_BLOOM;
  options->layout = random % 2 ? TAMIS_LAYOUT_BLOCKED : TAMIS_LAYOUT_CLASSIC;
  options->capacity = MOST_CLASSES + BLOOM_BYSTANDERS;
  options->fpp = random / 2 % 2 ? 0.01 : 1e-4;
  options->stripes = 1u << random / 4 % 4;
  life->classes = MOST_CLASSES;
  life->peak = MOST_HELD;
  life->rounds = 1;
  if (!apart_choose_bloom(options, life->seed, all, MOST_CLASSES + BLOOM_BYSTANDERS))
    error(2, 0, "found no keys for a Bloom filter: a fault of this program");
  memcpy(life->hashes, all, sizeof life->hashes);
  memcpy(life->bloom_bystanders, all + MOST_CLASSES, sizeof life->bloom_bystanders);
  return tamis_create(options, &life->filter);
}

static void begin_life(struct run *run)
{
  static int (*const create[])(struct run *, tamis_options *) = {
      create_tiny, create_opening, create_grown, create_fixed, create_bloom};
  struct life *life = &run->life;
  *life = (struct life){.variant = next_variant(run),
                        .seed = random_at(run->seed, run->lives) | 1,
                        .calls = run->settings->calls,
                        .classes = 1 + (unsigned) (run->lives % CUCKOO_CLASSES)};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.seed = life->seed;
  int result = create[life->variant](run, &options);
  if (result != TAMIS_OK)
    error(2, 0, "cannot create a filter: %s", tamis_strerror(result));
  if (life->variant != BLOOM) {
    life->apart = apart_of(life->filter);
    apart_choose(&life->apart, life->seed, life->hashes, life->classes);
  }
  /* Down to nothing, or to and fro at the top, where entries are moved most. */
  life->trough = life->peak * (uint64_t[]){0, 2, 6, 7}[random_at(life->seed, 2) % 4] / 8;
  for (unsigned t = 0; t < run->threads; t++) {
    run->hands[t].held_n = run->hands[t].fresh = 0;
    run->hands[t].rising = true;
  }
  run->lives++;
}

static struct mix next_mix(const struct run *run)
{
  /* add, add_unique, contains, remove: about none or one copy; a lock; many copies; few */
  static const struct mix mixes[] = {{.calls = {20, 10, 40, 30}},
                                     {.calls = {0, 35, 30, 35}},
                                     {.calls = {40, 10, 20, 30}},
                                     {.calls = {10, 10, 20, 60}},
                                     {.calls = {5, 5, 80, 10}}};
  static const struct mix bloom_mixes[] = {
      {.calls = {0, 60, 40, 0}}, {.calls = {20, 40, 40, 0}}, {.calls = {30, 10, 60, 0}}};
  uint64_t random = random_at(run->seed ^ 1, run->rounds);
  struct mix mix = run->life.variant == BLOOM ? bloom_mixes[random % 3] : mixes[random % 5];
  mix.class_percent = (unsigned[]){30, 60, 90}[random / 16 % 3];
  mix.hot_percent = (unsigned[]){0, 50, 90}[random / 64 % 3];
  mix.batch_percent = (unsigned[]){0, 5, 30}[random / 256 % 3];
  mix.hot = (unsigned) (random / 1024 % run->life.classes);
  return mix;
}

static bool is_over(const struct run *run)
{
  const struct harness_settings *s = &run->settings->shared;
  if (run->wrong)
    return true;
  if (!s->operations && !s->seconds)
    return run->rounds >= s->rounds;
  return (s->operations && run->operations >= s->operations) ||
         (s->seconds && harness_seconds() >= run->until);
}

/* Closes the round that was, and makes ready for the next one. */
static void turn_over(struct run *run)
{
  struct life *life = &run->life;
  if (life->filter) {
    add_up(run);
    if (!run->wrong)
      check_whole(run);
    run->stop = is_over(run);
    if (--life->rounds == 0 || run->stop)
      end_life(run);
  }
  if (run->stop)
    return;
  if (!life->filter)
    begin_life(run);
  run->rounds++;
  run->mix = next_mix(run);
}

static void work(struct worker *worker)
{
  struct run *run = worker->arg;
  struct hand *hand = &run->hands[worker->index];
  hand->worker = worker;
  hand->seed = worker->seed;
  for (;;) {
    if (worker->index == 0)
      turn_over(run);
    pthread_barrier_wait(&run->barrier);
    if (run->stop)
      return;
    play(hand);
    pthread_barrier_wait(&run->barrier);
    if (hand->wrong == 0)
      check_classes(hand);
    pthread_barrier_wait(&run->barrier);
  }
}

/* ---- the program ---- */

static void *get(size_t n, size_t size)
{
  void *block = calloc(n, size);
  if (!block)
    error(2, errno, "cannot start");
  return block;
}

static void open_hands(struct run *run)
{
  run->hands = aligned_alloc(64, run->threads * sizeof *run->hands);
  if (!run->hands)
    error(2, errno, "cannot start");
  size_t each = run->settings->calls / run->threads + 1 + MOST_BATCH;
  for (unsigned t = 0; t < run->threads; t++) {
    run->hands[t] =
        (struct hand){.run = run,
                      .index = t,
                      .entries = get(each, sizeof(struct entry)),
                      .sorted = get(each, sizeof(struct history_op)),
                      .held = get(MOST_HELD, sizeof(uint64_t)),
                      .checker = history_checker_create(),
                      .history = get(each * run->threads + 1, sizeof(struct history_op))};
    if (!run->hands[t].checker)
      error(2, errno, "cannot start");
  }
}

static void close_hands(struct run *run)
{
  for (unsigned t = 0; t < run->threads; t++) {
    struct hand *hand = &run->hands[t];
    free(hand->entries);
    free(hand->sorted);
    free(hand->held);
    free(hand->history);
    history_checker_destroy(hand->checker);
  }
  free(run->hands);
}

static void print_totals(const struct run *run, double seconds)
{
  static const char *const calls[] = {"add", "add_unique", "contains", "remove"};
  static const char *const outcomes[][2] = {
      {"", "OK"}, {"PRESENT", "OK"}, {"false", "true"}, {"ABSENT", "OK"}};
  for (enum variant v = 0; v < VARIANTS; v++) {
    const struct variant_totals *t = &run->totals[v];
    if (!t->lives)
      continue;
    printf("%s: %" PRIu64 " filters, %" PRIu64 " rounds, %" PRIu64
           " calls checked, %.0f %% of them "
           "overlapping, %" PRIu64 " calls on bystanders\n",
           variant_names[v], t->lives, t->rounds, t->operations,
           100 * (double) t->overlapping / (double) (t->operations + 1), t->bystander_calls);
    if (v != BLOOM)
      printf("  %" PRIu64 " splits, %" PRIu64 " joins, %" PRIu64
             " new generations, at most %" PRIu64 " at a time\n",
             t->splits, t->joins, t->generations, t->most_generations);
    for (unsigned call = 0; call < HISTORY_CALLS; call++) {
      if (!(t->tally[call][0] + t->tally[call][1]))
        continue;
      printf("  %-10s", calls[call]);
      for (unsigned outcome = 0; outcome < 2; outcome++)
        if (*outcomes[call][outcome])
          printf("  %" PRIu64 " %s", t->tally[call][outcome], outcomes[call][outcome]);
      if (t->tally[call][2])
        printf("  %" PRIu64 " failed", t->tally[call][2]);
      printf("\n");
    }
    printf("  at most %" PRIu64 " sets of pending calls in the search\n", t->most_sets);
  }
  printf("%" PRIu64 " calls checked in %.1f s: %.0f a second\n", run->operations, seconds,
         (double) run->operations / seconds);
}

int main(int argc, char **argv)
{
  static struct run run;
  struct settings s = {.shared = {.threads = 4, .rounds = 400}, .calls = 4000, .variant = VARIANTS};
  const struct harness_option options[] = {
      {"calls", 'c', "Calls of a round, over all threads (default: 4000)", .number = &s.calls,
       .least = 1, .most = 1000000},
      {"variant", 'v', "tiny, opening, grown, fixed, bloom, or all, the default",
       .choice = &s.variant, .choice_names = variant_names},
      {0}};
  harness_parse("Checks that all calls on a filter are linearizable.", options, argc, argv,
                &s.shared);
  double begin = harness_seconds();
  run.settings = &s;
  run.seed = s.shared.seed;
  run.threads = (unsigned) s.shared.threads;
  /* Even if a batch is all of one class, no more calls are pending than the search takes. */
  run.batch = HISTORY_MOST_PENDING / run.threads;
  run.batch = run.batch < MOST_BATCH ? run.batch : MOST_BATCH;
  run.until = begin + (double) s.shared.seconds;
  open_hands(&run);
  int failure = pthread_barrier_init(&run.barrier, NULL, run.threads);
  if (failure)
    error(2, failure, "cannot start");
  pauses_install(PAUSE_PERIOD);
  struct worker workers[MAX_THREADS];
  harness_run(run.threads, run.seed, work, &run, workers);
  pthread_barrier_destroy(&run.barrier);
  print_totals(&run, harness_seconds() - begin);
  close_hands(&run);
  return harness_verdict(&s.shared, run.wrong == 0);
}
