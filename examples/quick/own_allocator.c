/* SPDX-License-Identifier: MIT */
/* How does a filter get its memory from my own allocator? */
#include <stdio.h>
#include <stdlib.h>
#include <tamis/tamis.h>

static void *allocate(void *used, size_t alignment, size_t size)
{
  *(size_t *) used += size; /* for several threads, make this number atomic */
  return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
}

static void release(void *used, void *block, size_t alignment, size_t size)
{
  (void) alignment;
  *(size_t *) used -= size;
  free(block);
}

int main(void)
{
  size_t used = 0;
  tamis_allocator allocator = {allocate, release, &used};
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = 1000, options.allocator = &allocator;
  tamis_filter *filter;
  if (tamis_create(&options, &filter) != TAMIS_OK)
    return 1;
  printf("%s while it is there, ", used > 1000 ? "some bytes" : "nothing");
  tamis_destroy(filter);
  printf("%zu afterwards\n", used);
}
/* prints: some bytes while it is there, 0 afterwards */
