/* SPDX-License-Identifier: MIT
 *
 * Layer 1: the epoch word of a sliding window, which says which period runs and which layers exist.
 *
 *      63             28 27               15 14         8  7   6         0
 *     ┌─────────────────┬───────────────────┬────────────┬───┬────────────┐
 *     │     period      │      changes      │ stamp now  │ g │ dead stamp │
 *     └─────────────────┴───────────────────┴────────────┴───┴────────────┘
 *
 * `changes` is the number of times, modulo 8192, that a layer was opened or has left.  g is set if
 * the filter has layers besides the first.  In a window of G past periods, stamp 1 follows G + 2.
 *
 * If a thread reads the same word twice, no period has ended in between, no layer was opened, and
 * none has left.  `changes` is wide enough for that: within one period, at most 63 layers leave,
 * and some 60 are opened, because nearly all are twice as large as the one before.
 */
#ifndef TAMIS_LIB_WINDOW_EPOCH_H
#define TAMIS_LIB_WINDOW_EPOCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
  EPOCH_GROWN = 1 << 7,
  EPOCH_NOW_SHIFT = 8,
  EPOCH_CHANGES_SHIFT = 15,
  EPOCH_PERIOD_SHIFT = 28,
  EPOCH_STAMP = 127,
  EPOCH_CHANGES = (1 << (EPOCH_PERIOD_SHIFT - EPOCH_CHANGES_SHIFT)) - 1,
  EPOCH_COMING = (1 << EPOCH_PERIOD_SHIFT) - 1,
  EPOCH_FEW_PERIODS = 16, /* `changes` does not wrap round within so few periods */
  WINDOW_MOST_LAYERS = 64 /* the most layers of a filter at one time */
};

typedef _Atomic uint64_t epoch_word;

static const uint64_t window_most_period = (UINT64_C(1) << (64 - EPOCH_PERIOD_SHIFT)) - 1;

static inline unsigned epoch_dead(uint64_t epoch)
{
  return epoch & EPOCH_STAMP;
}

static inline unsigned epoch_now(uint64_t epoch)
{
  return epoch >> EPOCH_NOW_SHIFT & EPOCH_STAMP;
}

static inline bool epoch_has_grown(uint64_t epoch)
{
  return epoch & EPOCH_GROWN;
}

static inline unsigned epoch_changes(uint64_t epoch)
{
  return epoch >> EPOCH_CHANGES_SHIFT & EPOCH_CHANGES;
}

static inline uint64_t epoch_period(uint64_t epoch)
{
  return epoch >> EPOCH_PERIOD_SHIFT;
}

static inline unsigned epoch_next_stamp(unsigned stamp, unsigned stamps)
{
  return stamp == stamps ? 1 : stamp + 1;
}

/* Returns true if between two epoch words no layer was opened, no layer left, and fewer than
 * EPOCH_FEW_PERIODS periods ended. */
static inline bool epoch_has_same_layers(uint64_t before, uint64_t after)
{
  const uint64_t periods = (epoch_period(after) - epoch_period(before)) & window_most_period;
  return before == after ||
         (epoch_changes(before) == epoch_changes(after) && periods < EPOCH_FEW_PERIODS);
}

static inline uint64_t epoch_make(uint64_t period, uint64_t changes, bool grown, unsigned now,
                                  unsigned stamps)
{
  return period << EPOCH_PERIOD_SHIFT | (changes & EPOCH_CHANGES) << EPOCH_CHANGES_SHIFT |
         (uint64_t) now << EPOCH_NOW_SHIFT | (grown ? EPOCH_GROWN : 0) |
         epoch_next_stamp(now, stamps);
}

static inline uint64_t epoch_first(unsigned stamps)
{
  return epoch_make(0, 0, false, 1, stamps);
}

/* The number of periods from the stamp's period to that of `epoch`. */
static inline unsigned epoch_age(uint64_t epoch, unsigned stamp, unsigned stamps)
{
  unsigned now = epoch_now(epoch);
  return now >= stamp ? now - stamp : now + stamps - stamp;
}

static inline unsigned epoch_stamp_of_age(uint64_t epoch, unsigned age, unsigned stamps)
{
  unsigned now = epoch_now(epoch);
  return now > age ? now - age : now + stamps - age;
}

/* The epoch word after `n` more periods.  `n` must be less than the number of stamps. */
static inline uint64_t epoch_after_periods(uint64_t epoch, unsigned n, unsigned stamps)
{
  return epoch_make(epoch_period(epoch) + n, epoch_changes(epoch), epoch_has_grown(epoch),
                    epoch_stamp_of_age(epoch, stamps - n, stamps), stamps);
}

