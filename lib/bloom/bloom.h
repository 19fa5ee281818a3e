/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what a Bloom filter consists of.
 *
 * operations.c has the main essay on why look-ups and adds are correct, and calls the functions of
 * gaps.h (the bits of a key that are not set), word_layout.h and counting.h.  layers.c has growth,
 * live.h filters that several processes share, unite.c unions, save.c snapshots.
 */
#ifndef TAMIS_LIB_BLOOM_H
#define TAMIS_LIB_BLOOM_H

#include "bloom/geometry.h"
#include "bloom/structs.h"

#include <assert.h>

extern const struct filter_kind tamis__bloom_kind, tamis__counting_bloom_kind;

static inline struct bloom *bloom_of(tamis_filter *f)
{
  return (struct bloom *) f;
}

static inline const struct bloom *const_bloom_of(const tamis_filter *f)
{
  return (const struct bloom *) f;
}

/* ---- the parts of a filter ---- */

static inline struct bloom_long *bloom_long_of(struct bloom *b)
{
  assert(b->is_long);
  return (struct bloom_long *) b;
}

static inline const struct bloom_long *const_bloom_long_of(const struct bloom *b)
{
  assert(b->is_long);
  return (const struct bloom_long *) b;
}

FORCE_INLINE struct bloom_shape bloom_shape_of(const struct bloom *b)
{
  return (struct bloom_shape){(tamis_layout) b->layout, b->probes, b->bits_per_probe, b->sections};
}

static inline uint64_t bloom_capacity(const struct bloom *b)
{
  return b->is_long ? const_bloom_long_of(b)->capacity : b->few_keys;
}

static inline const struct bloom_medium *const_bloom_medium_of(const struct bloom *b)
{
  assert(b->is_medium);
  return (const struct bloom_medium *) b;
}

/* Returns the number of keys at which a fixed Bloom filter is full, or 0 for any other filter. */
static inline uint64_t bloom_most_keys(const struct bloom *b)
{
  return !b->limited  ? 0
         : b->is_long ? const_bloom_long_of(b)->most_keys
                      : const_bloom_medium_of(b)->most_keys;
}

/* Changes the limit of a fixed filter that no other thread has yet. */
static inline void bloom_set_most_keys(struct bloom *b, uint64_t most)
{
  if (b->is_long)
    bloom_long_of(b)->most_keys = most;
  else
    ((struct bloom_medium *) b)->most_keys = most & UINT16_MAX;
}

static inline struct bloom_geometry bloom_geometry_of(const struct bloom *b)
{
  return (struct bloom_geometry){.shape = bloom_shape_of(b),
                                 .capacity = bloom_capacity(b),
                                 .fpp = b->fpp,
                                 .words = b->word_count,
                                 .most_keys = bloom_most_keys(b)};
}

static inline uint64_t bloom_closes_at(const struct bloom *b)
{
  return b->is_long ? const_bloom_long_of(b)->closes_at : b->few_keys;
}

static inline unsigned bloom_stripes_wanted(const struct bloom *b)
{
  return b->is_long ? const_bloom_long_of(b)->stripes_wanted : b->one_stripe;
}

static inline uint32_t bloom_cleared_from(const struct bloom *b)
{
  return b->is_long     ? const_bloom_long_of(b)->cleared_from
         : b->is_medium ? b->blocks_cleared_from
                        : 0;
}

static inline struct saved_mapping bloom_mapping(const struct bloom *b)
{
  return b->is_long ? const_bloom_long_of(b)->mapping : (struct saved_mapping){.at = NULL};
}

/* Returns the layer before `layer`, or NULL if `layer` is the first. */
static inline struct bloom *bloom_older(const struct bloom *layer)
{
  return layer->number > 1 ? layer->older : NULL;
}

FORCE_INLINE struct stripe *bloom_stripe(const struct bloom *b, uint64_t hash)
{
  return (struct stripe *) ((char *) b->stripes +
                            (hash & b->stripe_mask) * sizeof(struct padded_stripe));
}

/* Returns true if the filter has a counter for each position instead of a bit. */
static inline bool bloom_counts(const struct bloom *b)
{
  return b->layout == BLOOM_LAYOUT_COUNTING;
}

/* Returns the number of stripes: 0 without counters, or if the words are in a mapped file. */
static inline unsigned bloom_stripe_count(const struct bloom *b)
{
  return bloom_counts(b) && b->stripes ? b->stripe_mask + 1U : 0;
}

/* Requires a large filter: only struct bloom_large has the array `shards`. */
FORCE_INLINE struct counter_shard *bloom_shards(const struct bloom *b)
{
  return ((struct bloom_large *) b)->shards;
}

