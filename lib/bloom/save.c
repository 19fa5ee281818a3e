/* SPDX-License-Identifier: MIT
 *
 * Layer 2: saved, loaded and mapped Bloom filters.
 *
 *   header | array of the words | layer 2 | its array | layer 3 | its array | ... | trailer
 *
 * [I] Snapshots beside adds.  The save reads the words one by one, with the load that look-ups use.
 *     Bits only change from 0 to 1.  So if the add of a key returned before the save began, all
 *     bits of the key are in the snapshot.  Any other key is at most a false positive there.
 *
 *     The save reads the count of keys before the words.  An add sets a key's bits before it counts
 *     the key.  So if the count includes the key, the save reads these bits (ORDER counter.sum).
 *     Every counted key is in the snapshot, and the loaded filter refuses no key before it has
 *     `capacity` keys.  The load of a fixed filter estimates from the bits how many uncounted keys
 *     the snapshot has, and lowers the limit of the loaded filter by this number.
 *
 *     Before all else, the save reads whether the filter is full.  If it is not, the save omits the
 *     marks in words (word_layout.h), which come from calls refused after the save began.  If the
 *     filter is full, the save keeps the marks, so refused keys stay refused.
 */
#include "bloom/bloom.h"

#include "base/memory.h"
#include "bloom/bits.h"
#include "bloom/capacity.h"
#include "bloom/counting.h"
#include "bloom/layers.h"
#include "bloom/saved_head.h"

#include <math.h>

/* Returns the largest sums that a filter with `bits` positions can have.  With counters, the number
 * of copies has practically no limit: stuck counters hide how many copies have been added. */
static struct bloom_sums most_sums(tamis_layout layout, uint64_t bits)
{
  return layout == BLOOM_LAYOUT_COUNTING
             ? (struct bloom_sums){.keys = (UINT64_C(1) << 62) - 1, .united = 15 * bits}
             : (struct bloom_sums){.keys = bits, .united = bits};
}

/* ---- set bits ---- */

uint64_t tamis__bloom_count_bits(const struct bloom_geometry *g, const uint64_t *words,
                                 uint64_t *marks)
{
  uint64_t keys = bloom_key_bits(g->shape.layout), any = 0;
  struct set_bits set = {0};
  for (uint64_t i = 0; i < g->words; i += LINE_WORDS) {
    uint64_t w[LINE_WORDS];
    for (unsigned j = 0; j < LINE_WORDS; j++) {
      any |= words[i + j];
      w[j] = words[i + j] & keys;
    }
    set_bits_add(&set, w);
  }
  *marks = any & ~keys;
  return set_bits_sum(&set);
}

bool tamis__bloom_counters_agree(const struct bloom_geometry *g, const uint64_t *words,
                                 struct bloom_sums counted)
{
  struct counting_census census = {0};
  for (uint64_t i = 0; i < g->words; i++)
    counting_census_add(&census, words[i]);
  const struct bloom_sums read = counting_read(g->shape, counted, &census);
  return read.keys == counted.keys && read.united == counted.united;
}

/* ---- saving ---- */

void tamis__bloom_describe(const tamis_filter *f, struct saved_head *out)
{
  const struct bloom *b = const_bloom_of(f), *newest = newest_layer(b);
  const struct bloom_geometry g = bloom_geometry_of(b);
  out->options = (tamis_options){.capacity = g.capacity,
                                 .fpp = g.fpp,
                                 .growable = !b->limited,
                                 .max_bytes = bloom_max_bytes(b),
                                 .layout = bloom_geometry_public_layout(&g),
                                 .stripes = bloom_stripes_wanted(b)};
  tamis__bloom_put_shape(&g, out->geometry);
  out->geometry[MOST_KEYS] = g.most_keys;
  out->geometry[FURTHER_LAYERS] = newest->number - 1;
  out->features = newest->number > 1 ? SAVED_LAYERS : 0;
  for (; newest; newest = bloom_older(newest))
    out->figures.bytes += newest->word_count * sizeof(word);
}

struct copying {
  const struct bloom *layer;
  uint64_t kept;                  /* the bits of each word that are copied */
  struct counting_census *census; /* NULL: the filter has no counters */
};

