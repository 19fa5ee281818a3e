/* SPDX-License-Identifier: MIT
 *
 * The atomic accesses of the library one by one, so that check_arm64.py can see what a compiler
 * makes of each on a processor with weak memory.  A function is called KIND__TAG: what kind of
 * access it is, and the tag of its ORDER comment.  Nothing here is ever run.
 */
#include "base/counted.h"
#include "base/counter.c"
#include "base/memo.c"
#include "base/owned.c"
#include "base/shared_file.c"
#include "base/stripe.c"
#include "bloom/layers.c"
#include "bloom/live.c"
#include "cuckoo/generation.c"
#include "cuckoo/segment.c"
#include "window/layers.c"
#include "window/rooms.h"

/* `plain` is what the stripe protects. */
int lock__stripe(struct stripe *stripe, const int *plain)
{
  stripe_lock(stripe);
  return *plain;
}

void unlock__stripe(struct stripe *stripe, int *plain)
{
  *plain = 1;
  stripe_unlock(stripe);
}

/* The others are one call each. */
#define GIVES(type, name, call, ...) \
  type name(__VA_ARGS__)             \
  {                                  \
    return call;                     \
  }
#define DOES(name, call, ...) \
  void name(__VA_ARGS__)      \
  {                           \
    call;                     \
  }

DOES(store__version_bump, version_bump(stripe), struct stripe *stripe)
DOES(store__version_leave, version_leave(stripe), struct stripe *stripe)
GIVES(uint64_t, load__version_before, version_before(version), const version_counter *version)
GIVES(uint64_t, load__bit_load, word_load(w), const word *w)
GIVES(uint64_t, change__bit_set, word_or(w, bits), word *w, uint64_t bits)
GIVES(uint64_t, change__word_change, word_replace(w, old, value), word *w, uint64_t old,
      uint64_t value)
DOES(change__word_clear, word_and(w, kept), word *w, uint64_t kept)
DOES(store__word_put, word_store(w, value), word *w, uint64_t value)
GIVES(directory_value, load__directory_load, directory_load(entry), const directory_entry *entry)
DOES(store__directory_publish, directory_publish(entry, value), directory_entry *entry,
     directory_value value)
GIVES(unsigned, load__generations_load, cuckoo_generations(c), const struct cuckoo *c)
GIVES(struct cuckoo_growth *, load__growth_load, cuckoo_growth(c), const struct cuckoo *c)
DOES(store__growth_publish, publish_growth(c, growth), struct cuckoo *c,
     struct cuckoo_growth *growth)
DOES(store__fullness_search, fullness_begin_search(full), fullness *full)
DOES(change__fullness_count, fullness_count(rooms), fullness_rooms *rooms)
GIVES(uint32_t, load__fullness_counted, fullness_counted(rooms), const fullness_rooms *rooms)
DOES(store__fullness_reset, fullness_reset(full), fullness *full)
DOES(store__generations_publish, tamis__generation_append(c, generation, n), struct cuckoo *c,
     struct generation *generation, unsigned n)
DOES(change__index_release, release_index(index), unsigned index)
GIVES(unsigned, change__index_acquire, acquire_index_of(word), unsigned word)
DOES(store__counter_add, counter_add(counters, 0, 1), const struct counters *counters)
GIVES(uint64_t, load__counter_sum, tamis__counter_sum(counters, 0), const struct counters *counters)
DOES(change__counted_enter, counted_add(counter), _Atomic uint64_t *counter)
DOES(change__counted_leave, counted_leave(counter), _Atomic uint64_t *counter)
GIVES(uint64_t, load__counted_check, counted_phase(readers), const struct counted_readers *readers)
GIVES(uint64_t, change__counted_flip, counted_flip(readers), struct counted_readers *readers)
GIVES(bool, load__counted_drained, counted_have_left(readers, phase),
      const struct counted_readers *readers, uint64_t phase)
GIVES(const struct filter_operations *, load__operations_load, operations_of(f),
      const tamis_filter *f)
DOES(store__operations_swap, use_layers(first), struct bloom *first)
GIVES(bool, load__layer_load, is_alone(first), const struct bloom *first)
GIVES(bool, change__layer_append, append(first, full, layer), struct bloom *first,
      struct bloom *full, struct bloom *layer)
GIVES(bool, change__openers_begin, begin_opening(first, most, own), struct bloom *first,
      unsigned most, unsigned own)
DOES(change__openers_end, end_opening(first, own), struct bloom *first, unsigned own)
GIVES(uint64_t, load__numbers_load, numbers_load(at), const period_numbers *at)
DOES(store__numbers_store, numbers_store(at, numbers), period_numbers *at, uint64_t numbers)
GIVES(uint64_t, load__epoch_read, epoch_read(at), const epoch_word *at)
GIVES(bool, change__epoch_publish, epoch_publish(at, old, epoch), epoch_word *at, uint64_t *old,
      uint64_t epoch)
DOES(store__layer_opened, link_layer(&w->newest, layer), struct window *w,
     struct window_layer *layer)
GIVES(struct window_layer *, load__layer_newest, window_newest(w, epoch), const struct window *w,
      uint64_t epoch)
DOES(change__window_version_bump, window_version_bump(version), version_counter *version)
DOES(store__stripe_vacated, window_vacate(stripe), struct window_stripe *stripe)
GIVES(uint64_t, load__stripe_vacated_by_all, window_vacated(w), const struct window *w)
GIVES(uint64_t, load__live_boot, mended_at(boot), const _Atomic uint64_t *boot)
DOES(store__live_counted, set_mended_at(boot, now), _Atomic uint64_t *boot, uint64_t now)
GIVES(bool, change__memo_take, take(entry), struct memo_entry *entry)
DOES(store__memo_give_back, give_back(entry), struct memo_entry *entry)
GIVES(bool, load__owner_name, owner_has_name(owner), const struct owner *owner)
GIVES(int, store__owner_named, claim_locked(owner, alive, alone), struct owner *owner,
      const struct shared_file *alive, bool *alone)
GIVES(bool, change__owned_lock, owned_trylock(lock, owner), struct owned_lock *lock,
      const struct owner *owner)
DOES(store__owned_unlock, owned_unlock(lock, owner), struct owned_lock *lock,
     const struct owner *owner)
GIVES(uint64_t, load__live_state, bloom_live_state(first), const struct bloom *first)
GIVES(struct bloom *, change__live_known, bloom_live_newest(first), const struct bloom *first)
DOES(change__live_publish, publish(first, full, number), struct bloom *first,
     const struct bloom *full, unsigned number)
DOES(change__live_end, end_live(b), struct bloom *b)
DOES(change__layer_end, raise_fullness(b, OPEN + 1), struct bloom *b)
GIVES(bool, load__layer_ended, has_ended(b), const struct bloom *b)
GIVES(bool, change__segment_waited, tamis__segment_wait(false, segment, stripe),
      struct segment *segment, struct stripe *stripe)
GIVES(bool, load__segment_in_use, tamis__retired_in_use(block), const struct retired *block)