static inline struct bloom *bloom_live_first(const struct bloom *layer)
{
  return const_bloom_long_of(layer)->shared->layers[0];
}

static inline struct bloom_tally *bloom_tally_of(const struct bloom *live)
{
  return const_bloom_long_of(live)->tally;
}

static inline struct counters bloom_counters(const struct bloom *b)
{
  if (b->live)
    return (struct counters){bloom_tally_of(b)->shards, CORE_SHARDS - 1};
  return (struct counters){b->counter_mask ? bloom_shards(b) : (struct counter_shard *) b->counts,
                           b->counter_mask};
}

static inline uint64_t bloom_counted(const struct bloom *b, enum bloom_counter which)
{
  const struct counters counters = bloom_counters(b);
  return tamis__counter_sum(&counters, which);
}

/* The numbers of keys that adds have counted and that unions brought.  In a filter with counters,
 * `keys` is the number of copies, or 0 if removes of keys with stuck counters have made it
 * negative, and `united` is the *rest* (counting_read()). */
struct bloom_sums {
  uint64_t keys, united;
};

static inline struct bloom_sums bloom_sums_of(const struct bloom *b)
{
  uint64_t keys = bloom_counts(b) && b->limited ? word_load(&const_bloom_long_of(b)->copies)
                                                : bloom_counted(b, KEYS);
  return (struct bloom_sums){bloom_counts(b) && keys >> 63 ? 0 : keys, bloom_counted(b, UNITED)};
}

/* Does the work of bloom_count() for a thread that owns no shard of the filter. */
uint64_t tamis__bloom_add_shared(const struct bloom *b, enum bloom_counter which, uint64_t amount);

FORCE_INLINE uint64_t bloom_count(const struct bloom *b, enum bloom_counter which, uint64_t amount)
{
  return counter_is_owned_by_mask(b->counter_mask)
             ? counter_add_owned(bloom_shards(b), which, amount)
             : tamis__bloom_add_shared(b, which, amount);
}

/* Returns the layout in memory, which may be one that the API does not name (geometry.h). */
static inline tamis_layout bloom_layout_for(const tamis_options *options)
{
  if (options->kind == TAMIS_COUNTING_BLOOM)
    return BLOOM_LAYOUT_COUNTING;
  return options->layout == TAMIS_LAYOUT_WORD && !options->growable ? BLOOM_LAYOUT_MARKED
                                                                    : options->layout;
}

/* Returns true if the filter opens another layer when it is full (layers.c).  A filter with
 * counters does not, because a remove could not find out which layer holds the key. */
static inline bool bloom_opens_layers(const tamis_options *options)
{
  return options->growable && options->kind == TAMIS_BLOOM;
}

/* Returns true if a filter of this geometry gives each key the same bits as `b` does. */
static inline bool bloom_has_geometry(const struct bloom *b, const struct bloom_geometry *g)
{
  return b->layout == g->shape.layout && b->probes == g->shape.probes &&
         b->bits_per_probe == g->shape.bits_per_probe && b->sections == g->shape.sections &&
         b->word_count == g->words;
}

/* Returns true if both filters give each key the same bits, and are both growable or both fixed. */
static inline bool bloom_fit_together(const struct bloom *a, const struct bloom *b)
{
  const struct bloom_geometry g = bloom_geometry_of(b);
  return a->limited == b->limited && bloom_has_geometry(a, &g);
}

/* Returns true while `newest` is NULL: until there is a second layer, or a final refusal.
 * ORDER layer.load (seq_cst)
 *   pairs with     layer.append
 *   makes visible  the whole layer, whose words are zero, and that the layer before it is full
 *   if weakened    to acquire: two unique adds of a key can win.  Thread P completes the key in
 *                  layer 1, and still loads NULL.  Thread Q has seen layer 2, misses P's bits in
 *                  layer 1, and adds the key to layer 2
 *   checked by     mutants/layer_load_relaxed */
static inline bool is_alone(const struct bloom *first)
{
  return !atomic_load_explicit(&first->newest, memory_order_seq_cst);
}

/* The state of a live filter is twice the number of open layers, plus LIVE_ENDED if the newest
 * layer takes no more keys and no layer can follow.  Another process may write any number.
 * ORDER live.state (seq_cst)
 *   pairs with     live.publish in publish() of live.c, and live.end in end_live()
 *   makes visible  that a layer with zero words is open, or that unique adds of all processes
 *                  are refused from now on
 *   if weakened    two unique adds of a key can win (see layer.load), or one unique add can
 *                  win although another of the key is refused for good (see layer.end)
 *   checked by     mutants/live_state_read_too_early */
