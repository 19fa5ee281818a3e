/* SPDX-License-Identifier: MIT */
#include "window/copies.h"

#include "base/memory.h"

#include <assert.h>

enum { FEWEST_BITS = 2 };

static uint64_t slots_for(unsigned bits)
{
  return UINT64_C(1) << bits;
}

static size_t bytes_for(unsigned bits)
{
  return slots_for(bits) * sizeof(struct window_record);
}

/* Whether so many records leave enough slots empty. */
static bool fits(uint64_t records, unsigned bits)
{
  return records <= slots_for(bits) / 4 * 3;
}

/* ---- slots ---- */

static uint64_t home_of(const struct window_copies *c, uint64_t place, uint64_t fingerprint)
{
  return (place ^ fingerprint << 28) * HASH_MULTIPLIER >> (64 - c->bits);
}

static uint64_t next_slot(const struct window_copies *c, uint64_t slot)
{
  return (slot + 1) & (slots_for(c->bits) - 1);
}

/* The slot of a record, or the empty one where it would be. */
static uint64_t seek(const struct window_copies *c, const struct window_name *name)
{
  uint64_t slot = home_of(c, name->place, name->fingerprint);
  const struct window_record *r = &c->records[slot];
  while (r->further && (r->place != name->place || r->fingerprint != name->fingerprint)) {
    slot = next_slot(c, slot);
    r = &c->records[slot];
  }
  return slot;
}

/* Empties a slot.  Records after it that would not be found any more go there. */
static void empty(struct window_copies *c, uint64_t slot)
{
  const uint64_t mask = slots_for(c->bits) - 1;
  for (uint64_t i = next_slot(c, slot); c->records[i].further; i = next_slot(c, i)) {
    uint64_t home = home_of(c, c->records[i].place, c->records[i].fingerprint);
    if (((i - home) & mask) >= ((i - slot) & mask)) {
      c->records[slot] = c->records[i];
      slot = i;
    }
  }
  c->records[slot] = (struct window_record){0};
  c->used--;
}

static void change_sum(struct window_copies *c, uint64_t old, uint64_t further)
{
  atomic_store_explicit(&c->sum, window_copies_sum(c) - old + further, memory_order_relaxed);
}

/* ---- records ---- */

uint64_t tamis__window_further(const struct window_copies *c, const struct window_name *name,
                               unsigned dead)
{
  if (!c->used)
    return 0;
  const struct window_record *r = &c->records[seek(c, name)];
  return r->stamp == dead ? 0 : r->further;
}

bool tamis__window_has_room(const struct window_copies *c, const struct window_name *name)
{
  return c->records && (fits(c->used + 1, c->bits) || c->records[seek(c, name)].further);
}

bool tamis__window_record(struct window_copies *c, const struct window_name *name, unsigned stamp,
                          uint64_t further)
{
  if (!c->records)
    return !further;
  if (further && !tamis__window_has_room(c, name))
    return false;
  uint64_t slot = seek(c, name), old = c->records[slot].further;
  change_sum(c, old, further);
  if (further) {
    c->used += !old;
    c->records[slot] =
        (struct window_record){name->place, (uint32_t) name->fingerprint, stamp, further};
  } else if (old) {
    empty(c, slot);
  }
  return true;
}

void tamis__window_forget_records(struct window_copies *c, unsigned dead)
{
  if (!c->used)
    return;
  for (uint64_t i = 0; i < slots_for(c->bits);) {
    const struct window_record *r = &c->records[i];
    if (!r->further || r->stamp != dead) {
      i++;
      continue;
    }
    change_sum(c, r->further, 0);
    empty(c, i); /* another one may be here now */
  }
}

uint64_t tamis__window_read_further(const struct window *w, const struct window_layer *layer,
                                    uint64_t lower, uint64_t fingerprint)
{
  struct window_copies *c = window_copies_of(w, layer, lower);
  struct window_name name = window_name(layer, lower, fingerprint);
  if (!window_copies_sum(c))
    return 0;
  stripe_lock(window_stripe(w, layer, lower));
  uint64_t further = tamis__window_further(c, &name, epoch_dead(epoch_locked(&w->epoch)));
  stripe_unlock(window_stripe(w, layer, lower));
  return further;
}

