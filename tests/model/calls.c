/* SPDX-License-Identifier: MIT
 *
 * The calls of a shape: made by its threads, and then judged by one oracle.
 *
 * To the oracle a filter is a number of copies of each key.  It tries all orders of the calls that keep the
 * order of each thread, until one gives all answers, and leaves what the filter has in the end.
 */
#include "fixture.h"

#include <ctype.h>
#include <stdlib.h>

enum { MOST_CALLS = 6, NAMES = 4 /* w, x, y, z */, NONE = NAMES };

/* ---- what is called ---- */

enum effect { NO_EFFECT, ADD, UNIQUE, REMOVE, HAS, COUNT };

/* Adds a key of a window until the running period ends. */
static int brief(uint64_t hash)
{
  return tamis_add_for_hash(t.filter, hash, 0);
}

static int has(uint64_t hash)
{
  return contains(hash);
}

static int count(uint64_t hash)
{
  return (int) tamis_count_hash(t.filter, hash);
}

/* Looks up x and y in a batch, which finds both pairs before it reads the first one.  The call that follows
 * says what was found of y. */
static bool found[2];

static int batch(uint64_t x)
{
  tamis_contains_many_hash(t.filter, (uint64_t[]){x, t.y}, 2, found);
  return found[0];
}

static int batched(uint64_t y)
{
  (void) y;
  return found[1];
}

static int read_figures(uint64_t unused)
{
  (void) unused;
  figures();
  return TAMIS_OK;
}

static const struct verb {
  const char *name;
  enum effect effect;
  int (*make)(uint64_t argument);
  int (*on_hash)(tamis_filter *f, uint64_t hash); /* in place of make() */
} verbs[] = {
    {"add", ADD, .on_hash = tamis_add_hash},
    {"unique", UNIQUE, .on_hash = tamis_add_unique_hash},
    {"brief", NO_EFFECT, brief},
    {"remove", REMOVE, .on_hash = tamis_remove_hash},
    {"has", HAS, has},
    {"count", COUNT, count},
    {"batch", HAS, batch},
    {"batched", HAS, batched},
    {"figures", NO_EFFECT, read_figures},
    {"move", NO_EFFECT, move_to_and_fro},
    {"push", NO_EFFECT, push},
    {"push_other", NO_EFFECT, push_other},
    {"fold", NO_EFFECT, fold},
    {"save", NO_EFFECT, save},
    {"unite", NO_EFFECT, unite},
    {"open_generation", NO_EFFECT, open_generation},
    {"pass", NO_EFFECT, pass},
    {"refused", NO_EFFECT, refused},
    {"counted", NO_EFFECT, counted},
    {"open_layer", NO_EFFECT, open_layer},
    {"advance", NO_EFFECT, advance},
    {"jump", NO_EFFECT, jump},
    {"push_in_window", NO_EFFECT, push_in_window},
    {"read_counted", NO_EFFECT, model_counted_read},
    {"replace_counted", NO_EFFECT, model_counted_replace},
};

/* ---- the calls of a shape ---- */

static struct call {
  const struct verb *verb;
  unsigned key; /* or NONE */
  uint64_t argument;
  bool may_be_refused;
  int result;
} calls[MODEL_MAX_THREADS][MOST_CALLS];
static unsigned threads, n[MODEL_MAX_THREADS];

static const struct shape *now;

/* What there is at the start. */
static struct start {
  bool named[NAMES];
  unsigned copies[NAMES], stay[MOST_KEYS];
  uint64_t count;
} start;

static uint64_t *key_named(unsigned key)
{
  uint64_t *const keys[NAMES] = {&t.w, &t.x, &t.y, &t.z};
  return keys[key];
}

static bool is_set(void)
{
  return figures().kind == TAMIS_BLOOM;
}

static unsigned copies_of(uint64_t hash)
{
  return is_set() ? contains(hash) : (unsigned) tamis_count_hash(t.filter, hash);
}

static const struct verb *verb_named(const char *name, size_t length)
{
  for (unsigned i = 0; i < sizeof verbs / sizeof *verbs; i++)
    if (strlen(verbs[i].name) == length && !strncmp(verbs[i].name, name, length))
      return &verbs[i];
  expect(false, name);
  return NULL;
}

/* Reads "verb", "verb? x" or "verb 2"; returns what follows. */
static const char *read_call(const char *text, struct call *call)
{
  const size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
  *call = (struct call){.verb = verb_named(text, length), .key = NONE};
  text += length;
  call->may_be_refused = *text == '?';
  text += call->may_be_refused;
  text += strspn(text, " ");
  if (isdigit((unsigned char) *text))
    call->argument = (uint64_t) (*text++ - '0');
  else if (*text >= 'w' && *text <= 'z')
    call->key = (unsigned) (*text++ - 'w');
  if (call->key != NONE)
    call->argument = *key_named(call->key), start.named[call->key] = true;
  return text + strspn(text, " ;");
}

const void *model_set_up_of(void)
{
  return now->of;
}

