/* SPDX-License-Identifier: MIT
 *
 * Each figure of struct tamis_stats, next to what stress-random knows itself: from the answers of
 * all calls, from what the allocator has out, and from a walk through all bits or buckets.
 */
#include "bloom/bloom.h"
#include "cuckoo/cuckoo.h"
#include "cuckoo/directory.h"
#include "line_rate.h"
#include "random.h"
#include "window/layers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double deviations = 6.5;

/* What the figures are to be, where that is known exactly; and what bounds the others. */
struct truth {
  tamis_stats s;
  double keys;      /* distinct ones of the schedule */
  double copies;    /* of them */
  double rate;      /* of absent keys, from all bits or entries */
  double rate_from; /* the deviation of what it is computed from; 0: it is exact */
  double deviation; /* of estimated_count */
  double sampled;   /* bits_set is of a part: the deviation of what was found there; 0: of all */
  uint64_t entries; /* on which `rate` is based */
};

/* ---- Bloom ---- */

static uint64_t count_bits(const struct bloom *b)
{
  uint64_t bits = 0, keys = bloom_key_bits(b->layout);
  for (uint64_t i = 0; i < b->word_count; i++)
    bits += (unsigned) __builtin_popcountll(
        bloom_positions_set(word_load(&b->words[i]) & keys, b->layout));
  return bits;
}

/* As tamis_similarity(3) says: sqrt(m (e^x - x - 1)) / k with x = k n / m, up to a third more. */
static double deviation_of_layer(const struct bloom *b, uint64_t positions_set)
{
  const struct bloom_shape shape = bloom_shape_of(b);
  double m = (double) b->word_count * (64.0 / bloom_shape_width(shape));
  double k = bloom_shape_bits_per_key(shape), set = fmin((double) positions_set, m - 1);
  double x = -log1p(-set / m);
  return 4.0 / 3 * sqrt(m * fmax(0, exp(x) - x - 1)) / k;
}

/* The bits of a key are in a line of each section. */
enum { SAMPLED_LINES = SMALL(4096, 256), SAMPLED_BITS = SAMPLED_LINES * LINE_BITS };
static double deviation_of_sample(const struct bloom *b, uint64_t positions_set)
{
  double lines = (double) b->word_count / LINE_WORDS;
  double keys = (double) positions_set / bloom_shape_bits_per_key(bloom_shape_of(b));
  return sqrt(keys * lines / SAMPLED_LINES);
}

static void look_at_bloom(const struct run *run, struct truth *t)
{
  const struct bloom *layer = newest_layer(const_bloom_of(run->filter));
  double none = 1, variance = 0;
  t->s.bits_per_key = bloom_shape_bits_per_key(bloom_shape_of(layer));
  for (; layer; layer = bloom_older(layer)) {
    const unsigned width = bloom_shape_width(bloom_shape_of(layer));
    uint64_t set = count_bits(layer);
    double deviation, rate = rate_of_filter(layer, &deviation);
    t->s.layers++;
    t->s.bits += layer->word_count * 64;
    t->s.bits_set += set * width;
    if (layer->word_count / LINE_WORDS > SAMPLED_LINES)
      t->sampled += deviation_of_sample(layer, set);
    none *= 1 - rate;
    t->rate_from += deviation;
    variance += pow(deviation_of_layer(layer, set), 2);
  }
  t->rate = 1 - none;
  t->entries = t->s.bits / LINE_BITS;
  t->deviation = sqrt(variance) / fmax(none, 1e-9);
  t->s.growths = t->s.layers - 1;
}

/* ---- cuckoo ---- */

/* The part of absent keys that matches an entry of this segment.  A root of s of the 128 cells gets
 * s / 128 of the keys, and its entries match 32 / s times as many: see rate_of() in geometry.c. */
static double rate_of_segment(const struct cuckoo_geometry *g, const struct segment *segment,
                              uint64_t *entries)
{
  double sum = 0;
  for (uint32_t i = 0; i < cuckoo_buckets(g); i++) {
    uint64_t value = word_load(&segment_words(g, segment)[i]);
    for (unsigned lane = 0; lane < g->shape.lanes; lane++) {
      uint64_t entry = lane_get(&g->shape, value, lane);
      if (!entry)
        continue;
      ++*entries;
      sum += ldexp(1, (int) bucket_age(&g->shape, entry) + g->shape.ages - g->shape.width);
    }
  }
  double of_root = ldexp(1, -g->root_shift) / (double) g->first_roots;
  int prefix_bits = (int) cuckoo_prefix_bits(g, segment->depth);
  return of_root * ldexp(2 * sum / (double) cuckoo_buckets(g), -prefix_bits);
}

