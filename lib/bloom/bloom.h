/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what a Bloom filter consists of.
 *
 *    bloom.c        the kind: plans, figures, validation
 *    structs.h      what is in its memory
 *    create.c       that memory, and creation from a plan
 *    operations.c   look-up, add and unique add; the essay on why they are correct is there
 *    vectors.h      batches of look-ups on processors that can compute with vectors
 *    word_layout.h  what is different in the layout of one word, with an essay of its own
 *    counting.h     what is different where counters stand in the place of bits; an essay
 *    capacity.h     what an add counts, and when it is refused
 *    layers.*       what a growable filter does that has, or may need, several layers; an essay
 *    gaps.h         a key, and the bits that it lacks
 *    live.*         what several processes share of a filter; an essay
 *    shared.c       a filter that processes share: creates the file, and opens it
 *    unite.c        union, intersection and similarity of two filters
 *    save.c         saved, loaded and mapped filters
 *    geometry.*     layer 0: how many bits a promise needs, and which of them belong to a key
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

/* Of a filter that is long. */
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

static inline struct bloom_geometry bloom_geometry_of(const struct bloom *b)
{
  return (struct bloom_geometry){.shape = bloom_shape_of(b),
                                 .lines = b->word_count / LINE_WORDS,
                                 .capacity = bloom_capacity(b),
                                 .fpp = b->fpp,
                                 .words = b->word_count};
}

/* Of a filter that is medium. */
static inline const struct bloom_medium *const_bloom_medium_of(const struct bloom *b)
{
  assert(b->is_medium);
  return (const struct bloom_medium *) b;
}

/* Of a filter that is limited: more bits mean that more than `capacity` distinct keys are in. */
static inline double bloom_max_bits(const struct bloom *limited)
{
  return limited->is_long ? const_bloom_long_of(limited)->max_bits
                          : const_bloom_medium_of(limited)->max_bits;
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

/* The layer before; NULL: this is the first one. */
static inline struct bloom *bloom_older(const struct bloom *layer)
{
  return layer->number > 1 ? layer->older : NULL;
}

FORCE_INLINE struct stripe *bloom_stripe(const struct bloom *b, uint64_t hash)
{
  return (struct stripe *) ((char *) b->stripes +
                            (hash & b->stripe_mask) * sizeof(struct padded_stripe));
}

/* Whether counters stand in the place of bits. */
static inline bool bloom_counts(const struct bloom *b)
{
  return b->layout == BLOOM_LAYOUT_COUNTING;
}

/* A filter whose words are mapped has none. */
static inline unsigned bloom_stripe_count(const struct bloom *b)
{
  return bloom_counts(b) && b->stripes ? b->stripe_mask + 1U : 0;
}

/* The shards of a filter that is large. */
FORCE_INLINE struct counter_shard *bloom_shards(const struct bloom *b)
{
  return ((struct bloom_large *) b)->shards;
}

/* Of a live filter. */
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
    return (struct counters){bloom_tally_of(b)->shards, BLOOM_TALLY_SHARDS - 1};
  return (struct counters){b->counter_mask ? bloom_shards(b) : (struct counter_shard *) b->counts,
                           b->counter_mask};
}

static inline uint64_t bloom_counted(const struct bloom *b, enum bloom_counter which)
{
  const struct counters counters = bloom_counters(b);
  return tamis__counter_sum(&counters, which);
}

/* The counted keys, and the keys of unions.  With counters: the copies, and the rest (counting.h).  Keys
 * with stuck counters may be removed too often; the number of copies is then 0. */
struct bloom_sums {
  uint64_t keys, united;
};

static inline struct bloom_sums bloom_sums_of(const struct bloom *b)
{
  uint64_t keys = bloom_counts(b) && b->limited ? word_load(&const_bloom_long_of(b)->copies)
                                                : bloom_counted(b, KEYS);
  return (struct bloom_sums){bloom_counts(b) && keys >> 63 ? 0 : keys, bloom_counted(b, UNITED)};
}

/* For a thread that owns no shard (capacity.c). */
uint64_t tamis__bloom_add_shared(const struct bloom *b, enum bloom_counter which, uint64_t amount);

FORCE_INLINE uint64_t bloom_count(const struct bloom *b, enum bloom_counter which, uint64_t amount)
{
  return counter_is_owned_by_mask(b->counter_mask)
             ? counter_add_owned(bloom_shards(b), which, amount)
             : tamis__bloom_add_shared(b, which, amount);
}

/* What the filter's bits are laid out as. */
static inline tamis_layout bloom_layout_for(const tamis_options *options)
{
  if (options->kind == TAMIS_COUNTING_BLOOM)
    return BLOOM_LAYOUT_COUNTING;
  return options->layout == TAMIS_LAYOUT_WORD && !options->growable ? BLOOM_LAYOUT_MARKED
                                                                    : options->layout;
}

/* Whether the filter opens further layers when it is full (layers.c).  One with counters does not:
 * a remove would have to know which layer a key is in. */
