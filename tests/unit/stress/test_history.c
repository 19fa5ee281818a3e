/* SPDX-License-Identifier: MIT
 *
 * The check of histories: good ones pass, and those with one wrong call do not.  For thousands of
 * small random histories it agrees with a search of all orders.
 */
#include "unit.h"

#include "harness.h"
#include "history.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OPS = 7, RANDOM_HISTORIES = 200000 };

#define OP(call, result, invoked, returned) \
  {                                         \
    (invoked), (returned), 0, call, result  \
  }
#define ADD(invoked, returned) OP(HISTORY_ADD, TAMIS_OK, invoked, returned)
#define WIN(invoked, returned) OP(HISTORY_ADD_UNIQUE, TAMIS_OK, invoked, returned)
#define PRESENT(invoked, returned) OP(HISTORY_ADD_UNIQUE, TAMIS_PRESENT, invoked, returned)
#define FOUND(invoked, returned) OP(HISTORY_CONTAINS, 1, invoked, returned)
#define MISSED(invoked, returned) OP(HISTORY_CONTAINS, 0, invoked, returned)
#define REMOVE(invoked, returned) OP(HISTORY_REMOVE, TAMIS_OK, invoked, returned)
#define COUNT(copies, invoked, returned) OP(HISTORY_COUNT, copies, invoked, returned)
#define ABSENT(invoked, returned) OP(HISTORY_REMOVE, TAMIS_ABSENT, invoked, returned)
#define ADVANCE(invoked, returned) OP(HISTORY_ADVANCE, TAMIS_OK, invoked, returned)

static struct history_checker *checker;

static bool is_good(const struct history *h)
{
  struct history_verdict verdict = history_check(checker, h);
  assert_null(verdict.why);
  return verdict.good;
}

static bool good(const struct history_op *ops, size_t n, uint64_t copies)
{
  return is_good(&(struct history){ops, n, copies, false, 0, false});
}

enum window { BLOOM, BLOOM_RENEWS, CUCKOO, CUCKOO_RENEWS };

/* With a window of one period. */
static bool good_in_window(const struct history_op *ops, size_t n, enum window window)
{
  return is_good(&(struct history){ops, n, 0, window < CUCKOO, 1, window % 2});
}

#define GOOD(copies, ...)                                     \
  do {                                                        \
    const struct history_op ops[] = {__VA_ARGS__};            \
    assert_true(good(ops, sizeof ops / sizeof *ops, copies)); \
  } while (0)
#define BAD(copies, ...)                                       \
  do {                                                         \
    const struct history_op ops[] = {__VA_ARGS__};             \
    assert_false(good(ops, sizeof ops / sizeof *ops, copies)); \
  } while (0)
#define WINDOW(expected, window, ...)                                                  \
  do {                                                                                 \
    const struct history_op ops[] = {__VA_ARGS__};                                     \
    assert_int_equal(good_in_window(ops, sizeof ops / sizeof *ops, window), expected); \
  } while (0)

static void one_after_the_other(void **state)
{
  (void) state;
  assert_true(good(NULL, 0, 0));
  GOOD(0, MISSED(0, 1), ADD(2, 3), FOUND(4, 5), REMOVE(6, 7), MISSED(8, 9), ABSENT(10, 11));
  GOOD(0, WIN(0, 1), PRESENT(2, 3), REMOVE(4, 5), WIN(6, 7));
  GOOD(2, REMOVE(0, 1), REMOVE(2, 3), ABSENT(4, 5));
  GOOD(0, ADD(0, 1), ADD(2, 3), REMOVE(4, 5), FOUND(6, 7));
  BAD(0, FOUND(0, 1));
  BAD(1, MISSED(0, 1));
  BAD(0, REMOVE(0, 1));
}

static void a_lost_add(void **state)
{
  (void) state;
  GOOD(0, ADD(0, 5), ADD(1, 4), REMOVE(6, 7), REMOVE(8, 9));
  BAD(0, ADD(0, 5), ADD(1, 4), REMOVE(6, 7), ABSENT(8, 9));
  BAD(0, ADD(0, 5), ADD(1, 4), REMOVE(6, 7), MISSED(8, 9));
}

