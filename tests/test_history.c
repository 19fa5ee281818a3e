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

static struct history_checker *checker;

static bool good(const struct history_op *ops, size_t n, uint64_t copies)
{
  struct history h = {ops, n, copies};
  struct history_verdict verdict = history_check(checker, &h);
  assert_null(verdict.why);
  return verdict.good;
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
  struct history h = {ops, HISTORY_MOST_PENDING + 1, 0};
  struct history_verdict verdict = history_check(checker, &h);
  assert_false(verdict.good);
  assert_non_null(verdict.why);
}

/* ---- all orders ---- */

static bool apply(const struct history_op *op, uint64_t copies, uint64_t *then)
{
  *then = copies;
  switch (op->call) {
  case HISTORY_ADD:
    *then += op->result == TAMIS_OK;
    return true;
  case HISTORY_ADD_UNIQUE:
    *then += op->result == TAMIS_OK;
    return op->result < 0 || (op->result == TAMIS_OK) == (copies == 0);
  case HISTORY_CONTAINS:
    return (op->result == 1) == (copies > 0);
  case HISTORY_COUNT:
    return (uint64_t) op->result == copies;
  default:
    *then -= op->result == TAMIS_OK;
    return (op->result == TAMIS_OK) == (copies > 0);
  }
}

/* Whether the calls that are not done can follow, in some order. */
static bool some_order(const struct history *h, unsigned done, uint64_t copies)
{
  if (done + 1 == 1u << h->n)
    return true;
  for (unsigned i = 0; i < h->n; i++) {
    bool may = !(done >> i & 1);
    for (unsigned j = 0; j < h->n && may; j++)
      may = done >> j & 1 || j == i || h->ops[j].returned >= h->ops[i].invoked;
    uint64_t then;
    if (may && apply(&h->ops[i], copies, &then) && some_order(h, done | 1u << i, then))
      return true;
  }
  return false;
}

static struct history_op random_op(uint64_t *seed, uint64_t times)
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
                                           OP(HISTORY_ADD_UNIQUE, TAMIS_EFULL, 0, 0)};
  struct history_op op = what[random_next(seed) % (sizeof what / sizeof *what)];
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
      ops[k] = random_op(&seed, times);
    struct history h = {ops, n, random_next(&seed) % 3};
    bool expected = some_order(&h, 0, h.copies);
    if (good(ops, n, h.copies) != expected) {
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
  uint64_t seed = 7, copies = 0;
  for (unsigned width = 1; width <= 12; width += 11) {
    copies = 0;
    for (unsigned i = 0; i < LONG; i++) {
      struct history_op *op = &ops[i];
      op->call = (uint8_t) (random_next(&seed) % HISTORY_CALLS);
      op->result = (int) (op->call == HISTORY_ADD          ? TAMIS_OK
                          : op->call == HISTORY_ADD_UNIQUE ? (copies ? TAMIS_PRESENT : TAMIS_OK)
                          : op->call == HISTORY_CONTAINS   ? copies > 0
                          : op->call == HISTORY_COUNT      ? (int) copies
                                                           : (copies ? TAMIS_OK : TAMIS_ABSENT));
      assert_true(apply(op, copies, &copies));
      op->invoked = 1000 + (uint64_t) i * STEP - random_next(&seed) % (STEP * width);
      op->returned = 1000 + (uint64_t) i * STEP + random_next(&seed) % (STEP * width);
    }
    assert_true(good(ops, LONG, 0));
    struct history h = {ops, LONG, 0};
    assert_int_equal(history_copies_after(&h), copies);
  }
  /* One answer that is wrong, far from any other call. */
  ops[LONG - 1] = (struct history_op) OP(HISTORY_CONTAINS, copies == 0, 10000000, 10000001);
  struct history h = {ops, LONG, 0};
  struct history_verdict verdict = history_check(checker, &h);
  assert_false(verdict.good);
  assert_int_equal(verdict.stuck, LONG - 1);
}

/* ---- the picture ---- */

static void the_picture_shows_the_call(void **state)
{
  (void) state;
  const struct history_op ops[] = {ADD(0, 2), REMOVE(1, 9), ADD(3, 4), MISSED(5, 6), ADD(7, 8)};
  struct history h = {ops, sizeof ops / sizeof *ops, 0};
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_after_the_other),
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
                                     cmocka_unit_test(same_as_all_orders),
                                     cmocka_unit_test(long_histories),
                                     cmocka_unit_test(the_picture_shows_the_call)};
  return cmocka_run_group_tests(tests, make_checker, destroy_checker);
}
