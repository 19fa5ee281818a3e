/* SPDX-License-Identifier: MIT
 *
 * Layer 0: sizes of the tables of a sliding window, and the address of a key.
 *
 *    x = mixed hash × odd constant, as a fraction of 64 bits
 *    x × S  =  segment . y              the segment is one of S
 *    y × H  =  i . z                    i is one of H buckets in the lower half of the segment
 *    z                                  its first f bits are the fingerprint; 0 becomes 1
 *
 *    lower = i      upper = H + (g - i mod H), where g = fingerprint · H / 2^f
 *
 * A key's fingerprint determines the sum of its two buckets.  So either bucket leads to the other,
 * and H may be any number.  Source: Fan et al., "Cuckoo filter: practically better than Bloom",
 * CoNEXT 2014; this library uses the sum of the buckets, one from each half, not their xor.
 *
 * A table of up to 2 MiB is one segment, so look-ups need not compute the segment.  Larger tables
 * have segments of half a MiB.  A save freezes one segment at a time (evict.h).
 *
 * A filter that grows opens layers, each of which is a table of its own.  Layers that exist at the
 * same time have different indices 1, 2, ...  A layer of index k gets a share of the filter's
 * false-positive rate: 0.9 if k is 1, otherwise 0.1 times 6 / (pi (k - 1))^2.  The shares of all
 * layers add up to at most 1.
 */
#ifndef TAMIS_LIB_WINDOW_GEOMETRY_H
#define TAMIS_LIB_WINDOW_GEOMETRY_H

#include "base/hash.h"
#include "window/bucket.h"

enum {
  WINDOW_LINE_WORDS = 8,
  /* The highest block_shift: blocks have at most 4 KiB. */
  WINDOW_MAX_BLOCK_SHIFT = SMALL(9, 4)
};

struct window_geometry {
  struct window_shape shape;
  struct window_shape whole; /* shape of a whole word, as if a word were one bucket */
  unsigned shape_index;      /* index in WINDOW_FOR_ALL_SHAPES */
  unsigned bucket_shift;     /* log2 of the number of buckets in a word: 0 or 1 */
  uint64_t segments;         /* S: the number of segments */
  uint64_t half;             /* H: the number of buckets in half a segment; they fill whole words */
  uint64_t top;              /* mask of a fingerprint's bits at the top of a word */
  uint64_t one;              /* the lowest bit of `top` */
  uint64_t capacity;         /* the number of keys that the layer is made for */
  double rate;               /* the false-positive rate of a full layer */
};

struct window_spec {
  unsigned periods; /* G: the number of past periods */
  uint64_t capacity;
  double fpp;
  bool growable;
};

/* Plans the first layer.
 *   Errors  TAMIS_EUNSUPPORTED: no shape gives the rate; TAMIS_EINVAL: the table is too large */
int window_geometry_plan(const struct window_spec *spec, struct window_geometry *out);

/* Plans a later layer of a filter that grows, for `keys` keys.  `index` must not be in use.
 *   Errors  TAMIS_EFULL: no shape gives the rate, or the table is too large */
int window_geometry_plan_layer(const struct window_spec *spec, unsigned index, uint64_t keys,
                               struct window_geometry *out);

/* Derives the other members of a saved geometry from shape_index, segments, half and capacity.
 * Returns false if no plan has these four numbers. */
bool window_geometry_restore(unsigned periods, struct window_geometry *g);

/* The lowest false-positive rate that a window can have, whatever the capacity. */
double window_geometry_lowest_rate(unsigned periods, bool growable);

/* The lowest false-positive rate of a shape; INFINITY if its lanes are too narrow for `periods`. */
double window_geometry_lowest_of_shape(unsigned periods, bool growable, unsigned shape_index);

double window_geometry_share(unsigned index);

/* Calls DO for each shape: its number in saved filters, bits of a lane, lanes of a bucket. */
enum { WINDOW_SHAPES = 8 };
#define WINDOW_FOR_ALL_SHAPES(DO) \
  DO(0, 8, 8)                     \
  DO(1, 9, 7) DO(2, 10, 6) DO(3, 12, 5) DO(4, 16, 4) DO(5, 16, 2) DO(6, 21, 3) DO(7, 32, 2)

