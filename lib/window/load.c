/* SPDX-License-Identifier: MIT
 *
 * Layer 2: loads saved windows, which save.c writes.
 *
 * A file may contain anything.  So a load allocates the memory for words as they arrive, checks all
 * numbers before it uses them, and counts lanes again.  It also checks the rule that look-ups rely
 * on: only one lane of a bucket pair has a given fingerprint (bucket.h).
 */
#include "window/save.h"

#include "base/memory.h"
#include "window/copies.h"
#include "window/counted.h"
#include "window/create.h"
#include "window/layers.h"

struct content {
  struct window_geometry geometry;
  unsigned index;
  uint64_t *words; /* no other thread uses them yet */
  struct lane_counts counts;
};

struct load {
  struct saved_reader *r;
  const struct saved_head *saved;
  /* The plan of the filter's first layer, whose memory is never released.  Usually this is the
   * oldest layer in the file.  If `apart`, the oldest is larger than a new filter's first layer:
   * the load makes an empty first layer outside the list, and the oldest can be released later. */
  struct window_plan plan;
  bool apart;
  unsigned stamps;      /* the number of stamps, G + 2 */
  uint64_t first, last; /* the periods in which the save began, and in which it has come so far */
  uint64_t lanes, segments, bytes; /* totals so far; `bytes` includes bytes_beside() */
  /* For each of the last G + 2 periods p, at index p % (G + 2): how many segments were copied in
   * earlier periods. */
  uint64_t before[WINDOW_MOST_PERIODS + 2];
  uint64_t further; /* the number of copies beyond each key's first */
  unsigned n;
  struct content layers[WINDOW_MOST_LAYERS];
};

/* Returns false for a counted table whose numbers are not those of counted.h. */
static bool clock_is_right(const struct load *l)
{
  const uint64_t *g = l->saved->geometry;
  return !l->plan.counted ||
         (g[SAVED_WINDOW_PERIODS] == COUNTED_PERIODS && g[SAVED_WINDOW_STAMP] == COUNTED_NOW &&
          !g[SAVED_WINDOW_PERIOD] && !g[SAVED_WINDOW_RENEWS] && !g[SAVED_WINDOW_GROWTHS] &&
          !l->plan.spec.growable);
}

bool tamis__window_get_layer(unsigned periods, const uint64_t *numbers, struct window_geometry *g,
                             unsigned *index)
{
  if (numbers[SAVED_LAYER_SHAPE] >= WINDOW_SHAPES || numbers[SAVED_LAYER_SEGMENTS] >> 53 ||
      numbers[SAVED_LAYER_HALF] >> 53 || numbers[SAVED_LAYER_CAPACITY] >> 53 ||
      !numbers[SAVED_LAYER_INDEX] || numbers[SAVED_LAYER_INDEX] >= WINDOW_MOST_LAYERS)
    return false;
  *index = (unsigned) numbers[SAVED_LAYER_INDEX];
  *g = (struct window_geometry){.shape_index = (unsigned) numbers[SAVED_LAYER_SHAPE],
                                .segments = numbers[SAVED_LAYER_SEGMENTS],
                                .half = numbers[SAVED_LAYER_HALF],
                                .capacity = numbers[SAVED_LAYER_CAPACITY]};
  return window_geometry_restore(periods, g) && g->capacity <= window_lanes(g);
}

static void choose_first_layer(struct load *l)
{
  struct window_plan *p = &l->plan;
  const struct content *oldest = &l->layers[0];
  l->apart = p->spec.growable && window_geometry_plan(&p->spec, &p->geometry) == TAMIS_OK &&
             window_bytes(&p->geometry) < window_bytes(&oldest->geometry);
  if (!l->apart) {
    p->geometry = oldest->geometry;
    p->index = oldest->index;
  }
}

