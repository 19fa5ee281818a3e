/* SPDX-License-Identifier: MIT
 *
 * Layer 2: saves sliding windows.
 *
 * [I] A snapshot during other calls.  A save copies the layers that exist when it begins, segment
 *     by segment.  To show: an entry that stays during the save is copied exactly once, and a load
 *     knows how long to remember its key.
 *     1. An entry is in one segment of one layer.  Only adds of its key change the entry.  Moves
 *        keep it in its segment, and no move happens while the segment is copied (evict.h).
 *     2. Layers that are opened during the save are not copied: all their keys were added during
 *        the save.  A layer that leaves during the save is empty, and so are its later copies.
 *     3. No period ends during the copy of a segment.  The copy has the entries that were
 *        remembered in its period, and the file names this period.  A stamp belongs to the same
 *        periods everywhere in the file.  So a load knows the period of each entry, and drops
 *        entries that were forgotten by the end of the save.  (All period numbers in the file use
 *        the offset that was valid when the save began: epoch.h.)
 *     4. In a window of the cuckoo kind, a key may be removed during the save, and added again in
 *        its other bucket.  If the copy has both lanes, clear_twins() clears one of them.  All keys
 *        that the entry matches were removed or added during the save: otherwise the entry would
 *        have stayed in its lane.
 *     5. A word is copied with its counts under its stripe, so each count belongs to its entry.
 *
 *     A save holds no lock while it writes or asks for memory.
 */
#include "window/save.h"

#include "base/memory.h"
#include "window/copies.h"
#include "window/counted.h"
#include "window/create.h"
#include "window/evict.h"

#include <string.h>

unsigned tamis__window_list(const struct window *w,
                            struct window_copied_layer layers[WINDOW_MOST_LAYERS])
{
  uint64_t epoch;
  unsigned n;
  do {
    epoch = epoch_read(&w->state->epoch);
    struct window_reader reader = window_enter(epoch);
    const struct window_layer *layer = window_newest(w, epoch);
    n = 0;
    do {
      layers[n++] = (struct window_copied_layer){
          .geometry = layer->geometry, .number = window_number(layer), .index = layer->index};
      layer = window_next(layer, epoch);
    } while (layer && n < WINDOW_MOST_LAYERS);
    window_leave(reader);
  } while (epoch_read(&w->state->epoch) != epoch);
  return n;
}

static void put_layer(const struct window_copied_layer *layer, uint64_t *numbers)
{
  const struct window_geometry *g = &layer->geometry;
  numbers[SAVED_LAYER_SHAPE] = g->shape_index;
  numbers[SAVED_LAYER_SEGMENTS] = g->segments;
  numbers[SAVED_LAYER_HALF] = g->half;
  numbers[SAVED_LAYER_CAPACITY] = g->capacity;
  numbers[SAVED_LAYER_INDEX] = layer->index;
}

void tamis__window_put_numbers(const struct window_plan *plan, uint64_t *numbers)
{
  const struct window_copied_layer only = {.geometry = plan->geometry, .index = plan->index};
  numbers[SAVED_WINDOW_PERIODS] = plan->spec.periods;
  numbers[SAVED_WINDOW_RENEWS] = plan->renews;
  numbers[SAVED_WINDOW_STAMP] = NOT_COMPACT(plan->counted) ? COUNTED_NOW : 1;
  numbers[SAVED_WINDOW_LAYERS] = 1;
  put_layer(&only, &numbers[SAVED_WINDOW_OLDEST]);
}