enum { LIVE_ALONE = 2, LIVE_ENDED = 1 };

static inline uint64_t bloom_live_state(const struct bloom *first)
{
  return atomic_load_explicit(&bloom_tally_of(first)->state, memory_order_seq_cst);
}

/* Returns the newest open layer.  `known` counts the layers that this process has seen open.
 * ORDER live.known (acq_rel)
 *   pairs with     live.known in another thread
 *   makes visible  the publication of a layer, which a thread saw before it raised `known`
 *   if weakened    a thread could learn of the layer from `known`, and still read old values of the
 *                  older layer's words.  If it thereby misses a key, two unique adds of the key win
 *   checked by     compat.arm64 */
static inline struct bloom *bloom_live_newest(const struct bloom *first)
{
  struct bloom_shared *shared = const_bloom_long_of(first)->shared;
  uint64_t n = bloom_live_state(first) / LIVE_ALONE;
  unsigned known = atomic_load_explicit(&shared->known, memory_order_acquire);
  while (n <= shared->planned && n > known)
    if (atomic_compare_exchange_weak_explicit(&shared->known, &known, (unsigned) n,
                                              memory_order_acq_rel, memory_order_acquire))
      known = (unsigned) n;
  return shared->layers[known - 1];
}

/* Returns the newest open layer.  ORDER layer.load explains the memory order. */
static inline struct bloom *newest_layer(const struct bloom *first)
{
  if (first->live)
    return bloom_live_newest(first);
  struct bloom *newest = atomic_load_explicit(&first->newest, memory_order_seq_cst);
  return newest ? newest : (struct bloom *) first;
}

/* Sets layers[] to a filter's layers, from the first to the newest.  Returns their number. */
static inline unsigned bloom_layers_of(const struct bloom *first,
                                       struct bloom *layers[BLOOM_MOST_LAYERS])
{
  struct bloom *layer = newest_layer(first);
  const unsigned n = layer->number;
  for (; layer; layer = bloom_older(layer))
    layers[layer->number - 1] = layer;
  return n;
}

int tamis__live_sync(const struct bloom *first);
void tamis__live_close(struct bloom_shared *shared);

extern const struct filter_operations tamis__bloom_layered;

/* In capacity.c: checks how much room the layer has, sets its fullness to NEAR if there is little
 * room, and chooses when adds check again.  Returns TAMIS_OK. */
int tamis__bloom_watch(struct bloom *b);

/* In layers.c: if another layer can follow, lets the first layer close when its share of the rate
 * is used up.  (In files of old versions, and at low rates of the word layout, it may be planned
 * for more.)  The filter must not be shared yet. */
void tamis__layers_limit_first(struct bloom *first);

/* In layers.c: returns how many keys, up to the capacity, the first layer's share allows. */
uint64_t tamis__layers_close_first(const struct bloom_geometry *g);

/* In capacity.c: returns the most set bits of a fixed filter: the expected number for `capacity`
 * keys, plus four standard deviations (of independent bits: an upper bound). */
double bloom_geometry_most_bits(const struct bloom_geometry *g);

/* In capacity.c: returns the number of counted keys that set bloom_geometry_most_bits() bits. */
uint64_t bloom_geometry_most_keys(const struct bloom_geometry *g);

/* In capacity.c: returns how many of `keys` distinct keys are counted; the others are hidden. */
double bloom_geometry_counted(const struct bloom_geometry *g, double keys);

const struct bloom_calls *tamis__bloom_calls(struct bloom_shape shape);

static inline const struct bloom_calls *bloom_calls_of(const struct bloom *b)
{
  return b->is_long ? const_bloom_long_of(b)->calls : tamis__bloom_calls(bloom_shape_of(b));
}

/* Returns the row with which a search looks at this layer alone. */
static inline struct bloom_row bloom_row_of(const struct bloom *b)
{
  return (struct bloom_row){.words = b->words,
                            .section_words = bloom_section_words(bloom_shape_of(b), b->word_count),
                            .calls = bloom_calls_of(b),
                            .sections = b->sections,
                            .probes = b->probes,
                            .layout = b->layout,
                            .bits_per_probe = b->bits_per_probe,
                            .alike = 1};
}

FORCE_INLINE struct bloom_shape bloom_shape_of_row(const struct bloom_row *row)
{
  return (struct bloom_shape){(tamis_layout) row->layout, row->probes, row->bits_per_probe,
                              row->sections};
}

/* In capacity.c: plans a filter of one layer (`layer` is 0) or a layer of a growable filter. */
int tamis__bloom_plan(tamis_layout layout, unsigned layer, uint64_t capacity, double fpp,
                      struct bloom_geometry *out);