static bool read_numbers(const struct saved_head *saved, struct load *l)
{
  const uint64_t *g = saved->geometry;
  const tamis_options *o = &saved->options;
  for (unsigned i = SAVED_WINDOW_NUMBERS; i < SAVED_GEOMETRY; i++)
    if (g[i])
      return false;
  l->plan = tamis__window_plan_of(o);
  l->plan.cleared_from = o->cleared_from;
  l->stamps = window_stamps(l->plan.spec.periods);
  l->first = g[SAVED_WINDOW_PERIOD];
  bool good = g[SAVED_WINDOW_PERIODS] && g[SAVED_WINDOW_PERIODS] <= WINDOW_MOST_PERIODS &&
              g[SAVED_WINDOW_RENEWS] <= 1 && l->first <= window_most_period &&
              g[SAVED_WINDOW_STAMP] && g[SAVED_WINDOW_STAMP] <= l->stamps &&
              g[SAVED_WINDOW_LAYERS] &&
              g[SAVED_WINDOW_LAYERS] < (o->growable ? WINDOW_MOST_LAYERS : 2) &&
              g[SAVED_WINDOW_GROWTHS] <= INT32_MAX &&
              (o->kind == TAMIS_CUCKOO || !g[SAVED_WINDOW_FURTHER]) &&
              o->layout == TAMIS_LAYOUT_BLOCKED && clock_is_right(l) &&
              tamis__window_get_layer(l->plan.spec.periods, &g[SAVED_WINDOW_OLDEST],
                                      &l->layers[0].geometry, &l->layers[0].index);
  if (good)
    choose_first_layer(l);
  return good;
}

/* The bytes of the filter without the newer layers, and without the words of the oldest layer. */
static uint64_t bytes_beside(const struct load *l)
{
  const struct window_plan *p = &l->plan;
  const uint64_t all = tamis__window_total_bytes(p), words = window_bytes(&p->geometry);
  return l->apart ? all + window_layer_bytes(p->copies) : all - words;
}

static unsigned stamp_of(const struct load *l, uint64_t period)
{
  uint64_t first = l->saved->geometry[SAVED_WINDOW_STAMP] - 1;
  return 1 + (unsigned) ((first + (period - l->first) % l->stamps) % l->stamps);
}

/* Follows the save to a period in which it copies the next segment, or ends. */
static void follow_to(struct load *l, uint64_t period)
{
  if (period > l->last + l->stamps)
    l->last = period - l->stamps;
  while (l->last < period)
    l->before[++l->last % l->stamps] = l->segments;
}

/* Checks a segment that was copied in the period l->last. */
static bool check_segment(struct load *l, const struct content *c, uint64_t segment)
{
  const struct window_geometry *g = &c->geometry;
  const uint64_t n = window_segment_words(g);
  unsigned dead = epoch_next_stamp(stamp_of(l, l->last), l->stamps);
  for (uint64_t i = segment * n; i < (segment + 1) * n; i++) {
    if (c->words[i] != (c->words[i] & whole_lanes(&g->whole, c->words[i], l->stamps, dead)) ||
        !lanes_are_alone(g, (const word *) c->words, i))
      return false;
    l->lanes += lanes_count(window_used(&g->whole, c->words[i]));
    if (l->plan.counted)
      l->further += counted_further(&g->whole, c->words[i]);
  }
  return true;
}

/* Clears the entries of a segment that were forgotten after it was copied.  The segment is the one
 * with this number in the file. */
static void forget(const struct load *l, const struct content *c, uint64_t segment, uint64_t number)
{
  const struct window_shape *s = &c->geometry.whole;
  const uint64_t n = window_segment_words(&c->geometry);
  unsigned since = 0; /* how many periods ended after the copy, but at most G + 1 */
  while (since <= l->plan.spec.periods && number < l->before[(l->last - since) % l->stamps])
    since++;
  const unsigned now = stamp_of(l, l->last + l->stamps - since);
  for (uint64_t i = segment * n; i < (segment + 1) * n && since; i++)
    for (uint64_t used = window_used(s, c->words[i]); used; used &= used - 1) {
      unsigned stamp =
          window_stamp_of(s, lane_get(&s->lane, c->words[i], lanes_first(&s->lane, used)));
      unsigned age = now >= stamp ? now - stamp : now + l->stamps - stamp;
      if (age + since > l->plan.spec.periods)
        c->words[i] &= ~lanes_bits(&s->lane, used & -used);
    }
}

