/* SPDX-License-Identifier: MIT
 *
 * Layer 2: saved, loaded and mapped Bloom filters.
 *
 *    header | array of the words | layer 2 | its array | layer 3 | its array | ... | trailer
 *
 * [I] A snapshot under fire.  The save reads the words one by one, with the load that look-ups use.
 *     Bits only change from 0 to 1.  So a key whose add returned before the save began has all its
 *     bits in what is read; and a key that no call adds has a bit there that is 0, unless other
 *     keys have set them all, in which case it is a false positive of a filter with these keys.
 *
 *     The count of keys is read before the words.  Whoever counts a key has set its bits before,
 *     and a count that is read makes these visible (ORDER counter.sum).  So no key is counted that
 *     is not in: the loaded filter refuses no key before `capacity` keys are in.  Bits are counted
 *     in what is loaded.
 *
 *     Whether the filter is full is read first of all.  If it is not, the marks of words that are
 *     found later are not saved: the calls that they refused came after the save began, and the
 *     snapshot is from before.  If it is, they are saved, and what was refused stays refused.
 */
#include "bloom/bloom.h"

#include "base/memory.h"
#include "bloom/capacity.h"
#include "bloom/counting.h"
#include "bloom/layers.h"

#include <math.h>

/* What the header's geometry says, and the trailer's totals. */
enum {
  LAYOUT,
  PROBES,
  BITS_PER_PROBE,
  LINES,
  SECTIONS,
  MAX_BITS,
  FURTHER_LAYERS,
  GEOMETRY_NUMBERS
};
enum { TOTAL_KEYS, TOTAL_FULL, TOTAL_UNITED };

/* A further layer: its block, with what its numbers mean, and those in its payload. */
enum { BLOCK_LAYER = SAVED_KIND_BLOCKS };
enum { LAYER_NUMBER, LAYER_KEYS, LAYER_UNITED };
enum { LAYER_CAPACITY = SECTIONS + 1, LAYER_RATE, LAYER_NUMBERS };

/* More copies of keys than any filter has (only stuck counters could hide so many), and the highest
 * value of a counter. */
static const uint64_t max_copies = UINT64_C(1) << 62, max_count = 15;

static bool has_counters(const struct bloom *b)
{
  return b->layout == BLOOM_LAYOUT_COUNTING;
}

/* ---- counting bits ---- */

/* Adds three bits in each of 64 places. */
static inline uint64_t add_bits(uint64_t *sum, uint64_t a, uint64_t b)
{
  uint64_t x = *sum ^ a, carry = (*sum & a) | (x & b);
  *sum = x ^ b;
  return carry;
}

/* Counts the bits of keys, and finds marks in *marks.  It counts in groups of eight words, of which
 * only the carries are counted one by one: several times as fast where the processor has no
 * instruction for it, or may not be asked for it.
 * Source: Harley and Seal, as in Warren, "Hacker's Delight" (2nd edition, 2013), section 5-1 */
static uint64_t count_bits(const struct bloom_geometry *g, const uint64_t *words, uint64_t n,
                           uint64_t *marks)
{
  uint64_t keys = bloom_key_bits(g->shape.layout), any = 0;
  uint64_t ones = 0, twos = 0, fours = 0, eights = 0;
  for (uint64_t i = 0; i < n; i += LINE_WORDS) {
    uint64_t w[LINE_WORDS];
    for (unsigned j = 0; j < LINE_WORDS; j++) {
      any |= words[i + j];
      w[j] = words[i + j] & keys;
    }
    uint64_t two_a = add_bits(&ones, w[0], w[1]), two_b = add_bits(&ones, w[2], w[3]);
    uint64_t four_a = add_bits(&twos, two_a, two_b);
    two_a = add_bits(&ones, w[4], w[5]);
    two_b = add_bits(&ones, w[6], w[7]);
    uint64_t four_b = add_bits(&twos, two_a, two_b);
    eights += (unsigned) __builtin_popcountll(add_bits(&fours, four_a, four_b));
  }
  *marks = any & ~keys;
  return 8 * eights + 4 * (uint64_t) (unsigned) __builtin_popcountll(fours) +
         2 * (uint64_t) (unsigned) __builtin_popcountll(twos) +
         (uint64_t) (unsigned) __builtin_popcountll(ones);
}

