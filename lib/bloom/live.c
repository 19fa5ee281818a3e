/* SPDX-License-Identifier: MIT */
#include "bloom/live.h"

#include "base/cancel.h"
#include "base/hook.h"
#include "base/memory.h"
#include "base/shared_file.h"
#include "bloom/capacity.h"

/* ORDER live.publish (seq_cst)
 *   pairs with     live.state, whose comment says why
 *   checked by     mutants/live_layer_not_published */
static void publish(struct bloom *first, const struct bloom *full, unsigned number)
{
  uint64_t now = bloom_live_state(first);
  if (bloom_live_newest(first) == full)
    (void) atomic_compare_exchange_strong_explicit(&bloom_tally_of(first)->state, &now,
                                                   LIVE_ALONE * (uint64_t) number,
                                                   memory_order_seq_cst, memory_order_seq_cst);
}

int tamis__live_open_layers(struct bloom *first, struct bloom *full, unsigned number)
{
  struct bloom_shared *shared = const_bloom_long_of(first)->shared;
  const unsigned last = number ? number : full->number + 1U;
  if (last > shared->planned) {
    if (!number) /* a union sets `number`, and its `full` may still have room */
      raise_fullness(full, LAST);
    return TAMIS_EFULL;
  }
  HOOK(bloom_layer_wanted);
  int result = UNCANCELLED(tamis__shared_file_reserve(&shared->file, shared->ends[full->number - 1],
                                                      shared->ends[last - 1], &shared->refused));
  if (result != TAMIS_OK)
    return newest_layer(first) != full ? TAMIS_OK : result;
  for (unsigned i = full->number; i < last; i++)
    raise_fullness(shared->layers[i - 1], FULL);
  HOOK(bloom_layer_created);
  publish(first, full, last);
  return TAMIS_OK;
}

int tamis__live_sync(const struct bloom *first)
{
  const struct bloom_shared *shared = const_bloom_long_of(first)->shared;
  return UNCANCELLED(
      tamis__shared_file_sync(&shared->file, shared->ends[newest_layer(first)->number - 1]));
}

void tamis__live_close(struct bloom_shared *shared)
{
  const tamis_allocator from = shared->allocator;
  for (unsigned i = 0; i < shared->planned; i++)
    if (shared->layers[i])
      tamis__bloom_destroy_layer(shared->layers[i]);
  tamis__shared_file_close(&shared->file);
  tamis__memory_release(&from, shared, sizeof *shared);
}
