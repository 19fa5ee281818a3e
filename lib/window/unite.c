/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the union of two sliding windows that are in use.
 *
 * The union copies `from` segment by segment, as a save does (save.c).  It adds each copied entry,
 * with its copies, to the same pair of `into`.  It never holds locks of both filters.
 *
 * Time.  Each filter has its own periods, which need not run in step.  A union keeps ages.  (The
 * age of an entry is the number of periods since that of its stamp.)  In `into`, an entry gets the
 * age that it had in `from` when its segment was copied or, if smaller, the age of the live entry
 * that is in `into` already.  Ages in `into` count from the period read under the stripes.
 *
 *    The union need not read the epoch word again, because the entry counts as added at the first
 *    read.  If the next period begins before the union writes the lane, the stamp is one period
 *    older, or dead.  The sweep waits for the stripe, as [Q] in table.h requires.
 *
 * [A] No false negative: a key that is remembered in `from` all the time is in the copy of its
 *     segment ([I] in save.c), with those copies that no call removes.  [B] One winner: a union
 *     writes an entry under both stripes of its pair, as an add does.
 *
 * Counted tables (counted.h) have no time.  A union adds up a key's copies in both tables.
 *
 * Layers.  An entry shows its pair and its fingerprint, but no more of the key's hash.  So a union
 * can add the entry only to a layer of the same geometry.  No entry may be added to a layer that
 * has a newer one ([H] in remove.c).  So for a union both filters must have one layer, of the same
 * geometry, and there must be room for the entries of both.
 */
#include "window/operations.h"

#include "base/memory.h"
#include "table/put.h"
#include "window/copies.h"
#include "window/counted.h"
#include "window/evict.h"
#include "window/pair.h"
#include "window/save.h"

struct both {
  struct window *into, *from;
  struct window_layer *layer;        /* the layer of `into`, which may leave during the union */
  struct window_copied_layer to, of; /* `to`: the layer of `into`; `of`: that of `from` */
  uint64_t *words;                   /* a copy of a segment of `from`; `counts` has its counts */
  struct lane_counts counts;
  bool checkpoint;  /* `from` is an earlier state of `into`: [W] in counted.h */
  uint64_t missing; /* the number of entries of `from` that `into` lacks */
  bool too_many;    /* a key would have too many copies for a counted table */
};

/* An entry of `from`, with its pair in the layer of `into`. */
struct united {
  struct pair pair;
  unsigned age;
  uint64_t copies;
};

/* Adds an entry to its pair.  The epoch word `before` named the pair's layer as the newest. */
static int unite_locked(const struct both *b, const struct united *u, uint64_t before)
{
  struct window *w = b->into;
  const struct window_layer *layer = b->layer;
  uint64_t epoch = epoch_read(&w->state->epoch);
  HOOK(window_epoch_read_locked);
  if (!epoch_has_same_layers(before, epoch))
    return OTHER_LAYERS;
  const struct home home = home_in(&u->pair, epoch);
  struct found at = home.found;
  const bool live = home.live;
  unsigned age = u->age;
  if (live && window_is_counted(w))
    return b->checkpoint ? TAMIS_OK
                         : tamis__counted_add_locked(w, &u->pair, &at, (unsigned) u->copies);
  if (live) {
    unsigned other = epoch_age(epoch, window_stamp_of(&layer->geometry.shape, at.entry), w->stamps);
    age = other < age ? other : age;
  } else if (age > window_oldest_age(w, epoch)) {
    return TAMIS_OK; /* a jump forgets the entry ([T] in table.h) */
  } else if (!find_lane(&home, &at, epoch)) {
    return NO_ROOM;
  }
  const struct window_lane lane = window_lane(layer, at.bucket, at.lane);
  const uint64_t further = u->copies - !live;
  int result = TAMIS_OK;
  if (!live && at.entry)
    window_forget_further(w, layer, lane); /* the count of a dead entry */
  if (further && window_counts_copies(w))
    result = tamis__window_add_further(w, layer, lane, further);
  if (result != TAMIS_OK)
    return result;
  if (!at.entry)
    window_use(window_stripe(w, layer, at.bucket), 1);
  if (window_is_counted(w))
    window_count_copies(window_stripe(w, layer, at.bucket), age);
  window_store(layer, at.bucket, at.lane,
               u->pair.fingerprint | epoch_stamp_of_age(epoch, age, w->stamps));
  HOOK(window_lane_written);
  return TAMIS_OK;
}

