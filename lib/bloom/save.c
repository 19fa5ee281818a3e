/* SPDX-License-Identifier: MIT
 *
 * Layer 2: saved, loaded and mapped Bloom filters.
 *
 *    header | array of the words | trailer
 *
 * [I] A snapshot under fire.  The save reads the words one by one, with the load that look-ups use.
 *     Bits only change from 0 to 1.  So a key whose add returned before the save began has all its
 *     bits in what is read; and a key that no call adds has a bit there that is 0, unless other keys
 *     have set them all, in which case it is a false positive of a filter with these keys.
 *
 *     The count of keys is read before the words.  Whoever counts a key has set its bits before, and
 *     a count that is read makes these visible (ORDER counter.sum).  So no key is counted that is
 *     not in: the loaded filter refuses no key before `capacity` keys are in.  Bits are counted in
 *     what is loaded.
 *
 *     Whether the filter is full is read first of all.  If it is not, the marks of words that are
 *     found later are not saved: the calls that they refused came after the save began, and the
 *     snapshot is from before.  If it is, they are saved, and what was refused stays refused.
 */
#include "bloom/bloom.h"

#include "base/memory.h"
#include "bloom/capacity.h"

#include <math.h>

/* What the header's geometry says, and the trailer's totals. */
enum { LAYOUT, PROBES, BITS_PER_PROBE, LINES, MAX_BITS, GEOMETRY_NUMBERS };
enum { TOTAL_KEYS, TOTAL_FULL, TOTAL_UNITED };

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
  uint64_t keys = bloom_geometry_key_bits(g), any = 0;
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

void tamis__bloom_describe(const tamis_filter *f, struct saved_head *out)
{
  const struct bloom *b = const_bloom_of(f);
  const struct bloom_shape *shape = &b->geometry.shape;
  out->options =
      (tamis_options){.capacity = b->geometry.capacity,
                      .fpp = b->geometry.fpp,
                      .growable = !b->limited,
                      .max_bytes = b->max_bytes,
                      .layout = bloom_shape_is_word(*shape) ? TAMIS_LAYOUT_WORD : shape->layout,
                      .stripes = b->stripes_wanted};
  out->figures.bytes = b->geometry.lines * LINE_BYTES;
  out->geometry[LAYOUT] = shape->layout;
  out->geometry[PROBES] = shape->probes;
  out->geometry[BITS_PER_PROBE] = shape->bits_per_probe;
  out->geometry[LINES] = b->geometry.lines;
  out->geometry[MAX_BITS] = saved_of_double(b->max_bits);
}

/* Turns words of the machine to those of a file, or back.  Little-endian machines write nothing: the
 * words may be mapped. */
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
                       uint64_t *to)
{
  for (uint64_t i = 0; i < n; i++)
    to[i] = word_load(&b->words[first + i]) & kept;
  swap_bytes(to, n);
}

int tamis__bloom_save(const tamis_filter *f, struct saved_writer *w)
{
  enum { CHUNK_WORDS = SAVED_CHUNK / 8 };
  const struct bloom *b = const_bloom_of(f);
  bool full = atomic_load_explicit(&b->fullness, memory_order_relaxed) == FULL;
  uint64_t keys = tamis__counter_sum(&b->counters, KEYS);
  uint64_t united = tamis__counter_sum(&b->counters, UNITED),
           most = bloom_geometry_bits(&b->geometry);
  uint64_t kept = full ? UINT64_MAX : bloom_geometry_key_bits(&b->geometry);
  tamis__saved_array_begin(w, b->geometry.lines * LINE_BYTES);
  for (uint64_t done = 0, n; done < b->geometry.words; done += n) {
    n = b->geometry.words - done < CHUNK_WORDS ? b->geometry.words - done : CHUNK_WORDS;
    uint64_t *room = tamis__saved_array_room(w, n * 8);
    if (!room)
      return w->result;
    copy_words(b, done, n, kept, room);
    tamis__saved_array(w, n * 8);
  }
  tamis__saved_array_end(w);
  w->totals[TOTAL_KEYS] = keys;
  w->totals[TOTAL_FULL] = full;
  w->totals[TOTAL_UNITED] = united < most ? united : most; /* an estimate */
  return w->result;
}

/* ---- loading ---- */

/* All shapes that a plan may choose. */
static bool is_possible(struct bloom_shape shape)
{
#define IS_BLOCKED(p, b) || (shape.probes == (p) && shape.bits_per_probe == (b))
#define IS_WORD(b) || (shape.probes == 1 && shape.bits_per_probe == (b))
  switch ((int) shape.layout) {
  case TAMIS_LAYOUT_BLOCKED:
    return false BLOOM_BLOCKED_SHAPES(IS_BLOCKED);
  case TAMIS_LAYOUT_CLASSIC:
    return shape.probes && shape.bits_per_probe == 1;
  case TAMIS_LAYOUT_WORD:
  case BLOOM_LAYOUT_MARKED:
    return false BLOOM_WORD_SHAPES(IS_WORD);
  default:
    return false;
  }
}

