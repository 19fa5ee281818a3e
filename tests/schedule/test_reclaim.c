/* SPDX-License-Identifier: MIT
 *
 * Blocks that are retired, and forks, between the steps of the thread that waits for readers, and of
 * one that asks for memory back.  Built with the hooks.
 */
#include "reclaim_fixture.h"

#include "base/hook.h"
#include "schedule.h"

/* The thread that comes to `place` stands there when the fork comes.  The child is to call `run`. */
static void fork_at(const char *place, struct fixture *x, bool (*run)(struct fixture *x))
{
  schedule_wait(place, 1);
  pid_t child = fork_child();
  if (child == 0) {
    atomic_store(&tamis__hook, NULL);
    _exit(run(x) ? 0 : 1);
  }
  schedule_go();
  assert_int_equal(wait_for(child), 0);
}

static bool drained(struct fixture *x, unsigned n)
{
  AWAIT(atomic_load(&released) >= n, tamis__backlog_drain(&x->backlog, false));
  return atomic_load(&released) == n;
}

/* A block that is retired during a grace period waits for the next one, whichever filter has begun
 * the first: a reader may have come since. */
TEST(what_comes_during_a_grace_period_waits_for_the_next)
{
  for (unsigned filters = 1; filters <= 2; filters++) {
    static struct fixture x, other; /* of a reader that a failure leaves behind, too */
    static struct long_reader late;
    static _Atomic(struct block *) shared;
    struct fixture *y = filters > 1 ? &other : &x;
    begin(&x);
    if (y != &x)
      begin(y);
    shared = make_block(y);
    schedule_stop_at("reclaim_waited");
    retire(&x, make_block(&x));
    schedule_wait("reclaim_waited", 1);
    begin_to_read(&late, &shared, NULL);
    retire(y, atomic_exchange(&shared, NULL));
    schedule_go();
    assert_true(drained(&x, 1));
    for (unsigned i = 0; i < 50; i++, usleep(1000)) {
      tamis__backlog_drain(&y->backlog, false);
      assert_int_equal(atomic_load(&released), 1);
    }
    end_reading(&late);
    assert_true(drained(y, 2));
    if (y != &x) {
      x.retired += y->retired; /* which `released` counts together */
      tamis__backlog_destroy(&y->backlog);
    }
    end(&x);
  }
}

static bool drained_of_one(struct fixture *x)
{
  return drained(x, 1);
}

/* In the child, where the waiting thread is not, another one waits for what was asked for. */
TEST(a_fork_in_a_grace_period)
{
  skip_where_no_child_has_threads();
  static const char *const places[] = {"reclaim_begun", "reclaim_waited"};
  for (unsigned i = 0; i < 2; i++) {
    struct fixture x;
    begin(&x);
    schedule_stop_at(places[i]);
    retire(&x, make_block(&x));
    fork_at(places[i], &x, drained_of_one);
    assert_true(drained(&x, 1)); /* in the parent all goes on */
    end(&x);
  }
}

static reader_token reader;

static bool elapses_when_it_leaves(struct fixture *x)
{
  for (unsigned i = 0; i < 50; i++, usleep(1000))
    tamis__backlog_drain(&x->backlog, false);
  bool good = atomic_load(&released) == 0;
  reader_leave(reader);
  return good && drained(x, 1);
}

/* In the child nobody is inside any more who was when the parent's thread began: but a reader of
 * the child's own is. */
TEST(a_grace_period_of_the_parent_does_not_elapse_in_the_child)
{
  skip_where_no_child_has_threads();
  struct fixture x;
  begin(&x);
  schedule_stop_at("reclaim_begun");
  reader = reader_enter();
  retire(&x, make_block(&x));
  fork_at("reclaim_begun", &x, elapses_when_it_leaves);
  reader_leave(reader);
  assert_true(drained(&x, 1));
  end(&x);
}

static void *retire_one(void *x)
{
  retire(x, make_block(x));
  return NULL;
}

static bool loses_one(struct fixture *x)
{
  bool good = atomic_load(&released) == 0;
  retire(x, make_block(x));
  good &= drained(x, 1);
  tamis__backlog_destroy(&x->backlog);
  return good && atomic_load(&released) == 1;
}

/* A thread has the lock, and a block on its way from one list to the other: which the child loses,
 * but does not release twice. */
TEST(a_fork_while_lists_change)
{
  skip_where_no_child_has_threads();
  struct fixture x;
  pthread_t thread;
  begin(&x);
  schedule_stop_at("backlog_moved");
  assert_int_equal(pthread_create(&thread, NULL, retire_one, &x), 0);
  fork_at("backlog_moved", &x, loses_one);
  pthread_join(thread, NULL);
  assert_true(drained(&x, 1)); /* in the parent nothing is lost */
  end(&x);
}
