/* SPDX-License-Identifier: MIT
 *
 * The check of histories: good ones pass, and those with one wrong call do not.  For thousands of
 * small random histories it agrees with a search of all orders.
 */
#include "unit.h"

#include "harness.h"
#include "history.h"

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

/* ---- examples, which say what the search of all orders should find ---- */

enum kind { PLAIN, BLOOM, BLOOM_RENEWS, CUCKOO, CUCKOO_RENEWS }; /* of windows: of one period */
enum { MOST_EXAMPLE_OPS = 10 };

static const struct example {
  bool good;
  enum kind kind;
  uint64_t copies; /* at the beginning */
  struct history_op ops[MOST_EXAMPLE_OPS];
} examples[] = {
    {true, PLAIN, 0, {ADD(2, 3), FOUND(4, 5), REMOVE(6, 7), MISSED(8, 9), ABSENT(10, 11)}},
    {true, PLAIN, 2, {REMOVE(1, 2), REMOVE(3, 4), ABSENT(5, 6)}},
    {false, PLAIN, 0, {FOUND(1, 2)}},
    {false, PLAIN, 1, {MISSED(1, 2)}},
    {false, PLAIN, 0, {REMOVE(1, 2)}},
    /* a lost add, two winners, no winner */
    {true, PLAIN, 0, {ADD(0, 5), ADD(1, 4), REMOVE(6, 7), REMOVE(8, 9)}},
    {false, PLAIN, 0, {ADD(0, 5), ADD(1, 4), REMOVE(6, 7), ABSENT(8, 9)}},
    {true, PLAIN, 0, {WIN(0, 3), PRESENT(1, 4)}},
    {false, PLAIN, 0, {WIN(0, 3), WIN(1, 4)}},
    {true, PLAIN, 0, {WIN(0, 3), WIN(1, 4), REMOVE(2, 5)}},
    {false, PLAIN, 0, {PRESENT(0, 3), PRESENT(1, 4)}},
    /* stale answers; there was a copy at any time, if the remove took the one that was there first */
    {true, PLAIN, 0, {ADD(0, 2), MISSED(1, 4)}},
    {false, PLAIN, 0, {ADD(0, 2), MISSED(3, 4)}},
    {false, PLAIN, 1, {REMOVE(0, 2), FOUND(3, 4)}},
    {false, PLAIN, 1, {ADD(0, 2), REMOVE(3, 8), MISSED(4, 5)}},
    {true, PLAIN, 1, {ADD(0, 5), REMOVE(3, 8), MISSED(4, 6)}},
    {false, PLAIN, 1, {FOUND(0, 5), ABSENT(1, 4)}},
    /* counts; a copy that goes and one that comes were never both there */
    {true, PLAIN, 2, {REMOVE(0, 9), COUNT(2, 1, 2), COUNT(1, 3, 4)}},
    {false, PLAIN, 2, {REMOVE(0, 9), COUNT(1, 1, 2), COUNT(2, 3, 4)}},
    {false, PLAIN, 1, {REMOVE(0, 4), ADD(5, 9), COUNT(2, 1, 8)}},
    /* found, then missed, while one remove is running; never the other way round */
    {true, PLAIN, 1, {REMOVE(0, 9), FOUND(1, 2), MISSED(3, 4)}},
    {false, PLAIN, 1, {REMOVE(0, 9), MISSED(1, 2), FOUND(3, 4)}},
    /* at a return the search also considers what others did before, for their own sake */
    {true, PLAIN, 0, {WIN(0, 9), REMOVE(1, 8), ADD(2, 3), REMOVE(4, 5), ABSENT(6, 7)}},
    /* failures change nothing; the interval of a batch is that of each of its calls */
    {false, PLAIN, 0, {OP(HISTORY_ADD, TAMIS_ENOMEM, 0, 1), FOUND(2, 3)}},
    {true, PLAIN, 0, {PRESENT(0, 1), WIN(0, 1), PRESENT(0, 1)}},
    {false, PLAIN, 0, {WIN(0, 1), WIN(0, 1)}},
    /* periods pass */
    {true, BLOOM, 0, {ADD(0, 1), ADVANCE(2, 3), FOUND(4, 5), ADVANCE(6, 7), MISSED(8, 9)}},
    {false, BLOOM, 0, {ADD(0, 1), ADVANCE(2, 3), MISSED(4, 5)}},
    {false, BLOOM, 0, {ADD(0, 1), ADVANCE(2, 3), ADVANCE(4, 5), FOUND(6, 7)}},
    {true, BLOOM, 0, {WIN(0, 1), ADVANCE(2, 3), PRESENT(4, 5), ADVANCE(6, 7), WIN(8, 9)}},
    {true, BLOOM_RENEWS, 0, {WIN(0, 1), ADVANCE(2, 3), PRESENT(4, 5), ADVANCE(6, 7), FOUND(8, 9)}},
    {false, BLOOM_RENEWS, 0, {WIN(0, 1), ADVANCE(2, 3), PRESENT(4, 5), ADVANCE(6, 7), WIN(8, 9)}},
    {false, BLOOM, 0, {ADD(0, 1), ADVANCE(2, 7), ADVANCE(3, 6), FOUND(8, 9)}},
    /* an add belongs to the last period in which it runs, or to the one in which it was seen */
    {true, BLOOM, 0, {ADD(0, 9), FOUND(1, 2), ADVANCE(3, 4), ADVANCE(10, 11), FOUND(12, 13)}},
    {true, BLOOM, 0, {ADD(0, 9), FOUND(1, 2), ADVANCE(3, 4), ADVANCE(10, 11), MISSED(12, 13)}},
    {false, BLOOM, 0, {ADD(0, 2), ADVANCE(3, 4), ADVANCE(10, 11), FOUND(12, 13)}},
    {false, BLOOM, 0, {ADD(0, 9), MISSED(4, 5), ADVANCE(10, 11), MISSED(12, 13)}},
    /* a unique add renews the key as soon as it has found it */
    {false, BLOOM_RENEWS, 0, {WIN(0, 1), ADVANCE(2, 3), PRESENT(4, 9), FOUND(5, 6), MISSED(7, 8)}},
    /* copies live as long as the last */
    {true,
     CUCKOO,
     0,
     {ADD(0, 1), ADVANCE(2, 3), ADD(4, 5), ADVANCE(6, 7), COUNT(2, 8, 9), REMOVE(10, 11),
      COUNT(1, 12, 13), ADVANCE(14, 15), ABSENT(16, 17)}},
    {false, CUCKOO, 0, {ADD(0, 1), ADVANCE(2, 3), ADD(4, 5), ADVANCE(6, 7), COUNT(1, 8, 9)}},
    /* an add in the midst of which a key is forgotten brings all copies back, if it had begun before */
    {true,
     CUCKOO,
     0,
     {ADD(0, 1), ADD(2, 3), ADVANCE(4, 5), ADD(6, 13), ADVANCE(7, 8), COUNT(0, 9, 10),
      COUNT(3, 14, 15)}},
    /* a remove does not make a renewal undone */
};