static inline uint64_t epoch_with_layers(uint64_t epoch, uint64_t changes, bool grown,
                                         unsigned stamps)
{
  return epoch_make(epoch_period(epoch), changes, grown, epoch_now(epoch), stamps);
}

/* ---- the numbers of periods ----
 *
 *      63             28 27              0
 *     ┌─────────────────┬─────────────────┐
 *     │     offset      │     coming      │
 *     └─────────────────┴─────────────────┘
 *
 * The period in the epoch word grows by one with each step of the stamp.  Users see a *number*:
 * this period plus the offset, modulo 2^36.  So a period can get another number, after a long pause
 * or by tamis_set_period(), while its stamp stays the same.
 *
 * During a jump over several periods ([T] in table.h), `coming` is the period, modulo 2^28, that
 * the epoch word has after the jump.  Otherwise `coming` is the word's period or an earlier one. */

typedef _Atomic uint64_t period_numbers;

static inline uint64_t epoch_number(uint64_t epoch, uint64_t numbers)
{
  return (epoch + (numbers >> EPOCH_PERIOD_SHIFT << EPOCH_PERIOD_SHIFT)) >> EPOCH_PERIOD_SHIFT;
}

/* The value of `numbers` that gives the period of `epoch` this number.  No jump may be running. */
static inline uint64_t epoch_numbers(uint64_t epoch, uint64_t number)
{
  const uint64_t period = epoch_period(epoch);
  return (number - period) << EPOCH_PERIOD_SHIFT | (period & EPOCH_COMING);
}

/* Sets `coming` in `numbers` for a jump over `n` periods from the period of `epoch`. */
static inline uint64_t epoch_numbers_ahead(uint64_t epoch, uint64_t numbers, unsigned n)
{
  return (numbers & ~(uint64_t) EPOCH_COMING) | ((epoch_period(epoch) + n) & EPOCH_COMING);
}

/* Returns the age, in periods before that of `epoch`, of the oldest keys that the running jump
 * keeps, or `periods` if no jump runs.  (Even if `numbers` is wrong, keys of age 0 stay.) */
static inline unsigned epoch_oldest_age(uint64_t epoch, uint64_t numbers, unsigned periods)
{
  const uint64_t ahead = (numbers - epoch_period(epoch)) & EPOCH_COMING;
  return ahead > EPOCH_COMING / 2 ? periods : ahead < periods ? periods - (unsigned) ahead : 0;
}

/* ORDER numbers.load (acquire)
 *   pairs with     numbers.store
 *   makes visible  the epoch word that was published before
 *   if weakened    window_period() might add the offset of one period to the epoch word of another
 *                  one, and return a number that no period has had: keys forgotten too early */
static inline uint64_t numbers_load(const period_numbers *at)
{
  return atomic_load_explicit(at, memory_order_acquire);
}

/* The caller must hold `advancing`.
 * ORDER numbers.store (release)
 *   pairs with     numbers.load, whose comment says why */
static inline void numbers_store(period_numbers *at, uint64_t numbers)
{
  atomic_store_explicit(at, numbers, memory_order_release);
}

/* ---- accesses to the epoch word ---- */

/* A look-up reads the word before and after the buckets.  A writer reads the word under its
 * stripes, and again after it has written a lane: [A] and [P] in table.h.
 * ORDER epoch.read (seq_cst)
 *   pairs with     epoch.publish
 *   makes visible  the layers that the word names.  If a look-up has seen a stamp that was written
 *                  after the end of a period, its second read of the word sees that the period has
 *                  ended (by coherence, as the loads of buckets have acquire order)
 *   if weakened    with acquire, a writer's second load could be done before its write.  The writer
 *                  would miss the end of a period, and a look-up in the next period would miss the
 *                  renewed key.  Nor would there be one order of all calls.  With relaxed, a
 *                  look-up could read the buckets before the word, and see a stamp that was renewed
 *                  meanwhile: false negative
 *   checked by     mutants/epoch_before_relaxed, mutants/epoch_not_read_again_by_lookups and
 *                  mutants/not_looked_again_after_writing (show that it is read again) */
static inline uint64_t epoch_read(const epoch_word *at)
{
  return atomic_load_explicit(at, memory_order_seq_cst);
}

/* Replaces the word if it still is *old.  Otherwise sets *old to the present word.
 * ORDER epoch.publish (seq_cst)
 *   pairs with     epoch.read
 *   makes visible  the layers that the new word names
 *   if weakened    the end of a period would have no place in the one order of all calls
 *   checked by     mutants/epoch_published_relaxed */
static inline bool epoch_publish(epoch_word *at,
                                 uint64_t *old, /* NOLINT(readability-non-const-parameter) */
                                 uint64_t epoch)
{
  return atomic_compare_exchange_strong_explicit(at, old, epoch, memory_order_seq_cst,
                                                 memory_order_seq_cst);
}

#endif