static void look_at_cuckoo(const struct run *run, struct truth *t)
{
  const struct cuckoo *c = const_cuckoo_of(run->filter);
  uint64_t roots = 0, lanes = 0;
  t->s.layers = 1;
  t->s.generations = cuckoo_generations(c);
  for (unsigned i = 0; i < t->s.generations; i++) {
    const struct generation *generation = cuckoo_generation(c, i);
    const struct cuckoo_geometry *first = &generation->geometry;
    struct segment_cursor cursor = {0};
    const struct segment *segment;
    t->s.fingerprint_bits = first->shape.width - first->shape.ages;
    while ((segment = segment_next(generation, &cursor))) {
      const struct cuckoo_geometry *g = segment_geometry(generation, segment);
      t->s.segments++;
      roots += (cursor.first & ((UINT64_C(1) << g->depth_limit) - 1)) == 0;
      lanes += cuckoo_lanes(g);
      t->rate += rate_of_segment(g, segment, &t->entries);
    }
  }
  t->s.occupancy = lanes ? (double) t->entries / (double) lanes : 0;
  /* Each split makes one segment more of a root, and each join one less. */
  t->s.growths = t->s.segments - roots + t->s.generations - 1;
}

/* ---- windows ---- */

static void look_at_window(const struct run *run, struct truth *t)
{
  const struct window *w = const_window_of(run->filter);
  uint64_t epoch = epoch_read(&w->state->epoch), lanes = 0;
  const struct window_layer *layer = window_newest(w, epoch);
  double none = 1;
  t->s.growths = atomic_load(&w->growths);
  t->s.fingerprint_bits = window_fingerprint_bits(&layer->geometry.shape);
  for (; layer; layer = window_next(layer, epoch)) {
    const struct window_geometry *g = &layer->geometry;
    uint64_t used = 0;
    for (uint64_t i = 0; i < g->segments * window_segment_buckets(g); i++)
      for (unsigned lane = 0; lane < g->shape.lane.lanes; lane++)
        used += lane_get(&g->shape.lane, window_load(layer, i), lane) != 0;
    t->s.layers++;
    t->s.bits += window_words(g) * 64;
    t->entries += used;
    lanes += window_lanes(g);
    none *= 1 - fmin(1, window_geometry_rate(g, used));
  }
  t->rate = 1 - none;
  t->s.occupancy = (double) t->entries / (double) lanes;
}

/* ---- what the figures are to be ---- */

static struct truth look(const struct run *run)
{
  const tamis_options *o = &run->configuration.options;
  uint64_t ended = atomic_load(&run->ended);
  struct truth t = {.s = {.struct_size = sizeof t.s,
                          .capacity = o->capacity,
                          .fpp = o->fpp,
                          .kind = o->kind,
                          .seed = o->seed,
                          .refused_adds = atomic_load(&run->refusals),
                          .parts = o->window + 1,
                          .oldest_part_age = ended < o->window ? ended : o->window,
                          .period = ended}};
  for (uint64_t key = 0; key < run->all; key++) {
    t.keys += run->copies[key] > 0;
    t.copies += run->copies[key];
  }
  if (keeps_all(run))
    t.s.layout = o->layout;
  (has_window(run)           ? look_at_window
   : o->kind == TAMIS_CUCKOO ? look_at_cuckoo
                             : look_at_bloom)(run, &t);
  return t;
}

/* ---- judges, where there is more to say than that a figure is exact ---- */

typedef bool judge(const struct run *run, const tamis_stats *s, const struct truth *t);

static bool is_cuckoo(const struct run *run)
{
  return run->configuration.options.kind == TAMIS_CUCKOO || has_window(run);
}

/* check_count() has more. */
static bool count_is_good(const struct run *run, const tamis_stats *s, const struct truth *t)
{
  return is_bloom(run) || has_window(run) || (double) s->count == t->copies;
}

