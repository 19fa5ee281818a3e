/* SPDX-License-Identifier: MIT
 *
 * The atomic accesses of the library one by one, so that check_arm64.py can see what a compiler
 * makes of each on a processor with weak memory.  A function is called KIND__TAG: what kind of
 * access it is, and the tag of its ORDER comment.  Nothing here is ever run.
 */
#include "base/counted.h"
#include "base/counter.c"
#include "base/live_file.c"
#include "base/memo.c"
#include "base/owned.c"
#include "base/stripe.c"
#include "bloom/layers.c"
#include "bloom/live.c"
#include "cuckoo/generation.c"
#include "cuckoo/segment.c"
#include "window/layers.c"

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

void store__version_bump(struct stripe *stripe)
{
  version_bump(stripe);
}

void store__version_leave(struct stripe *stripe)
{
  version_leave(stripe);
}

uint64_t load__version_before(const struct stripe *stripe)
{
  return version_before(stripe);
}

uint64_t load__bit_load(const word *w)
{
  return word_load(w);
}

uint64_t change__bit_set(word *w, uint64_t bits)
{
  return word_or(w, bits);
}

uint64_t change__word_change(word *w, uint64_t old, uint64_t value)
{
  return word_replace(w, old, value);
}

void store__word_put(word *w, uint64_t value)
{
  word_store(w, value);
}

directory_value load__directory_load(const directory_entry *entry)
{
  return directory_load(entry);
}

void store__directory_publish(directory_entry *entry, directory_value value)
{
  directory_publish(entry, value);
}

unsigned load__generations_load(const struct cuckoo *c)
{
  return cuckoo_generations(c);
}

struct cuckoo_growth *load__growth_load(const struct cuckoo *c)
{
  return cuckoo_growth(c);
}

void store__growth_publish(struct cuckoo *c, struct cuckoo_growth *growth)
{
  publish_growth(c, growth);
}

void store__fullness_search(fullness *full)
{
  fullness_begin_search(full);
}

void change__fullness_count(fullness_rooms *rooms)
{
  fullness_count(rooms);
}

uint32_t load__fullness_counted(const fullness_rooms *rooms)
{
  return fullness_counted(rooms);
}

void store__fullness_reset(fullness *full)
{
  fullness_reset(full);
}

void store__generations_publish(struct cuckoo *c, struct generation *generation, unsigned n)
{
  tamis__generation_append(c, generation, n);
}

void change__index_release(unsigned index)
{
  release_index(index);
}

unsigned change__index_acquire(unsigned word)
{
  return acquire_index_of(word);
}

void store__counter_add(const struct counters *counters)
{
  counter_add(counters, 0, 1);
}

uint64_t load__counter_sum(const struct counters *counters)
{
  return tamis__counter_sum(counters, 0);
}

void change__counted_enter(_Atomic uint64_t *counter)
{
  counted_add(counter);
}

void change__counted_leave(_Atomic uint64_t *counter)
{
  counted_leave(counter);
}

uint64_t load__counted_check(const struct counted_readers *readers)
{
  return counted_phase(readers);
}

uint64_t change__counted_flip(struct counted_readers *readers)
{
  return counted_flip(readers);
}

bool load__counted_drained(const struct counted_readers *readers, uint64_t phase)
{
  return counted_have_left(readers, phase);
}

const struct filter_operations *load__operations_load(const tamis_filter *f)
{
  return operations_of(f);
}

void store__operations_swap(struct bloom *first)
{
  use_layers(first);
}

bool load__layer_load(const struct bloom *first)
{
  return is_alone(first);
}

bool change__layer_append(struct bloom *first, struct bloom *full, struct bloom *layer)
{
  return append(first, full, layer);
}

bool change__openers_begin(struct bloom *first, unsigned most, unsigned own)
{
  return begin_opening(first, most, own);
}

void change__openers_end(struct bloom *first, unsigned own)
{
  end_opening(first, own);
}

uint64_t load__epoch_before(const epoch_word *at)
{
  return epoch_before(at);
}

uint64_t load__epoch_after(const epoch_word *at)
{
  return epoch_after(at);
}

uint64_t load__epoch_locked(const epoch_word *at)
{
  return epoch_locked(at);
}

bool change__epoch_publish(epoch_word *at, uint64_t *old, uint64_t epoch)
{
  return epoch_publish(at, old, epoch);
}

void store__layer_opened(struct window *w, struct window_layer *layer)
{
  link_layer(&w->newest, layer);
}

struct window_layer *load__layer_newest(const struct window *w, uint64_t epoch)
{
  return window_newest(w, epoch);
}

void change__window_version_bump(version_counter *version)
{
  window_version_bump(version);
}

uint64_t load__window_version_before(const version_counter *version)
{
  return window_version_before(version);
}

uint64_t load__live_boot(const _Atomic uint64_t *boot)
{
  return mended_at(boot);
}

void store__live_counted(_Atomic uint64_t *boot, uint64_t now)
{
  set_mended_at(boot, now);
}

bool change__memo_take(struct memo_entry *entry)
{
  return take(entry);
}

void store__memo_give_back(struct memo_entry *entry)
{
  give_back(entry);
}

bool load__owner_name(const struct owner *owner)
{
  return owner_has_name(owner);
}

int store__owner_named(struct owner *owner, const struct shared_file *alive, bool *alone)
{
  return claim_locked(owner, alive, alone);
}

bool change__owned_lock(struct owned_lock *lock, const struct owner *owner)
{
  return owned_trylock(lock, owner);
}

void store__owned_unlock(struct owned_lock *lock, const struct owner *owner)
{
  owned_unlock(lock, owner);
}

uint64_t load__live_state(const struct bloom *first)
{
  return bloom_live_state(first);
}

struct bloom *change__live_known(const struct bloom *first)
{
  return bloom_live_newest(first);
}

void change__live_publish(struct bloom *first, const struct bloom *full, unsigned number)
{
  publish(first, full, number);
}

void change__live_end(struct bloom *b)
{
  end_live(b);
}

void change__layer_end(struct bloom *b)
{
  raise_fullness(b, OPEN + 1);
}

bool load__layer_ended(const struct bloom *b)
{
  return has_ended(b);
}

bool change__segment_waited(struct segment *segment, struct stripe *stripe)
{
  return tamis__segment_wait(false, segment, stripe);
}

bool load__segment_in_use(const struct retired *block)
{
  return tamis__segment_in_use(block);
}
