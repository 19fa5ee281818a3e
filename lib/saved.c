/* SPDX-License-Identifier: MIT
 *
 * Layer 3: the public functions that save and load filters with the user's functions.
 */
#include "base/saved.h"

#include "base/cancel.h"
#include "kinds.h"
#include "window/create.h"

#include <errno.h>
#include <stddef.h>

/* Bytes of tamis_load_options in its first version (see FIRST_OPTIONS_SIZE in tamis.c). */
enum { FIRST_LOAD_OPTIONS_SIZE = offsetof(tamis_load_options, cleared_from) + sizeof(size_t) };

void tamis_load_options_init(tamis_load_options *options)
{
  begin_struct(options, &(const tamis_load_options) TAMIS_LOAD_OPTIONS_INIT,
               FIRST_LOAD_OPTIONS_SIZE);
}

/* ---- loading ---- */

int tamis__begin_load(const tamis_load_options *o, bool good, tamis_filter **out,
                      tamis_load_options *known)
{
  *known = (tamis_load_options) TAMIS_LOAD_OPTIONS_INIT;
  if (out)
    *out = NULL;
  if (!out || !good)
    return TAMIS_EINVAL;
  if (!o)
    return TAMIS_OK;
  size_t size = o->struct_size;
  if (size < FIRST_LOAD_OPTIONS_SIZE || size > ABSURD_SIZE)
    return TAMIS_EINVAL;
  for (size_t i = sizeof *known; i < size; i++)
    if (((const unsigned char *) o)[i])
      return TAMIS_EUNSUPPORTED;
  memcpy(known, o, size < sizeof *known ? size : sizeof *known);
  return good_allocator(known->allocator) ? TAMIS_OK : TAMIS_EINVAL;
}

static int check_hash(const struct saved_head *saved, const struct tamis_filter *head)
{
  if (saved->own_hash != filter_has_own_hash(head))
    return TAMIS_EINVAL;
  if (filter_probe(head) == saved->probe)
    return TAMIS_OK;
  return saved->own_hash ? TAMIS_EINVAL : TAMIS_ECORRUPT;
}

const struct filter_kind *tamis__find_counted_kind(tamis_kind kind)
{
#if !defined(TAMIS_WITHOUT_WINDOWS) && !defined(TAMIS_COMPACT)
  if (kind == TAMIS_CUCKOO)
    return &tamis__window_counted_kind;
#endif
  (void) kind;
  return NULL;
}

/* In a build without windows, a saved window gets the kind without a window, whose features lack
 * SAVED_WINDOW, so the result is TAMIS_EUNSUPPORTED. */
int tamis__read_kind(struct saved_reader *r, struct saved_head *saved,
                     const struct filter_kind **out)
{
  const struct filter_kind *kind = NULL;
  int result = tamis__saved_read_header(r, saved);
  if (result != TAMIS_OK)
    return result;
  if (saved->features & SAVED_WINDOW)
    kind = tamis__find_kind(saved->options.kind, true);
  else if (saved->features & SAVED_COUNTED)
    kind = tamis__find_counted_kind(saved->options.kind);
  if (!kind)
    kind = tamis__find_kind(saved->options.kind, false);
  if (!kind)
    return TAMIS_ECORRUPT;
  *out = kind;
  return saved->features & ~kind->features ? TAMIS_EUNSUPPORTED : TAMIS_OK;
}

static int load_from(struct saved_reader *r, const tamis_load_options *options, tamis_filter **out)
{
  struct saved_head saved;
  const struct filter_kind *kind;
  int result = tamis__read_kind(r, &saved, &kind);
  if (result != TAMIS_OK)
    return result;
  if (!kind->load || left_out(&saved.options))
    return TAMIS_EUNSUPPORTED;
  const struct filter_more more = {
      .allocator = r->allocator, .hash = options->hash, .hash_context = options->hash_context};
  struct tamis_filter head = {.keys = hash_keys_from_seed(saved.options.seed)};
  filter_set_more(&head, &more);
  result = check_hash(&saved, &head);
  if (result != TAMIS_OK)
    return result;
  saved.limit = options->max_bytes;
  saved.options.cleared_from = options->allocator ? options->cleared_from : 0;
  if (saved.limit)
    saved.options.max_bytes = saved.limit;
  return kind->load(r, &saved, &head, out);
}

