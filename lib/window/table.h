/* SPDX-License-Identifier: MIT
 *
 * Layer 2: the parts of a sliding window, which is a *stamped table*.
 *
 *    epoch word    says which period runs, which stamp is dead, and which layers exist (epoch.h)
 *    layer         buckets in segments, as in a cuckoo filter that does not grow (geometry.h);
 *                  a lane has a fingerprint, and a stamp, by which its key is forgotten (bucket.h)
 *    stripes       locks, each for some blocks of buckets in all layers
 *    versions      counters of moves; a fingerprint selects the counter for its entries
 *
 * A writer holds the stripes of both buckets of its key, in each layer.  Under these stripes it
 *
 *    1  reads the epoch word
 *    2  searches the buckets
 *    3  writes a lane with the stamp that it read in step 1
 *    4  reads the epoch word again; if a period has ended, rewrites the lane with the new stamp
 *
 * tamis_advance() holds the lock `advancing`, and
 *
 *    5  replaces the epoch word, which makes the oldest stamp dead for all threads at one instant
 *    6  *sweeps*: takes each stripe at least once, and clears the dead lanes of its blocks under it
 *
 * tamis_advance() *jumps* to end d periods at once, from 2 to G (the past periods of the window):
 *
 *    7  sets `coming` (epoch.h) to the period that is d steps ahead
 *    8  sweeps as in 6, and also clears the lanes whose age will exceed G after step 9
 *    9  replaces the epoch word by one whose stamp is d steps ahead
 *
 * [P] A writer writes a lane at most twice, and leaves no old stamp there.
 *     1. An advance takes the writer's stripe before each step 9 and after each step 5.  So while
 *        the writer holds the stripe, at most one step 9 and then one step 5 change the period.
 *     2. Together the two steps end at most G + 1 periods.  So after a change, the present stamp
 *        differs from that of step 1, and step 4 sees the change.
 *     3. After the change that step 4 sees, only a step 5 can follow.  It ends one period, and does
 *        not make the stamp of step 4 dead (unless the key ends with that period: insert.c).
 *
 * [Q] G + 2 stamps are enough: when period p + G + 2 reuses the stamp of period p, no lane has it.
 *     1. The stamp is dead from period p + G + 1 on.  The sweep of that period clears all lanes
 *        with the stamp, before p + G + 2 can be published.
 *     2. A call that holds a stripe before the sweep takes it is followed by the sweep.
 *     3. A call that takes a stripe after the sweep reads the epoch word of the sweep or a later
 *        one, because the stripe orders them.  So an add writes a live stamp, and a move carries no
 *        dead lane.  (A move writes the stamp that it reads under the stripes.)
 *     4. A move from a block to a swept block holds the stripes of both, so 3 applies to it.
 *
 * [T] No jump makes an old stamp young.  After 9, a stamp that is d to G + 1 steps behind the new
 *     stamp belongs to the same period as before.  The d - 1 stamps in between belong to periods
 *     that never ran.  Step 8 has cleared the lanes with these stamps.  No call writes them again:
 *     1. An add writes the stamp of step 1, which the jump keeps, as d is at most G.
 *     2. Three calls may write older stamps: a move, a union (unite.c), and the add of a key with
 *        an end of its own (insert.c).  Each reads, under its stripes, the epoch word and then
 *        `coming`, and writes no stamp that the jump does not keep.  If the sweep has taken one of
 *        these stripes, the call sees `coming`; if not, the sweep comes after the call.
 *     3. Step 9 may come after such a call has read the epoch word.  `coming` is still d steps
 *        ahead of this word.  Another jump sets `coming` further ahead, and sweeps after the call.
 *
 *     A process that takes `advancing` over from a dead owner sweeps first.  If the owner was in a
 *     jump, this sweep is step 8, and step 9 follows.  So each jump is completed.
 *
 * [A] No false negative.  A look-up reads, in this order: the epoch word, the version of the
 *     fingerprint, the lower bucket, the upper bucket, the version again, the epoch word again.  It
 *     begins again if the version or the epoch word has changed.  Suppose that a look-up misses a
 *     key that is remembered during the whole look-up.
 *     1. The epoch word did not change, so the period was the same throughout.
 *     2. At every instant one of the buckets had the key with a live stamp, because one store
 *        replaces an old stamp by a new one.
 *     3. So when the look-up read the lower bucket without a hit, the key was in the upper bucket,
 *        and a move took it to the lower one before the look-up read the upper bucket.  But then
 *        the version has changed: stripe.h.
 *     4. A look-up that reads a lower lane after a move has cleared it also sees the copy in the
 *        upper bucket, or the versions differ: the move bumps the version before it clears a lane.
 *
 * [J] After the window.  A hit has read a lane with a live stamp while the period was P.  By [Q]
 *     this is the stamp of one of the periods P - G to P.  The hit takes effect when the look-up
 *     reads the lane; a miss takes effect when the key is not remembered: [A].  The end of one
 *     period takes effect at 5, for all keys at once.  A jump does so stripe by stripe.
 *
 * [B] One winner in a window.
 *     1. All unique adds of a key take the same two stripes in each layer.  The first add that
 *        misses the key there writes its lane before it releases the stripes.
 *     2. The second add reads the epoch word (1) under the stripes, so it is not in an earlier
 *        period than the first.  A key that is forgotten at step 1 stays forgotten until an add
 *        writes it.  So within a window the second add finds the lane of the first.
 *     3. If the epoch word that an add reads under the stripes names a newest layer whose stripes
 *        the add does not hold, the add begins again.  If a layer is opened after this read, the
 *        add writes its key to the layer before.  The next unique add of the key finds it there.
 *
 * [C] All or nothing.  An add that finds no room has changed nothing.  Even after its moves, each
 *     entry is in one of the entry's two buckets.
 *
 * [D] Look-ups take no lock.  They begin again only if a period has ended, a layer was opened or
 *     has left, or an entry with the same version counter has been moved.
 *
 * [E] The rate.  A look-up compares all lanes of two buckets in each layer (geometry.c).
 *
 * Layers.  New keys go to the newest layer.  An add of a key whose entry is in an older layer
 *
 *     - renews the entry there, in a window of the cuckoo kind: [H] in remove.c
 *     - writes the key to the newest layer, too, in a window of the Bloom kind.  The older entry
 *       dies with its own stamp, so a closed layer is empty G + 1 periods later.  (Another key may
 *       match the older entry, too, so it stays.)  If the newest layer has no room and no other can
 *       be opened, the add renews the older entry.
 *
 * When a search for room fails, the add opens the next layer, which has twice the size.  For this,
 * it holds the lock `opening` and no stripe.  When far fewer keys are present than the newest layer
 * was made for, tamis_advance() opens a smaller layer (layers.c).
 *
 *     A layer is closed when another one is opened.  The closed layer leaves the list when a sweep
 *     that began after the closing finds the layer empty.  The result of such a sweep is final:
 *     1. Adds and moves write new entries only to the layer that is newest under their stripes.
 *     2. A call with an older epoch word held its stripes at the closing; the sweep waits for them.
 *     3. So after the sweep of a block, no add or move writes a new entry to the block.
 *
 * Ends of periods and changes of the list never wait: both compare and swap the epoch word.
 *
 * [L] No layer is read after its memory has been released.  A layer and its words are released
 *     after three steps: the layer has left the list, each stripe has been taken once, and a grace
 *     period has passed.  Layers leave only under `advancing`.  A thread may read a layer
 *     1. As the first layer, which is never released (and the only one on the straight path).
 *     2. In a read section, in which it has followed the list from the newest layer to this layer.
 *        During the section, the list contained this layer, or the newer layer whose link led here.
 *        A layer that leaves keeps its link.  So this layer left after the newer layer, or has not
 *        left.  By induction, this layer had not been retired when the section began.  (If the list
 *        changes, links may lead to layers that the epoch word did not name, as the first layer may
 *        be opened again.  But then the epoch word has changed.)
 *     3. Under a stripe.  The thread has found the layer with an earlier epoch word, and the epoch
 *        word that it reads under the stripe has the same layers (has_layers() in pair.h,
 *        move_locked() in evict.c).  So the layer was in the list at this read.  If the layer
 *        leaves later, the thread that retires it first waits for the stripe.
 *     4. While it holds `advancing` or, for the newest layer, `opening`.
 *
 *     A writer that waits for stripes is in no read section, as a read section never waits.  Counts
 *     of copies are read and released like their layer.
 *
 * [N] Names of layers.  A layer's *number*, of 64 bits, counts the changes of the list up to the
 *     change that opened the layer.  No other layer ever has this number.  Saves and unions
 *     name a layer by its number.  The name of the frozen segment has the layer's *index*, which is
 *     unique in the list: no layer leaves while a segment is frozen.
 *
 * A cuckoo filter that processes share is a stamped table, too: counted.h.
 */
