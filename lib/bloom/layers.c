/* SPDX-License-Identifier: MIT
 *
 * Layer 2: a Bloom filter that grows.
 *
 *    first (the filter)      layer 2           layer 3
 *    capacity C              C                 2C                  4C, ...
 *    rate 0.61 fpp           0.15 fpp          0.068 fpp           6 / (pi i)^2 fpp
 *       ▲                       ▲                 ▲
 *       └──────── older ────────┴───── older ─────┘
 *       └ newest ─────────────────────────────────┘
 *
 * Each layer is a Bloom filter with the seed of the first layer.  New keys go to the newest layer.
 * When this layer has counted the keys that it was planned for, the filter opens another layer,
 * which has room for as many keys as all layers before it.  Look-ups search all layers.
 *
 * [E] The rate.  An absent key is found with at most the sum of the layers' rates.  Layer i is
 *     planned for 6 / (pi i)^2 of fpp, and these parts add up to 1.  A layer is planned for all
 *     keys that are offered to it, also for those that it does not count because its bits hide them
 *     (keys_offered() in geometry.c).  Each thread may add a few keys too many at the end of a
 *     layer (docs/internals/bloom.md).  For these keys, the parts of later layers are a reserve:
 *     more than 0.6 / (i + 1) of fpp after i layers.
 *     Source: Almeida, Baquero, Preguica and Hutchison, "Scalable Bloom filters", Inf. Process.
 *     Lett. 101 (2007), where the rates of layers fall by a constant factor
 *
 * The operations of a filter of one layer know only this layer.  The thread that opens the second
 * layer replaces these operations, once, by those of this file.  An *old* call has read the
 * operations before that, and may still run.  [A] to [D] add to those of operations.c:
 *
 * [A] No false negative.  A new look-up reads `newest`, and searches that layer and all layers
 *     before it.  An old look-up searches only the first layer.  But the second layer was published
 *     after the old look-up had read the operations.  So each key of the second layer was added
 *     after the look-up began, and the look-up takes effect before these adds.  An old add sets its
 *     key's bits in the first layer, which all look-ups search; or it finds that layer full, and
 *     goes on like a new add.
 *
 * [B] One winner, by the *late rule*.  A unique add reads the number n of layers (`newest`; for an
 *     old call, n is 1), searches them all, and fills its gaps in layer n.  If its OR has set no
 *     bit in the last gap, the call returns TAMIS_PRESENT.  Otherwise the call reads the number of
 *     layers again.  If this number is
 *
 *       still n     the call has won
 *       above n     the call is *late*.  It searches only the layers above n, since in layer n it
 *                   would find its own bits.  If none of these layers has the key, it fills its
 *                   gaps in the newest layer, even if that is full, and decides in the same way.
 *                   So a late call needs no room and no memory
 *
 *     Not two.  Suppose that call V wins in layer v, and call W in layer w.
 *     1. If v = w, both have set a bit in their last gap of one layer: impossible (operations.c).
 *     2. If v < w, V read the number v after its last OR.  So in the single order of all
 *        sequentially consistent accesses, V's OR comes before the publication of layer v + 1.
 *     3. Let r be the read by which W first learned of more than v layers.  r comes after this
 *        publication, so after V's OR.  Before r, W did not fill gaps in layer v: only V has set a
 *        bit in a last gap there, so W would have returned TAMIS_PRESENT.
 *     4. So W searched layer v after r, and found the key there.  It cannot have won in layer w.
 *
 *     Not none.  Let n be the last layer in which unique adds of the key have set bits.  If no
 *     other key interferes, one of these adds has set a bit in its last gap in layer n
 *     (operations.c).  This add did not go on to a later layer: there it would have found the key,
 *     or set bits.  So it has won, or has been refused for good ([C]).
 *
 *     One order.  When the key first becomes complete in any layer, the winner is running: every
 *     call that begins later finds the key.  The winner takes effect at this instant.  Usually the
 *     winner's own OR completes the key.  But the OR of a late add may complete the key in an older
 *     layer, which the winner has already searched.  A call that finds these bits synchronizes with
 *     the late add, and not with the winner.
 *
 *     Plain adds need no late rule.  If a plain add completes its key in an older layer, look-ups
 *     find the key there.  A unique add that wins in a later layer has searched the older layer
 *     before that, so it began before the plain add was done.
 *
 * [C] All or nothing.  An add that finds no room sets no bit before another layer is open.
 *     TAMIS_EFULL is final: a key never has both a winner and refused unique adds.  Whether a layer
 *     can be opened depends only on values that never change: the sizes of the layers before it,
 *     the rate, max_bytes and the number of processors.  (If a process changes its CPU affinity
 *     just when a filter reaches its max_bytes, one unique add may win and another be refused.)  A
 *     fixed filter has no second layer.  When the newest layer is full and none can follow, it
 *     becomes LAST for good.
 *
 *     Suppose that a unique add R of a key is about to be refused, while another one, W, has found
 *     room earlier and completes the key in the newest layer.  R reads or writes LAST, and then
 *     searches the key once more.  W reads LAST after its last OR.  In the single order of all
 *     sequentially consistent accesses, there are two cases.  If W's OR comes before R's search, R
 *     finds the key and returns TAMIS_PRESENT.  Otherwise W reads LAST, and is refused as well.
 *     (If there is one layer, W reads only `newest`, so R first sets `newest` to the first layer.)
 *
 *     The bits of a refused W stay, as other keys may share them: W's key has become a false
 *     positive.  So do the bits of an add that fills some gaps, loses the last gap to other calls,
 *     looks again, and then finds no room.  Each of these adds found room before the first refusal:
 *     at most one add of each thread.
 *
 * [D] No call takes a lock.  A thread that needs another layer creates it, and publishes it by a
 *     compare-and-swap.  At most two threads create a layer at a time, so one copy may be thrown
 *     away; a third thread yields until one is done.  If max_bytes has no room for two copies, only
 *     one thread at a time creates a layer.  A union that creates several layers is alone, too: it
 *     publishes all of them, or none, by one compare-and-swap.  Look-ups and adds of present keys
 *     do not wait.
 *
 * Each layer counts its keys like a filter of its own.  A key that several threads add while a
 * layer is opened may be added to the old and to the new layer, and counted in both.
 */