static void two_winners(void **state)
{
  (void) state;
  GOOD(0, WIN(0, 3), PRESENT(1, 4));
  BAD(0, WIN(0, 3), WIN(1, 4));
  GOOD(0, WIN(0, 3), WIN(1, 4), REMOVE(2, 5));
  BAD(0, WIN(0, 3), WIN(1, 4), REMOVE(5, 6));
  BAD(1, WIN(0, 1));
}

static void no_winner(void **state)
{
  (void) state;
  BAD(0, PRESENT(0, 3), PRESENT(1, 4));
  GOOD(0, PRESENT(0, 3), PRESENT(1, 4), ADD(2, 5));
}

static void stale_answers(void **state)
{
  (void) state;
  GOOD(0, ADD(0, 2), MISSED(1, 4));
  BAD(0, ADD(0, 2), MISSED(3, 4));
  GOOD(1, REMOVE(0, 2), FOUND(1, 4));
  BAD(1, REMOVE(0, 2), FOUND(3, 4));
  /* There was a copy at any time, if the remove took the one that was there first. */
  BAD(1, ADD(0, 2), REMOVE(3, 8), MISSED(4, 5));
  GOOD(1, ADD(0, 5), REMOVE(3, 8), MISSED(4, 6));
}

static void absent_while_present(void **state)
{
  (void) state;
  BAD(1, ABSENT(0, 1));
  BAD(1, FOUND(0, 5), ABSENT(1, 4));
  GOOD(1, FOUND(0, 5), REMOVE(2, 3), ABSENT(1, 4));
  BAD(2, REMOVE(2, 3), ABSENT(1, 4));
}

static void wrong_counts(void **state)
{
  (void) state;
  GOOD(0, COUNT(0, 0, 1), ADD(2, 3), COUNT(1, 4, 5), ADD(6, 7), COUNT(2, 8, 9), REMOVE(10, 11),
       COUNT(1, 12, 13));
  BAD(2, COUNT(1, 0, 1));
  BAD(2, COUNT(3, 0, 1));
  GOOD(2, REMOVE(0, 9), COUNT(2, 1, 2), COUNT(1, 3, 4));
  BAD(2, REMOVE(0, 9), COUNT(1, 1, 2), COUNT(2, 3, 4));
  /* A copy that goes and one that comes were never both there. */
  BAD(1, REMOVE(0, 4), ADD(5, 9), COUNT(2, 1, 8));
  GOOD(1, REMOVE(0, 6), ADD(5, 9), COUNT(2, 1, 8));
  GOOD(0, WIN(0, 9), COUNT(1, 1, 2), PRESENT(3, 4), COUNT(1, 5, 6));
  BAD(0, ADD(0, 9), ADD(1, 8), COUNT(2, 2, 7), COUNT(0, 10, 11));
}

/* Found, then missed, while one remove is running; never the other way round. */
static void orders_across_returns(void **state)
{
  (void) state;
  GOOD(1, REMOVE(0, 9), FOUND(1, 2), MISSED(3, 4));
  BAD(1, REMOVE(0, 9), MISSED(1, 2), FOUND(3, 4));
  GOOD(1, REMOVE(0, 9), MISSED(1, 3), FOUND(2, 4));
  GOOD(1, REMOVE(0, 9), MISSED(1, 2), FOUND(5, 6), ADD(3, 8));
  BAD(1, REMOVE(0, 9), MISSED(1, 2), FOUND(5, 6), ADD(7, 8));
}

/* At a return the search must also consider what others did before, for their own sake. */
static void what_others_did_before(void **state)
{
  (void) state;
  GOOD(0, WIN(0, 9), ADD(1, 2), FOUND(3, 4));
  BAD(0, ADD(1, 2), WIN(3, 9), FOUND(5, 6));
  GOOD(0, WIN(0, 9), REMOVE(1, 8), ADD(2, 3), REMOVE(4, 5), ABSENT(6, 7));
}

static void failures_change_nothing(void **state)
{
  (void) state;
  GOOD(0, OP(HISTORY_ADD, TAMIS_EFULL, 0, 1), MISSED(2, 3));
  BAD(0, OP(HISTORY_ADD, TAMIS_ENOMEM, 0, 1), FOUND(2, 3));
  GOOD(1, OP(HISTORY_ADD_UNIQUE, TAMIS_EFULL, 0, 1), REMOVE(2, 3));
}