#ifndef TAMIS_LIB_WINDOW_TABLE_H
#define TAMIS_LIB_WINDOW_TABLE_H

#include "base/counter.h"
#include "base/filter.h"
#include "base/fullness.h"
#include "base/hook.h"
#include "base/memory.h"
#include "base/owned.h"
#include "base/reclaim.h"
#include "base/stripe.h"
#include "base/word.h"
#include "table/counts.h"
#include "window/epoch.h"
#include "window/geometry.h"

enum { WINDOW_EVICTIONS, WINDOW_FAILED_SEARCHES, WINDOW_REFUSED, WINDOW_LOOKUP_RETRIES };

struct window_calls;

enum { WINDOW_MARKS = 8, WINDOW_PLANES = 4 /* how many marks and planes a layer has */ };

/* The counts of copies in a part of a layer, which has at most 2^plane_shift words: copies.h. */
struct window_plane {
  /* LOCK window.counts (order 6): protects a plane's counts; held to change or read some. */
  _Alignas(64) struct lock lock;
  plane counts;
};

struct window_layer {
  struct window_geometry geometry;
  WIDE word *words;
  WIDE const struct window_calls *calls; /* the functions for the layer's shape */
  /* An array of WINDOW_PLANES planes; NULL: the window is not of the cuckoo kind. */
  WIDE struct window_plane *planes;
  /* The next older layer, or NULL.  A layer that has left the list keeps this link ([L] above). */
  WIDE struct window_layer *_Atomic older;
  _Atomic uint64_t number; /* the layer's name ([N] above), new if it is opened again; relaxed */
  unsigned index;          /* determines the layer's share of the rate; unique in the list */
  unsigned block_shift;    /* log2 of the number of words in a block */
  unsigned plane_shift;    /* log2 of the number of words in a plane */
  /* Marks of full segments (rooms.h).  Segments whose numbers are equal modulo WINDOW_MARKS share a
   * mark: they become full together, as keys are spread evenly. */
  _Alignas(64) fullness full[WINDOW_MARKS];
  fullness_vacated vacated[WINDOW_MARKS];
};