#include "bloom/layers.h"

#include "base/compiler.h"
#include "base/hook.h"
#include "bloom/capacity.h"
#include "bloom/live.h"

#include <sched.h>

enum { MOST_OPENERS = 2 };

/* ---- opening a layer ---- */

/* ORDER operations.swap (seq_cst)
 *   pairs with     operations.load, whose comment says why
 *   checked by     mutants/operations_never_swapped (shows only that there is a swap) */
static void use_layers(struct bloom *first)
{
  atomic_store_explicit(&first->head.operations, &tamis__bloom_layered, memory_order_seq_cst);
}

static uint64_t bytes_of_layers(const struct bloom *newest)
{
  uint64_t all = 0;
  for (; newest; newest = bloom_older(newest))
    all += tamis__bloom_bytes(newest);
  return all;
}

/* Each layer has room for at most twice as many keys as the layer before it.  With room for four
 * times as many, look-ups in a filter that has grown a thousandfold would be 1.6 times as fast, but
 * the filter would take 40 bits per key instead of 30. */
int tamis__layers_plan_after(tamis_layout layout, double fpp, unsigned number,
                             const struct bloom_geometry *before, struct bloom_geometry *out)
{
  uint64_t capacity = number == 1 ? before->capacity : 2 * before->capacity;
  return number == BLOOM_MOST_LAYERS ? TAMIS_EUNSUPPORTED
                                     : tamis__bloom_plan(layout, number + 1, capacity, fpp, out);
}