static void copy_words(void *context, uint64_t at, size_t n, void *to)
{
  const struct copying *copying = context;
  const word *words = copying->layer->words + at / 8;
  uint64_t *copy = to;
  for (size_t i = 0; i < n / 8; i++)
    copy[i] = word_load(&words[i]) & copying->kept;
  for (size_t i = 0; copying->census && i < n / 8; i++)
    counting_census_add(copying->census, copy[i]);
  saved_swap(copy, n / 8);
}

static void save_words(const struct bloom *b, uint64_t kept, struct saved_writer *w,
                       struct counting_census *census)
{
  struct copying copying = {b, kept, census};
  (void) tamis__saved_array(w, b->word_count * sizeof(word), copy_words, &copying);
}

/* Like tamis__bloom_count_bits(), but for words that other threads may change. */
static uint64_t bits_in_use(const struct bloom *b, uint64_t *marks)
{
  enum { COPIED = 64 };
  struct bloom_geometry part = bloom_geometry_of(b);
  uint64_t copy[COPIED], bits = 0, some;
  *marks = 0;
  for (uint64_t i = 0; i < b->word_count; i += part.words) {
    part.words = b->word_count - i < COPIED ? b->word_count - i : COPIED;
    for (unsigned j = 0; j < part.words; j++)
      copy[j] = word_load(&b->words[i + j]);
    bits += tamis__bloom_count_bits(&part, copy, &some);
    *marks |= some;
  }
  return bits;
}

/* Returns the sums of a layer.  The caller must call this before it reads the layer's words. */
static struct bloom_sums sums_of(const struct bloom *layer)
{
  const struct bloom_geometry g = bloom_geometry_of(layer);
  struct bloom_sums counted = bloom_sums_of(layer);
  /* Other processes may have written any sums into a live layer's tally. */
  uint64_t marks;
  const uint64_t bits = layer->live ? bits_in_use(layer, &marks) : bloom_geometry_bits(&g);
  const struct bloom_sums most = most_sums(layer->layout, bits);
  counted.keys = counted.keys < most.keys ? counted.keys : most.keys;
  counted.united = counted.united < most.united ? counted.united : most.united;
  return counted;
}

static void save_layer(const struct bloom *layer, struct saved_writer *w)
{
  const struct bloom_geometry g = bloom_geometry_of(layer);
  tamis__bloom_put_layer(&g, layer->number, sums_of(layer), w);
  save_words(layer, UINT64_MAX, w, NULL);
}

/* Saves only the layers that the header lists: others may have opened since it was written. */
int tamis__bloom_save(const tamis_filter *f, struct saved_writer *w)
{
  const struct bloom *first = const_bloom_of(f);
  const bool full = first->limited && is_full(first);
  struct bloom *layers[BLOOM_MOST_LAYERS];
  struct counting_census census = {0};
  struct bloom_sums counted = sums_of(first);
  (void) bloom_layers_of(first, layers);
  save_words(first, full ? UINT64_MAX : bloom_key_bits(first->layout), w,
             bloom_counts(first) ? &census : NULL);
  if (bloom_counts(first)) /* the sums must agree with the words as they were saved */
    counted = counting_read(bloom_shape_of(first), counted, &census);
  for (unsigned i = 1; i <= w->head->geometry[FURTHER_LAYERS]; i++)
    save_layer(layers[i], w);
  w->totals[TOTAL_KEYS] = counted.keys;
  w->totals[TOTAL_FULL] = full;
  w->totals[TOTAL_UNITED] = counted.united;
  return w->result;
}

/* ---- loading ---- */

struct content {
  struct bloom_plan plan;
  void *words;
  struct bloom_sums counted;
  bool full;
};

/* Counts the bits or counters in the words.  Returns false if the saved numbers do not fit them. */
static bool check_words(struct content *c, bool read)
{
  const struct bloom_geometry *g = &c->plan.geometry;
  const bool counts = g->shape.layout == BLOOM_LAYOUT_COUNTING;
  const struct bloom_sums most = most_sums(g->shape.layout, bloom_geometry_bits(g));
  uint64_t marks = 0;
  if (c->counted.keys > most.keys || c->counted.united > most.united ||
      (c->full && (counts || !c->plan.limited)))
    return false;
  if (!read)
    return true;
  saved_swap(c->words, g->words);
  if (counts)
    return tamis__bloom_counters_agree(g, c->words, c->counted);
  const uint64_t bits = tamis__bloom_count_bits(g, c->words, &marks);
  if (c->plan.limited)
    c->plan.geometry.most_keys =
        tamis__bloom_most_beside(g, bits, c->counted.keys + c->counted.united);
  return c->counted.keys <= bits && (!marks || c->full);
}