/* A layer in memory of its own: any layer except the first, which is a part of the filter. */
struct window_later_layer {
  struct retired retired;
  struct window_layer layer;
};

/* The bytes that a later layer takes in addition to its words. */
static inline uint64_t window_layer_bytes(bool copies)
{
  return sizeof(struct window_later_layer) +
         (copies ? WINDOW_PLANES * sizeof(struct window_plane) : 0);
}

/* The data that writers and look-ups share, except words and stripes.  If processes share the
 * window, this struct is in their file. */
struct window_state {
  _Alignas(64) epoch_word epoch;
  /* LOCK window.advancing (order 2): lets one period end at a time; held during an advance and its
   * sweep, and while a segment is frozen. */
  struct owned_lock advancing;
  /* LOCK window.saving (order 3): protects the name of the frozen segment; held while a save or a
   * union copies the frozen segment. */
  struct owned_lock saving;
  _Atomic uint64_t frozen; /* name of the frozen segment; 0: none (evict.h) */
  /* `boot`, `checkpoint` and `syncing` are used only if processes share the window: shared.c. */
  _Atomic uint64_t boot;       /* identifies the boot after which the file was last mended */
  _Atomic uint64_t checkpoint; /* the area of the last checkpoint, 1 or 2; 0: there is none */
  /* LOCK window.syncing (order 1): lets one checkpoint be written at a time; held for the write. */
  struct owned_lock syncing;
  period_numbers numbers; /* numbers of periods, and `coming` (epoch.h) */
  version_counter versions[];
};

