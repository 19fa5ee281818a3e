/* SPDX-License-Identifier: MIT
 *
 * Layer 2: what a sliding window consists of: a *stamped table*.
 *
 *    epoch word    which period runs, which stamp is dead, which layers there are (epoch.h)
 *    layer         buckets in segments, as in a cuckoo filter that does not grow (geometry.h);
 *                  a lane has a fingerprint and the stamp of its key's last add (bucket.h)
 *    stripes       for blocks of buckets, in all layers
 *    versions      counters of moves, chosen by the fingerprint
 *
 * tamis_advance() replaces the epoch word.  This makes the oldest stamp dead, for everybody at one
 * instant.  Then it clears the lanes that have it, block by block: the *sweep*.  No part of the
 * filter is created or released, and how keys are spread over periods does not matter.
 *
 * Writers hold the stripes of both buckets of the key, in each layer.  Under them a writer
 *
 *    1  reads the epoch word
 *    2  searches the buckets
 *    3  writes a lane with the stamp of 1
 *    4  reads the epoch word again; if a period has ended, it writes the new stamp
 *
 * Advance holds the lock `advancing`.  It
 *
 *    5  replaces the epoch word
 *    6  takes each stripe at least once, and clears the dead lanes of its blocks under it
 *
 * To end d periods at once, from 2 to G, it *jumps*:
 *
 *    7  says which period comes, the one d steps ahead (`coming`, epoch.h)
 *    8  sweeps as in 6, and clears also the lanes that are older than G periods then
 *    9  replaces the epoch word, by one whose stamp is d steps ahead
 *
 * For more than G periods it jumps over G, ends one more by 5 and 6, and gives that one the number
 * that was asked for.
 *
 * [P] While a writer holds a stripe, the epoch word changes by a jump's 9, by a 5, or by both in this
 *     order, and so by at most G + 1 steps: whatever comes after a 5, and whatever comes before a 9,
 *     takes this stripe.  So the stamp of 1 differs from every one that runs at 4, and writing once
 *     more is enough: the next change cannot make what is written at 4 dead, as it is at most one
 *     step.  A writer that is descheduled between 1 and 4, for however long, keeps an advance
 *     waiting; it never returns with an old stamp.  One that is descheduled before 1 has read
 *     nothing yet.
 *
 * [Q] G + 2 stamps are enough.  The stamp of period p is used again in p + G + 2.  It is dead from
 *     p + G + 1 on, and the sweep of that period clears it before p + G + 2 can be published.
 *     Nothing puts it back: a writer, or a move, that takes a stripe after the sweep has released
 *     it reads the epoch word that the sweep was made for, or a later one, because the stripe
 *     orders them.  So an add writes a live stamp.  A move writes the stamp that it reads under the
 *     stripes, not the one that its search has read: so it undoes no renewal; and it moves no dead
 *     lane.  Whoever had the stripe before the sweep is followed by the sweep.  A move holds the
 *     stripes of both buckets.  If it carries a lane from a block that is not swept yet to one that
 *     is, it has read the new epoch word.
 *
 * [T] No jump makes an old stamp young.  After 9 a stamp of d to G + 1 steps before the new one is
 *     that of the same period as before.  The d - 1 stamps beyond are those of periods that have
 *     not run; 8 has cleared them.  Nothing puts them back.  An add writes the stamp of 1, which is
 *     kept, as d is at most G.  A move and a union (unite.c) write older ones: under the stripes
 *     they read `coming`, after the epoch word, and write none that the jump does not keep.  If the
 *     sweep has been at one of their stripes, they see `coming`; if not, it comes after them.  If 9
 *     has come since they read the epoch word, `coming` is still as many steps ahead of that.  If a
 *     further jump has begun, `coming` is further ahead, and its sweep comes after them.
 *
 *     `coming` only grows while nobody is killed.  Whoever takes `advancing` over from a dead owner
 *     sweeps first, as in 8 if that one was in a jump, and may then go to a period before the one
 *     that was coming.
 *
 * [A] No false negative.  Let a key be remembered during all of a look-up that misses it.  The
 *     look-up reads: the epoch word, the version of the fingerprint, the lower bucket, the upper
 *     bucket, the version again, the epoch word again.  It begins anew if either has changed.  So
 *     the period was the same throughout, and the key stood in one of its buckets at every instant,
 *     with a stamp that is not dead in that period: a new stamp replaces an old one by one store.
 *     If it was not in the lower bucket when that was read, it was in the upper one then, and it
 *     was moved to the lower one before the upper one was read.  A move writes the copy, bumps the
 *     version, and clears the lane.  As the look-up has seen the cleared lane, it has acquired the
 *     bump, and the second version includes it.  If the first one does, too, the look-up has
 *     acquired the copy, and the load of the lower bucket shows it.  (With both buckets exchanged,
 *     the load of the lower one has acquired the bump, which the first version then does not
 *     include, or the upper one shows the copy.)
 *
 *     Without the second look at the epoch word, a look-up that was descheduled might meet a stamp
 *     that is younger than its own epoch word, and which in that word is dead: a false negative.
 *
 * [J] After the window.  A hit has read a lane with a stamp that is not dead while the period was
 *     P.  By [Q] this is the stamp of one of the periods P - G to P.  The hit takes effect when
 *     that word is read, a miss as in [A], and the end of one period at 5, for all keys at once.
 *     A jump forgets each key for itself, when its stripe is swept.
 *
 * [B] One winner in a window.  All unique adds of a key meet at the same two stripes, in each
 *     layer.  The first one that misses the key there has written its lane before it releases them.
 *     As 1 is read under them, of two that follow one another the later one's period is not the
 *     earlier one.  A key that is forgotten at 1 stays forgotten until somebody writes.  So within
 *     a window the second one finds the lane of the first.  A call that finds the key without
 *     stripes, and the epoch word unchanged, answers TAMIS_PRESENT.
 *
 *     Layers: under the stripes the epoch word is read again.  If it names a newest layer whose
 *     stripes are not held, the call begins anew.  If a layer is opened after that, the key goes to
 *     what is an older layer by then.  The next unique add of the key locks that one, too, and
 *     finds it.
 *
 * [C] All or nothing.  An add that finds no room has changed nothing.  Moves that it has made leave
 *     all entries in their buckets.
 *
 * [D] Look-ups take no lock.  They begin anew only if a period has ended, a layer was opened or has
 *     left, or an entry with the same version counter has been moved.
 *
 * [E] The rate.  A look-up compares 2 b lanes in each layer, with f bits each (geometry.c).  Dead
 *     lanes count as free, so no layer has more entries than lanes, whatever the sweep has done
 *     yet.
 *
 * *Of the lanes of a key's two buckets only one has its fingerprint*, dead or not: see bucket.h.
 * So an add that finds a dead lane with its fingerprint uses that one.
 *
 * Layers.  New keys go to the newest one.  In the cuckoo kind a key that stands in an older one is
 * renewed there: [H] in remove.c.  In the Bloom kind it is added to the newest one, too, and what
 * it has in the older one dies with its own stamp; so a layer that is closed is empty G + 1 periods
 * later.  (It cannot be cleared at once: it may stand for another key as well.)  A look-up finds
 * either of the two, and so does a unique add, under the stripes of all layers.  Only if the newest
 * layer has no room and no other one can be opened, the key is renewed where it is.
 *
 * When a search for room fails, the next layer is opened, which has twice the size: under the lock
 * `opening`, but outside of all stripes.  When far fewer keys come than the newest layer was made
 * for, tamis_advance() opens a smaller one, and makes it the newest one: layers.c says when.  A
 * layer never moves.
 *
 *     A layer leaves the list when a sweep finds it empty that began after the layer was closed,
 *     that is, after another one was opened.  Inserts and moves are made in the newest layer only,
 *     which they learn under their stripes.  One that had read an older epoch word held its stripes
 *     when the layer was closed, and the sweep waits for these.  So nothing comes to a block that
 *     the sweep has left, nothing is carried around it, and what it finds is final.  (A sweep that
 *     began before may count wrongly.)  Writers that have locked stripes for the layer find nothing
 *     to renew there.  The newest layer never leaves.
 *
 * [L] No layer is read when its memory has been released.  What is released are a layer and its
 *     words: after it has left the list, after each stripe has been taken once more, and after a
 *     grace period that begins then.  Only the thread that holds `advancing` lets layers leave.
 *     Who reads a layer, does so in one of four ways:
 *
 *     - As the first layer, which is never released.  The straight path of look-ups (lookup.c)
 *       knows no other one.  It serves a filter whose only layer that is, which may have become so
 *       again: if it was overtaken, the epoch word has changed, and what it has read does not hold.
 *     - In a read section, in which it has found the layer by following the list from the newest
 *       one.  Then the layer was in the list during the section, or the one was from which the link
 *       was read; that one keeps the link when it leaves, so this one left after it or is there
 *       still.  By induction it had not been retired when the section began.  A list that changes
 *       may lead anywhere, and the first layer, opened again, to where it did not lead before; the
 *       epoch word has changed then.
 *     - Under a stripe, with an epoch word that was read under it and has the layers of an earlier
 *       one, for which it has found the layer (has_layers() in pair.h, move_locked() in evict.c);
 *       or it has followed the list under the stripe, as in a read section (shrink() in copies.c).
 *       The layer was in the list then.  If it leaves after that, the thread that retires it first
 *       waits for the stripe.  If the stripe was taken after that wait, the epoch word, and the
 *       list, show that the layer has left.
 *     - With `advancing`, or as the newest layer with `opening`: neither leaves meanwhile.
 *
 *     A writer that waits for stripes is in no read section, as nothing that may wait is called in
 *     one.  That the layers are the same, it knows by `changes` in the epoch word: 8192 of them do
 *     not come in the few periods for which equal numbers are taken to mean equal lists (epoch.h).
 *     Counts of copies are released with their layer, and are read as it is.
 *
 * [N] Names of layers.  A layer's *number* is the count of changes that opened it, in 64 bits: no
 *     other one gets it.  Copies for saves and unions, and counts that are to be encoded anew
 *     (copies.c), know a layer by it.  The frozen segment knows it by its *index*, which no other
 *     layer has that is in the list: while a segment is frozen `advancing` is held, without which
 *     none leaves.
 *
 * Nobody waits for an advance but for a stripe, which it holds for one block, and for `opening`,
 * which it holds while it changes the list or opens a smaller layer.  The end of a period and a
 * change of the list do not wait for each other: both change the epoch word by compare-and-swap.
 *
 * The cuckoo kind also counts copies and removes keys: copies.h, remove.c.
 *
 * The comments at the declarations of locks say in which order these are taken.
 */
