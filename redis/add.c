/* SPDX-License-Identifier: MIT */
#include "add.h"

#include "bytes.h"
#include "commands.h"
#include "figures.h"
#include "image.h"
#include "keys.h"
#include "memory.h"
#include "settings.h"

#include <math.h>

static tamis_key item_of(const server_string *word)
{
  tamis_key item;
  item.data = server.StringPtrLen(word, &item.len);
  return item;
}

/* A filter that does not grow takes what was reserved, and is not asked for more.  A cuckoo filter
 * would take some more items, and any number of copies of one.  A Bloom filter would note that it
 * has refused one, which a replica does not learn. */
static bool is_full(const struct value *v)
{
  return v->at_limit || (!v->traits.expansion && !v->traits.window && v->count >= v->capacity);
}

static uint32_t at_most_32_bits(uint64_t number)
{
  return number < UINT32_MAX ? (uint32_t) number : UINT32_MAX;
}

/* A cuckoo filter that meets its limit may refuse to split where a replica does not, because its
 * bytes depend on when memory comes back; then the two would not answer alike.  So its adds are
 * refused here, before it comes near: at 7/8 of the limit or, if that is small, at 3/4.  A window
 * splits nothing: an add that goes in here goes in on a replica, if need be without the limit. */
static bool is_watched(const struct value *v)
{
  return v->kind == TAMIS_CUCKOO && v->traits.max_bytes && v->traits.expansion && !v->traits.window;
}

bool is_near_limit(const struct value *v)
{
  enum { STEP = 64 << 10 };
  const uint64_t limit = v->traits.max_bytes, part = limit / 8;
  return is_watched(v) && value_stats(v).bytes >= limit - part - (part < STEP ? part : STEP);
}

static void watch_limit(struct value *v, int n)
{
  enum { ADDS = 256 };
  if (!is_watched(v))
    return;
  if (v->unwatched < (uint32_t) n) {
    v->at_limit = is_near_limit(v);
    v->unwatched = v->at_limit ? 0 : at_most_32_bits(ADDS + v->count / 64);
  }
  v->unwatched -= v->at_limit ? 0 : (uint32_t) n;
}

/* ---- filters of a foreign form ---- */

/* What those layers that would follow may take of the rate: RedisBloom halves the rate from layer to layer,
 * so they have the last one's together. */
static double rate_on_top(const struct foreign *f)
{
  const double last = f->layer[f->layers - 1].rate, lowest = 1e-9;
  const double ratio = f->options & FOREIGN_VALKEY ? f->tightening : 0.5;
  return fmax(fmin(last * ratio / (1 - ratio), last), lowest);
}

/* The filter on top follows from the last layer below it, so that a replica opens the same one: its
 * seed from what chance and other people's items have left there, and its rate from the rate there. */
static int open_own(struct value *v, uint64_t limit)
{
  enum { SEED_BYTES = 1 << 20 };
  const uint64_t most_capacity = UINT64_C(1) << 40;
  const struct foreign_layer *last = &v->foreign->layer[v->foreign->layers - 1];
  tamis_options options = TAMIS_OPTIONS_INIT;
  options.capacity = last->entries < most_capacity ? last->entries : most_capacity;
  options.capacity += !options.capacity;
  options.fpp = rate_on_top(v->foreign);
  options.stripes = 1;
  options.allocator = memory_for_plans();
  options.cleared_from = MEMORY_CLEARED_FROM;
  uint64_t bytes;
  if (limit && (tamis_bytes_for(&options, &bytes) != TAMIS_OK || v->foreign->bytes > limit ||
                bytes > limit - v->foreign->bytes))
    return TAMIS_EFULL;
  options.seed = sum_bytes(last->data, last->bytes < SEED_BYTES ? last->bytes : SEED_BYTES, 1) | 1;
  struct memory_filter made;
  const int result = memory_create_filter(&options, &made);
  v->filter = made.filter;
  v->account = made.account;
  return result;
}

/* The filter on top has no limit of its own, as a replica must open the same one.  Its next layer
 * takes about as much as all before it.  To look at the figures of a filter takes a thousand times as
 * long as an add, so that is done where its layers are full. */
static bool may_grow(struct value *v, uint64_t limit)
{
  if (!limit)
    return true;
  if (!v->unwatched) {
    const tamis_stats stats = value_stats(v);
    const uint64_t capacity = value_capacity_of_layers(&stats);
    const uint64_t room = capacity > stats.count ? capacity - stats.count : 0;
    if (!room && v->foreign->bytes + 2 * stats.bytes + stats.bytes / 2 > limit)
      return false;
    v->unwatched = at_most_32_bits(room);
  }
  v->unwatched -= v->unwatched > 0;
  return true;
}

