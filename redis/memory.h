/* SPDX-License-Identifier: MIT
 *
 * Memory of the filters, from the server's allocator: so it counts in used_memory, and maxmemory
 * sees it.  All functions may be called by any thread.
 */
#ifndef TAMIS_REDIS_MEMORY_H
#define TAMIS_REDIS_MEMORY_H

#include "tamis/tamis.h"

#include <stdbool.h>

/* Once, when the module is loaded. */
void memory_init(void);

/* Returns NULL if there is none. */
void *memory_take(size_t size);
void *memory_take_cleared(size_t size);
void memory_free(void *block);

/* Makes a block that the server has handed out one of the module's. */
void *memory_adopt(void *block);

/* The bytes that the server's allocator took for a block, of which `asked` were asked for.  NULL: 0. */
size_t memory_size(const void *block, size_t asked);

/* The bytes of all blocks, as far as the server tells their sizes. */
uint64_t memory_in_use(void);

/* For filters.  Blocks of MEMORY_CLEARED_FROM bytes and more come cleared: from the system they
 * come so, page by page when they are touched, and no command waits until all of them have been. */
enum { MEMORY_CLEARED_FROM = 1 << 20 };

/* A filter has an account of its blocks, which ends with the filter. */
struct memory_account;
struct memory_filter {
  tamis_filter *filter;
  struct memory_account *account;
};

/* As tamis_create() and tamis_load(), and with the memory of the server. */
int memory_create_filter(const tamis_options *options, struct memory_filter *made);
int memory_load_filter(uint64_t max_bytes, tamis_read_function read, void *context,
                       struct memory_filter *made);
void memory_destroy_filter(struct memory_filter made);
/* The bytes of all blocks of a filter, and of its account.  NULL: 0. */
size_t memory_of_filter(const struct memory_account *account);

/* For options that only tell what a filter would take. */
const tamis_allocator *memory_for_plans(void);

/* Between the two calls, which only the main thread makes, no memory is refused: where there is
 * none the server ends, as it does when one of its own allocations fails.  A save needs that,
 * because it has no way to fail: half of a filter must not be taken for all of it. */
void memory_begin_save(void);
void memory_end_save(void);

#endif /* TAMIS_REDIS_MEMORY_H */