static void restore(struct bloom *b, const struct content *content)
{
  if (bloom_counts(b))
    count_copies(b, (int64_t) content->counted.keys, false);
  else
    bloom_count(b, KEYS, content->counted.keys);
  bloom_count(b, UNITED, content->counted.united);
  if (content->full)
    atomic_store_explicit(&b->fullness, FULL, memory_order_relaxed); /* `b` is not shared yet */
  else if (!bloom_mapping(b).at)
    (void) tamis__bloom_watch(b);
}

struct loading {
  struct saved_reader *r;
  const struct saved_head *saved;
  const struct tamis_filter *head;
  uint64_t bytes; /* the bytes of all layers so far */
  unsigned n;     /* the number of layers whose words have been read */
  struct content layers[BLOOM_MOST_LAYERS];
};

static int load_words(struct loading *l)
{
  struct content *c = &l->layers[l->n];
  const bool mapped = l->r->mapping; /* a mapped filter allocates no words */
  uint64_t array = c->plan.geometry.words * sizeof(word), bytes = mapped ? 0 : array;
  c->plan.is_mapped = mapped;
  c->plan.number = l->n + 1;
  c->plan.has_allocator = filter_allocator(l->head)->allocate != NULL;
  uint64_t beside = tamis__bloom_bytes_beside(&c->plan) +
                    (mapped && !l->n ? sizeof(struct filter_operations) : 0);
  const uint64_t limit = l->saved->limit;
  if (limit && l->bytes + bytes + beside > limit)
    return TAMIS_EFULL;
  struct saved_memory m = {.limit = limit ? limit - l->bytes - beside : 0};
  int result = tamis__saved_read_array(l->r, array, &m);
  if (result != TAMIS_OK) {
    tamis__memory_release(&l->r->allocator, m.block, m.bytes);
    return result;
  }
  c->words = (void *) m.array;
  l->n++;
  l->bytes += bytes + beside;
  return TAMIS_OK;
}

static struct content *further_layer(struct loading *l, const struct bloom_geometry *g)
{
  struct content *c = &l->layers[l->n];
  *c = (struct content){.plan = l->layers[0].plan};
  c->plan.geometry = *g;
  return c;
}

static int load_layer(struct loading *l)
{
  struct bloom_geometry g;
  struct bloom_sums counted;
  int result = tamis__bloom_read_layer(l->r, l->n + 1, &g, &counted);
  if (result != TAMIS_OK)
    return result;
  further_layer(l, &g)->counted = counted;
  return load_words(l);
}

/* Reads the trailer, which has the counts of the first layer. */
static int load_end(struct loading *l)
{
  uint64_t totals[SAVED_TOTALS];
  int result = tamis__saved_read_end(l->r, totals);
  if (result != TAMIS_OK)
    return result;
  l->layers[0].counted.keys = totals[TOTAL_KEYS];
  l->layers[0].full = totals[TOTAL_FULL];
  l->layers[0].counted.united = totals[TOTAL_UNITED];
  for (unsigned i = 0; i < l->n; i++)
    if (totals[TOTAL_FULL] > 1 || !check_words(&l->layers[i], !l->r->mapping || l->r->check_all))
      return TAMIS_ECORRUPT;
  return TAMIS_OK;
}

/* ---- live filters, whose counts are in tallies ---- */

/* Returns the sums in a tally, or `most` instead of larger ones. */
static struct bloom_sums sums_of_tally(const struct bloom_tally *tally, uint64_t most)
{
  const struct counters counters = {(struct counter_shard *) tally->shards, CORE_SHARDS - 1};
  const uint64_t keys = saved_u64(tamis__counter_sum(&counters, KEYS));
  const uint64_t united = saved_u64(tamis__counter_sum(&counters, UNITED));
  return (struct bloom_sums){keys < most ? keys : most, united < most ? united : most};
}