/* Sets *next to the geometry of the layer after layer `number`.  Returns false if none follows. */
static bool next_geometry(const struct bloom *first, unsigned number,
                          const struct bloom_geometry *before, struct bloom_geometry *next)
{
  if (!first->live)
    return tamis__layers_plan_after(first->layout, first->fpp, number, before, next) == TAMIS_OK;
  const struct bloom_shared *shared = const_bloom_long_of(first)->shared;
  if (number >= shared->planned)
    return false;
  *next = bloom_geometry_of(shared->layers[number]);
  return true;
}

bool tamis__layers_will_fit(struct bloom *const *layers, unsigned have, struct bloom *const *others,
                            unsigned n)
{
  struct bloom_geometry next, before = bloom_geometry_of(layers[have - 1]);
  for (; have < n && next_geometry(layers[0], have, &before, &next); have++, before = next)
    if (!bloom_has_geometry(others[have], &next))
      return false;
  return true;
}

/* Plans the layer after `full`, which at most *openers threads may create at the same time. */
static int plan_layer(const struct bloom *first, struct bloom *full, struct bloom_plan *plan,
                      unsigned *openers)
{
  const struct bloom_geometry before = bloom_geometry_of(full);
  const uint64_t max_bytes = bloom_max_bytes(first);
  *plan = (struct bloom_plan){.stripes_wanted = bloom_stripes_wanted(first),
                              .max_bytes = max_bytes,
                              .cleared_from = bloom_cleared_from(first),
                              .older = full,
                              .number = full->number + 1U};
  *openers = MOST_OPENERS;
  if (tamis__layers_plan_after(first->layout, first->fpp, full->number, &before, &plan->geometry) !=
      TAMIS_OK)
    return TAMIS_EFULL;
  if (!max_bytes)
    return TAMIS_OK;
  uint64_t used = bytes_of_layers(full), bytes = tamis__bloom_bytes_for(plan);
  /* another opener may hold a copy of this layer, or of an earlier, smaller layer */
  if (used + 2 * bytes > max_bytes)
    *openers = 1;
  return used + bytes > max_bytes ? TAMIS_EFULL : TAMIS_OK;
}

uint64_t tamis__layers_close_first(const struct bloom_geometry *g)
{
  const double share = g->fpp * bloom_geometry_share(1);
  double low = 0, high = (double) g->capacity;
  if (bloom_geometry_rate(g, high) <= share)
    return g->capacity;
  while (high - low > 0.5 && high - low > 1e-4 * high) {
    double middle = (low + high) / 2;
    *(bloom_geometry_rate(g, middle) <= share ? &low : &high) = middle;
  }
  return (uint64_t) low;
}

void tamis__layers_limit_first(struct bloom *first)
{
  struct bloom_plan plan;
  unsigned openers;
  const struct bloom_geometry g = bloom_geometry_of(first);
  uint64_t keys = tamis__layers_close_first(&g);
  if (keys >= g.capacity || plan_layer(first, first, &plan, &openers) != TAMIS_OK)
    return;
  bloom_long_of(first)->closes_at = keys;
  (void) tamis__bloom_watch(first);
}

/* Appends a layer after `full`, unless another layer follows already.
 * ORDER layer.append (seq_cst)
 *   pairs with     layer.load, whose comment says why
 *   checked by     mutants/layer_published_early (shows only that the append is last) */
static bool append(struct bloom *first, struct bloom *full, struct bloom *layer)
{
  struct bloom *newest = full == first ? NULL : full;
  return atomic_compare_exchange_strong_explicit(&first->newest, &newest, layer,
                                                 memory_order_seq_cst, memory_order_seq_cst);
}

void tamis__layers_append(struct bloom *first, struct bloom *layer)
{
  if (bloom_mapping(first).at)
    *(struct filter_operations *) operations_of(&first->head) =
        tamis__read_only(&tamis__bloom_layered);
  else
    use_layers(first);
  atomic_store_explicit(&layer->older->fullness, FULL, memory_order_relaxed); /* not shared yet */
  (void) append(first, layer->older, layer);
}