/* ---- saving ---- */

static void put_shape(const struct bloom *b, uint64_t *numbers)
{
  numbers[LAYOUT] = b->layout;
  numbers[PROBES] = b->probes;
  numbers[BITS_PER_PROBE] = b->bits_per_probe;
  numbers[LINES] = b->word_count / LINE_WORDS;
  numbers[SECTIONS] = b->sections;
}

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
  put_shape(b, out->geometry);
  out->geometry[MAX_BITS] = saved_of_double(tamis__bloom_max_bits(b));
  out->geometry[FURTHER_LAYERS] = newest->number - 1;
  out->features = newest->number > 1 ? SAVED_LAYERS : 0;
  for (; newest; newest = bloom_older(newest))
    out->figures.bytes += newest->word_count * sizeof(word);
}

/* Turns words of the machine to those of a file, or back.  Little-endian machines write nothing:
 * the words may be mapped. */
/* NOLINTNEXTLINE(readability-non-const-parameter): others do */
static void swap_bytes(uint64_t *words, uint64_t n)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  for (uint64_t i = 0; i < n; i++)
    words[i] = saved_u64(words[i]);
#else
  (void) words, (void) n;
#endif
}

static void copy_words(const struct bloom *b, uint64_t first, uint64_t n, uint64_t kept,
                       uint64_t *to, struct counting_census *census)
{
  for (uint64_t i = 0; i < n; i++)
    to[i] = word_load(&b->words[first + i]) & kept;
  for (uint64_t i = 0; has_counters(b) && i < n; i++)
    counting_census_add(census, to[i]);
  swap_bytes(to, n);
}

static void save_words(const struct bloom *b, uint64_t kept, struct saved_writer *w,
                       struct counting_census *census)
{
  enum { CHUNK_WORDS = SAVED_CHUNK / 8 };
  tamis__saved_array_begin(w, b->word_count * sizeof(word));
  for (uint64_t done = 0, n; done < b->word_count; done += n) {
    n = b->word_count - done < CHUNK_WORDS ? b->word_count - done : CHUNK_WORDS;
    uint64_t *room = tamis__saved_array_room(w, n * 8);
    if (!room)
      return;
    copy_words(b, done, n, kept, room, census);
    tamis__saved_array(w, n * 8);
  }
  tamis__saved_array_end(w);
}

/* A layer, and what was counted in it before words were read; with counters, what these say. */
struct part {
  const struct bloom *layer;
  uint64_t keys, united;
};

static struct part part_of(const struct bloom *layer)
{
  if (has_counters(layer)) {
    struct counting_keys keys = tamis__counting_keys(layer);
    const struct bloom_geometry g = bloom_geometry_of(layer);
    uint64_t most = max_count * bloom_geometry_bits(&g);
    return (struct part){layer, keys.copies < max_copies ? keys.copies : max_copies - 1,
                         keys.rest < most ? keys.rest : most};
  }
  uint64_t united = bloom_counted(layer, UNITED), /* an estimate */
      most = layer->word_count * 64;
  return (struct part){layer, bloom_counted(layer, KEYS), united < most ? united : most};
}

/* With counters. */
static void count_again(struct part *part, const struct counting_census *census)
{
  struct counting_keys keys = {part->keys, part->united};
  keys = tamis__counting_keys_read(bloom_shape_of(part->layer), keys, census);
  part->keys = keys.copies;
  part->united = keys.rest;
}