/* The interval of a batch is that of each of its calls. */
static void equal_intervals(void **state)
{
  (void) state;
  GOOD(0, PRESENT(0, 1), WIN(0, 1), PRESENT(0, 1));
  BAD(0, WIN(0, 1), WIN(0, 1));
  GOOD(0, REMOVE(0, 1), WIN(0, 1), WIN(0, 1));
  GOOD(0, MISSED(0, 1), FOUND(0, 1), ADD(0, 1));
}

static void too_many_pending(void **state)
{
  (void) state;
  static struct history_op ops[HISTORY_MOST_PENDING + 1];
  for (unsigned i = 0; i <= HISTORY_MOST_PENDING; i++)
    ops[i] = (struct history_op) ADD(i, 2 * i + 1000);
  assert_true(good(ops, HISTORY_MOST_PENDING, 0));
  struct history h = {.ops = ops, .n = HISTORY_MOST_PENDING + 1};
  struct history_verdict verdict = history_check(checker, &h);
  assert_false(verdict.good);
  assert_non_null(verdict.why);
}

/* ---- windows ---- */

static void periods_pass(void **state)
{
  (void) state;
  WINDOW(true, BLOOM, ADD(0, 1), ADVANCE(2, 3), FOUND(4, 5), ADVANCE(6, 7), MISSED(8, 9));
  WINDOW(false, BLOOM, ADD(0, 1), ADVANCE(2, 3), MISSED(4, 5));
  WINDOW(false, BLOOM, ADD(0, 1), ADVANCE(2, 3), ADVANCE(4, 5), FOUND(6, 7));
  WINDOW(true, BLOOM, ADD(0, 1), ADVANCE(2, 3), ADD(4, 5), ADVANCE(6, 7), COUNT(1, 8, 9));
  WINDOW(true, BLOOM, WIN(0, 1), ADVANCE(2, 3), PRESENT(4, 5), ADVANCE(6, 7), WIN(8, 9));
  WINDOW(false, BLOOM, WIN(0, 1), ADVANCE(2, 3), WIN(4, 5));
  WINDOW(true, BLOOM_RENEWS, WIN(0, 1), ADVANCE(2, 3), PRESENT(4, 5), ADVANCE(6, 7), FOUND(8, 9));
  WINDOW(false, BLOOM_RENEWS, WIN(0, 1), ADVANCE(2, 3), PRESENT(4, 5), ADVANCE(6, 7), WIN(8, 9));
  WINDOW(true, BLOOM, ADD(0, 1), ADVANCE(2, 9), FOUND(3, 4), ADVANCE(5, 6), FOUND(7, 8));
  WINDOW(false, BLOOM, ADD(0, 1), ADVANCE(2, 7), ADVANCE(3, 6), FOUND(8, 9));
}

/* An add belongs to the last period in which it runs, even if it was seen in the one before; but to
 * no later one, and a period does not last longer because of it. */