_Static_assert(sizeof(struct window_state) == 64, "a cache line, before the versions");

struct window_stripe {
  _Alignas(64) struct owned_lock lock;
  /* The number of lanes in use, live or dead, and the number of further copies of entries.
   * Relaxed: statistics that the holder of the stripe writes and any thread reads. */
  _Atomic uint64_t lanes, copies;
  _Atomic uint64_t vacated; /* in a counted table: lanes that calls of tamis_remove have cleared */
};

struct window_stripes {
  WIDE struct window_stripe *all;
  uint64_t mask; /* the number of stripes (a power of two) minus 1 */
};

struct window_shared;

struct window {
  struct tamis_filter head;
  struct filter_operations operations; /* functions for the shape of the first layer */
  struct window_layer first;
  WIDE struct window_state *state;
  unsigned version_shift; /* 64 - log2 of the number of versions: window_version() */
  unsigned stamps;        /* the number of stamps, G + 2 */
  struct window_spec spec;
  bool renews;             /* unique adds also renew keys */
  bool counted;            /* the table is a counted one: counted.h */
  unsigned stripes_wanted; /* the number that the user asked for; 0: the library chooses */
  uint64_t max_bytes;
  /* LOCK window.stripes (order 5): each protects blocks of buckets in all layers, and their counts;
   * taken in the order of addresses; held for a change of a key's buckets, or a block's sweep. */
  struct window_stripes stripes;
  struct owner owner;                /* this process, as the owner of locks */
  WIDE struct window_shared *shared; /* NULL: processes do not share the window */
  struct counters counters;
  /* LOCK window.opening (order 4): protects the list of layers and the marks of full segments; held
   * during a search for room, and while the search opens a layer. */
  struct lock opening;
  _Atomic uint64_t bytes; /* bytes of the filter's memory; relaxed: no data depends on it */
  fullness_rooms rooms;   /* counts how often memory, or an index for a layer, became free */
  uint64_t cleared_from;
  /* The layer that was opened last.  The epoch word may not name this layer yet. */
  WIDE struct window_layer *_Atomic newest;
  uint64_t changes;     /* the number of changes of the list; `opening` protects it */
  uint64_t used_before; /* lanes in use at the end of the last period; `advancing` protects it */
  _Atomic uint64_t growths; /* layers opened so far, also before a load; relaxed */
  struct backlog backlog;   /* layers that have left the list */
  struct filter_more more;
  unsigned char secret[HASH_SECRET_BYTES];
};

static inline struct window *window_of(tamis_filter *f)
{
  return (struct window *) f;
}

static inline const struct window *const_window_of(const tamis_filter *f)
{
  return (const struct window *) f;
}

static inline bool window_is_counted(const struct window *w)
{
  (void) w;
  return NOT_COMPACT(w->counted);
}

/* Whether the window is of the cuckoo kind, which has counts of copies in addition to its lanes. */
static inline bool window_counts_copies(const struct window *w)
{
  return w->first.planes;
}

/* The bytes of a later layer, without those of its counts. */
static inline uint64_t window_layer_takes(const struct window *w, const struct window_geometry *g)
{
  return window_bytes(g) + window_layer_bytes(window_counts_copies(w));
}

/* Whether max_bytes allows `more` bytes in addition to the present ones. */
static inline bool window_has_bytes(const struct window *w, uint64_t more)
{
  return memory_fits(&w->bytes, w->max_bytes, more);
}

static inline uint64_t window_mixed(const struct window *w, uint64_t hash)
{
  return hash_mix(&w->head.keys, hash);
}

/* The number of the running period.  If `numbers` is the same before and after the load of the
 * epoch word, the two values fit together: an earlier value of `numbers` comes back only within one
 * period (by tamis_set_period()) or after 2^28 periods. */