/* Reads the geometry.  False: no filter has it. */
static bool read_plan(const struct saved_head *saved, struct bloom_plan *out)
{
  static const uint64_t max_lines = UINT64_C(1) << 41; /* as planned */
  const tamis_options *o = &saved->options;
  const uint64_t *g = saved->geometry;
  for (unsigned i = GEOMETRY_NUMBERS; i < SAVED_GEOMETRY; i++)
    if (g[i])
      return false;
  if (g[LAYOUT] > BLOOM_LAYOUT_MARKED || g[PROBES] > BLOOM_MAX_PROBES || g[BITS_PER_PROBE] > 64 ||
      g[LINES] >= max_lines)
    return false;
  struct bloom_shape shape = {(tamis_layout) g[LAYOUT], (unsigned) g[PROBES],
                              (unsigned) g[BITS_PER_PROBE]};
  *out = (struct bloom_plan){.geometry = {.shape = shape,
                                          .lines = g[LINES],
                                          .words = g[LINES] * LINE_WORDS,
                                          .capacity = o->capacity,
                                          .fpp = o->fpp},
                             .stripes_wanted = o->stripes,
                             .max_bytes = o->max_bytes,
                             .limited = !o->growable,
                             .max_bits = saved_to_double(g[MAX_BITS])};
  tamis_layout asked =
      o->layout == TAMIS_LAYOUT_WORD && !o->growable ? BLOOM_LAYOUT_MARKED : o->layout;
  return is_possible(shape) && shape.layout == asked && out->max_bits > 0 &&
         out->max_bits <= bloom_geometry_usable_bits(&out->geometry);
}

/* A header that no filter has brings no figures. */
void tamis__bloom_figures(const struct saved_head *saved, tamis_stats *out)
{
  struct bloom_plan plan;
  if (read_plan(saved, &plan) && out->bits_set <= bloom_geometry_bits(&plan.geometry))
    tamis__bloom_estimate(&plan.geometry, out);
}

uint64_t tamis__bloom_saved_beside(const struct saved_head *saved)
{
  struct bloom_plan plan;
  return read_plan(saved, &plan) ? tamis__bloom_bytes_beside(&plan) : 0;
}

/* What the trailer says of the words, and what is counted in them. */
struct content {
  uint64_t keys, united;
  bool full;
  uint64_t bits; /* if the words have been read */
};

static int read_totals(struct saved_reader *r, const struct bloom_plan *plan, struct content *out)
{
  struct saved_block block;
  uint64_t totals[SAVED_TOTALS];
  int result = tamis__saved_read_block(r, &block);
  if (result == TAMIS_OK && block.type != SAVED_END)
    result = TAMIS_ECORRUPT;
  if (result == TAMIS_OK)
    result = tamis__saved_read_end(r, totals);
  if (result != TAMIS_OK)
    return result;
  *out = (struct content){
      .keys = totals[TOTAL_KEYS], .full = totals[TOTAL_FULL], .united = totals[TOTAL_UNITED]};
  return totals[TOTAL_FULL] <= plan->limited && out->keys <= bloom_geometry_bits(&plan->geometry) &&
                 out->united <= bloom_geometry_bits(&plan->geometry)
             ? TAMIS_OK
             : TAMIS_ECORRUPT;
}

/* Counts what is in the words, which are in the memory of one thread so far.  False: the totals do
 * not fit. */
static bool check_words(const struct bloom_plan *plan, uint64_t *words, struct content *content)
{
  uint64_t marks;
  swap_bytes(words, plan->geometry.words);
  content->bits = count_bits(&plan->geometry, words, plan->geometry.words, &marks);
  return content->keys <= content->bits && (!marks || content->full);
}

/* What the adds of the saved filter would have left in this one. */
static void restore(struct bloom *b, const struct content *content)
{
  counter_add(&b->counters, KEYS, content->keys);
  counter_add(&b->counters, UNITED, content->united);
  if (b->limited)
    counter_add(&b->counters, BITS, content->bits);
  int fullness = content->full ? FULL : tamis__bloom_near_capacity(b) ? NEAR : OPEN;
  atomic_store_explicit(&b->fullness, fullness, memory_order_relaxed); /* not shared yet */
}

/* All that is read.  After an error, no words are left. */
static int read_all(struct saved_reader *r, const struct saved_head *saved,
                    const struct bloom_plan *plan, void **words, struct content *content)
{
  uint64_t bytes = plan->geometry.lines * LINE_BYTES, beside = tamis__bloom_bytes_beside(plan);
  uint64_t limit = r->mapping ? 0 : saved->limit; /* nothing is allocated for what is mapped */
  if (limit && bytes + beside > limit)
    return TAMIS_EFULL;
  struct saved_memory m = {.all = bytes, .limit = limit ? limit - beside : 0};
  const void *at = NULL;
  uint64_t begin;
  int result = tamis__saved_read_array(r, bytes, &m, &at, &begin);
  *words = (void *) at;
  if (result == TAMIS_OK)
    result = read_totals(r, plan, content);
  if (result == TAMIS_OK && (!r->mapping || r->check_all) && !check_words(plan, *words, content))
    result = TAMIS_ECORRUPT;
  if (result != TAMIS_OK)
    tamis__memory_release(&r->allocator, m.block, m.bytes);
  return result;
}

int tamis__bloom_load(struct saved_reader *r, const struct saved_head *saved,
                      const struct tamis_filter *head, tamis_filter **out)
{
  struct bloom_plan plan;
  struct content content = {0};
  struct saved_mapping mapping = saved_mapping_of(r);
  void *words = NULL;
  if (!read_plan(saved, &plan))
    return TAMIS_ECORRUPT;
  int result = read_all(r, saved, &plan, &words, &content);
  if (result != TAMIS_OK)
    return result;
  struct bloom *b = tamis__bloom_create(head, &plan, words, &mapping);
  if (!b) {
    if (!r->mapping)
      tamis__memory_release(&r->allocator, words, plan.geometry.lines * LINE_BYTES);
    return TAMIS_ENOMEM;
  }
  restore(b, &content);
  *out = &b->head;
  return TAMIS_OK;
}
