/* SPDX-License-Identifier: MIT */
#include "history.h"

#include "tamis/tamis.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a call did to the copies, or what it found out about them. */
enum effect {
  ADD,
  WIN,   /* an add that found no copy */
  RENEW, /* by a unique add that has found one */
  REMOVE,
  ADVANCE,
  AGAIN,   /* of one of the first three, later in the same call: the age is 0 again */
  KEEP,    /* in place of ADD: what was forgotten meanwhile is there again, and a copy more */
  CHANGES, /* the effects above change the copies */
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
  case HISTORY_ADVANCE:
    return ADVANCE;
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

struct point {
  call_set done;
  uint64_t copies, age; /* without copies the age is 0 */
  /* Copies that the last advance has forgotten, and the calls that had begun before and may bring
   * them back.  Without the ones there are none of the others. */
  uint64_t lost;
  call_set keepers;
};

enum { MAX_POINTS = 1 << 20, FIRST_POINTS = 1 << 8 };

/* Distinct points in the order of their insertion, and a hash table that finds them. */
struct points {
  struct point *all;
  uint32_t *table; /* index + 1; 0: free */
  size_t n, room;  /* the table has twice as many slots */
};

struct history_checker {
  const struct history *history;
  struct event *events;
  size_t events_room;
  struct points current, reached; /* the possible ones; those that advance() reaches from them */
  struct history_copies *copies;  /* NULL, or what was possible at each event */
  /* The pending calls, by index. */
  uint64_t returned[HISTORY_MOST_PENDING];
  uint32_t op[HISTORY_MOST_PENDING];
  uint64_t counted[HISTORY_MOST_PENDING]; /* the answers of those that count */
  call_set first[HISTORY_MOST_PENDING];   /* what must be done before, of the same call */
  call_set used;                          /* the indices of pending calls */
  call_set with[EFFECTS];
  struct history_verdict verdict;
};

static bool points_resize(struct points *points, size_t room)
{
  struct point *all = realloc(points->all, room * sizeof *all);
  if (all)
    points->all = all;
  uint32_t *table = calloc(2 * room, sizeof *table);
  if (!all || !table) {
    free(table);
    return false;
  }
  free(points->table);
  points->table = table;
  points->room = room;
  return true;
}

static uint32_t *points_find(const struct points *points, struct point point)
{
  uint64_t hash =
      (point.done + point.copies * 31 + point.age * 37 + point.lost * 41 + point.keepers) *
      UINT64_C(0x9E3779B97F4A7C15);
  size_t mask = 2 * points->room - 1, i = (size_t) (hash >> 32) & mask;
  for (; points->table[i]; i = (i + 1) & mask) {
    const struct point *other = &points->all[points->table[i] - 1];
    if (other->done == point.done && other->copies == point.copies && other->age == point.age &&
        other->lost == point.lost && other->keepers == point.keepers)
      break;
  }
  return &points->table[i];
}

static void points_clear(struct points *points)
{
  /* The last one first, so that no other one's probe sequence is cut before it is removed. */
  for (size_t i = 0; i < points->n; i++)
    *points_find(points, points->all[points->n - 1 - i]) = 0;
  points->n = 0;
}

/* False: no memory, or too many points. */
static bool points_add(struct points *points, struct point point)
{
  if (*points_find(points, point))
    return true;
  if (points->n == points->room) {
    if (points->room == MAX_POINTS || !points_resize(points, 2 * points->room))
      return false;
    for (uint32_t i = 0; i < points->n; i++)
      *points_find(points, points->all[i]) = i + 1;
  }
  points->all[points->n] = point;
  *points_find(points, point) = (uint32_t) ++points->n;
  return true;
}

struct history_checker *history_checker_create(void)
{
  struct history_checker *c = calloc(1, sizeof *c);
  if (c && points_resize(&c->current, FIRST_POINTS) && points_resize(&c->reached, FIRST_POINTS))
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

/* The pending calls that may bring back what is forgotten now: those that are adding the key, or
 * have found it and will renew it.  (Where a key has one copy, an add needs nothing of what was
 * there.) */
static call_set keepers(const struct history_checker *c, call_set done)
{
  call_set set = c->history->once ? 0 : c->with[ADD] & ~done;
  for (call_set rest = c->with[RENEW] & ~done; rest; rest &= rest - 1)
    if ((c->first[__builtin_ctzll(rest)] & ~done) == 0)
      set |= rest & -rest;
  return set;
}

static struct point advanced(const struct history_checker *c, struct point point)
{
  if (!point.copies || point.age < c->history->window)
    return (struct point){
        .done = point.done, .copies = point.copies, .age = point.copies ? point.age + 1 : 0};
  struct point next = {.done = point.done, .keepers = keepers(c, point.done)};
  next.lost = next.keepers ? point.copies : 0;
  return next;
}

/* Lets a pending call take effect.  False: it cannot now. */
static bool take_effect(const struct history_checker *c, enum effect effect, struct point *point)
{
  uint64_t copies = point->copies;
  if (effect == WIN ? copies > 0 : (effect == REMOVE || effect == AGAIN) && copies == 0)
    return false;
  if (effect == ADVANCE) {
    *point = advanced(c, *point);
    return true;
  }
  struct point next = {.done = point->done, .copies = copies};
  if (effect == ADD || effect == WIN)
    next.copies = c->history->once ? 1 : copies + 1;
  else if (effect == KEEP)
    next.copies = point->lost + 1;
  else if (effect == RENEW && !copies)
    next.copies = point->lost;
  else if (effect == REMOVE) {
    next.copies--;
    next.age = next.copies ? point->age : 0;
  }
  *point = next;
  return true;
}

/* The point, and the calls that only read and can take effect now. */
static struct point with_reads(const struct history_checker *c, struct point point)
{
  point.done |= c->with[point.copies ? FOUND_SOME : FOUND_NONE];
  for (call_set rest = c->with[COUNTED] & ~point.done; rest; rest &= rest - 1)
    if (c->counted[__builtin_ctzll(rest)] == point.copies)
      point.done |= rest & -rest;
  return point;
}

/* The pending calls that can have this effect now. */
static call_set candidates(const struct history_checker *c, enum effect effect,
                           const struct point *from)
{
  if (effect == KEEP)
    return c->with[ADD] & from->keepers;
  if (effect == RENEW && !from->copies)
    return c->with[RENEW] & from->keepers;
  if (effect == AGAIN && !from->age) /* that would change nothing */
    return 0;
  return c->with[effect] & ~from->done;
}

/* Of these, the one that returns first.  0: there is none. */
static call_set first_to_return(const struct history_checker *c, call_set calls, call_set done)
{
  call_set first = 0;
  uint64_t least = UINT64_MAX;
  for (call_set rest = calls; rest; rest &= rest - 1) {
    unsigned i = (unsigned) __builtin_ctzll(rest);
    if ((c->first[i] & ~done) == 0 && (!first || c->returned[i] < least)) {
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

/* Adds every point that one more call leads to. */
static bool extend(struct history_checker *c, const struct point *from)
{
  for (enum effect effect = 0; effect < CHANGES; effect++) {
    call_set call = first_to_return(c, candidates(c, effect, from), from->done);
    struct point next = *from;
    next.done |= call;
    if (call && take_effect(c, effect, &next) && !points_add(&c->reached, with_reads(c, next)))
      return false;
  }
  return true;
}

/* Extends the possible points until the call `returning` is done in each: c->reached gets all
 * points on the way, and c->current those with this call.  `again` is 0, or the index at which it
 * may make the age 0 once more: then also the points are needed that lead there. */
static bool advance(struct history_checker *c, call_set returning, call_set again,
                    struct history_copies *range)
{
  *range = (struct history_copies){UINT64_MAX, 0};
  points_clear(&c->reached);
  for (size_t i = 0; i < c->current.n; i++) {
    struct point point = c->current.all[i];
    bool done = (point.done & returning) == returning;
    if (!points_add(&c->reached, done ? point : with_reads(c, point)))
      return false;
  }
  points_clear(&c->current);
  for (size_t i = 0; i < c->reached.n; i++) {
    struct point point = c->reached.all[i], without = point;
    bool done = (point.done & returning) == returning;
    note_copies(range, point.copies);
    without.done &= ~(returning | again);
    if (done && !points_add(&c->current, without))
      return false;
    if ((!done || again & ~point.done) && !extend(c, &point))
      return false;
  }
  return true;
}

/* False: there is no index left. */
static bool invoke_effect(struct history_checker *c, const struct history_op *op, uint32_t index,
                          enum effect effect, call_set first)
{
  if (!~c->used)
    return false;
  unsigned i = (unsigned) __builtin_ctzll(~c->used);
  c->used |= UINT64_C(1) << i;
  c->with[effect] |= UINT64_C(1) << i;
  c->returned[i] = op->returned;
  c->op[i] = index;
  c->counted[i] = (uint64_t) op->result;
  c->first[i] = first;
  return true;
}

/* The indices of a pending call. */
static call_set pending_call(const struct history_checker *c, uint32_t index)
{
  call_set call = 0;
  for (call_set rest = c->used; rest; rest &= rest - 1)
    if (c->op[__builtin_ctzll(rest)] == index)
      call |= rest & -rest;
  return call;
}

static bool invoke(struct history_checker *c, const struct history_op *op, uint32_t index)
{
  enum effect effect = effect_of(op);
  bool renews = c->history->renews && op->call == HISTORY_ADD_UNIQUE && effect == FOUND_SOME;
  bool again = c->history->window && (effect == ADD || effect == WIN || renews);
  c->verdict.overlapping += c->used != 0;
  return invoke_effect(c, op, index, effect, 0) &&
         (!renews || invoke_effect(c, op, index, RENEW, pending_call(c, index))) &&
         (!again || invoke_effect(c, op, index, AGAIN, pending_call(c, index)));
}

/* Processes one event.  False: the search ends here, and the verdict says why. */
static bool step(struct history_checker *c, size_t event)
{
  uint32_t index = c->events[event].op;
  const struct history_op *op = &c->history->ops[index];
  if (!c->events[event].returns) {
    if (invoke(c, op, index))
      return true;
    c->verdict.why = "too many calls are pending";
    return false;
  }
  call_set call = pending_call(c, index), again = call & c->with[AGAIN];
  if (!advance(c, call & ~again, again, &c->verdict.copies)) {
    c->verdict.why = "the search needs too much memory";
    return false;
  }
  if (c->copies)
    c->copies[event] = c->verdict.copies;
  if (c->current.n == 0) {
    c->verdict.stuck = index;
    return false;
  }
  c->used &= ~call;
  for (enum effect effect = 0; effect < EFFECTS; effect++)
    c->with[effect] &= ~call;
  return true;
}

struct history_verdict history_check(struct history_checker *c, const struct history *h)
{
  c->verdict = (struct history_verdict){0};
  c->history = h;
  c->used = 0;
  memset(c->with, 0, sizeof c->with);
  points_clear(&c->current);
  points_add(&c->current, (struct point){.copies = h->copies});
  size_t n = sort_events(c, h), i = 0;
  while (i < n && step(c, i))
    i++;
  c->verdict.good = i == n && !c->verdict.why;
  if (c->verdict.good)
    c->verdict.copies = (struct history_copies){UINT64_MAX, 0};
  for (size_t k = 0; k < c->current.n && c->verdict.good; k++)
    note_copies(&c->verdict.copies, c->current.all[k].copies);
  return c->verdict;
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
  static const char *const names[] = {"add",    "add_unique", "contains",
                                      "remove", "count",      "advance"};
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