/* Adds to the counters, and does not set them: other processes may count meanwhile. */
void tamis__bloom_count_again(struct bloom *b)
{
  const struct bloom_geometry g = bloom_geometry_of(b);
  uint64_t marks;
  const uint64_t keys = counted_keys(b);
  const uint64_t bits = bits_in_use(b, &marks);
  const double missing = tamis__bloom_miscounted(&g, bits, keys);
  const uint64_t own = bloom_counted(b, KEYS), fewer = (uint64_t) fmin(fmax(-missing, 0), 0x1p62);
  if (missing < 0) /* unsigned sums wrap, so this subtracts */
    bloom_count(b, KEYS, -(fewer < own ? fewer : own));
  else
    bloom_count(b, UNITED, (uint64_t) missing);
  if (marks)
    raise_fullness(b, FULL);
}

/* Sets the counts of a layer from its tally.  No checksum covers the tally, so the set bits of the
 * layer, which are read even if they are mapped, correct the counts. */
static void read_tally(struct content *c, const struct bloom_tally *tally)
{
  const struct bloom_geometry *g = &c->plan.geometry;
  uint64_t marks = 0;
  saved_swap(c->words, g->words);
  const uint64_t bits = tamis__bloom_count_bits(g, c->words, &marks);
  c->counted = sums_of_tally(tally, bits);
  c->counted.united +=
      (uint64_t) fmax(tamis__bloom_miscounted(g, bits, c->counted.keys + c->counted.united), 0);
  c->full = c->plan.limited && (marks || saved_u64(tally->state) & LIVE_ENDED);
}

/* The part of a live filter's file that precedes the layers' arrays. */
struct live_head {
  struct bloom_geometry layers[BLOOM_MOST_LAYERS]; /* the caller sets layers[0] */
  unsigned open;
  const struct bloom_tally *tallies;
  struct saved_memory memory;
};

/* Reads the head.  The caller must release h->memory, whatever the result is. */
static int read_live_head(struct saved_reader *r, const struct saved_head *saved,
                          struct live_head *h)
{
  const unsigned n = 1 + (unsigned) saved->geometry[FURTHER_LAYERS];
  int result = tamis__bloom_read_further(r, n, h->layers);
  if (result == TAMIS_OK)
    result = tamis__saved_read_array(r, n * sizeof(struct bloom_tally), &h->memory);
  if (result != TAMIS_OK)
    return result;
  h->tallies = h->memory.array;
  const uint64_t open = saved_u64(h->tallies->state) / LIVE_ALONE;
  h->open = open && open <= n ? (unsigned) open : 1;
  return TAMIS_OK;
}

static int load_live(struct loading *l)
{
  struct live_head h = {.layers = {l->layers[0].plan.geometry}};
  int result = read_live_head(l->r, l->saved, &h);
  for (unsigned i = 0; i < h.open && result == TAMIS_OK; i++) {
    struct content *c = i ? further_layer(l, &h.layers[i]) : &l->layers[0];
    result = load_words(l);
    if (result == TAMIS_OK)
      read_tally(c, &h.tallies[i]);
  }
  tamis__memory_release(&l->r->allocator, h.memory.block, h.memory.bytes);
  return result;
}

/* Computes the figures, which the header of a live filter's file lacks. */
static int read_live_stats(struct saved_reader *r, struct saved_head *saved)
{
  struct bloom_plan plan;
  tamis_stats *s = &saved->figures;
  if (!tamis__bloom_read_plan(saved, &plan))
    return TAMIS_ECORRUPT;
  struct live_head h = {.layers = {plan.geometry}};
  int result = read_live_head(r, saved, &h);
  for (unsigned i = 0; i < h.open; i++) {
    const struct bloom_geometry *g = &h.layers[i];
    const struct bloom_sums counted = sums_of_tally(&h.tallies[i], bloom_geometry_bits(g));
    const uint64_t of_layer = counted.keys + counted.united;
    s->united_count += counted.united;
    s->count += of_layer;
    s->bits += g->words * 64;
    s->bytes += g->words * sizeof(word);
    s->bits_set += (uint64_t) bloom_geometry_bits_set(g, (double) of_layer);
    s->bits_per_key = bloom_shape_bits_per_key(g->shape);
    s->growths = i;
  }
  tamis__memory_release(&r->allocator, h.memory.block, h.memory.bytes);
  saved->geometry[FURTHER_LAYERS] = s->growths;
  return result;
}

