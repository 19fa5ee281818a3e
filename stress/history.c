/* SPDX-License-Identifier: MIT */
#include "history.h"

#include "tamis/tamis.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a call did to the copies, or what it found out about them. */
enum effect {
  ADD,
  WIN, /* an add that found no copy */
  REMOVE,
  CHANGES, /* the effects above change the number of copies */
  FOUND_SOME = CHANGES,
  FOUND_NONE,
  COUNTED, /* so many copies as the call's result */
  NO_EFFECT,
  EFFECTS
};

static enum effect effect_of(const struct history_op *op)
{
  if (op->result < 0)
    return NO_EFFECT;
  switch (op->call) {
  case HISTORY_ADD:
    return ADD;
  case HISTORY_ADD_UNIQUE:
    return op->result == TAMIS_OK ? WIN : FOUND_SOME;
  case HISTORY_CONTAINS:
    return op->result ? FOUND_SOME : FOUND_NONE;
  case HISTORY_COUNT:
    return COUNTED;
  default:
    return op->result == TAMIS_OK ? REMOVE : FOUND_NONE;
  }
}

/* ---- memory ---- */

struct event {
  uint64_t time;
  uint32_t op;
  bool returns;
};

/* A set of pending calls: bit i is the call at index i of the pending ones. */
typedef uint64_t call_set;

enum { MAX_SETS = 1 << 20, FIRST_SETS = 1 << 8 };

/* Distinct sets in the order of their insertion, and a hash table that finds them. */
struct sets {
  call_set *all;
  uint32_t *table; /* index + 1; 0: free */
  size_t n, room;  /* the table has twice as many slots */
};

struct history_checker {
  struct event *events;
  size_t events_room;
  struct sets current, reached;  /* the possible sets; those that advance() reaches from them */
  struct history_copies *copies; /* NULL, or what was possible at each event */
  /* The pending calls, by index. */
  uint64_t returned[HISTORY_MOST_PENDING];
  uint32_t op[HISTORY_MOST_PENDING];
  uint64_t counted[HISTORY_MOST_PENDING]; /* the answers of those that count */
  call_set used;                          /* the indices of pending calls */
  call_set with[EFFECTS];
  uint64_t base; /* copies if none of the pending calls has taken effect */
  struct history_verdict verdict;
};

static bool sets_resize(struct sets *sets, size_t room)
{
  call_set *all = realloc(sets->all, room * sizeof *all);
  if (all)
    sets->all = all;
  uint32_t *table = calloc(2 * room, sizeof *table);
  if (!all || !table) {
    free(table);
    return false;
  }
  free(sets->table);
  sets->table = table;
  sets->room = room;
  return true;
}

static uint32_t *sets_find(const struct sets *sets, call_set set)
{
  size_t mask = 2 * sets->room - 1;
  size_t i = (size_t) (set * UINT64_C(0x9E3779B97F4A7C15) >> 32) & mask;
  while (sets->table[i] && sets->all[sets->table[i] - 1] != set)
    i = (i + 1) & mask;
  return &sets->table[i];
}

static void sets_clear(struct sets *sets)
{
  /* The last one first, so that no other set's probe sequence is cut before the set is removed. */
  for (size_t i = 0; i < sets->n; i++)
    *sets_find(sets, sets->all[sets->n - 1 - i]) = 0;
  sets->n = 0;
}

/* False: no memory, or too many sets. */
static bool sets_add(struct sets *sets, call_set set)
{
  if (*sets_find(sets, set))
    return true;
  if (sets->n == sets->room) {
    if (sets->room == MAX_SETS || !sets_resize(sets, sets->room ? 2 * sets->room : FIRST_SETS))
      return false;
    for (uint32_t i = 0; i < sets->n; i++)
      *sets_find(sets, sets->all[i]) = i + 1;
  }
  sets->all[sets->n] = set;
  *sets_find(sets, set) = (uint32_t) ++sets->n;
  return true;
}

struct history_checker *history_checker_create(void)
{
  struct history_checker *c = calloc(1, sizeof *c);
  if (c && sets_resize(&c->current, FIRST_SETS) && sets_resize(&c->reached, FIRST_SETS))
    return c;
  history_checker_destroy(c);
  return NULL;
}