unsigned model_begin(const struct shape *shape)
{
  memset(&t, 0, sizeof t);
  now = shape;
  shape->set_up();
  memset(&start, 0, sizeof start);
  memset(n, 0, sizeof n);
  threads = 0;
  for (const char *at = shape->calls; *at;) {
    expect(threads < MODEL_MAX_THREADS && n[threads] < MOST_CALLS, "too many calls");
    at = read_call(at, &calls[threads][n[threads]]);
    n[threads]++;
    if (*at == '|') {
      at += 1 + strspn(at + 1, " ");
      threads++;
    }
  }
  if (!t.filter)
    return threads + 1;
  for (unsigned key = 0; key < NAMES; key++)
    start.copies[key] = start.named[key] ? copies_of(*key_named(key)) : 0;
  for (unsigned i = 0; i < t.n; i++)
    start.stay[i] = copies_of(t.in[i]);
  start.count = figures().count;
  describe_filter();
  return threads + 1;
}

void model_run(unsigned thread)
{
  for (unsigned i = 0; i < n[thread]; i++) {
    struct call *call = &calls[thread][i];
    call->result = call->verb->on_hash ? call->verb->on_hash(t.filter, call->argument)
                                       : call->verb->make(call->argument);
  }
}

int answer(unsigned thread, unsigned call)
{
  return calls[thread][call].result;
}

static unsigned unique_adds(int result)
{
  unsigned sum = 0;
  for (unsigned i = 0; i <= threads; i++)
    for (unsigned j = 0; j < n[i]; j++)
      sum += calls[i][j].verb->effect == UNIQUE && calls[i][j].result == result;
  return sum;
}

unsigned winners(void)
{
  return unique_adds(TAMIS_OK);
}

unsigned refusals(void)
{
  return unique_adds(TAMIS_EFULL);
}

/* ---- the oracle ---- */

/* Whether a call may answer this now; if so, it has its effect. */
static bool may_answer(const struct call *call, unsigned copies[NAMES])
{
  unsigned *of_key = call->key == NONE ? NULL : &copies[call->key];
  const bool done = call->result == TAMIS_OK;
  if (call->may_be_refused && call->result < 0)
    return true;
  switch (call->verb->effect) {
  case UNIQUE:
    if (*of_key)
      return call->result == TAMIS_PRESENT;
    /* fallthrough */
  case ADD:
    *of_key = is_set() ? 1 : *of_key + 1;
    return done;
  case REMOVE:
    if (!*of_key)
      return call->result == TAMIS_ABSENT;
    --*of_key;
    return done;
  case HAS:
    return call->result == (*of_key > 0);
  case COUNT:
    return call->result == (int) *of_key;
  default:
    return done || call->may_be_refused;
  }
}

/* What the filter has at the end. */
static unsigned at_end[NAMES];
static uint64_t count_at_end;
static bool counted_twice; /* a key may be, where it has come to two layers */

static bool is_at_end(const unsigned copies[NAMES])
{
  uint64_t sum = start.count;
  bool same = true;
  for (unsigned key = 0; key < NAMES; key++) {
    same &= !start.named[key] || copies[key] == at_end[key];
    sum += (uint64_t) copies[key] - start.copies[key];
  }
  return same && (sum == count_at_end || (counted_twice && sum < count_at_end));
}

/* Whether an order of the calls from done[] on explains everything. */
static bool has_order(const unsigned done[MODEL_MAX_THREADS], const unsigned copies[NAMES])
{
  bool all = true;
  for (unsigned i = 0; i <= threads; i++) {
    unsigned next[MODEL_MAX_THREADS], after[NAMES];
    if (done[i] == n[i])
      continue;
    all = false;
    memcpy(next, done, sizeof next);
    memcpy(after, copies, sizeof after);
    next[i]++;
    if (may_answer(&calls[i][done[i]], after) && has_order(next, after))
      return true;
  }
  return all && is_at_end(copies);
}

static const char *judge_order(void)
{
  const unsigned none[MODEL_MAX_THREADS] = {0};
  for (unsigned i = 0; i < t.n; i++) {
    bool named = false;
    for (unsigned key = 0; key < NAMES; key++)
      named |= start.named[key] && *key_named(key) == t.in[i];
    if (!named && copies_of(t.in[i]) != start.stay[i])
      return "a key that no call names has been lost or doubled";
  }
  for (unsigned key = 0; key < NAMES; key++)
    at_end[key] = start.named[key] ? copies_of(*key_named(key)) : 0;
  count_at_end = figures().count;
  counted_twice = is_set() && figures().layers > 1;
  return has_order(none, start.copies) ? NULL : "no order of the calls explains their answers";
}

static const char *judge_success(void)
{
  for (unsigned i = 0; i <= threads; i++)
    for (unsigned j = 0; j < n[i]; j++) {
      const struct call *call = &calls[i][j];
      const bool judged = call->verb->effect != UNIQUE && call->verb->effect != COUNT;
      if (judged && !call->may_be_refused &&
          call->result != (call->verb->effect == HAS ? 1 : TAMIS_OK))
        return "a call has failed";
    }
  return NULL;
}

const char *model_judge(void)
{
  const char *reason = NULL;
  if (t.filter && !filter_validate(t.filter, &reason))
    return reason;
  reason = now->instead || !t.filter ? judge_success() : judge_order();
  if (!reason && now->instead)
    reason = now->instead();
  return !reason && now->also ? now->also() : reason;
}