static void save_layer(const struct part *part, struct saved_writer *w)
{
  const struct bloom *b = part->layer;
  uint64_t numbers[LAYER_NUMBERS];
  put_shape(b, numbers);
  numbers[LAYER_CAPACITY] = bloom_capacity(b);
  numbers[LAYER_RATE] = saved_of_double(b->fpp);
  unsigned char *room = tamis__saved_block_room(w, sizeof numbers);
  if (!room)
    return;
  for (unsigned i = 0; i < LAYER_NUMBERS; i++)
    saved_put64(room + (size_t) i * 8, numbers[i]);
  const uint64_t meanings[SAVED_MEANINGS] = {
      [LAYER_NUMBER] = b->number, [LAYER_KEYS] = part->keys, [LAYER_UNITED] = part->united};
  tamis__saved_block(w, BLOCK_LAYER, meanings, sizeof numbers);
  save_words(b, UINT64_MAX, w, NULL);
}

/* Saves the layers that the header knows. */
int tamis__bloom_save(const tamis_filter *f, struct saved_writer *w)
{
  const struct bloom *first = const_bloom_of(f), *layer = newest_layer(first);
  bool full =
      first->limited && atomic_load_explicit(&first->fullness, memory_order_relaxed) >= FULL;
  unsigned n = 1 + (unsigned) w->head->geometry[FURTHER_LAYERS];
  struct part parts[BLOOM_MOST_LAYERS] = {{.layer = NULL}};
  struct counting_census census = {0};
  parts[0] = part_of(first);
  for (; layer->number > 1; layer = layer->older)
    if (layer->number <= n)
      parts[layer->number - 1] = part_of(layer);
  save_words(first, full ? UINT64_MAX : bloom_key_bits(first->layout), w, &census);
  if (has_counters(first))
    count_again(&parts[0], &census);
  for (unsigned i = 1; i < n && parts[i].layer; i++) /* all of them are there */
    save_layer(&parts[i], w);
  w->totals[TOTAL_KEYS] = parts[0].keys;
  w->totals[TOTAL_FULL] = full;
  w->totals[TOTAL_UNITED] = parts[0].united;
  return w->result;
}

/* ---- loading ---- */

/* All shapes that a plan may choose. */
static bool is_possible(struct bloom_shape shape)
{
#define IS(p, b) (shape.probes == (p) && shape.bits_per_probe == (b))
#define IS_BLOCKED(p, b) || IS(p, b)
#define IS_COUNTING(p, b) || IS(p, b)
#define IS_WORD(b) || IS(1, b)
  const bool one = shape.sections == 1;
  switch ((int) shape.layout) {
  case TAMIS_LAYOUT_BLOCKED:
    return one ? false BLOOM_BLOCKED_SHAPES(IS_BLOCKED)
               : IS(SECTION_PROBES, SECTION_BITS) && shape.sections <= MAX_BLOCKED_SECTIONS;
  case TAMIS_LAYOUT_CLASSIC:
    return IS(CLASSIC_PROBES, CLASSIC_BITS) && shape.sections <= BLOOM_MAX_SECTIONS;
  case TAMIS_LAYOUT_WORD:
  case BLOOM_LAYOUT_MARKED:
    return one && (false BLOOM_WORD_SHAPES(IS_WORD));
  case BLOOM_LAYOUT_COUNTING:
    return one && (false BLOOM_COUNTING_SHAPES(IS_COUNTING));
  default:
    return false;
  }
}

/* Reads what put_shape() writes.  False: no filter has it. */
static bool read_shape(const uint64_t *numbers, struct bloom_geometry *out)
{
  static const uint64_t max_lines = UINT64_C(1) << 41; /* as planned */
  if (numbers[LAYOUT] > BLOOM_LAYOUT_COUNTING || numbers[PROBES] > BLOOM_MAX_PROBES ||
      numbers[BITS_PER_PROBE] > 64 || !numbers[SECTIONS] ||
      numbers[SECTIONS] > BLOOM_MAX_SECTIONS || !numbers[LINES] || numbers[LINES] >= max_lines)
    return false;
  out->shape =
      (struct bloom_shape){(tamis_layout) numbers[LAYOUT], (unsigned) numbers[PROBES],
                           (unsigned) numbers[BITS_PER_PROBE], (unsigned) numbers[SECTIONS]};
  out->lines = numbers[LINES];
  out->words = numbers[LINES] * LINE_WORDS;
  return is_possible(out->shape) && bloom_section_words(out->shape, out->words);
}

