/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what a Bloom filter consists of.
 *
 *    bloom.c        the kind: plans, figures, validation
 *    create.c       its memory, and creation from a plan
 *    operations.c   look-up, add and unique add; the essay on why they are correct is there
 *    vectors.h      batches of look-ups on processors that can compute with vectors
 *    word_layout.h  what is different in the layout of one word, with an essay of its own
 *    counting.h     what is different where counters stand in the place of bits; with counting.c
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

#include "base/counter.h"
#include "base/filter.h"
#include "base/saved.h"
#include "base/shared_file.h"
#include "base/stripe.h"
#include "base/word.h"
#include "bloom/geometry.h"

#include <assert.h>
#include <stddef.h>

extern const struct filter_kind tamis__bloom_kind, tamis__counting_bloom_kind;

/* KEYS: adds that set bits in their last gap.  BITS: bits set; counted if the filter is limited.
 * UNITED: further keys, which a union or an intersection has brought, as unite.c estimates them.
 * REFUSED: adds that were refused.
 * With counters in the place of bits: KEYS are copies, if the filter is not limited; UNITED is the
 * rest (counting.c). */
enum bloom_counter { KEYS, UNITED, REFUSED, BITS, BLOOM_COUNTERS };

/* Whether a layer comes near to the number of keys that it may take.  It only goes up.  LAST: it is
 * full, and no other layer can follow. */
enum bloom_fullness { OPEN, NEAR, FULL, LAST };

/* More than any address space holds. */
enum { BLOOM_MOST_LAYERS = 64 };

struct bloom;
struct bloom_calls;

/* A layer, as a look-up in a filter that has several of them needs it.  Each further layer has a
 * table of such rows, of itself and of those before it, down to the first: a search that went from
 * layer to layer would find each of them at the end of the one before. */
struct bloom_row {
  WIDE const word *words;
  uint64_t section_words; /* of each section */
  WIDE const struct bloom_calls *calls;
  uint8_t sections;
  uint8_t probes;
  uint8_t layout, bits_per_probe;
  unsigned alike; /* so many rows from this one on are searched by one call */
};

/* What is made for each shape (operations.c). */
struct bloom_calls {
  struct filter_operations alone; /* for a filter of one layer */
  /* `contains` of a growable filter that other processes share. */
  bool (*live_contains)(const tamis_filter *f, uint64_t hash);
  /* For some of several layers, which those with counters never are.  Both take mixed hashes.
   * The first one searches n rows, of which none has fewer probes than one that comes later. */
  bool (*find)(const struct bloom_row *rows, unsigned n, uint64_t mixed);
  /* Adds a key, unless the layer is full and the call is not late: TAMIS_OK, if it has completed the
   * key, but has not counted it; TAMIS_PRESENT or TAMIS_EFULL. */
  int (*insert)(struct bloom *b, uint64_t mixed, bool late);
};

/* A filter, and each further layer of one: then the head only has what all layers need.
 *
 * A server may keep a filter for each of a million users.  So that a small one takes little, this
 * is all that there is of a filter with the usual options (*short*), in one block with its words:
 *
 *    [words] struct bloom, without its last counter
 *    [words] struct bloom_long [rows]                        another small one
 *    struct bloom_large, with its shards [stripes] [rows]    a large one: its words are elsewhere
 *
 * A small one has a stripe, and one shard of counters, within the struct.  No thread owns that, so
 * all of them add to it atomically. */