void tamis__window_describe(const tamis_filter *f, struct saved_head *out)
{
  const struct window *w = const_window_of(f);
  struct window_copied_layer layers[WINDOW_MOST_LAYERS];
  unsigned n = tamis__window_list(w, layers);
  out->numbers = numbers_load(&w->state->numbers);
  const uint64_t epoch = epoch_read(&w->state->epoch);
  out->options = (tamis_options){.capacity = w->spec.capacity,
                                 .fpp = w->spec.fpp,
                                 .growable = w->spec.growable,
                                 .window = window_is_counted(w) ? 0 : w->spec.periods,
                                 .window_renews = w->renews,
                                 .max_bytes = w->max_bytes,
                                 .stripes = w->stripes_wanted};
  for (unsigned i = 0; i < n; i++)
    out->figures.bytes += window_bytes(&layers[i].geometry);
  out->features = window_is_counted(w) ? SAVED_COUNTED : SAVED_WINDOW;
  out->geometry[SAVED_WINDOW_PERIODS] = w->spec.periods;
  out->geometry[SAVED_WINDOW_RENEWS] = w->renews;
  out->geometry[SAVED_WINDOW_PERIOD] = epoch_number(epoch, out->numbers);
  out->geometry[SAVED_WINDOW_STAMP] = epoch_now(epoch);
  out->geometry[SAVED_WINDOW_LAYERS] = n;
  const uint64_t growths = atomic_load_explicit(&w->growths, memory_order_relaxed) - (n - 1);
  out->geometry[SAVED_WINDOW_GROWTHS] = growths < INT32_MAX ? growths : INT32_MAX;
  out->oldest = layers[n - 1].number;
  put_layer(&layers[n - 1], &out->geometry[SAVED_WINDOW_OLDEST]);
  out->geometry[SAVED_WINDOW_FURTHER] = window_all_further(w);
  HOOK(window_described);
}

struct copy {
  struct window *filter;
  struct saved_writer *w;
  const struct window_copied_layer *layer;
  uint64_t *words;  /* room for the words of one segment */
  uint64_t *copied; /* for each segment, the number of the period in which it was copied */
  uint64_t segment; /* the number of segments that have been copied */
  uint64_t at;      /* the number of words of the last copy that have been written */
  uint64_t lanes;   /* the number of lanes in use in all copies so far */
  uint64_t further;
  struct lane_counts counts; /* the counts of the layer that is being copied */
};

/* If two lanes of a pair have the same fingerprint, clears the lane in the upper bucket. */
static void clear_twins(const struct window_geometry *g, uint64_t *words)
{
  const struct window_shape *s = &g->whole;
  for (uint64_t i = 0; i < window_segment_words(g); i++)
    for (uint64_t used = window_used(s, words[i]); used; used &= used - 1) {
      struct lane_place at = lane_place(g, words[i], i, lanes_first(&s->lane, used));
      if (stands_twice(g, (const word *) words, &at))
        words[i] &= ~lanes_bits(&s->lane, used & -used);
    }
}

/* Appends the counts of a word.  The caller must hold the word's stripe. */
static void copy_counts_locked(const struct window_layer *layer, uint64_t index, uint64_t value,
                               struct lane_counts *counts)
{
  const struct lane_shape *s = &layer->geometry.whole.lane;
  uint64_t used = window_used(&layer->geometry.whole, value);
  for (; used; used &= used - 1) {
    unsigned lane = lanes_first(s, used);
    uint64_t further = window_further(layer, (struct window_lane){index, lane});
    if (further)
      lane_counts_add(counts, index * s->lanes + lane, further);
  }
}

enum { MOST_BYTES_OF_LINE = WINDOW_LINE_WORDS * COUNTS_MAX_LANES * IMAGE_COUNT_BYTES };

/* Copies words of one cache line, with their counts.  Returns false if `counts` lacks room. */
static bool copy_words(const struct window *w, const struct window_layer *layer, uint64_t first,
                       uint64_t n, uint64_t *words, struct lane_counts *counts)
{
  struct window_stripe *stripe = window_stripe_of_block(w, first >> layer->block_shift);
  const bool counted = window_counts_copies(w);
  if (counted && counts->room - counts->size < MOST_BYTES_OF_LINE)
    return false;
  if (counted)
    window_lock(w, stripe);
  for (uint64_t i = 0; i < n; i++) {
    words[i] = word_load(&layer->words[first + i]);
    if (counted)
      copy_counts_locked(layer, first + i, words[i], counts);
  }
  if (counted)
    window_unlock(w, stripe);
  HOOK(window_words_copied);
  return true;
}

