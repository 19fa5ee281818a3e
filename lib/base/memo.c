/* SPDX-License-Identifier: MIT */
#include "base/memo.h"

#include "base/hash.h"

#include <assert.h>
#include <string.h>

static struct memo_entry *entry_of(struct memo *memo, const uint64_t question[MEMO_QUESTION])
{
  uint64_t mixed = 0;
  for (unsigned i = 0; i < MEMO_QUESTION; i++)
    mixed = (mixed ^ question[i]) * HASH_MULTIPLIER;
  return &memo->entries[mixed >> 60];
}
_Static_assert(MEMO_ENTRIES == 16, "four bits choose an entry");

/* ORDER memo.take (acquire)
 *   pairs with     memo.give_back
 *   makes visible  what the entry's previous user has written to it
 *   if weakened    a thread might read an answer that another thread has half written
 *   checked by     mutants/memo_taken_relaxed */
static bool take(struct memo_entry *entry)
{
  enum { MOST_LOOKS = 100 }; /* so many are enough, unless the entry's user is stopped */
  for (unsigned looks = 0; looks < MOST_LOOKS; looks++)
    if (!atomic_exchange_explicit(&entry->taken, 1, memory_order_acquire))
      return true;
  return false;
}

/* ORDER memo.give_back (release)
 *   pairs with     memo.take, whose comment says why
 *   checked by     mutants/memo_given_back_relaxed */
static void give_back(struct memo_entry *entry)
{
  atomic_store_explicit(&entry->taken, 0, memory_order_release);
}

bool tamis__memo_recall(struct memo *memo, const uint64_t question[MEMO_QUESTION], void *answer,
                        size_t size)
{
  struct memo_entry *entry = entry_of(memo, question);
  if (!take(entry))
    return false;
  bool known = memcmp(entry->question, question, sizeof entry->question) == 0;
  if (known)
    memcpy(answer, entry->answer, size);
  give_back(entry);
  return known;
}

void tamis__memo_keep(struct memo *memo, const uint64_t question[MEMO_QUESTION], const void *answer,
                      size_t size)
{
  struct memo_entry *entry = entry_of(memo, question);
  assert(size <= MEMO_ANSWER);
  if (!take(entry))
    return;
  memcpy(entry->question, question, sizeof entry->question);
  memcpy(entry->answer, answer, size);
  give_back(entry);
}
