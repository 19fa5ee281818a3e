/* SPDX-License-Identifier: MIT
 *
 * Layer 2: saved cuckoo filters.  docs/format.md describes what these write and read.
 *
 *    a filter that grows    the segments of the first generation │ a later generation, its segments
 *                           │ ...; and, anywhere among them, keys that have been removed meanwhile
 *    one that does not      a segment, as an array │ its duplicate counts │ the next segment │ ...
 *                           and at the end, where each segment is
 */
#ifndef TAMIS_LIB_CUCKOO_SAVE_H
#define TAMIS_LIB_CUCKOO_SAVE_H

#include "cuckoo/counts.h"
#include "cuckoo/table.h"

/* Of a filter that does not grow, a segment is in a file as it is in memory, but only the lanes in
 * use of each stripe and the words are not zero. */
static inline void put_lanes_in_use(const struct cuckoo_geometry *g,
                                    const uint32_t used[CUCKOO_FIXED_STRIPES],
                                    unsigned char *segment)
{
  for (uint32_t i = 0; i <= g->stripe_mask; i++)
    saved_put32(segment + CUCKOO_SEGMENT_HEADER + (size_t) i * CUCKOO_STRIPE_BYTES +
                    offsetof(struct stripe, used),
                used[i]);
}

void tamis__cuckoo_describe(const tamis_filter *f, struct saved_head *out);
int tamis__cuckoo_save(const tamis_filter *f, struct saved_writer *w);
uint64_t tamis__cuckoo_saved_beside(const struct saved_head *saved);

void tamis__cuckoo_put_figures(const struct cuckoo_geometry *g, uint64_t *to);

/* False: no filter has it.  `before`: the generation before it, or NULL. */
bool tamis__cuckoo_read_geometry(const struct saved_head *saved, const uint64_t *figures,
                                 const struct cuckoo_geometry *before, struct cuckoo_geometry *g);
bool tamis__cuckoo_read_first_geometry(const struct saved_head *saved, struct cuckoo_geometry *g);

/* As load() in struct filter_kind, but the filter has no operations yet. */
int tamis__cuckoo_load(struct saved_reader *r, const struct saved_head *saved,
                       const struct tamis_filter *head, struct cuckoo **out);

#endif