void history_checker_destroy(struct history_checker *c)
{
  if (!c)
    return;
  free(c->current.all);
  free(c->current.table);
  free(c->reached.all);
  free(c->reached.table);
  free(c->events);
  free(c);
}

/* ---- events ---- */

static int compare_events(const void *a, const void *b)
{
  uint64_t x = ((const struct event *) a)->time, y = ((const struct event *) b)->time;
  return (x > y) - (x < y);
}

/* Sorts invocations and returns by time; a return at stamp t comes after the invocations at t.
 * Returns the number of events. */
static size_t sort_events(struct history_checker *c, const struct history *h)
{
  if (c->events_room < 2 * h->n) {
    free(c->events);
    c->events_room = 4 * h->n;
    c->events = malloc(c->events_room * sizeof *c->events);
    if (!c->events) {
      c->events_room = 0;
      c->verdict.why = "no memory";
      return 0;
    }
  }
  size_t n = 0;
  for (uint32_t i = 0; i < h->n; i++)
    if (effect_of(&h->ops[i]) != NO_EFFECT) {
      c->events[n++] = (struct event){2 * h->ops[i].invoked, i, false};
      c->events[n++] = (struct event){2 * h->ops[i].returned + 1, i, true};
    }
  if (n)
    qsort(c->events, n, sizeof *c->events, compare_events);
  return n;
}

/* ---- the search ---- */

static uint64_t copies_with(const struct history_checker *c, call_set set)
{
  call_set more = set & (c->with[ADD] | c->with[WIN]), less = set & c->with[REMOVE];
  return c->base + (unsigned) __builtin_popcountll(more) - (unsigned) __builtin_popcountll(less);
}

/* The set, extended by the calls that only read and can take effect now. */
static call_set with_reads(const struct history_checker *c, call_set set)
{
  uint64_t copies = copies_with(c, set);
  set |= c->with[copies ? FOUND_SOME : FOUND_NONE];
  for (call_set rest = c->with[COUNTED] & ~set; rest; rest &= rest - 1)
    if (c->counted[__builtin_ctzll(rest)] == copies)
      set |= rest & -rest;
  return set;
}

static bool possible(enum effect effect, uint64_t copies)
{
  return effect == ADD || (effect == WIN) == (copies == 0);
}

/* Of the pending calls with this effect that are not in the set, the one that returns first.  0:
 * there is none. */
static call_set first_to_return(const struct history_checker *c, enum effect effect, call_set set)
{
  call_set first = 0;
  uint64_t least = UINT64_MAX;
  for (call_set rest = c->with[effect] & ~set; rest; rest &= rest - 1) {
    unsigned i = (unsigned) __builtin_ctzll(rest);
    if (!first || c->returned[i] < least) {
      first = rest & -rest;
      least = c->returned[i];
    }
  }
  return first;
}

static void note_copies(struct history_copies *range, uint64_t copies)
{
  range->least = copies < range->least ? copies : range->least;
  range->most = copies > range->most ? copies : range->most;
}

/* Adds every set that one more call makes of this one. */
static bool extend(struct history_checker *c, call_set set)
{
  uint64_t copies = copies_with(c, set);
  for (enum effect effect = 0; effect < CHANGES; effect++) {
    call_set next = possible(effect, copies) ? first_to_return(c, effect, set) : 0;
    if (next && !sets_add(&c->reached, with_reads(c, set | next)))
      return false;
  }
  return true;
}

/* Extends the possible sets until the call `returning` has taken effect in each: c->reached gets
 * all sets on the way, and c->current those with this call. */
static bool advance(struct history_checker *c, call_set returning, struct history_copies *range)
{
  *range = (struct history_copies){UINT64_MAX, 0};
  sets_clear(&c->reached);
  for (size_t i = 0; i < c->current.n; i++) {
    call_set set = c->current.all[i];
    if (!sets_add(&c->reached, set & returning ? set : with_reads(c, set)))
      return false;
  }
  sets_clear(&c->current);
  for (size_t i = 0; i < c->reached.n; i++) {
    call_set set = c->reached.all[i];
    note_copies(range, copies_with(c, set));
    if (!(set & returning ? sets_add(&c->current, set & ~returning) : extend(c, set)))
      return false;
  }
  return true;
}

