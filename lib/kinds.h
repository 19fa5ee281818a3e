/* SPDX-License-Identifier: MIT
 *
 * Layer 3: declarations that the files of the API share.
 */
#ifndef TAMIS_LIB_KINDS_H
#define TAMIS_LIB_KINDS_H

#include "base/filter.h"

#include <stddef.h>
#include <string.h>

enum {
  /* the highest struct_size of options that a call accepts, in bytes */
  ABSURD_SIZE = 4096,
  /* The size of tamis_stats in the first version: see FIRST_OPTIONS_SIZE in tamis.c. */
  FIRST_STATS_SIZE = offsetof(tamis_stats, period) + sizeof(uint64_t)
};

/* Returns the kind, with a sliding window if `window` is set, or NULL if there is none. */
const struct filter_kind *tamis__find_kind(tamis_kind kind, bool window);

/* Returns the kind that implements `kind` for shared filters without a window, or NULL. */
const struct filter_kind *tamis__find_counted_kind(tamis_kind kind);

struct saved_reader;
/* Reads the header of a saved filter, and completes saved->options.  Returns TAMIS_ECORRUPT if the
 * file names no known kind, and TAMIS_EUNSUPPORTED if the kind lacks a feature of the file. */
int tamis__read_kind(struct saved_reader *r, struct saved_head *saved,
                     const struct filter_kind **out);

/* Copies the options of a new filter to *known, and checks those that do not depend on the kind.
 * Sets *head, with a seed and with a pointer to *more. */
int tamis__prepare(const struct refusal *why, const tamis_options *options, tamis_options *known,
                   struct filter_more *more, struct tamis_filter *head);

/* Returns true if this build cannot create such a filter.  Without liburcu, the one-file library
 * (script/amalgamate) has no growable cuckoo filters or windows. */
static inline bool left_out(const tamis_options *o)
{
#ifdef TAMIS_WITHOUT_CUCKOO_GROWTH
  return o->growable && (o->kind == TAMIS_CUCKOO || o->window);
#else
  (void) o;
  return false;
#endif
}

static inline bool good_key(const void *key, size_t len)
{
  return key || len == 0;
}

/* Hashes n keys.  An invalid key gets the hash of an empty key. */
static inline void hash_list(const tamis_filter *f, const tamis_key *keys, size_t n,
                             uint64_t *hashes)
{
  for (size_t i = 0; i < n; i++)
    hashes[i] = filter_hash(f, keys[i].data, keys[i].data ? keys[i].len : 0);
}

void tamis__fill_stats(const tamis_filter *f, tamis_stats *out);

/* Begins a load: sets *out to NULL, copies those options that both the program and the library
 * know, and checks them.  `good` is false if another argument of the call is invalid. */
int tamis__begin_load(const tamis_load_options *options, bool good, tamis_filter **out,
                      tamis_load_options *known);
int tamis__load(const tamis_load_options *options, struct saved_reader *r, tamis_filter **out);
int tamis__save(const tamis_filter *f, tamis_write_function write, void *context);

static inline bool file_access_is_valid(const tamis_file_access *access)
{
  enum { NEEDED = 0600, ALL = 0777 };
  return !access || ((access->mode & NEEDED) == NEEDED && access->mode <= ALL &&
                     access->group >= -1 && access->group < UINT32_MAX);
}

/* ---- structs that begin with their size ----
 *
 * A program built with another version of the header knows fewer or more fields of a struct. */

/* Writes the initial values of the fields that the library's first version had. */
static inline void begin_struct(void *out, const void *initial, size_t first_size)
{
  if (!out)
    return;
  memcpy(out, initial, first_size);
  *(size_t *) out = first_size;
}

/* Copies to the program's struct the fields that both the library and the program know. */
static inline void give_struct(void *out, void *filled)
{
  size_t *size = filled;
  if (*size > *(const size_t *) out)
    *size = *(const size_t *) out;
  memcpy(out, filled, *size);
}

/* Returns true for NULL, too, which stands for the system's allocator. */
static inline bool good_allocator(const tamis_allocator *a)
{
  return !a || (a->allocate && a->release);
}

#endif