static void adds_that_meet_the_end_of_a_period(void **state)
{
  (void) state;
  WINDOW(true, BLOOM, ADD(0, 9), FOUND(1, 2), ADVANCE(3, 4), ADVANCE(10, 11), FOUND(12, 13));
  WINDOW(true, BLOOM, ADD(0, 9), FOUND(1, 2), ADVANCE(3, 4), ADVANCE(10, 11), MISSED(12, 13));
  WINDOW(true, BLOOM, ADD(0, 9), ADVANCE(3, 12), FOUND(10, 11), ADVANCE(14, 15), MISSED(16, 17));
  WINDOW(false, BLOOM, ADD(0, 2), ADVANCE(3, 4), ADVANCE(10, 11), FOUND(12, 13));
  WINDOW(false, BLOOM, ADD(0, 9), MISSED(4, 5), ADVANCE(10, 11), MISSED(12, 13));
  WINDOW(true, BLOOM, WIN(0, 9), ADVANCE(1, 8), WIN(0, 10), ADVANCE(1, 7));
  WINDOW(false, BLOOM, WIN(0, 9), ADVANCE(1, 8), WIN(0, 10));
  /* A unique add has found the key in its last period, and renews it in the next one. */
  WINDOW(true, BLOOM_RENEWS, WIN(0, 1), ADVANCE(2, 3), PRESENT(4, 9), ADVANCE(5, 6), MISSED(7, 8),
         FOUND(10, 11));
  WINDOW(false, BLOOM_RENEWS, WIN(0, 1), ADVANCE(2, 3), PRESENT(4, 9), ADVANCE(5, 6), MISSED(7, 8),
         MISSED(10, 11));
  WINDOW(false, BLOOM_RENEWS, WIN(0, 1), ADVANCE(2, 3), PRESENT(4, 9), FOUND(5, 6), MISSED(7, 8));
  /* Once more, and not as often as periods end. */
  WINDOW(true, BLOOM, ADD(0, 9), FOUND(1, 2), ADVANCE(3, 4), ADVANCE(5, 6), FOUND(7, 8));
  WINDOW(false, BLOOM, ADD(0, 15), FOUND(1, 2), ADVANCE(3, 4), FOUND(5, 6), ADVANCE(7, 8),
         FOUND(9, 10), ADVANCE(11, 12), FOUND(13, 14));
}

static void copies_live_as_long_as_the_last(void **state)
{
  (void) state;
  WINDOW(true, CUCKOO, ADD(0, 1), ADVANCE(2, 3), ADD(4, 5), ADVANCE(6, 7), COUNT(2, 8, 9),
         REMOVE(10, 11), COUNT(1, 12, 13), ADVANCE(14, 15), ABSENT(16, 17));
  WINDOW(false, CUCKOO, ADD(0, 1), ADVANCE(2, 3), ADD(4, 5), ADVANCE(6, 7), COUNT(1, 8, 9));
  WINDOW(true, CUCKOO, ADD(0, 1), ADD(2, 3), ADVANCE(4, 5), REMOVE(6, 7), ADVANCE(8, 9),
         COUNT(0, 10, 11), WIN(12, 13), COUNT(1, 14, 15));
  WINDOW(false, CUCKOO, ADD(0, 1), ADD(2, 3), ADVANCE(4, 5), ADVANCE(6, 7), WIN(8, 9),
         COUNT(2, 10, 11));
  /* One unique add that wins is one copy. */
  WINDOW(false, CUCKOO, ADD(0, 1), ADVANCE(2, 3), ADVANCE(4, 5), WIN(6, 7), REMOVE(8, 9),
         REMOVE(10, 11));
  WINDOW(true, CUCKOO_RENEWS, ADD(0, 1), ADD(2, 3), ADVANCE(4, 5), PRESENT(6, 7), ADVANCE(8, 9),
         COUNT(2, 10, 11));
}

/* An add in the midst of which a key is forgotten brings all copies back, and so does a unique add
 * that renews; but only if it had begun before, and only in the same period. */
static void copies_that_are_forgotten_in_the_midst_of_an_add(void **state)
{
  (void) state;
  WINDOW(true, CUCKOO, ADD(0, 1), ADD(2, 3), ADVANCE(4, 5), ADD(6, 13), ADVANCE(7, 8),
         COUNT(0, 9, 10), COUNT(3, 14, 15));
  WINDOW(true, CUCKOO, ADD(0, 1), ADD(2, 3), ADVANCE(4, 5), ADD(6, 13), ADVANCE(7, 8),
         COUNT(0, 9, 10), COUNT(1, 14, 15));
  WINDOW(false, CUCKOO, ADD(0, 1), ADD(2, 3), ADVANCE(4, 5), ADD(6, 13), ADVANCE(7, 8),
         COUNT(0, 9, 10), COUNT(2, 14, 15));
  WINDOW(false, CUCKOO, ADD(0, 1), ADD(2, 3), ADVANCE(4, 5), ADVANCE(6, 7), ADD(8, 13),
         COUNT(0, 9, 10), COUNT(3, 14, 15));
  WINDOW(false, CUCKOO, ADD(0, 1), ADD(2, 3), ADVANCE(4, 5), ADD(6, 19), ADVANCE(7, 8),
         COUNT(0, 9, 10), ADVANCE(11, 12), COUNT(0, 13, 14), COUNT(3, 20, 21));
  WINDOW(false, CUCKOO, ADD(0, 1), ADD(2, 3), ADVANCE(4, 5), ADD(6, 19), ADVANCE(7, 8), WIN(9, 10),
         REMOVE(11, 12), MISSED(13, 14), COUNT(3, 20, 21));
  WINDOW(true, CUCKOO_RENEWS, ADD(0, 1), ADD(2, 3), ADVANCE(4, 5), PRESENT(6, 13), ADVANCE(7, 8),
         MISSED(9, 10), COUNT(2, 14, 15));
  WINDOW(false, CUCKOO_RENEWS, ADD(0, 1), ADD(2, 3), ADVANCE(4, 5), PRESENT(6, 13), ADVANCE(7, 8),
         MISSED(9, 10), COUNT(1, 14, 15));
  /* A remove does not make a renewal undone. */
  WINDOW(false, CUCKOO_RENEWS, ADD(0, 1), PRESENT(2, 9), REMOVE(3, 4), MISSED(5, 6), FOUND(10, 11));
}