struct bloom {
  struct tamis_filter head; /* `more` is NULL if the filter is short */
  WIDE word *words;
  uint64_t word_count;
  union {
    WIDE struct stripe *stripes; /* the first one; only filters with counters have any */
    uint64_t section_words;      /* of the others */
  };
  union {
    /* In the first layer: the newest one, or NULL if that is the first; or the first one itself, if
     * it is the last one, too ([C] in layers.c). */
    WIDE struct bloom *_Atomic newest;
    WIDE struct bloom *older; /* in the others: the layer before */
  };
  double fpp;
  /* LOCK bloom.stripes (order 1): order the unique adds and removes of a line of counters; held for
   * one of them.
   * This one is that of a small filter: the lock of a stripe, without what follows it in struct
   * stripe, which nobody uses here. */
  _Alignas(8) char own_stripe[STRIPE_LOCK_BYTES];
  uint16_t few_keys;           /* short: the capacity */
  uint16_t stripe_mask : 13;   /* number of stripes - 1 */
  uint16_t probes : 3;         /* these four: the shape */
  _Atomic uint16_t watch_mask; /* the period of looks at the counters (capacity.h), less 1 */
  uint8_t counter_mask;        /* number of shards - 1; 0: they are `counts` */
  uint8_t number : 7;          /* of the layer, from 1 on */
  uint8_t one_stripe : 1;      /* the user has asked for one */
  uint8_t sections : 7;
  uint8_t live : 1; /* its words and counters are in a file that other processes share */
  uint8_t layout : 3;
  uint8_t bits_per_probe : 3;
  uint8_t limited : 1;                     /* not growable: keys past the capacity are refused */
  uint8_t bounded : 1;                     /* short: max_bytes leaves no room for another layer */
  _Atomic unsigned char fullness;          /* enum bloom_fullness; written at most thrice */
  _Atomic unsigned char openers;           /* threads that create a further layer */
  _Atomic uint64_t counts[BLOOM_COUNTERS]; /* only limited filters, which are long, have the last */
};

enum { BLOOM_SHORT_BYTES = sizeof(struct bloom) - sizeof(uint64_t) };
_Static_assert(offsetof(struct bloom, counts) == 96 && sizeof(struct bloom) == 128,
               "no byte is unused");

/* None of it changes but `copies`, and of a first layer `closes_at`, before it is shared. */
struct bloom_long {
  struct bloom b;
  WIDE const struct bloom_calls *calls;
  WIDE const struct bloom_row *rows; /* of a further layer; as many as its number says */
  uint64_t capacity;
  uint64_t closes_at; /* growable: counted keys after which the next layer is opened */
  double max_bits;    /* limited: more bits mean that more than `capacity` distinct keys are in */
  uint64_t max_bytes; /* of the options */
  union {
    struct saved_mapping mapping; /* where the words are; at == NULL: not in a mapped file */
    struct {
      WIDE const void *none;            /* mapping.at */
      WIDE struct bloom_shared *shared; /* if the filter is live */
    };
  };
  unsigned stripes_wanted; /* by the user; 0: chosen by the library */
  uint32_t cleared_from;   /* blocks of so many bytes and more come cleared; 0: none do */
  struct filter_more more;
  union {
    word copies;                    /* that are in a limited filter with counters */
    WIDE struct bloom_tally *tally; /* of a live one */
  };
};

/* What is counted in a layer of a live filter, in the file: docs/format.md has the bytes. */
enum { BLOOM_TALLY_SHARDS = 32 };
struct bloom_tally {
  _Atomic uint64_t state;     /* in that of the first layer: see bloom_live_state() */
  _Atomic uint64_t unwatched; /* the complement of a watch_mask; bits are only added */
  _Atomic uint64_t boot;      /* in that of the first layer: of the system that has counted */
  uint64_t unused[5];
  struct counter_shard shards[BLOOM_TALLY_SHARDS];
};
_Static_assert(sizeof(struct bloom_tally) == (1 + BLOOM_TALLY_SHARDS) * LINE_BYTES,
               "a shard is a cache line");

/* What a process knows of a live filter. */
struct bloom_shared {
  tamis_allocator allocator;
  struct filter_operations operations; /* while it knows a single layer */
  struct shared_file file;
  unsigned planned;       /* layers, with those that are not open yet */
  _Atomic unsigned known; /* to be open: no layer is ever forgotten */
  struct bloom *layers[BLOOM_MOST_LAYERS];
  uint64_t ends[BLOOM_MOST_LAYERS]; /* where they end in the file */
};

struct bloom_large {
  struct bloom_long l;
  unsigned char secret[HASH_SECRET_BYTES];
  struct counter_shard shards[];
};

_Static_assert(offsetof(struct bloom_large, shards) % sizeof(struct counter_shard) == 0,
               "a shard is a cache line");

static inline struct bloom *bloom_of(tamis_filter *f)
{
  return (struct bloom *) f;
}

static inline const struct bloom *const_bloom_of(const tamis_filter *f)
{
  return (const struct bloom *) f;
}

/* ---- the parts of a filter ---- */