#ifndef TAMIS_LIB_WINDOW_TABLE_H
#define TAMIS_LIB_WINDOW_TABLE_H

#include "base/counter.h"
#include "base/filter.h"
#include "base/fullness.h"
#include "base/hook.h"
#include "base/owned.h"
#include "base/reclaim.h"
#include "base/stripe.h"
#include "base/word.h"
#include "table/plane.h"
#include "window/epoch.h"
#include "window/geometry.h"

/* Indices of the counters. */
enum { WINDOW_EVICTIONS, WINDOW_FAILED_SEARCHES, WINDOW_REFUSED, WINDOW_LOOKUP_RETRIES };

struct window_calls;

enum { WINDOW_MARKS = 8, WINDOW_PLANES = 4 /* of a layer */ };

/* The counts of a quarter of a layer, or of less: copies.h. */
struct window_plane {
  /* LOCK window.counts (order 5): protects the counts of a plane; held for a change of one, or
   * while a few are read. */
  _Alignas(64) struct lock lock;
  plane counts;
};

struct window_layer {
  struct window_geometry geometry;
  WIDE word *words;
  WIDE const struct window_calls *calls; /* for the geometry's shape */
  WIDE struct window_plane *planes;      /* WINDOW_PLANES; NULL: it is not of the cuckoo kind */
  /* NULL: this is the oldest one.  A layer that has left keeps it, for readers that are there. */
  WIDE struct window_layer *_Atomic older;
  /* The changes of the list with the one that opened it: no other layer ever has the number.
   * (Relaxed: the first layer may be opened again, with another one.) */
  _Atomic uint64_t number;
  unsigned index;       /* of the layer's share of the rate, which no other present layer has */
  unsigned block_shift; /* log2 of the words in a block */
  unsigned plane_shift; /* log2 of the words in a plane */
  /* Whether segments are known to be full: each mark stands for every eighth of them.  Keys spread
   * evenly, so these are full together.  A cache line of their own, as they change. */
  _Alignas(64) fullness full[WINDOW_MARKS];
  fullness_vacated vacated[WINDOW_MARKS];
};

