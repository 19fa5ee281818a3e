/* SPDX-License-Identifier: MIT
 *
 * Counts what the kinds count in a saved filter, so that a change is not found by its counts alone.
 * This is written from the description of the format, apart from the code that it is to test.
 */
#include "fuzz/parts.h"

#include "bloom/geometry.h"
#include "cuckoo/save.h"

static uint64_t figure(const struct parts *p, unsigned i)
{
  return saved_get64(p->header + SAVED_GEOMETRY_AT + (size_t) i * 8);
}

static void put_totals(struct parts *p, uint64_t a, uint64_t b, uint64_t c)
{
  saved_put64(p->trailer + 24, a);
  saved_put64(p->trailer + 32, b);
  saved_put64(p->trailer + 40, c);
}

/* ---- Bloom ---- */

/* No more keys are counted in a layer than bits are set in its array.  The first layer's keys are
 * in the trailer, and those of each other one in the block before its array. */
static void recount_bloom(struct parts *p)
{
  enum { LAYOUT_FIGURE = 0, KEYS_MEANING = 1 };
  uint64_t first_keys = saved_get64(p->trailer + 24), *keys = &first_keys, marks = 0;
  uint64_t mark = figure(p, LAYOUT_FIGURE) == BLOOM_LAYOUT_MARKED ? WORD_MARK : 0;
  for (unsigned i = 0; i < p->n; i++) {
    struct part *part = &p->part[i];
    uint64_t bits = 0;
    for (size_t at = 0; part->kind == PART_ARRAY && at + 8 <= part->size; at += 8) {
      uint64_t value = saved_get64(part->data + at);
      bits += (uint64_t) __builtin_popcountll(value & ~mark);
      marks |= value & mark;
    }
    if (part->kind == PART_ARRAY)
      *keys = bits < *keys ? bits : *keys;
    else if (part->kind == PART_BLOCK && part->type == SAVED_KIND_BLOCKS)
      keys = &part->meanings[KEYS_MEANING];
  }
  put_totals(p, first_keys, marks ? 1 : saved_get64(p->trailer + 32), saved_get64(p->trailer + 40));
}

/* With counters that are stuck, any number of copies would do. */
static void recount_counting(struct parts *p)
{
  enum { PROBES_FIGURE = 1, COUNTERS_FIGURE = 2 };
  uint64_t sum = 0, of_key = figure(p, PROBES_FIGURE) * figure(p, COUNTERS_FIGURE);
  for (unsigned i = 0; i < p->n; i++)
    for (size_t at = 0; p->part[i].kind == PART_ARRAY && at < p->part[i].size; at++)
      sum += (p->part[i].data[at] & 15) + (p->part[i].data[at] >> 4);
  put_totals(p, of_key ? sum / of_key : 0, 0, of_key ? sum % of_key : 0);
}

/* ---- counts ---- */

/* The sum of every other number. */
static uint64_t sum_counts(const unsigned char *at, const unsigned char *end)
{
  uint64_t sum = 0, number = 0;
  unsigned shift = 0;
  for (bool counts = false; at < end; at++) {
    number |= (uint64_t) (*at & 0x7f) << (shift & 63);
    shift += 7;
    if (*at >= 0x80)
      continue;
    sum += counts ? number : 0;
    counts = !counts;
    number = shift = 0;
  }
  return sum;
}

/* ---- sliding windows ---- */

/* The lanes of a word that are in use: those that are not 0. */
static uint64_t used_lanes(const unsigned char *at, uint64_t width)
{
  uint64_t n = 0;
  for (unsigned lane = 0; lane < 64 / width; lane++)
    n += (saved_get64(at) >> lane * width & (UINT64_MAX >> (64 - width))) != 0;
  return n;
}

/* The further copies of the entries of a counted table's word: a stamp of three bits counts them. */
static uint64_t further_copies(const unsigned char *at, unsigned width)
{
  enum { ONE_COPY = 6 };
  uint64_t sum = 0;
  for (unsigned lane = 0; lane < 64 / width; lane++) {
    const uint64_t stamp = saved_get64(at) >> lane * width & 7;
    sum += stamp ? (ONE_COPY - stamp) & 7 : 0;
  }
  return sum;
}

static void recount_window(struct parts *p)
{
  enum { OLDEST_SHAPE_FIGURE = 6, LAYER_TYPE = 32, SHAPES = 8 };
  const bool counted = saved_get64(p->header + 16) & SAVED_COUNTED;
  static const unsigned widths[SHAPES] = {8, 9, 10, 12, 16, 16, 21, 32};
  uint64_t shape = figure(p, OLDEST_SHAPE_FIGURE), lanes = 0, further = 0;
  for (unsigned i = 0; i < p->n; i++) {
    const struct part *part = &p->part[i];
    if (part->kind == PART_BLOCK && part->type == LAYER_TYPE && part->size >= 8)
      shape = saved_get64(part->data);
    for (size_t at = 0; part->kind == PART_ARRAY && at + 8 <= part->size; at += 8) {
      lanes += used_lanes(part->data + at, widths[shape % SHAPES]);
      further += counted ? further_copies(part->data + at, widths[shape % SHAPES]) : 0;
    }
    if (part->kind == PART_BLOCK && part->type == SAVED_COUNTS)
      further += sum_counts(part->data, part->data + part->size);
  }
  put_totals(p, lanes, saved_get64(p->trailer + 32), further);
}