static inline uint64_t window_segment_buckets(const struct window_geometry *g)
{
  return 2 * g->half;
}

static inline uint64_t window_segment_words(const struct window_geometry *g)
{
  return window_segment_buckets(g) >> g->bucket_shift;
}

static inline uint64_t window_words(const struct window_geometry *g)
{
  return g->segments * window_segment_words(g);
}

/* The size of a layer's words in bytes, rounded up to whole cache lines, as in a saved filter. */
static inline uint64_t window_bytes(const struct window_geometry *g)
{
  uint64_t lines = (window_words(g) + WINDOW_LINE_WORDS - 1) / WINDOW_LINE_WORDS;
  return lines * WINDOW_LINE_WORDS * sizeof(uint64_t);
}

static inline uint64_t window_lanes(const struct window_geometry *g)
{
  return window_words(g) * g->whole.lane.lanes;
}

static inline bool window_has_geometry(const struct window_geometry *a,
                                       const struct window_geometry *b)
{
  return a->shape_index == b->shape_index && a->segments == b->segments && a->half == b->half &&
         a->capacity == b->capacity;
}

/* The false-positive rate with `used` lanes in use, live or dead. */
double window_geometry_rate(const struct window_geometry *g, uint64_t used);

/* The average number of lanes in use when an add finds no room. */
double window_geometry_full_lanes(const struct window_geometry *g);

/* ---- addresses ---- */

/* The address of a key: its two buckets, numbered across all segments, and its fingerprint. */
struct window_place {
  uint64_t lower, upper;
  uint64_t top; /* the fingerprint, at the top of a word */
};

struct window_buckets {
  uint64_t lower, upper;
};

/* Returns (g - i) mod H, where H is `half`, and g = fingerprint * H / 2^f. */
FORCE_INLINE uint64_t window_reflect(uint64_t half, uint64_t top, uint64_t i)
{
  uint64_t other = upper_half((uint128) top * half) - i;
  return other + (other >> 63 ? half : 0);
}

FORCE_INLINE uint64_t window_spread(uint64_t mixed)
{
  return mixed * HASH_MULTIPLIER;
}

/* The address of a key.  `segmented`: the table has several segments (a constant in fast calls). */
FORCE_INLINE struct window_place window_place_of(const struct window_geometry *g, uint64_t mixed,
                                                 bool segmented)
{
  struct window_place place;
  uint64_t x = window_spread(mixed), base = 0, half = g->half;
  if (segmented) {
    uint128 product = (uint128) x * g->segments;
    base = upper_half(product) * 2 * half;
    x = (uint64_t) product;
  }
  uint128 product = (uint128) x * half;
  uint64_t i = upper_half(product);
  place.top = (uint64_t) product & g->top;
  if (!place.top)
    place.top = g->one;
  place.lower = base + i;
  place.upper = base + half + window_reflect(half, place.top, i);
  return place;
}

FORCE_INLINE uint64_t window_fingerprint(const struct window_shape *s,
                                         const struct window_place *place)
{
  return place->top >> (64 - s->lane.width);
}

/* The other bucket of an entry, where buckets are numbered from the segment's first one. */
static inline uint64_t window_other_in_segment(const struct window_geometry *g, uint64_t bucket,
                                               uint64_t entry)
{
  uint64_t top = entry << (64 - g->shape.lane.width) & g->top;
  return bucket < g->half ? g->half + window_reflect(g->half, top, bucket)
                          : window_reflect(g->half, top, bucket - g->half);
}

/* The other bucket of an entry, where buckets are numbered across all segments. */
static inline uint64_t window_other_bucket(const struct window_geometry *g, uint64_t bucket,
                                           uint64_t entry)
{
  uint64_t in_segment = bucket % window_segment_buckets(g);
  return bucket - in_segment + window_other_in_segment(g, in_segment, entry);
}

FORCE_INLINE uint64_t window_word_of(unsigned bucket_shift, uint64_t bucket)
{
  return bucket >> bucket_shift;
}

/* The bit of a word at which a bucket begins: a word has one bucket, or two of 32 bits. */
FORCE_INLINE unsigned window_shift_of(unsigned bucket_shift, uint64_t bucket)
{
  return (unsigned) (bucket & bucket_shift) * 32;
}

#endif