static bool bytes_are_good(const struct run *run, const tamis_stats *s, const struct truth *t)
{
  const tamis_options *o = &run->configuration.options;
  if (run->configuration.memory != SYSTEM_MEMORY)
    return s->bytes == atomic_load(&run->ledger.bytes);
  return s->bytes >= t->s.bits / 8 && (!o->max_bytes || s->bytes <= o->max_bytes) &&
         (o->kind == TAMIS_CUCKOO || t->s.growths || s->bytes == run->needed);
}

/* How many segments have been joined is not seen from those that there are, but it makes the number
 * of splits. */
static bool growths_are_good(const struct run *run, const tamis_stats *s, const struct truth *t)
{
  return s->growths == t->s.growths + s->joins &&
         (run->configuration.options.growable || s->growths == 0);
}

static bool joins_are_good(const struct run *run, const tamis_stats *s, const struct truth *t)
{
  bool joins = !has_window(run) && run->configuration.options.growable &&
               run->configuration.options.kind == TAMIS_CUCKOO;
  return s->joins + t->s.growths == s->growths && (joins || s->joins == 0);
}

static bool load_is_good(const struct run *run, const tamis_stats *s, const struct truth *t)
{
  (void) run;
  return s->load == s->estimated_count / (double) t->s.capacity;
}

static bool estimate_is_good(const struct run *run, const tamis_stats *s, const struct truth *t)
{
  if (is_cuckoo(run))
    return s->estimated_count == (double) s->count;
  /* Keys that a false positive hid are estimated from their number.  Of those that were offered to
   * a full filter, some are in as a false positive, and have set no bit.  In a race, two layers may
   * get a key. */
  double hidden = sqrt(t->keys * t->rate);
  double most = deviations * (t->deviation + hidden + t->sampled) + 2 +
                (double) run->configuration.threads * t->s.layers;
  double unset = t->rate * (double) t->s.refused_adds;
  return s->estimated_count <= t->keys + most &&
         s->estimated_count >= t->keys - most - 2 * unset - deviations * sqrt(unset);
}

/* Small filters differ too much from the average.  Entries that came before their segment split know
 * less than those that came later, and removes may leave either. */
static bool rate_is_good(const struct run *run, const tamis_stats *s, const struct truth *t)
{
  enum { FEW_LINES = 64, FEW_ENTRIES = 500 };
  const double factor = run->phase < MIX ? 2 : 5;
  double estimate = s->fpp_estimate;
  if (!(estimate >= 0 && estimate <= 1) || (t->entries == 0 && estimate != 0))
    return false;
  if (has_window(run))
    return fabs(estimate - t->rate) <= (t->s.bits > SAMPLED_BITS ? 0.1 : 1e-6) * t->rate;
  if (run->configuration.options.kind == TAMIS_CUCKOO)
    return t->entries < FEW_ENTRIES ||
           (estimate <= factor * t->rate && t->rate <= factor * estimate);
  double most = 0.1 * t->rate + 1.2 * deviations * t->rate_from;
  return t->entries < FEW_LINES || t->rate < 1e-9 || t->sampled > 0 ||
         fabs(estimate - t->rate) <= most;
}

static bool bits_set_are_good(const struct run *run, const tamis_stats *s, const struct truth *t)
{
  (void) run;
  double most = deviations * t->sampled * t->s.bits_per_key * COUNTER_BITS;
  return fabs((double) s->bits_set - (double) t->s.bits_set) <= most;
}

/* A single thread moves entries once for an add and generation. */
static bool evictions_are_good(const struct run *run, const tamis_stats *s, const struct truth *t)
{
  uint64_t most = atomic_load(&run->adds) * (t->s.generations + 1);
  return is_cuckoo(run) ? run->configuration.threads > 1 || s->evictions <= most
                        : s->evictions == 0;
}

/* It searches once more where it grows, or the key is refused. */
static bool searches_are_good(const struct run *run, const tamis_stats *s, const struct truth *t)
{
  uint64_t most = 2 * atomic_load(&run->adds) * (t->s.generations + 1);
  if (!is_cuckoo(run))
    return s->failed_searches == 0;
  return (run->configuration.threads > 1 || s->failed_searches <= most) &&
         (s->failed_searches || !s->growths);
}