/* ---- all orders ---- */

/* Copies and their age; copies that the last advance has forgotten, and a set of calls that may
 * bring them back. */
struct now {
  uint64_t copies, age, lost;
  unsigned keepers;
};

/* What the call does at the instant that its answer is about. */
static bool apply(const struct history *h, const struct history_op *op, struct now now,
                  struct now *then)
{
  *then = now;
  switch (op->call) {
  case HISTORY_ADD:
  case HISTORY_ADD_UNIQUE:
    if (op->result == TAMIS_OK)
      *then = (struct now){.copies = h->once ? 1 : now.copies + 1};
    return op->result < 0 || op->call == HISTORY_ADD ||
           (op->result == TAMIS_OK) == (now.copies == 0);
  case HISTORY_CONTAINS:
    return (op->result == 1) == (now.copies > 0);
  case HISTORY_COUNT:
    return (uint64_t) op->result == now.copies;
  case HISTORY_ADVANCE:
    *then = (struct now){.copies = now.copies, .age = now.age + 1};
    if (then->age > h->window || !now.copies)
      *then = (struct now){.lost = now.copies};
    return true;
  default:
    then->copies -= op->result == TAMIS_OK;
    return (op->result == TAMIS_OK) == (now.copies > 0);
  }
}

/* The calls that have answered; those that have then renewed the key, as they must; and those that
 * have renewed it at a later instant, as all that add may. */
struct progress {
  unsigned answered, renewed, again;
};

static bool renews(const struct history *h, unsigned i)
{
  return h->renews && h->ops[i].call == HISTORY_ADD_UNIQUE && h->ops[i].result == TAMIS_PRESENT;
}

static bool is_done(const struct history *h, struct progress p, unsigned i)
{
  return p.answered >> i & 1 && (!renews(h, i) || p.renewed >> i & 1);
}

/* Whether a call that has answered still runs: none has answered that began after its return. */
static bool still_runs(const struct history *h, struct progress p, unsigned i)
{
  for (unsigned j = 0; j < h->n; j++)
    if (p.answered >> j & 1 && h->ops[j].invoked > h->ops[i].returned)
      return false;
  return p.answered >> i & 1;
}

static bool may_answer(const struct history *h, struct progress p, unsigned i)
{
  for (unsigned j = 0; j < h->n; j++)
    if (j != i && h->ops[j].returned < h->ops[i].invoked && !is_done(h, p, j))
      return false;
  return !(p.answered >> i & 1);
}

static bool some_order(const struct history *h, struct progress p, struct now now);

/* The calls in which a key may be written that has just been forgotten, if they had begun by then:
 * those that have not answered yet, or have not renewed it yet. */
static unsigned may_keep(const struct history *h, struct progress p)
{
  unsigned set = 0;
  for (unsigned i = 0; i < h->n; i++) {
    bool adds = h->ops[i].call == HISTORY_ADD && h->ops[i].result == TAMIS_OK && !h->once;
    bool answered = p.answered >> i & 1;
    if ((adds && !answered) || (answered && !is_done(h, p, i)))
      set |= 1u << i;
  }
  return set;
}