static inline bool bloom_is_long(const struct bloom *b)
{
  return b->head.more != NULL;
}

/* Of a filter that is long. */
static inline struct bloom_long *bloom_long_of(struct bloom *b)
{
  assert(bloom_is_long(b));
  return (struct bloom_long *) b;
}

static inline const struct bloom_long *const_bloom_long_of(const struct bloom *b)
{
  assert(bloom_is_long(b));
  return (const struct bloom_long *) b;
}

FORCE_INLINE struct bloom_shape bloom_shape_of(const struct bloom *b)
{
  return (struct bloom_shape){(tamis_layout) b->layout, b->probes, b->bits_per_probe, b->sections};
}

static inline uint64_t bloom_capacity(const struct bloom *b)
{
  return bloom_is_long(b) ? const_bloom_long_of(b)->capacity : b->few_keys;
}

static inline struct bloom_geometry bloom_geometry_of(const struct bloom *b)
{
  return (struct bloom_geometry){.shape = bloom_shape_of(b),
                                 .lines = b->word_count / LINE_WORDS,
                                 .capacity = bloom_capacity(b),
                                 .fpp = b->fpp,
                                 .words = b->word_count};
}

static inline uint64_t bloom_closes_at(const struct bloom *b)
{
  return bloom_is_long(b) ? const_bloom_long_of(b)->closes_at : b->few_keys;
}

static inline unsigned bloom_stripes_wanted(const struct bloom *b)
{
  return bloom_is_long(b) ? const_bloom_long_of(b)->stripes_wanted : b->one_stripe;
}

static inline uint32_t bloom_cleared_from(const struct bloom *b)
{
  return bloom_is_long(b) ? const_bloom_long_of(b)->cleared_from : 0;
}

static inline struct saved_mapping bloom_mapping(const struct bloom *b)
{
  return bloom_is_long(b) ? const_bloom_long_of(b)->mapping : (struct saved_mapping){.at = NULL};
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

/* A filter whose words are mapped has none. */
static inline unsigned bloom_stripe_count(const struct bloom *b)
{
  return b->layout == BLOOM_LAYOUT_COUNTING && b->stripes ? b->stripe_mask + 1U : 0;
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
 *   checked by     negative/layer_load_relaxed */
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
 *   checked by     negative/live_state_read_too_early */
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
 *   checked by     unit.arm64 */
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

/* The same, where vectors_usable(). */
const struct bloom_calls *tamis__bloom_calls_by_vectors(struct bloom_shape shape, bool limited);

/* Layers after the first one are long.  (If the first one is short, a batch in several layers is not
 * computed with vectors there.  To ask for the processor would slow down each single call.) */
static inline const struct bloom_calls *bloom_calls_of(const struct bloom *b)
{
  return bloom_is_long(b) ? const_bloom_long_of(b)->calls
                          : tamis__bloom_calls(bloom_shape_of(b), false);
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

/* bloom_long.max_bits, also of a filter that is short. */
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
  return bloom_is_long(b) ? const_bloom_long_of(b)->max_bytes
         : b->bounded     ? tamis__bloom_bytes(b)
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
  bool is_unusual;           /* it has an allocator or a hash function of the user's */
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

/* Of save.c: makes the counters of a layer of a live filter agree with its bits.  Others may count
 * meanwhile; one process at a time calls this. */
void tamis__bloom_count_again(struct bloom *b);

/* Counting: the copies that are in, and the raises that belong to none of them (counting.c). */
struct counting_keys {
  uint64_t copies, rest;
};
struct counting_keys tamis__counting_keys(const struct bloom *b);

/* A filter without keys that looks like another one.  Returns TAMIS_OK or TAMIS_ENOMEM. */
int tamis__bloom_create_like(const struct bloom *model, struct bloom **out);

/* The members of struct filter_kind. */
int tamis__bloom_merge(tamis_filter *into, const tamis_filter *from);
int tamis__bloom_intersect(const tamis_filter *a, const tamis_filter *b, tamis_filter **out);
int tamis__bloom_similarity(const tamis_filter *a, const tamis_filter *b,
                            tamis_similarity_stats *out);
int tamis__counting_merge(tamis_filter *into, const tamis_filter *from);

/* A part of validate() in bloom.c. */
const char *tamis__counting_fault(const struct bloom *b);

#endif