/* Creates the planned layer and later ones, up to layer `number`; after an error, none. */
static int create_layers(const struct bloom *first, const struct bloom_plan *plan, unsigned number,
                         struct bloom *full, struct bloom **newest)
{
  struct bloom_plan next = *plan;
  struct bloom *created;
  unsigned openers;
  int result;
  *newest = full;
  do {
    result = tamis__bloom_create_empty(&first->head, &next, &created);
    if (result != TAMIS_OK)
      break;
    *newest = created;
    if (created->number >= number)
      return TAMIS_OK;
    atomic_store_explicit(&created->fullness, FULL, memory_order_relaxed); /* not shared yet */
    result = plan_layer(first, created, &next, &openers);
  } while (result == TAMIS_OK);
  tamis__bloom_destroy_layers(*newest, full);
  return result;
}

/* Creates and appends layers.  begin_opening() must have admitted the thread. */
static int append_layers(struct bloom *first, struct bloom *full, const struct bloom_plan *plan,
                         unsigned number)
{
  struct bloom *layer;
  if (newest_layer(first) != full)
    return TAMIS_OK;
  HOOK(bloom_layer_wanted);
  int result = create_layers(first, plan, number, full, &layer);
  if (result != TAMIS_OK)
    return newest_layer(first) != full ? TAMIS_OK : result;
  raise_fullness(full, FULL);
  use_layers(first);
  HOOK(bloom_layer_created);
  if (!append(first, full, layer))
    tamis__bloom_destroy_layers(layer, full);
  return TAMIS_OK;
}

/* Adds `own` to `openers` if the sum is at most `most`; returns false if not.  `own` is 1 for a
 * thread that opens a layer, and 2 for a union.
 * ORDER openers.begin (acq_rel)
 *   pairs with     openers.end, and openers.begin of another thread
 *   makes visible  that thread Q has appended a layer after `full`: thread P has planned the same
 *                  layer, and then creates none
 *   if weakened    P might create a useless copy of the layer while a third thread creates the next
 *                  layer.  Together, both may exceed max_bytes
 *   checked by     compat.arm64 */
static bool begin_opening(struct bloom *first, unsigned most, unsigned own)
{
  unsigned char openers = 0;
  while (openers + own <= most)
    if (atomic_compare_exchange_strong_explicit(&first->openers, &openers,
                                                (unsigned char) (openers + own),
                                                memory_order_acq_rel, memory_order_relaxed))
      return true;
  return false;
}

/* ORDER openers.end (release)
 *   pairs with     openers.begin
 *   makes visible  to the next opener: that a layer has been appended or thrown away
 *   if weakened    the next opener might miss the layer that this thread has appended, and create a
 *                  second copy although max_bytes has room for only one
 *   checked by     compat.arm64 */
static void end_opening(struct bloom *first, unsigned own)
{
  atomic_fetch_sub_explicit(&first->openers, (unsigned char) own, memory_order_release);
}

int tamis__layers_open(struct bloom *first, struct bloom *full, unsigned number)
{
  struct bloom_plan plan;
  unsigned openers, own = 1;
  if (has_ended(full))
    return TAMIS_EFULL;
  if (first->live) {
    if (!first->limited)
      use_layers(first);
    return tamis__live_open_layers(first, full, number);
  }
  int result = first->limited ? TAMIS_EFULL : plan_layer(first, full, &plan, &openers);
  if (result != TAMIS_OK) {
    if (!number) /* a union sets `number`, and its `full` may still have room */
      raise_fullness(full, LAST);
    return result;
  }
  if (number > full->number + 1U) /* several layers: this thread must be the only opener */
    openers = own = MOST_OPENERS;
  while (!begin_opening(first, openers, own)) {
    if (newest_layer(first) != full)
      return TAMIS_OK;
    HOOK(bloom_layer_awaited);
    sched_yield();
  }
  result = append_layers(first, full, &plan, number);
  end_opening(first, own);
  return result;
}

/* ---- single keys ---- */

/* Searches n rows.  One call of `find` searches neighbouring rows that are alike. */
static bool find_in_rows(const struct bloom_row *rows, unsigned n, uint64_t mixed)
{
  for (unsigned alike; n; rows += alike, n -= alike) {
    alike = rows->alike < n ? rows->alike : n;
    if (rows->calls->find(rows, alike, mixed))
      return true;
  }
  return false;
}

