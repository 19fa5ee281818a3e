/* SPDX-License-Identifier: MIT */
#include "cuckoo/pair.h"

void tamis__unlock_pairs(const struct locked_pairs *locked)
{
  for (unsigned i = locked->n; i-- > 0;)
    if (locked->pair[i].segment)
      pair_unlock(&locked->pair[i], locked->pair[i].geometry);
}

/* Takes the stripes of a key's pairs in all generations, as [B] in insert.c requires. */
void tamis__lock_pairs(const struct cuckoo *c, uint64_t hash, struct locked_pairs *locked)
{
  for (;;) {
    unsigned n = cuckoo_generations(c), i = 0;
    HOOK(cuckoo_generations_read);
    struct cuckoo_hash_string string = cuckoo_hash_string(&cuckoo_generation(c, 0)->geometry, hash);
    for (; i < n; i++) {
      struct generation *generation = cuckoo_generation(c, i);
      const struct cuckoo_geometry *g = &generation->geometry;
      struct bucket_pair *pair = &locked->pair[i];
      *pair = pair_at(g, generation, cuckoo_address_of(g, string, hash));
      if (pair->segment && !pair_lock(pair, pair->geometry))
        break;
    }
    locked->n = i;
    HOOK(cuckoo_pairs_locked);
    if (i == n && cuckoo_generations(c) == n)
      return;
    tamis__unlock_pairs(locked);
  }
}

void tamis__mix_and_prefetch(const struct cuckoo *c, const uint64_t *hashes, size_t n,
                             uint64_t mixed[FILTER_GROUP], bool to_write)
{
  unsigned generations = cuckoo_generations(c);
  for (size_t i = 0; i < n; i++)
    mixed[i] = hash_mix(&c->head.keys, hashes[i]);
  reader_token token = cuckoo_enter(c); /* protects the arrays of the directory */
  for (unsigned j = 0; j < generations; j++)
    for (size_t i = 0; i < n; i++) {
      struct bucket_pair pair = pair_find(cuckoo_generation(c, j), mixed[i]);
      pair_prefetch(&pair, pair.geometry, to_write && j + 1 == generations);
    }
  cuckoo_leave(c, token);
}