/* Copies a frozen segment.  Returns false if `counts` lacks room. */
static bool copy_frozen(const struct window *w, const struct window_layer *layer, uint64_t segment,
                        uint64_t *words, struct lane_counts *counts)
{
  const uint64_t n = window_segment_words(&layer->geometry), first = segment * n;
  for (uint64_t i = 0, part; i < n; i += part) {
    part = WINDOW_LINE_WORDS - (first + i) % WINDOW_LINE_WORDS; /* a cache line has one stripe */
    part = part < n - i ? part : n - i;
    if (!copy_words(w, layer, first + i, part, words + i, counts))
      return false;
  }
  return true;
}

/* Drops counts after `begin` whose lanes are empty in the copy.  The others need no more room. */
static void drop_counts(const struct window_geometry *g, const uint64_t *words, uint64_t first,
                        const struct lane_counts *begin, struct lane_counts *counts)
{
  const unsigned lanes = g->whole.lane.lanes;
  struct lane_counts_reader r = lane_counts_read(counts, begin->size, begin->next);
  counts->size = begin->size;
  counts->next = begin->next;
  while (lane_counts_next(&r))
    if (lane_get(&g->whole.lane, words[r.lane / lanes - first], (unsigned) (r.lane % lanes)))
      lane_counts_add(counts, r.lane, r.count);
}

int tamis__window_copy_segment(struct window *w, const struct window_copied_layer *layer,
                               uint64_t segment, uint64_t *words, struct lane_counts *counts,
                               const tamis_allocator *allocator, uint64_t *epoch)
{
  const struct window_geometry *g = &layer->geometry;
  const struct lane_counts begin = *counts;
  const struct window_layer *found;
  for (bool copied = false; !copied;) {
    counts->size = begin.size;
    counts->next = begin.next;
    *epoch = tamis__window_freeze(w, layer->number, segment, &found);
    copied = !found || copy_frozen(w, found, segment, words, counts);
    tamis__window_thaw(w);
    if (!copied && !tamis__lane_counts_reserve(counts, allocator, 2 * MOST_BYTES_OF_LINE))
      return TAMIS_ENOMEM;
  }
  if (!found)
    memset(words, 0, (size_t) window_segment_words(g) * sizeof *words);
  if (window_counts_copies(w) || window_is_counted(w))
    clear_twins(g, words);
  if (window_counts_copies(w))
    drop_counts(g, words, segment * window_segment_words(g), &begin, counts);
  return TAMIS_OK;
}

static void copy_segment(struct copy *copy)
{
  const struct window_geometry *g = &copy->layer->geometry;
  uint64_t epoch = 0;
  copy->w->result =
      tamis__window_copy_segment(copy->filter, copy->layer, copy->segment, copy->words,
                                 &copy->counts, &copy->w->allocator, &epoch);
  for (uint64_t i = 0; i < window_segment_words(g); i++) {
    copy->lanes += lanes_count(window_used(&g->whole, copy->words[i]));
    if (window_is_counted(copy->filter))
      copy->further += counted_further(&g->whole, copy->words[i]);
  }
  copy->copied[copy->segment++] = epoch_number(epoch, copy->w->head->numbers);
  copy->at = 0;
}

/* Writes words of the layer to `to`.  Zeros follow the words of the last segment. */
static void fill_words(void *context, uint64_t at, size_t n, void *to)
{
  struct copy *copy = context;
  const struct window_geometry *g = &copy->layer->geometry;
  const uint64_t of_segment = window_segment_words(g);
  (void) at;
  for (unsigned char *out = to, *end = out + n; out < end; out += 8) {
    if (copy->at == of_segment && copy->segment < g->segments && copy->w->result == TAMIS_OK)
      copy_segment(copy);
    saved_put64(out, copy->at < of_segment ? copy->words[copy->at++] : 0);
  }
}