static inline uint64_t window_period(const struct window *w)
{
  uint64_t numbers, epoch;
  do {
    numbers = numbers_load(&w->state->numbers);
    HOOK(window_numbers_read);
    epoch = epoch_read(&w->state->epoch);
  } while (numbers_load(&w->state->numbers) != numbers);
  return epoch_number(epoch, numbers);
}

/* The greatest age, in periods, of keys that the running jump keeps ([T] above).  The caller must
 * hold a stripe or `advancing`.  Relaxed: a jump sets `coming` before it takes each stripe. */
static inline unsigned window_oldest_age(const struct window *w, uint64_t epoch)
{
  const uint64_t numbers = atomic_load_explicit(&w->state->numbers, memory_order_relaxed);
  return epoch_oldest_age(epoch, numbers, w->spec.periods);
}

static inline uint64_t window_number(const struct window_layer *layer)
{
  return atomic_load_explicit(&layer->number, memory_order_relaxed);
}

/* ORDER layer.newest (acquire)
 *   pairs with     layer.opened
 *   makes visible  the layer's fields
 *   if weakened    a thread that follows the link might not see the fields that were set before
 *   checked by     mutants/window_layer_opened_relaxed */
static inline struct window_layer *window_layer_at(struct window_layer *const _Atomic *link)
{
  return atomic_load_explicit(link, memory_order_acquire);
}

/* The newest layer that `epoch` names.  If `epoch` does not name w->newest yet, the number of
 * w->newest is 1 above `changes` in `epoch`, and the result is the layer before w->newest.
 * (Comparing modulo 8192 is enough: since w->newest was opened, fewer than 64 layers have left.)
 * If the filter has grown, the caller must be in a read section. */
static inline struct window_layer *window_newest(const struct window *w, uint64_t epoch)
{
  if (!epoch_has_grown(epoch))
    return (struct window_layer *) &w->first;
  struct window_layer *layer = window_layer_at(&w->newest);
  if (((window_number(layer) ^ (epoch_changes(epoch) + UINT64_C(1))) & EPOCH_CHANGES) != 0)
    return layer;
  struct window_layer *older = window_layer_at(&layer->older);
  return older ? older : layer; /* `older` is NULL only if `epoch` is out of date */
}

static inline struct window_layer *window_next(const struct window_layer *layer, uint64_t epoch)
{
  return epoch_has_grown(epoch) ? window_layer_at(&layer->older) : NULL;
}

/* The layer with this number, or NULL if it has left the list.  The caller must be in a read
 * section, or hold a stripe or `advancing`, so that the layer is not released. */
static inline struct window_layer *window_find_layer(const struct window *w, uint64_t number)
{
  struct window_layer *layer = window_layer_at(&w->newest);
  while (layer && window_number(layer) != number)
    layer = window_layer_at(&layer->older);
  return layer;
}

/* ---- readers: a call needs a read section only if there are layers besides the first ---- */

struct window_reader {
  bool inside;
  reader_token token;
};

static inline struct window_reader window_enter(uint64_t epoch)
{
  if (!epoch_has_grown(epoch))
    return (struct window_reader){.inside = false};
  return (struct window_reader){true, reader_enter()};
}

static inline void window_leave(struct window_reader reader)
{
  if (reader.inside)
    reader_leave(reader.token);
}

/* ---- stripes ---- */

/* Gives the process a name, which it needs to take locks, if it has none after a fork.
 *   Errors  TAMIS_EIO: errno says why */
static inline int window_join(struct window *w)
{
  return __builtin_expect(owner_has_name(&w->owner), 1) ? TAMIS_OK
                                                        : tamis__owner_renew(&w->owner, NULL, NULL);
}

/* Mends the blocks of a stripe that was taken over from a killed owner: [K] in shared.h. */
void tamis__window_mend(const struct window *w, struct window_stripe *stripe);

/* After a power failure: clears the lanes without a live stamp, and mends all stripes.  No other
 * process may use the window. */
void tamis__window_mend_all(struct window *w);

static inline void window_lock(const struct window *w, struct window_stripe *stripe)
{
  if (__builtin_expect(owned_lock(&stripe->lock, &w->owner), 0))
    tamis__window_mend(w, stripe);
}