/* A single thread repeats the look-ups of a batch of unique adds that opens a generation. */
static bool retries_are_good(const struct run *run, const tamis_stats *s, const struct truth *t)
{
  const uint64_t opened = t->s.generations > 1 ? t->s.generations - 1 : 0; /* 0 in a window */
  const uint64_t most = opened * run->configuration.longest_batch;
  return is_cuckoo(run) ? run->configuration.threads > 1 || s->lookup_retries <= most
                        : s->lookup_retries == 0;
}

static bool longest_is_good(const struct run *run, const tamis_stats *s, const struct truth *t)
{
  (void) t;
  bool steps = run->configuration.options.kind == TAMIS_CUCKOO && !has_window(run);
  return s->longest_growth_ns <= (steps ? harness_nanoseconds() - run->created : 0) &&
         (!steps || !s->growths || s->longest_growth_ns);
}

/* ---- the table ---- */

static const struct figure {
  size_t offset, size;
  bool is_real;
  judge *judge; /* NULL: the figure is exact */
  const char *name;
} figures[] = {
#define FIGURE(name, judge)                                         \
  {                                                                 \
    offsetof(tamis_stats, name), sizeof(((tamis_stats *) 0)->name), \
        _Generic(((tamis_stats *) 0)->name, double                  \
                 : true, default                                    \
                 : false),                                          \
        judge, #name                                                \
  }
    FIGURE(struct_size, NULL),
    FIGURE(count, count_is_good),
    FIGURE(capacity, NULL),
    FIGURE(bytes, bytes_are_good),
    FIGURE(growths, growths_are_good),
    FIGURE(load, load_is_good),
    FIGURE(fpp_estimate, rate_is_good),
    FIGURE(fpp, NULL),
    FIGURE(estimated_count, estimate_is_good),
    FIGURE(bits, NULL),
    FIGURE(bits_set, bits_set_are_good),
    FIGURE(bits_per_key, NULL),
    FIGURE(kind, NULL),
    FIGURE(layout, NULL),
    FIGURE(seed, NULL),
    FIGURE(segments, NULL),
    FIGURE(joins, joins_are_good),
    FIGURE(generations, NULL),
    FIGURE(fingerprint_bits, NULL),
    FIGURE(occupancy, NULL),
    FIGURE(evictions, evictions_are_good),
    FIGURE(failed_searches, searches_are_good),
    FIGURE(refused_adds, NULL),
    FIGURE(lookup_retries, retries_are_good),
    FIGURE(longest_growth_ns, longest_is_good),
    FIGURE(layers, NULL),
    FIGURE(parts, NULL),
    FIGURE(oldest_part_age, NULL),
    FIGURE(united_count, NULL), /* there are no unions here */
    FIGURE(period, NULL),
#undef FIGURE
};
enum { FIGURES = sizeof figures / sizeof *figures };

/* A field that the table lacks leaves a hole between two others, or at the end. */
static bool table_is_whole(void)
{
  size_t end = 0;
  for (const struct figure *f = figures; f < figures + FIGURES; end = f->offset + f->size, f++)
    if (f->offset != (end + f->size - 1) / f->size * f->size)
      return false;
  return end == sizeof(tamis_stats);
}

static uint64_t value_of(const struct figure *figure, const tamis_stats *s)
{
  uint64_t value = 0;
  memcpy(&value, (const char *) s + figure->offset, figure->size);
  return value;
}

static void print(const struct figure *figure, const tamis_stats *s, const struct truth *t)
{
  double real;
  uint64_t value = value_of(figure, s);
  memcpy(&real, &value, sizeof real);
  fprintf(stderr,
          "%s is %.9g; known: %.0f copies of %.0f keys, %" PRIu64 " entries, a rate of %g\n",
          figure->name, figure->is_real ? real : (double) value, t->copies, t->keys, t->entries,
          t->rate);
}

void check_each_figure(struct run *run)
{
  tamis_stats s = TAMIS_STATS_INIT;
  require(run, table_is_whole(), "not each figure is in the table: a bug of this program", 0);
  require(run, tamis_get_stats(run->filter, &s) == TAMIS_OK, "there are no figures", 0);
  const struct truth t = look(run);
  for (const struct figure *f = figures; f < figures + FIGURES; f++)
    if (!(f->judge ? f->judge(run, &s, &t) : value_of(f, &s) == value_of(f, &t.s))) {
      run_wrong(run, "a figure is wrong, of those in the table", (uint64_t) (f - figures));
      print(f, &s, &t);
    }
}
