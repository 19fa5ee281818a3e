/* SPDX-License-Identifier: MIT */
#include "owner.h"

#include "cuckoo/cuckoo.h"

#include <error.h>
#include <math.h>
#include <stdlib.h>

void owner_init(struct owner *owner, tamis_filter *filter, unsigned number, uint64_t keys,
                uint64_t seed)
{
  *owner = (struct owner){.filter = filter,
                          .base = (uint64_t) (number + 1) << 40,
                          .keys = keys,
                          .copies = calloc(keys, 1),
                          .mix = BOTH_KINDS,
                          .seed = seed,
                          .goal = keys / 2};
  if (!owner->copies)
    error(2, 0, "no memory");
}

void owner_free(struct owner *owner)
{
  free(owner->copies);
}

void owners_init(struct owner *owners, uint64_t n, tamis_filter *filter, uint64_t keys,
                 uint64_t seed)
{
  for (unsigned i = 0; i < n; i++)
    owner_init(&owners[i], filter, i, keys, random_at(seed, i));
}

void owners_free(struct owner *owners, uint64_t n)
{
  for (uint64_t i = 0; i < n; i++)
    owner_free(&owners[i]);
}

static uint64_t hash_of(const struct owner *owner, uint64_t key)
{
  return owner->hashes ? owner->hashes[key] : owner->base + key;
}

/* Adds n to a mark that other threads read.  Release: a mark before a call is visible to every
 * thread that sees what the call did, and what a call did is visible to every thread that sees a
 * mark after it. */
static void mark(_Atomic uint64_t *what, uint64_t n)
{
  uint64_t before = atomic_load_explicit(what, memory_order_relaxed);
  atomic_store_explicit(what, before + n, memory_order_seq_cst);
}

/* ---- checks of answers ---- */

static void check_contains(struct owner *owner, uint64_t key, bool found)
{
  if (owner->copies[key]) {
    owner->wrong += !found;
  } else {
    owner->asked++;
    owner->false_positives += found;
  }
}

static void note_added(struct owner *owner, uint64_t key)
{
  owner->copies[key]++;
  owner->in++;
  mark(&owner->adds_done, 1);
}

static void check_add(struct owner *owner, uint64_t key, int result)
{
  if (result == TAMIS_OK)
    note_added(owner, key);
  else if (owner->limited && (result == TAMIS_EFULL || result == TAMIS_ENOMEM))
    owner->refused++;
  else
    owner->wrong++;
}

static void check_add_unique(struct owner *owner, uint64_t key, int result)
{
  if (owner->copies[key]) {
    owner->wrong += result != TAMIS_PRESENT;
  } else {
    owner->asked++;
    if (result == TAMIS_PRESENT)
      owner->false_positives++;
    else
      check_add(owner, key, result);
  }
}

/* ---- calls ---- */

static void add_one(struct owner *owner, uint64_t key, bool unique)
{
  uint64_t hash = hash_of(owner, key);
  mark(&owner->adds_begun, 1);
  if (unique)
    check_add_unique(owner, key, tamis_add_unique_hash(owner->filter, hash));
  else
    check_add(owner, key, tamis_add_hash(owner->filter, hash));
}

static void remove_one(struct owner *owner, uint64_t key)
{
  if (!owner->copies[key])
    return;
  mark(&owner->removes_begun, 1);
  owner->wrong += tamis_remove_hash(owner->filter, hash_of(owner, key)) != TAMIS_OK;
  mark(&owner->removes_done, 1);
  owner->copies[key]--;
  owner->in--;
}

static uint64_t pick(struct owner *owner)
{
  return random_next(&owner->seed) % owner->keys;
}

/* A key with a copy, if a few tries find one. */
static uint64_t pick_in(struct owner *owner)
{
  uint64_t key = pick(owner);
  for (unsigned i = 0; i < OWNER_BATCH && !owner->copies[key]; i++)
    key = (key + 1) % owner->keys;
  return key;
}