/* Those of them that can have begun before a call returned. */
static unsigned begun_before(const struct history *h, unsigned set, const struct history_op *op)
{
  for (unsigned i = 0; i < h->n; i++)
    if (h->ops[i].invoked > op->returned)
      set &= ~(1u << i);
  return set;
}

/* Whether call i can take its next step, and all others can follow. */
static bool can_go_on(const struct history *h, struct progress p, unsigned i, struct now now)
{
  const struct history_op *op = &h->ops[i];
  struct now then;
  struct progress next = p;
  next.answered |= 1u << i;
  /* What was forgotten was forgotten before this call returned. */
  now.keepers = begun_before(h, now.keepers, op);
  bool keeps = now.lost && now.keepers >> i & 1;
  if (may_answer(h, p, i) && apply(h, op, now, &then)) {
    if (op->call == HISTORY_ADVANCE && then.lost)
      then.keepers = begun_before(h, may_keep(h, p), op);
    if (some_order(h, next, then))
      return true;
    if (keeps && op->call == HISTORY_ADD &&
        some_order(h, next, (struct now){.copies = now.lost + 1}))
      return true;
  }
  if (!still_runs(h, p, i))
    return false;
  if (!is_done(h, p, i)) {
    next.renewed |= 1u << i;
    return (now.copies || keeps) &&
           some_order(h, next, (struct now){.copies = now.copies ? now.copies : now.lost});
  }
  bool added = renews(h, i) || (op->call <= HISTORY_ADD_UNIQUE && !op->result);
  next.again |= 1u << i;
  return added && now.age && !(p.again >> i & 1) &&
         some_order(h, next, (struct now){.copies = now.copies});
}

/* Whether the calls that are not done can follow, in some order. */
static bool some_order(const struct history *h, struct progress p, struct now now)
{
  unsigned done = 0;
  for (unsigned i = 0; i < h->n; i++)
    done += is_done(h, p, i);
  if (done == h->n)
    return true;
  for (unsigned i = 0; i < h->n; i++)
    if (can_go_on(h, p, i, now))
      return true;
  return false;
}

static struct history_op random_op(uint64_t *seed, uint64_t times, bool window)
{
  static const struct history_op what[] = {ADD(0, 0),
                                           ADD(0, 0),
                                           WIN(0, 0),
                                           PRESENT(0, 0),
                                           FOUND(0, 0),
                                           MISSED(0, 0),
                                           REMOVE(0, 0),
                                           REMOVE(0, 0),
                                           COUNT(0, 0, 0),
                                           COUNT(1, 0, 0),
                                           COUNT(2, 0, 0),
                                           ABSENT(0, 0),
                                           OP(HISTORY_ADD_UNIQUE, TAMIS_EFULL, 0, 0),
                                           ADVANCE(0, 0),
                                           ADVANCE(0, 0),
                                           ADVANCE(0, 0),
                                           ADVANCE(0, 0)};
  struct history_op op = what[random_next(seed) % (sizeof what / sizeof *what - (window ? 0 : 4))];
  uint64_t a = random_next(seed) % times, b = random_next(seed) % times;
  op.invoked = a < b ? a : b;
  op.returned = a < b ? b : a;
  return op;
}

static void same_as_all_orders(void **state)
{
  (void) state;
  uint64_t seed = 42, goods = 0;
  for (unsigned i = 0; i < RANDOM_HISTORIES; i++) {
    struct history_op ops[MOST_OPS];
    size_t n = 1 + random_next(&seed) % MOST_OPS;
    uint64_t times = 3 + random_next(&seed) % 20;
    for (size_t k = 0; k < n; k++)
      ops[k] = random_op(&seed, times, i % 2);
    struct history h = {.ops = ops, .n = n, .copies = random_next(&seed) % 3};
    if (i % 2) {
      h.window = 1 + (unsigned) (random_next(&seed) % 2);
      h.renews = random_next(&seed) % 2;
      h.once = random_next(&seed) % 2;
    }
    bool expected = some_order(&h, (struct progress){0, 0, 0}, (struct now){.copies = h.copies});
    if (is_good(&h) != expected) {
      history_explain(stderr, checker, &h);
      fail_msg("history %u should be %s", i, expected ? "good" : "bad");
    }
    goods += expected;
  }
  assert_in_range(goods, RANDOM_HISTORIES / 10, RANDOM_HISTORIES / 10 * 9);
}