/* A layer that is no part of the filter. */
struct window_later_layer {
  struct retired retired;
  struct window_later_layer *also; /* which is released with this one */
  struct window_layer layer;
};

/* What such a layer takes beside its words; its planes follow it in memory. */
static inline uint64_t window_layer_bytes(bool copies)
{
  return sizeof(struct window_later_layer) +
         (copies ? WINDOW_PLANES * sizeof(struct window_plane) : 0);
}

typedef _Atomic uint64_t version_counter;

/* What writers and look-ups share, beside words and stripes.  In a window that processes share it
 * is in the file. */
struct window_state {
  _Alignas(64) epoch_word epoch;
  /* LOCK window.advancing (order 1): lets one period end at a time; held for an advance with its
   * sweep, and while a segment is frozen. */
  struct owned_lock advancing;
  /* LOCK window.saving (order 2): protects the name of the frozen segment; held while a segment is
   * frozen, which a save or a union copies meanwhile. */
  struct owned_lock saving;
  _Atomic uint64_t frozen; /* evict.h */
  /* What follows has a meaning only if processes share the window: shared.c. */
  _Atomic uint64_t boot;       /* of the system that has mended it */
  _Atomic uint64_t checkpoint; /* the place of the last one: 1 or 2; 0: there is none */
  /* LOCK window.syncing (order 1): lets one checkpoint be written at a time; held for that. */
  struct owned_lock syncing;
  period_numbers numbers; /* also if they do not */
  version_counter versions[];
};

