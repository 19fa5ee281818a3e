/* SPDX-License-Identifier: MIT
 *
 * Layer 3: the public functions on a whole filter.  Each calls a function of the filter's kind.
 */
#include "base/cancel.h"
#include "base/filter.h"
#include "base/refusal.h"
#include "base/saved.h"
#include "bloom/bloom.h"
#include "cuckoo/cuckoo.h"
#include "kinds.h"
#include "window/create.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

const char *tamis_version(void)
{
  return TEXT(TAMIS_VERSION_MAJOR) "." TEXT(TAMIS_VERSION_MINOR) "." TEXT(TAMIS_VERSION_PATCH);
}

const char *tamis_strerror(int result)
{
  static const struct {
    int result;
    const char *text;
  } texts[] = {{TAMIS_OK, "success"},
               {TAMIS_PRESENT, "the key is present"},
               {TAMIS_ABSENT, "the key is absent"},
               {TAMIS_EINVAL, "invalid argument"},
               {TAMIS_ENOMEM, "out of memory"},
               {TAMIS_EFULL, "the filter's capacity or memory limit is reached"},
               {TAMIS_EUNSUPPORTED, "not supported by this kind of filter or this version"},
               {TAMIS_EIO, "input or output error"},
               {TAMIS_ECORRUPT, "not a saved filter, or damaged"}};
  for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++)
    if (texts[i].result == result)
      return texts[i].text;
  return "unknown result";
}

/* ---- kinds ---- */

static const struct filter_kind *const kinds[] = {&tamis__bloom_kind, &tamis__cuckoo_kind,
                                                  &tamis__counting_bloom_kind, NULL};

static const struct filter_kind *const window_kinds[] = {
#ifndef TAMIS_WITHOUT_WINDOWS
    &tamis__window_bloom_kind, &tamis__window_cuckoo_kind,
#endif
    NULL};

const struct filter_kind *tamis__find_kind(tamis_kind kind, bool window)
{
  for (const struct filter_kind *const *k = window ? window_kinds : kinds; *k; k++)
    if ((*k)->kind == kind)
      return *k;
  return NULL;
}

/* ---- options ---- */

enum {
  MAX_STRIPES = 4096,
  MAX_WINDOW = 64,
  /* The bytes of tamis_options in the first version with this soname.  tamis_options_init() writes
   * only these, because a program built with that version has no more. */
  FIRST_OPTIONS_SIZE = offsetof(tamis_options, access) + sizeof(const tamis_file_access *)
};

void tamis_options_init(tamis_options *options)
{
  begin_struct(options, &(const tamis_options) TAMIS_OPTIONS_INIT, FIRST_OPTIONS_SIZE);
}

void tamis_stats_init(tamis_stats *stats)
{
  begin_struct(stats, &(const tamis_stats) TAMIS_STATS_INIT, FIRST_STATS_SIZE);
}

/* Copies to *known the options that both the program and this library know.  Fields that an older
 * program lacks become 0.  Fields that only a newer program knows must be 0. */
static int read_struct(const struct refusal *why, const tamis_options *o, tamis_options *known)
{
  memset(known, 0, sizeof *known);
  if (!o)
    return tamis__refuse(why, TAMIS_EINVAL, "options is NULL; it must point to a tamis_options");
  /* In a compact build only the library itself makes options, and they have all fields. */
  size_t size = NOT_COMPACT(o) ? o->struct_size : sizeof *known;
  if (size < FIRST_OPTIONS_SIZE || size > ABSURD_SIZE)
    return tamis__refuse(why, TAMIS_EINVAL,
                         "struct_size is %zu; it must be from %zu to %d: begin with "
                         "TAMIS_OPTIONS_INIT or tamis_options_init()",
                         size, (size_t) FIRST_OPTIONS_SIZE, ABSURD_SIZE);
  for (size_t i = sizeof *known; i < size; i++)
    if (((const unsigned char *) o)[i])
      return tamis__refuse(
          why, TAMIS_EUNSUPPORTED,
          "struct_size is %zu, and byte %zu of the options is %d; version %s of the "
          "library knows %zu bytes, and those after them must be 0",
          size, i, ((const unsigned char *) o)[i], tamis_version(), sizeof *known);
  memcpy(known, o, size < sizeof *known ? size : sizeof *known);
  return TAMIS_OK;
}