/* ---- tables ---- */

/* Puts all records into a new table, and leaves the old one in *new; not, if they do not fit in.
 * The caller holds the stripe. */
static void exchange_locked(struct window_copies *c, struct window_copies *new)
{
  if (c->used && (!new->records || !fits(c->used, new->bits)))
    return;
  struct window_copies old = {.records = c->records, .bits = c->bits};
  c->records = new->records;
  c->bits = new->bits;
  uint64_t slots = old.records && c->used ? slots_for(old.bits) : 0;
  for (uint64_t i = 0; i < slots; i++) {
    const struct window_record *r = &old.records[i];
    struct window_name name = {r->place, r->fingerprint};
    if (r->further)
      c->records[seek(c, &name)] = *r;
  }
  new->records = old.records;
  new->bits = old.bits;
}

/* A table for so many records; if there are none, no table. */
static int allocate(struct window *w, uint64_t records, struct window_copies *new)
{
  *new = (struct window_copies){.bits = FEWEST_BITS};
  if (!records)
    return TAMIS_OK;
  while (!fits(records, new->bits))
    new->bits++;
  uint64_t bytes = atomic_load_explicit(&w->bytes, memory_order_relaxed),
           more = bytes_for(new->bits);
  if (w->max_bytes && (bytes > w->max_bytes || more > w->max_bytes - bytes))
    return TAMIS_EFULL;
  HOOK(window_records_wanted);
  new->records = tamis__memory_allocate(filter_allocator(&w->head), more);
  if (!new->records)
    return TAMIS_ENOMEM;
  atomic_fetch_add_explicit(&w->bytes, more, memory_order_relaxed);
  return TAMIS_OK;
}

static void release(struct window *w, const struct window_copies *c)
{
  if (!c->records)
    return;
  atomic_fetch_sub_explicit(&w->bytes, bytes_for(c->bits), memory_order_relaxed);
  fullness_count(&w->rooms);
  tamis__memory_release(filter_allocator(&w->head), c->records, bytes_for(c->bits));
}

/* Whether a table has a good size for so many records: it is not too small, and not four times too
 * large. */
static bool suits(const struct window_copies *c, uint64_t records)
{
  if (!c->records || !records)
    return !c->records && !records;
  return fits(records, c->bits) && (c->bits < FEWEST_BITS + 2 || !fits(records, c->bits - 2));
}

bool tamis__window_is_too_large(const struct window_copies *c)
{
  return c->bits > FEWEST_BITS && !suits(c, c->used);
}

/* The caller holds `opening`, so nobody else exchanges tables. */
static int fit_locked(struct window *w, struct window_copies *c, uint64_t more)
{
  struct stripe *stripe = &w->stripes.all[c - w->copies].stripe;
  stripe_lock(stripe);
  uint64_t records = c->used + more;
  bool good = suits(c, records);
  stripe_unlock(stripe);
  struct window_copies table;
  int result = good ? TAMIS_OK : allocate(w, records, &table);
  if (good || result != TAMIS_OK)
    return result;
  stripe_lock(stripe);
  exchange_locked(c, &table);
  stripe_unlock(stripe);
  release(w, &table);
  return TAMIS_OK;
}

int tamis__window_fit_records(struct window *w, struct window_copies *c, uint64_t more)
{
  stripe_lock(&w->opening);
  int result = fit_locked(w, c, more);
  stripe_unlock(&w->opening);
  return result;
}

uint64_t tamis__window_all_further(const struct window *w)
{
  uint64_t sum = 0;
  for (uint64_t i = 0; w->copies && i <= w->stripes.mask; i++)
    sum += window_copies_sum(&w->copies[i]);
  return sum;
}

void tamis__window_destroy_copies(struct window *w)
{
  for (uint64_t i = 0; w->copies && i <= w->stripes.mask; i++)
    release(w, &w->copies[i]);
}