_Static_assert(sizeof(struct window_state) == 64, "a cache line, before the versions");

struct window_stripe {
  _Alignas(64) struct owned_lock lock;
  /* Lanes in use, dead ones included, and further copies of their entries; written under the lock
   * and read without.  (Relaxed: no other data depends on them.) */
  _Atomic uint64_t lanes, copies;
};

struct window_stripes {
  WIDE struct window_stripe *all;
  uint64_t mask; /* number of stripes - 1; a power of two - 1 */
};

struct window_shared;

struct window {
  struct tamis_filter head;
  struct filter_operations operations; /* those of the first layer's shape */
  struct window_layer first;
  WIDE struct window_state *state;
  unsigned
      version_shift; /* of a fingerprint at the top of a word; the rest is the counter's number */
  unsigned stamps;   /* G + 2 */
  struct window_spec spec;
  bool renews;             /* unique adds renew, too */
  unsigned stripes_wanted; /* by the user; 0: chosen here */
  uint64_t max_bytes;
  /* LOCK window.stripes (order 4): protect blocks of buckets in all layers, with the counts of
   * these, and are taken by their addresses; held for a change of the buckets of a key, or the
   * sweep of a block. */
  struct window_stripes stripes;
  struct owner owner;                /* of the locks that this process takes */
  WIDE struct window_shared *shared; /* NULL: no other process has it */
  struct counters counters;
  /* LOCK window.opening (order 3): protects the list of layers and the marks of full segments; held
   * for a search for room, with its new layer. */
  struct lock opening;
  _Atomic uint64_t bytes; /* everything; relaxed: it publishes nothing */
  fullness_rooms rooms;   /* how often memory has come free, or an index for a layer */
  uint64_t cleared_from;  /* as in struct window_plan */
  /* The layer that was opened last.  The epoch word may not name it yet. */
  WIDE struct window_layer *_Atomic newest;
  uint64_t changes;         /* of the list; by `opening`.  The epoch word has the lowest bits */
  uint64_t used_before;     /* lanes in use when the last period but one ended; by `advancing` */
  _Atomic uint64_t growths; /* layers that were opened, with those before a load; relaxed */
  struct backlog backlog;   /* layers that have left */
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

/* Whether it is of the cuckoo kind. */
static inline bool window_counts_copies(const struct window *w)
{
  return w->first.planes;
}

/* The bytes of a layer after the first one, without counts. */
static inline uint64_t window_layer_takes(const struct window *w, const struct window_geometry *g)
{
  return window_bytes(g) + window_layer_bytes(window_counts_copies(w));
}

static inline uint64_t window_mixed(const struct window *w, uint64_t hash)
{
  return hash_mix(&w->head.keys, hash);
}

/* The number of the period that runs.  Both words are of one instant: numbers that have changed never
 * come back, but for the same period. */
static inline uint64_t window_period(const struct window *w)
{
  uint64_t numbers, epoch;
  do {
    numbers = numbers_load(&w->state->numbers);
    HOOK(window_numbers_read);
    epoch = epoch_before(&w->state->epoch);
  } while (numbers_load(&w->state->numbers) != numbers);
  return epoch_number(epoch, numbers);
}

/* Where there is one thread, nobody meets a jump, and periods that end one by one are less code. */
#ifdef TAMIS_WITHOUT_SYSTEM
enum { WINDOW_JUMPS = 0 };
#else
enum { WINDOW_JUMPS = 1 };
#endif

/* How old a key may be that is kept: [T].  Relaxed: whoever begins a jump takes all stripes after
 * that; and the caller holds one, or `advancing`. */
static inline unsigned window_oldest_age(const struct window *w, uint64_t epoch)
{
  if (!WINDOW_JUMPS)
    return w->spec.periods;
  const uint64_t numbers = atomic_load_explicit(&w->state->numbers, memory_order_relaxed);
  return epoch_oldest_age(epoch, numbers, w->spec.periods);
}

static inline uint64_t window_number(const struct window_layer *layer)
{
  return atomic_load_explicit(&layer->number, memory_order_relaxed);
}

/* ORDER layer.newest (acquire)
 *   pairs with     layer.opened
 *   makes visible  the layer's fields.  (Which layers count, the epoch word says)
 *   if weakened    fields are read before they are written
 *   checked by     mutants/window_layer_opened_relaxed */
static inline struct window_layer *window_layer_at(struct window_layer *const _Atomic *link)
{
  return atomic_load_explicit(link, memory_order_acquire);
}

/* The newest layer that an epoch word names, which gets new keys.  One that is linked already, but
 * is not in the word yet, has the next number.  (Numbers are compared modulo 8192.  The newest
 * layer's is less than 64 changes old, for after it was opened each older layer has left once, and
 * no more has happened.)  The caller is in a read section, if the filter has grown. */
static inline struct window_layer *window_newest(const struct window *w, uint64_t epoch)
{
  if (!epoch_has_grown(epoch))
    return (struct window_layer *) &w->first;
  struct window_layer *layer = window_layer_at(&w->newest);
  if (((window_number(layer) ^ (epoch_changes(epoch) + UINT64_C(1))) & EPOCH_CHANGES) != 0)
    return layer;
  struct window_layer *older = window_layer_at(&layer->older);
  return older ? older : layer; /* NULL: the word is out of date */
}

/* The next layer to search; NULL: there is none. */
static inline struct window_layer *window_next(const struct window_layer *layer, uint64_t epoch)
{
  return epoch_has_grown(epoch) ? window_layer_at(&layer->older) : NULL;
}

/* The layer with this number; NULL: it has left.  The caller is in a read section, or holds a
 * stripe, or `advancing`, without which none leaves. */
static inline struct window_layer *window_find_layer(const struct window *w, uint64_t number)
{
  struct window_layer *layer = window_layer_at(&w->newest);
  while (layer && window_number(layer) != number)
    layer = window_layer_at(&layer->older);
  return layer;
}

/* ---- readers ----
 *
 * Layers that have left are released.  The first one never is: so as long as it is the only one,
 * nobody needs a read section. */

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

/* Before the process takes any lock: it may have been forked, and have no name yet.
 *   Errors  TAMIS_EIO: errno says why */
static inline int window_join(struct window *w)
{
  return __builtin_expect(owner_has_name(&w->owner), 1) ? TAMIS_OK
                                                        : tamis__owner_renew(&w->owner, NULL, NULL);
}

/* Mends what the owner of a stripe has left that was killed: [K] in shared.h.  The caller has taken
 * the stripe over. */
void tamis__window_mend(const struct window *w, struct window_stripe *stripe);

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

/* Counts lanes in use.  The caller holds the stripe, as with the next. */
static inline void window_use(struct window_stripe *stripe, int64_t change)
{
  uint64_t lanes = atomic_load_explicit(&stripe->lanes, memory_order_relaxed);
  atomic_store_explicit(&stripe->lanes, lanes + (uint64_t) change, memory_order_relaxed);
}

static inline uint64_t window_stripe_lanes(const struct window_stripe *stripe)
{
  return atomic_load_explicit(&stripe->lanes, memory_order_relaxed);
}

/* Counts further copies, modulo 2^64. */
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

/* In all layers, dead ones included. */
static inline uint64_t window_lanes_in_use(const struct window *w)
{
  uint64_t sum = 0;
  for (uint64_t i = 0; i <= w->stripes.mask; i++)
    sum += window_stripe_lanes(&w->stripes.all[i]);
  return sum;
}

/* Copies beyond the first one of each entry; of dead ones, too. */
static inline uint64_t window_all_further(const struct window *w)
{
  uint64_t sum = 0;
  for (uint64_t i = 0; i <= w->stripes.mask; i++)
    sum += atomic_load_explicit(&w->stripes.all[i].copies, memory_order_relaxed);
  return sum;
}

/* ---- segments that are known to be full: base/fullness.h ---- */

static inline unsigned window_mark_of(const struct window_layer *layer, uint64_t bucket)
{
  const struct window_geometry *g = &layer->geometry;
  return g->segments > 1 ? bucket / window_segment_buckets(g) % WINDOW_MARKS : 0;
}

/* Called after an entry has left a bucket. */
static inline void window_has_room(struct window_layer *layer, uint64_t bucket)
{
  unsigned mark = window_mark_of(layer, bucket);
  if (__builtin_expect(fullness_state(&layer->full[mark]) != 0, 0))
    fullness_has_room(&layer->full[mark], &layer->vacated[mark],
                      (layer->geometry.segments / WINDOW_MARKS + 1) *
                          window_segment_buckets(&layer->geometry));
}

/* The count of rooms for marks.  The end of a period makes room, too: lanes become free. */
static inline uint64_t window_rooms(const struct window *w, uint64_t epoch)
{
  return epoch_period(epoch) + fullness_counted(&w->rooms);
}

/* ---- buckets ---- */

static inline word *window_word(const struct window_layer *layer, uint64_t bucket)
{
  return &layer->words[window_word_of(layer->geometry.bucket_shift, bucket)];
}

/* A bucket's lanes, and perhaps other bits above them. */
static inline uint64_t window_load(const struct window_layer *layer, uint64_t bucket)
{
  const struct window_geometry *g = &layer->geometry;
  return word_load(window_word(layer, bucket)) >>
         window_shift_of(&g->shape, g->bucket_shift, bucket);
}

/* The caller holds the bucket's stripe, as all writers of the word do. */
static inline void window_store(const struct window_layer *layer, uint64_t bucket, unsigned lane,
                                uint64_t entry)
{
  const struct window_geometry *g = &layer->geometry;
  word *at = window_word(layer, bucket);
  unsigned shift = window_shift_of(&g->shape, g->bucket_shift, bucket) + lane * g->shape.lane.width;
  uint64_t others = word_load(at) & ~(lane_bits(g->shape.lane.width) << shift);
  word_store(at, others | entry << shift);
}

/* ---- versions ----
 *
 * As those of stripes (stripe.h).  But a counter belongs to fingerprints, so that a look-up reads
 * one for both buckets, and threads that hold different stripes may bump the same one. */

static inline version_counter *window_version(const struct window *w, uint64_t top)
{
  return &w->state->versions[top >> w->version_shift];
}

/* ORDER window.version_bump (release)
 *   pairs with     window.version_before
 *   makes visible  the copy of the entry, which was written before
 *   if weakened    a look-up may see the new version and not the copy: false negative
 *   checked by     mutants/window_version_not_bumped (that there is a bump at all),
 *                  mutants/window_version_bump_relaxed */
static inline void window_version_bump(version_counter *version)
{
  atomic_fetch_add_explicit(version, 1, memory_order_release);
}

/* ORDER window.version_before (seq_cst)
 *   pairs with     window.version_bump
 *   if weakened    acquire would be enough, and is the same instruction on x86-64.  With relaxed,
 *                  the reads of the buckets could be done before this one: false negative
 *   checked by     mutants/window_version_before_relaxed */
static inline uint64_t window_version_before(const version_counter *version)
{
  return atomic_load_explicit(version, memory_order_seq_cst);
}

/* Relaxed: the loads of the buckets, which come before and acquire, have made the bump visible, and
 * coherence of the version does the rest. */
static inline uint64_t window_version_after(const version_counter *version)
{
  return atomic_load_explicit(version, memory_order_relaxed);
}

#endif
