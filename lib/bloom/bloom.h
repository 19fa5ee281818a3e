/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what a Bloom filter consists of.
 *
 *    bloom.c        the kind: sizes, creation, figures, validation
 *    operations.c   look-up, add and unique add; the essay on why they are correct is there
 *    word_layout.h  what is different in the layout of one word, with an essay of its own
 *    counting.h     what is different where counters stand in the place of bits; with counting.c
 *    capacity.h     what an add counts, and when it is refused
 *    layers.*       what a growable filter does that has, or may need, several layers; an essay
 *    unite.c        union, intersection and similarity of two filters
 *    save.c         saved, loaded and mapped filters
 *    geometry.*     layer 0: how many bits a promise needs, and which of them belong to a key
 */
#ifndef TAMIS_LIB_BLOOM_H
#define TAMIS_LIB_BLOOM_H

#include "base/counter.h"
#include "base/filter.h"
#include "base/saved.h"
#include "base/stripe.h"
#include "base/word.h"
#include "bloom/geometry.h"

extern const struct filter_kind tamis__bloom_kind, tamis__counting_bloom_kind;

/* KEYS: adds that set bits in their last gap.  BITS: bits set; counted if the filter is limited.
 * UNITED: further keys, which a union or an intersection has brought, as unite.c estimates them.
 * REFUSED: adds that were refused.
 * With counters in the place of bits: KEYS are copies, if the filter is not limited; UNITED is the
 * rest (counting.c). */
enum bloom_counter { KEYS, BITS, UNITED, REFUSED };

/* Whether a layer comes near to the number of keys that it may take.  It only goes up.  LAST: it is
 * full, and no other layer can follow. */
enum bloom_fullness { OPEN, NEAR, FULL, LAST };

/* More than any address space holds. */
enum { BLOOM_MOST_LAYERS = 64 };

struct bloom;

/* What is made for each shape (operations.c). */
struct bloom_calls {
  struct filter_operations alone; /* for a filter of one layer */
  /* For one of several layers, which those with counters never are.  Both take mixed hashes. */
  bool (*find)(const struct bloom *b, uint64_t mixed);
  /* Adds a key unless the layer is full: TAMIS_OK, TAMIS_PRESENT or TAMIS_EFULL.  Unique adds hold
   * the key's stripe, if there are stripes. */
  int (*insert)(struct bloom *b, uint64_t mixed);
};

/* A filter, and each further layer of one: then the head only has what all layers need. */
struct bloom {
  struct tamis_filter head;
  struct bloom_geometry geometry;
  word *words;
  struct stripes stripes; /* none in the word layout until there is a second layer */
  struct counters counters;
  uint64_t bytes;
  bool limited;                /* not growable: keys past the capacity are refused */
  bool owns_stripes;           /* they are not those of the layer before */
  uint32_t cleared_from;       /* blocks of so many bytes and more come cleared; 0: none do */
  _Atomic unsigned watch_mask; /* the period of looks at the counters (capacity.h), less 1 */
  double max_bits;    /* limited: more bits mean that more than `capacity` distinct keys are in */
  uint64_t closes_at; /* growable: counted keys after which the next layer is opened */
  const struct bloom_calls *calls;
  _Alignas(64) _Atomic int fullness; /* on a line of its own, as it is written at most thrice */
  _Atomic unsigned openers;          /* threads that create a further layer */
  word copies; /* that are in a limited filter with counters, whose hot calls only use this here */
  /* In the first layer: the newest one, or NULL if that is the first; or the first one itself, if
   * it is the last one, too, and has no stripes (layers.c). */
  struct bloom *_Atomic newest;
  /* These do not change: */
  unsigned stripes_wanted;      /* by the user; 0: chosen by the library */
  unsigned number;              /* of the layer, from 1 on */
  uint64_t max_bytes;           /* of the options */
  struct saved_mapping mapping; /* where the words are; at == NULL: in memory of their own */
  struct bloom *older;          /* the layer before; NULL: this is the first one */
};

static inline struct bloom *bloom_of(tamis_filter *f)
{
  return (struct bloom *) f;
}

