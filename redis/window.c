/* SPDX-License-Identifier: MIT */
#include "window.h"

#include "commands.h"
#include "keys.h"
#include "settings.h"

/* The next period may begin `every` from now on, and must be possible, too. */
bool window_is_possible(const struct traits *t)
{
  bool none = !t->window && !t->renews && !t->every && !t->next;
  return none || (t->window && t->window <= MOST_PERIODS && t->every <= INT64_MAX / 4 &&
                  t->next <= INT64_MAX / 2 && (t->every || !t->next));
}

/* All periods that are over end by one call, which is not as long as a call for each.  After one more
 * than the window has, nothing is left to forget. */
static void advance(struct value *v, uint64_t periods)
{
  const uint64_t end_of_numbers = UINT64_C(1) << 36;
  uint64_t period = value_stats(v).period;
  if (periods > v->traits.window + 1U)
    periods = v->traits.window + 1U;
  if (period + periods >= end_of_numbers) {
    period = 0;
    (void) tamis_set_period(v->filter, period);
  }
  (void) tamis_advance_to(v->filter, period + periods);
  v->count = value_stats(v).count;
}

static void replicate(server_ctx *ctx, server_string *key, const struct value *v, uint64_t periods)
{
  const bool cuckoo = v->kind == TAMIS_CUCKOO;
  server.Replicate(ctx, command_name(v->kind, cuckoo ? "TAMIS.CF.ADVANCE" : "TAMIS.BF.ADVANCE"),
                   "slcl", key, (long long) periods, "NEXT", (long long) v->traits.next);
  key_changed(ctx, key, cuckoo ? "cuckoo.advance" : "bloom.advance");
}

/* When the clock has gone back, the running period lasts a whole one from now on: it must not last until
 * the clock is where it was, which may be never. */
void window_tick(server_ctx *ctx, server_string *key, struct value *v)
{
  struct traits *t = &v->traits;
  uint64_t periods = 0;
  if (!t->window || !t->every)
    return;
  const uint64_t now = (uint64_t) server.Milliseconds();
  const bool went_back = t->next > now + t->every;
  if ((now < t->next && !went_back) || must_obey(ctx))
    return;
  if (went_back) {
    t->next = now + t->every;
  } else {
    periods = 1 + (now - t->next) / t->every;
    t->next += periods * t->every;
    if (periods > t->window + 1U)
      periods = t->window + 1U;
    advance(v, periods);
  }
  replicate(ctx, key, v, periods);
}

const char *window_refuses(const struct traits *t, const struct life *life)
{
  if (!life->ends)
    return NULL;
  if (!t->window)
    return "ERR the filter has no window";
  if (life->seconds && !t->every)
    return "ERR the filter's window has no EVERY: say PERIODS";
  const uint64_t periods =
      life->seconds ? (life->seconds * 1000 - 1) / t->every + 1 : life->periods;
  return periods <= t->window ? NULL : "ERR the filter's window is shorter";
}

/* Where another server's clock ends the periods, the last one that it has ended may be late. */
unsigned window_periods_of(const struct traits *t, const struct life *life)
{
  uint64_t periods = life->periods;
  if (life->seconds) {
    const uint64_t end = (uint64_t) server.Milliseconds() + life->seconds * 1000;
    periods = end > t->next ? (end - t->next - 1) / t->every + 1 : 0;
  }
  return (unsigned) (periods < t->window ? periods : t->window);
}

/* ADVANCE key [periods [NEXT milliseconds]]; NEXT is what a clock has said, and then there may be no
 * period that ends. */
int command_advance(server_ctx *ctx, tamis_kind kind, server_string **argv, int argc)
{
  struct value *v;
  long long periods = 1, next = -1;
  if (argc == 4 || argc > 5)
    return server.WrongArity(ctx);
  if (argc > 2 &&
      (server.StringToLongLong(argv[2], &periods) != SERVER_OK || periods < (argc == 3)))
    return server.ReplyWithError(ctx, "ERR bad number of periods");
  if (argc > 3 &&
      (!word_is(argv[3], "NEXT") || server.StringToLongLong(argv[4], &next) != SERVER_OK ||
       next < 0 || next > INT64_MAX / 2))
    return server.ReplyWithError(ctx, "ERR Unknown argument received");
  enum key_state state = key_find(ctx, argv[1], KEY_READ | KEY_WRITE, kind, &v);
  if (state != KEY_WHOLE)
    return reply_state(ctx, state);
  if (!v->traits.window)
    return server.ReplyWithError(ctx, "ERR the filter has no window");
  if (next >= 0 && v->traits.every)
    v->traits.next = (uint64_t) next;
  if (periods)
    advance(v, (uint64_t) periods);
  replicate(ctx, argv[1], v, (uint64_t) periods);
  return server.ReplyWithSimpleString(ctx, "OK");
}