static struct history history_of(const struct example *e)
{
  struct history h = {.ops = e->ops, .copies = e->copies};
  h.window = e->kind != PLAIN;
  h.renews = e->kind == BLOOM_RENEWS || e->kind == CUCKOO_RENEWS;
  h.once = e->kind == BLOOM || e->kind == BLOOM_RENEWS;
  while (h.n < MOST_EXAMPLE_OPS && e->ops[h.n].returned)
    h.n++;
  return h;
}

TEST(too_many_pending)
{
  static struct history_op ops[HISTORY_MOST_PENDING + 1];
  for (unsigned i = 0; i <= HISTORY_MOST_PENDING; i++)
    ops[i] = (struct history_op) ADD(i, 2 * i + 1000);
  struct history h = {.ops = ops, .n = HISTORY_MOST_PENDING};
  assert_true(is_good(&h));
  h.n++;
  struct history_verdict verdict = history_check(checker, &h);
  assert_false(verdict.good);
  assert_non_null(verdict.why);
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

static void expect(const struct history *h, bool expected, unsigned number)
{
  if (is_good(h) != expected) {
    history_explain(stderr, checker, h);
    fail_msg("history %u should be %s", number, expected ? "good" : "bad");
  }
}

static bool all_orders(const struct history *h)
{
  return some_order(h, (struct progress){0, 0, 0}, (struct now){.copies = h->copies});
}

TEST(examples_are_as_they_should_be)
{
  expect(&(struct history){.ops = NULL}, true, 0);
  for (unsigned i = 0; i < sizeof examples / sizeof *examples; i++) {
    struct history h = history_of(&examples[i]);
    expect(&h, examples[i].good, i);
    assert_int_equal(all_orders(&h), examples[i].good);
  }
}

TEST(same_as_all_orders)
{
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
    bool expected = all_orders(&h);
    expect(&h, expected, i);
    goods += expected;
  }
  assert_in_range(goods, RANDOM_HISTORIES / 10, RANDOM_HISTORIES / 10 * 9);
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
  return run_all_tests_between(make_checker, destroy_checker);
}