/* Reads the geometry of the first layer. */
static bool read_plan(const struct saved_head *saved, struct bloom_plan *out)
{
  const tamis_options *o = &saved->options;
  const uint64_t *g = saved->geometry;
  for (unsigned i = GEOMETRY_NUMBERS; i < SAVED_GEOMETRY; i++)
    if (g[i])
      return false;
  *out = (struct bloom_plan){.geometry = {.capacity = o->capacity, .fpp = o->fpp},
                             .stripes_wanted = o->stripes,
                             .max_bytes = o->max_bytes,
                             .limited = !o->growable,
                             .is_unusual = saved->own_hash,
                             .cleared_from = o->cleared_from,
                             .max_bits = saved_to_double(g[MAX_BITS])};
  if (!read_shape(g, &out->geometry))
    return false;
  out->closes_early = bloom_opens_layers(o) && (bloom_shape_is_word(out->geometry.shape) ||
                                                tamis__layers_may_limit_first(&out->geometry));
  return out->geometry.shape.layout == bloom_layout_for(o) &&
         (o->kind != TAMIS_COUNTING_BLOOM || o->layout == TAMIS_LAYOUT_BLOCKED) &&
         out->max_bits > 0 && out->max_bits <= bloom_geometry_usable_bits(&out->geometry) &&
         g[FURTHER_LAYERS] < (bloom_opens_layers(o) ? BLOOM_MOST_LAYERS : 1) &&
         (!g[FURTHER_LAYERS] || saved->features & SAVED_LAYERS);
}

/* A header that no filter has brings no figures.  Of several layers, the header does not say how
 * full each is: then the figures are those of a filter whose layers have their parts of the
 * rate. */
void tamis__bloom_figures(const struct saved_head *saved, tamis_stats *out)
{
  struct bloom_plan plan;
  if (!read_plan(saved, &plan))
    return;
  out->layers = 1 + (unsigned) saved->geometry[FURTHER_LAYERS];
  if (out->layers == 1 && out->bits_set <= plan.geometry.lines * LINE_BITS)
    bloom_geometry_estimate(&plan.geometry, out);
  if (out->layers == 1)
    return;
  for (unsigned i = 1; i <= out->layers; i++)
    out->fpp_estimate += out->fpp * bloom_geometry_share(i);
  out->estimated_count = (double) out->count;
  out->load = out->estimated_count / (double) out->capacity;
}

/* What the first layer and those after it, as they are planned, take beside their words. */
uint64_t tamis__bloom_saved_beside(const struct saved_head *saved)
{
  struct bloom_plan plan;
  if (!read_plan(saved, &plan))
    return 0;
  const tamis_layout layout = plan.geometry.shape.layout;
  uint64_t bytes = tamis__bloom_bytes_beside(&plan), capacity = saved->options.capacity;
  for (unsigned i = 2; i <= 1 + saved->geometry[FURTHER_LAYERS]; i++) {
    capacity *= i > 2 ? 2 : 1;
    plan.is_unusual = true; /* as further layers are long */
    plan.number = i;
    if (bloom_geometry_plan_layer(layout, i, capacity, saved->options.fpp, &plan.geometry) ==
        TAMIS_OK)
      bytes += tamis__bloom_bytes_beside(&plan);
  }
  return bytes;
}

struct content {
  struct bloom_plan plan;
  void *words;
  uint64_t keys, united;
  bool full;
  uint64_t bits; /* if the words have been read */
};