/* What has been found out about a limit once is not found out again with each item that it refuses. */
static int add_on_top(struct value *v, const tamis_key *item, uint64_t limit)
{
  if (limit && limit <= v->foreign->full_at)
    return TAMIS_EFULL;
  int result = v->filter ? TAMIS_OK : open_own(v, limit);
  if (result == TAMIS_OK && may_grow(v, limit))
    return tamis_add_unique(v->filter, item->data, item->len);
  if (result == TAMIS_OK || result == TAMIS_EFULL)
    v->foreign->full_at = limit;
  return result == TAMIS_OK ? TAMIS_EFULL : result;
}

static int add_foreign(struct value *v, const tamis_key *item, bool unique, bool obeys)
{
  struct foreign *f = v->foreign;
  struct foreign_limits limits = {0};
  if (!obeys) {
    limits.bytes = (uint64_t) settings.max_bytes;
    limits.tables = (uint64_t) settings.cf_max_expansions;
  }
  if (v->filter && tamis_contains(v->filter, item->data, item->len))
    return TAMIS_PRESENT;
  int result = foreign_add(f, item->data, item->len, unique, limits);
  const bool goes_on = result == TAMIS_EFULL && f->kind != TAMIS_CUCKOO && v->traits.expansion;
  return goes_on ? add_on_top(v, item, limits.bytes) : result;
}

/* ---- all ---- */

static int add_ending(struct value *v, const tamis_key *item, const struct add_mode *mode)
{
  return mode->unique ? tamis_add_unique_for(v->filter, item->data, item->len, mode->periods)
                      : tamis_add_for(v->filter, item->data, item->len, mode->periods);
}

/* `obeys`: the item comes from a server that this one follows, or from a file. */
static int add_one(struct value *v, const tamis_key *item, const struct add_mode *mode, bool obeys)
{
  const bool unique = mode->unique;
  if (v->foreign)
    return add_foreign(v, item, unique, obeys);
  if (is_full(v))
    return unique && tamis_contains(v->filter, item->data, item->len) ? TAMIS_PRESENT : TAMIS_EFULL;
  if (mode->ends)
    return add_ending(v, item, mode);
  return unique ? tamis_add_unique(v->filter, item->data, item->len)
                : tamis_add(v->filter, item->data, item->len);
}

/* What another server has added must go in here, too.  A filter's bytes near its limit depend on
 * when memory came back, so this server may meet the limit where the other one did not. */
static int add_one_obeying(struct value *v, const tamis_key *item, const struct add_mode *mode)
{
  int result = add_one(v, item, mode, true);
  const bool limited = v->foreign ? v->filter != NULL : v->traits.max_bytes != 0;
  if (result == TAMIS_EFULL && (v->traits.expansion || v->traits.window) && limited &&
      image_lift_limit(v) == TAMIS_OK)
    result = add_one(v, item, mode, true);
  return result;
}

/* Whether all of these items may be added at once: the filter has room for them, or a refusal does not
 * stop the command.  A window that refuses an item may take the next one. */
static bool have_room(const struct value *v, int n, const struct add_mode *mode)
{
  if (v->at_limit || v->foreign || (v->traits.window && mode->stops))
    return false;
  return v->traits.expansion ||
         (!v->traits.window && v->count <= v->capacity && v->capacity - v->count >= (uint64_t) n);
}

/* Adds a single item, if nothing hangs on whether this server obeys another one; to ask for that
 * takes the time of half an add.  False: it does. */
static bool add_at_once(server_ctx *ctx, struct value *v, const tamis_key *item,
                        const struct add_mode *mode, int *result)
{
  const uint32_t watched = is_watched(v);
  if (v->foreign || v->at_limit || v->unwatched < watched)
    return false;
  v->unwatched -= watched;
  *result = add_one(v, item, mode, false);
  if (*result == TAMIS_EFULL && must_obey(ctx))
    *result = add_one_obeying(v, item, mode);
  v->count += *result == TAMIS_OK;
  return true;
}

/* Of items that have room. */
static void add_many(struct value *v, const tamis_key *items, size_t n, const struct add_mode *mode,
                     int *results)
{
  if (mode->ends && mode->unique)
    (void) tamis_add_unique_for_many(v->filter, items, n, mode->periods, results);
  else if (mode->ends)
    (void) tamis_add_for_many(v->filter, items, n, mode->periods, results);
  else if (mode->unique)
    (void) tamis_add_unique_many(v->filter, items, n, results);
  else
    (void) tamis_add_many(v->filter, items, n, results);
}

static int add_batch(server_ctx *ctx, struct value *v, const tamis_key *items, int n,
                     const struct add_mode *mode, int *results)
{
  bool obeys = must_obey(ctx);
  if (obeys)
    v->at_limit = false;
  else
    watch_limit(v, n);
  if (n > 1 && !obeys && have_room(v, n, mode)) {
    add_many(v, items, (size_t) n, mode, results);
    for (int i = 0; i < n; i++)
      v->count += results[i] == TAMIS_OK;
    return n;
  }
  for (int i = 0; i < n; i++) {
    results[i] = obeys ? add_one_obeying(v, &items[i], mode) : add_one(v, &items[i], mode, false);
    v->count += results[i] == TAMIS_OK;
    if (results[i] < 0 && mode->stops)
      return i + 1;
  }
  return n;
}