/* Made from a true order, so good; long, and with many calls pending. */
static void long_histories(void **state)
{
  (void) state;
  enum { LONG = 20000, STEP = 10 };
  static struct history_op ops[LONG];
  struct history h = {.ops = ops, .n = LONG};
  struct now now = {0};
  uint64_t seed = 7;
  for (unsigned width = 1; width <= 12; width += 11) {
    now.copies = 0;
    for (unsigned i = 0; i < LONG; i++) {
      struct history_op *op = &ops[i];
      op->call = (uint8_t) (random_next(&seed) % HISTORY_ADVANCE);
      op->result = (int) (op->call == HISTORY_ADD          ? TAMIS_OK
                          : op->call == HISTORY_ADD_UNIQUE ? (now.copies ? TAMIS_PRESENT : TAMIS_OK)
                          : op->call == HISTORY_CONTAINS   ? now.copies > 0
                          : op->call == HISTORY_COUNT      ? (int) now.copies
                                                      : (now.copies ? TAMIS_OK : TAMIS_ABSENT));
      assert_true(apply(&h, op, now, &now));
      op->invoked = 1000 + (uint64_t) i * STEP - random_next(&seed) % (STEP * width);
      op->returned = 1000 + (uint64_t) i * STEP + random_next(&seed) % (STEP * width);
    }
    struct history_verdict verdict = history_check(checker, &h);
    assert_true(verdict.good);
    assert_int_equal(verdict.copies.least, now.copies);
    assert_int_equal(verdict.copies.most, now.copies);
  }
  /* One answer that is wrong, far from any other call. */
  ops[LONG - 1] = (struct history_op) OP(HISTORY_CONTAINS, now.copies == 0, 10000000, 10000001);
  struct history_verdict verdict = history_check(checker, &h);
  assert_false(verdict.good);
  assert_int_equal(verdict.stuck, LONG - 1);
}

/* ---- the picture ---- */

static void the_picture_shows_the_call(void **state)
{
  (void) state;
  const struct history_op ops[] = {ADD(0, 2), REMOVE(1, 9), ADD(3, 4), MISSED(5, 6), ADD(7, 8)};
  struct history h = {.ops = ops, .n = sizeof ops / sizeof *ops};
  char text[4096] = {0};
  FILE *out = fmemopen(text, sizeof text - 1, "w");
  assert_non_null(out);
  history_explain(out, checker, &h);
  fclose(out);
  assert_non_null(strstr(text, "     0  contains    false         ||     <== no instant fits"));
  assert_non_null(strstr(text, "allow 1 to 2 copies"));
  if (getenv("SHOW"))
    printf("%s", text);
}

static int make_checker(void **state)
{
  (void) state;
  checker = history_checker_create();
  return checker == NULL;
}

static int destroy_checker(void **state)
{
  (void) state;
  history_checker_destroy(checker);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_after_the_other),
      cmocka_unit_test(a_lost_add),
      cmocka_unit_test(two_winners),
      cmocka_unit_test(no_winner),
      cmocka_unit_test(stale_answers),
      cmocka_unit_test(absent_while_present),
      cmocka_unit_test(wrong_counts),
      cmocka_unit_test(orders_across_returns),
      cmocka_unit_test(what_others_did_before),
      cmocka_unit_test(failures_change_nothing),
      cmocka_unit_test(equal_intervals),
      cmocka_unit_test(too_many_pending),
      cmocka_unit_test(periods_pass),
      cmocka_unit_test(adds_that_meet_the_end_of_a_period),
      cmocka_unit_test(copies_live_as_long_as_the_last),
      cmocka_unit_test(copies_that_are_forgotten_in_the_midst_of_an_add),
      cmocka_unit_test(same_as_all_orders),
      cmocka_unit_test(long_histories),
      cmocka_unit_test(the_picture_shows_the_call)};
  return cmocka_run_group_tests(tests, make_checker, destroy_checker);
}