static inline const struct bloom *const_bloom_of(const tamis_filter *f)
{
  return (const struct bloom *) f;
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

/* Whether each key has the same bits in both. */
static inline bool bloom_geometries_fit(const struct bloom_geometry *g,
                                        const struct bloom_geometry *h)
{
  return g->shape.layout == h->shape.layout && g->shape.probes == h->shape.probes &&
         g->shape.bits_per_probe == h->shape.bits_per_probe && g->lines == h->lines;
}

static inline bool bloom_fit_together(const struct bloom *a, const struct bloom *b)
{
  return bloom_geometries_fit(&a->geometry, &b->geometry);
}

/* Whether nothing has come after the first layer.
 * ORDER layer.load (seq_cst)
 *   pairs with     layer.append
 *   makes visible  all of the layer, whose words are zero, and that the layer before is full
 *   if weakened    acquire would keep that.  But a unique add in the word layout, which sets its
 *                  bits and then looks whether there is another layer, could miss that one, while
 *                  a call that adds the key there misses the bits: two winners
 *   checked by     negative/layer_load_relaxed */
static inline bool is_alone(const struct bloom *first)
{
  return !atomic_load_explicit(&first->newest, memory_order_seq_cst);
}

/* See layer.load. */
static inline struct bloom *newest_layer(const struct bloom *first)
{
  struct bloom *newest = atomic_load_explicit(&first->newest, memory_order_seq_cst);
  return newest ? newest : (struct bloom *) first;
}

/* Of layers.c: the operations of several layers. */
extern const struct filter_operations tamis__bloom_layered;

/* Of layers.c: looks whether a layer is near its capacity, and decides when to look again.  Returns
 * TAMIS_OK. */
int tamis__bloom_watch(struct bloom *b);

/* Of layers.c: closes the first layer when it has its share of the rate, if it was planned for more
 * than that: in files of versions without layers, and at some of the lowest rates of the word
 * layout.  (It stays open if no other layer can follow.)  The filter is not shared yet. */
void tamis__layers_limit_first(struct bloom *first);

const struct bloom_calls *tamis__bloom_calls(struct bloom_shape shape, bool limited);

/* What a filter is made of. */
struct bloom_plan {
  struct bloom_geometry geometry;
  unsigned stripes_wanted;
  uint64_t max_bytes;
  bool limited;
  double max_bits;     /* 0: computed */
  uint64_t closes_at;  /* 0: at the capacity */
  struct bloom *older; /* the layer before */
  bool shares_stripes; /* with that */
  size_t cleared_from; /* of the options */
};

/* The bytes that it takes beside its words. */
uint64_t tamis__bloom_bytes_beside(const struct bloom_plan *plan);

/* Creates a filter, or a layer if plan->older is not NULL, without keys. */
int tamis__bloom_create_empty(const struct tamis_filter *head, const struct bloom_plan *plan,
                              struct bloom **out);

/* Destroys a layer, but not those before it. */
void tamis__bloom_destroy_layer(struct bloom *b);

/* Destroys them from the newest one to the first.  NULL is fine; a mapping stays. */
void tamis__bloom_destroy_layers(struct bloom *newest);

/* Creates a filter with words that are there already, and that are released with it unless a file
 * is mapped.  NULL: there is no memory, and the words are still the caller's. */
struct bloom *tamis__bloom_create(const struct tamis_filter *head, const struct bloom_plan *plan,
                                  word *words, const struct saved_mapping *mapping);

/* Fills in what follows from out->bits_set. */
void tamis__bloom_estimate(const struct bloom_geometry *g, tamis_stats *out);

void tamis__bloom_figures(const struct saved_head *saved, tamis_stats *out);
uint64_t tamis__bloom_saved_beside(const struct saved_head *saved);
void tamis__bloom_describe(const tamis_filter *f, struct saved_head *out);
int tamis__bloom_save(const tamis_filter *f, struct saved_writer *w);
int tamis__bloom_load(struct saved_reader *r, const struct saved_head *saved,
                      const struct tamis_filter *head, tamis_filter **out);

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