static bool invoke(struct history_checker *c, const struct history_op *op, uint32_t index)
{
  if (!~c->used)
    return false;
  unsigned i = (unsigned) __builtin_ctzll(~c->used);
  c->verdict.overlapping += c->used != 0;
  c->used |= UINT64_C(1) << i;
  c->with[effect_of(op)] |= UINT64_C(1) << i;
  c->returned[i] = op->returned;
  c->op[i] = index;
  c->counted[i] = (uint64_t) op->result;
  return true;
}

static call_set pending_call(const struct history_checker *c, uint32_t index)
{
  call_set rest = c->used;
  while (c->op[__builtin_ctzll(rest)] != index)
    rest &= rest - 1;
  return rest & -rest;
}

/* Moves the effect of a call that has returned into c->base. */
static void apply(struct history_checker *c, enum effect effect, call_set call)
{
  c->used &= ~call;
  c->with[effect] &= ~call;
  c->base += effect == ADD || effect == WIN;
  c->base -= effect == REMOVE;
}

/* Processes one event.  False: the search ends here, and the verdict says why. */
static bool step(struct history_checker *c, const struct history *h, size_t event)
{
  uint32_t index = c->events[event].op;
  const struct history_op *op = &h->ops[index];
  if (!c->events[event].returns) {
    if (invoke(c, op, index))
      return true;
    c->verdict.why = "too many calls are pending";
    return false;
  }
  call_set call = pending_call(c, index);
  struct history_copies range;
  if (!advance(c, call, &range)) {
    c->verdict.why = "the search needs too much memory";
    return false;
  }
  if (c->copies)
    c->copies[event] = range;
  if (c->current.n == 0) {
    c->verdict.stuck = index;
    c->verdict.copies = range;
    return false;
  }
  if (c->current.n > c->verdict.most_sets)
    c->verdict.most_sets = c->current.n;
  apply(c, effect_of(op), call);
  return true;
}

struct history_verdict history_check(struct history_checker *c, const struct history *h)
{
  c->verdict = (struct history_verdict){.most_sets = 1};
  c->used = 0;
  memset(c->with, 0, sizeof c->with);
  c->base = h->copies;
  sets_clear(&c->current);
  sets_add(&c->current, 0);
  size_t n = sort_events(c, h), i = 0;
  while (i < n && step(c, h, i))
    i++;
  c->verdict.good = i == n && !c->verdict.why;
  return c->verdict;
}

uint64_t history_copies_after(const struct history *h)
{
  uint64_t copies = h->copies;
  for (size_t i = 0; i < h->n; i++) {
    enum effect effect = effect_of(&h->ops[i]);
    copies += effect == ADD || effect == WIN;
    copies -= effect == REMOVE;
  }
  return copies;
}

/* ---- printing ---- */

enum { EVENTS_BEFORE = 44, EVENTS_AFTER = 8, RESULT_BYTES = 12 };

static const char *result_name(const struct history_op *op, char number[RESULT_BYTES])
{
  static const char *const contains[] = {"false", "true"};
  snprintf(number, RESULT_BYTES, "%" PRId32, op->result);
  return op->call == HISTORY_CONTAINS  ? contains[op->result != 0]
         : op->call == HISTORY_COUNT   ? number
         : op->result == TAMIS_OK      ? "OK"
         : op->result == TAMIS_PRESENT ? "PRESENT"
         : op->result == TAMIS_ABSENT  ? "ABSENT"
                                       : "failed";
}

/* The events that are printed, one in each column. */
struct window {
  size_t begin, end, stuck;
};

static void print_bar(FILE *out, const struct history_checker *c, const struct window *w,
                      uint32_t op)
{
  size_t from = w->begin, to = w->end; /* of the call, within the window */
  bool began = false, ended = false;
  for (size_t i = w->begin; i < w->end; i++)
    if (c->events[i].op == op) {
      *(c->events[i].returns ? &to : &from) = i;
      *(c->events[i].returns ? &ended : &began) = true;
    }
  for (size_t i = w->begin; i < w->end; i++)
    fputc(i == from && began ? '|' : i == to && ended ? '|' : i < from || i > to ? ' ' : '-', out);
}