int tamis__load(const tamis_load_options *options, struct saved_reader *r, tamis_filter **out)
{
  if (options->allocator)
    r->allocator = *options->allocator;
  int result = load_from(r, options, out);
  tamis__saved_close(r);
  return result;
}

/* ---- saving ---- */

/* Adds the figures that do not depend on the machine (saved.h). */
static void add_figures(const tamis_filter *f, struct saved_head *head)
{
  tamis_stats *s = &head->figures;
  uint64_t bytes = s->bytes;
  tamis__fill_stats(f, s);
  s->bytes = bytes;
  s->fpp_estimate = (float) s->fpp_estimate;
  if (!operations_of(f)->kind->saves_estimates)
    s->load = s->fpp_estimate = s->estimated_count = s->occupancy = 0;
}

/* Checks the arrays of a mapped filter by a second load of the mapping, unless the first load has
 * checked them.  Otherwise a save would write correct checksums for damaged bits. */
static int check_mapping(const tamis_filter *f)
{
  const struct saved_mapping mapping = operations_of(f)->kind->mapping(f);
  if (mapping.checked)
    return TAMIS_OK;
  struct saved_reader r = {
      .mapping = mapping.at, .mapping_size = mapping.size, .check_all = true, .borrowed = true};
  const struct filter_more more = filter_more_of(f);
  tamis_load_options options = TAMIS_LOAD_OPTIONS_INIT;
  options.allocator = &more.allocator;
  options.hash = more.hash;
  options.hash_context = more.hash_context;
  tamis_filter *checked;
  int result = tamis__load(&options, &r, &checked);
  if (result == TAMIS_OK)
    tamis_destroy(checked);
  return result;
}

int tamis__save(const tamis_filter *f, tamis_write_function write, void *context)
{
  const struct filter_kind *kind = operations_of(f)->kind;
  if (!kind->save)
    return TAMIS_EUNSUPPORTED;
  int result = operations_of(f)->read_only ? check_mapping(f) : TAMIS_OK;
  if (result != TAMIS_OK)
    return result;
  struct saved_head head = {.own_hash = filter_has_own_hash(f), .probe = filter_probe(f)};
  kind->describe(f, &head);
  head.options.kind = kind->kind;
  head.options.seed = f->keys.seed;
  add_figures(f, &head);
  struct saved_writer w = {.write = write, .context = context, .allocator = *filter_allocator(f)};
  tamis__saved_begin(&w, &head);
  if (w.result == TAMIS_OK)
    w.result = kind->save(f, &w);
  return tamis__saved_end(&w);
}

int tamis_save(const tamis_filter *f, tamis_write_function write, void *context)
{
  if (!f || !write)
    return TAMIS_EINVAL;
  return UNCANCELLED(tamis__save(f, write, context));
}

/* ---- the calls that load ---- */

int tamis_load(const tamis_load_options *options, tamis_read_function read, void *context,
               tamis_filter **out)
{
  tamis_load_options known;
  int result = tamis__begin_load(options, read, out, &known);
  if (result != TAMIS_OK)
    return result;
  struct saved_reader r = {.read = read, .context = context};
  return UNCANCELLED(tamis__load(&known, &r, out));
}

int tamis_saved_info(tamis_read_function read, void *context, tamis_stats *out)
{
  if (!read || !out || out->struct_size < FIRST_STATS_SIZE)
    return TAMIS_EINVAL;
  const struct filter_kind *kind;
  struct saved_head saved;
  struct saved_reader r = {.read = read, .context = context};
  int cancellation = cancellation_disable();
  int result = tamis__read_kind(&r, &saved, &kind);
  if (result == TAMIS_OK)
    result = kind->read_info(&r, &saved);
  tamis__saved_close(&r);
  cancellation_restore(cancellation);
  if (result == TAMIS_OK)
    give_struct(out, &saved.figures);
  return result;
}