/* Whether what is said of the words can be. */
static bool is_possible_content(const struct content *c)
{
  uint64_t most = bloom_geometry_bits(&c->plan.geometry);
  if (c->plan.geometry.shape.layout == BLOOM_LAYOUT_COUNTING)
    return !c->full && c->keys < max_copies && c->united <= max_count * most;
  return c->keys <= most && c->united <= most && c->full <= c->plan.limited;
}

/* Without a counter that is stuck, the counters say how many copies there are. */
static bool check_counters(const struct content *c)
{
  const uint64_t *words = c->words;
  struct counting_census census = {0};
  for (uint64_t i = 0; i < c->plan.geometry.words; i++)
    counting_census_add(&census, words[i]);
  uint64_t of_key = bloom_geometry_bits_per_key(&c->plan.geometry);
  return census.stuck || (census.sum >= c->united && (census.sum - c->united) / of_key == c->keys &&
                          (census.sum - c->united) % of_key == 0);
}

/* Counts what is in the words, which one thread knows so far.  False: what is said of them does not
 * fit. */
static bool check_words(struct content *c, bool read)
{
  const struct bloom_geometry *g = &c->plan.geometry;
  uint64_t marks = 0;
  if (!is_possible_content(c))
    return false;
  if (!read)
    return true;
  swap_bytes(c->words, g->words);
  if (g->shape.layout == BLOOM_LAYOUT_COUNTING)
    return check_counters(c);
  c->bits = count_bits(g, c->words, g->words, &marks);
  return c->keys <= c->bits && (!marks || c->full);
}

/* What the adds of the saved filter would have left in this layer. */
static void restore(struct bloom *b, const struct content *content)
{
  bloom_count(b, KEYS, content->keys);
  bloom_count(b, UNITED, content->united);
  if (b->limited) {
    atomic_store_explicit(&bloom_long_of(b)->copies, content->keys,
                          memory_order_relaxed); /* not shared yet */
    bloom_count(b, BITS, content->bits);
  }
  if (content->full)
    atomic_store_explicit(&b->fullness, FULL, memory_order_relaxed); /* not shared yet */
  else if (!bloom_mapping(b).at)
    (void) tamis__bloom_watch(b);
}

/* A filter that is being loaded. */
struct loading {
  struct saved_reader *r;
  const struct saved_head *saved;
  const struct tamis_filter *head;
  uint64_t bytes; /* of all layers so far */
  unsigned n;
  struct content layers[BLOOM_MOST_LAYERS];
};

/* Reads the words of the next layer, whose plan is known. */
static int load_words(struct loading *l)
{
  struct content *c = &l->layers[l->n];
  const bool mapped = l->r->mapping; /* then no words are allocated */
  uint64_t array = c->plan.geometry.lines * LINE_BYTES, bytes = mapped ? 0 : array;
  c->plan.is_mapped = mapped;
  c->plan.number = l->n ? l->n + 1 : 0;
  c->plan.is_unusual |= filter_allocator(l->head)->allocate != NULL;
  uint64_t beside = tamis__bloom_bytes_beside(&c->plan) +
                    (mapped && !l->n ? sizeof(struct filter_operations) : 0);
  const uint64_t limit = l->saved->limit;
  if (limit && l->bytes + bytes + beside > limit)
    return TAMIS_EFULL;
  struct saved_memory m = {.all = bytes, .limit = limit ? limit - l->bytes - beside : 0};
  const void *at = NULL;
  uint64_t begin;
  int result = tamis__saved_read_array(l->r, array, &m, &at, &begin);
  if (result != TAMIS_OK) {
    tamis__memory_release(&l->r->allocator, m.block, m.bytes);
    return result;
  }
  c->words = (void *) at;
  l->n++;
  l->bytes += bytes + beside;
  return TAMIS_OK;
}

