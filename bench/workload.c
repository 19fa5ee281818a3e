/* SPDX-License-Identifier: MIT */
#include "workload.h"

#include <math.h>
#include <string.h>

const struct workload workloads[] = {
    {"insert", "add each key, from empty to full", CALL_ADD, .changes = true},
    {"insert-bytes", "the same, hashing 8 bytes", CALL_ADD_BYTES, .changes = true},
    {"insert-batch", "the same, 64 hashes a call", CALL_ADD_MANY, .changes = true},
    {"hit", "look up keys that are in", CALL_CONTAINS, .filled = 1},
    {"hit-bytes", "the same, hashing 8 bytes", CALL_CONTAINS_BYTES, .filled = 1},
    {"hit-batch", "the same, 64 hashes a call", CALL_CONTAINS_MANY, .filled = 1},
    {"miss", "look up keys that are absent", CALL_CONTAINS, .filled = 1, .absent = true},
    {"miss-bytes", "the same, hashing 8 bytes", CALL_CONTAINS_BYTES, .filled = 1, .absent = true},
    {"miss-batch", "the same, 64 hashes a call", CALL_CONTAINS_MANY, .filled = 1, .absent = true},
    {"unique", "unique adds of new keys, from empty to full", CALL_ADD_UNIQUE, .changes = true},
    {"unique-present", "unique adds of keys that are in", CALL_ADD_UNIQUE, .filled = 1},
    {"unique-same", "unique adds, all threads the same new keys in the same order", CALL_ADD_UNIQUE,
     .changes = true, .unpartitioned = true},
    {"unique-one", "unique adds, all threads the same key", CALL_ADD_UNIQUE, .skew = ONE_KEY},
    {"unique-zipf", "unique adds from empty, a few keys often", CALL_ADD_UNIQUE, .changes = true,
     .skew = ZIPF},
    {"remove", "remove each key, from full to empty", CALL_REMOVE, .filled = 1, .changes = true},
    {"mix", "90 % look-ups, half of them hits, 10 % adds; from half full", CALL_MIX, .filled = 0.5,
     .changes = true},
    {"zipf", "look up keys that are in, a few often", CALL_CONTAINS, .filled = 1, .skew = ZIPF},
    {0}};

const struct workload *workload_find(const char *name)
{
  for (const struct workload *w = workloads; w->name; w++)
    if (strcmp(w->name, name) == 0)
      return w;
  return NULL;
}

/* With ZIPF, the frequency of the k-th key is proportional to 1/k.  The indices follow from uniform
 * numbers by inversion of the continuous distribution on [1, n + 1), whose logarithm is uniform. */
const uint32_t *hot_keys(enum skew skew, uint64_t n)
{
  static uint32_t zipf[HOT_KEYS], one[HOT_KEYS];
  static uint64_t made_for;
  if (skew == ZIPF && made_for != n) {
    made_for = n;
    for (uint64_t i = 0; i < HOT_KEYS; i++) {
      double uniform = (double) (key_at(i + 1) >> 11) * 0x1p-53;
      double k = exp(uniform * log((double) n + 1));
      zipf[i] = (uint32_t) (k < (double) n ? k : (double) n) - 1;
    }
  }
  return skew == ZIPF ? zipf : skew == ONE_KEY ? one : NULL;
}
