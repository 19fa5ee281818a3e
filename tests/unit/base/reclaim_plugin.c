/* SPDX-License-Identifier: MIT
 *
 * A plugin that contains the static library: see test_reclaim_unload.c.
 */
#include "tamis/tamis.h"

#include <stdbool.h>

bool plugin_work(unsigned rounds);

/* Grows and shrinks a filter, so that memory is retired until the end. */
bool plugin_work(unsigned rounds)
{
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.kind = TAMIS_CUCKOO;
  options.capacity = 10;
  tamis_filter *f = NULL;
  bool good = tamis_create(&options, &f) == TAMIS_OK && !tamis_contains_hash(f, 1);
  for (unsigned round = 0; round < rounds && good; round++) {
    for (uint64_t i = 0; i < 2000; i++)
      good &= tamis_add_hash(f, i) == TAMIS_OK && tamis_contains_hash(f, i);
    for (uint64_t i = 0; i < 2000; i++)
      good &= tamis_remove_hash(f, i) == TAMIS_OK;
  }
  tamis_destroy(f);
  return good;
}