static int load_words(struct load *l, struct content *c)
{
  uint64_t bytes = window_bytes(&c->geometry);
  uint64_t limit = l->saved->limit;
  l->bytes += l->n ? window_layer_bytes(l->plan.copies) : 0;
  if (limit && (bytes > limit || l->bytes > limit - bytes))
    return TAMIS_EFULL;
  struct saved_memory m = {.limit = limit ? limit - l->bytes : 0};
  int result = tamis__saved_read_array(l->r, bytes, &m);
  if (result != TAMIS_OK) {
    tamis__memory_release(&l->r->allocator, m.block, m.bytes);
    return result;
  }
  c->words = (uint64_t *) (void *) m.block;
  saved_swap(c->words, bytes / 8);
  for (uint64_t i = window_words(&c->geometry); i < bytes / 8; i++)
    if (c->words[i])
      result = TAMIS_ECORRUPT;
  l->bytes += bytes;
  return result;
}

/* Reads the numbers of the periods in which segments were copied, which must not decrease, and
 * checks the segments. */
static int load_segments(struct load *l, const struct content *c, unsigned number)
{
  const uint64_t segments = c->geometry.segments;
  for (uint64_t i = 0, done = 0; done < segments;) {
    struct saved_block block;
    int result = tamis__image_read_row(l->r, SAVED_WINDOW_COPIED, number, segments, &done, &block);
    if (result != TAMIS_OK)
      return result;
    for (const unsigned char *at = block.payload; i < done; i++, at += 8) {
      const uint64_t copied = saved_get64(at);
      if (copied < l->last || copied > window_most_period)
        return TAMIS_ECORRUPT;
      follow_to(l, copied);
      if (!check_segment(l, c, i))
        return TAMIS_ECORRUPT;
      l->segments++;
    }
  }
  return TAMIS_OK;
}

/* Reads a layer's counts into c->counts, where they stay until the filter exists.  max_bytes does
 * not limit this memory. */
static int load_counts(struct load *l, struct content *c, unsigned number)
{
  struct image_table table = {.shape = &c->geometry.whole.lane,
                              .words = c->words,
                              .n = window_words(&c->geometry),
                              .table = number};
  struct lane_counts_reader r;
  int result;
  while ((result = tamis__image_load_counts(l->r, &table, &r, &l->further)) == TAMIS_OK) {
    if (!l->plan.copies)
      return TAMIS_ECORRUPT;
    /* A block's first count may skip more lanes in c->counts than in the block, and take more
     * bytes. */
    size_t most = (size_t) (r.end - r.at) + IMAGE_COUNT_BYTES;
    if (!tamis__lane_counts_reserve(&c->counts, &l->r->allocator, most))
      return TAMIS_ENOMEM;
    while (lane_counts_next(&r))
      lane_counts_add(&c->counts, r.lane, r.count);
  }
  return result == TAMIS_ABSENT ? TAMIS_OK : result;
}

static int load_layer_numbers(struct load *l, struct content *c)
{
  struct saved_block block;
  uint64_t numbers[SAVED_LAYER_NUMBERS];
  int result = tamis__saved_read_block(l->r, &block);
  if (result != TAMIS_OK)
    return result;
  if (!tamis__image_is(&block, SAVED_WINDOW_LAYER, (uint64_t[SAVED_MEANINGS]){l->n},
                       SAVED_LAYER_NUMBERS))
    return TAMIS_ECORRUPT;
  image_get(numbers, block.payload, SAVED_LAYER_NUMBERS);
  bool good = tamis__window_get_layer(l->plan.spec.periods, numbers, &c->geometry, &c->index);
  for (unsigned i = 0; i < l->n; i++)
    good &= l->layers[i].index != c->index;
  return good ? TAMIS_OK : TAMIS_ECORRUPT;
}

