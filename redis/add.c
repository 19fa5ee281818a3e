/* SPDX-License-Identifier: MIT */
#include "add.h"

#include "image.h"
#include "keys.h"
#include "settings.h"

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

/* A cuckoo filter that meets its limit may refuse to split where a replica does not, because its
 * bytes depend on when memory comes back; then the two would not answer alike.  So its adds are
 * refused here, before it comes near: at 7/8 of the limit or, if that is small, at 3/4.  A window
 * splits nothing: an add that goes in here goes in on a replica, if need be without the limit. */
static void watch_limit(struct value *v, int n)
{
  enum { STEP = 64 << 10, ADDS = 256 };
  tamis_stats stats = TAMIS_STATS_INIT;
  const uint64_t limit = v->traits.max_bytes, part = limit / 8;
  if (v->kind != TAMIS_CUCKOO || v->traits.window || !v->traits.expansion || !limit)
    return;
  if (v->unwatched < (uint64_t) n) {
    (void) tamis_get_stats(v->filter, &stats);
    v->at_limit = stats.bytes >= limit - part - (part < STEP ? part : STEP);
    v->unwatched = v->at_limit ? 0 : ADDS + v->count / 64;
  }
  v->unwatched -= v->at_limit ? 0 : (uint64_t) n;
}

static int add_one(struct value *v, const tamis_key *item, bool unique)
{
  if (is_full(v))
    return unique && tamis_contains(v->filter, item->data, item->len) ? TAMIS_PRESENT : TAMIS_EFULL;
  return unique ? tamis_add_unique(v->filter, item->data, item->len)
                : tamis_add(v->filter, item->data, item->len);
}

/* What another server has added must go in here, too.  A filter's bytes near its limit depend on
 * when memory came back, so this server may meet the limit where the other one did not. */
static int add_one_obeying(struct value *v, const tamis_key *item, bool unique)
{
  int result = add_one(v, item, unique);
  if (result == TAMIS_EFULL && (v->traits.expansion || v->traits.window) && v->traits.max_bytes &&
      image_lift_limit(v) == TAMIS_OK)
    result = add_one(v, item, unique);
  return result;
}

/* Whether the filter has room for all of these items, so that their order does not matter. */
static bool have_room(const struct value *v, int n)
{
  if (v->at_limit)
    return false;
  return v->traits.expansion ||
         (!v->traits.window && v->count <= v->capacity && v->capacity - v->count >= (uint64_t) n);
}

static int add_batch(server_ctx *ctx, struct value *v, const tamis_key *items, int n, bool unique,
                     bool stops, int *results)
{
  bool obeys = must_obey(ctx);
  if (obeys)
    v->at_limit = false;
  else
    watch_limit(v, n);
  if (n > 1 && !obeys && have_room(v, n)) {
    if (unique)
      (void) tamis_add_unique_many(v->filter, items, (size_t) n, results);
    else
      (void) tamis_add_many(v->filter, items, (size_t) n, results);
    for (int i = 0; i < n; i++)
      v->count += results[i] == TAMIS_OK;
    return n;
  }
  for (int i = 0; i < n; i++) {
    results[i] = obeys ? add_one_obeying(v, &items[i], unique) : add_one(v, &items[i], unique);
    v->count += results[i] == TAMIS_OK;
    if (results[i] < 0 && stops)
      return i + 1;
  }
  return n;
}

/* A unique add is replicated as a plain one: it was decided here that the item is new.  But if it
 * renews items that are in, a plain one would add a copy of them. */
static void replicate(server_ctx *ctx, server_string *key, const struct value *v,
                      server_string **items, size_t n, bool unique)
{
  const bool renews = unique && v->traits.renews;
  if (v->kind == TAMIS_CUCKOO && n == 1)
    server.Replicate(ctx, renews ? "CF.ADDNX" : "CF.ADD", "ss", key, items[0]);
  else if (v->kind == TAMIS_CUCKOO)
    server.Replicate(ctx, renews ? "CF.INSERTNX" : "CF.INSERT", "sccv", key, "NOCREATE", "ITEMS",
                     items, n);
  else if (n == 1)
    server.Replicate(ctx, "BF.ADD", "ss", key, items[0]);
  else
    server.Replicate(ctx, "BF.MADD", "sv", key, items, n);
}

/* valkey-bloom's names, as RedisBloom has no events.  Of a cuckoo filter, CF.INSERT has its own;
 * that does not stop. */
static const char *event_of(tamis_kind kind, bool stops)
{
  if (kind == TAMIS_CUCKOO)
    return stops ? "cuckoo.add" : "cuckoo.insert";
  return "bloom.add";
}

int add_items(server_ctx *ctx, server_string *key, struct value *v, server_string **items, int n,
              bool unique, bool stops, int *results)
{
  tamis_key keys[ADD_BATCH];
  server_string *added[ADD_BATCH];
  size_t n_added = 0;
  for (int i = 0; i < n; i++)
    keys[i] = item_of(items[i]);
  int tried = add_batch(ctx, v, keys, n, unique, stops, results);
  for (int i = 0; i < tried; i++)
    if (results[i] == TAMIS_OK || (results[i] == TAMIS_PRESENT && v->traits.renews))
      added[n_added++] = items[i];
  if (n_added) {
    replicate(ctx, key, v, added, n_added, unique);
    key_changed(ctx, key, event_of(v->kind, stops));
  }
  return tried;
}

const char *add_error(const struct value *v, int result)
{
  if (result != TAMIS_EFULL)
    return result == TAMIS_ENOMEM ? "ERR Insufficient memory" : "ERR problem inserting into filter";
  if (v->kind == TAMIS_CUCKOO)
    return v->traits.expansion
               ? "ERR Filter is full: it has reached the most bytes that it may take"
               : "ERR Filter is full";
  return v->traits.expansion
             ? "ERR the filter is full: it has reached the most bytes that it may take"
             : "ERR non scaling filter is full";
}