/* Searches `layer` and the layers before it. */
static bool find(const struct bloom *first, const struct bloom *layer, uint64_t mixed)
{
  if (layer != first)
    return find_in_rows(const_bloom_long_of(layer)->rows, layer->number, mixed);
  const struct bloom_row row = bloom_row_of(first);
  return row.calls->find(&row, 1, mixed);
}

static int refused(const struct bloom *first, int result)
{
  tamis__bloom_note_refusal(first);
  return result;
}

/* Searches `layer` and the layers before it, down to the layer that follows `completed`. */
static bool find_after(const struct bloom *completed, const struct bloom *layer, uint64_t mixed)
{
  assert(layer->number > completed->number);
  return find_in_rows(const_bloom_long_of(layer)->rows, layer->number - completed->number, mixed);
}

/* Searches a key before a unique add of the key is refused for good: another call that had found
 * room may have completed the key meanwhile ([C]). */
static bool is_in_by_now(struct bloom *first, uint64_t mixed)
{
  struct bloom *none = NULL;
  HOOK(bloom_layers_ended);
  if (is_alone(first)) /* ORDER layer.append explains the memory order */
    atomic_compare_exchange_strong_explicit(&first->newest, &none, first, memory_order_seq_cst,
                                            memory_order_seq_cst);
  return find(first, newest_layer(first), mixed);
}

/* `completed`: the newest layer in which this unique add has set a bit in its last gap, or NULL. */
FORCE_INLINE int add(struct bloom *first, uint64_t mixed, bool unique,
                     const struct bloom *completed)
{
  const int present = unique ? TAMIS_PRESENT : TAMIS_OK;
  for (;;) {
    struct bloom *newest = newest_layer(first);
    if (completed && newest == completed) {
      if (newest->live)
        learn_live(newest);
      return has_ended(newest) ? refused(first, TAMIS_EFULL) : count_key(newest);
    }
    if (completed ? find_after(completed, newest, mixed) : find(first, newest, mixed))
      return present;
    HOOK(bloom_layers_searched);
    int result = bloom_calls_of(newest)->insert(newest, mixed, completed);
    if (result == TAMIS_PRESENT)
      return present;
    if (result == TAMIS_OK && !unique)
      return count_key(newest);
    if (result == TAMIS_OK) {
      completed = newest;
      continue;
    }
    result = tamis__layers_open(first, newest, 0);
    if (unique && result == TAMIS_EFULL && is_in_by_now(first, mixed))
      return TAMIS_PRESENT;
    if (result != TAMIS_OK)
      return refused(first, result);
  }
}

static uint64_t mixed_hash(const struct bloom *b, uint64_t hash)
{
  return hash_mix(&b->head.keys, hash);
}

bool tamis__layered_contains(const tamis_filter *f, uint64_t hash)
{
  const struct bloom *first = const_bloom_of(f);
  return find(first, newest_layer(first), mixed_hash(first, hash));
}

int tamis__layered_add(tamis_filter *f, uint64_t hash)
{
  return add(bloom_of(f), mixed_hash(bloom_of(f), hash), false, NULL);
}

int tamis__layered_add_unique(tamis_filter *f, uint64_t hash)
{
  return add(bloom_of(f), mixed_hash(bloom_of(f), hash), true, NULL);
}

static NEVER_INLINE int settle(struct bloom *first, uint64_t hash)
{
  if (first->live)
    learn_live(first);
  return add(first, mixed_hash(first, hash), true, first);
}

int tamis__layers_settle(struct bloom *first, uint64_t hash)
{
  if (first->live && bloom_live_state(first) == LIVE_ALONE)
    return count_live(first, bloom_tally_of(first));
  return settle(first, hash);
}

/* ---- batches ---- */

/* The most layers that are prefetched.  A filter with more layers has grown from very few keys. */
enum { LAYERS_AHEAD = 16 };