static inline bool bloom_opens_layers(const tamis_options *options)
{
  return options->growable && options->kind == TAMIS_BLOOM;
}

/* Whether each key has the bits that it has in a filter of this geometry. */
static inline bool bloom_has_geometry(const struct bloom *b, const struct bloom_geometry *g)
{
  return b->layout == g->shape.layout && b->probes == g->shape.probes &&
         b->bits_per_probe == g->shape.bits_per_probe && b->sections == g->shape.sections &&
         b->word_count == g->words;
}

/* Whether each key has the same bits in both, and both grow or neither does. */
static inline bool bloom_fit_together(const struct bloom *a, const struct bloom *b)
{
  const struct bloom_geometry g = bloom_geometry_of(b);
  return a->limited == b->limited && bloom_has_geometry(a, &g);
}

/* Whether nothing has come after the first layer.
 * ORDER layer.load (seq_cst)
 *   pairs with     layer.append
 *   makes visible  all of the layer, whose words are zero, and that the layer before is full
 *   if weakened    acquire would keep that.  But a unique add, which completes its key and then
 *                  looks whether there is another layer, could miss that one, while a call that
 *                  adds the key there misses the bits: two winners
 *   checked by     mutants/layer_load_relaxed */
static inline bool is_alone(const struct bloom *first)
{
  return !atomic_load_explicit(&first->newest, memory_order_seq_cst);
}

/* The state of a live filter: twice the number of layers that are open, and one more if the newest one
 * takes no further key and none can follow.  Any number may stand there.
 * ORDER live.state (seq_cst)
 *   pairs with     live.publish in publish() of live.c, and live.end in end_live()
 *   makes visible  that a layer is open, whose words are zero, or that unique adds are refused from
 *                  now on, by whichever process
 *   if weakened    as layer.load and layer.ended: two winners, or one beside a final refusal
 *   checked by     mutants/live_state_read_too_early */
enum { LIVE_ALONE = 2, LIVE_ENDED = 1 };

static inline uint64_t bloom_live_state(const struct bloom *first)
{
  return atomic_load_explicit(&bloom_tally_of(first)->state, memory_order_seq_cst);
}

/* What another thread of this process has read of the state, this one knows as well.
 * ORDER live.known (acq_rel)
 *   pairs with     live.known in another thread
 *   makes visible  what the thread that has read the state has seen: so a search by it comes after the
 *                  publication of the layer
 *   if weakened    a unique add could know a layer before its publication, search the one before it
 *                  too early, and win beside another one
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

/* See layer.load. */
static inline struct bloom *newest_layer(const struct bloom *first)
{
  if (first->live)
    return bloom_live_newest(first);
  struct bloom *newest = atomic_load_explicit(&first->newest, memory_order_seq_cst);
  return newest ? newest : (struct bloom *) first;
}

/* For calls that do not decide by it.  Of a live filter, this process may know less than others. */
static inline unsigned char fullness_of(const struct bloom *b)
{
  unsigned char fullness = atomic_load_explicit(&b->fullness, memory_order_relaxed);
  if (!b->live || fullness >= FULL)
    return fullness;
  const struct bloom *first = bloom_live_first(b);
  bool closed = b != bloom_live_newest(first) || bloom_live_state(first) & LIVE_ENDED;
  return closed ? FULL : fullness;
}

/* Of live.c: writes to the disk what has been added before; unmaps the file of a filter, and releases
 * what the process knows of it. */
int tamis__live_sync(const struct bloom *first);
void tamis__live_close(struct bloom_shared *shared);

/* Of layers.c: the operations of several layers. */
extern const struct filter_operations tamis__bloom_layered;

/* Of capacity.c: looks whether a layer is near its capacity, and decides when to look again.
 * Returns TAMIS_OK. */
int tamis__bloom_watch(struct bloom *b);

/* Of layers.c: closes the first layer when it has its share of the rate, if it was planned for more
 * than that: in files of versions without layers, and at some of the lowest rates of the word
 * layout.  (It stays open if no other layer can follow.)  The filter is not shared yet. */
void tamis__layers_limit_first(struct bloom *first);

/* Of layers.c: whether that is so, but for the last sentence. */
bool tamis__layers_may_limit_first(const struct bloom_geometry *g);

/* Of layers.c: with how many keys the first layer has its share of the rate, at most its capacity. */
uint64_t tamis__layers_close_first(const struct bloom_geometry *g);

const struct bloom_calls *tamis__bloom_calls(struct bloom_shape shape, bool limited);

/* Layers after the first one are long. */
static inline const struct bloom_calls *bloom_calls_of(const struct bloom *b)
{
  return b->is_long ? const_bloom_long_of(b)->calls
                    : tamis__bloom_calls(bloom_shape_of(b), b->limited);
}

/* The row of a layer alone. */
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

/* The number of set bits from which on a filter that is not growable is full; at_capacity() checks
 * it. */