/* Tries once to add an entry.  Returns TAMIS_EFULL also if the pair's layer has been closed. */
static int try_to_unite(const struct both *b, const struct united *u, uint64_t epoch)
{
  const struct window *w = b->into;
  struct window_stripe *stripe[2];
  unsigned n = 0;
  struct window_reader reader = window_enter(epoch);
  struct window_layer *newest = window_newest(w, epoch);
  if (newest == b->layer && window_number(newest) == b->to.number)
    n = sort_stripes(stripe, window_stripe(w, newest, u->pair.place.lower),
                     window_stripe(w, newest, u->pair.place.upper));
  window_leave(reader);
  if (!n)
    return TAMIS_EFULL;
  HOOK(window_stripes_wanted);
  lock_stripes(w, stripe, n);
  int result = unite_locked(b, u, epoch);
  unlock_stripes(w, stripe, n);
  return result;
}

static int unite(struct both *b, const struct united *u)
{
  for (;;) {
    const uint64_t epoch = epoch_read(&b->into->state->epoch);
    int moved = TAMIS_OK, result = try_to_unite(b, u, epoch);
    if (result == NO_ROOM)
      moved = tamis__window_evict(b->into, b->layer, &u->pair.place, epoch, true);
    if (moved != TAMIS_OK)
      result = moved == TAMIS_ABSENT ? TAMIS_EFULL : moved;
    if (result == TAMIS_OK || (result < 0 && !tamis__backlog_drain(&b->into->backlog, true)))
      return result; /* all other results lead to another attempt */
  }
}

static struct united united_of(const struct both *b, const struct lane_place *at, uint64_t epoch)
{
  const struct window_geometry *g = &b->of.geometry;
  struct united u = {.copies = 1};
  u.pair.layer = b->layer;
  u.pair.fingerprint = window_fingerprint_of(&g->shape, at->entry);
  u.pair.place = (struct window_buckets){at->lower, window_other_bucket(g, at->lower, at->entry)};
  u.age = epoch_age(epoch, window_stamp_of(&g->shape, at->entry), b->from->stamps);
  if (window_is_counted(b->from))
    u.copies = u.age + 1;
  return u;
}

static int count_missing(struct both *b, const struct united *u)
{
  uint64_t epoch = epoch_read(&b->into->state->epoch);
  struct window_reader reader = window_enter(epoch);
  bool live = false;
  if (window_newest(b->into, epoch) == b->layer && window_number(b->layer) == b->to.number) {
    const struct home home = home_in(&u->pair, epoch);
    live = home.live;
    b->too_many |=
        live && window_is_counted(b->into) &&
        counted_copies(&b->to.geometry.shape, home.found.entry) + u->copies > COUNTED_COPIES;
  }
  window_leave(reader);
  b->missing += !live;
  return TAMIS_OK;
}

/* Whether an entry's stamp is of a remembered period.  (Another process may write any stamp.) */
static bool is_remembered(const struct both *b, uint64_t entry, uint64_t epoch)
{
  const unsigned stamp = window_stamp_of(&b->of.geometry.shape, entry), stamps = b->from->stamps;
  return stamp - 1U < stamps && epoch_now(epoch) - 1U < stamps &&
         stamp != epoch_next_stamp(epoch_now(epoch), stamps);
}

static int for_each_copied(struct both *b, uint64_t segment, uint64_t epoch,
                           int (*call)(struct both *, const struct united *))
{
  const struct window_geometry *g = &b->of.geometry;
  const uint64_t n = window_segment_words(g);
  struct lane_counts_reader r = lane_counts_read(&b->counts, 0, 0);
  bool more = lane_counts_next(&r);
  int result = TAMIS_OK;
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t used = window_used(&g->whole, b->words[i]); used && result == TAMIS_OK;
         used &= used - 1) {
      const uint64_t index = segment * n + i;
      const unsigned lane = lanes_first(&g->whole.lane, used);
      struct lane_place at = lane_place(g, b->words[i], index, lane);
      struct united u = united_of(b, &at, epoch);
      if (more && r.lane == index * g->whole.lane.lanes + lane) {
        u.copies += r.count;
        more = lane_counts_next(&r);
      }
      if (is_remembered(b, at.entry, epoch))
        result = call(b, &u);
    }
  return result;
}