static void save_counts(struct copy *copy, const struct window_geometry *g, unsigned number)
{
  struct image_counts to = {
      .w = copy->w, .table = number, .words = window_words(g), .lanes = g->whole.lane.lanes};
  struct lane_counts_reader r = lane_counts_read(&copy->counts, 0, 0);
  while (lane_counts_next(&r))
    tamis__image_count(&to, r.lane, r.count);
  tamis__image_counts_end(&to);
  copy->further += to.copies;
}

static void save_layer(struct copy *copy, const struct window_copied_layer *layer, unsigned number)
{
  tamis_allocator *allocator = &copy->w->allocator;
  const struct window_geometry *g = &layer->geometry;
  const uint64_t of_words = window_segment_words(g) * 8, of_copied = g->segments * 8;
  copy->words = tamis__memory_allocate_cleared(allocator, of_words, 0);
  copy->copied = tamis__memory_allocate_cleared(allocator, of_copied, 0);
  copy->layer = layer;
  copy->segment = 0;
  copy->at = window_segment_words(g);
  if (copy->words && copy->copied) {
    (void) tamis__saved_array(copy->w, window_bytes(g), fill_words, copy);
    tamis__image_row(copy->w, SAVED_WINDOW_COPIED, number, copy->copied, g->segments);
    save_counts(copy, g, number);
  } else if (copy->w->result == TAMIS_OK) {
    copy->w->result = TAMIS_ENOMEM;
  }
  tamis__lane_counts_release(&copy->counts, allocator);
  tamis__memory_release(allocator, copy->copied, of_copied);
  tamis__memory_release(allocator, copy->words, of_words);
}

/* Lists the layers that the header counts, the oldest first, and returns their number.  Omits newer
 * layers that have left.  The oldest is listed even if it has left: its copies will be empty.  (If
 * it has left, a new layer may have its index: such a layer is not listed.) */
static unsigned list_for_head(const struct window *filter, const struct saved_head *head,
                              struct window_copied_layer layers[WINDOW_MOST_LAYERS])
{
  struct window_copied_layer now[WINDOW_MOST_LAYERS], *oldest = &layers[0];
  unsigned n = 1;
  *oldest = (struct window_copied_layer){.number = head->oldest};
  /* Cannot fail, as the header has the numbers of a planned geometry. */
  (void) tamis__window_get_layer(filter->spec.periods, &head->geometry[SAVED_WINDOW_OLDEST],
                                 &oldest->geometry, &oldest->index);
  for (unsigned i = tamis__window_list(filter, now); i-- > 0;)
    if (n < head->geometry[SAVED_WINDOW_LAYERS] && now[i].index != oldest->index)
      layers[n++] = now[i];
  return n;
}

int tamis__window_save(const tamis_filter *f, struct saved_writer *w)
{
  /* Not const, because a save takes locks of the filter. */
  struct window *filter = (struct window *) const_window_of(f);
  struct copy copy = {.filter = filter, .w = w};
  struct window_copied_layer layers[WINDOW_MOST_LAYERS];
  unsigned n = list_for_head(filter, w->head, layers);
  w->result = window_join(filter);
  for (unsigned i = 0; i < n && w->result == TAMIS_OK; i++) {
    uint64_t numbers[SAVED_LAYER_NUMBERS];
    put_layer(&layers[i], numbers);
    if (i > 0)
      tamis__image_block(w, SAVED_WINDOW_LAYER, (uint64_t[SAVED_MEANINGS]){i}, numbers,
                         SAVED_LAYER_NUMBERS);
    save_layer(&copy, &layers[i], i);
  }
  w->totals[TOTAL_WINDOW_LANES] = copy.lanes;
  w->totals[TOTAL_WINDOW_FURTHER] = copy.further;
  w->totals[TOTAL_WINDOW_PERIOD] =
      epoch_number(epoch_read(&filter->state->epoch), w->head->numbers);
  return w->result;
}