/* Reads the block of a layer.  All layers after the first are blocked or classic. */
static bool read_layer(const struct saved_block *block, unsigned number, struct bloom_plan *out)
{
  uint64_t numbers[LAYER_NUMBERS];
  if (block->type != BLOCK_LAYER || block->size != sizeof numbers ||
      block->meanings[LAYER_NUMBER] != number || block->meanings[SAVED_MEANINGS - 1])
    return false;
  for (unsigned i = 0; i < LAYER_NUMBERS; i++)
    numbers[i] = saved_get64(block->payload + (size_t) i * 8);
  out->geometry.capacity = numbers[LAYER_CAPACITY];
  out->geometry.fpp = saved_to_double(numbers[LAYER_RATE]);
  return read_shape(numbers, &out->geometry) &&
         out->geometry.shape.layout <= TAMIS_LAYOUT_CLASSIC && out->geometry.capacity &&
         out->geometry.capacity < UINT64_C(1) << 50 && out->geometry.fpp > 0 &&
         out->geometry.fpp < 1;
}

static int load_layer(struct loading *l)
{
  struct saved_block block;
  struct content *c = &l->layers[l->n];
  *c = (struct content){.plan = {.stripes_wanted = l->saved->options.stripes,
                                 .max_bytes = l->saved->options.max_bytes,
                                 .is_unusual = true}}; /* as further layers are long */
  int result = tamis__saved_read_block(l->r, &block);
  if (result == TAMIS_OK && !read_layer(&block, l->n + 1, &c->plan))
    result = TAMIS_ECORRUPT;
  if (result != TAMIS_OK)
    return result;
  c->keys = block.meanings[LAYER_KEYS];
  c->united = block.meanings[LAYER_UNITED];
  return load_words(l);
}

/* The trailer, which says what is in the first layer. */
static int load_end(struct loading *l)
{
  struct saved_block block;
  uint64_t totals[SAVED_TOTALS];
  int result = tamis__saved_read_block(l->r, &block);
  if (result == TAMIS_OK && block.type != SAVED_END)
    result = TAMIS_ECORRUPT;
  if (result == TAMIS_OK)
    result = tamis__saved_read_end(l->r, totals);
  if (result != TAMIS_OK)
    return result;
  l->layers[0].keys = totals[TOTAL_KEYS];
  l->layers[0].full = totals[TOTAL_FULL];
  l->layers[0].united = totals[TOTAL_UNITED];
  for (unsigned i = 0; i < l->n; i++)
    if (totals[TOTAL_FULL] > 1 || !check_words(&l->layers[i], !l->r->mapping || l->r->check_all))
      return TAMIS_ECORRUPT;
  return TAMIS_OK;
}

/* Reads everything. */
static int load_all(struct loading *l)
{
  if (!read_plan(l->saved, &l->layers[0].plan))
    return TAMIS_ECORRUPT;
  if (l->saved->features && !l->saved->geometry[FURTHER_LAYERS])
    return TAMIS_EUNSUPPORTED; /* it is for something else */
  int result = load_words(l);
  for (uint64_t i = 0; i < l->saved->geometry[FURTHER_LAYERS] && result == TAMIS_OK; i++)
    result = load_layer(l);
  return result == TAMIS_OK ? load_end(l) : result;
}

/* The layers of what has been read.  Words that a layer has got are its own from then on. */
static int create_layers(struct loading *l, struct bloom **newest)
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
  return TAMIS_OK;
}

int tamis__bloom_load(struct saved_reader *r, const struct saved_head *saved,
                      const struct tamis_filter *head, tamis_filter **out)
{
  struct loading l = {.r = r, .saved = saved, .head = head};
  struct bloom *newest = NULL;
  int result = load_all(&l);
  if (result == TAMIS_OK)
    result = create_layers(&l, &newest);
  if (result == TAMIS_OK && newest) {
    while (bloom_older(newest))
      newest = bloom_older(newest);
    *out = &newest->head;
    return TAMIS_OK;
  }
  tamis__bloom_destroy_layers(newest);
  for (unsigned i = 0; i < l.n && !r->mapping; i++)
    tamis__memory_release(&r->allocator, l.layers[i].words,
                          l.layers[i].plan.geometry.lines * LINE_BYTES);
  return result;
}