double tamis__bloom_limit_of_bits(const struct bloom_geometry *g);

/* The same, of any filter. */
double tamis__bloom_max_bits(const struct bloom *b);

/* The lowest rate that is planned for: the one that 64-bit hashes can give or, in the counting
 * layout, the end of its lowest range or, in the word layout, the one from which on it takes at
 * most twice the bits of the blocked layout.  (That one is found by trying.) */
double tamis__bloom_lowest_rate(tamis_layout layout, uint64_t capacity);

/* What a layer takes. */
uint64_t tamis__bloom_bytes(const struct bloom *b);

/* That of the options, or a lower one that is as good: see `bounded`. */
static inline uint64_t bloom_max_bytes(const struct bloom *b)
{
  return b->is_long     ? const_bloom_long_of(b)->max_bytes
         : b->is_medium ? const_bloom_medium_of(b)->max_bytes
         : b->bounded   ? tamis__bloom_bytes(b)
                        : 0;
}

/* What a filter is made of. */
struct bloom_plan {
  struct bloom_geometry geometry;
  unsigned stripes_wanted;
  uint64_t max_bytes;
  bool limited;
  double max_bits;     /* 0: computed */
  uint64_t closes_at;  /* 0: at the capacity */
  struct bloom *older; /* the layer before */
  unsigned number;     /* of the layer; 0 or 1: the first */
  bool is_mapped;
  bool closes_early;         /* or may do so: see tamis__layers_limit_first() */
  bool has_allocator;        /* of the user's */
  bool is_unusual;           /* it has a hash function of the user's, or is a further layer */
  uint64_t cleared_from;     /* of the options */
  struct bloom_tally *tally; /* of a live filter; NULL: it is none */
};

/* The bytes that it takes. */
uint64_t tamis__bloom_bytes_for(const struct bloom_plan *plan);

/* The bytes that it takes beside its words.  (They are in the same block, if it is small.) */
uint64_t tamis__bloom_bytes_beside(const struct bloom_plan *plan);

/* Creates a filter, or a layer if plan->older is not NULL, without keys. */
int tamis__bloom_create_empty(const struct tamis_filter *head, const struct bloom_plan *plan,
                              struct bloom **out);

/* Destroys a layer, but not those before it. */
void tamis__bloom_destroy_layer(struct bloom *b);

/* Destroys them from the newest one to the first.  NULL is fine; a mapping stays. */
void tamis__bloom_destroy_layers(struct bloom *newest);

/* Creates a filter with words that are there already, and that become its own unless a file is
 * mapped.  If `words` is NULL, it is small, and they are in its block.  NULL: there is no memory,
 * and the words are still the caller's. */
struct bloom *tamis__bloom_create(const struct tamis_filter *head, const struct bloom_plan *plan,
                                  word *words, const struct saved_mapping *mapping);

void tamis__bloom_figures(const struct saved_head *saved, tamis_stats *out);
uint64_t tamis__bloom_saved_beside(const struct saved_head *saved);
void tamis__bloom_describe(const tamis_filter *f, struct saved_head *out);
int tamis__bloom_save(const tamis_filter *f, struct saved_writer *w);
int tamis__bloom_load(struct saved_reader *r, const struct saved_head *saved,
                      const struct tamis_filter *head, tamis_filter **out);

/* Of shared.c: members of struct filter_kind. */
int tamis__bloom_share_new(const tamis_options *o, const struct tamis_filter *head,
                           const struct refusal *why, struct shared_file *file);
int tamis__bloom_share_open(struct saved_reader *r, const struct saved_head *saved,
                            const struct tamis_filter *head, struct shared_file *file,
                            tamis_filter **out);

/* Of save.c: the figures of a live filter, whose header has none. */
int tamis__bloom_live_figures(struct saved_reader *r, struct saved_head *saved);

/* Of save.c: counts the bits of keys in all words of a filter at rest, and finds the marks. */
uint64_t tamis__bloom_count_bits(const struct bloom_geometry *g, const uint64_t *words,
                                 uint64_t *marks);

/* Of save.c: whether the counters in the words fit what is counted, or some counter is stuck. */
bool tamis__bloom_counters_agree(const struct bloom_geometry *g, const uint64_t *words,
                                 struct bloom_sums counted);

/* Of save.c: makes the counters of a layer of a live filter agree with its bits.  Others may count
 * meanwhile; one process at a time calls this. */
void tamis__bloom_count_again(struct bloom *b);

/* A filter without keys that looks like another one.  Returns TAMIS_OK or TAMIS_ENOMEM. */
int tamis__bloom_create_like(const struct bloom *model, struct bloom **out);

/* The members of struct filter_kind. */
int tamis__bloom_merge(tamis_filter *into, const tamis_filter *from);
int tamis__bloom_intersect(const tamis_filter *a, const tamis_filter *b, tamis_filter **out);
int tamis__bloom_similarity(const tamis_filter *a, const tamis_filter *b,
                            tamis_similarity_stats *out);

#endif