static int for_each_entry(struct both *b, int (*call)(struct both *, const struct united *))
{
  const tamis_allocator *allocator = filter_allocator(&b->into->head);
  int result = TAMIS_OK;
  for (uint64_t segment = 0; segment < b->of.geometry.segments && result == TAMIS_OK; segment++) {
    uint64_t epoch;
    b->counts.size = b->counts.next = 0;
    result = tamis__window_copy_segment(b->from, &b->of, segment, b->words, &b->counts, allocator,
                                        &epoch);
    if (result == TAMIS_OK)
      result = for_each_copied(b, segment, epoch, call);
  }
  return result;
}

static bool find_only_layer(const struct window *w, struct window_copied_layer *only)
{
  struct window_copied_layer layers[WINDOW_MOST_LAYERS];
  unsigned n = tamis__window_list(w, layers);
  *only = layers[0];
  return n == 1;
}

/* The address of a listed layer, or NULL if it has left. */
static struct window_layer *address_of(const struct window *w,
                                       const struct window_copied_layer *listed)
{
  struct window_reader reader = window_enter(epoch_read(&w->state->epoch));
  struct window_layer *layer = window_find_layer(w, listed->number);
  window_leave(reader);
  return layer;
}

static bool have_same_options(const struct window_spec *a, const struct window_spec *b)
{
  return a->periods == b->periods && a->capacity == b->capacity && a->fpp == b->fpp &&
         a->growable == b->growable;
}

/* Checks that there is room for the keys of both filters, where an entry that is in both counts
 * once, and that a file could hold the number of all copies. */
static int plan(struct both *b)
{
  const struct window_geometry *g = &b->to.geometry;
  if (window_all_further(b->into) + window_all_further(b->from) >= saved_most_united)
    return TAMIS_EFULL;
  const bool copies_fit = b->checkpoint || !window_is_counted(b->into);
  uint64_t used = window_lanes_in_use(b->into);
  if (copies_fit && used + window_lanes_in_use(b->from) <= g->capacity)
    return TAMIS_OK;
  int result = for_each_entry(b, count_missing);
  if (result == TAMIS_OK && b->too_many && !copies_fit)
    return TAMIS_EFULL;
  if (result != TAMIS_OK || !b->missing || used + b->missing <= g->capacity)
    return result;
  return b->into->spec.growable ? TAMIS_EUNSUPPORTED : TAMIS_EFULL;
}

int tamis__window_unite(tamis_filter *into, const tamis_filter *from, bool checkpoint)
{
  /* `from` is not const: copying its entries takes its locks. */
  struct both b = {.into = window_of(into),
                   .from = (struct window *) const_window_of(from),
                   .checkpoint = checkpoint};
  if (!have_same_options(&b.into->spec, &b.from->spec))
    return TAMIS_EINVAL;
  if (!find_only_layer(b.into, &b.to) || !find_only_layer(b.from, &b.of) ||
      !window_has_geometry(&b.to.geometry, &b.of.geometry))
    return TAMIS_EUNSUPPORTED;
  int result = window_join(b.into);
  if (result == TAMIS_OK)
    result = window_join(b.from);
  if (result != TAMIS_OK)
    return result;
  b.layer = address_of(b.into, &b.to);
  uint64_t bytes = window_segment_words(&b.of.geometry) * 8;
  b.words = tamis__memory_allocate_cleared(filter_allocator(into), bytes, 0);
  if (!b.words)
    return TAMIS_ENOMEM;
  result = plan(&b);
  if (result == TAMIS_OK)
    result = for_each_entry(&b, unite);
  tamis__lane_counts_release(&b.counts, filter_allocator(into));
  tamis__memory_release(filter_allocator(into), b.words, bytes);
  return result;
}

int tamis__window_merge(tamis_filter *into, const tamis_filter *from)
{
  return tamis__window_unite(into, from, false);
}