static int load_layer(struct load *l)
{
  struct content *c = &l->layers[l->n];
  int result = l->n ? load_layer_numbers(l, c) : TAMIS_OK;
  if (result == TAMIS_OK)
    result = load_words(l, c);
  if (result == TAMIS_OK)
    result = load_segments(l, c, l->n);
  l->n++; /* from now on the caller releases the memory of *c */
  return result == TAMIS_OK ? load_counts(l, c, l->n - 1) : result;
}

/* Loads the layers, of which the file may have fewer than its header says. */
static int load_layers(struct load *l)
{
  int result;
  uint32_t type;
  do {
    result = load_layer(l);
    if (result == TAMIS_OK)
      result = tamis__saved_peek(l->r, &type);
  } while (result == TAMIS_OK && l->n < l->saved->geometry[SAVED_WINDOW_LAYERS] &&
           type == SAVED_WINDOW_LAYER);
  return result;
}

static int load_end(struct load *l)
{
  uint64_t totals[SAVED_TOTALS];
  int result = tamis__saved_read_end(l->r, totals);
  if (result != TAMIS_OK)
    return result;
  if (totals[TOTAL_WINDOW_LANES] != l->lanes || totals[TOTAL_WINDOW_PERIOD] < l->last ||
      totals[TOTAL_WINDOW_PERIOD] > (l->plan.counted ? 0 : window_most_period) ||
      totals[TOTAL_WINDOW_FURTHER] != l->further)
    return TAMIS_ECORRUPT;
  follow_to(l, totals[TOTAL_WINDOW_PERIOD]);
  uint64_t number = 0;
  for (unsigned i = 0; i < l->n; i++)
    for (uint64_t j = 0; j < l->layers[i].geometry.segments; j++)
      forget(l, &l->layers[i], j, number++);
  return TAMIS_OK;
}

/* Needs no stripes, as no other thread uses the filter yet. */
static void count_lanes(struct window *w, const struct window_layer *layer)
{
  for (uint64_t i = 0; i < window_words(&layer->geometry); i++) {
    struct window_stripe *stripe = window_stripe_of_block(w, i >> layer->block_shift);
    const uint64_t value = word_load(&layer->words[i]);
    window_use(stripe, (int64_t) lanes_count(window_used(&layer->geometry.whole, value)));
    if (window_is_counted(w))
      window_count_copies(stripe, counted_further(&layer->geometry.whole, value));
  }
}

static int create(struct load *l, const struct tamis_filter *head, struct window **out)
{
  struct window_plan plan = l->plan;
  plan.max_bytes = l->saved->limit;
  plan.words = l->apart ? NULL : (word *) l->layers[0].words;
  struct window *w = *out = tamis__window_create(head, &plan);
  int result = w ? TAMIS_OK : TAMIS_ENOMEM;
  if (!w)
    return result;
  if (!l->apart)
    l->layers[0].words = NULL;
  uint64_t epoch = epoch_make(l->last, 0, false, stamp_of(l, l->last), l->stamps);
  atomic_store_explicit(&w->state->epoch, epoch,
                        /* relaxed, here and below, as no other thread uses the filter yet. */
                        memory_order_relaxed);
  atomic_store_explicit(&w->state->numbers, epoch_numbers(epoch, l->last), memory_order_relaxed);
  for (unsigned i = !l->apart; i < l->n && result == TAMIS_OK; i++) {
    struct content *c = &l->layers[i];
    result = tamis__window_add_layer(w, &c->geometry, c->index, (word *) c->words);
    if (result == TAMIS_OK)
      c->words = NULL; /* the layer owns them now */
  }
  if (l->apart && result == TAMIS_OK)
    tamis__window_let_leave(w, (struct window_layer *[]){&w->first}, 1);
  atomic_store_explicit(&w->growths, l->saved->geometry[SAVED_WINDOW_GROWTHS] + l->n - 1,
                        memory_order_relaxed);
  struct window_layer *newest = window_layer_at(&w->newest), *layer;
  for (layer = newest; layer; layer = window_layer_at(&layer->older))
    count_lanes(w, layer);
  for (layer = newest; layer && layer->planes && result == TAMIS_OK;
       layer = window_layer_at(&layer->older))
    result =
        tamis__window_give_counts(w, layer, &l->layers[window_number(layer) - l->apart].counts);
  w->max_bytes = l->plan.max_bytes;
  return result;
}

