/* SPDX-License-Identifier: MIT */
/* How does a filter use my own hash function?  (FNV-1a is an example.  If others choose the keys,
 * use a keyed function, such as SipHash, or XXH3, the default.) */
#include <stdio.h>
#include <tamis/tamis.h>

static uint64_t fnv1a(void *context, const void *key, size_t len, uint64_t seed)
{
  (void) context;
  uint64_t hash = 0xcbf29ce484222325 ^ seed;
  for (size_t i = 0; i < len; i++)
    hash = (hash ^ ((const unsigned char *) key)[i]) * 0x100000001b3;
  return hash;
}

int main(void)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000, options.hash = fnv1a;
  tamis_filter *filter;
  if (tamis_create(&options, &filter) != TAMIS_OK)
    return 1;
  tamis_add(filter, "key", 3);
  uint64_t hash = tamis_hash(filter, "key", 3); /* or a hash that you already have */
  puts(tamis_contains_hash(filter, hash) ? "found by its hash" : "not found");
  tamis_destroy(filter);
}
/* prints: found by its hash */