/* Returns the lowest rate that can be planned: 64-bit hashes set a limit, the counting layout has
 * no shape below its last range, and a word filter has at most twice a blocked filter's bits. */
double tamis__bloom_lowest_rate(tamis_layout layout, uint64_t capacity);

uint64_t tamis__bloom_bytes(const struct bloom *b);

/* Returns the option max_bytes.  If it is not stored: the filter's size if `bounded`, else 0. */
static inline uint64_t bloom_max_bytes(const struct bloom *b)
{
  return b->is_long     ? const_bloom_long_of(b)->max_bytes
         : b->is_medium ? const_bloom_medium_of(b)->max_bytes
         : b->bounded   ? tamis__bloom_bytes(b)
                        : 0;
}

/* All that determines a filter, or one of its layers. */
struct bloom_plan {
  struct bloom_geometry geometry;
  unsigned stripes_wanted;
  uint64_t max_bytes;
  bool limited;        /* the filter is fixed: it refuses keys beyond its capacity */
  uint64_t closes_at;  /* the layer closes at this number of counted keys; 0: at its capacity */
  struct bloom *older; /* the layer before this one, or NULL */
  unsigned number;     /* the layer's number; the first layer has 1 */
  bool is_mapped;
  bool closes_early; /* tamis__layers_limit_first() may lower closes_at */
  bool has_allocator;
  bool own_hash;
  uint64_t cleared_from;
  struct bloom_tally *tally; /* NULL, unless the filter is live */
};

/* Returns the bytes of a filter with this plan.  tamis__bloom_bytes_beside() omits its words. */
uint64_t tamis__bloom_bytes_for(const struct bloom_plan *plan);

uint64_t tamis__bloom_bytes_beside(const struct bloom_plan *plan);

/* Creates an empty filter, or a layer after plan->older. */
int tamis__bloom_create_empty(const struct tamis_filter *head, const struct bloom_plan *plan,
                              struct bloom **out);

/* Destroys one layer, and keeps the layers before it. */
void tamis__bloom_destroy_layer(struct bloom *b);

/* Destroys `newest`, which may be NULL, and the layers before it, down to the layer after `kept`
 * or, if `kept` is NULL, to the first layer.  Unmaps no file. */
void tamis__bloom_destroy_layers(struct bloom *newest, const struct bloom *kept);

/* Creates a filter or layer, which then owns `words` unless they are mapped from a file.  `words`
 * is NULL only for a small filter, whose block contains the words.  Returns NULL if there is no
 * memory; the caller then still owns the words. */
struct bloom *tamis__bloom_create(const struct tamis_filter *head, const struct bloom_plan *plan,
                                  word *words, const struct saved_mapping *mapping);

int tamis__bloom_read_info(struct saved_reader *r, struct saved_head *saved);
void tamis__bloom_describe(const tamis_filter *f, struct saved_head *out);
int tamis__bloom_save(const tamis_filter *f, struct saved_writer *w);
int tamis__bloom_load(struct saved_reader *r, const struct saved_head *saved,
                      const struct tamis_filter *head, tamis_filter **out);

int tamis__bloom_share_new(struct saved_head *saved, const struct refusal *why,
                           struct shared_file *file);
int tamis__bloom_share_open(struct saved_reader *r, const struct saved_head *saved,
                            const struct tamis_filter *head, struct shared_file *file,
                            tamis_filter **out);

/* In save.c: counts the set bits, except marks.  *marks is 0 if no word has a mark. */
uint64_t tamis__bloom_count_bits(const struct bloom_geometry *g, const uint64_t *words,
                                 uint64_t *marks);

/* In save.c: returns true if the counters have the sum that `counted` gives, or if any is stuck. */
bool tamis__bloom_counters_agree(const struct bloom_geometry *g, const uint64_t *words,
                                 struct bloom_sums counted);

/* In save.c: corrects the sums in a live layer's tally by the layer's bits.  Other processes may
 * count meanwhile, but only one process at a time may call this function. */
void tamis__bloom_count_again(struct bloom *b);

int tamis__bloom_create_like(const struct bloom *model, struct bloom **out);

int tamis__bloom_merge(tamis_filter *into, const tamis_filter *from);
int tamis__bloom_intersect(const tamis_filter *a, const tamis_filter *b, tamis_filter **out);
int tamis__bloom_includes(const tamis_filter *f, const tamis_filter *other);
int tamis__bloom_similarity(const tamis_filter *a, const tamis_filter *b,
                            tamis_similarity_stats *out);

#endif