/* ---- cuckoo ---- */

/* Of the generation whose segments follow. */
struct figures {
  uint64_t width, buckets, stripes;
};

static struct figures figures_at(const unsigned char *numbers)
{
  const uint64_t width = saved_get64(numbers + (size_t) SAVED_WIDTH * 8),
                 pair_bits = saved_get64(numbers + (size_t) SAVED_PAIR_BITS * 8),
                 stripes = saved_get64(numbers + (size_t) SAVED_STRIPES * 8);
  return (struct figures){width && width <= 64 ? width : 64,
                          pair_bits < 20 ? UINT64_C(2) << pair_bits : 0,
                          stripes && stripes <= CUCKOO_FIXED_STRIPES ? stripes : 1};
}

static uint64_t recount_segment(struct part *part, const struct figures *f)
{
  uint64_t entries = 0, words = part->size / 8 < f->buckets ? part->size / 8 : f->buckets;
  for (uint64_t i = 0; i < words; i++)
    entries += used_lanes(part->data + i * 8, f->width);
  part->meanings[3] = entries;
  return entries;
}

static uint64_t recount_array(const struct part *part, const struct figures *f)
{
  uint64_t sum = 0;
  size_t head =
      round_up(CUCKOO_SEGMENT_HEADER + (size_t) f->stripes * CUCKOO_STRIPE_BYTES, SAVED_UNIT);
  if (part->size < head + f->buckets * 8)
    return 0;
  for (uint64_t i = 0; i < f->stripes; i++) {
    uint64_t entries = 0;
    for (uint64_t j = i; j < f->buckets; j += f->stripes)
      entries += used_lanes(part->data + head + j * 8, f->width);
    saved_put32(part->data + CUCKOO_SEGMENT_HEADER + i * CUCKOO_STRIPE_BYTES +
                    offsetof(struct stripe, used),
                (uint32_t) entries);
    sum += entries;
  }
  return sum;
}

/* Of a filter that does not grow: the blocks at the end say where the arrays are.  Returns where
 * the first of these blocks is. */
static uint64_t recount_places(struct parts *p)
{
  uint64_t places[PARTS], n = 0, done = 0, first = 0, at = SAVED_HEADER;
  for (unsigned i = 0; i < p->n; i++) {
    struct part *part = &p->part[i];
    if (part->kind == PART_ARRAY) {
      places[n++] = at = round_up(at, SAVED_ARRAY_ALIGNMENT);
      at += part->size + SAVED_UNIT + round_up(saved_chunks(part->size) * 8, SAVED_UNIT);
      continue;
    }
    if (part->kind == PART_BLOCK && part->type == SAVED_PLACES) {
      first = first ? first : at;
      for (size_t j = 0; j + 8 <= part->size && done < n; j += 8)
        saved_put64(part->data + j, places[done++]);
    }
    at += part->kind == PART_BLOCK ? SAVED_UNIT + round_up(part->size, SAVED_UNIT) : part->size;
  }
  return first;
}

static void recount_cuckoo(struct parts *p)
{
  uint64_t entries = 0, copies = 0, segments = 0;
  struct figures f = figures_at(p->header + SAVED_GEOMETRY_AT);
  for (unsigned i = 0; i < p->n; i++) {
    struct part *part = &p->part[i];
    if (part->kind == PART_ARRAY) {
      entries += recount_array(part, &f);
      segments++;
    } else if (part->kind == PART_BLOCK && part->type == SAVED_GENERATION && part->size >= 32) {
      f = figures_at(part->data);
    } else if (part->kind == PART_BLOCK && part->type == SAVED_SEGMENT) {
      entries += recount_segment(part, &f);
      segments++;
    } else if (part->kind == PART_BLOCK && part->type == SAVED_COUNTS) {
      copies += sum_counts(part->data, part->data + part->size);
    }
  }
  bool growable = saved_get32(p->header + 44);
  put_totals(p, entries, copies, growable ? segments : recount_places(p));
}

void parts_recount(struct parts *p)
{
  const uint64_t kind = saved_get32(p->header + 32), features = saved_get64(p->header + 16);
  if (kind == TAMIS_COUNTING_BLOOM)
    recount_counting(p);
  else if ((kind == TAMIS_BLOOM && features & SAVED_WINDOW) ||
           (kind == TAMIS_CUCKOO && features & (SAVED_WINDOW | SAVED_COUNTED)))
    recount_window(p);
  else if (kind == TAMIS_BLOOM)
    recount_bloom(p);
  else if (kind == TAMIS_CUCKOO)
    recount_cuckoo(p);
}