static int refuse_kind(const struct refusal *why, const tamis_options *o)
{
  char known[200] = "";
  size_t length = 0;
  for (const struct filter_kind *const *k = kinds; *k && length < sizeof known; k++)
    length += (size_t) snprintf(known + length, sizeof known - length, "%s%d (%s)",
                                length ? " or " : "", (int) (*k)->kind, (*k)->name);
  return tamis__refuse(why, TAMIS_EINVAL, "kind is %d; it must be %s", (int) o->kind, known);
}

static const struct filter_kind *kind_for(const tamis_options *o)
{
  return tamis__find_kind(o->kind, o->window > 0);
}

/* Checks the options of windows.  o->kind must be the number of a kind. */
static int check_window(const struct refusal *why, const tamis_options *o)
{
  if (o->window > MAX_WINDOW)
    return tamis__refuse(why, TAMIS_EINVAL, "window is %u; it must be from 0 to %d", o->window,
                         MAX_WINDOW);
  if (o->window_renews && !o->window)
    return tamis__refuse(why, TAMIS_EINVAL, "window_renews is true; it needs a window");
  if (!kind_for(o))
    return tamis__refuse(why, TAMIS_EUNSUPPORTED, "window is %u; with kind %d (%s) it must be 0",
                         o->window, (int) o->kind, tamis__find_kind(o->kind, false)->name);
  return TAMIS_OK;
}

static int check_allocator(const struct refusal *why, const tamis_allocator *a)
{
  if (good_allocator(a))
    return TAMIS_OK;
  return tamis__refuse(why, TAMIS_EINVAL,
                       "allocator->%s is NULL; both functions must be set, or allocator be NULL",
                       a->allocate ? "release" : "allocate");
}

/* Checks the options that mean the same to all kinds, except the rate and the capacity. */
static int check_fields(const struct refusal *why, const tamis_options *o)
{
  if (!tamis__find_kind(o->kind, false))
    return refuse_kind(why, o);
  int result = check_window(why, o);
  if (result != TAMIS_OK)
    return result;
  if (left_out(o))
    return tamis__refuse(
        why, TAMIS_EUNSUPPORTED,
        "growable is 1; in this build, which has no liburcu, it must be 0 (false) for "
        "cuckoo filters and windows");
  if (o->layout != TAMIS_LAYOUT_BLOCKED && o->layout != TAMIS_LAYOUT_CLASSIC &&
      o->layout != TAMIS_LAYOUT_WORD)
    return tamis__refuse(why, TAMIS_EINVAL,
                         "layout is %d; it must be %d (TAMIS_LAYOUT_BLOCKED) or %d "
                         "(TAMIS_LAYOUT_CLASSIC) or %d (TAMIS_LAYOUT_WORD)",
                         (int) o->layout, TAMIS_LAYOUT_BLOCKED, TAMIS_LAYOUT_CLASSIC,
                         TAMIS_LAYOUT_WORD);
  if (o->stripes > MAX_STRIPES)
    return tamis__refuse(why, TAMIS_EINVAL, "stripes is %u; it must be from 0 to %d", o->stripes,
                         MAX_STRIPES);
  return check_allocator(why, o->allocator);
}

static int check_rate(const struct refusal *why, const tamis_options *o)
{
  if (o->fpp > 0 && o->fpp < 1) /* false for NaN, too */
    return TAMIS_OK;
  return tamis__refuse(why, TAMIS_EINVAL, "fpp is %s; it must be above 0 and below 1",
                       tamis__rate_text(o->fpp).text);
}

static int check_capacity(const struct refusal *why, const tamis_options *o)
{
  return o->capacity ? TAMIS_OK : tamis__refuse_capacity(why, o, kind_for(o)->bytes_for);
}

static int read_options(const struct refusal *why, const tamis_options *options,
                        tamis_options *known)
{
  int result = read_struct(why, options, known);
  if (result == TAMIS_OK)
    result = check_fields(why, known);
  if (result == TAMIS_OK)
    result = check_rate(why, known);
  if (result == TAMIS_OK)
    result = check_capacity(why, known);
  return result;
}

static int random_seed(const struct refusal *why, uint64_t *seed)
{
  do
    if (getentropy(seed, sizeof *seed))
      return tamis__refuse(
          why, TAMIS_EUNSUPPORTED,
          "seed is 0, which asks for a random one, and getrandom(2) gives none; it "
          "must be any other number");
  while (*seed == 0);
  return TAMIS_OK;
}