/* A unique add is replicated as a plain one: it was decided here that the item is new.  But if it
 * renews items that are in, a plain one would add a copy of them.  Seconds go as periods, since a
 * replica has no clock. */
static void replicate(server_ctx *ctx, server_string *key, const struct value *v,
                      server_string **items, size_t n, const struct add_mode *mode)
{
  const bool renews = mode->unique && v->traits.renews;
  const char *insert = v->kind != TAMIS_CUCKOO ? "TAMIS.BF.INSERT"
                       : renews                ? "TAMIS.CF.INSERTNX"
                                               : "TAMIS.CF.INSERT";
  if (mode->ends)
    server.Replicate(ctx, command_name(v->kind, insert), "scclcv", key, "NOCREATE", "PERIODS",
                     (long long) mode->periods, "ITEMS", items, n);
  else if (v->kind == TAMIS_CUCKOO && n == 1)
    server.Replicate(ctx, command_name(v->kind, renews ? "TAMIS.CF.ADDNX" : "TAMIS.CF.ADD"), "ss",
                     key, items[0]);
  else if (v->kind == TAMIS_CUCKOO)
    server.Replicate(ctx, command_name(v->kind, insert), "sccv", key, "NOCREATE", "ITEMS", items,
                     n);
  else if (n == 1)
    server.Replicate(ctx, command_name(v->kind, "TAMIS.BF.ADD"), "ss", key, items[0]);
  else
    server.Replicate(ctx, command_name(v->kind, "TAMIS.BF.MADD"), "sv", key, items, n);
}

/* valkey-bloom's names, as RedisBloom has no events.  Of a cuckoo filter, CF.INSERT has its own;
 * that does not stop. */
static const char *event_of(tamis_kind kind, bool stops)
{
  if (kind == TAMIS_CUCKOO)
    return stops ? "cuckoo.add" : "cuckoo.insert";
  return "bloom.add";
}

static bool has_changed(const struct value *v, int result)
{
  return result == TAMIS_OK || (result == TAMIS_PRESENT && v->traits.renews);
}

/* Most commands add one item. */
static void add_item(server_ctx *ctx, server_string *key, struct value *v, server_string **item,
                     const struct add_mode *mode, int *result)
{
  const tamis_key only = item_of(*item);
  if (!add_at_once(ctx, v, &only, mode, result))
    (void) add_batch(ctx, v, &only, 1, mode, result);
  figures_note_adds(v, result, 1);
  if (!has_changed(v, *result))
    return;
  if (mode->verbatim)
    server.ReplicateVerbatim(ctx);
  else
    replicate(ctx, key, v, item, 1, mode);
  key_changed(ctx, key, event_of(v->kind, mode->stops));
}

/* A command that the server has to make takes more of its time than a filter takes for an add. */
int add_items(server_ctx *ctx, server_string *key, struct value *v, server_string **items, int n,
              const struct add_mode *mode, int *results)
{
  if (n == 1) {
    add_item(ctx, key, v, items, mode, results);
    return 1;
  }
  tamis_key keys[ADD_BATCH];
  server_string *added[ADD_BATCH];
  size_t n_added = 0;
  for (int i = 0; i < n; i++)
    keys[i] = item_of(items[i]);
  int tried = add_batch(ctx, v, keys, n, mode, results);
  figures_note_adds(v, results, tried);
  for (int i = 0; i < tried; i++)
    if (has_changed(v, results[i]))
      added[n_added++] = items[i];
  if (n_added) {
    if (mode->verbatim && n_added == (size_t) n)
      server.ReplicateVerbatim(ctx);
    else
      replicate(ctx, key, v, added, n_added, mode);
    key_changed(ctx, key, event_of(v->kind, mode->stops));
  }
  return tried;
}

const char *add_error(const struct value *v, int result)
{
  if (result != TAMIS_EFULL)
    return result == TAMIS_ENOMEM ? "ERR Insufficient memory" : "ERR problem inserting into filter";
  if (v->foreign && v->kind == TAMIS_CUCKOO && v->traits.expansion &&
      v->foreign->layers >= (size_t) settings.cf_max_expansions)
    return "ERR Maximum expansions reached";
  if (v->kind == TAMIS_CUCKOO)
    return v->traits.expansion
               ? "ERR Filter is full: it has reached the most bytes that it may take"
               : "ERR Filter is full";
  return v->traits.expansion
             ? "ERR the filter is full: it has reached the most bytes that it may take"
             : "ERR non scaling filter is full";
}
