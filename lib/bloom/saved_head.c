/* SPDX-License-Identifier: MIT */
#include "bloom/saved_head.h"

#include "table/image.h"

void tamis__bloom_put_shape(const struct bloom_geometry *g, uint64_t *numbers)
{
  numbers[LAYOUT] = g->shape.layout;
  numbers[PROBES] = g->shape.probes;
  numbers[BITS_PER_PROBE] = g->shape.bits_per_probe;
  numbers[LINES] = g->words / LINE_WORDS;
  numbers[SECTIONS] = g->shape.sections;
}

void tamis__bloom_put_layer(const struct bloom_geometry *g, unsigned number,
                            struct bloom_sums counted, struct saved_writer *w)
{
  uint64_t numbers[LAYER_NUMBERS];
  tamis__bloom_put_shape(g, numbers);
  numbers[LAYER_CAPACITY] = g->capacity;
  numbers[LAYER_RATE] = saved_of_double(g->fpp);
  tamis__image_block(w, BLOCK_LAYER,
                     (uint64_t[SAVED_MEANINGS]){number, counted.keys, counted.united}, numbers,
                     LAYER_NUMBERS);
}

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
    return IS(CLASSIC_PROBES, CLASSIC_BITS);
  case TAMIS_LAYOUT_WORD:
  case BLOOM_LAYOUT_MARKED:
    return one && (false BLOOM_WORD_SHAPES(IS_WORD));
  case BLOOM_LAYOUT_COUNTING:
    return one && (false BLOOM_COUNTING_SHAPES(IS_COUNTING));
  default:
    return false;
  }
}

static bool read_shape(const uint64_t *numbers, struct bloom_geometry *out)
{
  static const uint64_t max_lines = UINT64_C(1) << 41; /* the limit in geometry.c */
  if (numbers[LAYOUT] > BLOOM_LAYOUT_COUNTING || numbers[PROBES] > BLOOM_MAX_PROBES ||
      numbers[BITS_PER_PROBE] > 64 || !numbers[SECTIONS] ||
      numbers[SECTIONS] > BLOOM_MAX_SECTIONS || !numbers[LINES] || numbers[LINES] >= max_lines)
    return false;
  out->shape =
      (struct bloom_shape){(tamis_layout) numbers[LAYOUT], (unsigned) numbers[PROBES],
                           (unsigned) numbers[BITS_PER_PROBE], (unsigned) numbers[SECTIONS]};
  out->words = numbers[LINES] * LINE_WORDS;
  return is_possible(out->shape) && bloom_section_words(out->shape, out->words);
}

bool tamis__bloom_read_plan(const struct saved_head *saved, struct bloom_plan *out)
{
  const tamis_options *o = &saved->options;
  const uint64_t *g = saved->geometry;
  for (unsigned i = GEOMETRY_NUMBERS; i < SAVED_GEOMETRY; i++)
    if (g[i])
      return false;
  *out = (struct bloom_plan){.geometry = {.capacity = o->capacity, .fpp = o->fpp},
                             .number = 1,
                             .stripes_wanted = o->stripes,
                             .max_bytes = o->max_bytes,
                             .limited = !o->growable,
                             .own_hash = saved->own_hash,
                             .cleared_from = o->cleared_from};
  if (!read_shape(g, &out->geometry))
    return false;
  out->geometry.most_keys = g[MOST_KEYS];
  out->closes_early =
      bloom_opens_layers(o) && (bloom_shape_is_word(out->geometry.shape) ||
                                tamis__layers_close_first(&out->geometry) < o->capacity);
  return out->geometry.shape.layout == bloom_layout_for(o) &&
         (o->kind != TAMIS_COUNTING_BLOOM || o->layout == TAMIS_LAYOUT_BLOCKED) &&
         (g[MOST_KEYS] != 0) == (!o->growable && o->kind == TAMIS_BLOOM) &&
         g[MOST_KEYS] <= bloom_geometry_bits(&out->geometry) &&
         g[FURTHER_LAYERS] < (bloom_opens_layers(o) ? BLOOM_MOST_LAYERS : 1) &&
         (!g[FURTHER_LAYERS] || saved->features & SAVED_LAYERS);
}

/* All layers after the first one are blocked or classic. */
int tamis__bloom_read_layer(struct saved_reader *r, unsigned number, struct bloom_geometry *g,
                            struct bloom_sums *counted)
{
  struct saved_block block;
  uint64_t numbers[LAYER_NUMBERS];
  int result = tamis__saved_read_block(r, &block);
  if (result != TAMIS_OK)
    return result;
  *counted = (struct bloom_sums){block.meanings[LAYER_KEYS], block.meanings[LAYER_UNITED]};
  if (!tamis__image_is(&block, BLOCK_LAYER,
                       (uint64_t[SAVED_MEANINGS]){number, counted->keys, counted->united},
                       LAYER_NUMBERS))
    return TAMIS_ECORRUPT;
  image_get(numbers, block.payload, LAYER_NUMBERS);
  *g = (struct bloom_geometry){.capacity = numbers[LAYER_CAPACITY],
                               .fpp = saved_to_double(numbers[LAYER_RATE])};
  const bool good = read_shape(numbers, g) && g->shape.layout <= TAMIS_LAYOUT_CLASSIC &&
                    g->capacity && g->capacity < UINT64_C(1) << 50 && g->fpp > 0 && g->fpp < 1;
  return good ? TAMIS_OK : TAMIS_ECORRUPT;
}

int tamis__bloom_read_further(struct saved_reader *r, unsigned n, struct bloom_geometry *layers)
{
  struct bloom_sums unused;
  int result = TAMIS_OK;
  for (unsigned i = 1; i < n && result == TAMIS_OK; i++)
    result = tamis__bloom_read_layer(r, i + 1, &layers[i], &unused);
  return result;
}