/* Prints the line of one call. */
static void print_call(FILE *out, const struct history_checker *c, const struct history *h,
                       const struct window *w, size_t event)
{
  static const char *const names[] = {"add", "add_unique", "contains", "remove", "count"};
  char number[RESULT_BYTES];
  uint32_t index = c->events[event].op;
  const struct history_op *op = &h->ops[index];
  fprintf(out, "%6u  %-10s  %-7s  ", op->thread, names[op->call], result_name(op, number));
  print_bar(out, c, w, index);
  if (index == c->events[w->stuck].op)
    fprintf(out, "  <== no instant fits");
  fputc('\n', out);
}

static bool printed_before(const struct history_checker *c, const struct window *w, size_t event)
{
  for (size_t i = w->begin; i < event; i++)
    if (c->events[i].op == c->events[event].op)
      return true;
  return false;
}

/* Prints the calls that began before the window and end after it. */
static void print_long_calls(FILE *out, const struct history_checker *c, const struct history *h,
                             const struct window *w)
{
  for (size_t i = 0; i < w->begin; i++) {
    bool ends_later = !c->events[i].returns;
    for (size_t j = i + 1; j < w->end && ends_later; j++)
      ends_later = c->events[j].op != c->events[i].op;
    if (ends_later)
      print_call(out, c, h, w, i);
  }
}

/* Prints, below each return, the fewest or the most copies that were possible then; 9 stands for
 * more. */
static void print_copies(FILE *out, const struct history_checker *c, const struct window *w,
                         bool most)
{
  fprintf(out, "%27s  ", most ? "most copies" : "fewest copies");
  for (size_t i = w->begin; i <= w->stuck; i++) {
    uint64_t copies = most ? c->copies[i].most : c->copies[i].least;
    fputc(!c->events[i].returns ? ' ' : copies > 9 ? '9' : (char) ('0' + copies), out);
  }
  fputc('\n', out);
}

static size_t find_event(const struct history_checker *c, size_t op)
{
  size_t i = 0;
  while (c->events[i].op != op || !c->events[i].returns)
    i++;
  return i;
}

static void print_window(FILE *out, const struct history_checker *c, const struct history *h,
                         size_t events)
{
  struct window w = {.stuck = find_event(c, c->verdict.stuck)};
  w.begin = w.stuck > EVENTS_BEFORE ? w.stuck - EVENTS_BEFORE : 0;
  w.end = events - w.stuck > EVENTS_AFTER ? w.stuck + EVENTS_AFTER : events;
  fprintf(out, "thread  call        result   time: a column is a call (|-) or a return (-|)\n");
  print_long_calls(out, c, h, &w);
  for (size_t i = w.begin; i < w.end; i++)
    if (!printed_before(c, &w, i))
      print_call(out, c, h, &w, i);
  print_copies(out, c, &w, false);
  print_copies(out, c, &w, true);
}

void history_explain(FILE *out, struct history_checker *c, const struct history *h)
{
  c->copies = calloc(2 * h->n + 1, sizeof *c->copies);
  struct history_verdict verdict = history_check(c, h);
  size_t events = 0;
  for (size_t i = 0; i < h->n; i++)
    events += effect_of(&h->ops[i]) == NO_EFFECT ? 0 : 2;
  if (verdict.good) {
    fprintf(out, "the history is linearizable\n");
  } else if (verdict.why) {
    fprintf(out, "the history was not judged: %s\n", verdict.why);
  } else {
    if (c->copies)
      print_window(out, c, h, events);
    fprintf(out,
            "%zu calls, %" PRIu64
            " copies at first; when the marked call returned, the calls so far "
            "allow %" PRIu64 " to %" PRIu64 " copies\n",
            h->n, h->copies, verdict.copies.least, verdict.copies.most);
  }
  free(c->copies);
  c->copies = NULL;
}