/* Prefetches a key's first word in `newest` and the layers before it. */
static void prefetch_rows(const struct bloom *newest, uint64_t mixed)
{
  if (newest->number == 1)
    return;
  const struct bloom_row *row = const_bloom_long_of(newest)->rows;
  for (unsigned i = 0; i < newest->number && i < LAYERS_AHEAD; i++, row++)
    __builtin_prefetch(&row->words[bloom_first_word(row->section_words, mixed)]);
}

static void layered_prefetch(const tamis_filter *f, uint64_t hash)
{
  const struct bloom *first = const_bloom_of(f), *newest = newest_layer(first);
  if (newest == first)
    bloom_calls_of(first)->alone.prefetch(f, hash);
  else
    prefetch_rows(newest, mixed_hash(first, hash));
}

/* Looks up n keys, at most FILTER_GROUP, and returns how many it finds.  Searches layer after
 * layer, from the newest, for all missing keys, until two layers together have found fewer than an
 * eighth of them.  Then looks up key by key, which is faster for absent keys. */
static size_t find_group(const struct bloom *first, const uint64_t *hashes, size_t n, bool *found)
{
  const struct bloom *layer = newest_layer(first);
  uint64_t left[FILTER_GROUP];
  unsigned char index[FILTER_GROUP];
  bool in[FILTER_GROUP];
  size_t missing = n;
  size_t before = n < 8 ? n : 2 * n, earlier = before; /* `missing` one and two layers ago */
  for (size_t i = 0; i < n; i++) {
    left[i] = hashes[i];
    index[i] = (unsigned char) i;
    found[i] = false;
  }
  for (; layer && missing && (earlier - missing) * 8 >= earlier; layer = bloom_older(layer)) {
    bloom_calls_of(layer)->alone.contains_many(&layer->head, left, missing, in);
    earlier = before, before = missing, missing = 0;
    for (size_t i = 0; i < before; i++) {
      found[index[i]] = in[i];
      left[missing] = left[i];
      index[missing] = index[i];
      missing += !in[i];
    }
  }
  size_t hits = n - missing;
  for (size_t i = 0; layer && i < missing; i++)
    prefetch_rows(layer, left[i] = mixed_hash(first, left[i]));
  for (size_t i = 0; layer && i < missing; i++)
    hits += found[index[i]] = find(first, layer, left[i]);
  return hits;
}

size_t tamis__layered_contains_many(const tamis_filter *f, const uint64_t *hashes, size_t n,
                                    bool *found)
{
  bool group[FILTER_GROUP];
  size_t hits = 0;
  for (size_t start = 0, length; start < n; start += length) {
    length = n - start < FILTER_GROUP ? n - start : FILTER_GROUP;
    hits += find_group(const_bloom_of(f), hashes + start, length, found ? found + start : group);
  }
  return hits;
}

/* Each add of a missing key searches for the key again, as the batch may contain the key twice. */
static void layered_add_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)
{
  bool found[FILTER_GROUP];
  find_group(bloom_of(f), hashes, n, found);
  for (size_t i = 0; i < n; i++)
    results[i] = found[i] ? TAMIS_OK : tamis__layered_add(f, hashes[i]);
}

static void layered_add_unique_many(tamis_filter *f, const uint64_t *hashes, size_t n, int *results)
{
  bool found[FILTER_GROUP];
  find_group(bloom_of(f), hashes, n, found);
  for (size_t i = 0; i < n; i++)
    results[i] = found[i] ? TAMIS_PRESENT : tamis__layered_add_unique(f, hashes[i]);
}

const struct filter_operations tamis__bloom_layered = {
    .kind = &tamis__bloom_kind,
    .contains = tamis__layered_contains,
    .contains_many = NOT_COMPACT(tamis__layered_contains_many),
    .prefetch = NOT_COMPACT(layered_prefetch),
    .add = NOT_IN_READER(tamis__layered_add),
    .add_unique = NOT_IN_READER(tamis__layered_add_unique),
    .add_many = NOT_COMPACT(layered_add_many),
    .add_unique_many = NOT_COMPACT(layered_add_unique_many),
};
