/* SPDX-License-Identifier: MIT
 *
 * MERGE: a filter with the keys of several.  An error adds no key.
 *
 * The union of a Bloom filter with one other is made in place, if it opens no layer: then it fails
 * before it changes anything, or not at all.  In all other cases it may fail half way, so it is
 * made in a copy.
 */
#include "add.h"
#include "commands.h"
#include "image.h"
#include "keys.h"
#include "settings.h"
#include "window.h"

#include <string.h>

static const char *text_of(int result)
{
  switch (result) {
  case TAMIS_EINVAL:
    return "ERR the filters do not fit together: they need the same capacity, rate, EXPANSION 0 or "
           "not, SEED and WINDOW";
  case TAMIS_EUNSUPPORTED:
    return "ERR the filters have no union with the rate that was asked for";
  case TAMIS_EFULL:
    return "ERR the union would have more keys or bytes than the destination may have";
  default:
    return "ERR Insufficient memory";
  }
}

static bool same_name(const server_string *a, const server_string *b)
{
  size_t a_size, b_size;
  const char *a_text = server.StringPtrLen(a, &a_size), *b_text = server.StringPtrLen(b, &b_size);
  return a_size == b_size && memcmp(a_text, b_text, a_size) == 0;
}

/* Adds the sources to a copy of the destination, or of the first source where there is none.  So a
 * merge that fails half way has changed nothing.  A copy of one source grows nowhere else.
 * `obeys`: another server has made this union.  `lifts`: the copy has no limit. */
static int unite(server_ctx *ctx, struct value *to, tamis_kind kind, server_string **argv, int argc,
                 bool obeys, bool lifts, struct value **out)
{
  struct value *from;
  int result, first = 2;
  if (!to)
    (void) key_find(ctx, argv[first++], KEY_READ, kind, &to);
  struct value *united = image_copy(to, 0, &result);
  if (united && lifts)
    result = image_lift_limit(united);
  for (int i = first; i < argc && result == TAMIS_OK; i++) {
    if (same_name(argv[i], argv[1]))
      continue; /* a Bloom filter, whose keys are there */
    (void) key_find(ctx, argv[i], KEY_READ, kind, &from);
    result = tamis_merge(united->filter, from->filter);
  }
  if (result == TAMIS_OK && !obeys && first < argc && is_near_limit(united))
    result = TAMIS_EFULL;
  if (result != TAMIS_OK) {
    value_free(united);
    united = NULL;
  }
  *out = united;
  return result;
}

/* `n`: how many sources there are, of which `from` is the last one. */
static bool is_possible_in_place(const struct value *to, const struct value *from, int n)
{
  return to && n == 1 && to != from && to->kind == TAMIS_BLOOM &&
         value_stats(from).layers <= value_stats(to).layers;
}

int command_merge(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct value *to, *from, *united;
  enum key_state state = key_find(ctx, argv[1], KEY_READ | KEY_WRITE, kind, &to);
  if (state != KEY_WHOLE && state != KEY_EMPTY)
    return reply_state(ctx, state);
  for (int i = 2; i < argc; i++) {
    enum key_state source = key_find(ctx, argv[i], KEY_READ, kind, &from);
    if (source != KEY_WHOLE)
      return reply_state(ctx, source);
    if (from->foreign || (to && to->foreign))
      return server.ReplyWithError(ctx, "ERR a filter that another module wrote has no union with "
                                        "others: its items are not known");
    if (kind == TAMIS_CUCKOO && same_name(argv[i], argv[1]))
      return server.ReplyWithError(ctx,
                                   "ERR the destination must not be among the sources: each of its "
                                   "items would be in twice");
  }
  /* The items of the sources are united with the period in which they are. */
  for (int i = 1; i < argc; i++) {
    struct value *each;
    if (key_find(ctx, argv[i], KEY_READ | KEY_WRITE, kind, &each) == KEY_WHOLE)
      window_tick(ctx, argv[i], each);
  }
  const bool obeys = must_obey(ctx);
  bool in_place = is_possible_in_place(to, from, argc - 2);
  int result = in_place ? tamis_merge(to->filter, from->filter)
                        : unite(ctx, to, kind, argv, argc, obeys, false, &united);
  if (result == TAMIS_EFULL && obeys) { /* as an add: see add_one_obeying() */
    in_place = false;
    result = unite(ctx, to, kind, argv, argc, true, true, &united);
  }
  if (result != TAMIS_OK)
    return server.ReplyWithError(ctx, text_of(result));
  if (!in_place && to)
    value_complete(to, united);
  else if (!in_place)
    key_store(ctx, argv[1], to = united);
  to->count = value_stats(to).count;
  server.ReplicateVerbatim(ctx);
  key_changed(ctx, argv[1], kind == TAMIS_CUCKOO ? "cuckoo.merge" : "bloom.merge");
  return server.ReplyWithSimpleString(ctx, "OK");
}