int tamis__window_load(struct saved_reader *r, const struct saved_head *saved,
                       const struct tamis_filter *head, tamis_filter **out)
{
  struct load l = {.r = r, .saved = saved};
  struct window *w = NULL;
  if (!read_numbers(saved, &l))
    return TAMIS_ECORRUPT;
  /* max_bytes is checked before the two refusals.  A window cannot be mapped, because a mapping is
   * read-only, but a window forgets keys.  A shared window cannot be loaded, because other
   * processes move its entries during the load. */
  if (r->live && saved->limit && window_bytes(&l.plan.geometry) > saved->limit)
    return TAMIS_EFULL;
  if (r->mapping || r->live)
    return TAMIS_EUNSUPPORTED;
  l.last = l.first;
  l.bytes = bytes_beside(&l);
  int result = load_layers(&l);
  if (result == TAMIS_OK)
    result = load_end(&l);
  if (result == TAMIS_OK)
    result = create(&l, head, &w);
  for (unsigned i = 0; i < l.n; i++)
    tamis__lane_counts_release(&l.layers[i].counts, &r->allocator);
  if (result == TAMIS_OK) {
    *out = &w->head;
    return TAMIS_OK;
  }
  for (unsigned i = 0; i < l.n; i++)
    tamis__memory_release(&r->allocator, l.layers[i].words, window_bytes(&l.layers[i].geometry));
  if (w)
    tamis__window_destroy(&w->head);
  return result;
}

void tamis__window_figures(struct saved_head *saved)
{
  struct load l = {.saved = saved};
  tamis_stats *out = &saved->figures;
  if (!read_numbers(saved, &l))
    return;
  out->bytes += bytes_beside(&l) +
                (saved->geometry[SAVED_WINDOW_LAYERS] - 1) * window_layer_bytes(l.plan.copies);
  out->layers = (unsigned) saved->geometry[SAVED_WINDOW_LAYERS];
  if (l.plan.counted) {
    out->generations = 1;
    out->segments = l.plan.geometry.segments;
  } else {
    const unsigned periods = l.plan.spec.periods;
    out->parts = periods + 1;
    out->period = l.first;
    out->oldest_part_age = l.first < periods ? l.first : periods;
  }
  out->estimated_count = (double) out->count;
  out->load = out->estimated_count / (double) out->capacity;
  /* The header does not say how full layers are.  Assumes that each has the rate of its share. */
  out->fpp_estimate = out->fpp;
  if (out->layers == 1) {
    const struct window_geometry *g = &l.layers[0].geometry;
    uint64_t further = saved->geometry[SAVED_WINDOW_FURTHER];
    uint64_t used = out->count > further ? out->count - further : 0;
    out->fpp_estimate = 1 - (1 - window_geometry_rate(g, used)); /* rounds as rate_now() does */
    out->occupancy = (double) used / (double) window_lanes(g);
  }
}

bool tamis__window_read_plan(const struct saved_head *saved, struct window_plan *out)
{
  struct load l = {.saved = saved};
  const bool good = read_numbers(saved, &l) && saved->geometry[SAVED_WINDOW_LAYERS] == 1;
  *out = l.plan;
  return good;
}