int tamis__prepare(const struct refusal *why, const tamis_options *options, tamis_options *known,
                   struct filter_more *more, struct tamis_filter *head)
{
  int result = read_options(why, options, known);
  if (result != TAMIS_OK)
    return result;
  uint64_t seed = known->seed;
  if (seed == 0 && (result = random_seed(why, &seed)) != TAMIS_OK)
    return result;
  *more = (struct filter_more){.hash = known->hash, .hash_context = known->hash_context};
  if (known->allocator)
    more->allocator = *known->allocator;
  *head = (struct tamis_filter){.keys = hash_keys_from_seed(seed)};
  filter_set_more(head, more);
  return TAMIS_OK;
}

/* Creates a filter.  If `out` is NULL, only checks the options. */
static int create(const struct refusal *why, const tamis_options *options, tamis_filter **out)
{
  tamis_options known;
  struct filter_more more;
  struct tamis_filter head;
  int result = tamis__prepare(why, options, &known, &more, &head);
  return result == TAMIS_OK ? kind_for(&known)->create(&known, &head, why, out) : result;
}

int tamis_create(const tamis_options *options, tamis_filter **out)
{
  if (!out)
    return TAMIS_EINVAL;
  *out = NULL;
  return create(NULL, options, out);
}

int tamis_options_check(const tamis_options *options, char *why, size_t size)
{
  const struct refusal refusal = {why, size};
  if (why && size)
    *why = '\0';
  return create(&refusal, options, NULL);
}

void tamis_destroy(tamis_filter *filter)
{
  if (!filter)
    return;
  int cancellation = cancellation_disable(); /* closing files is a cancellation point */
  operations_of(filter)->kind->destroy(filter);
  cancellation_restore(cancellation);
}

int tamis_bytes_for(const tamis_options *options, uint64_t *bytes)
{
  tamis_options known;
  int result = read_options(NULL, options, &known);
  if (result != TAMIS_OK)
    return result;
  if (!bytes)
    return TAMIS_EINVAL;
  return kind_for(&known)->bytes_for(&known, bytes);
}

int tamis_fpp_for(const tamis_options *options, uint64_t bytes, double *fpp)
{
  tamis_options known;
  int result = read_struct(NULL, options, &known);
  if (result == TAMIS_OK)
    result = check_fields(NULL, &known);
  if (result == TAMIS_OK)
    result = check_capacity(NULL, &known);
  if (result != TAMIS_OK)
    return result;
  if (!fpp)
    return TAMIS_EINVAL;
  return kind_for(&known)->fpp_for(&known, bytes, fpp);
}

static void fill_options(const tamis_filter *f, tamis_options *out)
{
  const struct filter_kind *kind = operations_of(f)->kind;
  struct saved_head head = {.own_hash = false};
  kind->describe(f, &head);
  *out = head.options;
  out->kind = kind->kind;
  out->seed = f->keys.seed;
  const struct filter_more more = filter_more_of(f);
  out->hash = more.hash;
  out->hash_context = more.hash_context;
  out->allocator = more.allocator.allocate ? filter_allocator(f) : NULL;
}

int tamis_get_options(const tamis_filter *f, tamis_options *out)
{
  tamis_options filled;
  if (!f || !out || out->struct_size < FIRST_OPTIONS_SIZE)
    return TAMIS_EINVAL;
  fill_options(f, &filled);
  filled.struct_size = sizeof filled;
  give_struct(out, &filled);
  return TAMIS_OK;
}

/* ---- windows ---- */

static int advance(tamis_filter *f, enum filter_period how, uint64_t number)
{
  const struct filter_kind *kind = f ? operations_of(f)->kind : NULL;
  return !f ? TAMIS_EINVAL : kind->advance ? kind->advance(f, how, number) : TAMIS_EUNSUPPORTED;
}

int tamis_advance(tamis_filter *f)
{
  return advance(f, PERIOD_ENDS, 0);
}

int tamis_advance_to(tamis_filter *f, uint64_t period)
{
  return advance(f, PERIODS_END, period);
}

int tamis_set_period(tamis_filter *f, uint64_t period)
{
  return advance(f, PERIOD_IS_NAMED, period);
}

/* ---- figures ---- */

void tamis__fill_stats(const tamis_filter *f, tamis_stats *out)
{
  *out = (tamis_stats) TAMIS_STATS_INIT;
  const struct filter_kind *kind = operations_of(f)->kind;
  out->kind = kind->kind;
  out->layers = out->parts = 1;
  kind->stats(f, out);
  out->seed = f->keys.seed;
}

int tamis_get_stats(const tamis_filter *f, tamis_stats *out)
{
  tamis_stats filled;
  if (!f || !out || out->struct_size < FIRST_STATS_SIZE)
    return TAMIS_EINVAL;
  tamis__fill_stats(f, &filled);
  give_struct(out, &filled);
  return TAMIS_OK;
}