static inline void window_unlock(const struct window *w, struct window_stripe *stripe)
{
  owned_unlock(&stripe->lock, &w->owner);
}

static inline struct window_stripe *window_stripe_of_block(const struct window *w, uint64_t block)
{
  return &w->stripes.all[block & w->stripes.mask];
}

/* Adds `change` to the number of lanes in use.  The caller must hold the stripe. */
static inline void window_use(struct window_stripe *stripe, int64_t change)
{
  uint64_t lanes = atomic_load_explicit(&stripe->lanes, memory_order_relaxed);
  atomic_store_explicit(&stripe->lanes, lanes + (uint64_t) change, memory_order_relaxed);
}

static inline uint64_t window_stripe_lanes(const struct window_stripe *stripe)
{
  return atomic_load_explicit(&stripe->lanes, memory_order_relaxed);
}

/* Adds `more` (modulo 2^64) to the further copies of a stripe.  The caller must hold the stripe. */
static inline void window_count_copies(struct window_stripe *stripe, uint64_t more)
{
  uint64_t copies = atomic_load_explicit(&stripe->copies, memory_order_relaxed);
  atomic_store_explicit(&stripe->copies, copies + more, memory_order_relaxed);
}

static inline struct window_stripe *window_stripe(const struct window *w,
                                                  const struct window_layer *layer, uint64_t bucket)
{
  uint64_t at = window_word_of(layer->geometry.bucket_shift, bucket);
  return window_stripe_of_block(w, at >> layer->block_shift);
}

/* The number of lanes in use in all layers, including dead ones. */
static inline uint64_t window_lanes_in_use(const struct window *w)
{
  uint64_t sum = 0;
  for (uint64_t i = 0; i <= w->stripes.mask; i++)
    sum += window_stripe_lanes(&w->stripes.all[i]);
  return sum;
}

/* The number of further copies of all entries, including dead ones. */
static inline uint64_t window_all_further(const struct window *w)
{
  uint64_t sum = 0;
  for (uint64_t i = 0; i <= w->stripes.mask; i++)
    sum += atomic_load_explicit(&w->stripes.all[i].copies, memory_order_relaxed);
  return sum;
}

/* ---- buckets ---- */

static inline word *window_word(const struct window_layer *layer, uint64_t bucket)
{
  return &layer->words[window_word_of(layer->geometry.bucket_shift, bucket)];
}

/* The lanes of a bucket.  Bits above the lanes may be those of another bucket. */
static inline uint64_t window_load(const struct window_layer *layer, uint64_t bucket)
{
  const struct window_geometry *g = &layer->geometry;
  return word_load(window_word(layer, bucket)) >> window_shift_of(g->bucket_shift, bucket);
}

/* Writes one lane.  The caller must hold the bucket's stripe. */
static inline void window_store(const struct window_layer *layer, uint64_t bucket, unsigned lane,
                                uint64_t entry)
{
  const struct window_geometry *g = &layer->geometry;
  word *at = window_word(layer, bucket);
  unsigned shift = window_shift_of(g->bucket_shift, bucket) + lane * g->shape.lane.width;
  uint64_t others = word_load(at) & ~(UINT64_MAX >> g->shape.lane.shift << shift);
  word_store(at, others | entry << shift);
}

/* ---- versions ----
 *
 * These versions count moves, as the versions of stripes do (stripe.h).  An entry's fingerprint
 * selects the counter.  So a look-up reads one counter for both buckets, and threads with different
 * stripes may increment the same counter. */

static inline version_counter *window_version(const struct window *w, uint64_t top)
{
  return &w->state->versions[top >> w->version_shift];
}

/* ORDER window.version_bump (release)
 *   pairs with     version.before
 *   makes visible  the copy of a moved entry, which the thread has written before
 *   if weakened    a look-up that sees the new version may miss the copy, and then also the source,
 *                  which the move has cleared: false negative
 *   checked by     mutants/window_version_not_bumped (shows that there is a bump at all),
 *                  mutants/window_version_bump_relaxed */
static inline void window_version_bump(version_counter *version)
{
  atomic_fetch_add_explicit(version, 1, memory_order_release);
}

#endif