/* Returns the bytes of all later layers, except their words.  `plan` is that of the first layer. */
static uint64_t bytes_beside_further(const struct saved_head *saved, struct bloom_plan plan)
{
  const tamis_layout layout = plan.geometry.shape.layout;
  uint64_t bytes = 0, capacity = saved->options.capacity;
  for (unsigned i = 2; i <= 1 + saved->geometry[FURTHER_LAYERS]; i++) {
    capacity *= i > 2 ? 2 : 1;
    plan.number = i;
    if (bloom_geometry_plan_layer(layout, i, capacity, saved->options.fpp, &plan.geometry) ==
        TAMIS_OK)
      bytes += tamis__bloom_bytes_beside(&plan);
  }
  return bytes;
}

/* If there are several layers, the estimated rate assumes that each has used up its share of the
 * promised rate, as the header does not say how full each layer is. */
int tamis__bloom_read_info(struct saved_reader *r, struct saved_head *saved)
{
  struct bloom_plan plan;
  tamis_stats *out = &saved->figures;
  int result = saved->features & SAVED_LIVE ? read_live_stats(r, saved) : TAMIS_OK;
  if (result != TAMIS_OK || !tamis__bloom_read_plan(saved, &plan))
    return result;
  out->bytes += tamis__bloom_bytes_beside(&plan) + bytes_beside_further(saved, plan);
  out->layers = 1 + (unsigned) saved->geometry[FURTHER_LAYERS];
  if (out->layers == 1) {
    if (out->bits_set <= plan.geometry.words * 64)
      bloom_geometry_estimate(&plan.geometry, out);
    return TAMIS_OK;
  }
  for (unsigned i = 1; i <= out->layers; i++)
    out->fpp_estimate += out->fpp * bloom_geometry_share(i);
  out->estimated_count = (double) out->count;
  out->load = out->estimated_count / (double) out->capacity;
  return TAMIS_OK;
}

static int load_all(struct loading *l)
{
  if (!tamis__bloom_read_plan(l->saved, &l->layers[0].plan))
    return TAMIS_ECORRUPT;
  if (l->saved->features & SAVED_LIVE)
    return load_live(l);
  if (l->saved->features && !l->saved->geometry[FURTHER_LAYERS])
    return TAMIS_EUNSUPPORTED; /* the file's features are not those of a Bloom filter */
  int result = load_words(l);
  for (uint64_t i = 0; i < l->saved->geometry[FURTHER_LAYERS] && result == TAMIS_OK; i++)
    result = load_layer(l);
  return result == TAMIS_OK ? load_end(l) : result;
}

/* Creates the layers from l->layers[].  Each layer then owns its words. */
static int create_layers(struct loading *l, struct bloom **newest, tamis_filter **out)
{
  const struct saved_mapping mapping = saved_mapping_of(l->r);
  struct bloom *first = NULL;
  for (unsigned i = 0; i < l->n; i++) {
    struct content *c = &l->layers[i];
    c->plan.older = *newest;
    struct bloom *b = tamis__bloom_create(l->head, &c->plan, c->words, &mapping);
    if (!b)
      return TAMIS_ENOMEM;
    c->words = NULL;
    *newest = b;
    first = first ? first : b;
    restore(b, c);
    if (b != first)
      tamis__layers_append(first, b);
  }
  if (l->n == 1 && l->layers[0].plan.closes_early && !mapping.at)
    tamis__layers_limit_first(first);
  *out = &first->head;
  return TAMIS_OK;
}

int tamis__bloom_load(struct saved_reader *r, const struct saved_head *saved,
                      const struct tamis_filter *head, tamis_filter **out)
{
  struct loading l = {.r = r, .saved = saved, .head = head};
  struct bloom *newest = NULL;
  int result = load_all(&l);
  if (result == TAMIS_OK)
    result = create_layers(&l, &newest, out);
  if (result == TAMIS_OK)
    return TAMIS_OK;
  tamis__bloom_destroy_layers(newest, NULL);
  for (unsigned i = 0; i < l.n && !r->mapping; i++)
    tamis__memory_release(&r->allocator, l.layers[i].words,
                          l.layers[i].plan.geometry.words * sizeof(word));
  return result;
}