/* A batch may hold a key twice. */
static void add_batch(struct owner *owner, bool unique)
{
  uint64_t keys[OWNER_BATCH], hashes[OWNER_BATCH];
  int results[OWNER_BATCH];
  for (unsigned i = 0; i < OWNER_BATCH; i++) {
    do
      keys[i] = pick(owner);
    while (owner->copies[keys[i]] >= OWNER_MAX_COPIES);
    hashes[i] = hash_of(owner, keys[i]);
  }
  mark(&owner->adds_begun, OWNER_BATCH);
  (unique ? tamis_add_unique_many_hash : tamis_add_many_hash)(owner->filter, hashes, OWNER_BATCH,
                                                              results);
  for (unsigned i = 0; i < OWNER_BATCH; i++)
    (unique ? check_add_unique : check_add)(owner, keys[i], results[i]);
}

static void look_up_batch(struct owner *owner)
{
  uint64_t keys[OWNER_BATCH], hashes[OWNER_BATCH];
  bool found[OWNER_BATCH];
  for (unsigned i = 0; i < OWNER_BATCH; i++) {
    keys[i] = pick(owner);
    hashes[i] = hash_of(owner, keys[i]);
  }
  size_t n = tamis_contains_many_hash(owner->filter, hashes, OWNER_BATCH, found);
  for (unsigned i = 0; i < OWNER_BATCH; i++) {
    check_contains(owner, keys[i], found[i]);
    n -= found[i];
  }
  owner->wrong += n != 0;
}

static void make_call(struct owner *owner, uint64_t random, bool batch)
{
  bool grows = owner->in < owner->goal, unique = random >> 8 & 1;
  unsigned kind = random % 8;
  uint64_t key = pick(owner);
  if (kind < 3) {
    if (batch)
      look_up_batch(owner);
    else
      check_contains(owner, key, tamis_contains_hash(owner->filter, hash_of(owner, key)));
  } else if (kind < 4 ? grows : !grows) {                    /* mostly towards the goal */
    for (unsigned i = 0; i < (batch ? OWNER_BATCH : 1); i++) /* there is no batch of removes */
      remove_one(owner, pick_in(owner));
  } else if (batch) {
    add_batch(owner, unique);
  } else if (owner->copies[key] < OWNER_MAX_COPIES) {
    add_one(owner, key, unique);
  }
}

void owner_work(struct owner *owner, struct worker *worker, uint64_t calls)
{
  for (uint64_t i = 0; i < calls; i++) {
    uint64_t random = random_next(&owner->seed);
    if (random >> 32 < UINT32_MAX / 4096)
      owner->goal = pick(owner);
    bool batch = owner->mix == BATCH_CALLS || (owner->mix == BOTH_KINDS && random >> 16 & 1);
    uint64_t began = call_begins(worker);
    make_call(owner, random, batch);
    call_ends(worker, began);
  }
}

void owner_check(struct owner *owner)
{
  for (uint64_t key = 0; key < owner->keys; key++)
    check_contains(owner, key, tamis_contains_hash(owner->filter, hash_of(owner, key)));
}

void owner_remove_all(struct owner *owner, struct worker *worker)
{
  for (uint64_t key = 0; key < owner->keys; key++)
    while (owner->copies[key]) {
      uint64_t began = call_begins(worker);
      remove_one(owner, key);
      call_ends(worker, began);
    }
}

/* ---- all owners ---- */

uint64_t owners_refused(const struct owner *owners, uint64_t n)
{
  uint64_t refused = 0;
  for (uint64_t i = 0; i < n; i++)
    refused += owners[i].refused;
  return refused;
}

uint64_t owners_verify(const struct owner *owners, uint64_t n, double fpp)
{
  uint64_t answers = 0, in = 0, asked = 0, false_positives = 0, wrong = 0;
  for (uint64_t i = 0; i < n; i++) {
    answers += owners[i].wrong;
    in += owners[i].in;
    asked += owners[i].asked;
    false_positives += owners[i].false_positives;
  }
  double expected = fpp * (double) asked;
  tamis_stats stats = TAMIS_STATS_INIT;
  tamis_get_stats(owners[0].filter, &stats);
  const char *reason;
  if (answers)
    wrong += harness_mismatch("wrong answers", answers, 0);
  if ((double) false_positives > expected + 8 * sqrt(expected) + 8)
    wrong += harness_mismatch("false positives", false_positives, (uint64_t) expected);
  if (stats.count != in)
    wrong += harness_mismatch("count", stats.count, in);
  if (!filter_validate(owners[0].filter, &reason))
    wrong += harness_mismatch(reason, 1, 0);
  return wrong;
}
